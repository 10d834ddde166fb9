//! Decoder of x86-64 instructions, as far as a scan of code needs it: the length of an instruction, where execution
//! continues, and the features that a processor needs for it. `isa_requirements` calls it.
//!
//! [`table`] says which opcodes exist; here are the prefixes, ModRM and what follows it. The table is plain numbers, so
//! that nothing is built or relocated before the first instruction: iced, a library for this, took a quarter of the
//! time to run a small model for that.
//!
//! Reserved fields are not checked: an instruction that differs from a known one only in those counts as that one. A
//! processor may refuse it, which ends the process; compilers do not write such instructions. REX2 and the opcodes of
//! APX are not known.

mod table;
#[cfg(test)]
mod tests;

use table::{CELLS, NAMES, NODES, SET_STARTS, SETS, SWITCH};

pub(super) use table::FEATURES;

/// Longer instructions are not valid.
const LONGEST: usize = 15;

/// A decoded instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Instruction {
    /// Its length in bytes.
    pub(super) length: usize,
    pub(super) flow: Flow,
    /// The features that it needs.
    pub(super) features: &'static [u8],
}

/// Where execution continues after an instruction. Targets are relative to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    Next,
    /// At the next instruction, and at the target: conditional branches and calls.
    Branch(i32),
    Jump(i32),
    /// At an address in a register or in memory.
    IndirectJump {
        /// The address is in memory, at a constant distance.
        ip_relative: bool,
    },
    /// Nowhere: returns and traps.
    End,
}

/// The name of a feature, as in `cpu_features.yaml` where that lists it.
pub(super) fn feature_name(feature: u8) -> &'static str {
    NAMES.split(' ').nth(feature.into()).unwrap_or_default()
}

/// Decodes the first instruction of `code` for 64-bit mode. None if it is not known or not complete.
pub(super) fn decode(code: &[u8]) -> Option<Instruction> {
    let mut reader = Reader { code: &code[..code.len().min(LONGEST)], at: 0 };
    let mut prefixes = Prefixes::default();
    let opcode = prefixes.read(&mut reader)?;
    let (cell, ip_relative) = match opcode {
        0x0F => prefixes.escaped(&mut reader)?,
        0xC5 => Selector::short_vex(&prefixes, &mut reader)?.finish(&mut reader)?,
        0xC4 => Selector::vex(&prefixes, &mut reader)?.finish(&mut reader)?,
        0x62 => Selector::evex(&prefixes, &mut reader)?.finish(&mut reader)?,
        // As a ModRM byte, what follows the prefix of XOP has a `reg` that no instruction with this opcode has.
        0x8F if reader.peek()? & 0x1F >= 8 => Selector::xop(&prefixes, &mut reader)?.finish(&mut reader)?,
        _ => prefixes.select(table::LEGACY[0][usize::from(opcode)]).finish(&mut reader)?,
    };
    let size = immediate_size(cell >> table::IMMEDIATE_SHIFT & 7, &prefixes);
    let immediate = reader.take(size)?;
    let displacement = || match *immediate {
        [byte] => Some(i32::from(byte as i8)),
        [low, high] => Some(i32::from(i16::from_le_bytes([low, high]))),
        [a, b, c, d] => Some(i32::from_le_bytes([a, b, c, d])),
        _ => None,
    };
    let flow = match cell >> table::FLOW_SHIFT & 7 {
        table::BRANCH => Flow::Branch(displacement()?),
        table::JUMP => Flow::Jump(displacement()?),
        table::INDIRECT_JUMP => Flow::IndirectJump { ip_relative },
        table::END => Flow::End,
        table::NEXT => Flow::Next,
        _ => return None,
    };
    let set = usize::from(cell & ((1 << table::FLOW_SHIFT) - 1));
    let features = &SETS[usize::from(SET_STARTS[set])..usize::from(SET_STARTS[set + 1])];
    Some(Instruction { length: reader.at, flow, features })
}

/// The bytes of an instruction.
struct Reader<'a> {
    code: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.code.get(self.at).copied()
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let bytes = self.code.get(self.at..self.at + count)?;
        self.at += count;
        Some(bytes)
    }

    /// Reads a ModRM byte with what belongs to it; whether it is an operand relative to the instruction.
    fn operand(&mut self) -> Option<bool> {
        let modrm = self.byte()?;
        let (form, rm) = (modrm >> 6, modrm & 7);
        if form == 3 {
            return Some(false);
        }
        let base = if rm == 4 { self.byte()? & 7 } else { rm };
        let ip_relative = form == 0 && rm == 5;
        // Without a displacement there is no base 5.
        let displacement = match form {
            0 => {
                if base == 5 {
                    4
                } else {
                    0
                }
            }
            1 => 1,
            _ => 4,
        };
        self.take(displacement)?;
        Some(ip_relative)
    }
}

/// Prefixes of a byte each.
#[derive(Default)]
struct Prefixes {
    /// 66.
    operand_size: bool,
    /// 67.
    address_size: bool,
    /// The last of F3 and F2, in the numbers of the table.
    repeat: Option<usize>,
    /// REX, if it is the last prefix: before others it has no effect.
    rex: Option<u8>,
}

impl Prefixes {
    /// Reads the prefixes, and the byte after them.
    fn read(&mut self, reader: &mut Reader<'_>) -> Option<u8> {
        loop {
            let byte = reader.byte()?;
            match byte {
                0x40..=0x4F => {
                    self.rex = Some(byte);
                    continue;
                }
                0x66 => self.operand_size = true,
                0x67 => self.address_size = true,
                0xF3 => self.repeat = Some(2),
                0xF2 => self.repeat = Some(3),
                // Segments, and LOCK.
                0x26 | 0x2E | 0x36 | 0x3E | 0x64 | 0x65 | 0xF0 => {}
                opcode => return Some(opcode),
            }
            self.rex = None;
        }
    }

    fn wide(&self) -> bool {
        self.rex.is_some_and(|rex| rex & 8 != 0)
    }

    /// The number of the mandatory prefix: F3 and F2 come before 66.
    fn mandatory(&self) -> usize {
        self.repeat.unwrap_or(usize::from(self.operand_size))
    }

    /// With REX and mandatory prefixes there is no VEX, EVEX or XOP, which have these in them.
    fn expect_none(&self) -> Option<()> {
        (self.rex.is_none() && self.mandatory() == 0).then_some(())
    }

    fn select(&self, reference: u16) -> Selector {
        Selector { reference, mandatory: self.mandatory(), wide: self.wide(), length: 0 }
    }

    /// The cell of an instruction after the byte `0F`.
    fn escaped(&self, reader: &mut Reader<'_>) -> Option<(u16, bool)> {
        let opcode = reader.byte()?;
        let map = match opcode {
            0x38 => 2,
            0x3A => 3,
            // 3DNow!, whose opcode comes last.
            0x0F => {
                reader.operand()?;
                let opcode = reader.byte()?;
                return self.select(table::AMD_3DNOW[0][usize::from(opcode)]).finish(reader);
            }
            _ => return self.select(table::LEGACY[1][usize::from(opcode)]).finish(reader),
        };
        let opcode = reader.byte()?;
        self.select(table::LEGACY[map][usize::from(opcode)]).finish(reader)
    }
}

/// The prefixes and fields that select the cell of an opcode, but for its ModRM byte.
struct Selector {
    reference: u16,
    mandatory: usize,
    wide: bool,
    length: usize,
}

impl Selector {
    /// C5: VEX of two bytes.
    fn short_vex(prefixes: &Prefixes, reader: &mut Reader<'_>) -> Option<Selector> {
        let payload = reader.byte()?;
        // The first map, without W.
        Selector::new(prefixes, &table::VEX[0], payload & 0x7F, reader)
    }

    /// C4: VEX of three bytes.
    fn vex(prefixes: &Prefixes, reader: &mut Reader<'_>) -> Option<Selector> {
        let map = reader.byte()? & 0x1F;
        let payload = reader.byte()?;
        Selector::new(prefixes, table::VEX.get(usize::from(map).wrapping_sub(1))?, payload, reader)
    }

    /// 8F: XOP, which is VEX with maps of its own.
    fn xop(prefixes: &Prefixes, reader: &mut Reader<'_>) -> Option<Selector> {
        let map = reader.byte()? & 0x1F;
        let payload = reader.byte()?;
        Selector::new(prefixes, table::XOP.get(usize::from(map).wrapping_sub(8))?, payload, reader)
    }

    /// 62: EVEX.
    fn evex(prefixes: &Prefixes, reader: &mut Reader<'_>) -> Option<Selector> {
        let (first, second, third) = (reader.byte()?, reader.byte()?, reader.byte()?);
        // Fixed bits, which APX gives another meaning.
        if first & 8 != 0 || second & 4 == 0 {
            return None;
        }
        let map = match first & 7 {
            map @ 1..=3 => map - 1,
            map @ 5..=6 => map - 2,
            _ => return None,
        };
        let selector = Selector::new(prefixes, &table::EVEX[usize::from(map)], second & !4, reader)?;
        // With registers only the bit of broadcasts says that the bits of the length are the rounding mode.
        let rounds = third & 0x10 != 0 && reader.peek()? >> 6 == 3;
        let length = usize::from(third >> 5 & 3);
        let length = if rounds { 3 } else { (length < 3).then_some(length)? };
        Some(Selector { length, ..selector })
    }

    /// Reads the opcode after the prefix, whose last byte with W, the length and the mandatory prefix is `payload`.
    fn new(prefixes: &Prefixes, map: &[u16; 256], payload: u8, reader: &mut Reader<'_>) -> Option<Selector> {
        prefixes.expect_none()?;
        let opcode = reader.byte()?;
        Some(Selector {
            reference: map[usize::from(opcode)],
            mandatory: usize::from(payload & 3),
            wide: payload & 0x80 != 0,
            length: usize::from(payload >> 2 & 1),
        })
    }

    /// Finds the cell and reads the operand; the latter says whether it is relative to the instruction.
    fn finish(self, reader: &mut Reader<'_>) -> Option<(u16, bool)> {
        let mut reference = self.reference;
        while reference & SWITCH != 0 {
            let node = usize::from(reference & !SWITCH);
            let arm = match NODES[node] {
                table::PREFIX => self.mandatory,
                table::WIDE => self.wide.into(),
                table::LENGTH => self.length,
                table::FORM => usize::from(reader.peek()? >> 6 == 3),
                table::REG => usize::from(reader.peek()? >> 3 & 7),
                table::RM => usize::from(reader.peek()? & 7),
                _ => return None,
            };
            reference = NODES[node + 1 + arm];
        }
        let cell = CELLS[usize::from(reference).checked_sub(1)?];
        let ip_relative = match cell >> table::OPERAND_SHIFT {
            table::MODRM => reader.operand()?,
            table::MODRM_REGISTERS => reader.byte().map(|_| false)?,
            table::NO_OPERAND => false,
            _ => return None,
        };
        Some((cell, ip_relative))
    }
}

fn immediate_size(way: u16, prefixes: &Prefixes) -> usize {
    match way {
        table::OPERAND_SIZED => {
            if prefixes.operand_size && !prefixes.wide() {
                2
            } else {
                4
            }
        }
        table::WIDE_SIZED if prefixes.wide() => 8,
        table::WIDE_SIZED => {
            if prefixes.operand_size {
                2
            } else {
                4
            }
        }
        table::ADDRESS_SIZED => {
            if prefixes.address_size {
                4
            } else {
                8
            }
        }
        bytes => bytes.into(),
    }
}
