//! Programs: the code of a kernel, decoded once into instructions that a wave executes without looking at encodings
//! again.
//!
//! Operands become indices: of rows (the vector registers of the kernel, two spare ones, then constants) and of scalars
//! (those that encodings know, a place for what is dropped, then constants). Two instructions at once become up to
//! three, one after another. What cannot be executed becomes an instruction that traps, so that code which no wave
//! reaches does no harm.

use std::collections::HashMap;
use std::ops::Range;

use vireo_simt::TrapKind;

use crate::counters;
use crate::generated::interp::handlers;
use crate::instruction::{DecodeError, Instruction, Operand};
use crate::interp::control;
use crate::isa::operands::{EXEC, HIGH_HALF, NULL, SCALAR_REGISTERS, VCC, VECTOR_REGISTERS};
use crate::isa::{Encoding, Field, Opcode, OperandType, Slot};

mod constants;
mod decoder;
mod modifiers;

pub use crate::machine::Program;
use crate::machine::{BUFFER_INDEX, BUFFER_OFFSET, Handler, Inst, MODIFIED, Modifiers, NONE, SINK, Unknown};
use decoder::{Decoder, Refused, invalid, is_high};
use modifiers::saturates;

/// An instruction of a program that no wave can execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its address.
    pub address: u64,
    /// Its mnemonic, or the word that is unknown.
    pub mnemonic: String,
    /// The part of a known instruction that is not implemented.
    pub what: Option<String>,
}

impl Program {
    /// Decodes the kernel at the start of the code at `address`, up to its end. `vectors` is how many vector registers
    /// a wave has.
    pub fn decode(code: &[u32], address: u64, vectors: u32) -> Program {
        Program::decode_from(code, address, 0, vectors)
    }

    /// Decodes the kernel that begins at word `entry` of the code at `address`, up to its end, and all of the code if
    /// it calls functions.
    pub fn decode_from(code: &[u32], address: u64, entry: usize, vectors: u32) -> Program {
        Program::decode_for(code, address, entry, vectors, false)
    }

    /// As [`Self::decode_from`], for [`run_counted`](crate::run_counted): instructions without effect are executed,
    /// too.
    pub fn decode_counted(code: &[u32], address: u64, entry: usize, vectors: u32) -> Program {
        let mut program = Program::decode_for(code, address, entry, vectors, true);
        let mut last = u32::MAX;
        let counters = program.insts.iter().map(|inst| {
            let is_first = std::mem::replace(&mut last, inst.origin) != inst.origin;
            let instruction = program.instruction(inst).filter(|_| is_first);
            instruction.map_or(0, counters::of_instruction)
        });
        program.counters = Some(counters.collect());
        program
    }

    fn decode_for(code: &[u32], address: u64, entry: usize, vectors: u32, keeps_all: bool) -> Program {
        let vectors = vectors.min(VECTOR_REGISTERS);
        let program = Program {
            insts: Vec::new(),
            origins: Vec::new(),
            index: Vec::new(),
            counters: None,
            calls: false,
            problems: Vec::new(),
            problem_origins: Vec::new(),
            scalar_constants: Vec::new(),
            row_constants: Vec::new(),
            vectors,
            address,
            end: address,
        };
        let mut decoder = Decoder {
            program,
            constants: HashMap::new(),
            rows: HashMap::new(),
            origin: 0,
            next_address: address,
            keeps_all,
        };
        decoder.decode(code, entry);
        decoder.program
    }

    /// The instructions that the interpreter lacks, or of which it lacks something, in the order of the code. Those
    /// that name registers which there are not are not among them: they are wrong for every machine.
    pub fn missing(&self) -> Vec<Missing> {
        let problems = self.problems.iter().zip(&self.problem_origins);
        let mut missing: Vec<Missing> = problems
            .filter_map(|(kind, origin)| {
                let what = match kind {
                    TrapKind::UnknownInstruction => None,
                    TrapKind::NotImplemented(what) => Some(what.to_string()),
                    _ => return None,
                };
                let (address, mnemonic) = self.place_of(*origin);
                Some(Missing { address, mnemonic: mnemonic.into_owned(), what })
            })
            .collect();
        missing.sort_by_key(|missing| missing.address);
        missing
    }

    /// True if it calls functions, so that code before the kernel matters, too.
    pub fn calls(&self) -> bool {
        self.calls
    }

    /// How many instructions the code has.
    pub fn len(&self) -> usize {
        self.origins.len()
    }

    /// True if there is no code.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }
}

impl Decoder {
    fn decode(&mut self, code: &[u32], entry: usize) {
        let mut branches = Vec::new();
        let end = self.decode_until(code, entry..code.len(), true, &mut branches);
        self.program.end = self.next_address;
        if self.program.calls {
            self.decode_until(code, end..code.len(), false, &mut branches);
            self.decode_until(code, 0..entry.min(code.len()), false, &mut branches);
        }
        for (inst, target) in branches {
            self.program.insts[inst].number = match self.program.index_at(target) {
                Some(index) => index,
                None => {
                    // A branch that is taken goes to a trap, which has its place.
                    self.origin = self.program.insts[inst].origin;
                    self.trap(TrapKind::InvalidJump(self.program.address.wrapping_add_signed(4 * target)));
                    self.program.insts.len() as u32 - 1
                }
            };
        }
    }

    /// Decodes instructions of `words`, to the end of the kernel if that is what begins there, and a trap after the
    /// last one. Returns the word after it, and adds branches with the words that they go to.
    fn decode_until(
        &mut self,
        code: &[u32],
        words: Range<usize>,
        is_kernel: bool,
        branches: &mut Vec<(usize, i64)>,
    ) -> usize {
        let (mut word, mut furthest) = (words.start, 0i64);
        while word < words.end {
            let decoded = Instruction::decode(&code[word..]);
            self.origin = self.program.origins.len() as u32;
            let unknown = |error: DecodeError| Unknown { word: code[word], mnemonic: error.mnemonic() };
            self.program.origins.push((word as u32, decoded.map_err(unknown)));
            if self.program.index.len() <= word {
                self.program.index.resize(word + 1, u32::MAX);
            }
            self.program.index[word] = self.program.insts.len() as u32;
            let length = decoded.map_or_else(|error| error.words(), |instruction| instruction.length as usize);
            self.next_address = self.program.address.wrapping_add(4 * (word + length) as u64);
            match decoded {
                Err(_) => self.trap(TrapKind::UnknownInstruction),
                Ok(instruction) => {
                    let first = self.program.insts.len();
                    if let Err(refused) = self.instruction(&instruction) {
                        self.program.insts.truncate(first);
                        self.trap(refused);
                    }
                    if let Some(target) = instruction.branch_words().map(|words| word as i64 + words) {
                        branches.push((self.program.insts.len() - 1, target));
                        furthest = furthest.max(target);
                    }
                    self.program.calls |= matches!(instruction.opcode, Opcode::SSwappcB64 | Opcode::SCallB64);
                    let ends = matches!(instruction.opcode, Opcode::SEndpgm | Opcode::SBranch | Opcode::SSetpcB64);
                    if is_kernel && ends && furthest <= word as i64 {
                        word += length;
                        break;
                    }
                }
            }
            word += length;
        }
        self.origin = u32::MAX;
        self.trap(TrapKind::InvalidAddress);
        word
    }

    fn trap(&mut self, kind: TrapKind) {
        let number = self.program.problems.len() as u32;
        self.program.problems.push(kind);
        self.program.problem_origins.push(self.origin);
        self.push(control::problem, number);
    }

    fn push(&mut self, handler: Handler, number: u32) -> &mut Inst {
        let origin = self.origin;
        let sources = [NONE; 4];
        self.program.insts.push(Inst {
            handler,
            modifiers: None,
            sources,
            result: NONE,
            result2: NONE,
            number,
            origin,
        });
        self.program.insts.last_mut().expect("one was pushed")
    }

    fn instruction(&mut self, instruction: &Instruction) -> Result<(), Refused> {
        match instruction.encoding {
            // An instruction without effect here, such as a wait for memory, becomes nothing, unless it is to be
            // counted. Jumps to it go to the next one.
            _ if instruction.info().has_no_effect => {
                if self.keeps_all {
                    self.push(control::nothing, 0);
                }
                Ok(())
            }
            Encoding::Vopd => self.both(instruction),
            Encoding::Smem | Encoding::Ds | Encoding::Mubuf | Encoding::Global | Encoding::Scratch | Encoding::Flat => {
                self.memory(instruction)
            }
            _ => self.single(instruction),
        }
    }

    /// Two instructions at once. Y does not see what X writes: where it would, X writes to a spare register first.
    fn both(&mut self, x: &Instruction) -> Result<(), Refused> {
        let y = x.y().ok_or(TrapKind::UnknownInstruction)?;
        self.single(x)?;
        let x_result = self.program.insts.last().map_or(NONE, |inst| inst.result);
        let x_at = self.program.insts.len() - 1;
        self.single(&y)?;
        let y_inst = self.program.insts.last().cloned().ok_or(TrapKind::UnknownInstruction)?;
        if y_inst.sources.contains(&x_result) {
            let spare = self.program.vectors as u16;
            self.program.insts[x_at].result = spare;
            let copy = handlers().plain[Opcode::VMovB32 as usize];
            let inst = self.push(copy, 0);
            inst.sources[0] = spare;
            inst.result = x_result;
        }
        Ok(())
    }

    fn single(&mut self, instruction: &Instruction) -> Result<(), Refused> {
        let info = instruction.info();
        let scalar = info.is_scalar();
        let mut sources = [NONE; 4];
        // Helpers read all their sources, other instructions what their semantics name.
        let of_operands: Vec<(Slot, OperandType)> =
            info.operands.iter().filter(|(slot, _)| matches!(slot, Slot::S0 | Slot::S1 | Slot::S2)).copied().collect();
        let reads = if info.reads.is_empty() { of_operands.as_slice() } else { info.reads };
        for (index, (slot, ty)) in reads.iter().enumerate() {
            let mut declared = info.operand(*slot).unwrap_or(*ty);
            // A constant is a half where the modifiers say that the source is one.
            let halves = instruction.field(Field::OpSelHi) | instruction.field(Field::OpSelHi2) << 2;
            if declared == OperandType::Mixed && halves >> index & 1 == 1 {
                declared = OperandType::F16;
            }
            let source = match (slot, declared) {
                (Slot::Scc, _) => continue,
                (Slot::Vcc, _) => VCC as u16,
                (Slot::Exec | Slot::Exec64, _) => EXEC as u16,
                (Slot::Pc, _) => self.constant(self.next_address as u32, (self.next_address >> 32) as u32)?,
                (Slot::Imm, OperandType::Imm16) => {
                    self.constant(instruction.field(Field::Simm16) as u16 as i16 as u32, 0)?
                }
                (Slot::Imm, _) => self.constant(instruction.field(Field::Simm16), 0)?,
                (_, OperandType::Mask) => match instruction.operand(*slot) {
                    None => VCC as u16,
                    Some(operand) => self.scalar_source(operand, declared)?,
                },
                (_, OperandType::Scalar) => {
                    let operand = instruction.operand(*slot).ok_or(invalid("a source is missing"))?;
                    self.scalar_source(operand, declared)?
                }
                _ => {
                    let operand = instruction.operand(*slot).ok_or(invalid("a source is missing"))?;
                    if scalar {
                        self.scalar_source(operand, declared)?
                    } else {
                        self.vector_source(halved(instruction, *slot, operand), declared)?
                    }
                }
            };
            sources[index] = source;
        }
        let mut result = self.result(instruction, Slot::D)?;
        let result2 = self.result(instruction, Slot::C)?;
        // Comparisons that set EXEC have no field for it.
        if info.sets_exec && !scalar {
            result = EXEC as u16;
        }
        let mut modifiers = self.modifiers(instruction, reads, &sources)?;
        let mut number = instruction.field(Field::Simm16);
        match instruction.opcode {
            // The address of the next instruction, which calls save.
            Opcode::SSwappcB64 | Opcode::SCallB64 => {
                sources[3] = self.constant(self.next_address as u32, (self.next_address >> 32) as u32)?;
            }
            // They add to their result.
            Opcode::VDot2accF32F16 | Opcode::VPkFmacF16 => sources[2] = result,
            // Its source is the literal.
            Opcode::SSetregImm32B32 => sources[0] = self.constant(instruction.extra_word().unwrap_or(0), 0)?,
            Opcode::SSendmsgRtnB32 | Opcode::SSendmsgRtnB64 => number = instruction.field(Field::Ssrc0),
            _ => {}
        }
        let handlers = handlers();
        let mut handler = handlers.plain[instruction.opcode as usize];
        if let Some(modifiers) = modifiers.as_mut().filter(|modifiers| modifiers.clamp && saturates(instruction)) {
            let clamped = handlers.clamped.iter().find(|(opcode, _)| *opcode == instruction.opcode);
            handler = clamped.ok_or(TrapKind::NotImplemented("clamp of an integer".into()))?.1;
            modifiers.clamp = false;
        }
        let boxed = modifiers.map(|mut modifiers| {
            if modifiers.dpp.is_some() {
                modifiers.inner = Some(handler);
                let mask = matches!(info.operand(Slot::D), None | Some(OperandType::Mask));
                modifiers.sets_exec = mask && result == EXEC as u16;
                handler = handlers.with_dpp;
            }
            let lanes = reads.iter().enumerate().filter(|(_, (_, ty))| is_lane(*ty));
            for (index, _) in lanes.filter(|_| !info.reads.is_empty()) {
                sources[index] = if changes(&modifiers, index) { MODIFIED | index as u16 } else { sources[index] };
            }
            Box::new(modifiers)
        });
        let inst = self.push(handler, number);
        (inst.modifiers, inst.sources, inst.result, inst.result2) = (boxed, sources, result, result2);
        Ok(())
    }

    fn result(&self, instruction: &Instruction, slot: Slot) -> Result<u16, Refused> {
        let Some(ty) = instruction.info().operand(slot) else { return Ok(NONE) };
        match instruction.operand(slot).map(|operand| halved(instruction, slot, operand)) {
            None => Ok(VCC as u16),
            Some(Operand::Scalar(NULL)) if ty.words() <= 2 => Ok(SINK),
            Some(Operand::Scalar(number)) if number + ty.words() <= SCALAR_REGISTERS && number != NULL => {
                Ok(number as u16)
            }
            Some(Operand::Vector(number)) if number + ty.words() <= self.program.vectors => Ok(number as u16),
            Some(Operand::Vector(number)) => Err(invalid(format!("the kernel has no v{}", number + ty.words() - 1))),
            Some(_) => Err(invalid("the result is not a register")),
        }
    }

    fn memory(&mut self, instruction: &Instruction) -> Result<(), Refused> {
        let info = instruction.info();
        let mut sources = [NONE; 4];
        let mut number = instruction.offset() as u32;
        let returns = !info.returns_by_glc || instruction.field(Field::Glc) == 1;
        let result = if returns { self.result(instruction, Slot::D)? } else { NONE };
        let row = |decoder: &mut Self, slot: Slot, words: Option<u32>| -> Result<u16, Refused> {
            let Some(ty) = info.operand(slot) else { return Ok(NONE) };
            let first = match instruction.operand(slot) {
                Some(Operand::Vector(first)) => first,
                _ => return Ok(NONE),
            };
            decoder.vector(first, words.unwrap_or(ty.words()))
        };
        match instruction.encoding {
            Encoding::Smem => {
                let ty = info.operand(Slot::Base).unwrap_or(OperandType::B64);
                sources[0] = self.scalar_source(instruction.operand_at(Field::Sbase, None), ty)?;
                sources[1] =
                    self.scalar_source(Operand::Scalar(instruction.field(Field::Soffset)), OperandType::B32)?;
            }
            Encoding::Ds => {
                if instruction.field(Field::Gds) == 1 {
                    return Err(TrapKind::NotImplemented("global data share".into()));
                }
                number = instruction.field(Field::Offset0) | instruction.field(Field::Offset1) << 8;
                sources =
                    [row(self, Slot::Addr, None)?, row(self, Slot::Data, None)?, row(self, Slot::Data1, None)?, NONE];
            }
            Encoding::Mubuf => {
                if instruction.field(Field::Tfe) == 1 {
                    return Err(TrapKind::NotImplemented("tfe".into()));
                }
                number = instruction.field(Field::Offset);
                let (offen, idxen) = (instruction.field(Field::Offen), instruction.field(Field::Idxen));
                number |= idxen * BUFFER_INDEX;
                if offen + idxen > 0 {
                    sources[0] = row(self, Slot::Addr, Some(offen + idxen))?;
                    number |= offen * BUFFER_OFFSET;
                }
                sources[1] = self.scalar_source(instruction.operand_at(Field::Srsrc, None), OperandType::B128)?;
                let offset = instruction.operand_at(Field::Soffset, None);
                sources[2] = self.scalar_source(offset, OperandType::B32)?;
                sources[3] = row(self, Slot::Data, None)?;
            }
            Encoding::Flat => {
                sources[0] = row(self, Slot::Addr, None)?;
                sources[3] = row(self, Slot::Data, None)?;
            }
            _ => {
                let scalar = instruction.field(Field::Saddr);
                let scratch = instruction.encoding == Encoding::Scratch;
                if !scratch || instruction.field(Field::Sve) == 1 {
                    sources[0] = row(self, Slot::Addr, Some(if scratch || scalar != NULL { 1 } else { 2 }))?;
                }
                if scalar != NULL {
                    let ty = if scratch { OperandType::B32 } else { OperandType::B64 };
                    sources[1] = self.scalar_source(Operand::Scalar(scalar), ty)?;
                }
                sources[3] = row(self, Slot::Data, None)?;
            }
        }
        let inst = self.push(handlers().plain[instruction.opcode as usize], number);
        (inst.sources, inst.result) = (sources, result);
        Ok(())
    }
}

fn is_lane(ty: OperandType) -> bool {
    !matches!(ty, OperandType::Bit | OperandType::Mask)
}

/// Whether a source is not just its register.
fn changes(modifiers: &Modifiers, index: usize) -> bool {
    let bits = modifiers.neg | modifiers.abs | modifiers.high;
    bits >> index & 1 == 1 || index == 0 && modifiers.dpp.is_some()
}

/// The register of an operand that may be its high half.
fn halved(instruction: &Instruction, slot: Slot, operand: Operand) -> Operand {
    match operand {
        Operand::Vector(number) if is_high(instruction, slot) => Operand::Vector(number - HIGH_HALF),
        operand => operand,
    }
}
