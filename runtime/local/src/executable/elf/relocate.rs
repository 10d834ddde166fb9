//! Relocations: writes the words of an image that depend on its address.

use super::dynamic::DynamicTable;
use super::error::ElfError;
use super::parse::{Header, array};
use crate::hal::elf_format::{Relocation, RelocationX8664};

/// Applies all relocations to the image, which is at the address `base`.
pub(super) fn apply(image: &mut [u8], base: u64, dynamic: &DynamicTable, header: &Header) -> Result<(), ElfError> {
    // The distance from addresses of the file to those in memory.
    let bias = base.wrapping_sub(header.origin());
    for table in &dynamic.relocations {
        // A relocation may change the table itself, so each is read just before it is applied.
        for start in table.clone().step_by(Relocation::SIZE) {
            if start + Relocation::SIZE > table.end {
                break;
            }
            let relocation = Relocation::read(&array(image, start as u64, "a relocation")?);
            apply_one(image, bias, relocation, dynamic, header)?;
        }
    }
    Ok(())
}

fn apply_one(
    image: &mut [u8],
    bias: u64,
    relocation: Relocation,
    dynamic: &DynamicTable,
    header: &Header,
) -> Result<(), ElfError> {
    let kind = RelocationX8664(relocation.info as u32);
    if kind == RelocationX8664::NONE {
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
    let addend = relocation.addend;
    let place = bias.wrapping_add(relocation.offset);
    let sum = symbol.wrapping_add(addend);
    let overflow = |_: std::num::TryFromIntError| ElfError::Overflow {
        address: relocation.offset,
        kind: kind.name().unwrap_or("of an unknown type"),
    };
    let mut write = |bytes: &[u8]| {
        let range = header.range(relocation.offset, bytes.len() as u64, "the place of a relocation")?;
        image[range].copy_from_slice(bytes);
        Ok(())
    };
    match kind {
        RelocationX8664::RELATIVE => write(&bias.wrapping_add(addend).to_le_bytes()),
        RelocationX8664::JUMP_SLOT | RelocationX8664::GLOB_DAT | RelocationX8664::COPY => write(&symbol.to_le_bytes()),
        RelocationX8664::ABS64 => write(&sum.to_le_bytes()),
        RelocationX8664::ABS32 => write(&u32::try_from(sum).map_err(overflow)?.to_le_bytes()),
        RelocationX8664::ABS32S => write(&i32::try_from(sum as i64).map_err(overflow)?.to_le_bytes()),
        RelocationX8664::PC32 => {
            let distance = sum.wrapping_sub(place);
            write(&i32::try_from(distance as i64).map_err(overflow)?.to_le_bytes())
        }
        kind => Err(ElfError::Unsupported(format!("relocation type {}", kind.0))),
    }
}
