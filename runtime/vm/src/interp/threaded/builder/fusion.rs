//! Fusion: finds the sequences of `spec/isa/vm/sequences.yaml` among the instructions of a function, and the loops of
//! two of them, and the handlers that execute each as one.

use crate::generated::vm::interp::threaded as generated;
use crate::interp::threaded::handler::Handler;
use crate::interp::threaded::sequences::EmittedOp;

/// The sequences among the ops of a block: the index of the first instruction of each, and its handler.
pub(super) fn find_sequences(ops: &[EmittedOp]) -> impl Iterator<Item = (usize, Handler)> {
    let mut rest = ops;
    std::iter::from_fn(move || {
        while let Some(first) = rest.first() {
            // No sequence is longer, so the time for an op does not grow with its block.
            let near = &rest[..rest.len().min(generated::LONGEST_SEQUENCE)];
            let together = 1 + near.windows(2).take_while(|pair| pair[0].end == pair[1].position).count();
            match generated::sequence(&near[..together]) {
                Some((count, handler)) => {
                    rest = &rest[count..];
                    return Some((first.position, handler));
                }
                None => rest = &rest[1..],
            }
        }
        None
    })
}

/// The loops among all ops of a function: the index of the first instruction of each latch, and its handler. `branches`
/// are the indices of the fused branches, in order, and those of the instructions that they lead to.
pub(super) fn find_loops(ops: &[EmittedOp], branches: &[(usize, usize)]) -> impl Iterator<Item = (usize, Handler)> {
    let op_at = |position: usize| ops.binary_search_by_key(&position, |op| op.position).ok();
    let target = |op: &EmittedOp| {
        let index = branches.binary_search_by_key(&op.position, |(position, _)| *position).ok()?;
        Some(branches[index].1)
    };
    let follow_each_other = |ops: &[EmittedOp]| ops.windows(2).all(|pair| pair[0].end == pair[1].position);
    branches.iter().filter(|(position, target)| target < position).filter_map(move |(position, to)| {
        let (latch, head) = (&ops[..=op_at(*position)?], &ops[op_at(*to)?..]);
        let (in_latch, in_head, handler) = generated::sequence_loop(latch, head)?;
        let (latch, head) = (&latch[latch.len() - in_latch..], &head[..in_head]);
        let first = latch[0].position;
        let is_loop = target(&head[in_head - 1]) == Some(first);
        (is_loop && follow_each_other(latch) && follow_each_other(head)).then_some((first, handler))
    })
}
