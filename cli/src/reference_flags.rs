//! Flags of IREE's tools, with the reason why a command lacks one. `flags` uses it to refuse such a flag by name, and `support_matrix` to list
//! them.

/// One line for each flag; its first lines describe the columns.
const LIST: &str = include_str!("reference_flags.txt");

/// A flag of IREE's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceFlag {
    /// With underscores, as the tools spell it.
    pub name: &'static str,
    /// The commands whose counterparts have it: `run,benchmark`.
    pub commands: &'static str,
    /// Why a command refuses it; empty if none does.
    pub reason: &'static str,
}

impl ReferenceFlag {
    /// The tool that has it, to name it in messages.
    pub fn tool(self) -> &'static str {
        if self.commands == "benchmark" { "iree-benchmark-module" } else { "iree-run-module" }
    }
}

/// All of them.
pub fn reference_flags() -> impl Iterator<Item = ReferenceFlag> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let rest = rest.trim_start();
        let (commands, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(ReferenceFlag { name, commands, reason: reason.trim_start() })
    })
}
