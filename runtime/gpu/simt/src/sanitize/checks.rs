//! Which checks are on ([`Checks`]), and what they may cost ([`Limits`]).

use std::fmt;
use std::str::FromStr;

/// The checks that are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Accesses out of bounds, and to freed memory.
    pub memory: bool,
    /// Data races.
    pub race: bool,
    /// Data races that change nothing, since the stores leave the bytes that were there. They are found where `race` is
    /// on.
    pub same_value: bool,
    /// Reads of what was never written.
    pub init: bool,
}

impl Checks {
    /// The names of the checks.
    pub const NAMES: [&str; 4] = ["memory", "race", "race-same-value", "init"];

    /// True if something is checked.
    pub fn any(self) -> bool {
        self.memory || self.race || self.init
    }

    /// The checks that either has on.
    pub fn or(self, other: Checks) -> Checks {
        Checks {
            memory: self.memory || other.memory,
            race: self.race || other.race,
            same_value: self.same_value || other.same_value,
            init: self.init || other.init,
        }
    }
}

/// The error for a name that is no check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCheck(String);

impl fmt::Display for UnknownCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not one of {}", self.0, Checks::NAMES.join(", "))
    }
}

impl std::error::Error for UnknownCheck {}

impl FromStr for Checks {
    type Err = UnknownCheck;

    /// Reads `memory,race,init`, or with `+` between them. `race-same-value` has `race` on, too.
    fn from_str(text: &str) -> Result<Self, UnknownCheck> {
        let mut checks = Checks::default();
        for name in text.split([',', '+']).map(str::trim) {
            match name {
                "memory" => checks.memory = true,
                "race" => checks.race = true,
                "race-same-value" => (checks.race, checks.same_value) = (true, true),
                "init" => checks.init = true,
                _ => return Err(UnknownCheck(name.to_string())),
            }
        }
        Ok(checks)
    }
}

/// Bounds on the memory of a sanitizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of shadow memory; the moments of accesses take up to a quarter as many on top.
    pub shadow: u64,
    /// Bytes of freed allocations that are kept, so that their addresses are not given out.
    pub quarantine: u64,
    /// Reports at places of their own.
    pub reports: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { shadow: 2 << 30, quarantine: 256 << 20, reports: 1000 }
    }
}
