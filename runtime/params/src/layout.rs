//! Checks that all archive readers share: ranges of bytes that must not overlap, and error messages with offsets.

use std::fmt;

use crate::status::{Result, Status};

/// An error with the offset in the file.
#[cold]
pub(super) fn refuse(offset: u64, message: impl fmt::Display) -> Status {
    Status::invalid_argument(format!("at {offset:#x}: {message}"))
}

/// `count` as a word of a sentence: `1 byte`, `2 bytes`.
pub(super) fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

/// The ranges of a file that are in use, each with its owner.
#[derive(Default)]
pub(super) struct Ranges(Vec<OwnedRange>);

struct OwnedRange {
    start: u64,
    end: u64,
    what: RangeOwner,
}

/// The owner of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RangeOwner {
    /// Tables of the archive.
    Header(&'static str),
    /// The contents of the parameter with this number.
    Parameter(usize),
}

impl Ranges {
    /// Adds a range of tables.
    pub(super) fn header(&mut self, what: &'static str, start: u64, end: u64) {
        self.add(RangeOwner::Header(what), start, end);
    }

    /// Adds the contents of a parameter.
    pub(super) fn parameter(&mut self, number: usize, start: u64, end: u64) {
        self.add(RangeOwner::Parameter(number), start, end);
    }

    fn add(&mut self, what: RangeOwner, start: u64, end: u64) {
        if start < end {
            self.0.push(OwnedRange { start, end, what });
        }
    }

    /// Refuses parameters whose contents overlap partially, or overlap tables. Parameters with the same contents are
    /// allowed if `aliases`, and tables may overlap each other. `key` names a parameter.
    pub(super) fn check<'a>(mut self, aliases: bool, key: impl Fn(usize) -> &'a str) -> Result<()> {
        self.0.sort_unstable_by_key(|range| (range.start, range.end));
        // The range that ends last so far, of tables and of parameters.
        let (mut header, mut parameter): (Option<&OwnedRange>, Option<&OwnedRange>) = (None, None);
        for range in &self.0 {
            let name = |range: &OwnedRange| match range.what {
                RangeOwner::Header(what) => what.to_string(),
                RangeOwner::Parameter(number) => format!("the contents of `{}`", key(number).escape_debug()),
            };
            let overlap = |other: &OwnedRange| {
                let message = format!(
                    "{} ({:#x}..{:#x}) overlap {} ({:#x}..{:#x})",
                    name(range),
                    range.start,
                    range.end,
                    name(other),
                    other.start,
                    other.end
                );
                Err(refuse(range.start, message))
            };
            let is_parameter = matches!(range.what, RangeOwner::Parameter(_));
            if let Some(other) = parameter.filter(|other| range.start < other.end) {
                let same = is_parameter && (other.start, other.end) == (range.start, range.end);
                if !(same && aliases) {
                    return overlap(other);
                }
            }
            if let Some(other) = header.filter(|other| is_parameter && range.start < other.end) {
                return overlap(other);
            }
            let last = if is_parameter { &mut parameter } else { &mut header };
            if last.is_none_or(|last| range.end >= last.end) {
                *last = Some(range);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: (u64, u64), parameters: &[(u64, u64)], aliases: bool) -> Result<(), String> {
        let mut ranges = Ranges::default();
        ranges.header("the tables", header.0, header.1);
        for (number, (start, end)) in parameters.iter().enumerate() {
            ranges.parameter(number, *start, *end);
        }
        ranges.check(aliases, |number| ["a", "b", "c"][number]).map_err(|status| status.message().to_string())
    }

    #[test]
    fn parameters_share_all_or_nothing() {
        assert_eq!(check((0, 8), &[(8, 16), (16, 24), (16, 16)], false), Ok(()));
        assert_eq!(check((0, 8), &[(8, 16), (8, 16)], true), Ok(()));
        assert!(check((0, 8), &[(8, 16), (8, 16)], false).is_err());
        let error = check((0, 8), &[(8, 16), (12, 24)], true).unwrap_err();
        assert_eq!(error, "at 0xc: the contents of `b` (0xc..0x18) overlap the contents of `a` (0x8..0x10)");
        let error = check((0, 9), &[(8, 16)], true).unwrap_err();
        assert_eq!(error, "at 0x8: the contents of `a` (0x8..0x10) overlap the tables (0x0..0x9)");
        assert!(check((10, 12), &[(8, 16)], true).is_err());
        assert!(check((0, 1), &[(8, 32), (9, 10), (20, 24)], true).is_err());
    }
}
