//! The text of immediates that have parts: waits, delays, messages, DPP and swizzles.

use std::fmt;

use super::operands::OperandText;
use crate::instruction::{Instruction, Operand};
use crate::isa::immediates::{
    DelayAlu, Dpp8Word, Dpp16Word, DppControl, HardwareRegister, QuadPerm, SendMessage, Swizzle, SwizzleBitmask,
    Waitcnt, WaitcntDepctr,
};
use crate::isa::operands::{DPP8_FETCH_INACTIVE, DPP16};
use crate::isa::{BitField, Field, Opcode, Slot};

/// Writes the operands of a SOPP instruction.
pub(super) fn sopp(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let value = instruction.field(Field::Simm16);
    match instruction.opcode {
        Opcode::SWaitcnt => counters(Waitcnt::FIELDS, value, "", f),
        Opcode::SDelayAlu => delays(DelayAlu(value), f),
        Opcode::SWaitcntDepctr if value & WaitcntDepctr::RESERVED != 0 => write!(f, " 0x{value:x}"),
        Opcode::SWaitcntDepctr => counters(WaitcntDepctr::FIELDS, value, "depctr_", f),
        Opcode::SClause
        | Opcode::SSetInstPrefetchDistance
        | Opcode::SRoundMode
        | Opcode::SWaitEvent
        | Opcode::STtracedataImm => {
            write!(f, " 0x{value:x}")
        }
        Opcode::SSendmsg => match SendMessage(value).id() {
            Some(message) => write!(f, " sendmsg({})", message.text()),
            None => write!(f, " {value}"),
        },
        Opcode::SEndpgm if value == 0 => Ok(()),
        _ if instruction.info().operands.is_empty() && value == 0 => Ok(()),
        _ => write!(f, " {value}"),
    }
}

/// Whether an operand of an instruction has a text of its own: registers of the wave, messages that are answered, or
/// where a call goes.
pub(super) fn is_special(instruction: &Instruction) -> bool {
    matches!(
        instruction.opcode,
        Opcode::SGetregB32
            | Opcode::SSetregB32
            | Opcode::SSetregImm32B32
            | Opcode::SCallB64
            | Opcode::SVersion
            | Opcode::SSendmsgRtnB32
            | Opcode::SSendmsgRtnB64
    )
}

/// The name and operands of such an instruction.
pub(super) fn special(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let texts = instruction.info().operands.iter().map(|(slot, ty)| match (slot, instruction.operand(*slot)) {
        (Slot::Imm, Some(Operand::Number(value)))
            if matches!(instruction.opcode, Opcode::SCallB64 | Opcode::SVersion) =>
        {
            value.to_string()
        }
        (Slot::Imm, Some(Operand::Number(value))) => wave_register(HardwareRegister(value)),
        (Slot::S0, _) => {
            let number = instruction.field(Field::Ssrc0);
            match SendMessage(number).id() {
                Some(message) => format!("sendmsg({})", message.text()),
                None => format!("sendmsg({number}, 0, 0)"),
            }
        }
        (_, Some(Operand::Literal(value))) if (-16..=64).contains(&(value as i32)) => (value as i32).to_string(),
        (_, Some(operand)) => OperandText { operand, ty: *ty }.to_string(),
        (_, None) => String::new(),
    });
    write!(f, "{} {}", instruction.info().name, texts.collect::<Vec<_>>().join(", "))
}

fn wave_register(register: HardwareRegister) -> String {
    let name = match register.id() {
        Some(register) => register.text().to_string(),
        None => HardwareRegister::FIELDS[0].of(register.0).to_string(),
    };
    match (register.offset(), register.size()) {
        (0, 31) => format!("hwreg({name})"),
        (offset, size) => format!("hwreg({name}, {offset}, {})", size + 1),
    }
}

/// Counters of all ones wait for nothing, and are not written unless all of them are.
fn counters(fields: &[BitField], value: u32, prefix: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let nothing = fields.iter().all(|field| field.of(value) == field.max());
    for field in fields.iter().filter(|field| nothing || field.of(value) != field.max()) {
        write!(f, " {prefix}{}({})", field.name, field.of(value))?;
    }
    Ok(())
}

fn delays(word: DelayAlu, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let value = word.0;
    let (Some(first), Some(skip), Some(second)) = (word.instid0(), word.instskip(), word.instid1()) else {
        return write!(f, " {value}");
    };
    let texts = [first.text(), skip.text(), second.text()];
    let parts = DelayAlu::FIELDS.iter().zip(texts).filter(|(_, text)| !text.is_empty());
    let parts: Vec<String> = parts.map(|(field, text)| format!("{}({text})", field.name)).collect();
    let plain = parts.is_empty() || value & DelayAlu::RESERVED != 0;
    if plain { write!(f, " {value}") } else { write!(f, " {}", parts.join(" | ")) }
}

/// `0,1,2,3`
fn list(values: impl Iterator<Item = u32>) -> String {
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    values.join(",")
}

/// Writes the modifiers of a word of DPP, which come after the operands.
pub(super) fn dpp(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (Some(source), Some(word)) = (instruction.dpp(), instruction.extra_word()) else { return Ok(()) };
    if source != DPP16 {
        let word = Dpp8Word(word);
        write!(f, " dpp8:[{}]", list((0..8).map(|lane| word.lane(lane))))?;
        return if source == DPP8_FETCH_INACTIVE { f.write_str(" fi:1") } else { Ok(()) };
    }
    let word = Dpp16Word(word);
    match word.control() {
        Some(control) => {
            write!(f, " {}", control.text())?;
            match control {
                DppControl::QuadPerm(lanes) => {
                    write!(f, ":[{}]", list((0..4).map(|lane| QuadPerm(lanes).lane(lane))))?;
                }
                DppControl::RowShl(amount)
                | DppControl::RowShr(amount)
                | DppControl::RowRor(amount)
                | DppControl::RowShare(amount)
                | DppControl::RowXmask(amount) => write!(f, ":{amount}")?,
                DppControl::RowMirror | DppControl::RowHalfMirror => {}
            }
        }
        None => write!(f, " dpp_ctrl:0x{:x}", word.control_bits())?,
    }
    write!(f, " row_mask:0x{:x} bank_mask:0x{:x}", word.row_mask(), word.bank_mask())?;
    if word.bound_ctrl() {
        f.write_str(" bound_ctrl:1")?;
    }
    if word.fetch_inactive() { f.write_str(" fi:1") } else { Ok(()) }
}

/// The offset of `ds_swizzle_b32`.
pub(super) fn swizzle(offset: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if offset == 0 {
        return Ok(());
    }
    let bits = match Swizzle::of(offset) {
        Some(Swizzle::QuadPerm(lanes)) => {
            let lanes = list((0..4).map(|lane| QuadPerm(lanes).lane(lane)));
            return write!(f, " offset:swizzle(QUAD_PERM,{lanes})");
        }
        Some(Swizzle::Bitmask(bits)) => SwizzleBitmask(bits),
        None => return write!(f, " offset:0x{offset:x}"),
    };
    let (and, or, xor) = (bits.and(), bits.or(), bits.xor());
    let group = 32 - and;
    f.write_str(" offset:swizzle(")?;
    if and == 31 && or == 0 && xor.count_ones() == 1 {
        write!(f, "SWAP,{xor})")
    } else if and == 31 && or == 0 && xor != 0 && (xor + 1).is_power_of_two() {
        write!(f, "REVERSE,{})", xor + 1)
    } else if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        write!(f, "BROADCAST,{group},{or})")
    } else {
        let (zeros, ones) = (or ^ xor, (and | or) ^ xor);
        let letter = |bit: u32| match (zeros >> bit & 1, ones >> bit & 1) {
            (0, 0) => '0',
            (1, 1) => '1',
            (0, _) => 'p',
            _ => 'i',
        };
        let letters: String = (0..5).rev().map(letter).collect();
        write!(f, "BITMASK_PERM,\"{letters}\")")
    }
}
