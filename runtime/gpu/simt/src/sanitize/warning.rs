//! A limit of the sanitizer that was reached ([`Warning`]), and what it does not check since then. No kernel is to
//! blame, so it is no finding.

use std::collections::HashSet;
use std::fmt;

/// A kind of accesses that is left unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unchecked {
    /// Races at memory that was not accessed before: there is no shadow memory for it.
    Races,
    /// Unwritten bytes of words of which others were written: there is no shadow memory that tells them apart.
    PartsOfWords,
    /// Races with accesses so far: what orders them would take too much memory, so they are forgotten.
    EarlierAccesses,
    /// Races of a dispatch that has too many waves.
    Dispatch,
    /// Findings at more instructions than are kept.
    MoreFindings,
}

impl Unchecked {
    /// Its name in texts that programs read; it never changes.
    pub fn name(self) -> &'static str {
        match self {
            Unchecked::Races => "races",
            Unchecked::PartsOfWords => "parts-of-words",
            Unchecked::EarlierAccesses => "earlier-accesses",
            Unchecked::Dispatch => "dispatch",
            Unchecked::MoreFindings => "more-findings",
        }
    }
}

/// A limit that was reached for the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The accesses that are left unchecked since then.
    pub unchecked: Unchecked,
    /// The kernel that reached the limit; none for the host.
    pub kernel: Option<String>,
    /// The limit: bytes, entries, waves or findings.
    pub limit: u64,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        f.write_str("warning: ")?;
        match self.unchecked {
            Unchecked::Races => write!(
                f,
                "the {limit} bytes of shadow memory are used up; memory that was not accessed before is not checked for races"
            ),
            Unchecked::PartsOfWords => write!(
                f,
                "the {limit} bytes of shadow memory are used up; in words that are written in part, unwritten bytes are not found"
            ),
            Unchecked::EarlierAccesses => write!(
                f,
                "the order of accesses takes more than {limit} entries; races of accesses so far with later ones are not found"
            ),
            Unchecked::Dispatch => {
                write!(f, "more than {limit} waves in one dispatch; its races are not found")
            }
            Unchecked::MoreFindings => write!(f, "more than {limit} findings; others are not reported"),
        }?;
        self.kernel.as_ref().map_or(Ok(()), |kernel| write!(f, "\n    since {kernel}"))
    }
}

/// The warnings of a sanitizer: each kind once.
#[derive(Default)]
pub(super) struct Warnings {
    told: HashSet<Unchecked>,
    new: Vec<Warning>,
}

impl Warnings {
    /// Adds a warning. Returns it if it is the first of its kind.
    pub(super) fn add(&mut self, unchecked: Unchecked, kernel: Option<&str>, limit: u64) -> Option<&Warning> {
        if !self.told.insert(unchecked) {
            return None;
        }
        self.new.push(Warning { unchecked, kernel: kernel.map(str::to_string), limit });
        self.new.last()
    }

    pub(super) fn take(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.new)
    }
}
