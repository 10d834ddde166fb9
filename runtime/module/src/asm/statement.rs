//! [`Statement`]: one line of assembly as a cursor over its characters. The parsers of the assembler are methods of it.

use std::borrow::Cow;

use super::error::{AsmError, Location};
use super::register::Register;

/// Most characters of the text that a message quotes.
const QUOTED: usize = 24;

/// A statement. Every method that reads a token skips white space before it. What the parsers of all ops call is not
/// inlined: copies in 260 of them take more room than the parsers.
pub struct Statement<'t> {
    /// The whole line, up to a comment.
    text: &'t str,
    line: u32,
    position: usize,
    /// Registers before `=`, each with its location.
    pub(super) results: Vec<(Register, Location)>,
}

/// Reads the operands of an op in one of their forms.
type Form<'t, T> = fn(&mut Statement<'t>) -> Result<T, AsmError>;

/// A name after `@`, perhaps with an ordinal: `@module:3`.
#[derive(Clone, Debug)]
pub struct Symbol<'t> {
    pub(super) name: Cow<'t, str>,
    pub(super) ordinal: Option<u32>,
    pub(super) location: Location,
}

/// The lines of a text as statements; those with nothing but white space and comments are left out.
pub(super) fn statements(text: &str) -> impl Iterator<Item = Statement<'_>> {
    let lines = text.split('\n').zip(1_u32..);
    lines.map(|(line, number)| Statement::new(line, number)).filter(|statement| !statement.at_end())
}

/// Characters of symbols and labels that need no quotes.
pub(super) fn is_symbol_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.')
}

impl<'t> Statement<'t> {
    fn new(line: &'t str, number: u32) -> Self {
        let text = without_comment(line);
        let mut statement = Statement { text, line: number, position: 0, results: Vec::new() };
        // Lines of listings may begin with an offset in brackets.
        statement.skip_space();
        if statement.rest().starts_with('[')
            && let Some(end) = statement.rest().find(']')
        {
            statement.position += end + 1;
        }
        statement.skip_space();
        statement
    }

    fn rest(&self) -> &'t str {
        &self.text[self.position..]
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start().len();
    }

    /// Where the cursor is.
    pub(super) fn location(&self) -> Location {
        let column = self.text[..self.position].chars().count();
        Location { line: self.line, column: u32::try_from(column).unwrap_or(u32::MAX).saturating_add(1) }
    }

    /// Moves the cursor, to a position it has had.
    fn rewind(&mut self, position: usize) {
        self.position = position;
    }

    /// An error at the cursor.
    pub(super) fn error(&self, message: impl Into<String>) -> AsmError {
        AsmError { location: self.location(), message: message.into() }
    }

    /// An error at the cursor: something else was expected.
    pub(super) fn expected(&mut self, what: &str) -> AsmError {
        self.skip_space();
        let rest = self.rest();
        let word: String = match rest.split([' ', '\t', '\r', ',']).next() {
            Some("") => rest.chars().take(1).collect(),
            word => word.unwrap_or_default().chars().take(QUOTED).collect(),
        };
        match word.trim().is_empty() {
            true => self.error(format!("expected {what}, found the end of the line")),
            false => self.error(format!("expected {what}, found `{}`", word.escape_debug())),
        }
    }

    /// True if nothing is left.
    pub(super) fn at_end(&self) -> bool {
        self.rest().trim_start().is_empty()
    }

    /// Nothing may be left.
    #[inline(never)]
    pub fn end(&mut self) -> Result<(), AsmError> {
        if self.at_end() { Ok(()) } else { Err(self.expected("the end of the line")) }
    }

    /// True if `token` comes next.
    #[inline(never)]
    pub(super) fn peek(&mut self, token: &str) -> bool {
        self.skip_space();
        self.rest().starts_with(token)
    }

    /// Reads `token` if it comes next.
    pub(super) fn accept(&mut self, token: &str) -> bool {
        let found = self.peek(token);
        if found {
            self.position += token.len();
        }
        found
    }

    /// Reads `token` if it comes next and no letter or digit follows it.
    pub(super) fn accept_word(&mut self, word: &str) -> bool {
        let found = self.peek(word) && !self.rest()[word.len()..].starts_with(is_symbol_char);
        if found {
            self.position += word.len();
        }
        found
    }

    /// Reads `token`.
    #[inline(never)]
    pub fn token(&mut self, token: &str) -> Result<(), AsmError> {
        if self.accept(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    /// The characters from the cursor on.
    pub(super) fn ahead(&self) -> std::str::Chars<'t> {
        self.rest().chars()
    }

    /// Reads `length` bytes, which were seen [`ahead`](Self::ahead).
    pub(super) fn take_bytes(&mut self, length: usize) -> &'t str {
        let taken = self.rest().get(..length).unwrap_or_default();
        self.position += taken.len();
        taken
    }

    /// Reads the next characters as long as they pass `test`.
    pub(super) fn take_while(&mut self, test: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|c| !test(c)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    /// Reads what is left, without white space around it.
    pub(super) fn take_rest(&mut self) -> &'t str {
        self.skip_space();
        let rest = self.rest();
        self.position = self.text.len();
        rest.trim()
    }

    /// Reads a word of symbol characters.
    pub(super) fn word(&mut self, what: &str) -> Result<&'t str, AsmError> {
        self.skip_space();
        let start = self.position;
        let word = self.take_while(is_symbol_char);
        if word.is_empty() {
            self.rewind(start);
            return Err(self.expected(what));
        }
        Ok(word)
    }

    /// Reads a decimal or hexadecimal number.
    pub(super) fn number(&mut self, what: &str, range: std::ops::RangeInclusive<i128>) -> Result<i128, AsmError> {
        self.skip_space();
        let start = self.position;
        let minus = if self.accept("-") { "-" } else { "" };
        let digits = self.take_while(|c| c.is_ascii_alphanumeric());
        let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(digits) => i128::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        let number = number.ok().map(|number| if minus.is_empty() { number } else { -number });
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(number),
            None => {
                self.rewind(start);
                let what = format!("{what} from {} to {}", range.start(), range.end());
                Err(self.expected(&what))
            }
        }
    }

    /// Reads a number of 32 bits without a sign.
    pub(super) fn u32(&mut self, what: &str) -> Result<u32, AsmError> {
        // The range makes the conversion safe.
        self.number(what, 0..=i128::from(u32::MAX)).map(|number| number as u32)
    }

    /// Reads `@name`, `@"name"` or `@name:3`.
    pub(super) fn symbol(&mut self, what: &str) -> Result<Symbol<'t>, AsmError> {
        self.skip_space();
        let (start, location) = (self.position, self.location());
        if !self.accept("@") {
            return Err(self.expected(what));
        }
        let name = if self.rest().starts_with('"') {
            let bytes = self.string()?;
            match String::from_utf8(bytes) {
                Ok(name) => Cow::Owned(name),
                Err(_) => {
                    self.rewind(start);
                    return Err(self.error("expected a name in UTF-8"));
                }
            }
        } else {
            Cow::Borrowed(self.take_while(is_symbol_char))
        };
        if name.is_empty() {
            self.rewind(start);
            return Err(self.expected(what));
        }
        let rest = self.rest();
        let is_ordinal = rest.strip_prefix(':').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let ordinal = if is_ordinal {
            self.position += 1;
            Some(self.u32("an ordinal")?)
        } else {
            None
        };
        Ok(Symbol { name, ordinal, location })
    }

    /// Reads `@name`.
    pub(super) fn name(&mut self, what: &str) -> Result<Symbol<'t>, AsmError> {
        let symbol = self.symbol(what)?;
        match symbol.ordinal {
            None => Ok(symbol),
            Some(_) => {
                Err(AsmError { location: symbol.location, message: format!("expected {what} without an ordinal") })
            }
        }
    }

    /// Reads a string in quotes. A backslash begins an escape: `\" \' \\ \n \r \t \0 \xFF \u{1F600}`.
    pub fn string(&mut self) -> Result<Vec<u8>, AsmError> {
        self.skip_space();
        if !self.accept("\"") {
            return Err(self.expected("a string in quotes"));
        }
        let mut bytes = Vec::new();
        loop {
            bytes.extend_from_slice(self.take_while(|c| c != '"' && c != '\\').as_bytes());
            let rest = self.rest();
            if rest.starts_with('"') {
                self.position += 1;
                return Ok(bytes);
            }
            let Some(escape) = rest.strip_prefix('\\') else {
                return Err(self.expected("a quote at the end of the string"));
            };
            let Some(length) = unescape(escape, &mut bytes) else {
                return Err(self.expected(r#"an escape: \" \' \\ \n \r \t \0 \xFF \u{1F600}"#));
            };
            self.position += 1 + length;
        }
    }

    /// Reads a string in quotes that must be UTF-8.
    pub(super) fn text(&mut self) -> Result<String, AsmError> {
        self.skip_space();
        let start = self.position;
        let bytes = self.string()?;
        String::from_utf8(bytes).map_err(|_| {
            self.rewind(start);
            self.error("expected a string in UTF-8")
        })
    }

    /// Reads the rest in the first form that fits. If none does, the error is that of the form that got furthest.
    pub fn forms<T, const N: usize>(&mut self, forms: [Form<'t, T>; N]) -> Result<T, AsmError> {
        let start = self.position;
        let mut furthest: Option<AsmError> = None;
        for form in forms {
            self.rewind(start);
            match form(self) {
                Ok(value) => return Ok(value),
                Err(error) => {
                    if furthest.as_ref().is_none_or(|furthest| error.location > furthest.location) {
                        furthest = Some(error);
                    }
                }
            }
        }
        Err(furthest.unwrap_or_else(|| self.error("the op has no text form")))
    }
}

/// The line up to `//` or `#` outside of quotes.
fn without_comment(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (index, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..index],
            '/' if !quoted && line[index + 1..].starts_with('/') => return &line[..index],
            _ => {}
        }
    }
    line
}

/// Reads an escape after its backslash, and returns the number of bytes read; none if it is no escape.
fn unescape(escape: &str, bytes: &mut Vec<u8>) -> Option<usize> {
    let simple = match escape.chars().next()? {
        c @ ('"' | '\'' | '\\') => c as u8,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        '0' => 0,
        'x' => {
            let digits = escape.get(1..3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            return Some(3);
        }
        'u' => {
            let (digits, _) = escape.strip_prefix("u{")?.split_once('}')?;
            let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(digits.len() + 3);
        }
        _ => return None,
    };
    bytes.push(simple);
    Some(1)
}
