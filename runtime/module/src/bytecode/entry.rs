//! The entry of a function that expects its arguments elsewhere than callers put them: a block of copies.

use super::decoded::{Block, Decoded, Edge, Remap};
use super::function_info::FunctionInfo;
use super::operands::{AnyReg, BlockId, EdgeId};
use super::placement::Placement;
use crate::generated::vm::decode::Op;

/// The copies from where callers put arguments to where the function expects them. They are executed in order: each
/// target is below the source and thus below all further sources.
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

/// Puts a block before the first one, which copies the arguments to where the function expects them; nothing where they
/// are there already.
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
