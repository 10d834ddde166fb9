//! Comparison of two replays, dispatch by dispatch: the first one whose results differ.
//!
//! Both sides go on to their next dispatch and run it, and then the contents of what it is bound to are compared, a
//! mebibyte at a time. If something differs, both begin again and stop before that dispatch, to see whether its inputs
//! differ already, which is the work of a copy or of the host, and to save them.

use std::collections::HashMap;
use std::sync::Arc;

use vireo_core::limits::{Charge, scope};
use vireo_core::status::{Result, Status};
use vireo_hal::Device;

use crate::compare::{Comparison, RangeDifference};
use crate::options::ReplayOptions;
use crate::plan::Plan;
use crate::stepper::{BoundRange, CHUNK, SteppedDispatch, SteppedRead, Stepper, Stop};

/// A capture and where it is replayed.
#[derive(Clone, Copy, Debug)]
pub struct DiffSide<'a> {
    /// The capture.
    pub plan: &'a Plan,
    /// Its devices.
    pub devices: &'a [Arc<dyn Device>],
    /// Options; limits are those of the first side.
    pub options: &'a ReplayOptions,
}

/// The first difference of two replays.
#[derive(Clone, Debug, PartialEq)]
pub enum FirstDifference {
    /// The results of a dispatch differ.
    Results {
        /// The dispatch of each side.
        dispatches: Box<[SteppedDispatch; 2]>,
        /// The bindings that differ, by their numbers; there is one at least.
        bindings: Vec<(usize, RangeDifference)>,
        /// Why they do.
        cause: Cause,
    },
    /// The sides dispatch different functions, or one of them dispatches no more.
    Functions(Box<[Option<SteppedDispatch>; 2]>),
    /// A read of the host differs, though no dispatch before does.
    Read {
        /// The read of each side.
        reads: [SteppedRead; 2],
        /// How they differ.
        range: RangeDifference,
    },
}

/// Why the results of a dispatch differ.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// Its inputs are equal.
    Dispatch,
    /// These bindings differ before it: what was done since the dispatch before it differs, such as a copy.
    Inputs(Vec<(usize, RangeDifference)>),
    /// They do not in a second replay of both sides.
    NotAgain,
}

/// The outcome of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// Dispatches that were compared.
    pub dispatches: u64,
    /// Reads of the host that were compared.
    pub reads: u64,
    /// Reads of the host that only one side has.
    pub lone_reads: u64,
    /// The first difference; none if all is equal.
    pub first: Option<FirstDifference>,
}

/// The part that contents of a binding have in a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentsOf {
    /// Before the dispatch, by side.
    Input(usize),
    /// After it, by side.
    Output(usize),
}

/// An observer of a comparison.
pub trait WatchDiff {
    /// A dispatch was compared, in its turn.
    ///
    /// # Errors
    /// Those that end the comparison.
    fn compared(&mut self, dispatches: &[SteppedDispatch; 2], is_equal: bool) -> Result<()> {
        let _ = (dispatches, is_equal);
        Ok(())
    }

    /// Whether it wants the contents of the first dispatch that differs.
    fn wants_contents(&self) -> bool {
        false
    }

    /// The next bytes of a binding of the dispatch with this number.
    ///
    /// # Errors
    /// Those that end the comparison.
    fn contents(&mut self, number: u64, binding: usize, of: ContentsOf, bytes: &[u8]) -> Result<()> {
        let _ = (number, binding, of, bytes);
        Ok(())
    }
}

/// A comparison that is not watched.
impl WatchDiff for () {}

/// Replays both sides and compares them. With a tolerance the second side goes on with the results of the first where
/// they count as equal, so that small differences do not add up.
///
/// # Errors
/// Those of [`Plan::run`], of either side, and of `watch`.
pub fn diff(sides: [DiffSide<'_>; 2], comparison: &Comparison, watch: &mut dyn WatchDiff) -> Result<Diff> {
    let _started = scope::start(&sides[0].options.limits);
    let _charge = Charge::of_call(2 * CHUNK as u64, "comparison")?;
    let mut walk = Walk::new(sides, comparison)?;
    let mut found = walk.first_difference(watch)?;
    if let Some(FirstDifference::Results { dispatches, cause, .. }) = &mut found.first {
        // The memory of the first replay goes before that of the second one comes.
        drop(walk);
        let mut walk = Walk::new(sides, comparison)?;
        *cause = walk.cause(dispatches[0].number, watch)?;
    }
    Ok(found)
}

/// Two replays that go on together.
struct Walk<'a> {
    steppers: [Stepper<'a>; 2],
    comparison: Comparison,
    /// Bytes of both sides.
    bytes: [Vec<u8>; 2],
}

/// A failure of a side.
fn of_side(side: usize, status: Status) -> Status {
    status.context(if side == 0 { "first replay" } else { "second replay" })
}

/// Where both replays have stopped.
enum Both {
    Dispatches(Box<[SteppedDispatch; 2]>),
    Reads([SteppedRead; 2]),
    /// A read of one side, which the other one has not.
    LoneRead,
    /// One side has a dispatch more.
    Uneven(Box<[Option<SteppedDispatch>; 2]>),
    End,
}

impl<'a> Walk<'a> {
    fn new([one, other]: [DiffSide<'a>; 2], comparison: &Comparison) -> Result<Walk<'a>> {
        let stepper = |side: DiffSide<'a>, number| {
            Stepper::new(side.plan, side.devices, side.options).map_err(|status| of_side(number, status))
        };
        let bytes = [vec![0; CHUNK], vec![0; CHUNK]];
        Ok(Walk { steppers: [stepper(one, 0)?, stepper(other, 1)?], comparison: *comparison, bytes })
    }

    /// Goes on with both sides, from where `stops` have left them.
    fn advance(&mut self, stops: &mut [Option<Stop>; 2]) -> Result<Both> {
        for (side, (stop, stepper)) in stops.iter_mut().zip(&mut self.steppers).enumerate() {
            if stop.is_none() {
                *stop = Some(stepper.advance().map_err(|status| of_side(side, status))?);
            }
        }
        let [Some(one), Some(other)] = std::mem::take(stops) else { return Ok(Both::End) };
        Ok(match (one, other) {
            (Stop::Dispatch(one), Stop::Dispatch(other)) => Both::Dispatches(Box::new([one, other])),
            (Stop::Read(one), Stop::Read(other)) => Both::Reads([one, other]),
            (Stop::Read(_), other) => {
                stops[1] = Some(other);
                Both::LoneRead
            }
            (one, Stop::Read(_)) => {
                stops[0] = Some(one);
                Both::LoneRead
            }
            (Stop::Dispatch(one), Stop::End) => Both::Uneven(Box::new([Some(one), None])),
            (Stop::End, Stop::Dispatch(other)) => Both::Uneven(Box::new([None, Some(other)])),
            (Stop::End, Stop::End) => Both::End,
        })
    }

    fn first_difference(&mut self, watch: &mut dyn WatchDiff) -> Result<Diff> {
        let mut found = Diff { dispatches: 0, reads: 0, lone_reads: 0, first: None };
        let mut stops = [None, None];
        while found.first.is_none() {
            match self.advance(&mut stops)? {
                Both::End => break,
                Both::LoneRead => found.lone_reads += 1,
                Both::Uneven(dispatches) => found.first = Some(FirstDifference::Functions(dispatches)),
                Both::Reads(reads) => {
                    found.reads += 1;
                    let range = self.compare(reads.map(|read| read.range), &mut |_| Ok(()))?;
                    found.first = range.map(|range| FirstDifference::Read { reads, range });
                }
                Both::Dispatches(dispatches) if dispatches[0].function != dispatches[1].function => {
                    found.first = Some(FirstDifference::Functions(Box::new((*dispatches).map(Some))));
                }
                Both::Dispatches(dispatches) => {
                    found.dispatches += 1;
                    self.pass()?;
                    let bindings = self.compare_all(&dispatches, None, &mut ())?;
                    watch.compared(&dispatches, bindings.is_empty())?;
                    if !bindings.is_empty() {
                        let cause = Cause::NotAgain;
                        found.first = Some(FirstDifference::Results { dispatches, bindings, cause });
                    }
                }
            }
        }
        Ok(found)
    }

    /// Why the results of a dispatch differ. `watch` gets its contents.
    fn cause(&mut self, number: u64, watch: &mut dyn WatchDiff) -> Result<Cause> {
        let mut stops = [None, None];
        loop {
            match self.advance(&mut stops)? {
                Both::End | Both::Uneven(_) => return Ok(Cause::NotAgain),
                Both::Reads(_) | Both::LoneRead => {}
                Both::Dispatches(dispatches) if dispatches[0].number == number => {
                    let inputs = self.compare_all(&dispatches, Some(ContentsOf::Input), watch)?;
                    self.pass()?;
                    let outputs = self.compare_all(&dispatches, Some(ContentsOf::Output), watch)?;
                    return Ok(match (inputs.is_empty(), outputs.is_empty()) {
                        (_, true) => Cause::NotAgain,
                        (true, false) => Cause::Dispatch,
                        (false, false) => Cause::Inputs(inputs),
                    });
                }
                Both::Dispatches(dispatches) => {
                    self.pass()?;
                    self.compare_all(&dispatches, None, &mut ())?;
                }
            }
        }
    }

    fn pass(&mut self) -> Result<()> {
        let mut steppers = self.steppers.iter_mut().enumerate();
        steppers.try_for_each(|(side, stepper)| stepper.pass().map_err(|status| of_side(side, status)))
    }

    /// Compares the bindings of a dispatch; `watch` gets all of their contents as those `of` each side.
    fn compare_all(
        &mut self,
        dispatches: &[SteppedDispatch; 2],
        of: Option<fn(usize) -> ContentsOf>,
        watch: &mut dyn WatchDiff,
    ) -> Result<Vec<(usize, RangeDifference)>> {
        // Several bindings may be of one range.
        let (mut found, mut seen) = (Vec::new(), HashMap::new());
        let number = dispatches[0].number;
        let wanted = of.filter(|_| watch.wants_contents());
        for (binding, (one, other)) in dispatches[0].bindings.iter().zip(&dispatches[1].bindings).enumerate() {
            let ranges = [*one, *other];
            let range = match seen.get(&ranges).filter(|_| wanted.is_none()) {
                Some(range) => *range,
                None => self.compare(ranges, &mut |bytes| {
                    let Some(of) = wanted else { return Ok(()) };
                    for (side, bytes) in bytes.into_iter().enumerate() {
                        watch.contents(number, binding, of(side), bytes)?;
                    }
                    Ok(())
                })?,
            };
            seen.insert(ranges, range);
            found.extend(range.map(|range| (binding, range)));
        }
        Ok(found)
    }

    /// Compares the common part of two ranges; `visit` gets it in parts.
    fn compare(
        &mut self,
        ranges: [BoundRange; 2],
        visit: &mut dyn FnMut([&[u8]; 2]) -> Result<()>,
    ) -> Result<Option<RangeDifference>> {
        let mut found = None;
        let [one, other] = ranges;
        let length = one.length.min(other.length);
        let Walk { steppers: [first, second], comparison, bytes: [left, right] } = self;
        let mut done = 0;
        while done < length {
            scope::check()?;
            let part = usize::try_from(length - done).unwrap_or(CHUNK).min(CHUNK);
            let (left, right) = (left.get_mut(..part).unwrap_or_default(), right.get_mut(..part).unwrap_or_default());
            first.read(one.buffer, one.offset + done, left)?;
            second.read(other.buffer, other.offset + done, right)?;
            visit([left, right])?;
            RangeDifference::add(&mut found, comparison, done, [left, right]);
            if found.is_none() && comparison.has_tolerance() && left != right {
                second.write(other.buffer, other.offset + done, left)?;
            }
            done += part as u64;
        }
        Ok(found)
    }
}
