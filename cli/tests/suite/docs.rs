//! The commands of the guides, as they stand there. Each `vireo` command is run in a folder that has the files of the
//! repository, and must print the text that follows it; of other commands the packages, targets and files must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Outcome, example_library, folder, model, vireo};
use crate::skip::{Need, skipped};

/// The guides, and how many commands of each are run at least.
const GUIDES: &[(&str, usize)] = &[
    ("README.md", 1),
    ("docs/cli.md", 32),
    ("docs/cuda.md", 10),
    ("docs/devices.md", 0),
    ("docs/gpu_debugging.md", 2),
    ("docs/parameters.md", 4),
    ("docs/profiles.md", 6),
    ("docs/replay.md", 9),
    ("examples/README.md", 4),
];

/// Names that stand for files of the reader; the guides say so.
const YOURS: [&str; 5] = ["model.vmfb", "model.irpa", "sums.vmfb", "libmine.so", "libcdriver.so"];

/// Files that commands read end in one of these.
const EXTENSIONS: [&str; 13] = [
    "vmfb",
    "npy",
    "npz",
    "irpa",
    "gguf",
    "safetensors",
    "co",
    "hsaco",
    "so",
    "vmasm",
    "mlir",
    "ireereplay",
    "ireeprof",
];

/// The flags that name a file to be written, before `=` or as the word before it.
const OUTPUTS: [&str; 4] = ["--output", "-o", "--junit", "--device_profiling_output"];

/// A command of a guide.
struct Example {
    text: String,
    /// The output, if the guide shows that.
    expected: Option<String>,
    /// The exit code that the guide shows.
    code: Option<i32>,
}

fn read(guide: &str) -> String {
    fs::read_to_string(folder("..").join(guide)).unwrap_or_else(|error| panic!("{guide}: {error}"))
}

/// The language and the text of each fenced block.
fn blocks(guide: &str) -> Vec<(&str, &str)> {
    let fenced = guide.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.split_once('\n')).collect()
}

/// The examples of a guide. A block `console` has commands after `$ ` with their output, a block `sh` a command in each
/// line, with a remark after two blanks; if a block `text` follows one with a single command, that is its output.
fn examples(guide: &str) -> Vec<Example> {
    let blocks = blocks(guide);
    let mut found = Vec::new();
    for (index, (language, text)) in blocks.iter().enumerate() {
        let text = text.replace("\\\n", " ");
        match *language {
            "sh" => {
                let printed = blocks.get(index + 1).filter(|(language, next)| {
                    let between = &guide[guide.find(&text).map_or(0, |start| start + text.len())..];
                    *language == "text"
                        && text.lines().count() == 1
                        && between.starts_with("```\n\n```text")
                        && !next.is_empty()
                });
                let expected = printed.map(|(_, text)| text.to_string());
                let commands = text.lines().filter(|line| !line.trim().is_empty());
                found.extend(commands.map(|line| Example {
                    text: words(line),
                    expected: expected.clone(),
                    code: None,
                }));
            }
            "console" => {
                for example in text.split("$ ").skip(1) {
                    let (command, printed) = example.split_once('\n').unwrap_or((example, ""));
                    match command.trim() {
                        "echo $?" => {
                            let last = found.last_mut().expect("a command before `echo $?`");
                            last.code = Some(printed.trim().parse().expect("an exit code"));
                        }
                        _ => found.push(Example { text: words(command), expected: Some(printed.into()), code: None }),
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// A command line without the remark after it.
fn words(line: &str) -> String {
    let line = line.split("  #").next().unwrap_or(line).trim();
    // A continued line begins with blanks, and has a flag there.
    let mut parts = line.split("  ").map(str::trim).filter(|part| !part.is_empty());
    let mut command = parts.next().unwrap_or_default().to_string();
    for part in parts.take_while(|part| part.starts_with("--")) {
        command += &format!(" {part}");
    }
    command.split(" > ").next().unwrap_or_default().replace('\'', "")
}

/// The arguments of the command `vireo`, however it is started.
fn arguments(command: &str) -> Option<&str> {
    let starts = ["vireo ", "target/release/vireo ", "target/dist/vireo ", "cargo run --bin vireo -- "];
    starts.iter().find_map(|start| command.strip_prefix(start))
}

/// The files that a command reads.
fn inputs(command: &str) -> Vec<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut files = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let (key, file) = word.rsplit_once('=').unwrap_or(("", word));
        let file = file.trim_start_matches(['@', '+', '*', '.']).trim_start_matches('/');
        let written = OUTPUTS.contains(&key) || index > 0 && OUTPUTS.contains(&words[index - 1]);
        let is_file = file.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.contains(&extension));
        if is_file && !written {
            files.push(file.to_string());
        }
    }
    files
}

/// Whether a file is the reader's, or of a build.
fn is_absent(file: &str) -> bool {
    YOURS.contains(&file) || file.starts_with("target/") || file.starts_with("FOLDER/")
}

/// The text with `0x7f0000000000` for each address of the process, which differs each time.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        let known = if digits > 8 { "7f0000000000" } else { &part[..digits] };
        out += &format!("0x{known}{}", &part[digits..]);
    }
    out
}

/// Fails unless a terminal may show `expected` for what was printed. `...` in a line of its own stands for the rest.
fn compare(command: &str, expected: &str, outcome: &Outcome) {
    let (stdout, stderr) = (without_addresses(&outcome.stdout), without_addresses(&outcome.stderr));
    let mut streams = [stdout.lines().peekable(), stderr.lines().peekable()];
    for line in expected.lines() {
        if line == "..." {
            return;
        }
        // A long line may be cut as well.
        let is_next =
            |next: &&str| *next == line || line.strip_suffix("...").is_some_and(|begin| next.starts_with(begin));
        let found = streams.iter_mut().any(|stream| stream.next_if(is_next).is_some());
        assert!(found, "`{command}` does not print `{line}` there:\n{stdout}{stderr}");
    }
    let rest: Vec<&str> = streams.into_iter().flatten().collect();
    assert!(rest.is_empty(), "`{command}` prints more:\n{}", rest.join("\n"));
}

/// The lines of a table of devices that are the same on each machine, without its widths.
fn rows(table: &str) -> Vec<String> {
    let rows =
        table.lines().filter(|line| !line.contains("amdgpu") && !line.contains("cuda") && !line.contains("cdriver"));
    rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// A new folder with the files that commands name, in which they may write others.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder");
    #[cfg(unix)]
    for name in ["fixtures", "examples"] {
        let target = fs::canonicalize(folder("..").join(name)).expect("a folder of the repository");
        std::os::unix::fs::symlink(target, place.path().join(name)).expect("a link");
    }
    place
}

/// Runs an example if it can be run here. Returns whether it was.
fn run(example: &Example, place: &Path) -> bool {
    let Some(given) = arguments(&example.text) else { return false };
    if let Some(expected) = example.expected.as_ref().filter(|_| given.contains("libcdriver.so")) {
        // The library takes a C compiler. The devices of this build are the same without it.
        assert_eq!(rows(&vireo(place, ["devices"]).stdout), rows(expected), "{given}");
        return true;
    }
    if inputs(given).iter().any(|file| YOURS.contains(&file.as_str())) || given.starts_with("help") {
        return false;
    }
    if !cfg!(target_os = "linux") && ["amdgpu", "trace ", "--gfx"].iter().any(|word| given.contains(word)) {
        skipped(
            Need::Platform("linux"),
            format_args!("`{given}` is about GPUs, whose agent reserves addresses as Linux does"),
        );
        return false;
    }
    if !cfg!(target_arch = "x86_64") && (given.starts_with("explain ") || given.contains("fixtures/plugin")) {
        skipped(Need::Platform("x86_64"), format_args!("`{given}` shows kernels for x86-64"));
        return false;
    }
    let mut arguments: Vec<String> = given.split_whitespace().map(str::to_string).collect();
    for word in &mut arguments {
        for library in ["vireo_counting_driver", "vireo_executable_plugin"] {
            let built = example_library(library).display().to_string();
            *word = word.replace(&format!("target/release/lib{library}.so"), &built);
        }
        if let Some((before, name)) = word.split_once("fixtures/models/") {
            let here = model(name.trim_end_matches(".vmfb"));
            let exists = folder("../fixtures/models").join(&here).exists();
            *word = format!("{before}fixtures/models/{}", if exists { &here } else { name });
        }
    }
    if given.starts_with("benchmark") {
        arguments.push("--benchmark_dry_run".into());
    }
    let outcome = vireo(place, &arguments);
    match &example.expected {
        Some(expected) if given.starts_with("devices --driver_plugin") => {
            assert_eq!(rows(&outcome.stdout), rows(expected), "{given}");
        }
        Some(expected) => compare(given, expected, &outcome),
        None => {
            let is_silent =
                ["-o ", "--output="].iter().any(|flag| given.contains(flag)) || given.starts_with("replay run ");
            assert!(!outcome.stdout.is_empty() || is_silent, "`{given}` prints nothing: {}", outcome.stderr)
        }
    }
    // A message that the guide shows has the exit code of a failure, which may be shown as well.
    let is_message = example.expected.as_ref().is_some_and(|text| text.contains("error: "));
    let is_expected = example.code.map_or(outcome.code == 0 || is_message, |code| code == outcome.code);
    assert!(is_expected, "`{given}` ends with {}: {}", outcome.code, outcome.stderr);
    true
}

#[cfg(unix)]
#[test]
fn commands_of_the_guides_do_what_they_say() {
    for (guide, least) in GUIDES {
        let place = place();
        let ran = examples(&read(guide)).iter().filter(|example| run(example, place.path())).count();
        println!("{guide}: {ran} commands");
        assert!(
            ran >= *least || !cfg!(all(target_os = "linux", target_arch = "x86_64")),
            "{guide}: {ran} commands were run"
        );
    }
}

/// All documents that show commands.
fn documents() -> Vec<String> {
    let mut documents: Vec<String> = [
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "SECURITY.md",
        "benches/README.md",
        "fuzz/README.md",
        "examples/README.md",
    ]
    .map(String::from)
    .into();
    let pages = fs::read_dir(folder("../docs")).expect("the guides").filter_map(Result::ok);
    let names = pages.map(|page| page.file_name().to_string_lossy().into_owned());
    documents.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")));
    documents.sort();
    documents
}

/// The commands of a document, those within a sentence too.
fn commands(document: &str) -> Vec<String> {
    let mut found: Vec<String> = examples(document).into_iter().map(|example| example.text).collect();
    for text in document.split("```").step_by(2) {
        let inline = text.split('`').skip(1).step_by(2).map(|code| code.replace('\n', " "));
        found.extend(inline.filter(|code| code.starts_with("vireo ") || code.contains("cargo ")));
    }
    found
}

/// The manifests of the repository.
fn manifests() -> Vec<PathBuf> {
    let mut folders = vec![folder("..")];
    let mut manifests = Vec::new();
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(&here).expect("a folder of the repository").filter_map(Result::ok) {
            let name = entry.file_name();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && ["target", ".git", "src", "fixtures"].iter().all(|other| name != *other) {
                folders.push(entry.path());
            } else if name == "Cargo.toml" {
                manifests.push(entry.path());
            }
        }
    }
    manifests
}

/// The names of packages, profiles and targets that the repository has.
fn known() -> BTreeSet<String> {
    // Those of cargo itself, and what stands for any name.
    let mut known: BTreeSet<String> = ["dev", "release", "bench", "NAME", "CRATE"].map(String::from).into();
    for path in manifests() {
        let manifest = fs::read_to_string(&path).expect("a manifest");
        let named = manifest.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        known.extend(named.map(str::to_string));
        let profiles = manifest.lines().filter_map(|line| line.strip_prefix("[profile.")?.strip_suffix(']'));
        known.extend(profiles.map(str::to_string));
        for targets in ["tests", "src/bin", "benches", "examples"] {
            let entries = fs::read_dir(path.with_file_name(targets)).into_iter().flatten().filter_map(Result::ok);
            known.extend(
                entries.map(|entry| entry.path().file_stem().unwrap_or_default().to_string_lossy().into_owned()),
            );
        }
    }
    known
}

#[test]
fn commands_of_the_documents_name_what_there_is() {
    let known = known();
    let xtask = read("xtask/src/main.rs");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for document in documents() {
        let text = read(&document);
        let mut written = BTreeSet::new();
        for command in commands(&text) {
            checked += 1;
            let words: Vec<&str> = command.split_whitespace().collect();
            for pair in words.windows(2) {
                let [flag, name] = pair else { continue };
                let names_one = ["-p", "--package", "--profile", "--bin", "--test", "--bench"].contains(flag);
                if command.contains("cargo ") && names_one && !known.contains(*name) {
                    wrong.push(format!("{document}: `{command}`: there is no `{name}`"));
                }
                if *flag == "xtask" && !xtask.contains(&format!("\"{name}\"")) {
                    wrong.push(format!("{document}: `{command}`: there is no such task"));
                }
                // A package of somebody else would be what a reader gets.
                if *flag == "add" && *name != "vireo-runtime" {
                    wrong.push(format!("{document}: `{command}`: the package is `vireo-runtime`"));
                }
                if OUTPUTS.contains(flag) {
                    written.insert((*name).to_string());
                }
            }
            written.extend(
                words
                    .iter()
                    .filter_map(|word| word.split_once('=').filter(|(flag, _)| OUTPUTS.contains(flag)))
                    .map(|(_, name)| name.trim_start_matches('@').to_string()),
            );
            if arguments(&command).is_none() {
                continue;
            }
            for file in inputs(&command).into_iter().filter(|file| !is_absent(file) && !written.contains(file)) {
                if !folder("..").join(&file).exists() {
                    wrong.push(format!("{document}: `{command}`: the repository has no `{file}`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 150, "{checked} commands");
}
