//! Flags of IREE's tools, with the reason why a command lacks one. `flags` uses it to refuse such a flag by name, or to accept its default, and
//! `support_matrix` to list them.

/// One line for each flag; its first lines describe the columns.
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

/// All of them.
pub fn reference_flags() -> impl Iterator<Item = ReferenceFlag> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let rest = rest.trim_start();
        let (commands, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (default, reason) = rest.trim_start().split_once(' ').unwrap_or(("", ""));
        Some(ReferenceFlag { name, commands, default: default.strip_prefix('='), reason: reason.trim_start() })
    })
}
