//! Runs the parts of `fixtures/cuda/silicon/run.sh` on a CUDA driver library, and compares it with the software driver:
//!
//! ```text
//! silicon PART --library PATH --out FOLDER [--short] [--tools FOLDER]
//! silicon report --out FOLDER RESULTS...
//! ```
//!
//! Each part adds what it found to `results.json` in the folder. `report` puts such files together into one that is
//! named after the day and the device, with a page in Markdown. A part that cannot run says why.

mod children;
#[path = "../../tests/suite/container.rs"]
mod container;
mod cost;
mod faults;
mod forms;
mod gpu;
mod probe;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use vireo_core::status::{Result, Status};
use vireo_cuda_driver::library;
use vireo_stream::context::Library;

/// The library, folders and flags that a part is run with.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The library, or a folder with one.
    pub library: PathBuf,
    /// The folder of `results.json`.
    pub out: PathBuf,
    /// The folder of programs and data.
    pub tools: PathBuf,
    /// Whether it takes seconds, and shows that the part works.
    pub short: bool,
    /// The words that are no flags.
    pub rest: Vec<String>,
}

impl Request {
    /// The library under test.
    pub fn real(&self) -> Result<Arc<Library>> {
        // SAFETY: the user names a CUDA driver library.
        unsafe { library::load(std::slice::from_ref(&self.library), None) }
    }

    /// The same software that the comparison is with, as a device of this compute capability.
    pub fn software(capability: (i32, i32)) -> Result<Arc<Library>> {
        let number = capability.0 * 10 + capability.1;
        // A model of the capability, or the newest one that is older.
        let known = vireo_cuda::devices::TABLES.iter().filter_map(|(name, ..)| name.strip_prefix("sm_")?.parse().ok());
        let sm = known.filter(|known: &u32| i64::from(*known) <= i64::from(number)).max().unwrap_or(86);
        let _ = vireo_softcuda::configure(vireo_softcuda::Options { sm, ..vireo_softcuda::Options::default() });
        // SAFETY: it finds the functions of one library, which is part of the program.
        unsafe { library::start_found(vireo_softcuda::entries::cuGetProcAddress_v2, None) }
    }
}

fn request() -> Option<(String, Request)> {
    let mut words = std::env::args().skip(1);
    let part = words.next()?;
    let mut request = Request::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--library" => request.library = words.next()?.into(),
            "--out" => request.out = words.next()?.into(),
            "--tools" => request.tools = words.next()?.into(),
            "--short" => request.short = true,
            _ => request.rest.push(word),
        }
    }
    Some((part, request))
}

fn run(part: &str, request: &Request) -> Result<Value> {
    match part {
        "probe" => probe::probe(request),
        "forms" => forms::forms(request),
        "faults" => faults::faults(request),
        "cost" => cost::cost(request),
        "conform" => children::conform(request),
        "order" => children::order(request),
        "corpus" => children::corpus(request),
        "nccl" => children::nccl(request),
        "clients" => children::clients(request),
        _ => Err(Status::invalid_argument(format!("there is no part `{part}`"))),
    }
}

/// The outcome of a part that did not run.
pub fn skipped(why: impl Into<String>) -> Value {
    json!({"outcome": "skipped", "why": why.into()})
}

/// Reads `results.json` of a folder, if there is one.
fn results(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("results.json")).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_else(|_| json!({"parts": {}}))
}

fn main() -> ExitCode {
    let Some((part, request)) = request() else {
        eprintln!("silicon PART --library PATH --out FOLDER [--short] [--tools FOLDER]");
        return ExitCode::from(2);
    };
    match part.as_str() {
        "fault" => return faults::child(&request),
        "report" => {
            return match report::report(&request) {
                Ok(page) => {
                    println!("{}", page.display());
                    ExitCode::SUCCESS
                }
                Err(error) => {
                    eprintln!("report: {error}");
                    ExitCode::FAILURE
                }
            };
        }
        _ => {}
    }
    let began = std::time::Instant::now();
    let mut outcome =
        run(&part, &request).unwrap_or_else(|status| json!({"outcome": "failed", "why": status.to_string()}));
    outcome["seconds"] = json!((began.elapsed().as_secs_f64() * 10.0).round() / 10.0);
    let mut all = results(&request.out);
    let word = outcome["outcome"].as_str().unwrap_or("failed").to_string();
    let why = outcome["why"].as_str().map_or_else(String::new, |why| format!(": {why}"));
    println!("{part}: {word}{why}");
    all["parts"][&part] = outcome;
    if let Err(error) = std::fs::write(request.out.join("results.json"), format!("{all:#}\n")) {
        eprintln!("{}: {error}", request.out.display());
        return ExitCode::FAILURE;
    }
    if word == "passed" || word == "skipped" { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
