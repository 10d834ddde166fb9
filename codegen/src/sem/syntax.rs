//! The syntax of `semantics`: names, numbers and method calls, each with its place. `infer` types the expressions of VM
//! ops, and the model of GPU instructions those of lanes.
//!
//! The text looks like Rust and is a small part of it. What Rust has besides is refused by name.

/// An expression and its place.
#[derive(Clone, Debug)]
pub struct Syntax {
    /// Its first byte in the text.
    pub at: usize,
    /// The form of the expression.
    pub form: Form,
}

/// The forms of expressions.
#[derive(Clone, Debug)]
pub enum Form {
    /// `lhs`
    Name(String),
    /// `0x10`, `-1.5`; whether it has a sign, and the rest.
    Number(bool, syn::Lit),
    /// `lhs.min_s(rhs)?`
    Call(Box<Call>),
}

/// A call of a primitive.
#[derive(Clone, Debug)]
pub struct Call {
    /// The primitive.
    pub name: String,
    /// The first byte of the name.
    pub name_at: usize,
    /// The operands, the receiver first.
    pub operands: Vec<Syntax>,
    /// The `?` after the call, if there is one.
    pub question: Option<usize>,
}

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The byte of the text where it is.
    pub at: usize,
    /// A sentence without a place.
    pub message: String,
}

/// Parses a text.
///
/// # Errors
/// The first thing that is no such expression.
pub fn parse(text: &str) -> Result<Syntax, Mistake> {
    check_parentheses(text)?;
    let mut parser = Parser { text, at: 0 };
    let expr = parser.expr()?;
    match parser.peek() {
        None => Ok(expr),
        Some(_) => Err(parser.unexpected("the end")),
    }
}

/// Every parenthesis is closed and opened.
fn check_parentheses(text: &str) -> Result<(), Mistake> {
    let mut open = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' => open.push(at),
            ')' if open.pop().is_none() => {
                return Err(Mistake { at, message: "this `)` closes no `(`".to_string() });
            }
            _ => {}
        }
    }
    match open.pop() {
        None => Ok(()),
        Some(at) => Err(Mistake { at, message: "this `(` is not closed".to_string() }),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

/// Characters of operators.
const OPERATORS: &str = "+-*/%&|^<>=!@~";

/// Words of Rust that begin or continue what is no expression here.
const KEYWORDS: [&str; 10] = ["if", "match", "as", "let", "loop", "while", "for", "return", "move", "unsafe"];

impl<'t> Parser<'t> {
    fn expr(&mut self) -> Result<Syntax, Mistake> {
        let mut expr = self.operand()?;
        while let Some(c) = self.peek() {
            let at = self.at;
            match c {
                '.' => {
                    self.at += 1;
                    expr = self.call(expr)?;
                }
                '?' => match &mut expr.form {
                    Form::Call(call) if call.question.is_none() => {
                        call.question = Some(at);
                        self.at += 1;
                    }
                    Form::Call(_) => return self.fail("one `?` is enough"),
                    _ => return self.fail("`?` stands after something that is not a primitive"),
                },
                '(' => return self.refuse("a function call"),
                '[' => return self.refuse("indexing"),
                ':' => return self.refuse("a path"),
                _ if OPERATORS.contains(c) => return self.refuse(&format!("the operator `{}`", self.operator())),
                _ => break,
            }
        }
        Ok(expr)
    }

    fn operand(&mut self) -> Result<Syntax, Mistake> {
        let Some(first) = self.peek() else { return self.fail("expected an operand, found the end") };
        let at = self.at;
        match first {
            '(' => {
                self.at += 1;
                let inner = self.expr()?;
                self.expect(')')?;
                Ok(inner)
            }
            '-' => {
                self.at += 1;
                if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    self.at = at;
                    return self.refuse("the operator `-`");
                }
                let number = self.number()?;
                Ok(Syntax { at, form: Form::Number(true, number) })
            }
            '{' => self.refuse("a block"),
            '|' => self.refuse("a closure"),
            '!' | '*' | '&' => self.refuse("a unary operator"),
            c if c.is_ascii_digit() => Ok(Syntax { at, form: Form::Number(false, self.number()?) }),
            c if is_name(c) => {
                let name = self.name();
                if KEYWORDS.contains(&name) {
                    self.at = at;
                    return self.refuse(&format!("`{name}`"));
                }
                Ok(Syntax { at, form: Form::Name(name.to_string()) })
            }
            _ => Err(self.unexpected("an operand")),
        }
    }

    /// The rest of a call whose receiver and dot were read.
    fn call(&mut self, receiver: Syntax) -> Result<Syntax, Mistake> {
        if !self.peek().is_some_and(is_name) {
            return Err(self.unexpected("the name of a primitive"));
        }
        let (at, name_at) = (receiver.at, self.at);
        let name = self.name().to_string();
        match self.peek() {
            Some('(') => self.at += 1,
            Some(':') => return self.refuse("a turbofish"),
            _ => {
                self.at = name_at;
                return self.fail(&format!("expected the operands of `{name}` in parentheses"));
            }
        }
        let mut operands = vec![receiver];
        loop {
            match self.peek() {
                Some(')') => break,
                _ => operands.push(self.expr()?),
            }
            match self.peek() {
                Some(',') => self.at += 1,
                Some(')') => break,
                _ => return Err(self.unexpected("`,` or `)`")),
            }
        }
        self.expect(')')?;
        Ok(Syntax { at, form: Form::Call(Box::new(Call { name, name_at, operands, question: None })) })
    }

    fn number(&mut self) -> Result<syn::Lit, Mistake> {
        let (start, rest) = (self.at, &self.text[self.at..]);
        let mut end = 0;
        for (index, c) in rest.char_indices() {
            let next_is_digit = rest[index + c.len_utf8()..].starts_with(|c: char| c.is_ascii_digit());
            // A sign belongs to the number after the exponent of a decimal one.
            let is_sign = matches!(c, '+' | '-') && rest[..index].ends_with(['e', 'E']) && !rest.starts_with("0x");
            if !(is_name(c) || c.is_ascii_digit() || next_is_digit && (c == '.' || is_sign)) {
                break;
            }
            end = index + c.len_utf8();
        }
        self.at += end;
        let number = &rest[..end];
        syn::parse_str(number).map_err(|_| Mistake { at: start, message: format!("`{number}` is not a number") })
    }

    fn name(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(is_name(c) || c.is_ascii_digit())).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn operator(&self) -> &'t str {
        let rest = &self.text[self.at..];
        &rest[..rest.find(|c| !OPERATORS.contains(c)).unwrap_or(rest.len())]
    }

    /// The next character that is no white space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn expect(&mut self, c: char) -> Result<(), Mistake> {
        if self.peek() != Some(c) {
            return Err(self.unexpected(&format!("`{c}`")));
        }
        self.at += c.len_utf8();
        Ok(())
    }

    fn unexpected(&mut self, expected: &str) -> Mistake {
        let found = match self.peek() {
            None => "the end".to_string(),
            Some(c) if is_name(c) => {
                let at = self.at;
                let name = self.name();
                self.at = at;
                if KEYWORDS.contains(&name) {
                    return self.refusal(&format!("`{name}`"));
                }
                format!("`{name}`")
            }
            Some(c) => format!("`{c}`"),
        };
        Mistake { at: self.at, message: format!("expected {expected}, found {found}") }
    }

    fn fail<T>(&self, message: &str) -> Result<T, Mistake> {
        Err(Mistake { at: self.at, message: message.to_string() })
    }

    fn refuse<T>(&self, what: &str) -> Result<T, Mistake> {
        Err(self.refusal(what))
    }

    fn refusal(&self, what: &str) -> Mistake {
        let message = format!("{what} is not allowed: semantics are method calls of primitives only");
        Mistake { at: self.at, message }
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}
