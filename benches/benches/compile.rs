//! The benchmark of the JIT's compile time: nanoseconds per op of bytecode, for the functions of all fixtures and the
//! kernels in portable bytecode inside them.
//!
//! `cargo bench -p vireo-benches --bench compile`, with module files after `--` instead of the fixtures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vireo::interp::CodeShape;
use vireo::vm::Module;
use vireo::vmfb::Archive;

/// Attempts for each function: the fastest counts.
const ATTEMPTS: u32 = 30;
/// Functions with fewer ops say more of what each function costs than of what each op does.
const SMALL: usize = 16;

/// A function that has been compiled.
struct Sample {
    name: String,
    ops: usize,
    time: Duration,
    bytes: usize,
}

impl Sample {
    fn per_op(&self) -> f64 {
        self.time.as_nanos() as f64 / self.ops as f64
    }
}

/// The fixtures that are modules, in all folders.
fn fixtures(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            fixtures(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "vmfb") {
            found.push(path);
        }
    }
}

/// A module and the executables in its data that are modules, too.
fn modules(path: &Path) -> Vec<(bool, Module)> {
    // Some fixtures are damaged, and some only fit what is not here.
    let Ok(module) = Module::from_file(path) else { return Vec::new() };
    let Some(archive) = module.archive() else { return Vec::new() };
    let segments = archive.rodata().filter_map(|segment| archive.bytes().get(segment.range));
    let kernels = segments.filter_map(|bytes| Archive::from_bytes(bytes).ok());
    let mut kernels: Vec<_> = kernels.filter_map(|archive| Module::from_archive(archive).ok()).collect();
    // As the loader of kernels does.
    kernels.iter_mut().for_each(|kernel| kernel.set_code_shape(CodeShape::KERNELS));
    std::iter::once((false, module)).chain(kernels.into_iter().map(|module| (true, module))).collect()
}

fn has_loop(module: &Module, ordinal: usize) -> bool {
    let Ok(Some(compiled)) = module.compiled(ordinal) else { return false };
    let depth = |text: &str| text.rsplit_once("depth ").is_some_and(|(_, depth)| depth != "0");
    compiled.parts.iter().any(|part| part.begins_block && depth(&part.text))
}

fn print(title: &str, samples: &mut [Sample]) {
    if samples.is_empty() {
        return;
    }
    samples.sort_by(|one, other| one.per_op().total_cmp(&other.per_op()));
    let (ops, bytes): (usize, usize) =
        samples.iter().fold((0, 0), |(ops, bytes), one| (ops + one.ops, bytes + one.bytes));
    let time: Duration = samples.iter().map(|one| one.time).sum();
    let at = |part: usize| samples[(samples.len() - 1) * part / 10].per_op();
    let per_op = time.as_nanos() as f64 / ops as f64;
    println!(
        "{title:<40} {:>9} {ops:>8} {:>9.1} {per_op:>9.0} {:>9.0} {:>9.0} {:>9.0}",
        samples.len(),
        bytes as f64 / ops as f64,
        at(5),
        at(9),
        at(10)
    );
    let listed = std::env::var("VIREO_SLOWEST").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
    for one in samples.iter().rev().take(listed) {
        println!("    {:>7.0} ns/op  {:>6} ops  {}", one.per_op(), one.ops, one.name);
    }
}

fn main() {
    // Cargo says that it is a benchmark.
    let given: Vec<PathBuf> =
        std::env::args_os().skip(1).filter(|argument| argument != "--bench").map(PathBuf::from).collect();
    let mut paths = given;
    if paths.is_empty() {
        fixtures(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures"), &mut paths);
    }
    let mut groups: BTreeMap<(bool, bool, bool), Vec<Sample>> = BTreeMap::new();
    let mut left = 0;
    for path in &paths {
        for (is_kernel, module) in modules(path) {
            for (ordinal, function) in module.functions().iter().enumerate() {
                let compiled = match module.compilation_time(ordinal, ATTEMPTS) {
                    Ok(compiled) => compiled,
                    Err(status) => return println!("skipped: {status}"),
                };
                let Some((time, bytes)) = compiled else {
                    left += 1;
                    continue;
                };
                let ops = function.decoded().ops.len();
                let name = format!("{}.{} of {}", module.name(), module.function_name(ordinal), path.display());
                let group = (is_kernel, has_loop(&module, ordinal), ops < SMALL);
                groups.entry(group).or_default().push(Sample { name, ops, time, bytes });
            }
        }
    }
    println!(
        "{:<40} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "functions", "ops", "bytes/op", "ns/op", "median", "90%", "slowest"
    );
    for ((is_kernel, has_loop, is_small), samples) in &mut groups {
        let what = if *is_kernel { "kernels" } else { "host code" };
        let loops = if *has_loop { "with loops" } else { "no loop" };
        let size = if *is_small { format!(", less than {SMALL} ops") } else { String::new() };
        print(&format!("{what}, {loops}{size}"), samples);
    }
    println!("{left} functions are left to the interpreter");
}
