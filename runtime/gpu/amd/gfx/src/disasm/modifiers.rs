//! The text of modifiers of sources and results.

use std::fmt;

use super::immediates;
use super::operands::OperandText;
use crate::instruction::{Instruction, Operand};
use crate::isa::immediates::{Dpp16Word, OutputModifier};
use crate::isa::operands::{DPP16, HIGH_HALF};
use crate::isa::{Encoding, Field, Opcode, OperandType, Slot};

/// Modifiers of sources and results.
pub(super) struct Modifiers {
    neg: u32,
    abs: u32,
}

/// The number of a source.
fn source_number(slot: Slot) -> Option<u32> {
    match slot {
        Slot::S0 => Some(0),
        Slot::S1 => Some(1),
        Slot::S2 => Some(2),
        _ => None,
    }
}

impl Modifiers {
    pub(super) fn of(instruction: &Instruction) -> Self {
        let field = |field| instruction.field(field);
        match (instruction.encoding, instruction.dpp()) {
            (Encoding::Vop3 | Encoding::Vop3sd, _) => Modifiers { neg: field(Field::Neg), abs: field(Field::Abs) },
            (Encoding::Vop3p, _) if is_mixed(instruction) => {
                Modifiers { neg: field(Field::Neg), abs: field(Field::NegHi) }
            }
            (Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc, Some(DPP16)) => {
                let word = Dpp16Word(instruction.extra_word().unwrap_or(0));
                Modifiers { neg: word.negated(), abs: word.absolute() }
            }
            _ => Modifiers { neg: 0, abs: 0 },
        }
    }

    /// The operand with its modifiers.
    pub(super) fn around(&self, instruction: &Instruction, slot: Slot, text: OperandText) -> String {
        let half = instruction.has_half_bit(slot);
        let plain = match text.operand {
            Operand::Vector(number @ HIGH_HALF..) if half => format!("v{}.h", number - HIGH_HALF),
            // Of this one LLVM 19 writes the lower half, too.
            Operand::Vector(number) if half && instruction.opcode == Opcode::VMovB16 => format!("v{number}.l"),
            _ => text.to_string(),
        };
        let bit = |bits: u32| source_number(slot).is_some_and(|number| bits >> number & 1 == 1);
        let constant = matches!(text.operand, Operand::Constant(_) | Operand::Literal(_));
        match (bit(self.neg), bit(self.abs)) {
            (false, false) => plain,
            (true, false) if constant => format!("neg({plain})"),
            (true, false) => format!("-{plain}"),
            (false, true) => format!("|{plain}|"),
            (true, true) => format!("-|{plain}|"),
        }
    }

    /// Writes the modifiers after the operands.
    pub(super) fn after(&self, instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = |field| instruction.field(field);
        let info = instruction.info();
        let sources = info.operands.iter().filter(|(slot, _)| source_number(*slot).is_some()).count() as u32;
        let list = |f: &mut fmt::Formatter<'_>, name: &str, bits: u32, count: u32| {
            let bits: Vec<String> = (0..count).map(|bit| (bits >> bit & 1).to_string()).collect();
            write!(f, " {name}:[{}]", bits.join(","))
        };
        match instruction.encoding {
            Encoding::Vop3 if field(Field::OpSel) != 0 => {
                let bits = field(Field::OpSel);
                // Lanes are exchanged with two flags, others name the halves of sources, then of the result.
                if info.name.starts_with("v_permlane") {
                    list(f, "op_sel", bits, 2)?;
                } else {
                    let result = (bits >> 3 & 1) << sources;
                    list(f, "op_sel", bits & ((1 << sources) - 1) | result, sources + 1)?;
                }
            }
            Encoding::Vop3p => self.after_packed(instruction, sources, f, &list)?,
            _ => {}
        }
        if field(Field::Clamp) == 1 {
            f.write_str(" clamp")?;
        }
        if let Some(modifier) = OutputModifier::of(field(Field::Omod)).filter(|modifier| !modifier.text().is_empty()) {
            write!(f, " {}", modifier.text())?;
        }
        immediates::dpp(instruction, f)
    }

    fn after_packed(
        &self,
        instruction: &Instruction,
        sources: u32,
        f: &mut fmt::Formatter<'_>,
        list: &impl Fn(&mut fmt::Formatter<'_>, &str, u32, u32) -> fmt::Result,
    ) -> fmt::Result {
        let field = |field| instruction.field(field);
        let all = (1 << sources) - 1;
        let high = (field(Field::OpSelHi) | field(Field::OpSelHi2) << 2) & all;
        let mixed = is_mixed(instruction);
        if field(Field::OpSel) & all != 0 {
            list(f, "op_sel", field(Field::OpSel), sources)?;
        }
        if high != if mixed { 0 } else { all } {
            list(f, "op_sel_hi", high, sources)?;
        }
        if !mixed && field(Field::Neg) & all != 0 {
            list(f, "neg_lo", field(Field::Neg), sources)?;
        }
        if !mixed && field(Field::NegHi) & all != 0 {
            list(f, "neg_hi", field(Field::NegHi), sources)?;
        }
        Ok(())
    }
}

fn is_mixed(instruction: &Instruction) -> bool {
    instruction.info().operand(Slot::S0) == Some(OperandType::Mixed)
}
