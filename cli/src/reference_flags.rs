//! Flags of IREE's tools, with the reason why a command lacks one. `flags` uses it to refuse such a flag by name, or to
//! accept its default, and `support_matrix` to list them.

use std::cmp::Ordering;

/// One line for each flag, in the order of their names; its first lines describe the columns.
const LIST: &str = include_str!("reference_flags.txt");

/// A flag of IREE's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceFlag {
    /// With underscores, as the tools spell it.
    pub name: &'static str,
    /// The commands whose counterparts have it: `run,benchmark`.
    pub commands: &'static str,
    /// Its value where it is not given; of flags that a command refuses only.
    pub default: Option<&'static str>,
    /// Why a command refuses it; empty if none does.
    pub reason: &'static str,
}

impl ReferenceFlag {
    /// The counterpart of a command that has it, to name it in messages.
    pub fn tool(self, command: &str) -> Option<&'static str> {
        let has = self.commands.split(',').any(|name| name == command);
        let tool = match command {
            "run" => "iree-run-module",
            "benchmark" => "iree-benchmark-module",
            _ => return None,
        };
        has.then_some(tool)
    }
}

/// All of them, for the page of what is supported.
#[cfg(test)]
pub fn reference_flags() -> impl Iterator<Item = ReferenceFlag> {
    LIST.lines().filter_map(parse)
}

/// The flag called `name`, with underscores. A start asks for each flag of the command line, so few lines of the list
/// are looked at.
pub fn reference_flag(name: &str) -> Option<ReferenceFlag> {
    let mut lines = LIST;
    loop {
        let (before, after) = lines.as_bytes().split_at(lines.len() / 2);
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let length = after.iter().position(|byte| *byte == b'\n').unwrap_or(after.len());
        let line = &lines[start..before.len() + length];
        let found = line.split(' ').next().unwrap_or_default();
        match found.cmp(name) {
            Ordering::Equal => return parse(line),
            Ordering::Greater => lines = &lines[..start],
            Ordering::Less => lines = lines.get(start + line.len() + 1..).unwrap_or_default(),
        }
        if lines.is_empty() {
            return None;
        }
    }
}

/// The flag of a line; none if that describes the columns.
fn parse(line: &'static str) -> Option<ReferenceFlag> {
    let (name, rest) = line.split_once(' ').filter(|_| !line.starts_with('#'))?;
    let rest = rest.trim_start();
    let (commands, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (default, reason) = rest.trim_start().split_once(' ').unwrap_or(("", ""));
    Some(ReferenceFlag { name, commands, default: default.strip_prefix('='), reason: reason.trim_start() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_is_found_by_its_name() {
        for flag in reference_flags() {
            assert_eq!(reference_flag(flag.name), Some(flag));
            let (shorter, longer) = (&flag.name[1..], format!("{}_", flag.name));
            assert_eq!(reference_flag(shorter), reference_flags().find(|known| known.name == shorter));
            assert_eq!(reference_flag(&longer), None);
        }
    }

    #[test]
    fn what_is_no_flag_is_not_found() {
        for name in ["", "#", "# The", " ", "a", "zzz", "run,benchmark"] {
            assert_eq!(reference_flag(name), None, "{name}");
        }
    }

    #[test]
    fn names_have_underscores() {
        assert!(reference_flags().all(|flag| !flag.name.contains('-')));
    }
}
