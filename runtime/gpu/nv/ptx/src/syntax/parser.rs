//! The parser of modules: versions, variables, and the heads of functions. `body` parses what is between their braces.

use super::body;
use super::lexer::{Lexer, Number, Token, number};
use super::tree::{Function, Initial, Linkage, Source, Variable, VariableSpace};
use crate::error::{LoadError, LoadErrorKind};
use crate::generated::limits::{LATEST_ISA, LEAST_ISA};

/// The result of a step.
pub(super) type Parsed<T> = Result<T, LoadError>;

/// Tokens with one that is looked at.
#[derive(Clone)]
pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    pub(super) token: Token<'a>,
    /// The line of the token.
    pub(super) line: u32,
}

/// Elements of an array, and of its initialiser, at most.
const MOST_BYTES: u64 = 1 << 40;

/// Parses a text.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse(text: &str) -> Result<Source<'_>, LoadError> {
    let mut parser = Parser { lexer: Lexer::new(text), token: Token::End, line: 1 };
    parser.advance()?;
    let mut source = Source::default();
    while parser.token != Token::End {
        parser.item(&mut source)?;
    }
    if source.version == 0 || source.target == 0 {
        return parser.invalid("expected `.version` and `.target`");
    }
    Ok(source)
}

impl<'a> Parser<'a> {
    pub(super) fn advance(&mut self) -> Parsed<Token<'a>> {
        let before = self.token;
        (self.token, self.line) = self.lexer.next()?;
        Ok(before)
    }

    pub(super) fn invalid<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(LoadError::invalid(self.line, message))
    }

    pub(super) fn unexpected<T>(&self, expected: &str) -> Parsed<T> {
        let found = match self.token {
            Token::Word(word) => format!("`{word}`"),
            Token::Number(number) => format!("`{number}`"),
            Token::Text(_) => "a text in quotes".into(),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end of the text".into(),
        };
        self.invalid(format!("expected {expected}, found {found}"))
    }

    pub(super) fn is(&self, sign: char) -> bool {
        self.token == Token::Sign(sign)
    }

    pub(super) fn take(&mut self, sign: char) -> Parsed<bool> {
        let is = self.is(sign);
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    pub(super) fn expect(&mut self, sign: char) -> Parsed<()> {
        if self.take(sign)? { Ok(()) } else { self.unexpected(&format!("`{sign}`")) }
    }

    pub(super) fn word(&mut self, what: &str) -> Parsed<&'a str> {
        match self.token {
            Token::Word(word) => {
                self.advance()?;
                Ok(word)
            }
            _ => self.unexpected(what),
        }
    }

    /// A number with an optional sign.
    pub(super) fn number(&mut self) -> Parsed<Number> {
        let negative = self.take('-')?;
        let Token::Number(text) = self.token else { return self.unexpected("a number") };
        let Some(value) = number(text) else { return self.invalid(format!("`{text}` is no number")) };
        self.advance()?;
        Ok(match value {
            Number::Integer(value) if negative => Number::Integer(value.wrapping_neg()),
            Number::Single(bits) if negative => Number::Single(bits ^ 1 << 31),
            Number::Double(bits) if negative => Number::Double(bits ^ 1 << 63),
            value => value,
        })
    }

    pub(super) fn integer(&mut self) -> Parsed<u64> {
        match self.number()? {
            Number::Integer(value) => Ok(value),
            _ => self.invalid("expected an integer"),
        }
    }

    fn item(&mut self, source: &mut Source<'a>) -> Parsed<()> {
        let line = self.line;
        let mut linkage = Linkage::default();
        loop {
            let word = self.word("a directive of a module")?;
            match word {
                ".version" => {
                    let Token::Number(text) = self.advance()? else { return self.unexpected("a version") };
                    let version = text.split_once('.').and_then(|(major, minor)| {
                        let minor = minor.parse::<u32>().ok().filter(|minor| *minor < 10)?;
                        Some(major.parse::<u32>().ok().filter(|major| *major < 100)? * 10 + minor)
                    });
                    match version {
                        Some(version) if (LEAST_ISA..=LATEST_ISA).contains(&version) => source.version = version,
                        _ => {
                            let message = format!(
                                "version {text} of the instruction set: expected {}.{} to {}.{}",
                                LEAST_ISA / 10,
                                LEAST_ISA % 10,
                                LATEST_ISA / 10,
                                LATEST_ISA % 10
                            );
                            return Err(LoadError::new(LoadErrorKind::Version, line, message));
                        }
                    }
                    return Ok(());
                }
                ".target" => loop {
                    let word = self.word("a target")?;
                    if let Some(number) = word.strip_prefix("sm_") {
                        let digits = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
                        match digits.parse::<u32>() {
                            Ok(number) if (10..1000).contains(&number) => source.target = number,
                            _ => return self.invalid(format!("`{word}` is no target")),
                        }
                    }
                    if !self.take(',')? {
                        return Ok(());
                    }
                },
                ".address_size" => {
                    return match self.integer()? {
                        64 => Ok(()),
                        bits => Err(LoadError::unsupported(line, format!("addresses of {bits} bits: expected 64"))),
                    };
                }
                ".file" => {
                    let number = self.integer()?;
                    if let Token::Text(name) = self.advance()? {
                        source.files.insert(number, name);
                    }
                    while self.take(',')? {
                        self.advance()?;
                    }
                    return Ok(());
                }
                ".section" => return self.section(),
                ".pragma" => return self.until_semicolon(),
                ".visible" => linkage = Linkage::Visible,
                ".weak" | ".common" => linkage = Linkage::Weak,
                ".extern" => linkage = Linkage::Extern,
                ".entry" | ".func" => {
                    let function = self.function(word == ".entry", linkage, line)?;
                    source.functions.push(function);
                    return Ok(());
                }
                ".global" | ".const" | ".shared" => {
                    let space = match word {
                        ".global" => VariableSpace::Global,
                        ".const" => VariableSpace::Const,
                        _ => VariableSpace::Shared,
                    };
                    return self.variables(space, linkage, &mut source.variables);
                }
                ".alias" | ".tex" | ".reg" => {
                    return Err(LoadError::unsupported(line, format!("`{word}` outside of a function")));
                }
                _ => {
                    let message = format!("`{word}` is no directive of a module");
                    return Err(LoadError::invalid(line, message));
                }
            }
        }
    }

    pub(super) fn until_semicolon(&mut self) -> Parsed<()> {
        while !self.is(';') {
            if self.token == Token::End {
                return self.unexpected("`;`");
            }
            self.advance()?;
        }
        self.expect(';')
    }

    /// `.section .debug_str { ... }`
    fn section(&mut self) -> Parsed<()> {
        self.word("the name of a section")?;
        self.expect('{')?;
        let mut depth = 1u32;
        while depth > 0 {
            match self.advance()? {
                Token::Sign('{') => depth += 1,
                Token::Sign('}') => depth -= 1,
                Token::End => return self.unexpected("`}`"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Bits of the type that a directive names.
    pub(super) fn bits_of_type(word: &str) -> Option<u32> {
        use crate::generated::suffixes::Type;
        let name = word.strip_prefix('.')?;
        Type::ALL.iter().find(|ty| ty.name() == name).map(|ty| ty.bits())
    }

    /// Declarations of variables of a space, to the semicolon.
    pub(super) fn variables(
        &mut self,
        space: VariableSpace,
        linkage: Linkage,
        into: &mut Vec<Variable<'a>>,
    ) -> Parsed<()> {
        let variable = self.variable(space, linkage, None)?;
        let (align, element) = (variable.align, variable.element);
        into.push(variable);
        while self.take(',')? {
            // The others have the same type.
            let next = self.variable(space, linkage, Some((align, element)))?;
            into.push(next);
        }
        self.expect(';')
    }

    /// `.align 4 .b8 name[16] = {1, 2}`; the type is known for all but the first of several.
    pub(super) fn variable(
        &mut self,
        space: VariableSpace,
        linkage: Linkage,
        known: Option<(u32, u32)>,
    ) -> Parsed<Variable<'a>> {
        let mut align = known.map(|(align, _)| align);
        let (mut element, mut vector) = (known.map(|(_, element)| element), 1);
        let (line, mut is_pointer) = (self.line, false);
        let name = loop {
            let word = self.word("a variable")?;
            match word {
                ".align" => match self.integer()? {
                    // After `.ptr` it is that of what is pointed to.
                    bytes if bytes.is_power_of_two() && bytes <= 1 << 16 && is_pointer => {}
                    bytes if bytes.is_power_of_two() && bytes <= 1 << 16 => align = Some(bytes as u32),
                    bytes => return self.invalid(format!("an alignment of {bytes} bytes")),
                },
                ".v2" => vector = 2,
                ".v4" => vector = 4,
                // The target of a pointer and attributes change nothing.
                ".ptr" if element.is_some() => is_pointer = true,
                ".global" | ".const" | ".shared" | ".local" | ".param" if is_pointer => {}
                ".attribute" => {
                    self.expect('(')?;
                    while !self.take(')')? {
                        if self.advance()? == Token::End {
                            return self.unexpected("`)`");
                        }
                    }
                }
                ".texref" | ".samplerref" | ".surfref" => {
                    return Err(LoadError::unsupported(line, "textures and surfaces are not supported"));
                }
                word if word.starts_with('.') => match Self::bits_of_type(word) {
                    Some(bits) => element = Some(bits.div_ceil(8)),
                    None => return self.invalid(format!("`{word}` is no type")),
                },
                word => break word,
            }
        };
        let Some(element) = element else { return self.invalid(format!("`{name}` has no type")) };
        let mut size = Some(u64::from(element) * vector);
        while self.take('[')? {
            if self.take(']')? {
                size = None;
                continue;
            }
            let count = self.integer()?;
            self.expect(']')?;
            size = size.and_then(|size| size.checked_mul(count));
            if size.is_none_or(|size| size > MOST_BYTES) {
                return self.invalid(format!("`{name}` is too large"));
            }
        }
        let mut initial = Vec::new();
        if self.take('=')? {
            self.initial(&mut initial)?;
            let bytes = initial.len() as u64 * u64::from(element);
            match size {
                None => size = Some(bytes),
                Some(size) if bytes > size => {
                    return self.invalid(format!("`{name}` has {size} bytes, and {bytes} are given"));
                }
                Some(_) => {}
            }
        }
        let natural = (element * vector as u32).next_power_of_two();
        let align = align.unwrap_or(natural);
        Ok(Variable { name, space, linkage, align, element, size, initial, register: None, line })
    }

    /// `1`, `{1, 2}`, `name + 4`, `generic(name)`, also nested.
    fn initial(&mut self, into: &mut Vec<Initial<'a>>) -> Parsed<()> {
        let mut depth = 0u32;
        loop {
            if self.take('{')? {
                depth += 1;
                continue;
            }
            if depth > 0 && self.take('}')? {
                depth -= 1;
            } else if let Token::Word(mut name) = self.token {
                self.advance()?;
                let generic = name == "generic" && self.take('(')?;
                if generic {
                    name = self.word("a variable")?;
                }
                if generic && self.is('+') {
                    self.advance()?;
                    let addend = self.integer()?;
                    into.push(Initial::Address(name, addend as i64));
                    self.expect(')')?;
                } else {
                    if generic {
                        self.expect(')')?;
                    }
                    let addend = match self.token {
                        Token::Sign('+') => {
                            self.advance()?;
                            self.integer()?
                        }
                        Token::Sign('-') => self.integer()?,
                        _ => 0,
                    };
                    into.push(Initial::Address(name, addend as i64));
                }
            } else {
                into.push(Initial::Bits(match self.number()? {
                    Number::Integer(bits) | Number::Double(bits) => bits,
                    Number::Single(bits) => u64::from(bits),
                }));
            }
            if depth == 0 {
                return Ok(());
            }
            // A comma may be missing after an inner list only before the end of the outer one.
            if !self.take(',')? && !self.is('}') {
                return self.unexpected("`,` or `}`");
            }
        }
    }

    /// `(.param .b64 a, .reg .b32 %r)`
    pub(super) fn formals(&mut self) -> Parsed<Vec<Variable<'a>>> {
        let mut formals = Vec::new();
        self.expect('(')?;
        while !self.take(')')? {
            let space = match self.word("a parameter")? {
                ".param" => VariableSpace::Param,
                ".reg" => VariableSpace::Register,
                word => return self.invalid(format!("`{word}` is no space of a parameter")),
            };
            let formal = self.variable(space, Linkage::Private, None)?;
            if formal.size.is_none() && !self.is(')') {
                return self.invalid(format!("parameter `{}` has no size", formal.name));
            }
            formals.push(formal);
            if !self.take(',')? && !self.is(')') {
                return self.unexpected("`,` or `)`");
            }
        }
        Ok(formals)
    }

    fn function(&mut self, is_kernel: bool, linkage: Linkage, line: u32) -> Parsed<Function<'a>> {
        let results = if self.is('(') && !is_kernel { self.formals()? } else { Vec::new() };
        let name = self.word("the name of a function")?;
        let parameters = if self.is('(') { self.formals()? } else { Vec::new() };
        let mut function = Function {
            name,
            is_kernel,
            linkage,
            results,
            parameters,
            max_threads: None,
            required_threads: None,
            body: None,
            line,
        };
        loop {
            if self.take(';')? {
                return Ok(function);
            }
            if self.is('{') {
                let body = body::parse(self, &mut function)?;
                function.body = Some(body);
                return Ok(function);
            }
            let word = self.word("a directive, `;` or `{`")?;
            match word {
                ".maxntid" => function.max_threads = Some(self.sizes()?),
                ".reqntid" => function.required_threads = Some(self.sizes()?),
                ".maxnreg" | ".minnctapersm" | ".maxnctapersm" | ".maxclusterrank" => {
                    self.integer()?;
                }
                ".noreturn" => {}
                ".pragma" => self.until_semicolon()?,
                ".reqnctapercluster" | ".explicitcluster" | ".blocksareclusters" => {
                    return Err(LoadError::unsupported(self.line, "clusters of blocks are not supported"));
                }
                ".unique" | ".abi_preserve" | ".abi_preserve_control" => {
                    return Err(LoadError::unsupported(self.line, format!("`{word}`")));
                }
                _ => return self.invalid(format!("`{word}` is no directive of a function")),
            }
        }
    }

    /// One to three sizes.
    fn sizes(&mut self) -> Parsed<[u32; 3]> {
        let mut sizes = [1; 3];
        for size in &mut sizes {
            *size = match u32::try_from(self.integer()?) {
                Ok(size) if size > 0 => size,
                _ => return self.invalid("expected a number of threads"),
            };
            if !self.take(',')? {
                break;
            }
        }
        Ok(sizes)
    }
}
