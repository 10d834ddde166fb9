//! The modifiers of vector instructions: signs and halves of sources, limits and scales of results, and DPP.

use vireo_simt::TrapKind;

use super::decoder::{Decoder, Refused, invalid, is_high};
use crate::instruction::Instruction;
use crate::isa::immediates::{Dpp16Word, OutputModifier};
use crate::isa::operands::DPP16;
use crate::isa::{Encoding, Field, OperandType, Slot};
use crate::machine::{Dpp, Modifiers};

impl Decoder {
    pub(super) fn modifiers(
        &self,
        instruction: &Instruction,
        reads: &[(Slot, OperandType)],
        sources: &[u16; 4],
    ) -> Result<Option<Modifiers>, Refused> {
        let field = |field| instruction.field(field);
        let mut modifiers = Modifiers { sources: *sources, ..Modifiers::NONE };
        let (mut neg, mut abs, mut high) = (0, 0, 0);
        match instruction.encoding {
            Encoding::Vop3 => {
                (neg, abs, high) = (field(Field::Neg), field(Field::Abs), field(Field::OpSel));
                modifiers.result_high = high >> 3 & 1 == 1;
            }
            Encoding::Vop3sd => neg = field(Field::Neg),
            Encoding::Vop3p => {
                (neg, high) = (field(Field::Neg), field(Field::OpSel));
                modifiers.neg_high = field(Field::NegHi);
                modifiers.high_of_high = field(Field::OpSelHi) | field(Field::OpSelHi2) << 2;
            }
            Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc => {
                for (bit, slot) in [Slot::S0, Slot::S1].into_iter().enumerate() {
                    high |= u32::from(is_high(instruction, slot)) << bit;
                }
                modifiers.result_high = is_high(instruction, Slot::D);
                if let (Some(DPP16), Some(word)) = (instruction.dpp(), instruction.extra_word()) {
                    (neg, abs) = (Dpp16Word(word).negated(), Dpp16Word(word).absolute());
                }
            }
            _ => return Ok(None),
        }
        modifiers.clamp = field(Field::Clamp) == 1;
        let output = OutputModifier::of(field(Field::Omod));
        modifiers.output = output.filter(|modifier| *modifier != OutputModifier::Unchanged);
        if let Some(source) = instruction.dpp() {
            let word = instruction.extra_word().unwrap_or(0);
            // Values of 64 bits have two rows, and those that are exchanged are of other lanes anyway.
            let wide = reads.iter().any(|(slot, ty)| *slot == Slot::S0 && ty.words() > 1);
            if wide || !takes_dpp(instruction) {
                return Err(TrapKind::NotImplemented("DPP".into()));
            }
            let control = Dpp16Word(word);
            if source == DPP16 && control.control().is_none() {
                return Err(invalid(format!("the DPP control 0x{:x}", control.control_bits())));
            }
            modifiers.dpp = Some(Box::new(Dpp::new(source, word)));
        }
        // Bits count sources by their names, and handlers by the order in which they read them.
        let packed = instruction.encoding == Encoding::Vop3p;
        for (index, (slot, _)) in reads.iter().enumerate() {
            let number = match slot {
                Slot::S0 => 0,
                Slot::S1 => 1,
                Slot::S2 => 2,
                // The old value of a half result is in the same half.
                Slot::D => {
                    modifiers.high |= u32::from(modifiers.result_high) << index;
                    continue;
                }
                _ => continue,
            };
            modifiers.neg |= (neg >> number & 1) << index;
            modifiers.abs |= (abs >> number & 1) << index;
            modifiers.high |= (high >> number & 1) << index;
        }
        let any = modifiers.neg | modifiers.abs | modifiers.high != 0 || modifiers.result_high || modifiers.clamp;
        Ok((any || modifiers.output.is_some() || modifiers.dpp.is_some() || packed).then_some(modifiers))
    }
}

/// Whether an instruction reads its first source through DPP: those with semantics, and on packed values, but for
/// matrices.
fn takes_dpp(instruction: &Instruction) -> bool {
    let packed =
        |ty: Option<OperandType>| matches!(ty, Some(OperandType::Packed16 | OperandType::Packed8 | OperandType::Mixed));
    !instruction.info().reads.is_empty() || packed(instruction.info().operand(Slot::S0))
}

/// Whether the modifier `clamp` asks for an integer that saturates. Comparisons have it for signals, of which there are
/// none, integers of floats saturate always, and helpers look at it on their own.
pub(super) fn saturates(instruction: &Instruction) -> bool {
    let is_float = |ty| matches!(ty, OperandType::F16 | OperandType::F32 | OperandType::F64);
    let info = instruction.info();
    let integer = !info.operand(Slot::D).is_some_and(is_float) && !info.operand(Slot::S0).is_some_and(is_float);
    integer && !info.reads.is_empty()
}
