//! Counts of side exits: how often machine code has handed an op to the interpreter, by op. Machine code counts itself,
//! and a host asks for the counts to find functions that are compiled and gain nothing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why machine code hands an op to the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SideExitReason {
    /// A check failed: the op traps, or a check that stands for several accesses did not hold.
    FailedCheck,
    /// There is no machine code for the op, and it ends a block.
    Op,
    /// The interpreter makes the call: the callee has no code, or the stack is nearly full.
    Call,
}

impl SideExitReason {
    /// A word for the reason.
    pub fn name(self) -> &'static str {
        match self {
            SideExitReason::FailedCheck => "check",
            SideExitReason::Op => "op",
            SideExitReason::Call => "call",
        }
    }
}

impl fmt::Display for SideExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SideExitReason::FailedCheck => "a check failed",
            SideExitReason::Op => "the interpreter executes the op",
            SideExitReason::Call => "the interpreter makes the call",
        })
    }
}

/// The side exits of a function at one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideExits {
    /// The ordinal of the function.
    pub function: usize,
    /// The index of the op in the function.
    pub op: usize,
    /// Why the code is left there.
    pub reason: SideExitReason,
    /// How often it was. Threads that leave it at the same time may be counted as one.
    pub count: u64,
}

/// The counts of a function, by op.
pub struct SideExitCounts {
    counts: Box<[AtomicU64]>,
    /// The ops at which it is not a check that fails, in order.
    reasons: Vec<(u32, SideExitReason)>,
}

impl SideExitCounts {
    /// For a function of so many ops.
    pub fn new(ops: usize, mut reasons: Vec<(u32, SideExitReason)>) -> SideExitCounts {
        reasons.sort_unstable();
        SideExitCounts { counts: (0..ops).map(|_| AtomicU64::new(0)).collect(), reasons }
    }

    /// The address of the counts, which is that of a number of 64 bits for each op. It stays the same.
    pub fn address(&self) -> usize {
        self.counts.as_ptr() as usize
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.counts)
    }

    /// The exits that were taken, of a function with this ordinal.
    pub(super) fn taken(&self, function: usize) -> impl Iterator<Item = SideExits> {
        let counts = self.counts.iter().enumerate().map(|(op, count)| (op, count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).map(move |(op, count)| {
            let place = self.reasons.binary_search_by_key(&op, |(op, _)| *op as usize);
            let reason = place.map_or(SideExitReason::FailedCheck, |place| self.reasons[place].1);
            SideExits { function, op, reason, count }
        })
    }
}
