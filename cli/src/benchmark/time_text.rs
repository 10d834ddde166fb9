//! Times as text.

use crate::arguments::TimeUnit;

/// A time in a unit, or in the one that fits.
pub fn time_text(seconds: f64, unit: Option<TimeUnit>) -> String {
    let fits = |unit: &TimeUnit| seconds * unit.per_second() >= 1.0;
    let fitting = || [TimeUnit::S, TimeUnit::Ms, TimeUnit::Us].into_iter().find(fits).unwrap_or(TimeUnit::Ns);
    let unit = unit.unwrap_or_else(fitting);
    format!("{} {}", significant(seconds * unit.per_second()), unit.name())
}

/// Four significant digits, without an exponent.
pub fn significant(value: f64) -> String {
    let magnitude = if value > 0.0 { libm::log10(value).floor() } else { 0.0 };
    let decimals = (3.0 - magnitude).clamp(0.0, 9.0) as usize;
    format!("{value:.decimals$}")
}
