//! The parser of what is between the braces of a function: registers, variables, labels and instructions, in scopes.

use std::collections::HashMap;

use super::lexer::{Number, Token};
use super::parser::{Parsed, Parser};
use super::tree::{
    Body, Function, Guard, Instruction, Linkage, Name, Operand, RegisterId, Table, Variable, VariableSpace,
};
use crate::error::LoadError;
use crate::generated::limits::INSTRUCTIONS;
use crate::generated::registers::SpecialRegister;
use crate::isa::refused;

/// Something that a name stands for in a scope.
#[derive(Clone, Copy)]
enum Known {
    /// A register, with the number of its declaration.
    Register(u32),
    /// Registers with numbers after the name: `%r<10>`.
    Registers {
        declaration: u32,
        count: u64,
    },
    Variable(Name<'static>),
}

/// Scopes around each other at most.
const MOST_SCOPES: usize = 256;

struct Reader<'a, 'p> {
    parser: &'p mut Parser<'a>,
    body: Body<'a>,
    /// The open scopes, and what their names stand for.
    scopes: Vec<(u32, HashMap<&'a str, Known>)>,
    /// The bits of each declaration of registers.
    declarations: Vec<u32>,
    /// The registers that are used, by declaration and number.
    used: HashMap<(u32, u64), RegisterId>,
    /// The number of the file and the line that instructions come from.
    origin: Option<(u64, u64)>,
}

/// Parses the body of a function whose head is known, from its brace on.
pub(super) fn parse<'a>(parser: &mut Parser<'a>, function: &mut Function<'a>) -> Parsed<Body<'a>> {
    let (scopes, declarations, used) = (Vec::new(), Vec::new(), HashMap::new());
    let mut reader = Reader { parser, body: Body::default(), scopes, declarations, used, origin: None };
    let mut names = HashMap::new();
    let formals = [(false, &mut function.parameters), (true, &mut function.results)];
    for (is_result, formals) in formals {
        for (index, formal) in formals.iter_mut().enumerate() {
            let known = if formal.space == VariableSpace::Register {
                let register = reader.declare(formal.element * 8);
                let id = reader.register(register, u64::MAX);
                formal.register = Some(id);
                Known::Register(register)
            } else if is_result {
                Known::Variable(Name::Result(index as u32))
            } else {
                Known::Variable(Name::Parameter(index as u32))
            };
            names.insert(formal.name, known);
        }
    }
    reader.open(names)?;
    reader.parser.expect('{')?;
    while !reader.scopes.is_empty() {
        reader.statement()?;
    }
    Ok(reader.body)
}

impl<'a> Reader<'a, '_> {
    fn open(&mut self, names: HashMap<&'a str, Known>) -> Parsed<()> {
        if self.scopes.len() == MOST_SCOPES {
            return self.parser.invalid("too many scopes around each other");
        }
        let number = self.body.scopes.len() as u32;
        self.body.scopes.push(self.scopes.last().map_or(number, |(around, _)| *around));
        self.scopes.push((number, names));
        Ok(())
    }

    fn scope(&self) -> u32 {
        self.scopes.last().map_or(0, |(number, _)| *number)
    }

    fn declare(&mut self, bits: u32) -> u32 {
        self.declarations.push(bits);
        self.declarations.len() as u32 - 1
    }

    /// The register with this number of a declaration; the largest one where it has no number.
    fn register(&mut self, declaration: u32, number: u64) -> RegisterId {
        let bits = self.declarations.get(declaration as usize).copied().unwrap_or(32);
        let registers = &mut self.body.registers;
        *self.used.entry((declaration, number)).or_insert_with(|| {
            registers.push(bits);
            registers.len() as RegisterId - 1
        })
    }

    fn know(&mut self, name: &'a str, known: Known) -> Parsed<()> {
        let Some((_, names)) = self.scopes.last_mut() else { return Ok(()) };
        match names.insert(name, known) {
            Some(_) => self.parser.invalid(format!("`{name}` is declared twice")),
            None => Ok(()),
        }
    }

    fn lookup(&mut self, name: &'a str) -> Option<Result<RegisterId, Name<'a>>> {
        let known = |name: &str| self.scopes.iter().rev().find_map(|(_, names)| names.get(name)).copied();
        match known(name) {
            Some(Known::Register(declaration)) => return Some(Ok(self.register(declaration, u64::MAX))),
            Some(Known::Variable(name)) => return Some(Err(name)),
            Some(Known::Registers { .. }) | None => {}
        }
        // The longest name before a number counts, without zeros before it.
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: u64 = name.get(stem.len()..)?.parse().ok()?;
        match known(stem)? {
            Known::Registers { declaration, count } if number < count => Some(Ok(self.register(declaration, number))),
            _ => None,
        }
    }

    fn statement(&mut self) -> Parsed<()> {
        let line = self.parser.line;
        match self.parser.token {
            Token::Sign('{') => {
                self.parser.advance()?;
                self.open(HashMap::new())
            }
            Token::Sign('}') => {
                self.scopes.pop();
                self.parser.advance()?;
                Ok(())
            }
            Token::Sign(';') => self.parser.advance().map(|_| ()),
            Token::Sign('@') => {
                self.parser.advance()?;
                let negated = self.parser.take('!')?;
                let name = self.parser.word("a predicate")?;
                let Some(Ok(register)) = self.lookup(name) else {
                    return Err(LoadError::invalid(line, format!("there is no predicate `{name}`")));
                };
                if self.body.registers.get(register as usize) != Some(&1) {
                    return Err(LoadError::invalid(line, format!("`{name}` is no predicate")));
                }
                let opcode = self.parser.word("an instruction")?;
                self.instruction(opcode, Some(Guard { register, negated }), line)
            }
            Token::Word(word) => {
                self.parser.advance()?;
                if word.starts_with('.') {
                    return self.directive(word, line);
                }
                if self.parser.take(':')? {
                    if let Token::Word(kind @ (".branchtargets" | ".calltargets" | ".callprototype")) =
                        self.parser.token
                    {
                        return self.table(word, kind, line);
                    }
                    let (scope, at) = (self.scope(), self.body.instructions.len() as u32);
                    return match self.body.labels.insert((scope, word), at) {
                        Some(_) => Err(LoadError::invalid(line, format!("label `{word}` is there twice"))),
                        None => Ok(()),
                    };
                }
                self.instruction(word, None, line)
            }
            _ => self.parser.unexpected("an instruction, a directive or a label"),
        }
    }

    fn directive(&mut self, word: &'a str, line: u32) -> Parsed<()> {
        match word {
            ".reg" => self.registers(),
            ".local" | ".shared" | ".param" | ".global" | ".const" => {
                let space = match word {
                    ".local" => VariableSpace::Local,
                    ".shared" => VariableSpace::Shared,
                    ".param" => VariableSpace::Param,
                    _ => return Err(LoadError::unsupported(line, format!("`{word}` in a function"))),
                };
                let mut variables: Vec<Variable<'a>> = Vec::new();
                self.parser.variables(space, Linkage::Private, &mut variables)?;
                for variable in variables {
                    let name = Known::Variable(Name::Local(self.body.variables.len() as u32));
                    self.know(variable.name, name)?;
                    self.body.variables.push(variable);
                }
                Ok(())
            }
            // A line of the source, with what was inlined there.
            ".loc" => {
                let (file, line) = (self.parser.integer()?, self.parser.integer()?);
                self.parser.integer()?;
                self.origin = Some((file, line));
                while self.parser.take(',')? {
                    while !self.parser.is(',') {
                        match self.parser.token {
                            Token::Word(word) if word == "function_name" || word == "inlined_at" => {
                                self.parser.advance()?;
                                while matches!(self.parser.token, Token::Number(_) | Token::Sign('+')) {
                                    self.parser.advance()?;
                                }
                                if let Token::Word(name) = self.parser.token
                                    && name.starts_with('$')
                                {
                                    self.parser.advance()?;
                                    if self.parser.take('+')? {
                                        self.parser.integer()?;
                                    }
                                }
                            }
                            _ => break,
                        }
                    }
                }
                Ok(())
            }
            ".pragma" => self.parser.until_semicolon(),
            ".branchtargets" | ".calltargets" | ".callprototype" => {
                Err(LoadError::invalid(line, format!("`{word}` without a name before it")))
            }
            _ => Err(LoadError::invalid(line, format!("`{word}` is no directive of a function"))),
        }
    }

    /// `.branchtargets A, B;`, `.calltargets f, g;` or `.callprototype (.param .b32 _) _ (.param .b64 _);` with a name.
    fn table(&mut self, name: &'a str, kind: &str, line: u32) -> Parsed<()> {
        self.parser.advance()?;
        let table = if kind == ".callprototype" {
            let results = if self.parser.is('(') { self.parser.formals()? } else { Vec::new() };
            self.parser.word("`_`")?;
            let parameters = if self.parser.is('(') { self.parser.formals()? } else { Vec::new() };
            // It may return, or not.
            if self.parser.token == Token::Word(".noreturn") {
                self.parser.advance()?;
            }
            Table::Prototype(results, parameters)
        } else {
            let mut names = vec![self.parser.word("a name")?];
            while self.parser.take(',')? {
                names.push(self.parser.word("a name")?);
            }
            if kind == ".branchtargets" { Table::Labels(names) } else { Table::Functions(names) }
        };
        self.parser.expect(';')?;
        let (scope, number) = (self.scope(), self.body.table_list.len() as u32);
        self.body.table_list.push((scope, table));
        match self.body.tables.insert((scope, name), number) {
            Some(_) => Err(LoadError::invalid(line, format!("`{name}` is there twice"))),
            None => Ok(()),
        }
    }

    /// `.b32 %r<10>, %a;`
    fn registers(&mut self) -> Parsed<()> {
        let word = self.parser.word("a type")?;
        if word == ".v2" || word == ".v4" {
            return Err(LoadError::unsupported(self.parser.line, "registers that are vectors"));
        }
        let Some(bits) = Parser::bits_of_type(word) else {
            return self.parser.invalid(format!("`{word}` is no type"));
        };
        loop {
            let name = self.parser.word("a register")?;
            let declaration = self.declare(bits);
            let known = if self.parser.take('<')? {
                let count = self.parser.integer()?;
                self.parser.expect('>')?;
                Known::Registers { declaration, count }
            } else {
                Known::Register(declaration)
            };
            self.know(name, known)?;
            if !self.parser.take(',')? {
                return self.parser.expect(';');
            }
        }
    }

    fn instruction(&mut self, opcode: &'a str, guard: Option<Guard>, line: u32) -> Parsed<()> {
        if self.body.instructions.len() >= INSTRUCTIONS as usize {
            return Err(LoadError::unsupported(line, "too many instructions"));
        }
        // Their operands need not be what others have.
        if let Some(reason) = refused(opcode) {
            return Err(LoadError::unsupported(line, format!("{opcode}: {reason}")));
        }
        let mut operands = Vec::new();
        while !self.parser.is(';') {
            let operand = self.operand(0)?;
            operands.push(operand);
            if !self.parser.take(',')? && !self.parser.is(';') {
                return self.parser.unexpected("`,` or `;`");
            }
        }
        self.parser.expect(';')?;
        let (scope, origin) = (self.scope(), self.origin);
        self.body.instructions.push(Instruction { opcode, guard, operands, scope, line, origin });
        Ok(())
    }

    /// An operand; lists are in lists only once.
    fn operand(&mut self, depth: u32) -> Parsed<Operand<'a>> {
        let first = match self.parser.token {
            Token::Sign('{' | '(') if depth < 2 => {
                let (close, is_vector) = if self.parser.is('{') { ('}', true) } else { (')', false) };
                self.parser.advance()?;
                let mut parts = Vec::new();
                while !self.parser.take(close)? {
                    let part = self.operand(depth + 1)?;
                    parts.push(part);
                    if !self.parser.take(',')? && !self.parser.is(close) {
                        return self.parser.unexpected(&format!("`,` or `{close}`"));
                    }
                }
                if is_vector { Operand::Vector(parts) } else { Operand::List(parts) }
            }
            Token::Sign('[') => self.address()?,
            Token::Sign('!') => {
                self.parser.advance()?;
                let name = self.parser.word("a predicate")?;
                match self.lookup(name) {
                    Some(Ok(register)) => Operand::Not(register),
                    _ => return self.parser.invalid(format!("there is no predicate `{name}`")),
                }
            }
            Token::Number(_) | Token::Sign('-') => match self.parser.number()? {
                Number::Integer(value) => Operand::Integer(value),
                Number::Single(bits) => Operand::Single(bits),
                Number::Double(bits) => Operand::Double(bits),
            },
            Token::Word("_") => {
                self.parser.advance()?;
                Operand::Nothing
            }
            Token::Word(word) => {
                self.parser.advance()?;
                self.named(word)?
            }
            _ => return self.parser.unexpected("an operand"),
        };
        if depth == 0 && self.parser.take('|')? {
            let second = self.operand(1)?;
            return Ok(Operand::Pair(Box::new([first, second])));
        }
        Ok(first)
    }

    fn named(&mut self, word: &'a str) -> Parsed<Operand<'a>> {
        match self.lookup(word) {
            Some(Ok(register)) => return Ok(Operand::Register(register)),
            Some(Err(name)) => {
                let offset = self.offset()?;
                return Ok(Operand::Name(name, offset));
            }
            None => {}
        }
        if let Some(name) = word.strip_prefix('%') {
            let special = SpecialRegister::ALL.iter().find(|special| special.name() == name);
            let Some(special) = special else {
                return self.parser.invalid(format!("there is no register `{word}`"));
            };
            return Ok(Operand::Special(*special));
        }
        // The size of a warp is a constant.
        if word == "WARP_SZ" {
            return Ok(Operand::Integer(vireo_simt::LANES as u64));
        }
        let offset = self.offset()?;
        Ok(Operand::Name(Name::Global(word), offset))
    }

    /// A number that is added, if there is one.
    fn offset(&mut self) -> Parsed<i64> {
        match self.parser.token {
            Token::Sign('+') => {
                self.parser.advance()?;
                Ok(self.parser.integer()? as i64)
            }
            Token::Sign('-') => Ok(self.parser.integer()? as i64),
            // The first element of an array. Others would need the size of an element.
            Token::Sign('[') => {
                self.parser.advance()?;
                if self.parser.integer()? != 0 {
                    return self.parser.invalid("an element of an array that is not the first one".to_string());
                }
                self.parser.expect(']')?;
                Ok(0)
            }
            _ => Ok(0),
        }
    }

    /// `[%rd1+4]`, `[name+-4]`, `[16]`
    fn address(&mut self) -> Parsed<Operand<'a>> {
        self.parser.expect('[')?;
        let operand = match self.parser.token {
            Token::Word(word) => {
                self.parser.advance()?;
                match self.lookup(word) {
                    Some(Ok(register)) => Operand::AtRegister(register, self.offset()?),
                    Some(Err(name)) => Operand::AtName(name, self.offset()?),
                    None if word.starts_with('%') => {
                        return self.parser.invalid(format!("there is no register `{word}`"));
                    }
                    None => Operand::AtName(Name::Global(word), self.offset()?),
                }
            }
            _ => Operand::AtNumber(self.parser.integer()?),
        };
        self.parser.expect(']')?;
        Ok(operand)
    }
}
