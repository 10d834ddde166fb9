//! Floats as C writes them. `joins` writes metrics with it.

/// The bits of a float as C's `%.17g` writes it.
pub(crate) fn general(bits: u64) -> String {
    let value = f64::from_bits(bits);
    if !value.is_finite() {
        // The release writes these as C does, which is no JSON.
        return "null".to_string();
    }
    let text = format!("{value:.16e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if (-4..17).contains(&exponent) {
        let digits = usize::try_from(16 - exponent).unwrap_or(0);
        return trimmed(&format!("{value:.digits$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs())
}
