//! Parsers of operands: methods of [`Statement`] that the generated parsers of ops call. They change only the cursor.

use std::borrow::Cow;

use super::error::{AsmError, Location};
use super::number::{F32, F64, float_bits};
use super::register::Register;
use super::statement::{Statement, Symbol, is_symbol_char};
use crate::generated::vm::opcode::{MOVE_BIT, NOT_A_SPAN, REF_BIT};

/// The registers of a bank are below the bits that have another meaning.
const MAX_SLOT: i128 = REF_BIT as i128 - 1;
const MAX_REF: i128 = MOVE_BIT as i128 - 1;
/// Types in angle brackets nest at most this deep.
const MAX_NESTING: usize = 16;

/// The kinds of registers that a list may hold.
#[derive(Clone, Copy, Debug)]
pub enum ListKind {
    /// Values of 32 bits.
    Slots,
    /// Values of 64 bits.
    Pairs,
    /// References.
    Refs {
        /// They may be moved.
        movable: bool,
    },
    /// Anything.
    Any,
}

/// A global: its offset or ordinal, or its name.
pub enum Global<'t> {
    Number(u32, Location),
    Name(Symbol<'t>),
}

/// A type: its ordinal in the type table, or its name.
pub enum TypeName<'t> {
    Ordinal(u32),
    Name(&'t str),
}

/// A block.
#[derive(Clone, Debug)]
pub struct Label<'t> {
    pub(super) name: &'t str,
    pub(super) location: Location,
}

/// A branch target with its remap pairs.
pub struct Edge<'t> {
    pub(super) target: Label<'t>,
    pub(super) remap: Vec<(Register, Register)>,
}

/// The operands of a call.
pub struct Call<'t> {
    pub callee: Symbol<'t>,
    pub segments: Vec<u16>,
    pub operands: Vec<Register>,
    pub results: Vec<Register>,
    pub resume: Option<Label<'t>>,
}

impl<'t> Statement<'t> {
    /// Reads a register of either bank.
    pub(super) fn any_reg(&mut self, what: &str) -> Result<Register, AsmError> {
        let bank = match () {
            () if self.accept("%i") => 'i',
            () if self.accept("%r") => 'r',
            () if self.accept("%R") => 'R',
            () => return Err(self.expected(what)),
        };
        // The ranges make the conversions safe.
        if bank != 'i' {
            let index = self.number("a register", 0..=MAX_REF)? as u16;
            let moved = if bank == 'R' { MOVE_BIT } else { 0 };
            return Ok(Register { bits: index | REF_BIT | moved, slots: 1, pair: false });
        }
        let index = self.number("a register", 0..=MAX_SLOT)? as u16;
        let mut ahead = self.ahead();
        let pair = ahead.next() == Some(':') && ahead.next().is_some_and(|c| c.is_ascii_digit());
        if pair {
            self.token(":")?;
            let next = i128::from(index) + 1;
            let range = next..=next;
            self.number("the upper half of the pair", range)?;
        }
        Ok(Register { bits: index, slots: if pair { 2 } else { 1 }, pair })
    }

    /// Reads a register of values. A pair may be named by its lower half.
    #[inline(never)]
    pub fn reg(&mut self, wide: bool) -> Result<Register, AsmError> {
        let what = if wide { "a pair of value registers such as %i0:1" } else { "a value register such as %i0" };
        let location = self.next_location();
        let register = self.any_reg(what)?;
        check(register, if wide { ListKind::Pairs } else { ListKind::Slots }, location)
    }

    /// Reads a register of references.
    #[inline(never)]
    pub fn ref_reg(&mut self, movable: bool) -> Result<Register, AsmError> {
        let location = self.next_location();
        let register = self.any_reg("a reference register such as %r0")?;
        check(register, ListKind::Refs { movable }, location)
    }

    #[inline(never)]
    fn only_result(&mut self, kind: ListKind) -> Result<Register, AsmError> {
        match self.results.as_slice() {
            [(register, location)] => check(*register, kind, *location),
            [] => Err(self.error("expected a result before the op, as in `%i0 = ...`")),
            [_, (_, location), ..] => {
                Err(AsmError { location: *location, message: "the op has one result only".into() })
            }
        }
    }

    /// The value register before the op: its result.
    pub fn result(&mut self, wide: bool) -> Result<Register, AsmError> {
        self.only_result(if wide { ListKind::Pairs } else { ListKind::Slots })
    }

    /// The reference register before the op: its result.
    pub fn result_ref(&mut self) -> Result<Register, AsmError> {
        self.only_result(ListKind::Refs { movable: true })
    }

    /// The op has no result.
    #[inline(never)]
    pub fn no_result(&mut self) -> Result<(), AsmError> {
        match self.results.first() {
            None => Ok(()),
            Some((_, location)) => Err(AsmError { location: *location, message: "the op has no result".into() }),
        }
    }

    /// Reads a register list, which may be empty.
    #[inline(never)]
    pub fn list(&mut self, kind: ListKind) -> Result<Vec<Register>, AsmError> {
        let mut registers = Vec::new();
        if !self.peek("%") {
            return Ok(registers);
        }
        loop {
            let location = self.next_location();
            let register = self.any_reg("a register")?;
            registers.push(check(register, kind, location)?);
            if !self.accept(",") {
                return Ok(registers);
            }
        }
    }

    /// Reads a comma and a register list, or nothing.
    pub fn more(&mut self, kind: ListKind) -> Result<Vec<Register>, AsmError> {
        if !self.accept(",") {
            return Ok(Vec::new());
        }
        if !self.peek("%") {
            return Err(self.expected("a register"));
        }
        self.list(kind)
    }

    /// Reads an immediate. What is above the signed maximum is the bit pattern.
    #[inline(never)]
    pub fn imm_i32(&mut self) -> Result<i32, AsmError> {
        let range = i128::from(i32::MIN)..=i128::from(u32::MAX);
        self.number("a number", range).map(|value| value as i32)
    }

    /// Reads an immediate. What is above the signed maximum is the bit pattern.
    #[inline(never)]
    pub fn imm_i64(&mut self) -> Result<i64, AsmError> {
        let range = i128::from(i64::MIN)..=i128::from(u64::MAX);
        self.number("a number", range).map(|value| value as i64)
    }

    /// Reads an immediate.
    pub fn imm_f32(&mut self) -> Result<u32, AsmError> {
        // The format has 32 bits.
        self.float("a number of the type f32", F32).map(|bits| bits as u32)
    }

    /// Reads an immediate.
    pub fn imm_f64(&mut self) -> Result<u64, AsmError> {
        self.float("a number of the type f64", F64)
    }

    fn float(&mut self, what: &str, format: super::number::Format) -> Result<u64, AsmError> {
        let location = self.next_location();
        let text = self.take_while(|c| !c.is_whitespace() && c != ',');
        float_bits(text, format).ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            AsmError { location, message: format!("expected {what}, found `{}`", shown.escape_debug()) }
        })
    }

    /// Reads the number or the name of a global.
    pub fn global(&mut self) -> Result<Global<'t>, AsmError> {
        if self.peek("@") {
            return self.name("a global").map(Global::Name);
        }
        let location = self.next_location();
        Ok(Global::Number(self.u32("the number of a global, or its name,")?, location))
    }

    /// Reads a type name, or `type 3`.
    pub fn type_name(&mut self) -> Result<TypeName<'t>, AsmError> {
        if self.accept_word("type") {
            return self.u32("the ordinal of a type").map(TypeName::Ordinal);
        }
        self.next_location();
        let (mut depth, mut length) = (0_usize, 0);
        for c in self.ahead() {
            match c {
                '<' => depth += 1,
                '>' if depth == 0 => break,
                '>' => depth -= 1,
                ',' | ')' | ']' | '=' | '"' => break,
                c if c.is_whitespace() => break,
                _ => {}
            }
            length += c.len_utf8();
        }
        let name = self.take_bytes(length);
        if name.is_empty() || depth > MAX_NESTING {
            return Err(self.expected("a type such as !vm.buffer"));
        }
        Ok(TypeName::Name(name))
    }

    /// Reads a type name and forgets it.
    pub fn any_type(&mut self) -> Result<(), AsmError> {
        self.type_name().map(|_| ())
    }

    /// Reads the ordinal of a rodata segment.
    pub fn rodata(&mut self) -> Result<u32, AsmError> {
        self.u32("the ordinal of a rodata segment")
    }

    /// Reads the name of an import.
    pub fn import(&mut self) -> Result<Symbol<'t>, AsmError> {
        self.symbol("an import such as @module.function")
    }

    /// Reads `^bb1`.
    #[inline(never)]
    pub(super) fn label(&mut self) -> Result<Label<'t>, AsmError> {
        let location = self.next_location();
        if !self.accept("^") {
            return Err(self.expected("a block such as ^bb1"));
        }
        let name = self.take_while(is_symbol_char);
        if name.is_empty() {
            return Err(self.expected("the name of a block"));
        }
        Ok(Label { name, location })
    }

    /// Reads `^bb1`, `^bb1()` or `^bb1(%i0->%i1)`.
    #[inline(never)]
    pub fn edge(&mut self) -> Result<Edge<'t>, AsmError> {
        let target = self.label()?;
        let mut remap = Vec::new();
        if self.accept("(") && !self.accept(")") {
            loop {
                let from = self.any_reg("a register to copy, as in %i0->%i1")?;
                self.token("->")?;
                let to = self.any_reg("a register to copy to")?;
                if from.pair || to.pair {
                    return Err(self.error("copies of a branch are single registers: a pair is two of them"));
                }
                remap.push((from, to));
                if self.accept(")") {
                    break;
                }
                if !self.accept(",") {
                    return Err(self.expected("`,` or `)`"));
                }
            }
        }
        Ok(Edge { target, remap })
    }

    /// Reads the cases of a branch table up to its `}`: `0: ^bb1(), 1: ^bb2()`, with a comma before it.
    pub fn cases(&mut self) -> Result<Vec<Edge<'t>>, AsmError> {
        let mut cases = Vec::new();
        loop {
            // Commas between cases are optional, as they are for the reference runtime.
            self.accept(",");
            if self.at_end() || self.peek("}") {
                return Ok(cases);
            }
            let next = cases.len() as i128;
            self.number("the next case", next..=next)?;
            self.token(":")?;
            cases.push(self.edge()?);
        }
    }

    /// Reads a call: `@callee(%i0)`, with `segments[...]` and with `-> ^bb1(%r0)` where the form has them.
    pub fn call(&mut self, variadic: bool, yieldable: bool) -> Result<Call<'t>, AsmError> {
        let callee = self.symbol("a function such as @name")?;
        let mut segments = Vec::new();
        if variadic {
            self.token("segments[")?;
            while !self.accept("]") {
                if !segments.is_empty() {
                    self.token(",")?;
                }
                segments.push(self.number("the number of tuples", 0..=NOT_A_SPAN.into())? as u16);
            }
        }
        self.token("(")?;
        let operands = self.list(ListKind::Any)?;
        self.token(")")?;
        let (results, resume) = if yieldable {
            self.no_result()?;
            self.token("->")?;
            let label = self.label()?;
            self.token("(")?;
            let results = self.list(ListKind::Any)?;
            self.token(")")?;
            (results, Some(label))
        } else {
            (self.results.iter().map(|(register, _)| *register).collect(), None)
        };
        self.end()?;
        Ok(Call { callee, segments, operands, results, resume })
    }

    /// The location of what comes next.
    pub(super) fn next_location(&mut self) -> Location {
        self.peek("");
        self.location()
    }

    /// Reads the name of an attribute or of a type in quotes as text that the statement need not own.
    pub(super) fn quoted_name(&mut self) -> Result<Cow<'t, str>, AsmError> {
        self.text().map(Cow::Owned)
    }
}

/// Checks that a register may be in a list of `kind`, and sets the slots that it takes.
fn check(register: Register, kind: ListKind, location: Location) -> Result<Register, AsmError> {
    let error = |message: &str| Err(AsmError { location, message: message.into() });
    match (kind, register.is_ref()) {
        (ListKind::Any, _) => Ok(register),
        (ListKind::Refs { .. }, false) => error("expected a reference register such as %r0, found a value register"),
        (ListKind::Refs { movable: false }, true) if register.is_move() => {
            error("expected a register such as %r0: the op cannot move this operand")
        }
        (ListKind::Refs { .. }, true) => Ok(register),
        (_, true) => error("expected a value register such as %i0, found a reference register"),
        (ListKind::Slots, false) if register.pair => error("expected a single register: the value has 32 bits"),
        (ListKind::Slots, false) => Ok(register),
        (ListKind::Pairs, false) => Ok(Register { slots: 2, ..register }),
    }
}
