//! Tokens of a text, with their lines.

use crate::error::LoadError;

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name, an opcode with suffixes, a directive with its dot.
    Word(&'a str),
    /// A number as it is written.
    Number(&'a str),
    /// A text in quotes.
    Text(&'a str),
    /// Another character.
    Sign(char),
    /// The end of the text.
    End,
}

/// Takes tokens off a text.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { text, at: 0, line: 1 }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Result<(), LoadError> {
        let bytes = self.bytes();
        while let Some(byte) = bytes.get(self.at) {
            match (byte, bytes.get(self.at + 1)) {
                (b'\n', _) => {
                    self.line += 1;
                    self.at += 1;
                }
                (byte, _) if byte.is_ascii_whitespace() || *byte == 0 => self.at += 1,
                (b'/', Some(b'/')) => {
                    while bytes.get(self.at).is_some_and(|byte| *byte != b'\n') {
                        self.at += 1;
                    }
                }
                (b'/', Some(b'*')) => {
                    let first = self.line;
                    self.at += 2;
                    loop {
                        match (bytes.get(self.at), bytes.get(self.at + 1)) {
                            (Some(b'*'), Some(b'/')) => break,
                            (Some(byte), _) => self.line += u32::from(*byte == b'\n'),
                            (None, _) => return Err(LoadError::invalid(first, "a comment that does not end")),
                        }
                        self.at += 1;
                    }
                    self.at += 2;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// The next token with its line.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, u32), LoadError> {
        self.skip()?;
        let (bytes, start, line) = (self.bytes(), self.at, self.line);
        let Some(first) = bytes.get(start).copied() else { return Ok((Token::End, line)) };
        let mut end = start + 1;
        if begins_word(first) {
            loop {
                match bytes.get(end) {
                    // Directives and types may stand without space between them: `.reg.b16`.
                    Some(b'.') if first == b'.' => break,
                    Some(byte) if continues_word(*byte) => end += 1,
                    Some(b':')
                        if bytes.get(end + 1) == Some(&b':')
                            && bytes.get(end + 2).is_some_and(|byte| continues_word(*byte)) =>
                    {
                        end += 2
                    }
                    _ => break,
                }
            }
            self.at = end;
            return Ok((Token::Word(&self.text[start..end]), line));
        }
        if first.is_ascii_digit() {
            // Numbers in hexadecimal end where no digit is; the others may have a point and an exponent.
            let plain = !matches!(bytes.get(end), Some(b'x' | b'X' | b'f' | b'F' | b'd' | b'D')) || first != b'0';
            while let Some(byte) = bytes.get(end) {
                let is_sign = plain && matches!(byte, b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E');
                if !(byte.is_ascii_alphanumeric() || *byte == b'.' && plain || is_sign) {
                    break;
                }
                end += 1;
            }
            self.at = end;
            return Ok((Token::Number(&self.text[start..end]), line));
        }
        if first == b'"' {
            while bytes.get(end).is_some_and(|byte| *byte != b'"' && *byte != b'\n') {
                end += 1;
            }
            if bytes.get(end) != Some(&b'"') {
                return Err(LoadError::invalid(line, "a text in quotes that does not end"));
            }
            self.at = end + 1;
            return Ok((Token::Text(&self.text[start + 1..end]), line));
        }
        self.at = end;
        Ok((Token::Sign(char::from(first)), line))
    }
}

/// The bits of a number: an integer, an f32 or an f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Integer(u64),
    Single(u32),
    Double(u64),
}

/// Reads a number.
pub(super) fn number(text: &str) -> Option<Number> {
    let (head, rest) = text.split_at_checked(2).unwrap_or((text, ""));
    let hexadecimal =
        |digits: &str, count: usize| (digits.len() == count).then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    match head {
        "0f" | "0F" => return hexadecimal(rest, 8).map(|bits| Number::Single(bits as u32)),
        "0d" | "0D" => return hexadecimal(rest, 16).map(Number::Double),
        _ => {}
    }
    let digits = text.strip_suffix('U').unwrap_or(text);
    let integer = match head {
        "0x" | "0X" => u64::from_str_radix(digits.get(2..)?, 16),
        "0b" | "0B" => u64::from_str_radix(digits.get(2..)?, 2),
        _ if digits.contains(['.', 'e', 'E']) => {
            return digits.parse::<f64>().ok().map(|value| Number::Double(value.to_bits()));
        }
        _ if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
        _ => digits.parse(),
    };
    integer.ok().map(Number::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_signs_are_told_apart() {
        let text =
            "ld.param::entry.b64 %rd1, [k_param_0+0x10]; // c\n/* d\n */ @!%p1 bra $L__1;\n$L__1: .v4 1.5e-3 \"a\"";
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            match lexer.next().unwrap() {
                (Token::End, line) => break assert_eq!(line, 4),
                (token, _) => tokens.push(token),
            }
        }
        use Token::{Number, Sign, Text, Word};
        let expected = [
            Word("ld.param::entry.b64"),
            Word("%rd1"),
            Sign(','),
            Sign('['),
            Word("k_param_0"),
            Sign('+'),
            Number("0x10"),
            Sign(']'),
            Sign(';'),
            Sign('@'),
            Sign('!'),
            Word("%p1"),
            Word("bra"),
            Word("$L__1"),
            Sign(';'),
            Word("$L__1"),
            Sign(':'),
            Word(".v4"),
            Number("1.5e-3"),
            Text("a"),
        ];
        assert_eq!(tokens, expected);
    }

    #[test]
    fn numbers_are_read_in_all_notations() {
        assert_eq!(number("0f3F800000"), Some(Number::Single(0x3F80_0000)));
        assert_eq!(number("0d3FF0000000000000"), Some(Number::Double(0x3FF0_0000_0000_0000)));
        assert_eq!(number("1.5"), Some(Number::Double(1.5f64.to_bits())));
        assert_eq!(number("0xFFU"), Some(Number::Integer(255)));
        assert_eq!(number("017"), Some(Number::Integer(15)));
        assert_eq!(number("0b101"), Some(Number::Integer(5)));
        assert_eq!(number("18446744073709551615"), Some(Number::Integer(u64::MAX)));
        for wrong in ["0f3F8", "08", "0x", "1a", "18446744073709551616"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }
}
