//! The list of the reference's flags against the reference's tools, where they are installed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::common::{folder, model, vireo};
use crate::skip::{Need, skipped};

const LIST: &str = include_str!("../../src/reference_flags.txt");

/// The flags that a tool of `folder` lists: lines such as `--name=value`, or `# --name=...` for those without a
/// default.
fn flags_of(folder: &Path, tool: &str) -> BTreeSet<String> {
    let output = Command::new(folder.join(tool)).arg("--help").output();
    let output = output.unwrap_or_else(|error| panic!("{tool}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.strip_prefix("# ").unwrap_or(line).strip_prefix("--"));
    let names = names.map(|line| line.split(['=', '[', ' ']).next().unwrap_or_default());
    let flags: BTreeSet<String> =
        names.map(|name| name.trim_end_matches(['.', ',']).to_string()).filter(|name| !name.is_empty()).collect();
    assert!(flags.len() > 50, "{tool} lists {flags:?}");
    flags
}

#[test]
fn the_list_has_the_flags_of_the_tools() {
    let Some(folder) = std::env::var_os("VIREO_REFERENCE_TOOLS") else {
        return skipped(Need::Variable("VIREO_REFERENCE_TOOLS"), "it names no folder with the IREE tools");
    };
    for (command, tool) in [("run", "iree-run-module"), ("benchmark", "iree-benchmark-module")] {
        let lines = LIST.lines().filter(|line| !line.starts_with('#'));
        let entries = lines.filter_map(|line| line.split_once(char::is_whitespace));
        let with_command = entries.filter(|(_, rest)| {
            rest.split_whitespace().next().is_some_and(|commands| commands.split(',').any(|name| name == command))
        });
        let listed: BTreeSet<String> = with_command.map(|(name, _)| name.to_string()).collect();
        let unlisted: Vec<String> = flags_of(Path::new(&folder), tool).difference(&listed).cloned().collect();
        assert!(unlisted.is_empty(), "{tool} has {unlisted:?}, which the list lacks");
    }
}

#[test]
fn the_defaults_of_the_tools_are_accepted() {
    let Some(tools) = std::env::var_os("VIREO_REFERENCE_TOOLS") else {
        return skipped(Need::Variable("VIREO_REFERENCE_TOOLS"), "it names no folder with the IREE tools");
    };
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("flags.txt");
    for (command, tool) in [("run", "iree-run-module"), ("benchmark", "iree-benchmark-module")] {
        let output = Command::new(Path::new(&tools).join(tool)).arg("--help").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let flags: String =
            text.lines().filter(|line| line.starts_with("--")).map(|line| format!("{line}\n")).collect();
        std::fs::write(&file, flags).unwrap();
        let flagfile = format!("--flagfile={}", file.display());
        let model = folder("../fixtures/models").join(model("abs"));
        let flags = ["--function=abs", "--input=f32=-2"];
        let outcome = vireo(temporary.path(), [command, model.to_str().unwrap(), &flagfile].into_iter().chain(flags));
        assert_eq!(outcome.code, 0, "{tool}: {}", outcome.stderr);
    }
}
