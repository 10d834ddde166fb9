//! Clocks: ticks of a device become nanoseconds of the host by the first and the last sample that has both.

use crate::generated::format::{CLOCK_DEVICE_TICK, CLOCK_HOST_BRACKET, CLOCK_HOST_CPU, CLOCK_UNALIGNED};
use crate::generated::records::ClockCorrelation;
use crate::model::Clocks;

/// The line through the first and the last sample of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockFit {
    /// The first sample.
    pub first_sample_id: u64,
    /// The last sample.
    pub last_sample_id: u64,
    first_tick: u64,
    first_time_ns: i64,
    tick_span: u64,
    time_span_ns: u64,
}

impl ClockFit {
    /// The fit of the samples of a device, if they have one: two samples of aligned ticks and times that grow.
    pub fn new(clocks: &Clocks) -> Option<ClockFit> {
        let (first, last) = (clocks.first.as_ref()?, clocks.last.as_ref()?);
        let has_ticks = |flags: u32| flags & CLOCK_DEVICE_TICK != 0 && flags & CLOCK_UNALIGNED == 0;
        if clocks.samples < 2 || clocks.unaligned != 0 || !has_ticks(first.flags) || !has_ticks(last.flags) {
            return None;
        }
        let time = |flags: u32, time: u64| i64::try_from(time).ok().filter(|_| flags & CLOCK_HOST_CPU != 0);
        let first_time_ns = time(first.flags, first.host_cpu_timestamp_ns)?;
        let last_time_ns = time(last.flags, last.host_cpu_timestamp_ns)?;
        if last.device_tick <= first.device_tick || last_time_ns <= first_time_ns {
            return None;
        }
        Some(ClockFit {
            first_sample_id: first.sample_id,
            last_sample_id: last.sample_id,
            first_tick: first.device_tick,
            first_time_ns,
            tick_span: last.device_tick - first.device_tick,
            time_span_ns: last_time_ns.abs_diff(first_time_ns),
        })
    }

    /// A number of ticks as nanoseconds, rounded to the nearest one.
    pub fn duration_ns(&self, ticks: u64) -> Option<i64> {
        let product = u128::from(ticks) * u128::from(self.time_span_ns);
        let rounded = (product + u128::from(self.tick_span / 2)) / u128::from(self.tick_span);
        i64::try_from(rounded).ok()
    }

    /// A tick as a time of the host.
    pub fn time_ns(&self, tick: u64) -> Option<i64> {
        let distance = self.duration_ns(tick.abs_diff(self.first_tick))?;
        match tick >= self.first_tick {
            true => self.first_time_ns.checked_add(distance),
            false => self.first_time_ns.checked_sub(distance),
        }
    }

    /// Nanoseconds of a tick.
    pub fn ns_per_tick(&self) -> f64 {
        self.time_span_ns as f64 / self.tick_span as f64
    }

    /// Ticks of a second.
    pub fn tick_frequency_hz(&self) -> f64 {
        1_000_000_000.0 / self.ns_per_tick()
    }
}

/// The times of a device on the time line of the host: nanoseconds of the host for each tick.
///
/// Queues, the host's work and memory have times of the host's clock, so a correlation that was taken between two of
/// those (bit 3) is what ticks are laid by. Without one they are laid by the driver's time of the host, and without
/// that they stay ticks of their own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TickScale {
    first_tick: u64,
    first_time_ns: i64,
    ns_per_tick: f64,
    /// False for ticks of their own, which begin at 0.
    pub(crate) is_host: bool,
}

impl TickScale {
    /// The scale by the clocks of a device.
    pub(crate) fn new(clocks: Option<&Clocks>) -> Option<TickScale> {
        let clocks = clocks?;
        let (first, last) = (clocks.first.as_ref()?, clocks.last.as_ref()?);
        let has = |flags: u32, bits: u32| flags & bits == bits && flags & CLOCK_UNALIGNED == 0;
        let fit = ClockFit::new(clocks);
        let bracketed = CLOCK_DEVICE_TICK | CLOCK_HOST_BRACKET;
        if !has(first.flags, bracketed) || !has(last.flags, bracketed) {
            let fit = fit?;
            let (first_tick, first_time_ns, ns_per_tick) = (fit.first_tick, fit.first_time_ns, fit.ns_per_tick());
            return Some(TickScale { first_tick, first_time_ns, ns_per_tick, is_host: true });
        }
        let middle = |sample: &ClockCorrelation| sample.host_time_begin_ns.midpoint(sample.host_time_end_ns);
        let (first_time_ns, last_time_ns) = (middle(first), middle(last));
        let scale = match (last.device_tick > first.device_tick, last_time_ns > first_time_ns) {
            (true, true) => last_time_ns.abs_diff(first_time_ns) as f64 / (last.device_tick - first.device_tick) as f64,
            // One sample alone says where a tick is, and not how long it takes.
            _ => fit.map_or(1.0, |fit| fit.ns_per_tick()),
        };
        Some(TickScale { first_tick: first.device_tick, first_time_ns, ns_per_tick: scale, is_host: true })
    }

    /// Ticks of a device without clocks, from a first one on.
    pub(crate) fn ticks(first_tick: u64) -> TickScale {
        TickScale { first_tick, first_time_ns: 0, ns_per_tick: 1.0, is_host: false }
    }

    /// The time of a tick. Times beyond 64 bits are the nearest ones.
    pub(crate) fn time_ns(&self, tick: u64) -> i64 {
        let distance = tick.abs_diff(self.first_tick) as f64 * self.ns_per_tick;
        let distance = if tick < self.first_tick { -distance } else { distance };
        self.first_time_ns.saturating_add(distance.round() as i64)
    }
}
