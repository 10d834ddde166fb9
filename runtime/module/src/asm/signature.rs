//! Signatures of functions, and the clauses behind them.

use super::module::at;
use super::operands::Register;
use super::{AsmError, Statement};
use crate::bytecode::opcode;

/// What stands in front of the body of a function.
pub(super) struct Header {
    pub convention: String,
    pub arguments: Vec<Register>,
    pub registers: Option<(u32, u32)>,
    pub features: Option<u32>,
}

/// `(yield, unwind)`, behind `requires`.
pub(super) fn features(statement: &mut Statement<'_>) -> Result<u32, AsmError> {
    statement.token("(")?;
    let mut features = 0;
    while !statement.accept(")") {
        if features != 0 {
            statement.token(",")?;
        }
        let place = statement.next_place();
        let name = statement.word("a feature")?;
        let Some((_, bit)) = opcode::FEATURES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = opcode::FEATURES.iter().map(|(name, _)| *name).collect();
            return at(place, format!("expected one of the features {}, found `{name}`", known.join(" ")));
        };
        features |= bit;
    }
    Ok(features)
}

/// The letter of a convention for a type.
fn letter(statement: &mut Statement<'_>) -> Result<char, AsmError> {
    let place = statement.next_place();
    for (name, letter) in [("i32", 'i'), ("i64", 'I'), ("f32", 'f'), ("f64", 'F')] {
        if statement.accept_word(name) {
            return Ok(letter);
        }
    }
    if statement.peek("!") {
        statement.any_type()?;
        return Ok('r');
    }
    let error = statement.expected("a type: i32, i64, f32, f64, or one such as !vm.buffer");
    Err(AsmError { place, ..error })
}

/// `(%i0: i32, %r0: !vm.buffer) -> (i64) cconv "0ir_I" registers(3, 1) requires(yield) {`
pub(super) fn header(statement: &mut Statement<'_>) -> Result<Header, AsmError> {
    let mut convention = String::from("0");
    let mut arguments = Vec::new();
    statement.token("(")?;
    while !statement.accept(")") {
        if !arguments.is_empty() {
            statement.token(",")?;
        }
        arguments.push(argument(statement, &arguments, &mut convention)?);
    }
    if arguments.is_empty() {
        convention.push('v');
    }
    convention.push('_');
    statement.token("->")?;
    statement.token("(")?;
    let results = convention.len();
    while !statement.accept(")") {
        if convention.len() > results {
            statement.token(",")?;
        }
        // Results may name a register, too.
        if statement.peek("%") {
            statement.any_reg("a register")?;
            statement.token(":")?;
        }
        convention.push(letter(statement)?);
    }
    if convention.len() == results {
        convention.push('v');
    }
    let mut header = Header { convention, arguments, registers: None, features: None };
    loop {
        if statement.accept("{") {
            statement.end()?;
            return Ok(header);
        } else if statement.accept_word("cconv") {
            header.convention = statement.text()?;
        } else if statement.accept_word("registers") {
            statement.token("(")?;
            let slots = statement.u32("the number of value registers")?;
            statement.token(",")?;
            let refs = statement.u32("the number of reference registers")?;
            statement.token(")")?;
            header.registers = Some((slots, refs));
        } else if statement.accept_word("requires") {
            header.features = Some(features(statement)?);
        } else {
            return Err(statement.expected("`{`"));
        }
    }
}

/// `%i2:3: i64`: arguments stand in the first registers of their bank, pairs at even ones. Stock IREE knows arguments that follow each
/// other without a gap, too.
fn argument(statement: &mut Statement<'_>, before: &[Register], convention: &mut String) -> Result<Register, AsmError> {
    let place = statement.next_place();
    let register = statement.any_reg("an argument such as %i0: i32")?;
    statement.token(":")?;
    let letter = letter(statement)?;
    convention.push(letter);
    let wide = matches!(letter, 'I' | 'F');
    if register.is_ref() != (letter == 'r') || register.is_move() || (!register.is_ref() && register.pair != wide) {
        return at(place, "expected a register for the type: %i0: i32, %i0:1: i64, %r0: !vm.buffer");
    }
    let same_bank = before.iter().filter(|other| other.is_ref() == register.is_ref());
    let next = same_bank.map(|other| other.index() + u32::from(other.slots)).max().unwrap_or(0);
    let aligned = if wide { next.next_multiple_of(2) } else { next };
    if register.index() != next && register.index() != aligned {
        return at(place, format!("expected the next register, {aligned}, found {}", register.index()));
    }
    Ok(register)
}
