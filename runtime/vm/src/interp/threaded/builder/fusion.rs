//! Fusion: finds the sequences of `spec/isa/vm/sequences.yaml` among the instructions of a function, and the handlers
//! that execute each as one.

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
