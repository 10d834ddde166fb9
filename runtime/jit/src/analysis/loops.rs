//! Loop headers of the bytecode, and which of them get an OSR entry. The builder makes preheaders and entries by it.

use smallvec::SmallVec;

use super::edges::{moves_refs, native_edges};
use super::references::References;
use super::typed_liveness::TypedLiveness;
use crate::bytecode::Decoded;
use crate::generated::vm::jit_facts;

/// Whether the interpreter may enter machine code at a loop header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopHeader {
    /// It may: the header has an OSR entry.
    OsrEntry,
    /// It may not: a loop around this one is compiled as a whole, and entered at its own header. So values of that loop
    /// stay in registers through this one.
    Inner,
}

/// Blocks of the bytecode that branch to one of them: mostly few.
type Blocks = SmallVec<[usize; 2]>;

/// The blocks that are loop headers: those that a back edge leads to.
pub(crate) fn loop_headers(
    decoded: &Decoded,
    liveness: &TypedLiveness<'_>,
    references: Option<&References>,
) -> Vec<Option<LoopHeader>> {
    let count = decoded.blocks.len();
    if !liveness.has_loops() {
        return vec![None; count];
    }
    let mut latches: Vec<Blocks> = (0..count).map(|_| Blocks::new()).collect();
    for (index, block) in decoded.blocks.iter().enumerate() {
        let last = block.ops.end - 1;
        for id in native_edges(decoded.ops[last as usize]) {
            let edge = decoded.edge(id);
            if edge.entry <= last {
                latches[edge.target.index()].push(index);
            }
        }
    }
    let mut headers: Vec<Option<LoopHeader>> =
        latches.iter().map(|latches| (!latches.is_empty()).then_some(LoopHeader::OsrEntry)).collect();
    if headers.iter().flatten().nth(1).is_none() {
        return headers;
    }
    let native: Vec<bool> = (0..count).map(|block| is_native(decoded, block, references)).collect();
    let mut predecessors: Vec<Blocks> = (0..count).map(|_| Blocks::new()).collect();
    for (index, block) in decoded.blocks.iter().enumerate() {
        for (target, _) in liveness.targets(block.ops.end - 1) {
            predecessors[target.index()].push(index);
        }
    }
    // Outer loops come first, and those inside them need not be examined again.
    let mut seen = vec![usize::MAX; count];
    for header in 0..count {
        if headers[header] == Some(LoopHeader::OsrEntry)
            && let Some(body) = body(header, &latches[header], &predecessors, &native, &mut seen)
        {
            for block in body {
                if block != header && headers[block].is_some() {
                    headers[block] = Some(LoopHeader::Inner);
                }
            }
        }
    }
    headers
}

/// Whether machine code executes all ops of a block.
fn is_native(decoded: &Decoded, block: usize, references: Option<&References>) -> bool {
    let ops = decoded.blocks[block].ops.clone();
    let last = decoded.ops[ops.end as usize - 1];
    let edges = native_edges(last);
    !edges.is_empty()
        && references.map_or_else(|| !moves_refs(decoded, &edges), |references| !references.is_moving(block))
        && ops.into_iter().rev().skip(1).all(|pc| jit_facts::is_built(decoded.ops[pc as usize]))
}

/// The blocks of a loop, if machine code executes them all and the header is the only way in.
fn body(
    header: usize,
    latches: &[usize],
    predecessors: &[Blocks],
    native: &[bool],
    seen: &mut [usize],
) -> Option<Vec<usize>> {
    let mut body = vec![header];
    seen[header] = header;
    let mut pending = latches.to_vec();
    while let Some(block) = pending.pop() {
        if std::mem::replace(&mut seen[block], header) == header {
            continue;
        }
        // The header of a loop comes before its other blocks.
        if block < header || !native[block] || predecessors[block].is_empty() {
            return None;
        }
        body.push(block);
        pending.extend(&predecessors[block]);
    }
    native[header].then_some(body)
}
