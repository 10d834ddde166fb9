//! The answers of iced for every encoding of an opcode. The cells of a table come from here, and nothing else knows
//! iced.
//!
//! iced is asked without its checks of reserved fields (`NO_INVALID_CHECK`), so that an opcode is found whatever its
//! other operands would have to be. What the table does not model must not change an answer: the probe fails where it
//! would.

use std::collections::HashMap;

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::cell::{Cell, Flow, Immediate, Operand};

/// How the opcode of an instruction is encoded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Space {
    /// With prefixes of a byte each and REX.
    Legacy,
    Vex,
    Evex,
    Xop,
    /// `0F 0F`, an operand, and the opcode at the end.
    Amd3dnow,
}

/// The mandatory prefixes, in the order of their two bits in VEX.
pub const PREFIXES: usize = 4;
/// Forms of a ModRM byte: in memory with each `reg`, then two registers.
pub const FORMS: usize = 8 + 64;

/// An encoding but for its ModRM byte and operands.
#[derive(Clone, Copy, Debug)]
struct Encoding {
    space: Space,
    map: usize,
    opcode: u8,
    prefix: usize,
    wide: bool,
    length: usize,
    /// A prefix 66 beside another mandatory one.
    operand_size: bool,
    address_size: bool,
}

/// The answer of iced.
#[derive(Clone, Copy, PartialEq)]
struct Answer {
    /// Bytes after the opcode.
    tail: usize,
    flow: Flow,
    features: usize,
    registers_only: bool,
}

/// The probe, with the sets of features that it found.
pub struct Probe {
    /// Each list of features of iced, without those of all processors, in the order in which they are checked.
    pub sets: Vec<Vec<CpuidFeature>>,
    /// The set of a list, by where the list is in iced.
    known: HashMap<(usize, usize), usize>,
    is_common: fn(CpuidFeature) -> bool,
}

impl Probe {
    pub fn new(is_common: fn(CpuidFeature) -> bool) -> Probe {
        Probe { sets: vec![Vec::new()], known: HashMap::new(), is_common }
    }

    /// The cells of an opcode: by mandatory prefix, W, vector length and form. None if no encoding is valid.
    pub fn opcode(
        &mut self,
        space: Space,
        map: usize,
        opcode: u8,
        lengths: usize,
    ) -> Result<Option<Vec<Option<Cell>>>, String> {
        let mut cells = vec![None; PREFIXES * 2 * lengths * FORMS];
        for length in 0..lengths {
            // Of each form, for each prefix and W: which cell it is, and the sizes of the immediate.
            let mut immediates = vec![Vec::new(); FORMS];
            for (prefix, wide) in (0..PREFIXES).flat_map(|prefix| [(prefix, false), (prefix, true)]) {
                let operand_size = prefix == 1;
                let encoding = Encoding { space, map, opcode, prefix, wide, length, operand_size, address_size: false };
                let mut known = None;
                for (form, immediates) in immediates.iter_mut().enumerate() {
                    // The byte after 8F decides whether it is the prefix of XOP.
                    if space == Space::Legacy && map == 0 && opcode == 0x8F && modrm(form) & 0x1F >= 8 {
                        continue;
                    }
                    if let Some((cell, sizes)) =
                        self.cell(encoding, form, &mut known).map_err(|what| format!("{encoding:x?}: {what}"))?
                    {
                        let at = ((prefix * 2 + usize::from(wide)) * lengths + length) * FORMS + form;
                        cells[at] = Some(cell);
                        immediates.push((at, sizes));
                    }
                }
            }
            // One way to state the size for all prefixes if there is one, so that they can share their cells.
            for immediates in immediates {
                let common = Immediate::ALL.into_iter().find(|way| immediates.iter().all(|(_, sizes)| sizes.fit(*way)));
                for (at, sizes) in &immediates {
                    let way = common.or_else(|| Immediate::ALL.into_iter().find(|way| sizes.fit(*way)));
                    let way = way.ok_or_else(|| format!("map {map} opcode {opcode:02x}: an immediate of {sizes:?}"))?;
                    if let Some(cell) = &mut cells[*at] {
                        cell.immediate = way;
                    }
                }
            }
        }
        // Rounding is a matter of registers: operands in memory have any cell there.
        if space == Space::Evex {
            for variant in 0..PREFIXES * 2 {
                for form in 0..8 {
                    let at = |length: usize| (variant * lengths + length) * FORMS + form;
                    cells[at(3)] = cells[at(2)];
                }
            }
        }
        Ok(cells.iter().any(Option::is_some).then_some(cells))
    }

    /// The cell of an encoding but for its immediate, and the sizes of that. `known` is the operand of an earlier form
    /// of this encoding.
    fn cell(
        &mut self,
        encoding: Encoding,
        form: usize,
        known: &mut Option<(u8, Answer, Operand)>,
    ) -> Result<Option<(Cell, Sizes)>, String> {
        let reg = modrm(form) & 0x38;
        let Some(first) = self.ask(encoding, modrm(form))? else {
            for other in encoding.other_sizes() {
                if self.ask(other, modrm(form))?.is_some() {
                    return Err("a prefix of sizes makes it valid".to_string());
                }
            }
            return Ok(None);
        };
        let operand = match known {
            Some((known_reg, answer, operand)) if *known_reg == reg && *answer == first => *operand,
            _ => self.operand(encoding, form, first)?,
        };
        *known = Some((reg, first, operand));
        let modrm_bytes = usize::from(operand != Operand::None);
        let mut sizes = Sizes(vec![(encoding, first.tail - modrm_bytes)]);
        for other in encoding.other_sizes() {
            let Some(answer) = self.ask(other, modrm(form))? else {
                return Err("a prefix of sizes makes it invalid".to_string());
            };
            if (answer.flow, answer.features) != (first.flow, first.features) {
                return Err("a prefix of sizes makes it another instruction".to_string());
            }
            sizes.0.push((other, answer.tail - modrm_bytes));
        }
        let cell = Cell { operand, immediate: Immediate::Bytes(0), flow: first.flow, features: first.features };
        Ok(Some((cell, sizes)))
    }

    /// Whether a ModRM byte follows the opcode, and whether it can have a memory operand: then the displacement adds to
    /// the length.
    fn operand(&mut self, encoding: Encoding, form: usize, answer: Answer) -> Result<Operand, String> {
        let reg = modrm(form) & 0x38;
        let (memory, displaced) = (self.ask(encoding, reg)?, self.ask(encoding, 0x80 | reg)?);
        Ok(match (memory, displaced) {
            (None, None) => Operand::ModRm,
            (Some(memory), Some(displaced)) if displaced.tail == memory.tail + 4 => Operand::ModRm,
            (Some(memory), Some(displaced)) if displaced.tail == memory.tail => {
                if answer.registers_only && answer.tail == 1 { Operand::Registers } else { Operand::None }
            }
            _ => return Err("its length depends on more than ModRM".to_string()),
        })
    }

    fn ask(&mut self, encoding: Encoding, modrm: u8) -> Result<Option<Answer>, String> {
        let (bytes, head) = encoding.bytes(modrm);
        let mut decoder = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NO_INVALID_CHECK);
        let mut instruction = Instruction::default();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Ok(None);
        }
        let operands = instruction.op_count();
        let registers_only = operands > 0 && instruction.op_kinds().all(|kind| kind == OpKind::Register);
        let answer = Answer { tail: instruction.len() - head, flow: flow(&instruction)?, features: 0, registers_only };
        let list = instruction.cpuid_features();
        let place = (list.as_ptr().addr(), list.len());
        let features = match self.known.get(&place) {
            Some(known) => *known,
            None => {
                let set: Vec<_> = list.iter().copied().filter(|feature| !(self.is_common)(*feature)).collect();
                let index = self.sets.iter().position(|known| *known == set).unwrap_or_else(|| {
                    self.sets.push(set);
                    self.sets.len() - 1
                });
                self.known.insert(place, index);
                index
            }
        };
        Ok(Some(Answer { features, ..answer }))
    }
}

/// The ModRM byte of a form. Operands in memory have neither an SIB byte nor a displacement.
fn modrm(form: usize) -> u8 {
    match form {
        0..8 => (form as u8) << 3,
        _ => 0xC0 | (form as u8 - 8),
    }
}

fn flow(instruction: &Instruction) -> Result<Flow, String> {
    let near = matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    let near = near && instruction.op_count() > 0;
    Ok(match instruction.flow_control() {
        FlowControl::Next | FlowControl::IndirectCall => Flow::Next,
        FlowControl::ConditionalBranch if near => Flow::Branch,
        // Calls of the system, and the end of transactions, are no branches within the library.
        FlowControl::Call | FlowControl::XbeginXabortXend => {
            if near {
                Flow::Branch
            } else {
                Flow::Next
            }
        }
        FlowControl::UnconditionalBranch if near => Flow::Jump,
        FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => Flow::End,
        other => return Err(format!("{other:?} without a target")),
    })
}

impl Encoding {
    /// The same with prefixes for the sizes of operands and addresses that the table does not tell apart. 66 before VEX
    /// and its like is refused before the table is looked at, and 67 does not concern these.
    fn other_sizes(self) -> impl Iterator<Item = Encoding> {
        let flips = match (self.space, self.prefix) {
            (Space::Legacy, 0 | 1) => &[(false, true)][..],
            (Space::Legacy, _) => &[(true, false), (false, true), (true, true)],
            _ => &[],
        };
        flips.iter().map(move |(operand, address)| Encoding {
            operand_size: self.operand_size ^ operand,
            address_size: *address,
            ..self
        })
    }

    /// The bytes with a ModRM byte, or one that is the immediate's, and where that is.
    fn bytes(self, modrm: u8) -> ([u8; 24], usize) {
        let mut head = Vec::new();
        let wide = u8::from(self.wide);
        let prefix = self.prefix as u8;
        if self.address_size {
            head.push(0x67);
        }
        match self.space {
            Space::Legacy => {
                if self.operand_size {
                    head.push(0x66);
                }
                head.extend([None, None, Some(0xF3), Some(0xF2)][self.prefix]);
                if self.wide {
                    head.push(0x48);
                }
                head.extend_from_slice([&[][..], &[0x0F], &[0x0F, 0x38], &[0x0F, 0x3A]][self.map]);
                head.push(self.opcode);
            }
            // R, X and B are those of registers below 8, `vvvv` is that of none.
            Space::Vex | Space::Xop => {
                head.push(if self.space == Space::Vex { 0xC4 } else { 0x8F });
                head.push(0xE0 | self.map as u8);
                head.push(wide << 7 | 0x78 | (self.length as u8) << 2 | prefix);
                head.push(self.opcode);
            }
            Space::Evex => {
                // The fourth vector length is that of instructions whose length says how to round.
                let rounding = u8::from(self.length == 3);
                head.extend([0x62, 0xF0 | self.map as u8, wide << 7 | 0x7C | prefix]);
                head.push((self.length as u8) << 5 | rounding << 4 | 0x08);
                head.push(self.opcode);
            }
            Space::Amd3dnow => head.extend([0x0F, 0x0F, 0xC0, self.opcode]),
        }
        let mut bytes = [0; 24];
        bytes[..head.len()].copy_from_slice(&head);
        bytes[head.len()] = modrm;
        (bytes, head.len())
    }
}

/// The sizes of an immediate in an encoding, with each size of operands and addresses.
#[derive(Clone, Debug)]
struct Sizes(Vec<(Encoding, usize)>);

impl Sizes {
    fn fit(&self, way: Immediate) -> bool {
        self.0
            .iter()
            .all(|(encoding, size)| way.size(encoding.operand_size, encoding.wide, encoding.address_size) == *size)
    }
}
