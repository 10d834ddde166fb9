//! Sentences and numbers as plain text, which knows nothing of pages.

/// `text` up to the end of its first sentence. Dots in a row stand for what is left out and end nothing.
pub(super) fn first_sentence(text: &str) -> &str {
    let mut ends = text.match_indices(". ").map(|(end, _)| end);
    ends.find(|end| !text[..*end].ends_with('.')).map_or(text, |end| &text[..=end])
}

/// `text` with a capital at its start and a full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

/// A float by its bits: the shortest decimal number that gives it, or the bits of a NaN.
pub(super) fn float(bits: u64, single: bool) -> String {
    let narrow = f32::from_bits(u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0));
    let wide = f64::from_bits(bits);
    match single {
        true if narrow.is_nan() => format!("nan (f32:{bits:#010x})"),
        true => format!("{narrow:?}"),
        false if wide.is_nan() => format!("nan (f64:{bits:#018x})"),
        false => format!("{wide:?}"),
    }
}

/// `text` as a string of JSON, which is one of JavaScript, too.
pub(super) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            other if other.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(other))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
