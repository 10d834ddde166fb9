//! Text from outside in messages.

/// The text, not too long, without control characters.
pub fn printable(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut printable: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        printable.push_str("...");
    }
    printable
}
