//! The command line before it is parsed: flag names with underscores, as the reference tools spell them, and flag files.

use std::ffi::{OsStr, OsString};
use std::fs;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use vireo::Status;

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::reference_flags::reference_flags;
use crate::suggest::closest;

/// How deep flag files may name each other.
const MAX_DEPTH: usize = 8;
/// Largest flag file.
const MAX_FILE: u64 = 64 << 20;

/// Rewrites `--some_flag` to `--some-flag` and replaces `--flagfile=path` by the flags in the file, one per line; lines that begin
/// with `#` are comments. Everything after `--` is left alone.
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

/// Adds the command that was probably meant to the error about an unknown one, where the parser finds none: it does for longer names only.
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

/// The failure to report in place of `error` if it is about a flag that only the reference's tools have.
pub fn not_supported(error: &clap::Error) -> Option<Failure> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = flag.trim_start_matches('-');
    if error.kind() != ErrorKind::UnknownArgument || name == flag {
        return None;
    }
    let name = name.split_once('=').map_or(name, |(name, _)| name).replace('-', "_");
    let known = reference_flags().find(|known| known.name == name)?;
    let reason = if known.reason.is_empty() { "this command does not have it" } else { known.reason };
    let status = Status::unimplemented(format!("--{name} of {} is not supported: {reason}", known.tool()));
    Some(Failure::new(Exit::Usage, "invalid command line").because(status))
}

fn expand_one(argument: OsString, depth: usize, expanded: &mut Vec<OsString>) -> Result<(), Failure> {
    // Arguments that are not UTF-8 can only be values.
    let Some(text) = argument.to_str().filter(|text| text.starts_with("--")) else {
        expanded.push(argument);
        return Ok(());
    };
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name.replace('_', "-"), Some(value)),
        None => (text.replace('_', "-"), None),
    };
    match value {
        Some(path) if name == "--flagfile" => expand_file(OsStr::new(path), depth, expanded),
        Some(value) => {
            expanded.push(format!("{name}={value}").into());
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
    for (index, line) in fs::read_to_string(path).map_err(cannot_read)?.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with("--") {
            return Err(failed(format!("{shown}:{}: expected a flag like `--name=value`, got `{line}`", index + 1)));
        }
        expand_one(line.into(), depth + 1, expanded)?;
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
    fn flag_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flags.txt");
        fs::write(&path, "# a comment\n\n--expected_output=1 2 3\n  --function=f  \n").unwrap();
        let flag = format!("--flagfile={}", path.display());
        assert_eq!(expand_all(&["v", &flag, "x"]).unwrap(), ["v", "--expected-output=1 2 3", "--function=f", "x"]);
        let separate = ["v", "--flagfile", path.to_str().unwrap()];
        assert_eq!(expand_all(&separate).unwrap(), ["v", "--expected-output=1 2 3", "--function=f"]);
        assert!(expand_all(&["v", "--flagfile"]).is_err());
        fs::write(&path, format!("{flag}\n")).unwrap();
        assert!(expand_all(&["v", &flag]).unwrap_err().to_string().contains("8 levels"));
        fs::write(&path, "run\n").unwrap();
        assert!(expand_all(&["v", &flag]).unwrap_err().to_string().contains("flags.txt:1: expected a flag"));
        assert_eq!(expand_all(&["v", "--flagfile=/nonexistent"]).unwrap_err().exit, Exit::Usage);
    }
}
