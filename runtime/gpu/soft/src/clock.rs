//! The clock of the agents: nanoseconds since the first look at it, which is what the host sees as timestamps too.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Ticks a second.
pub const FREQUENCY: u64 = 1_000_000_000;

/// The time in ticks; never 0, which clients take for a time that is not known.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let passed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX - 1) + 1
}

/// When a wait of this many ticks ends; none if that is never.
pub fn deadline(ticks: u64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_nanos(ticks)).filter(|_| ticks != u64::MAX)
}
