//! The clock of the host in profiles ([`HostClock`]).

use std::time::Instant;

/// Moments as the profile has them: nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostClock {
    moment: Instant,
    nanoseconds: i64,
}

impl HostClock {
    pub(super) fn new() -> HostClock {
        // Read first, so that a moment never seems later than what `now` says afterwards.
        let nanoseconds = monotonic_nanoseconds();
        HostClock { moment: Instant::now(), nanoseconds }
    }

    /// A moment, which may be before the clock was made.
    pub(super) fn time(&self, moment: Instant) -> i64 {
        let nanoseconds = |span: std::time::Duration| {
            let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
            seconds.saturating_mul(1_000_000_000).saturating_add(span.subsec_nanos().into())
        };
        match moment.checked_duration_since(self.moment) {
            Some(span) => self.nanoseconds.saturating_add(nanoseconds(span)),
            None => self.nanoseconds.saturating_sub(nanoseconds(self.moment.duration_since(moment))),
        }
    }

    /// The time now, by the clock itself where the system has it: it costs a third of an [`Instant`] and its place.
    pub(super) fn now(&self) -> i64 {
        if cfg!(unix) { monotonic_nanoseconds() } else { self.time(Instant::now()) }
    }
}

/// Nanoseconds of the clock that `Instant` has, as other tools read it.
#[cfg(unix)]
fn monotonic_nanoseconds() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Without such a clock times begin with the session.
#[cfg(not(unix))]
fn monotonic_nanoseconds() -> i64 {
    1
}
