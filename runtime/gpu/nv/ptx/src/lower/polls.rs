//! Loops that poll: jumps back over an instruction that reads what other warps may write meanwhile. A warp in such a
//! loop yields sooner than one in a loop that computes, since its next iterations may do nothing until another warp, or
//! another block, has had a turn.

use vireo_simt::paths::JUMPS_BACK;

use crate::machine::Inst;

/// Iterations of a loop that polls after which the warp yields.
const POLLS: u32 = 32;

/// Has jumps back count as many ones if they are over an instruction that polls. Both lists are in ascending order.
pub(super) fn weigh_polls(insts: &mut [Inst], jumps: &[u32], polls: &[u32]) {
    for at in jumps {
        let Some(jump) = insts.get_mut(*at as usize) else { continue };
        let first = polls.partition_point(|poll| *poll < jump.number);
        if polls.get(first).is_some_and(|poll| poll <= at) {
            jump.offset = i64::from(JUMPS_BACK / POLLS - 1);
        }
    }
}
