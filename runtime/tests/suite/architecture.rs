//! Dependencies between crates, between the layers of each, and between the rooms of the code generator and of the
//! interpreter, compared with the tables of `ARCHITECTURE.md` and `docs/rooms.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const RUNTIME: &str = env!("CARGO_MANIFEST_DIR");

/// A row of a table: the folder of a crate, or a folder in one, and its second cell.
struct Row {
    name: String,
    cell: String,
}

impl Row {
    /// The words of the cell: the crates that a crate depends on.
    fn words(&self) -> BTreeSet<&str> {
        self.cell.split_whitespace().filter(|word| *word != "-").collect()
    }

    /// The layers that the cell lists, lowest first; those joined by `+` use each other.
    fn layers(&self) -> Vec<Vec<String>> {
        self.cell.split_whitespace().map(|layer| layer.split('+').map(str::to_string).collect()).collect()
    }
}

/// The rows of the table below a heading of a document.
fn rows(document: &str, heading: &str) -> Vec<Row> {
    let text = fs::read_to_string(Path::new(RUNTIME).join("..").join(document)).expect("the map is there");
    let section = text.split("\n## ").find(|section| section.starts_with(heading)).expect("it has the table");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        Row { name: cells[1].trim_matches('`').to_string(), cell: cells[2].to_string() }
    };
    section.lines().filter(|line| line.starts_with("| `")).map(row).collect()
}

/// The sources below a folder, but for what is compiled for tests alone.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.ends_with("tests") || path.ends_with("tests.rs") || path.ends_with("op_tests.rs") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The words that follow `prefix` in `text`, those of a list in braces among them; `*` for all there is.
fn named(text: &str, prefix: &str) -> BTreeSet<String> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut words = BTreeSet::new();
    for (at, _) in text.match_indices(prefix).filter(|(at, _)| !text[..*at].ends_with("super::")) {
        let rest = &text[at + prefix.len()..];
        let list = rest.strip_prefix('{').map_or(rest.split(|letter| !is_word(letter)).next().unwrap_or(""), |list| {
            list.split(';').next().unwrap_or("")
        });
        words.extend(list.split(|letter| !is_word(letter)).filter(|word| !word.is_empty()).map(str::to_string));
        words.extend(rest.starts_with('*').then(|| "*".to_string()));
    }
    words
}

/// The names that a crate's root re-exports, by the layer that each is from.
fn exported(root: &str, layers: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut from = BTreeMap::new();
    for statement in root.split(';').filter_map(|text| text.split("use ").last()) {
        if let Some((layer, names)) = statement.split_once("::")
            && layers.contains(layer)
        {
            let names = names.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            from.extend(names.filter(|name| !name.is_empty()).map(|name| (name.to_string(), layer.to_string())));
        }
    }
    from
}

#[test]
fn crates_depend_on_those_that_the_table_names() {
    let rows = rows("ARCHITECTURE.md", "The crates of the runtime");
    assert!(rows.len() >= 11, "{} crates", rows.len());
    let manifest = |row: &Row| {
        let path = Path::new(RUNTIME).join(&row.name).join("Cargo.toml");
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let package = |row: &Row| {
        let manifest = manifest(row);
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"vireo-")).expect("a package of Vireo");
        name.trim_end_matches('"').to_string()
    };
    let packages: BTreeSet<String> = rows.iter().map(package).collect();
    for row in &rows {
        let manifest = manifest(row);
        let of_tests =
            |section: &&str| !section.contains("dev-dependencies]") && !section.contains("build-dependencies]");
        let sections = manifest.split("\n[").filter(of_tests).collect::<Vec<_>>().join("\n");
        let known: BTreeSet<&str> = packages
            .iter()
            .map(String::as_str)
            .filter(|other| {
                // The name ends there, as `vireo-soft` is a part of `vireo-softhsa`.
                let is_it = |line: &str| {
                    let rest = line.strip_prefix("vireo-").and_then(|line| line.strip_prefix(*other));
                    rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
                };
                sections.lines().any(|line| is_it(line) && line.contains("workspace"))
            })
            .collect();
        assert_eq!(known, row.words(), "the dependencies of `{}`", row.name);
    }
}

#[test]
fn layers_use_only_those_below_them() {
    let mut wrong = Vec::new();
    let crates = rows("ARCHITECTURE.md", "The crates of the runtime");
    let rows = rows("docs/rooms.md", "The crates of the runtime");
    let names = |rows: &[Row]| rows.iter().map(|row| row.name.clone()).collect::<BTreeSet<_>>();
    assert_eq!(names(&crates), names(&rows), "both documents have the same crates");
    for row in rows {
        let root = Path::new(RUNTIME).join(&row.name).join("src");
        let library = fs::read_to_string(root.join("lib.rs")).expect("the root of a crate");
        let all = row.layers().into_iter().flatten().collect();
        check_layers(&row, &root, "crate::", Some(&exported(&library, &all)), &mut wrong);
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rooms_of_the_code_generator_use_only_those_below_them() {
    check_rooms("The code generator", "codegen/src", 9);
}

#[test]
fn rooms_of_the_interpreter_use_only_those_below_them() {
    check_rooms("The interpreter", "runtime/vm/src", 5);
}

/// Checks the folders of a table, which are below the root of one crate, and of which there are at least so many.
fn check_rooms(heading: &str, root: &str, folders: usize) {
    let mut wrong = Vec::new();
    let rows = rows("docs/rooms.md", heading);
    assert!(rows.len() >= folders, "{} folders", rows.len());
    for row in rows {
        let folder = row.name.strip_prefix(root).expect("a folder of the crate");
        let path = format!("crate{}::", folder.replace('/', "::"));
        check_layers(&row, &Path::new(RUNTIME).join("..").join(&row.name), &path, None, &mut wrong);
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Adds to `wrong` each use of a layer by one below it. `path` is that of the module whose layers these are. What that
/// module re-exports counts as a use of the layer that it is from; without `exported`, layers must not use the module
/// at all, since it uses them.
fn check_layers(
    row: &Row,
    root: &Path,
    path: &str,
    exported: Option<&BTreeMap<String, String>>,
    wrong: &mut Vec<String>,
) {
    let (name, layers) = (&row.name, row.layers());
    let floor_of = |layer: &str| layers.iter().position(|floor| floor.iter().any(|other| other == layer));
    let mut files = Vec::new();
    sources(root, &mut files);
    for file in files {
        let inside = file.strip_prefix(root).expect("below the root").with_extension("");
        let layer = inside.iter().next().expect("a name").to_string_lossy().into_owned();
        if matches!(layer.as_str(), "lib" | "mod" | "generated") {
            continue;
        }
        let Some(floor) = floor_of(&layer) else {
            wrong.push(format!("the layer `{layer}` of `{name}` is not in the table"));
            continue;
        };
        let text = fs::read_to_string(&file).expect("a source");
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        let text: String = text.lines().map(|line| line.split("//").next().unwrap_or("").to_string() + "\n").collect();
        let mut words = named(&text, path);
        if inside.iter().count() == 1 || inside.ends_with("mod") && inside.iter().count() == 2 {
            words.extend(named(&text, "super::"));
        }
        for word in words {
            let from = exported.and_then(|exported| exported.get(&word)).filter(|_| floor_of(&word).is_none());
            let other = from.unwrap_or(&word);
            match floor_of(other) {
                Some(above) if above > floor => {
                    wrong.push(format!("{name}: `{layer}` uses `{other}`, which is above it ({})", inside.display()));
                }
                None if exported.is_none() => {
                    wrong.push(format!("{name}: `{layer}` uses `{word}` of its parent ({})", inside.display()));
                }
                _ => {}
            }
        }
    }
}

/// A module that has files of its own is a folder with a `mod.rs`, everywhere in the repository.
#[test]
fn modules_with_files_are_folders() {
    fn look(folder: &Path, odd: &mut Vec<PathBuf>) {
        let skipped = ["target", ".git", "corpus"];
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.file_name().is_some_and(|name| skipped.iter().any(|skipped| name == *skipped)) {
                if path.with_extension("rs").exists() {
                    odd.push(path.with_extension("rs"));
                }
                look(&path, odd);
            }
        }
    }
    let mut odd = Vec::new();
    look(&Path::new(RUNTIME).join(".."), &mut odd);
    assert!(odd.is_empty(), "next to folders of their names: {odd:?}");
}
