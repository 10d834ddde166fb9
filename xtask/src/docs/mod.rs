//! `cargo xtask docs`: writes the manual. `vireo-codegen` renders the specs; this module adds the guides, the Markdown
//! files that are listed here, and knows where files go.

mod markdown;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use vireo_codegen::GeneratedFile;
use vireo_codegen::emit::reference_docs::{Document, dead_links, reference};

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

const USE: &str = "Using Vireo";
const EXTEND: &str = "Extending it";
const BUILD: &str = "How it is built";

/// The page that has a link in the navigation of all pages.
const IN_NAVIGATION: &str = "docs/support.md";

/// All guides, in the order of their groups.
const GUIDES: [Guide; 22] = [
    Guide {
        file: "README.md",
        group: USE,
        begin: Some("see what Vireo does and how fast it is, or run a model from Rust"),
    },
    Guide { file: "docs/cli.md", group: USE, begin: Some("run a model from a shell") },
    Guide { file: "docs/library.md", group: USE, begin: Some("run a model from Rust") },
    Guide { file: "docs/support.md", group: USE, begin: Some("know whether a model will run") },
    Guide { file: "docs/devices.md", group: USE, begin: None },
    Guide { file: "docs/gpu_debugging.md", group: USE, begin: None },
    Guide { file: "docs/amdgpu.md", group: USE, begin: None },
    Guide { file: "docs/parameters.md", group: USE, begin: None },
    Guide { file: "docs/executables.md", group: USE, begin: None },
    Guide { file: "docs/platforms.md", group: USE, begin: None },
    Guide { file: "docs/security.md", group: USE, begin: Some("run models that you do not trust") },
    Guide { file: "CHANGELOG.md", group: USE, begin: None },
    Guide { file: "examples/README.md", group: EXTEND, begin: Some("add a driver from a library of your own") },
    Guide { file: "docs/driver-abi.md", group: EXTEND, begin: None },
    Guide { file: "spec/README.md", group: EXTEND, begin: None },
    Guide { file: "CONTRIBUTING.md", group: EXTEND, begin: Some("add an op, or change Vireo otherwise") },
    Guide { file: "ARCHITECTURE.md", group: BUILD, begin: Some("find your way in the code") },
    Guide { file: "docs/jit.md", group: BUILD, begin: None },
    Guide { file: "docs/decisions.md", group: BUILD, begin: None },
    Guide { file: "docs/unsafe.md", group: BUILD, begin: None },
    Guide { file: "benches/README.md", group: BUILD, begin: None },
    Guide { file: "fuzz/README.md", group: BUILD, begin: None },
];

/// Writes the manual. Only in its own folder below `target` are pages of earlier runs removed: a folder that a person
/// names may hold other files.
pub fn docs(directory: Option<&Path>) -> Result<(), Failure> {
    let files = manual()?;
    let wrong = |path: &Path, error: io::Error| Failure::Wrong(format!("{}: {error}", path.display()));
    let out = match directory {
        Some(directory) => directory.to_path_buf(),
        None => {
            let own = target().join("reference");
            match fs::remove_dir_all(&own) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(&own, error)),
                _ => own,
            }
        }
    };
    fs::create_dir_all(&out).map_err(|error| wrong(&out, error))?;
    for file in &files {
        let path = out.join(&file.path);
        fs::write(&path, &file.text).map_err(|error| wrong(&path, error))?;
    }
    let bytes: usize = files.iter().map(|file| file.text.len()).sum();
    println!("{} files, {} KiB; start at {}", files.len(), bytes.div_ceil(1024), out.join("index.html").display());
    Ok(())
}

/// The files of the manual. Every link leads somewhere.
fn manual() -> Result<Vec<GeneratedFile>, Failure> {
    let spec = op::read_spec()?;
    let mut documents = Vec::new();
    let mut images = BTreeSet::new();
    for guide in &GUIDES {
        let text = read(guide.file)?;
        let rendered = markdown::render(&text, &|link| resolve(guide.file, link))
            .map_err(|problem| Failure::Wrong(format!("{}: {problem}", guide.file)))?;
        images.extend(rendered.images.iter().cloned());
        documents.push(document(guide, rendered));
    }
    let mut files = reference(&spec, &documents);
    for image in images {
        files.push(GeneratedFile { text: read(&image)?, path: file_name(&image).to_string() });
    }
    match dead_links(&files).as_slice() {
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
mod tests {
    use std::sync::LazyLock;

    use super::*;

    /// The manual, which takes a second to render.
    static MANUAL: LazyLock<Vec<GeneratedFile>> = LazyLock::new(|| manual().map_err(message).unwrap());

    fn message(failure: Failure) -> String {
        match failure {
            Failure::Wrong(message) | Failure::Usage(message) => message,
        }
    }

    /// `manual` refuses dead links, so this is about those of all documents, too.
    #[test]
    fn the_manual_is_the_same_each_time_and_no_link_is_dead() {
        assert!(*MANUAL == manual().map_err(message).unwrap(), "the manual differs from itself");
        let mut paths: Vec<&str> = MANUAL.iter().map(|file| file.path.as_str()).collect();
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), count, "two files have one name");
        for needed in ["index.html", "guides.html", "guide-cli.html", "guide-support.html", "pipeline.svg", "all.html"]
        {
            assert!(paths.contains(&needed), "there is no {needed}");
        }
    }

    #[test]
    fn every_document_is_a_guide() {
        for entry in fs::read_dir(workspace().join("docs")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let known = GUIDES.iter().any(|guide| guide.file == format!("docs/{name}"));
            assert!(known || !name.ends_with(".md"), "docs/{name} is in no group of guides");
        }
    }

    /// The description of a guide in their list is the paragraph below its title.
    #[test]
    fn guides_lead_to_their_neighbours() {
        let guides: Vec<_> = MANUAL.iter().filter(|file| file.text.contains("<p class=\"crumbs\">")).collect();
        assert_eq!(guides.len(), GUIDES.len());
        let without = |word: &str| guides.iter().filter(|file| !file.text.contains(word)).count();
        // The first has none before it, the last none after it.
        assert_eq!((without(">Previous: <a href="), without(">Next: <a href=")), (1, 1));
    }

    #[test]
    fn every_guide_says_what_it_is_about() {
        for guide in &GUIDES {
            let rendered =
                markdown::render(&read(guide.file).map_err(message).unwrap(), &|link| resolve(guide.file, link));
            assert!(!rendered.unwrap().summary.is_empty(), "{}: expected a paragraph below the title", guide.file);
        }
    }

    /// A reader looks for changes of a release: not for all that was done, and not in a section without a date.
    #[test]
    fn the_changelog_has_a_short_section_for_each_release() {
        const MOST_ENTRIES: usize = 60;
        let text = read("CHANGELOG.md").map_err(message).unwrap();
        let sections: Vec<(&str, &str)> = text.split("\n## ").skip(1).filter_map(|one| one.split_once('\n')).collect();
        assert_eq!(sections.first().map(|(title, _)| *title), Some("[Unreleased]"));
        let version = format!("[{}] - ", env!("CARGO_PKG_VERSION"));
        let release = sections.iter().find(|(title, _)| title.starts_with(&version));
        let (title, _) = release.unwrap_or_else(|| panic!("CHANGELOG.md has no section `{version}DATE`"));
        assert_eq!(title.len(), version.len() + "2026-11-28".len(), "{title}");
        for (title, section) in sections {
            let entries = section.lines().filter(|line| line.starts_with("- ")).count();
            assert!(entries <= MOST_ENTRIES, "{title} has {entries} entries: details are for messages of commits");
        }
    }

    #[test]
    fn the_support_matrix_is_that_of_its_file() {
        let page = MANUAL.iter().find(|file| file.path == "guide-support.html").unwrap();
        let text = read(IN_NAVIGATION).map_err(message).unwrap();
        let rows = text.lines().filter(|line| line.starts_with("| ") || line.starts_with("|-")).count();
        let heads = text.lines().filter(|line| line.starts_with("|--")).count();
        assert!(heads > 3 && page.text.matches("<tr>").count() + heads == rows, "rows of the matrix are missing");
        for file in MANUAL.iter().filter(|file| file.path.ends_with(".html")) {
            assert!(file.text.contains("href=\"guide-support.html\""), "{} does not link to the matrix", file.path);
        }
    }

    #[test]
    fn links_lead_to_pages_or_name_sources() {
        let page = |link: &str| resolve("docs/cli.md", link);
        assert_eq!(page("jit.md#tiers"), Ok(Target::Page("guide-jit.html#tiers".into())));
        assert_eq!(page("../examples/README.md"), Ok(Target::Page("guide-examples.html".into())));
        assert_eq!(page("#values"), Ok(Target::Page("#values".into())));
        assert_eq!(page("https://iree.dev"), Ok(Target::Page("https://iree.dev".into())));
        assert_eq!(page("../Cargo.toml"), Ok(Target::Source("Cargo.toml".into())));
        assert_eq!(page("gone.md").unwrap_err(), "the link `gone.md` leads nowhere: there is no docs/gone.md");
        assert_eq!(page("../../x").unwrap_err(), "the link `../../x` leaves the repository");
    }
}
