//! Relocations: writes the words of an image that depend on its address.

use super::dynamic::DynamicTable;
use super::error::ElfError;
use super::parse::{Header, array};
use crate::hal::elf_format::{ElfMachine, Relocation, RelocationAarch64, RelocationX8664};

/// Applies all relocations to the image, which is at the address `base`.
pub(super) fn apply(image: &mut [u8], base: u64, dynamic: &DynamicTable, header: &Header) -> Result<(), ElfError> {
    // The distance from addresses of the file to those in memory.
    let bias = base.wrapping_sub(header.origin());
    // A relocation of a damaged file may change the table itself: all are read first, so that none depends on where the
    // image is, and no error shows addresses of the process.
    let mut relocations = Vec::new();
    for table in &dynamic.relocations {
        for start in table.clone().step_by(Relocation::SIZE) {
            if start + Relocation::SIZE > table.end {
                break;
            }
            relocations.push(Relocation::read(&array(image, start as u64, "a relocation")?));
        }
    }
    relocations.into_iter().try_for_each(|relocation| apply_one(image, bias, relocation, dynamic, header))
}

/// The operands of a relocation: the letters of the supplements, with B as the distance between addresses of the file
/// and in memory.
struct Operands {
    bias: u64,
    symbol: u64,
    addend: u64,
    place: u64,
}

/// The word that a relocation writes. The 32-bit words must have the value: zero-extended, sign-extended, or either of
/// the two.
enum Word {
    Bits64(u64),
    Unsigned32(u64),
    Signed32(u64),
    Any32(u64),
}

fn apply_one(
    image: &mut [u8],
    bias: u64,
    relocation: Relocation,
    dynamic: &DynamicTable,
    header: &Header,
) -> Result<(), ElfError> {
    let kind = relocation.info as u32;
    if is_nothing(kind, header.machine) {
        return Ok(());
    }
    let index = relocation.info >> 32;
    let symbol = match index {
        0 => 0,
        index => {
            let symbol = usize::try_from(index).ok().and_then(|index| dynamic.symbols.get(index));
            let symbol = symbol.filter(|symbol| symbol.defined);
            let symbol = symbol.ok_or(ElfError::Entry {
                address: relocation.offset,
                field: "symbol of a relocation",
                value: index,
                expected: "a defined symbol",
            })?;
            bias.wrapping_add(symbol.value)
        }
    };
    let place = bias.wrapping_add(relocation.offset);
    let operands = Operands { bias, symbol, addend: relocation.addend, place };
    let computed = match header.machine {
        ElfMachine::X86_64 => x86_64(RelocationX8664(kind), &operands),
        ElfMachine::ARM_64 => arm_64(RelocationAarch64(kind), &operands),
        _ => None,
    };
    let (word, name) = computed.ok_or_else(|| ElfError::Unsupported(format!("relocation type {kind}")))?;
    let mut write = |bytes: &[u8]| {
        let range = header.range(relocation.offset, bytes.len() as u64, "the place of a relocation")?;
        image[range].copy_from_slice(bytes);
        Ok(())
    };
    let overflow = |_| ElfError::Overflow { address: relocation.offset, kind: name };
    match word {
        Word::Bits64(value) => write(&value.to_le_bytes()),
        Word::Unsigned32(value) => write(&u32::try_from(value).map_err(overflow)?.to_le_bytes()),
        Word::Signed32(value) => write(&i32::try_from(value as i64).map_err(overflow)?.to_le_bytes()),
        Word::Any32(value) => match u32::try_from(value) {
            Ok(value) => write(&value.to_le_bytes()),
            Err(_) => write(&i32::try_from(value as i64).map_err(overflow)?.to_le_bytes()),
        },
    }
}

/// True for relocations that a linker has made void; their other fields mean nothing.
fn is_nothing(kind: u32, machine: ElfMachine) -> bool {
    match machine {
        ElfMachine::X86_64 => RelocationX8664(kind) == RelocationX8664::NONE,
        ElfMachine::ARM_64 => {
            [RelocationAarch64::NONE, RelocationAarch64::WITHDRAWN].contains(&RelocationAarch64(kind))
        }
        _ => false,
    }
}

/// The word that a relocation of a library for x86-64 writes, and the name of its type.
fn x86_64(kind: RelocationX8664, operands: &Operands) -> Option<(Word, &'static str)> {
    let Operands { bias, symbol, addend, place } = *operands;
    let sum = symbol.wrapping_add(addend);
    let word = match kind {
        RelocationX8664::RELATIVE => Word::Bits64(bias.wrapping_add(addend)),
        RelocationX8664::JUMP_SLOT | RelocationX8664::GLOB_DAT | RelocationX8664::COPY => Word::Bits64(symbol),
        RelocationX8664::ABS64 => Word::Bits64(sum),
        RelocationX8664::ABS32 => Word::Unsigned32(sum),
        RelocationX8664::ABS32S => Word::Signed32(sum),
        RelocationX8664::PC32 => Word::Signed32(sum.wrapping_sub(place)),
        _ => return None,
    };
    Some((word, kind.name()?))
}

/// The word that a relocation of a library for 64-bit Arm writes, and the name of its type. Code there holds no
/// addresses, so all of them apply to words of data.
fn arm_64(kind: RelocationAarch64, operands: &Operands) -> Option<(Word, &'static str)> {
    let Operands { bias, symbol, addend, place } = *operands;
    let sum = symbol.wrapping_add(addend);
    let word = match kind {
        RelocationAarch64::RELATIVE => Word::Bits64(bias.wrapping_add(addend)),
        RelocationAarch64::JUMP_SLOT | RelocationAarch64::GLOB_DAT | RelocationAarch64::ABS64 => Word::Bits64(sum),
        RelocationAarch64::ABS32 => Word::Any32(sum),
        RelocationAarch64::PREL64 => Word::Bits64(sum.wrapping_sub(place)),
        RelocationAarch64::PREL32 => Word::Any32(sum.wrapping_sub(place)),
        _ => return None,
    };
    Some((word, kind.name()?))
}
