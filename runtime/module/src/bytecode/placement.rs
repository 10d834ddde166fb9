//! Where a function expects its arguments: rules of compilers, and how to tell which rule a module follows. The verifier calls it.
//!
//! Callers always write arguments one after the other, each 64-bit value to an even pair ([`Placement::InOrder`]). Compilers up to IREE 3.4
//! put a 32-bit value into the first free register instead, also into the gap that an even pair left. Functions of theirs whose arguments
//! differ start with a branch that copies them from the one place to the other, so that nothing but the verifier knows of this.

use super::decoded::{Block, Decoded, Edge, Remap};
use super::operands::{AnyReg, BlockId, EdgeId};
use super::verifier::{FunctionInfo, ModuleInfo, live_at_entry};
use crate::convention::Convention;
use crate::generated::vm::decode::Op;
use crate::generated::vm::opcode::{BytecodeVersion, NEWEST_BYTECODE};

/// Where values are when a function is entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Each argument after the one before it.
    #[default]
    InOrder,
    /// Each argument at the lowest registers that are free.
    GapFill,
}

impl Placement {
    /// The first slot of each argument of a convention without spans, with the number of its slots. References are left out.
    fn slots(self, convention: &Convention) -> Vec<(usize, usize)> {
        let kinds = convention.fixed_args().into_iter().flatten();
        let counts = kinds.map(|kind| kind.slots() as usize).filter(|count| *count > 0);
        // There is at most one gap, of one slot: the slot before an even pair. Until a 32-bit value fills it, no other one can come up.
        let (mut next, mut gap) = (0, None);
        let place = |count: usize| {
            if count == 1
                && self == Placement::GapFill
                && let Some(gap) = gap.take()
            {
                return (gap, 1);
            }
            if count == 2 && next % 2 == 1 {
                gap = Some(next);
                next += 1;
            }
            next += count;
            (next - count, count)
        };
        counts.map(place).collect()
    }

    /// For each slot of a frame, whether an argument is in it.
    fn argument_slots(self, convention: &Convention, slots: usize) -> Vec<bool> {
        let mut is_argument = vec![false; slots];
        for (first, count) in self.slots(convention) {
            is_argument.iter_mut().skip(first).take(count).for_each(|slot| *slot = true);
        }
        is_argument
    }

    /// The number of slots that arguments take, with the gaps between them.
    pub(super) fn needed_slots(self, convention: &Convention) -> u32 {
        self.slots(convention).iter().map(|(first, count)| (first + count) as u32).max().unwrap_or(0)
    }
}

/// For each slot of a frame, whether a caller writes an argument to it; a slot that pads an argument to an even pair is not.
pub(super) fn argument_slots(convention: &Convention, slots: u16) -> Vec<bool> {
    Placement::InOrder.argument_slots(convention, usize::from(slots))
}

/// The rules of a module's compiler that its bytecode alone does not express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The version of its bytecode.
    pub version: &'static BytecodeVersion,
    /// Where its functions expect their arguments.
    pub placement: Placement,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { version: NEWEST_BYTECODE, placement: Placement::default() }
    }
}

/// The copies from where callers put arguments to where the function expects them. They are executed in order: each target is
/// below the source and thus below all further sources.
fn copies(function: &FunctionInfo<'_>) -> Vec<Remap> {
    let from = Placement::InOrder.slots(function.convention);
    let to = function.rules.placement.slots(function.convention);
    let pairs = from.iter().zip(&to).filter(|(from, to)| from != to);
    let copy = |source: usize, target: usize| Remap { source: value(source), target: value(target) };
    pairs.flat_map(|((from, count), (to, _))| (0..*count).map(move |half| copy(from + half, to + half))).collect()
}

/// Frames with more slots than a register has bits were refused.
fn value(slot: usize) -> AnyReg {
    AnyReg(u16::try_from(slot).unwrap_or(u16::MAX))
}

/// Puts a block before the first one, which copies the arguments to where the function expects them; nothing where they are there already.
pub(super) fn enter(decoded: &mut Decoded, function: &FunctionInfo<'_>) {
    let copies = copies(function);
    if copies.is_empty() {
        return;
    }
    decoded.blocks.iter_mut().for_each(|block| block.ops = block.ops.start + 1..block.ops.end + 1);
    for edge in &mut decoded.edges {
        edge.target.0 += 1;
        edge.entry += 1;
    }
    decoded.calls.iter_mut().filter_map(|call| call.resume.as_mut()).for_each(|resume| resume.0 += 1);
    let (first, edge) = (decoded.remaps.len() as u32, EdgeId(decoded.edges.len() as u32));
    decoded.remaps.extend(copies);
    decoded.edges.push(Edge { target: BlockId(1), entry: 1, remap: first..decoded.remaps.len() as u32 });
    decoded.ops.insert(0, Op::Br { target: edge });
    decoded.offsets.insert(0, 0);
    decoded.blocks.insert(0, Block { offset: 0, ops: 0..1 });
}

/// The evidence that the functions of a module give of the rule of their compiler.
#[derive(Debug, Default)]
pub struct PlacementEvidence {
    /// A function that reads registers which have arguments by this rule, but not by the other.
    in_order: Option<u32>,
    gap_fill: Option<u32>,
}

impl PlacementEvidence {
    /// Looks at one function, whose arguments may be read before anything is written.
    ///
    /// # Errors
    /// Adds the evidence of a function; the error is what contradicts both rules.
    pub fn add(&mut self, bytes: &[u8], function: &FunctionInfo<'_>, module: &ModuleInfo<'_>) -> Result<(), String> {
        let rules = [Placement::InOrder, Placement::GapFill];
        let [in_order, gap_fill] = rules.map(|rule| rule.slots(function.convention));
        if in_order == gap_fill {
            return Ok(());
        }
        // A fault of the function is reported when it is verified.
        let Ok(live) = live_at_entry(bytes, function, module) else { return Ok(()) };
        let Some(live) = live else {
            return Err("it is too large to find out which registers its arguments are in".to_string());
        };
        let foreign = rules.map(|rule| {
            let is_argument = rule.argument_slots(function.convention, live.len());
            live.iter().zip(is_argument).position(|(live, is_argument)| *live && !is_argument)
        });
        match foreign {
            [Some(first), Some(second)] => Err(format!(
                "it reads registers that are not written before: i{first} is no argument without filled gaps, and i{second} is \
                 none with filled gaps"
            )),
            [None, Some(_)] => {
                self.in_order.get_or_insert(function.ordinal);
                Ok(())
            }
            [Some(_), None] => {
                self.gap_fill.get_or_insert(function.ordinal);
                Ok(())
            }
            [None, None] => Ok(()),
        }
    }

    /// The rule of the module: that of most compilers unless a function needs the other.
    ///
    /// # Errors
    /// Two functions contradict each other.
    pub fn placement(&self) -> Result<Placement, String> {
        match (self.in_order, self.gap_fill) {
            (Some(first), Some(second)) => Err(format!(
                "function {first} reads its arguments without filled gaps, function {second} with filled gaps"
            )),
            (None, Some(_)) => Ok(Placement::GapFill),
            _ => Ok(Placement::InOrder),
        }
    }
}
