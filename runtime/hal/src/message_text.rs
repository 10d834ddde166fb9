//! Untrusted text in error messages: cut to a length, and control characters escaped. Parsers of device URIs and options use it.

/// At most 80 characters of `text`, escaped as in Rust literals.
pub fn printable(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut printable: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        printable.push_str("...");
    }
    printable
}
