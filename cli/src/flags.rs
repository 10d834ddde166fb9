//! The command line before it is parsed: flag names with underscores, as the reference tools spell them, and flag
//! files.

use std::ffi::{OsStr, OsString};
use std::fs;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use vireo::Status;

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::os_text::{of_bytes, path_of, text_of};
use crate::reference_flags::reference_flag;
use crate::suggest::closest;

/// How deep flag files may name each other.
const MAX_DEPTH: usize = 8;
/// Largest flag file.
const MAX_FILE: u64 = 64 << 20;

/// Rewrites `--some_flag` to `--some-flag` and replaces `--flagfile=path` by the flags in the file, one per line; lines
/// that begin with `#` are comments. Everything after `--` is left alone.
pub fn expand(arguments: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>, Failure> {
    let mut expanded = Vec::new();
    let mut arguments = arguments.into_iter();
    expanded.extend(arguments.next());
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            expanded.push(argument);
            expanded.extend(arguments);
            break;
        }
        match argument.to_str() {
            Some("--flagfile") => {
                let path =
                    arguments.next().ok_or_else(|| Failure::new(Exit::Usage, "--flagfile needs the path of a file"))?;
                expand_file(&path, 0, &mut expanded)?;
            }
            _ => expand_one(argument, 0, &mut expanded)?,
        }
    }
    Ok(expanded)
}

/// Adds the command that was probably meant to the error about an unknown one, where the parser finds none: it does for
/// longer names only.
pub fn suggest(error: &mut clap::Error) {
    if error.kind() != ErrorKind::InvalidSubcommand || error.get(ContextKind::SuggestedSubcommand).is_some() {
        return;
    }
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand).cloned() else { return };
    let command = Arguments::command();
    if let Some(meant) = closest(&name, command.get_subcommands().map(clap::Command::get_name)) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant.to_string()]));
    }
}

/// The command that arguments name.
fn command_of(arguments: &[OsString]) -> Option<&str> {
    arguments.iter().skip(1).filter_map(|argument| argument.to_str()).find(|argument| !argument.starts_with('-'))
}

/// Whether a command has a flag, which may be written with underscores.
pub fn has_flag(command: &str, flag: &str) -> bool {
    let dashed = flag.replace('_', "-");
    let mut arguments = Arguments::command();
    arguments.build();
    let Some(command) = arguments.get_subcommands().find(|found| found.get_name() == command) else { return false };
    let names = |argument: &clap::Arg| {
        argument.get_long() == Some(&dashed) || argument.get_all_aliases().is_some_and(|all| all.contains(&&*dashed))
    };
    // The parser adds `--help` by itself.
    dashed == "help" || command.get_arguments().any(names)
}

/// Omits flags of the command's counterpart among the reference's tools that the command lacks, where the value is the
/// default: with it they change nothing. The tools print such a list of flags, which people keep as a flag file.
pub fn without_defaults(arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(command) = command_of(&arguments).map(str::to_string) else { return arguments };
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let is_default = |argument: &OsString| {
        let flag = argument.to_str().and_then(|text| text.strip_prefix("--")?.split_once('='));
        let Some((name, value)) = flag else { return false };
        let known = reference_flag(&name.replace('-', "_"));
        known.is_some_and(|known| {
            known.tool(&command).is_some() && known.default == Some(value) && !has_flag(&command, known.name)
        })
    };
    let keep = |(index, argument): &(usize, OsString)| *index >= end || !is_default(argument);
    arguments.into_iter().enumerate().filter(keep).map(|(_, argument)| argument).collect()
}

/// The failure to report in place of `error` if it is about a flag that only the reference's counterpart of the command
/// has.
pub fn not_supported(error: &clap::Error, arguments: &[OsString]) -> Option<Failure> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = flag.trim_start_matches('-');
    if error.kind() != ErrorKind::UnknownArgument || name == flag {
        return None;
    }
    let name = name.split_once('=').map_or(name, |(name, _)| name).replace('-', "_");
    let known = reference_flag(&name)?;
    let tool = known.tool(command_of(arguments)?)?;
    let only = known.default.map_or(String::new(), |default| match default {
        "" => "; only the empty default is accepted".to_string(),
        default => format!("; only the default, `{default}`, is accepted"),
    });
    let status = Status::unimplemented(format!("--{name} of {tool} is not supported: {}{only}", known.reason));
    Some(Failure::new(Exit::Usage, "invalid command line").because(status))
}

fn expand_one(argument: OsString, depth: usize, expanded: &mut Vec<OsString>) -> Result<(), Failure> {
    let text = text_of(argument);
    if !text.starts_with("--") {
        expanded.push(path_of(&text).into_os_string());
        return Ok(());
    }
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name.replace('_', "-"), Some(value)),
        None => (text.replace('_', "-"), None),
    };
    match value {
        Some(path) if name == "--flagfile" => expand_file(path_of(path).as_os_str(), depth, expanded),
        Some(value) => {
            expanded.push(path_of(&format!("{name}={value}")).into_os_string());
            Ok(())
        }
        None => {
            expanded.push(name.into());
            Ok(())
        }
    }
}

fn expand_file(path: &OsStr, depth: usize, expanded: &mut Vec<OsString>) -> Result<(), Failure> {
    let failed = |message: String| Failure::new(Exit::Usage, message);
    let shown = path.display();
    if depth == MAX_DEPTH {
        return Err(failed(format!(
            "--flagfile={shown}: flag files name each other more than {MAX_DEPTH} levels deep"
        )));
    }
    let cannot_read = |error| failed(format!("cannot read --flagfile={shown}")).because(error);
    let length = fs::metadata(path).map_err(cannot_read)?.len();
    if length > MAX_FILE {
        return Err(failed(format!("--flagfile={shown} has {length} bytes; expected at most {MAX_FILE}")));
    }
    let text = text_of(of_bytes(fs::read(path).map_err(cannot_read)?));
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with("--") {
            return Err(failed(format!("{shown}:{}: expected a flag like `--name=value`, got `{line}`", index + 1)));
        }
        // The reference's tools print texts in quotes, as a shell reads them.
        let line = match line.split_once('=') {
            Some((name, value)) => match value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
                Some(value) => format!("{name}={value}"),
                None => line.to_string(),
            },
            None => line.to_string(),
        };
        expand_one(path_of(&line).into_os_string(), depth + 1, expanded)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand_all(arguments: &[&str]) -> Result<Vec<String>, Failure> {
        let expanded = expand(arguments.iter().map(OsString::from))?;
        Ok(expanded.into_iter().map(|argument| argument.into_string().unwrap()).collect())
    }

    #[test]
    fn underscores_in_names_only() {
        let arguments = ["vi_reo", "run", "--expected_output=a_b=c_d", "--list_devices", "in_put", "--", "--a_b"];
        let expected = ["vi_reo", "run", "--expected-output=a_b=c_d", "--list-devices", "in_put", "--", "--a_b"];
        assert_eq!(expand_all(&arguments).unwrap(), expected);
    }

    #[test]
    fn flags_that_a_command_lacks_may_have_their_default() {
        let left = |arguments: &[&str]| {
            let left = without_defaults(arguments.iter().map(OsString::from).collect());
            left.into_iter().map(|argument| argument.into_string().unwrap()).collect::<Vec<_>>()
        };
        let mut kept =
            vec!["v", "run", "--vulkan-tracing=false", "--timeout=1", "--dispatch-statistics=false", "--", "--v=0"];
        let expected = kept.clone();
        kept.insert(2, "--vulkan-tracing=true");
        kept.insert(3, "--device-capture-tool=");
        assert_eq!(left(&kept), expected);
        assert_eq!(left(&["v", "benchmark", "--agents-md=false", "--v=0", "--v=1"]), ["v", "benchmark", "--v=1"]);
        assert_eq!(left(&["v", "dump", "--v=0"]), ["v", "dump", "--v=0"]);
    }

    #[test]
    fn flag_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flags.txt");
        fs::write(&path, "# a comment\n\n--expected_output=1 2 3\n  --function=f  \n").unwrap();
        let flag = format!("--flagfile={}", path.display());
        assert_eq!(expand_all(&["v", &flag, "x"]).unwrap(), ["v", "--expected-output=1 2 3", "--function=f", "x"]);
        let separate = ["v", "--flagfile", path.to_str().unwrap()];
        assert_eq!(expand_all(&separate).unwrap(), ["v", "--expected-output=1 2 3", "--function=f"]);
        fs::write(&path, "--task_topology_mode=\"physical_cores\"\n--vulkan_tracing=true\n--function=\"\"\n").unwrap();
        let quoted = ["v", "--task-topology-mode=physical_cores", "--vulkan-tracing=true", "--function="];
        assert_eq!(expand_all(&["v", &flag]).unwrap(), quoted);
        assert!(expand_all(&["v", "--flagfile"]).is_err());
        fs::write(&path, format!("{flag}\n")).unwrap();
        assert!(expand_all(&["v", &flag]).unwrap_err().to_string().contains("8 levels"));
        fs::write(&path, "run\n").unwrap();
        assert!(expand_all(&["v", &flag]).unwrap_err().to_string().contains("flags.txt:1: expected a flag"));
        assert_eq!(expand_all(&["v", "--flagfile=/nonexistent"]).unwrap_err().exit, Exit::Usage);
    }
}
