//! The text of instructions, as LLVM's disassembler writes it.
//!
//! Registers of 16 bits that are the upper half of a 32-bit one are written as `v5.h` where the encoding has no
//! modifier for it; LLVM 19 refuses these.

mod immediates;
mod modifiers;
mod operands;

use std::fmt;

use crate::instruction::{Instruction, Operand};
use crate::isa::operands::NULL;
use crate::isa::{Encoding, Field, OperandType, Slot};
use modifiers::Modifiers;
use operands::{OperandText, registers};

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.encoding {
            Encoding::Sopp => {
                f.write_str(self.info().name)?;
                immediates::sopp(self, f)
            }
            Encoding::Smem => smem(self, f),
            Encoding::Ds => ds(self, f),
            Encoding::Mubuf => mubuf(self, f),
            Encoding::Global | Encoding::Scratch | Encoding::Flat => flat(self, f),
            Encoding::Vopd => vopd(self, f),
            Encoding::Sop1 | Encoding::Sopk if immediates::is_special(self) => immediates::special(self, f),
            _ => vector_or_scalar(self, f),
        }
    }
}

/// The name with the suffix of its encoding.
pub fn mnemonic(instruction: &Instruction) -> String {
    let info = instruction.info();
    let has = |encoding| info.number(encoding).is_some();
    let dpp = if instruction.dpp().is_some() { "_dpp" } else { "" };
    let suffix = match instruction.encoding {
        _ if info.operands.is_empty() => dpp,
        Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc => match dpp {
            "" if has(Encoding::Vop3) || has(Encoding::Vop3sd) => "_e32",
            dpp => dpp,
        },
        Encoding::Vop3 | Encoding::Vop3sd => {
            let short = [Encoding::Vop1, Encoding::Vop2, Encoding::Vopc].into_iter().any(has);
            match (short, dpp) {
                (_, "_dpp") => "_e64_dpp",
                (true, _) => "_e64",
                _ => "",
            }
        }
        _ => dpp,
    };
    format!("{}{suffix}", info.name)
}

/// Operands separated by commas after the name.
struct List<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    separator: &'static str,
}

impl<'a, 'b> List<'a, 'b> {
    fn new(f: &'a mut fmt::Formatter<'b>, name: &str) -> Result<Self, fmt::Error> {
        f.write_str(name)?;
        Ok(List { f, separator: " " })
    }

    fn push(&mut self, text: impl fmt::Display) -> fmt::Result {
        write!(self.f, "{}{text}", self.separator)?;
        self.separator = ", ";
        Ok(())
    }
}

fn vector_or_scalar(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut list = List::new(f, &mnemonic(instruction))?;
    let modifiers = Modifiers::of(instruction);
    for (slot, ty) in instruction.info().operands {
        let text = match instruction.operand(*slot) {
            // A mask without a field is VCC.
            None => "vcc_lo".to_string(),
            Some(operand) => modifiers.around(instruction, *slot, OperandText { operand, ty: *ty }),
        };
        list.push(text)?;
    }
    modifiers.after(instruction, f)
}

fn vopd(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let half = |x: &Instruction, f: &mut fmt::Formatter<'_>| {
        let mut list = List::new(f, &format!("v_dual_{}", &x.info().name[2..]))?;
        for (slot, ty) in x.info().operands {
            if let Some(operand) = x.operand(*slot) {
                list.push(OperandText { operand, ty: *ty })?;
            }
        }
        Ok(())
    };
    half(instruction, f)?;
    f.write_str(" :: ")?;
    instruction.y().map_or(Ok(()), |y| half(&y, f))
}

fn flags(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (field, name) in [(Field::Glc, " glc"), (Field::Slc, " slc"), (Field::Dlc, " dlc")] {
        if instruction.field(field) == 1 {
            f.write_str(name)?;
        }
    }
    Ok(())
}

fn smem(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if instruction.info().operands.is_empty() {
        return f.write_str(instruction.info().name);
    }
    let mut list = List::new(f, instruction.info().name)?;
    let words = instruction.info().operand(Slot::D).map_or(1, OperandType::words);
    list.push(registers(Operand::Scalar(instruction.field(Field::Sdata)), words))?;
    let words = instruction.info().operand(Slot::Base).map_or(2, OperandType::words);
    list.push(registers(instruction.operand_at(Field::Sbase, None), words))?;
    let offset = instruction.signed_field(Field::Offset);
    let hex = if offset < 0 { format!("-0x{:x}", offset.unsigned_abs()) } else { format!("0x{offset:x}") };
    match (instruction.field(Field::Soffset), offset) {
        (NULL, 0) => list.push("null")?,
        (NULL, _) => list.push(hex)?,
        (register, 0) => list.push(registers(Operand::Scalar(register), 1))?,
        (register, _) => list.push(format!("{} offset:{hex}", registers(Operand::Scalar(register), 1)))?,
    }
    flags(instruction, f)
}

fn ds(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let info = instruction.info();
    let mut list = List::new(f, info.name)?;
    for (slot, ty) in info.operands {
        if let Some(operand) = instruction.operand(*slot) {
            list.push(registers(operand, ty.words()))?;
        }
    }
    let offsets = [instruction.field(Field::Offset0), instruction.field(Field::Offset1)];
    if info.name.contains("2addr") {
        for (index, offset) in offsets.into_iter().enumerate().filter(|(_, offset)| *offset != 0) {
            write!(f, " offset{index}:{offset}")?;
        }
    } else if info.name == "ds_swizzle_b32" {
        immediates::swizzle(offsets[0] | offsets[1] << 8, f)?;
    } else if offsets != [0, 0] {
        write!(f, " offset:{}", offsets[0] | offsets[1] << 8)?;
    }
    if instruction.field(Field::Gds) == 1 { f.write_str(" gds") } else { Ok(()) }
}

fn mubuf(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let info = instruction.info();
    if info.operands.is_empty() {
        return f.write_str(info.name);
    }
    let mut list = List::new(f, info.name)?;
    // A result is in the registers of the data.
    let words = |slot: Slot| info.operand(slot).map_or(1, OperandType::words);
    let words = words(Slot::D).max(words(Slot::Data));
    list.push(registers(Operand::Vector(instruction.field(Field::Vdata)), words))?;
    let (offen, idxen) = (instruction.field(Field::Offen), instruction.field(Field::Idxen));
    match offen + idxen {
        0 => list.push("off")?,
        words => list.push(registers(Operand::Vector(instruction.field(Field::Vaddr)), words))?,
    }
    list.push(registers(instruction.operand_at(Field::Srsrc, None), 4))?;
    let operand = instruction.operand_at(Field::Soffset, None);
    list.push(OperandText { operand, ty: OperandType::B32 })?;
    for (field, name) in [(idxen, " idxen"), (offen, " offen")] {
        if field == 1 {
            f.write_str(name)?;
        }
    }
    if instruction.field(Field::Offset) != 0 {
        write!(f, " offset:{}", instruction.field(Field::Offset))?;
    }
    flags(instruction, f)?;
    if instruction.field(Field::Tfe) == 1 { f.write_str(" tfe") } else { Ok(()) }
}

fn flat(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let info = instruction.info();
    let mut list = List::new(f, info.name)?;
    let scalar = instruction.field(Field::Saddr);
    let scratch = instruction.encoding == Encoding::Scratch;
    for (slot, ty) in info.operands {
        match slot {
            Slot::D if info.returns_by_glc && instruction.field(Field::Glc) == 0 => {}
            Slot::Addr if scratch && instruction.field(Field::Sve) == 0 => list.push("off")?,
            Slot::Addr if *ty == OperandType::B64 => {
                list.push(registers(Operand::Vector(instruction.field(Field::Addr)), 2))?;
            }
            Slot::Addr => {
                let words = if scratch || scalar != NULL { 1 } else { 2 };
                list.push(registers(Operand::Vector(instruction.field(Field::Addr)), words))?;
            }
            Slot::Saddr if scalar == NULL => list.push("off")?,
            Slot::Saddr => list.push(registers(Operand::Scalar(scalar), if scratch { 1 } else { 2 }))?,
            slot => {
                if let Some(operand) = instruction.operand(*slot) {
                    list.push(registers(operand, ty.words()))?;
                }
            }
        }
    }
    let offset = instruction.offset();
    if offset != 0 {
        write!(f, " offset:{offset}")?;
    }
    flags(instruction, f)
}
