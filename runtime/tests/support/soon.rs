//! What is waited for, and is there at once.

use std::time::Instant;

use vireo::vm::Wait;

/// Is there at once.
pub struct Soon;

impl Wait for Soon {
    fn is_ready(&self) -> bool {
        true
    }

    fn block(&self, _: Option<Instant>) {}
}
