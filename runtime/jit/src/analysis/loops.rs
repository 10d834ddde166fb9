//! Loops of the bytecode, and at which of them the interpreter may enter compiled code.

use smallvec::SmallVec;

use super::typed_liveness::Kinds;
use crate::bytecode::{Decoded, EdgeId, Op};
use crate::generated::vm::jit;

/// What the first block of a loop is to the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// It may enter code here.
    Entered,
    /// It may not: a loop around this one is executed by compiled code alone, and is entered at its own head. So what that loop
    /// computes can stay in registers through this one.
    Inner,
}

/// Whether one of the branches of an op moves references, so that the interpreter makes them all.
pub(crate) fn moves_refs(decoded: &Decoded, edges: &[EdgeId]) -> bool {
    edges.iter().any(|id| decoded.remaps(decoded.edge(*id)).iter().any(|remap| remap.source.is_ref()))
}

/// The branches of an op that code makes itself.
pub(crate) fn native_edges(op: Op) -> SmallVec<[EdgeId; 2]> {
    match op {
        Op::Br { target } => SmallVec::from_slice(&[target]),
        Op::CondBr { true_target, false_target, .. } => SmallVec::from_slice(&[true_target, false_target]),
        _ => SmallVec::new(),
    }
}

/// For each block whether a backward branch leads to it, so that it is a loop's first block.
pub(crate) fn heads(decoded: &Decoded, kinds: &Kinds<'_>) -> Vec<Option<Head>> {
    let count = decoded.blocks.len();
    if !kinds.has_loops() {
        return vec![None; count];
    }
    let mut latches: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (index, block) in decoded.blocks.iter().enumerate() {
        let last = block.ops.end - 1;
        for id in native_edges(decoded.ops[last as usize]) {
            let edge = decoded.edge(id);
            if edge.entry <= last {
                latches[edge.target.index()].push(index);
            }
        }
    }
    let mut heads: Vec<Option<Head>> =
        latches.iter().map(|latches| (!latches.is_empty()).then_some(Head::Entered)).collect();
    if heads.iter().flatten().nth(1).is_none() {
        return heads;
    }
    let native: Vec<bool> = (0..count).map(|block| is_native(decoded, block)).collect();
    let mut sources: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (index, block) in decoded.blocks.iter().enumerate() {
        for (target, _) in kinds.targets(block.ops.end - 1) {
            sources[target.index()].push(index);
        }
    }
    // Outer loops come first, and those inside them need not be looked at again.
    let mut seen = vec![usize::MAX; count];
    for head in 0..count {
        if heads[head] == Some(Head::Entered)
            && let Some(body) = body(head, &latches[head], &sources, &native, &mut seen)
        {
            for block in body {
                if block != head && heads[block].is_some() {
                    heads[block] = Some(Head::Inner);
                }
            }
        }
    }
    heads
}

/// Whether compiled code executes all ops of a block.
fn is_native(decoded: &Decoded, block: usize) -> bool {
    let ops = decoded.blocks[block].ops.clone();
    let last = decoded.ops[ops.end as usize - 1];
    let edges = native_edges(last);
    !edges.is_empty()
        && !moves_refs(decoded, &edges)
        && ops.into_iter().rev().skip(1).all(|pc| jit::is_built(decoded.ops[pc as usize]))
}

/// The blocks of a loop, if compiled code executes them all and its head is the only way in.
fn body(
    head: usize,
    latches: &[usize],
    sources: &[Vec<usize>],
    native: &[bool],
    seen: &mut [usize],
) -> Option<Vec<usize>> {
    let mut body = vec![head];
    seen[head] = head;
    let mut pending = latches.to_vec();
    while let Some(block) = pending.pop() {
        if std::mem::replace(&mut seen[block], head) == head {
            continue;
        }
        // Blocks are in an order in which a loop's head comes first.
        if block < head || !native[block] || sources[block].is_empty() {
            return None;
        }
        body.push(block);
        pending.extend(&sources[block]);
    }
    native[head].then_some(body)
}
