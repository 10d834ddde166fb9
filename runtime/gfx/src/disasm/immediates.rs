//! The text of immediates that have parts: waits, delays, messages, DPP and swizzles.

use std::fmt;

use crate::instruction::{DPP16, Instruction};
use crate::isa::{Field, Opcode};

/// What `s_delay_alu` waits for, by its number.
const DELAYS: [&str; 12] = [
    "",
    "VALU_DEP_1",
    "VALU_DEP_2",
    "VALU_DEP_3",
    "VALU_DEP_4",
    "TRANS32_DEP_1",
    "TRANS32_DEP_2",
    "TRANS32_DEP_3",
    "FMA_ACCUM_CYCLE_1",
    "SALU_CYCLE_1",
    "SALU_CYCLE_2",
    "SALU_CYCLE_3",
];
/// How many instructions `s_delay_alu` skips, by its number.
const SKIPS: [&str; 6] = ["", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];
/// The counters of `s_waitcnt_depctr`: lowest bit, width, name.
const HAZARDS: [(u32, u32, &str); 7] = [
    (7, 1, "hold_cnt"),
    (0, 1, "sa_sdst"),
    (12, 4, "va_vdst"),
    (9, 3, "va_sdst"),
    (8, 1, "va_ssrc"),
    (1, 1, "va_vcc"),
    (2, 3, "vm_vsrc"),
];

/// What follows the name of a SOPP instruction.
pub(super) fn sopp(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let value = instruction.field(Field::Simm16);
    match instruction.opcode {
        Opcode::SWaitcnt => waits(value, f),
        Opcode::SDelayAlu => delays(value, f),
        Opcode::SWaitcntDepctr => hazards(value, f),
        Opcode::SClause | Opcode::SSetInstPrefetchDistance | Opcode::SRoundMode => {
            write!(f, " 0x{value:x}")
        }
        Opcode::SSendmsg if value == 3 => f.write_str(" sendmsg(MSG_DEALLOC_VGPRS)"),
        Opcode::SSendmsg => write!(f, " {value}"),
        Opcode::SEndpgm if value == 0 => Ok(()),
        _ if instruction.info().operands.is_empty() && value == 0 => Ok(()),
        _ => write!(f, " {value}"),
    }
}

fn waits(value: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let counters = [("vmcnt", value >> 10 & 63, 63), ("expcnt", value & 7, 7), ("lgkmcnt", value >> 4 & 63, 63)];
    // If it waits for nothing, all are written.
    let nothing = counters.iter().all(|(_, count, most)| count == most);
    for (name, count, most) in counters {
        if count != most || nothing {
            write!(f, " {name}({count})")?;
        }
    }
    Ok(())
}

fn delays(value: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (first, skip, second) = (value & 15, value >> 4 & 7, value >> 7 & 15);
    let known = |table: &[&'static str], index: u32| table.get(index as usize).copied();
    let parts = (known(&DELAYS, first), known(&SKIPS, skip), known(&DELAYS, second));
    let (Some(first), Some(skip), Some(second)) = parts else { return write!(f, " {value}") };
    let parts = [("instid0", first), ("instskip", skip), ("instid1", second)];
    let parts: Vec<String> =
        parts.iter().filter(|(_, name)| !name.is_empty()).map(|(key, name)| format!("{key}({name})")).collect();
    if parts.is_empty() || value >> 11 != 0 { write!(f, " {value}") } else { write!(f, " {}", parts.join(" | ")) }
}

fn hazards(value: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // Two bits belong to no counter.
    if value & 0x60 != 0 {
        return write!(f, " 0x{value:x}");
    }
    let counters = HAZARDS.map(|(bit, width, name)| (value >> bit & ((1 << width) - 1), (1 << width) - 1, name));
    let nothing = counters.iter().all(|(count, most, _)| count == most);
    for (count, most, name) in counters {
        if count != most || nothing {
            write!(f, " depctr_{name}({count})")?;
        }
    }
    Ok(())
}

/// What follows the operands if a word of DPP does.
pub(super) fn dpp(instruction: &Instruction, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (Some(source), Some(word)) = (instruction.dpp(), instruction.extra_word()) else { return Ok(()) };
    if source != DPP16 {
        let lanes: Vec<String> = (0..8).map(|lane| (word >> (8 + 3 * lane) & 7).to_string()).collect();
        write!(f, " dpp8:[{}]", lanes.join(","))?;
        return if source == 234 { f.write_str(" fi:1") } else { Ok(()) };
    }
    let control = word >> 8 & 0x1FF;
    let low = control & 15;
    match control {
        0..=0xFF => {
            let lanes: Vec<String> = (0..4).map(|lane| (control >> (2 * lane) & 3).to_string()).collect();
            write!(f, " quad_perm:[{}]", lanes.join(","))?;
        }
        0x101..=0x10F => write!(f, " row_shl:{low}")?,
        0x111..=0x11F => write!(f, " row_shr:{low}")?,
        0x121..=0x12F => write!(f, " row_ror:{low}")?,
        0x140 => f.write_str(" row_mirror")?,
        0x141 => f.write_str(" row_half_mirror")?,
        0x150..=0x15F => write!(f, " row_share:{low}")?,
        0x160..=0x16F => write!(f, " row_xmask:{low}")?,
        _ => write!(f, " dpp_ctrl:0x{control:x}")?,
    }
    write!(f, " row_mask:0x{:x} bank_mask:0x{:x}", word >> 28, word >> 24 & 15)?;
    if word >> 19 & 1 == 1 {
        f.write_str(" bound_ctrl:1")?;
    }
    if word >> 18 & 1 == 1 { f.write_str(" fi:1") } else { Ok(()) }
}

/// The offset of `ds_swizzle_b32`.
pub(super) fn swizzle(offset: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if offset == 0 {
        return Ok(());
    }
    if offset >> 8 == 0x80 {
        let lanes: Vec<String> = (0..4).map(|lane| (offset >> (2 * lane) & 3).to_string()).collect();
        return write!(f, " offset:swizzle(QUAD_PERM,{})", lanes.join(","));
    }
    if offset >> 15 != 0 {
        return write!(f, " offset:0x{offset:x}");
    }
    let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
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
