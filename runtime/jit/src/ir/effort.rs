//! The effort of compiling one function: a budget of visits, since a function of a hostile program may be of a shape
//! for which a pass takes far longer than for those of compilers. Builder, passes, proof and register allocation count
//! what they visit, and stop when nothing is left or the limits of the call that waits for them are reached; the
//! function is compiled in a simpler mode then, or interpreted.

use std::cell::Cell;

use crate::limits;

/// Visits that each function may take, and more for each of its ops. A visit takes a few nanoseconds.
const VISITS: u64 = 1 << 20;
const VISITS_PER_OP: u64 = 1 << 11;
/// Visits between two looks at the limits: about a millisecond.
const BETWEEN_LOOKS: u64 = 1 << 18;

/// The visits that are left. A copy begins with as many.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    left: Cell<u64>,
    /// How many are left at the next look.
    next_look: Cell<u64>,
}

impl Effort {
    /// For a function of so many ops.
    pub fn new(ops: usize) -> Effort {
        let visits = VISITS + VISITS_PER_OP * ops as u64;
        Effort { left: Cell::new(visits), next_look: Cell::new(visits) }
    }

    /// Counts visits that are about to be made. False if they must not be made: then no pass needs to finish.
    #[inline]
    pub fn spend(&self, visits: usize) -> bool {
        let left = self.left.get().saturating_sub(visits as u64);
        self.left.set(left);
        left > self.next_look.get() || self.look(left)
    }

    #[cold]
    fn look(&self, left: u64) -> bool {
        if left > 0 && limits::scope::check().is_err() {
            self.left.set(0);
        }
        self.next_look.set(left.saturating_sub(BETWEEN_LOOKS));
        self.left.get() > 0
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.left.get() == 0
    }
}

/// As much as any function may take: for graphs that are made without a function.
impl Default for Effort {
    fn default() -> Effort {
        Effort::new(1 << 17)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::Limits;
    use crate::limits::scope;

    #[test]
    fn efforts_end() {
        let effort = Effort::new(0);
        assert!(effort.spend(VISITS as usize - 1) && !effort.is_spent());
        assert!(!effort.spend(1) && effort.is_spent() && !effort.spend(0));
        assert!(!Effort::new(9).spend(usize::MAX));
    }

    #[test]
    fn efforts_end_at_the_limits_of_a_call() {
        let effort = Effort::new(0);
        let _started = scope::start(&Limits { timeout: Some(Duration::ZERO), ..Limits::default() });
        let made = (0..VISITS).take_while(|_| effort.spend(1)).count();
        assert!(made as u64 <= BETWEEN_LOOKS && effort.is_spent(), "{made} visits");
    }
}
