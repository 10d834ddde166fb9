//! Declarations of functions ([`Declaration`]): the text that compilers write as `iree.abi.declaration`, with the names
//! and types of the source.
//!
//! ```text
//! sync func @main(%input0: tensor<?x4xf32>, %input1: i32) -> (%output0: tensor<?xf32> {iree.abi.encoding = "x"})
//! ```
//!
//! Calling conventions only tell numbers from references; declarations tell the shapes and the element types of
//! tensors. They are text that nothing checks: a user of one compares it with the calling convention, and with the
//! arguments of a call.

use std::fmt;

use crate::reflection::ValueAttribute;
use crate::status::{Result, Status};

/// Most dimensions of a tensor that are read, which is more than a buffer view may have.
const MAX_RANK: usize = 128;

/// How many fences the calling model `coarse-fences` has: the last arguments, one to wait for and one to signal.
pub const FENCES: usize = 2;

/// The declaration of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// True for `async`: the function takes a fence to wait for and one to signal.
    pub is_async: bool,
    /// The name of the function.
    pub name: String,
    /// The arguments, without fences of the calling model.
    pub arguments: Vec<DeclaredValue>,
    /// The results.
    pub results: Vec<DeclaredValue>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredValue {
    /// Its name, without `%`.
    pub name: String,
    /// Its type.
    pub r#type: DeclaredType,
    /// Names and values of its attributes, as they are written: `iree.abi.output` and `0 : index`.
    pub attributes: Vec<(String, String)>,
}

impl DeclaredValue {
    /// The number of the result whose storage an argument is: the program writes to its memory.
    pub fn storage_of(&self) -> Option<usize> {
        let is_output = |(name, _): &&(String, String)| name == ValueAttribute::Output.name();
        let (_, value) = self.attributes.iter().find(is_output)?;
        value.split(':').next()?.trim().parse().ok()
    }
}

/// The type of an argument or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredType {
    /// A tensor.
    Tensor {
        /// The sizes of its dimensions; none for those that only a call knows.
        shape: Vec<Option<u64>>,
        /// The type of its elements, as the compiler writes it: `f32`, `complex<f32>`.
        element: String,
    },
    /// Anything else: `i32`, `index`, `!hal.buffer_view`.
    Other(String),
}

impl Declaration {
    /// Parses a declaration.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the place in the text.
    pub fn parse(text: &str) -> Result<Declaration> {
        let mut parser = Parser { text, at: 0 };
        let is_async = parser.take("async");
        if !is_async {
            parser.expect("sync")?;
        }
        parser.expect("func")?;
        parser.expect("@")?;
        let name = parser.name()?;
        let arguments = parser.values()?;
        parser.expect("->")?;
        let results = parser.values()?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.error("the end"));
        }
        Ok(Declaration { is_async, name, arguments, results })
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, expected: &str) -> Status {
        Status::invalid_argument(format!(
            "the declaration `{}`, at byte {}: expected {expected}",
            self.text.escape_debug(),
            self.at
        ))
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, word: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.take(word) { Ok(()) } else { Err(self.error(&format!("`{word}`"))) }
    }

    /// A name, bare or in quotes.
    fn name(&mut self) -> Result<String> {
        if self.rest().starts_with('"') {
            let text = self.quoted()?;
            return Ok(text[1..text.len() - 1].replace("\\\"", "\"").replace("\\\\", "\\"));
        }
        let is_bare = |letter: char| letter.is_alphanumeric() || "_$.-".contains(letter);
        let end = self.rest().find(|letter| !is_bare(letter)).unwrap_or(self.rest().len());
        if end == 0 {
            return Err(self.error("a name"));
        }
        let name = &self.rest()[..end];
        self.at += end;
        Ok(name.to_string())
    }

    /// A text in quotes, with the quotes.
    fn quoted(&mut self) -> Result<&'a str> {
        let rest = self.rest();
        let mut escaped = false;
        for (at, letter) in rest.char_indices().skip(1) {
            match letter {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    self.at += at + 1;
                    return Ok(&rest[..=at]);
                }
                _ => {}
            }
        }
        Err(self.error("the end of the quotes"))
    }

    /// `(%name: type {attributes}, ...)`
    fn values(&mut self) -> Result<Vec<DeclaredValue>> {
        self.expect("(")?;
        let mut values = Vec::new();
        if self.take(")") {
            return Ok(values);
        }
        loop {
            self.expect("%")?;
            let name = self.name()?;
            self.expect(":")?;
            let r#type = self.balanced(&[',', ')', '{'])?.trim();
            let r#type = self.of_type(r#type)?;
            let attributes = if self.take("{") { self.attributes()? } else { Vec::new() };
            values.push(DeclaredValue { name, r#type, attributes });
            if self.take(")") {
                return Ok(values);
            }
            self.expect(",")?;
        }
    }

    /// `name = value, name}`
    fn attributes(&mut self) -> Result<Vec<(String, String)>> {
        let mut attributes = Vec::new();
        while !self.take("}") {
            if self.rest().starts_with(',') {
                return Err(self.error("an attribute"));
            }
            let text = self.balanced(&[',', '}'])?;
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            attributes.push((name.trim().to_string(), value.trim().to_string()));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
            self.skip_space();
        }
        Ok(attributes)
    }

    /// The text up to one of these letters that is in no brackets and no quotes.
    fn balanced(&mut self, ends: &[char]) -> Result<&'a str> {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(letter) = self.rest().chars().next() {
            if depth == 0 && self.at > start && ends.contains(&letter) {
                return Ok(&self.text[start..self.at]);
            }
            match letter {
                '"' => {
                    self.quoted()?;
                    continue;
                }
                '(' | '<' | '[' | '{' => depth += 1,
                ')' | '>' | ']' | '}' if depth > 0 => depth -= 1,
                ')' | ']' | '}' => return Err(self.error("a type")),
                _ => {}
            }
            self.at += letter.len_utf8();
        }
        Err(self.error("`)`"))
    }

    fn of_type(&self, text: &str) -> Result<DeclaredType> {
        let Some(contents) = text.strip_prefix("tensor<").and_then(|rest| rest.strip_suffix('>')) else {
            return Ok(DeclaredType::Other(text.to_string()));
        };
        // An encoding follows the comma.
        let mut rest = contents.split(',').next().unwrap_or_default().trim();
        let mut shape = Vec::new();
        while let Some((dimension, others)) = rest.split_once('x') {
            shape.push(match dimension {
                "?" => None,
                digits => match digits.parse() {
                    Ok(size) => Some(size),
                    Err(_) => break,
                },
            });
            rest = others;
            if shape.len() > MAX_RANK {
                return Err(self.error(&format!("at most {MAX_RANK} dimensions")));
            }
        }
        if rest.is_empty() || rest.starts_with('*') {
            return Err(self.error("dimensions and an element type"));
        }
        Ok(DeclaredType::Tensor { shape, element: rest.to_string() })
    }
}

impl fmt::Display for DeclaredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeclaredType::Other(text) => f.write_str(text),
            DeclaredType::Tensor { shape, element } => {
                f.write_str("tensor<")?;
                for dimension in shape {
                    match dimension {
                        Some(size) => write!(f, "{size}x")?,
                        None => f.write_str("?x")?,
                    }
                }
                write!(f, "{element}>")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(values: &[DeclaredValue]) -> Vec<String> {
        values.iter().map(|value| format!("{}: {}", value.name, value.r#type)).collect()
    }

    #[test]
    fn declarations_of_compilers_are_read() {
        let text = "async func @doubled_and_total(%input0: tensor<?xi32>, %input1: tensor<4x5xf32> {iree.abi.output = 0 : index}) -> \
                    (%output0: tensor<?xi32>, %output1: tensor<i32>)";
        let declaration = Declaration::parse(text).expect("it is well-formed");
        assert!(declaration.is_async);
        assert_eq!(declaration.name, "doubled_and_total");
        assert_eq!(types(&declaration.arguments), ["input0: tensor<?xi32>", "input1: tensor<4x5xf32>"]);
        assert_eq!(types(&declaration.results), ["output0: tensor<?xi32>", "output1: tensor<i32>"]);
        let storages: Vec<_> = declaration.arguments.iter().map(DeclaredValue::storage_of).collect();
        assert_eq!(storages, [None, Some(0)]);
        let DeclaredType::Tensor { shape, element } = &declaration.arguments[1].r#type else { panic!("a tensor") };
        assert_eq!((&shape[..], &element[..]), (&[Some(4), Some(5)][..], "f32"));
    }

    #[test]
    fn other_types_are_kept_as_text() {
        let text = "sync func @\"odd \\\"name\\\", (really)\"(%a: !hal.buffer_view, %b: tensor<2xcomplex<f32>, #enc<[1, 2]>>, \
                    %c: !util.list<?>, %d: index {ml.name = \"x) -> (\"}) -> ()";
        let declaration = Declaration::parse(text).expect("it is well-formed");
        assert_eq!(declaration.name, "odd \"name\", (really)");
        let expected = ["a: !hal.buffer_view", "b: tensor<2xcomplex<f32>>", "c: !util.list<?>", "d: index"];
        assert_eq!(types(&declaration.arguments), expected);
        let attributes: Vec<_> = declaration.arguments.iter().map(|value| &value.attributes[..]).collect();
        let named = [("ml.name".to_string(), "\"x) -> (\"".to_string())];
        assert_eq!(attributes, [&[], &[], &[], &named[..]]);
        assert_eq!(declaration.results, []);
    }

    #[test]
    fn attributes_are_read_one_by_one() {
        let of = |text: &str| {
            let text = format!("sync func @f(%a: tensor<4xf32> {text}, %b: i32) -> ()");
            Declaration::parse(&text).map(|declaration| declaration.arguments[0].clone())
        };
        for (text, count, storage) in [
            ("{}", 0, None),
            ("{ unit }", 1, None),
            ("{a = [1, 2], iree.abi.output = 3 : index, b = {c = 1}}", 3, Some(3)),
            ("{iree.abi.output = -1 : index}", 1, None),
            ("{iree.abi.output = 99999999999999999999 : index}", 1, None),
            ("{iree.abi.output}", 1, None),
        ] {
            let value = of(text).expect(text);
            assert_eq!((value.attributes.len(), value.storage_of()), (count, storage), "{text}");
        }
        for text in ["{a = 1", "{,}", "{a = ]}"] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn malformed_text_is_refused_with_its_place() {
        let cases = [
            ("", "at byte 0: expected `sync`"),
            ("sync func main() -> ()", "at byte 10: expected `@`"),
            ("sync func @() -> ()", "at byte 11: expected a name"),
            ("sync func @f(", "at byte 13: expected `%`"),
            ("sync func @f(%a: tensor<4xf32) -> ()", "expected `)`"),
            ("sync func @f(%a: ]) -> ()", "expected a type"),
            ("sync func @f(%a: tensor<4x>) -> ()", "expected dimensions"),
            ("sync func @f(%a: tensor<*xf32>) -> ()", "expected dimensions"),
            ("sync func @f(%a: \"x) -> ()", "expected the end of the quotes"),
            ("sync func @f() -> () more", "at byte 21: expected the end"),
        ];
        for (text, expected) in cases {
            let error = Declaration::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let deep = format!("sync func @f(%a: {}", "<".repeat(1 << 20));
        assert!(Declaration::parse(&deep).is_err());
        assert!(Declaration::parse(&format!("sync func @f(%a: tensor<{}f32>) -> ()", "1x".repeat(1000))).is_err());
    }
}
