//! Text of programs and files as terminals and people may see it: one function decides which characters are escaped,
//! for errors, traces, listings and whatever else is printed.
//!
//! Names, messages and texts of a module are its author's, who may want to move the cursor, hide a line, change the
//! title of a terminal, or reverse the order of letters. So characters that do so are written as Rust writes them in
//! literals, such as `\u{1b}`. Backslashes are left as they are.

use std::borrow::Cow;

/// True for a character that changes how others are shown: control characters (C0, DEL and C1), marks and overrides of
/// the direction of text, and separators of lines and paragraphs.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        || c.is_control()
}

/// The text on one line: such characters are escaped, line ends and tabs among them.
pub fn visible(text: &str) -> String {
    escaped(text, is_invisible, char::escape_default).into_owned()
}

/// The text in its lines: as [`visible`], except for line ends and tabs. Only for text whose lines are not a program's.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_invisible(c) && !matches!(c, '\n' | '\t'), char::escape_default)
}

/// The lines of a text that a program prints, each after `prefix`, so that none passes for a line of somebody else.
/// Tabs are kept.
pub fn prefixed(prefix: &str, text: &str) -> String {
    visible_lines(text).split('\n').map(|line| format!("{prefix}{line}")).collect::<Vec<_>>().join("\n")
}

/// The same JSON with such characters as escapes, where its strings have some that JSON allows.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    // None of them needs more than four digits. Line ends and tabs are outside of strings.
    let escape = |c| format!("\\u{:04x}", u32::from(c)).chars().collect::<Vec<_>>();
    escaped(json, |c| is_invisible(c) && !matches!(c, '\n' | '\t'), escape)
}

/// The text with the characters that `must` finds replaced by what `escape` makes of them.
fn escaped<E: IntoIterator<Item = char>>(
    text: &str,
    must: impl Fn(char) -> bool,
    escape: impl Fn(char) -> E,
) -> Cow<'_, str> {
    // Nearly all text is of this kind, and results can be long.
    if text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~'))
        && !(must('\n') && text.contains(['\n', '\t']))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if must(c) { out.extend(escape(c)) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// At most 80 characters of an argument or an option, as in a Rust literal.
pub fn excerpt(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut excerpt: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        excerpt.push_str("...");
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_or_hides_text_is_left() {
        let hostile: String = ('\0'..='\u{2100}').filter(|c| is_invisible(*c)).collect();
        for c in
            "\0\x07\x08\n\r\t\x1b\x7f\u{80}\u{9b}\u{9f}\u{61c}\u{200e}\u{200f}\u{2028}\u{202a}\u{202e}\u{2066}\u{2069}"
                .chars()
        {
            assert!(hostile.contains(c), "{c:?}");
        }
        for text in [visible(&hostile), visible_json(&hostile).into(), excerpt(&hostile)] {
            assert!(!text.chars().any(|c| is_invisible(c) && !matches!(c, '\n' | '\t')), "{text:?}");
        }
        assert!(!visible(&hostile).contains(['\n', '\t']));
        assert!(!visible_lines(&hostile).chars().any(|c| is_invisible(c) && !matches!(c, '\n' | '\t')));
        assert_eq!(visible("\x1b[31m é\\n\r\n\u{202e}"), "\\u{1b}[31m é\\n\\r\\n\\u{202e}");
        assert_eq!(visible_lines("\ta\r\nb\n"), "\ta\\r\nb\n");
    }

    #[test]
    fn lines_of_a_program_are_marked() {
        assert_eq!(prefixed("[print] ", "a\nresult[0]: i32=1\r"), "[print] a\n[print] result[0]: i32=1\\r");
        assert_eq!(prefixed("> ", ""), "> ");
    }

    #[test]
    fn json_keeps_its_meaning() {
        assert_eq!(visible_json("{\n\t\"a\u{202e}\": \"\u{9b}\"\n}"), "{\n\t\"a\\u202e\": \"\\u009b\"\n}");
    }

    #[test]
    fn excerpts_are_short() {
        assert_eq!(excerpt(&"x".repeat(80)).len(), 80);
        assert_eq!(excerpt(&"x".repeat(81)).len(), 83);
    }
}
