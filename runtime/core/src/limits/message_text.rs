//! Numbers and times as the messages of limits have them.

use std::time::Duration;

/// A number with its digits in groups of three, for messages.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time, in the largest unit of which it has at least one; from a tenth of a millisecond on in seconds.
pub(super) fn time_text(time: Duration) -> String {
    match time.as_nanos() {
        0 | 100_000.. => format!("{} s", in_seconds(time)),
        nanos @ 1..1000 => format!("{nanos} ns"),
        nanos => format!("{} us", (nanos / 100) as f64 / 10.0),
    }
}

/// A duration in seconds, for messages: to the millisecond, and to the microsecond if it is shorter than a second.
fn in_seconds(duration: Duration) -> String {
    let decimals = if duration < Duration::from_secs(1) { 6 } else { 3 };
    let text = format!("{:.decimals$}", duration.as_secs_f64());
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_messages_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let seconds = [(0, 0), (0, 1_500_000), (0, 20), (1, 500_000_000), (1, 503_400_000), (90, 0)];
        let texts = seconds.map(|(seconds, nanos)| in_seconds(Duration::new(seconds, nanos)));
        assert_eq!(texts, ["0", "0.0015", "0", "1.5", "1.503", "90"]);
    }
}
