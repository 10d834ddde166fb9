//! `cargo xtask docs`: writes the manual. `vireo-codegen` renders the specs; this module adds the guides, the Markdown
//! files that are listed here, and knows where files go.

mod card;
mod markdown;
mod outside;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use vireo_codegen::GeneratedFile;
use vireo_codegen::emit::reference_docs::{Card, Document, Outside, dead_links, narrow_packet_diagrams, reference};

use crate::chore::{Failure, target, workspace};
use crate::op;
use markdown::{Rendered, Target};

/// A Markdown file that is a page of the manual.
struct Guide {
    /// Its path from the workspace root.
    file: &'static str,
    /// The group that it is listed in.
    group: &'static str,
    /// The goal of a newcomer who starts with it, for the guides that the first page lists.
    begin: Option<&'static str>,
}

/// The flags of the command.
const USAGE: &str = "usage: cargo xtask docs [--out DIRECTORY] [--sources BASE] [--rustdoc BASE]";

const USE: &str = "Using Vireo";
const EXTEND: &str = "Extending it";
const BUILD: &str = "How it is built";

/// The page that has a link in the navigation of all pages.
const IN_NAVIGATION: &str = "docs/support.md";

/// The folder with the diagrams of packets, as `packet_diagrams` draws them.
const PACKETS: &str = "docs/packets";

/// The guide that describes the command and its flags.
const OF_COMMAND: &str = "docs/cli.md";

/// All guides, in the order of their groups.
const GUIDES: [Guide; 30] = [
    Guide {
        file: "README.md",
        group: USE,
        begin: Some("see what Vireo does and how fast it is, or run a model from Rust"),
    },
    Guide { file: "docs/cli.md", group: USE, begin: Some("run a model from a shell") },
    Guide { file: "docs/library.md", group: USE, begin: Some("run a model from Rust") },
    Guide { file: "docs/python.md", group: USE, begin: Some("run a model from Python") },
    Guide { file: "docs/scale.md", group: USE, begin: None },
    Guide { file: "docs/collectives.md", group: USE, begin: None },
    Guide { file: "docs/support.md", group: USE, begin: Some("know whether a model will run") },
    Guide { file: "docs/devices.md", group: USE, begin: None },
    Guide { file: "docs/gpu_debugging.md", group: USE, begin: None },
    Guide { file: "docs/amdgpu.md", group: USE, begin: None },
    Guide { file: "docs/cuda.md", group: USE, begin: Some("run a model on an NVIDIA GPU") },
    Guide { file: "docs/cuda_without_a_gpu.md", group: USE, begin: Some("test a CUDA program without a GPU") },
    Guide { file: "docs/parameters.md", group: USE, begin: None },
    Guide { file: "docs/replay.md", group: USE, begin: None },
    Guide { file: "docs/profiles.md", group: USE, begin: None },
    Guide { file: "docs/executables.md", group: USE, begin: None },
    Guide { file: "docs/platforms.md", group: USE, begin: None },
    Guide { file: "docs/security.md", group: USE, begin: Some("run models that you do not trust") },
    Guide { file: "CHANGELOG.md", group: USE, begin: None },
    Guide { file: "examples/README.md", group: EXTEND, begin: Some("add a driver from a library of your own") },
    Guide { file: "docs/driver-abi.md", group: EXTEND, begin: None },
    Guide { file: "spec/README.md", group: EXTEND, begin: None },
    Guide { file: "CONTRIBUTING.md", group: EXTEND, begin: Some("add an op, or change Vireo otherwise") },
    Guide { file: "ARCHITECTURE.md", group: BUILD, begin: Some("find your way in the code") },
    Guide { file: "docs/rooms.md", group: BUILD, begin: None },
    Guide { file: "docs/jit.md", group: BUILD, begin: None },
    Guide { file: "docs/decisions.md", group: BUILD, begin: None },
    Guide { file: "docs/unsafe.md", group: BUILD, begin: None },
    Guide { file: "benches/README.md", group: BUILD, begin: None },
    Guide { file: "fuzz/README.md", group: BUILD, begin: None },
];

/// Writes the manual: to its own folder below `target`, or to `--out DIRECTORY`. Links to files of the repository begin
/// with the path from there to here, or with `--sources BASE`; `--rustdoc BASE` is where the documentation of crates
/// is.
///
/// Only in its own folder pages of earlier runs are removed: a folder that a person names may hold other files.
pub fn docs(arguments: &[&str]) -> Result<(), Failure> {
    let (mut directory, mut sources, mut rustdoc) = (None, None, None);
    for pair in arguments.chunks(2) {
        match *pair {
            ["--out", value] => directory = Some(PathBuf::from(value)),
            // Without a base, every link would be one to the repository.
            ["--sources", value] if !value.is_empty() => sources = Some(value.to_string()),
            ["--rustdoc", value] if !value.is_empty() => rustdoc = Some(value.to_string()),
            _ => return Err(Failure::Usage(format!("docs: unexpected `{}`\n{USAGE}", pair.join(" ")))),
        }
    }
    let wrong = |path: &Path, error: io::Error| Failure::Wrong(format!("{}: {error}", path.display()));
    let own = target().join("reference");
    let out = directory.as_ref().unwrap_or(&own);
    let sources = sources.map_or_else(|| outside::way(out, workspace()), Ok)?;
    let outside = Outside { sources, library: outside::library(out, rustdoc)? };
    let files = manual(&outside)?;
    if directory.is_none() {
        match fs::remove_dir_all(out) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(out, error)),
            _ => {}
        }
    }
    fs::create_dir_all(out).map_err(|error| wrong(out, error))?;
    for file in &files {
        let path = out.join(&file.path);
        fs::write(&path, &file.text).map_err(|error| wrong(&path, error))?;
    }
    let bytes: usize = files.iter().map(|file| file.text.len()).sum();
    println!("{} files, {} KiB; start at {}", files.len(), bytes.div_ceil(1024), out.join("index.html").display());
    if outside.library.is_none() {
        println!("no link to the library: run `{}` first, or say where it is with --rustdoc", outside::COMMAND);
    }
    Ok(())
}

/// The files of the manual. Every link leads somewhere.
fn manual(outside: &Outside) -> Result<Vec<GeneratedFile>, Failure> {
    let spec = op::read_spec()?;
    let (mut documents, mut texts) = (Vec::new(), Vec::new());
    let telephones: BTreeMap<String, GeneratedFile> = spec
        .api("amdgpu")
        .map_or_else(Vec::new, narrow_packet_diagrams)
        .into_iter()
        .map(|file| {
            (format!("{PACKETS}/{}", file.path), GeneratedFile { path: format!("narrow-{}", file.path), ..file })
        })
        .collect();
    let narrow = |image: &str| telephones.get(image).map(|file| file.path.clone());
    let mut images = BTreeSet::new();
    for guide in &GUIDES {
        let text = read(guide.file)?;
        let rendered = markdown::render(&text, &|link| resolve(guide.file, link), &named, &narrow)
            .map_err(|problem| Failure::Wrong(format!("{}: {problem}", guide.file)))?;
        images.extend(rendered.images.iter().cloned());
        documents.push(document(guide, rendered));
        texts.push(text);
    }
    let of_command = documents.iter().zip(&texts).find(|(document, _)| document.path == page_of(OF_COMMAND));
    let card = of_command
        .map_or_else(Card::default, |(document, text)| card::card(&document.path, text, &document.anchors, &texts));
    let mut files = reference(&spec, &documents, &card, outside);
    for image in images {
        files.push(GeneratedFile { text: read(&image)?, path: file_name(&image).to_string() });
        files.extend(telephones.get(&image).cloned());
    }
    match dead_links(&files, outside).as_slice() {
        [] => Ok(files),
        wrong => Err(Failure::Wrong(wrong.join("\n"))),
    }
}

fn read(file: &str) -> Result<String, Failure> {
    fs::read_to_string(workspace().join(file)).map_err(|error| Failure::Wrong(format!("{file}: {error}")))
}

fn document(guide: &Guide, rendered: Rendered) -> Document {
    Document {
        path: page_of(guide.file),
        title: rendered.title,
        group: guide.group.to_string(),
        summary: rendered.summary,
        begin: guide.begin.map(str::to_string),
        in_navigation: guide.file == IN_NAVIGATION,
        html: rendered.html,
        anchors: rendered.anchors,
    }
}

/// `guide-cli.html` for `docs/cli.md`; a README is called like its folder.
fn page_of(file: &str) -> String {
    let stem = match file.strip_suffix("/README.md") {
        Some(folder) => file_name(folder),
        None => file_name(file).trim_end_matches(".md"),
    };
    format!("guide-{}.html", stem.to_lowercase())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The file or folder of the repository that code in a guide names by its path from the root.
fn named(code: &str) -> Option<Target> {
    let is_path = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let is_kept = !code.starts_with(['/', '-', '.']) && !code.starts_with("target/") && code.chars().all(is_path);
    // One without a folder is an ordinary word in some sentences, and in others a file of another folder.
    let is_named = is_kept && code.contains('/') && workspace().join(code).exists();
    is_named.then(|| resolve("README.md", code).ok())?
}

/// The target of a link in the guide `file`.
fn resolve(file: &str, link: &str) -> Result<Target, String> {
    if link.starts_with("https://") || link.starts_with("http://") || link.starts_with('#') {
        return Ok(Target::Page(link.to_string()));
    }
    let (path, anchor) = link.split_once('#').map_or((link, String::new()), |(path, id)| (path, format!("#{id}")));
    let mut whole = PathBuf::from(file);
    whole.pop();
    for part in path.split('/') {
        match part {
            ".." if !whole.pop() => return Err(format!("the link `{link}` leaves the repository")),
            ".." | "." | "" => {}
            name => whole.push(name),
        }
    }
    let whole = whole.to_string_lossy().replace('\\', "/");
    if let Some(guide) = GUIDES.iter().find(|guide| guide.file == whole) {
        return Ok(Target::Page(page_of(guide.file) + &anchor));
    }
    if !workspace().join(&whole).exists() {
        return Err(format!("the link `{link}` leads nowhere: there is no {whole}"));
    }
    Ok(Target::Source(whole))
}

#[cfg(test)]
mod tests;
