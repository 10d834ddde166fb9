//! Reduction of captures: the fewest steps for which a test still says that the capture is interesting, by taking away
//! ever smaller runs of them. Objects that the steps left need stay.

use std::io::{Seek, Write};

use vireo_core::limits::MemoryBudget;
use vireo_core::status::{Result, Status};

use crate::plan::Plan;
use crate::reader::Reader;
use crate::sequence::{Item, Sequence};
use crate::slice::Slice;

/// A copy of a capture that is tested.
pub struct Candidate<'a> {
    reader: &'a mut Reader,
    sequence: &'a Sequence,
    items: &'a [Item],
}

impl std::fmt::Debug for Candidate<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Candidate").field("records", &self.items.len()).finish_non_exhaustive()
    }
}

impl Candidate<'_> {
    /// Its records.
    pub fn records(&self) -> usize {
        self.items.len()
    }

    /// Writes it.
    ///
    /// # Errors
    /// UNAVAILABLE if `out` cannot be written, and those of the capture.
    pub fn write(&mut self, out: impl Write + Seek) -> Result<()> {
        self.sequence.write(self.reader, self.items, &mut |_, _, _| Ok(true), out).map(drop)
    }
}

/// The answer of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The candidate still shows what is looked for.
    Interesting,
    /// It does not.
    Boring,
    /// The time is over: the reduction ends with what it has.
    Stop,
}

/// The outcome of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduced {
    /// Records of the copy.
    pub records: u64,
    /// Records of the capture.
    pub of: u64,
    /// How often the test ran.
    pub tests: u64,
    /// Whether no step can be left out any more; otherwise the time was over.
    pub is_least: bool,
}

/// Writes the least copy of a capture that `test` finds interesting; it gets candidates one after the other. The
/// headers and the plan of the capture are charged to `memory`.
///
/// # Errors
/// FAILED_PRECONDITION if the test does not find the capture itself interesting; those of [`Plan::read`], of `test`,
/// and UNAVAILABLE if `out` cannot be written.
pub fn reduce(
    reader: &mut Reader,
    memory: Option<&MemoryBudget>,
    test: &mut dyn FnMut(&mut Candidate<'_>) -> Result<Verdict>,
    out: impl Write + Seek,
) -> Result<Reduced> {
    let sequence = Sequence::read(reader, memory)?;
    let plan = Plan::read(reader, memory)?;
    let order = plan.serial_order()?;
    let slice = Slice::new(&plan)?;
    let is_unit = |index: &usize| plan.steps.get(*index).is_some_and(|step| step.made().is_none());
    let units: Vec<usize> = order.iter().copied().filter(is_unit).collect();
    let mut reduction = Reduction {
        reader,
        sequence: &sequence,
        plan: &plan,
        order: &order,
        slice,
        test,
        tests: 0,
        has_others: false,
        items: sequence.all(),
    };
    let items = reduction.items.clone();
    match reduction.try_items(items)? {
        Verdict::Interesting => {}
        Verdict::Boring => {
            return Err(Status::failed_precondition("the test does not find the whole capture interesting"));
        }
        Verdict::Stop => {
            return Err(Status::failed_precondition("the time was over before the capture was tested once"));
        }
    }
    let is_least = reduction.reduce(units)?;
    let Reduction { reader, items, tests, .. } = reduction;
    let records = sequence.write(reader, &items, &mut |_, _, _| Ok(true), out)?;
    Ok(Reduced { records, of: sequence.records.len() as u64, tests, is_least })
}

struct Reduction<'a> {
    reader: &'a mut Reader,
    sequence: &'a Sequence,
    plan: &'a Plan,
    order: &'a [usize],
    slice: Slice<'a>,
    test: &'a mut dyn FnMut(&mut Candidate<'_>) -> Result<Verdict>,
    tests: u64,
    /// Whether copies have the records that are no steps.
    has_others: bool,
    /// The least copy so far.
    items: Vec<Item>,
}

impl Reduction<'_> {
    /// Tests a copy, which is the least one if it is interesting.
    fn try_items(&mut self, items: Vec<Item>) -> Result<Verdict> {
        self.tests += 1;
        let mut candidate = Candidate { reader: self.reader, sequence: self.sequence, items: &items };
        let verdict = (self.test)(&mut candidate)?;
        if verdict == Verdict::Interesting {
            self.items = items;
        }
        Ok(verdict)
    }

    /// Tests the copy with these steps, unless it is the one that is there.
    fn try_steps(&mut self, units: impl Iterator<Item = usize>) -> Result<Verdict> {
        let mut wanted = vec![false; self.plan.steps.len()];
        for index in units {
            if let Some(wanted) = wanted.get_mut(index) {
                *wanted = true;
            }
        }
        let kept = self.slice.least(self.order, &wanted)?;
        let (sequence, has_others) = (self.sequence, self.has_others);
        let items = sequence.ordered(self.plan, self.order, &kept, &|index| has_others || sequence.is_device(index))?;
        if items == self.items { Ok(Verdict::Interesting) } else { self.try_items(items) }
    }

    /// Leaves out steps as long as that is possible; false if the time was over.
    fn reduce(&mut self, mut units: Vec<usize>) -> Result<bool> {
        // Without what is no step, such as queries; it all stays if the test looks for that.
        match self.try_steps(units.iter().copied())? {
            Verdict::Interesting => {}
            Verdict::Boring => self.has_others = true,
            Verdict::Stop => return Ok(false),
        }
        let mut length = units.len().div_ceil(2).max(1);
        loop {
            let (mut start, mut is_shorter) = (0, false);
            while start < units.len() {
                let end = (start + length).min(units.len());
                let (before, after) = (units.get(..start).unwrap_or_default(), units.get(end..).unwrap_or_default());
                let rest: Vec<usize> = before.iter().chain(after).copied().collect();
                match self.try_steps(rest.iter().copied())? {
                    Verdict::Interesting => {
                        units = rest;
                        is_shorter = true;
                    }
                    Verdict::Boring => start = end,
                    Verdict::Stop => return Ok(false),
                }
            }
            match length {
                // A step that was needed may not be any more, once a later one is gone.
                1 if !is_shorter => return Ok(true),
                1 => {}
                _ => length = length.div_ceil(2),
            }
        }
    }
}
