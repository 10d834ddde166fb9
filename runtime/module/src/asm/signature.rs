//! The grammar of function headers: signatures, and the clauses after them. The module parser calls it for each
//! `vm.func`.

use super::Keyword;
use super::error::{AsmError, at};
use super::register::Register;
use super::statement::Statement;
use crate::bytecode::opcode;
use crate::convention::{Argument, Convention, Kind};

/// The header of a function: everything before its body.
pub(super) struct FunctionHeader {
    pub convention: String,
    pub arguments: Vec<Register>,
    pub registers: Option<(u32, u32)>,
    pub features: Option<u32>,
}

/// `(yield, unwind)`, after `requires`.
pub(super) fn features(statement: &mut Statement<'_>) -> Result<u32, AsmError> {
    statement.token("(")?;
    let mut features = 0;
    while !statement.accept(")") {
        if features != 0 {
            statement.token(",")?;
        }
        let location = statement.next_location();
        let name = statement.word("a feature")?;
        let Some((_, bit)) = opcode::FEATURES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = opcode::FEATURES.iter().map(|(name, _)| *name).collect();
            return at(location, format!("expected one of the features {}, found `{name}`", known.join(" ")));
        };
        features |= bit;
    }
    Ok(features)
}

/// The kind of the values of a type.
fn kind(statement: &mut Statement<'_>) -> Result<Kind, AsmError> {
    let location = statement.next_location();
    for (name, kind) in [("i32", Kind::I32), ("i64", Kind::I64), ("f32", Kind::F32), ("f64", Kind::F64)] {
        if statement.accept_word(name) {
            return Ok(kind);
        }
    }
    if statement.peek("!") {
        statement.any_type()?;
        return Ok(Kind::Ref);
    }
    let error = statement.expected("a type: i32, i64, f32, f64, or one such as !vm.buffer");
    Err(AsmError { location, ..error })
}

/// `(%i0: i32, %r0: !vm.buffer) -> (i64) cconv "0ir_I" registers(3, 1) requires(yield) {`
pub(super) fn header(statement: &mut Statement<'_>) -> Result<FunctionHeader, AsmError> {
    let mut convention = Convention::default();
    let mut arguments = Vec::new();
    statement.token("(")?;
    while !statement.accept(")") {
        if !arguments.is_empty() {
            statement.token(",")?;
        }
        arguments.push(argument(statement, &arguments, &mut convention)?);
    }
    statement.token("->")?;
    statement.token("(")?;
    while !statement.accept(")") {
        if !convention.results.is_empty() {
            statement.token(",")?;
        }
        // Results may name a register, too.
        if statement.peek("%") {
            statement.any_reg("a register")?;
            statement.token(":")?;
        }
        convention.results.push(kind(statement)?);
    }
    let mut header = FunctionHeader { convention: convention.to_string(), arguments, registers: None, features: None };
    loop {
        if statement.accept("{") {
            statement.end()?;
            return Ok(header);
        } else if statement.accept_word(Keyword::Cconv.name()) {
            header.convention = statement.text()?;
        } else if statement.accept_word(Keyword::Registers.name()) {
            statement.token("(")?;
            let slots = statement.u32("the number of value registers")?;
            statement.token(",")?;
            let refs = statement.u32("the number of reference registers")?;
            statement.token(")")?;
            header.registers = Some((slots, refs));
        } else if statement.accept_word(Keyword::Requires.name()) {
            header.features = Some(features(statement)?);
        } else {
            return Err(statement.expected("`{`"));
        }
    }
}

/// `%i2:3: i64`: arguments are in the first registers of their bank, pairs at even ones. The reference runtime also
/// accepts arguments that follow each other without a gap.
fn argument(
    statement: &mut Statement<'_>,
    before: &[Register],
    convention: &mut Convention,
) -> Result<Register, AsmError> {
    let location = statement.next_location();
    let register = statement.any_reg("an argument such as %i0: i32")?;
    statement.token(":")?;
    let kind = kind(statement)?;
    convention.args.push(Argument::One(kind));
    let wide = matches!(kind, Kind::I64 | Kind::F64);
    if register.is_ref() != (kind == Kind::Ref) || register.is_move() || (!register.is_ref() && register.pair != wide) {
        return at(location, "expected a register for the type: %i0: i32, %i0:1: i64, %r0: !vm.buffer");
    }
    let same_bank = before.iter().filter(|other| other.is_ref() == register.is_ref());
    let next = same_bank.map(|other| other.index() + u32::from(other.slots)).max().unwrap_or(0);
    let aligned = if wide { next.next_multiple_of(2) } else { next };
    if register.index() != next && register.index() != aligned {
        return at(location, format!("expected the next register, {aligned}, found {}", register.index()));
    }
    Ok(register)
}
