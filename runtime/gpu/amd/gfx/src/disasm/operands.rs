//! The text of registers and constants.

use std::fmt;

use crate::instruction::Operand;
use crate::isa::{self, Bank, OperandType, RegisterText, Registers};

/// An operand with its type.
pub(super) struct OperandText {
    pub(super) operand: Operand,
    pub(super) ty: OperandType,
}

impl fmt::Display for OperandText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operand {
            Operand::Number(value) if matches!(self.ty, OperandType::Imm16 | OperandType::Unsigned16) => {
                write!(f, "0x{value:x}")
            }
            Operand::Number(value) => write!(f, "{value}"),
            Operand::Literal(value) if self.ty.is_half() => write!(f, "0x{:x}", value & 0xFFFF),
            Operand::Literal(value) => write!(f, "0x{value:x}"),
            Operand::Constant(constant) => match (isa::integer(constant), isa::float(constant)) {
                (Some(integer), _) => write!(f, "{integer}"),
                (_, Some(float)) if self.ty == OperandType::F64 => f.write_str(float.text_f64),
                (_, Some(float)) => f.write_str(float.text),
                _ => match isa::special(constant) {
                    Some(name) => f.write_str(name),
                    None => write!(f, "src_{constant}"),
                },
            },
            register => f.write_str(&registers(register, self.ty.words())),
        }
    }
}

/// `v5`, `s[2:3]`, `vcc_lo`.
pub(super) fn registers(operand: Operand, words: u32) -> String {
    let (bank, number) = match operand {
        Operand::Vector(number) => (Bank::Vector, number),
        Operand::Scalar(number) => (Bank::Scalar, number),
        Operand::Constant(value) | Operand::Literal(value) | Operand::Number(value) => return format!("0x{value:x}"),
    };
    // All numbers that fields can have are of some registers.
    let Some(found) = Registers::find(bank, number) else { return format!("{bank:?}({number})") };
    let (name, first) = (found.name, number - found.first);
    match found.text {
        RegisterText::Numbered if words == 1 => format!("{name}{first}"),
        RegisterText::Numbered => format!("{name}[{first}:{}]", first + words - 1),
        RegisterText::Halves if first == 1 => format!("{name}_hi"),
        RegisterText::Halves if words == 1 => format!("{name}_lo"),
        RegisterText::Halves | RegisterText::Single => name.to_string(),
    }
}
