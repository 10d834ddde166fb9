//! The snapshots of generated code: compares them with the generator's output, writes them, and prints the difference.
//! Called by `op`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};

use similar::{ChangeTag, TextDiff};
use vireo_codegen::Spec;

/// A snapshot that is not, or was not, what it should be.
pub struct Change {
    /// Its path.
    pub path: String,
    /// The text before.
    pub before: String,
    /// The text after.
    pub after: String,
}

impl Change {
    /// The differences between two states of a folder.
    pub fn between(before: &Texts, after: &Texts) -> Vec<Change> {
        let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let text = |texts: &Texts, path: &str| texts.get(path).cloned().unwrap_or_default();
        paths
            .into_iter()
            .map(|path| Change { path: path.clone(), before: text(before, path), after: text(after, path) })
            .filter(|change| change.before != change.after)
            .collect()
    }
}

/// The texts of a folder of snapshots by name, without their headers.
pub type Texts = BTreeMap<String, String>;

/// The texts of the snapshots in `folder`.
pub fn texts(folder: &Path) -> io::Result<Texts> {
    let mut texts = Texts::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "snap") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let folder = folder.file_name().unwrap_or_default().to_string_lossy();
            texts.insert(format!("snapshots/{folder}/{name}"), read(&path)?.1);
        }
    }
    Ok(texts)
}

/// The header of a new snapshot, as `insta` writes it for the drift test.
const HEADER: &str = "---\nsource: snapshots/tests/drift.rs\n---\n";

/// Header and text of a snapshot; nothing if there is none.
fn read(path: &Path) -> io::Result<(String, String)> {
    let file = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((HEADER.to_string(), String::new())),
        file => file?.replace("\r\n", "\n"),
    };
    let end = file.strip_prefix("---\n").and_then(|rest| rest.find("\n---\n")).map_or(0, |end| end + 9);
    let (header, text) = file.split_at(end);
    Ok((header.to_string(), text.to_string()))
}

/// The recorded files that differ from what is generated.
pub struct Snapshots {
    root: PathBuf,
    /// The changes to be made.
    pub changes: Vec<Change>,
    stale: Vec<PathBuf>,
}

impl Snapshots {
    /// Compares the files below `root` with what `spec` generates.
    pub fn compare(root: &Path, spec: &Spec) -> io::Result<Snapshots> {
        let files = vireo_snapshots::recorded(spec);
        let mut changes = Vec::new();
        for file in &files {
            let (_, before) = read(&root.join(&file.path))?;
            // As `insta` compares: ends of texts count for nothing.
            let after = format!("{}\n", file.text.trim_end());
            if before.trim_end() != after.trim_end() {
                changes.push(Change { path: format!("snapshots/{}", file.path), before, after });
            }
        }
        let stale = vireo_snapshots::stale(root, &files)?;
        for path in &stale {
            let name = path.strip_prefix(root).unwrap_or(path).display();
            changes.push(Change { path: format!("snapshots/{name}"), before: read(path)?.1, after: String::new() });
        }
        Ok(Snapshots { root: root.to_path_buf(), changes, stale })
    }

    /// Writes what is generated, and removes what nothing generates.
    pub fn write(&self) -> io::Result<()> {
        for change in self.changes.iter().filter(|change| !change.after.is_empty()) {
            let path = self.root.join(change.path.trim_start_matches("snapshots/"));
            let (header, _) = read(&path)?;
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&path, format!("{header}{}", change.after))?;
        }
        self.stale.iter().try_for_each(fs::remove_file)
    }

    /// Prints the differences, in colour on a terminal.
    pub fn print(&self) {
        let colour = io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (red, green, bold, plain) =
            if colour { ("\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m") } else { ("", "", "", "") };
        let mut out = io::stdout().lock();
        for change in &self.changes {
            let mut text = format!("{bold}{}{plain}\n", change.path);
            let diff = TextDiff::from_lines(&change.before, &change.after);
            for group in diff.grouped_ops(1) {
                for line in group.iter().flat_map(|op| diff.iter_changes(op).collect::<Vec<_>>()) {
                    let (sign, colour) = match line.tag() {
                        ChangeTag::Delete => ('-', red),
                        ChangeTag::Insert => ('+', green),
                        ChangeTag::Equal => (' ', ""),
                    };
                    let end = if colour.is_empty() { "" } else { plain };
                    text.push_str(&format!("{colour}{sign}{}{end}\n", line.value().trim_end_matches('\n')));
                }
            }
            // A reader that goes away ends nothing but the text.
            let _ = out.write_all(text.as_bytes());
        }
    }
}
