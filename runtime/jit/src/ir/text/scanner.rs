//! The words, numbers and signs of a line of a graph's text, and mistakes in it, with line and column.

use std::fmt;

/// Something that is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// A position in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    line: usize,
    /// Bytes from the start of the line, and that many characters.
    byte: usize,
    characters: usize,
}

impl Position {
    pub fn mistake(self, message: impl Into<String>) -> Mistake {
        Mistake { line: self.line, column: self.characters + 1, message: message.into() }
    }
}

/// Reads one line. Spaces separate words and mean nothing else.
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: Position,
}

impl<'t> Scanner<'t> {
    /// A line and its number, which is counted from 1. A comment is left out.
    pub fn new(line: &'t str, number: usize) -> Scanner<'t> {
        let text = line.split(';').next().unwrap_or_default();
        let mut scanner = Scanner { text, at: Position { line: number, byte: 0, characters: 0 } };
        scanner.skip_spaces();
        scanner
    }

    /// The position of the next word.
    pub fn position(&self) -> Position {
        self.at
    }

    pub fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// The mistake that something else was expected here.
    pub fn expected(&self, what: &str) -> Mistake {
        let found = self.next();
        let found = if found.is_empty() { "the line ends".to_string() } else { format!("found `{found}`") };
        self.at.mistake(format!("expected {what}, {found}"))
    }

    pub fn mistake_at(&self, at: Position, message: impl Into<String>) -> Mistake {
        at.mistake(message)
    }

    /// Whether the next word is this one. Takes it if so.
    pub fn take(&mut self, word: &str) -> bool {
        let is_next = self.next() == word;
        if is_next {
            self.advance(word.len());
        }
        is_next
    }

    pub fn expect(&mut self, word: &str) -> Result<(), Mistake> {
        if self.take(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    /// Nothing follows.
    pub fn end(&self) -> Result<(), Mistake> {
        if self.is_at_end() { Ok(()) } else { Err(self.expected("the end of the line")) }
    }

    /// The next word, which may be any.
    pub fn word(&mut self, what: &str) -> Result<&'t str, Mistake> {
        let word = self.next();
        if !word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Err(self.expected(what));
        }
        self.advance(word.len());
        Ok(word)
    }

    /// The value of the next word.
    pub fn one_of<T>(&mut self, what: &str, of_word: impl Fn(&str) -> Option<T>) -> Result<T, Mistake> {
        let value = of_word(self.next()).ok_or_else(|| self.expected(what))?;
        self.advance(self.next().len());
        Ok(value)
    }

    /// A number that fits the type.
    pub fn number<T: TryFrom<i128>>(&mut self) -> Result<T, Mistake> {
        let word = self.next();
        let number = match word.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with(['-', '+'])),
            None => word.parse().ok().filter(|_| !word.starts_with('+')),
        };
        let Some(number) = number else { return Err(self.expected("a number")) };
        let number = T::try_from(number).map_err(|_| self.at.mistake(format!("{number} is out of range")))?;
        self.advance(word.len());
        Ok(number)
    }

    /// The number of `v5`, if the next word is a letter and a number.
    pub fn numbered(&self, letter: char) -> Option<u32> {
        let digits = self.next().strip_prefix(letter)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        digits.parse().ok().filter(|_| is_number)
    }

    /// The number of `v5`.
    pub fn id(&mut self, letter: char, what: &str) -> Result<u32, Mistake> {
        let number = self.numbered(letter).ok_or_else(|| self.expected(what))?;
        self.advance(self.next().len());
        Ok(number)
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at.byte..).unwrap_or_default()
    }

    /// The next word: letters and digits, or one sign; empty at the end of the line.
    fn next(&self) -> &'t str {
        let rest = self.rest();
        let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
        let signed = rest.strip_prefix('-').filter(|after| after.starts_with(|c: char| c.is_ascii_digit()));
        let word = signed.unwrap_or(rest);
        let length = word.find(|c: char| !is_of_word(c)).unwrap_or(word.len()) + rest.len() - word.len();
        let length = if length == 0 { rest.chars().next().map_or(0, char::len_utf8) } else { length };
        rest.get(..length).unwrap_or_default()
    }

    fn advance(&mut self, bytes: usize) {
        self.at.characters += self.rest().get(..bytes).unwrap_or_default().chars().count();
        self.at.byte += bytes;
        self.skip_spaces();
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        let spaces = rest.len() - rest.trim_start().len();
        self.at.characters += rest.get(..spaces).unwrap_or_default().chars().count();
        self.at.byte += spaces;
    }
}
