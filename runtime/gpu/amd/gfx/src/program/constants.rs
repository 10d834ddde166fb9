//! Sources as indices: registers, and constants that a program collects.

use vireo_simt::{Row, TrapKind};

use super::decoder::{Decoder, Refused, invalid};
use crate::instruction::Operand;
use crate::interp::control;
use crate::isa::limits::{PRIVATE_BASE, SHARED_BASE};
use crate::isa::operands::{
    NULL, SCALAR_REGISTERS, SRC_EXECZ, SRC_PRIVATE_BASE, SRC_PRIVATE_LIMIT, SRC_SCC, SRC_SHARED_BASE, SRC_SHARED_LIMIT,
    SRC_VCCZ,
};
use crate::isa::{self, OperandType};
use crate::machine::{FIRST_CONSTANT, SCALAR, STATES};

/// How many words of constants a program may have: indices have 14 bits, and registers precede the constants.
const MOST_CONSTANTS: usize = 0x3000;

/// The low and high word of a constant or literal as a value of `ty`; the second is zero if there is none.
fn value(operand: Operand, ty: OperandType) -> Option<(u32, u32)> {
    let half = matches!(ty, OperandType::B16 | OperandType::F16 | OperandType::Packed16);
    let wide = ty.words() == 2;
    Some(match operand {
        Operand::Literal(literal) => match ty {
            OperandType::F64 => (0, literal),
            OperandType::I64 => (literal, (literal as i32 >> 31) as u32),
            _ => (literal, 0),
        },
        Operand::Constant(SRC_SHARED_BASE) => aperture(SHARED_BASE, wide),
        Operand::Constant(SRC_SHARED_LIMIT) => aperture(SHARED_BASE | u64::from(u32::MAX), wide),
        Operand::Constant(SRC_PRIVATE_BASE) => aperture(PRIVATE_BASE, wide),
        Operand::Constant(SRC_PRIVATE_LIMIT) => aperture(PRIVATE_BASE | u64::from(u32::MAX), wide),
        Operand::Constant(number) => {
            if let Some(integer) = isa::integer(number) {
                return Some((integer as u32, if wide { (integer >> 31) as u32 } else { 0 }));
            }
            let float = isa::float(number)?;
            match ty {
                _ if half => (u32::from(float.f16), 0),
                _ if wide => (float.f64 as u32, (float.f64 >> 32) as u32),
                _ => (float.f32, 0),
            }
        }
        _ => return None,
    })
}

/// An address of 64 bits as a source. Where that has 32 bits only, it is the low word, which is why compilers always
/// read both.
fn aperture(address: u64, wide: bool) -> (u32, u32) {
    (address as u32, if wide { (address >> 32) as u32 } else { 0 })
}

impl Decoder {
    /// The index among the scalars of a state of the wave that an instruction reads as a source, and an instruction
    /// before it that puts it there.
    fn state(&mut self, operand: Operand) -> Option<u16> {
        let Operand::Constant(number) = operand else { return None };
        let which = [SRC_SCC, SRC_VCCZ, SRC_EXECZ].iter().position(|other| *other == number)? as u16;
        let inst = self.push(control::state, u32::from(which));
        inst.result = STATES + 2 * which;
        Some(STATES + 2 * which)
    }

    /// The index of a constant among the scalars.
    pub(super) fn constant(&mut self, low: u32, high: u32) -> Result<u16, Refused> {
        if let Some(known) = self.constants.get(&(low, high)) {
            return Ok(*known);
        }
        self.check_room()?;
        let constants = &mut self.program.scalar_constants;
        constants.extend([low, high]);
        let index = FIRST_CONSTANT + (constants.len() - 2) as u16;
        self.constants.insert((low, high), index);
        Ok(index)
    }

    /// The index of a source among the scalars.
    pub(super) fn scalar_source(&mut self, operand: Operand, ty: OperandType) -> Result<u16, Refused> {
        match operand {
            Operand::Scalar(NULL) if ty.words() <= 2 => self.constant(0, 0),
            Operand::Scalar(NULL) => Err(invalid("null in place of several registers")),
            Operand::Scalar(number) if number + ty.words() <= SCALAR_REGISTERS => Ok(number as u16),
            Operand::Scalar(_) => Err(invalid("a scalar register beyond the last one")),
            Operand::Vector(_) => Err(invalid("a vector register where a scalar is expected")),
            other => {
                if let Some(index) = self.state(other) {
                    return Ok(index);
                }
                let (low, high) = value(other, ty).ok_or_else(|| special(other))?;
                self.constant(low, high)
            }
        }
    }

    /// The index of a vector register, if the kernel has it and those after it.
    pub(super) fn vector(&self, first: u32, words: u32) -> Result<u16, Refused> {
        if first + words <= self.program.vectors {
            return Ok(first as u16);
        }
        Err(invalid(format!("the kernel has no v{}", first + words - 1)))
    }

    /// The index of a source among the rows, or of a scalar.
    pub(super) fn vector_source(&mut self, operand: Operand, ty: OperandType) -> Result<u16, Refused> {
        match operand {
            Operand::Vector(first) => self.vector(first, ty.words()),
            Operand::Scalar(_) => Ok(SCALAR | self.scalar_source(operand, ty)?),
            other => {
                if let Some(index) = self.state(other) {
                    return Ok(SCALAR | index);
                }
                let (low, high) = value(other, ty).ok_or_else(|| special(other))?;
                self.check_room()?;
                let first = self.program.vectors + 2;
                let rows = &mut self.program.row_constants;
                // Matrices read a constant as all their registers.
                let words = ty.words().max(2);
                if words > 2 {
                    rows.extend((0..words).map(|_| Row::splat(low)));
                    return Ok((first + rows.len() as u32 - words) as u16);
                }
                Ok(*self.rows.entry((low, high)).or_insert_with(|| {
                    rows.extend([Row::splat(low), Row::splat(high)]);
                    (first + rows.len() as u32 - 2) as u16
                }))
            }
        }
    }

    fn check_room(&self) -> Result<(), Refused> {
        let (scalars, rows) = (self.program.scalar_constants.len(), self.program.row_constants.len());
        if scalars.max(rows) < MOST_CONSTANTS {
            return Ok(());
        }
        Err(TrapKind::NotImplemented(format!("more than {MOST_CONSTANTS} words of constants in a kernel").into()))
    }
}

fn special(operand: Operand) -> Refused {
    match operand {
        Operand::Constant(number) => match isa::special(number) {
            Some(name) => TrapKind::NotImplemented(format!("the source {name}").into()),
            None => TrapKind::InvalidOperand(format!("the source {number}").into()),
        },
        _ => invalid("a source is not a register or constant"),
    }
}
