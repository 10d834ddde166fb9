//! A finding ([`Report`]): a kind of mistake, where, at which address, and for races the other access.

use std::collections::HashMap;
use std::fmt;

use super::warning::{Unchecked, Warning, Warnings};
use crate::memory::Access;

/// A kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Finding {
    /// An access to device memory that is in no allocation.
    OutOfBounds,
    /// An access to an allocation that was freed.
    UseAfterFree,
    /// An access that ends after the memory of the work-group.
    GroupOutOfBounds,
    /// Accesses to device memory that nothing orders.
    Race,
    /// Accesses of a work-group to its memory that nothing orders.
    GroupRace,
    /// Accesses to device memory that nothing orders, of which all stores leave the bytes that were there: whichever
    /// order they happen in, all loads and what is left are the same.
    SameValueRace,
    /// A load of unwritten device memory.
    Uninitialized,
    /// A load of memory of the work-group that it has not written.
    GroupUninitialized,
    /// Bytes that leave the device, of which some are unwritten.
    UnwrittenResult,
    /// Lanes that store different bytes to one address in one instruction: any of them may be left.
    ConflictingStores,
    /// A load that need not see stores of its own dispatch, of bytes that the dispatch writes.
    IncoherentLoad,
    /// Lanes of a wave at a barrier that needs all of it, while others are elsewhere.
    DivergentBarrier,
}

impl Finding {
    /// Its name in texts that programs read; it never changes.
    pub fn name(self) -> &'static str {
        match self {
            Finding::OutOfBounds => "out-of-bounds",
            Finding::UseAfterFree => "use-after-free",
            Finding::GroupOutOfBounds => "group-out-of-bounds",
            Finding::Race => "race",
            Finding::GroupRace => "group-race",
            Finding::SameValueRace => "same-value-race",
            Finding::Uninitialized => "uninitialized",
            Finding::GroupUninitialized => "group-uninitialized",
            Finding::UnwrittenResult => "unwritten-result",
            Finding::ConflictingStores => "conflicting-stores",
            Finding::IncoherentLoad => "incoherent-load",
            Finding::DivergentBarrier => "divergent-barrier",
        }
    }

    /// False if the results of a program are the same all the same.
    pub fn is_harmful(self) -> bool {
        self != Finding::SameValueRace
    }

    /// It for people, who know GPUs by the words of AMD or, if `is_block`, of NVIDIA.
    fn title(self, is_block: bool) -> &'static str {
        match self {
            Finding::GroupOutOfBounds if is_block => "out of bounds of shared memory",
            Finding::GroupRace if is_block => "data race in shared memory",
            Finding::GroupUninitialized if is_block => "shared memory that was never written",
            Finding::OutOfBounds => "out of bounds",
            Finding::UseAfterFree => "use after free",
            Finding::GroupOutOfBounds => "out of bounds of the work-group's memory",
            Finding::Race => "data race",
            Finding::GroupRace => "data race in the work-group's memory",
            Finding::SameValueRace => "harmless data race of equal values",
            Finding::Uninitialized => "memory that was never written",
            Finding::GroupUninitialized => "work-group's memory that was never written",
            Finding::UnwrittenResult => "memory that was never written leaves the device",
            Finding::ConflictingStores => "different values stored to one address by one instruction",
            Finding::IncoherentLoad => "load through the read-only cache of memory that the kernel writes",
            Finding::DivergentBarrier => "barrier in divergent code",
        }
    }
}

/// Where an instruction is in a code object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The address in the code object.
    pub address: u64,
    /// Bytes after the first instruction of the kernel.
    pub offset: u64,
    /// The instruction as text.
    pub instruction: String,
    /// `file:line` of the source, where the code object says it.
    pub source: Option<String>,
}

/// An instruction of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The kernel.
    pub kernel: String,
    /// Where the instruction is in the code object.
    pub place: Place,
    /// The work-group.
    pub group: [u32; 3],
    /// The wave in the work-group.
    pub wave: u32,
    /// The lane; none for an instruction of the wave as a whole.
    pub lane: Option<u32>,
    /// The number of the queue.
    pub queue: u64,
    /// The index of the packet in the queue.
    pub packet: u64,
    /// All of it in the words of its owner, if that has some of its own.
    pub text: Option<String>,
}

/// The other access of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherAccess {
    /// The kind of access.
    pub access: Access,
    /// Where it is.
    pub site: Site,
}

/// An allocation near an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationNote {
    /// The name of the memory.
    pub what: String,
    /// The address of its first byte.
    pub start: u64,
    /// Its bytes.
    pub length: u64,
    /// Where the access begins in it.
    pub offset: i64,
    /// The thread that freed it.
    pub freed_by: Option<String>,
}

/// Bytes that leave the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitNote {
    /// Their name: a result of a call, for example.
    pub name: String,
    /// All of them.
    pub bytes: u64,
    /// The unwritten ones.
    pub unwritten: u64,
    /// The first of these, counted from the first byte.
    pub offset: u64,
}

/// Something that was found. Accesses of the same kernel and instruction are one report, which describes the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The kind of mistake.
    pub finding: Finding,
    /// The kind of access.
    pub access: Access,
    /// Its bytes, or 4 GiB if there are more.
    pub length: u32,
    /// The first byte; an offset in memory of a work-group. Of bytes that leave the device, the first unwritten one.
    pub address: u64,
    /// Where it is; none for bytes that leave the device.
    pub site: Option<Site>,
    /// The allocation that it is in, or nearest to.
    pub allocation: Option<AllocationNote>,
    /// Bytes of the memory of the work-group, if it is about that.
    pub group_bytes: Option<u32>,
    /// The other access of a race.
    pub other: Option<OtherAccess>,
    /// The bytes that leave the device, if it is about these.
    pub exit: Option<ExitNote>,
    /// The rest of what is known.
    pub note: Option<String>,
    /// How many accesses of lanes were like this.
    pub count: u64,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        let Site { place, group: [x, y, z], .. } = self;
        write!(f, "{}+0x{:x} (0x{:x})", self.kernel, place.offset, place.address)?;
        if !place.instruction.is_empty() {
            write!(f, ": {}", place.instruction)?;
        }
        if let Some(source) = &place.source {
            write!(f, "\n      source {source}")?;
        }
        write!(f, "\n      work-group ({x}, {y}, {z}), wave {}", self.wave)?;
        if let Some(lane) = self.lane {
            write!(f, ", lane {lane}")?;
        }
        write!(f, ", queue {}, packet {}", self.queue, self.packet)
    }
}

impl fmt::Display for AllocationNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AllocationNote { what, start, length, offset, .. } = self;
        let place = match u64::try_from(*offset) {
            Err(_) => format!("{} bytes before", offset.unsigned_abs()),
            Ok(offset) if offset >= *length => format!("{} bytes after the end of", offset - length),
            Ok(offset) => format!("byte {offset} of"),
        };
        write!(f, "{place} {what} of {length} bytes at 0x{start:x}")?;
        self.freed_by.as_ref().map_or(Ok(()), |by| write!(f, ", freed by {by}"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_block = self.site.as_ref().is_some_and(|site| site.text.is_some());
        let title = self.finding.title(is_block);
        match &self.exit {
            None if self.finding == Finding::DivergentBarrier => f.write_str(title)?,
            Some(ExitNote { name, bytes, unwritten, offset }) => {
                writeln!(f, "{title}: {unwritten} of {bytes} bytes")?;
                write!(f, "    in {name}, the first at byte {offset}")?;
            }
            None => write!(f, "{title}: {} of {} bytes at 0x{:x}", self.access, self.length, self.address)?,
        }
        if let Some(site) = &self.site {
            write!(f, "\n    in {site}")?;
        }
        if let Some(allocation) = &self.allocation {
            write!(f, "\n    memory: {allocation}")?;
        }
        if let Some(bytes) = self.group_bytes {
            let what = if is_block { "shared memory of the block has" } else { "the work-group has" };
            write!(f, "\n    memory: {what} {bytes} bytes")?;
        }
        if let Some(other) = &self.other {
            write!(f, "\n    other: {} in {}", other.access, other.site)?;
        }
        if let Some(note) = &self.note {
            write!(f, "\n    {note}")?;
        }
        if self.count > 1 {
            write!(f, "\n    {} accesses like this", self.count)?;
        }
        Ok(())
    }
}

/// The observer of each report and each warning when it is new.
pub type Tell = Box<dyn Fn(&dyn fmt::Display) + Send + Sync>;

/// All reports, of which those of one kind, kernel and instruction are one, and all warnings.
pub(super) struct Reports {
    all: Vec<Report>,
    index: HashMap<(Finding, String, u64), usize>,
    most: usize,
    warnings: Warnings,
    tell: Option<Tell>,
}

impl Reports {
    pub(super) fn new(most: usize, tell: Option<Tell>) -> Self {
        Reports { all: Vec::new(), index: HashMap::new(), most, warnings: Warnings::default(), tell }
    }

    /// Whether a kind of finding at an instruction is the first one.
    pub(super) fn is_new(&self, finding: Finding, kernel: &str, instruction: u64) -> bool {
        !self.index.contains_key(&(finding, kernel.to_string(), instruction))
    }

    /// Counts one more of a kind, or adds what `report` says.
    pub(super) fn add(&mut self, finding: Finding, kernel: &str, instruction: u64, report: impl FnOnce() -> Report) {
        let key = (finding, kernel.to_string(), instruction);
        if let Some(index) = self.index.get(&key) {
            self.all[*index].count += 1;
        } else if self.all.len() < self.most {
            self.index.insert(key, self.all.len());
            let report = report();
            self.tell.iter().for_each(|tell| tell(&report));
            self.all.push(report);
        } else {
            self.warn(Unchecked::MoreFindings, Some(kernel), self.most as u64);
        }
    }

    /// Warns of a limit that was reached, the first time that it is.
    pub(super) fn warn(&mut self, unchecked: Unchecked, kernel: Option<&str>, limit: u64) {
        if let Some(warning) = self.warnings.add(unchecked, kernel, limit) {
            self.tell.iter().for_each(|tell| tell(warning));
        }
    }

    /// The warnings since the last call.
    pub(super) fn take_warnings(&mut self) -> Vec<Warning> {
        self.warnings.take()
    }

    pub(super) fn take(&mut self) -> Vec<Report> {
        self.index.clear();
        std::mem::take(&mut self.all)
    }
}
