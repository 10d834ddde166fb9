//! The types of the interpreter: decoded instructions with their handlers ([`Inst`]), the code of a kernel
//! ([`Program`]), waves ([`Wave`]) and work-groups ([`Group`]).
//!
//! They refer to each other: a handler takes a wave, a work-group and an instruction, which has a handler, and the
//! work-group has the program. `program` decodes, `interp` executes; both are above this.

use std::borrow::Cow;
use std::fmt;

use vireo_hsa::kernel_descriptor::FloatDenormMode;
use vireo_simt::{GroupHook, Mask, Port, Row, Stop, TrapKind};

use crate::counters::CounterSet;
use crate::instruction::Instruction;
use crate::isa::immediates::OutputModifier;
use crate::isa::operands::{EXEC, SCALAR_REGISTERS, VCC};

/// In a vector source: the number of a scalar, for all lanes.
pub(crate) const SCALAR: u16 = 0x8000;
/// In a vector source: the source has modifiers.
pub(crate) const MODIFIED: u16 = 0x4000;
/// No operand.
pub(crate) const NONE: u16 = 0xFFFF;
/// Where results that are dropped go, and the scalar after it.
pub(crate) const SINK: u16 = SCALAR_REGISTERS as u16;
/// Where the values of SCC, VCCZ and EXECZ are that the next instruction reads as sources, with a zero after each.
pub(crate) const STATES: u16 = SINK + 2;
/// The first constant among the scalars.
pub(crate) const FIRST_CONSTANT: u16 = STATES + 6;
/// In the number of a buffer access: the offset is that of the instruction and of a register.
pub(crate) const BUFFER_OFFSET: u32 = 1 << 17;
/// In the number of a buffer access: there is an index.
pub(crate) const BUFFER_INDEX: u32 = 1 << 16;

/// The next step of a wave after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next instruction.
    Continue,
    /// The wave waits at a barrier.
    Barrier,
    /// The wave lets the others of its work-group run.
    Yield,
    /// The wave has ended.
    End,
    /// The wave has trapped, and noted why.
    Trap,
}

/// Executes an instruction of a wave.
///
/// # Safety
/// The processor must have the features that the handler was compiled for; `handlers` returns only such.
pub(crate) type Handler = unsafe fn(&mut Wave, &mut Group<'_>, &Inst) -> Next;

/// A decoded instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) handler: Handler,
    pub(crate) modifiers: Option<Box<Modifiers>>,
    pub(crate) sources: [u16; 4],
    pub(crate) result: u16,
    pub(crate) result2: u16,
    /// An offset, an immediate, or the index of the instruction that a branch goes to.
    pub(crate) number: u32,
    /// The number of the instruction in the code.
    pub(crate) origin: u32,
}

impl Inst {
    /// The modifiers.
    #[inline(always)]
    pub(crate) fn modifiers(&self) -> &Modifiers {
        self.modifiers.as_deref().unwrap_or(&Modifiers::NONE)
    }
}

/// Modifiers of an instruction.
#[derive(Clone, Debug)]
pub(crate) struct Modifiers {
    /// The sources without modifiers.
    pub(crate) sources: [u16; 4],
    /// A bit for each source whose sign changes, after `abs`.
    pub(crate) neg: u32,
    /// A bit for each source whose sign is cleared.
    pub(crate) abs: u32,
    /// A bit for each source that is the high half of its register.
    pub(crate) high: u32,
    /// A bit for each source that is the high half of its register in the second operation of a packed instruction.
    pub(crate) high_of_high: u32,
    /// `neg` of that operation.
    pub(crate) neg_high: u32,
    /// The result goes to the high half.
    pub(crate) result_high: bool,
    /// The result is limited to 0 to 1, or to what fits.
    pub(crate) clamp: bool,
    /// By what the result is multiplied; none for one.
    pub(crate) output: Option<OutputModifier>,
    /// Where the first source comes from, if it is from other lanes.
    pub(crate) dpp: Option<Box<Dpp>>,
    /// The handler that DPP prepares for.
    pub(crate) inner: Option<Handler>,
    /// The result is EXEC, which stays as the handler leaves it.
    pub(crate) sets_exec: bool,
}

impl Modifiers {
    /// None at all.
    pub(crate) const NONE: Modifiers = Modifiers {
        sources: [0; 4],
        neg: 0,
        abs: 0,
        high: 0,
        high_of_high: 0,
        neg_high: 0,
        result_high: false,
        clamp: false,
        output: None,
        dpp: None,
        inner: None,
        sets_exec: false,
    };
}

/// Where the first source of an instruction with DPP comes from.
#[derive(Clone, Debug)]
pub(crate) struct Dpp {
    /// The lane from which each lane gets its value.
    pub(crate) from: Row,
    /// The lanes that get one.
    pub(crate) has_source: Mask,
    /// The lanes that are written if they get one, by the masks of rows and banks.
    pub(crate) allowed: Mask,
    /// Lanes without a source get zero.
    pub(crate) zero_outside: bool,
    /// Lanes that are not active are sources, too.
    pub(crate) fetch_inactive: bool,
}

/// The code of a kernel, decoded.
#[derive(Debug)]
pub struct Program {
    pub(crate) insts: Vec<Inst>,
    /// The instructions of the code, with their offsets in words.
    pub(crate) origins: Vec<(u32, Result<Instruction, Unknown>)>,
    /// The index of the instruction at each word.
    pub(crate) index: Vec<u32>,
    /// If it was decoded for counters, those that each instruction of `insts` counts for. Of several that are one
    /// instruction of the code, the first one does.
    pub(crate) counters: Option<Vec<CounterSet>>,
    /// True if it calls functions, which may be anywhere in the code.
    pub(crate) calls: bool,
    pub(crate) problems: Vec<TrapKind>,
    /// The numbers in `origins` of the instructions that they are of.
    pub(crate) problem_origins: Vec<u32>,
    pub(crate) scalar_constants: Vec<u32>,
    pub(crate) row_constants: Vec<Row>,
    /// Vector registers that a wave has.
    pub(crate) vectors: u32,
    /// The address of the first word, and that after the last one which was decoded.
    pub(crate) address: u64,
    pub(crate) end: u64,
}

/// A word that begins no instruction, with the mnemonic that it has elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown {
    pub(crate) word: u32,
    pub(crate) mnemonic: Option<&'static str>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mnemonic {
            Some(name) => write!(f, "{name} (0x{:08x})", self.word),
            None => write!(f, "0x{:08x}", self.word),
        }
    }
}

impl Program {
    /// The index of the instruction at a word of the code.
    pub(crate) fn index_at(&self, word: i64) -> Option<u32> {
        let index = usize::try_from(word).ok().and_then(|word| self.index.get(word)).copied();
        index.filter(|index| *index != u32::MAX)
    }

    /// The address and the name of the instruction that `inst` was decoded from.
    pub(crate) fn place(&self, inst: &Inst) -> (u64, Cow<'static, str>) {
        self.place_of(inst.origin)
    }

    pub(crate) fn place_of(&self, origin: u32) -> (u64, Cow<'static, str>) {
        match self.origins.get(origin as usize) {
            Some((word, Ok(instruction))) => {
                let name = match instruction.opcode_y() {
                    Some(y) => Cow::Owned(format!("{} :: {}", instruction.info().name, y.info().name)),
                    None => Cow::Owned(crate::disasm::mnemonic(instruction)),
                };
                (self.address + 4 * u64::from(*word), name)
            }
            Some((word, Err(unknown))) => (self.address + 4 * u64::from(*word), Cow::Owned(unknown.to_string())),
            None => (self.end, Cow::Borrowed("")),
        }
    }

    /// The instruction that `inst` was decoded from.
    pub(crate) fn instruction(&self, inst: &Inst) -> Option<&Instruction> {
        self.origins.get(inst.origin as usize).and_then(|(_, instruction)| instruction.as_ref().ok())
    }

    /// The address of the instruction that `inst` was decoded from.
    pub(crate) fn address_of(&self, inst: &Inst) -> u64 {
        let word = self.origins.get(inst.origin as usize).map_or(0, |(word, _)| *word);
        self.address + 4 * u64::from(word)
    }
}

/// How products of matrices with results of 16 bits add up 16 products. The documents of the instruction set do not say
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HalfSums {
    /// Two products are added at once, and each such sum is rounded to 16 bits, as by dot products of two.
    #[default]
    Pairs,
    /// All are added as f32 in order, and the sum is rounded to 16 bits once.
    Once,
}

/// How subnormal numbers of a format are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Denormals {
    /// Sources are zero instead.
    pub(crate) flush_sources: bool,
    /// Results are zero instead.
    pub(crate) flush_results: bool,
}

impl Denormals {
    /// By the mode.
    pub(crate) fn of_mode(mode: FloatDenormMode) -> Self {
        Denormals {
            flush_sources: matches!(mode, FloatDenormMode::FLUSH_SOURCE_OUTPUT | FloatDenormMode::FLUSH_SOURCE),
            flush_results: matches!(mode, FloatDenormMode::FLUSH_SOURCE_OUTPUT | FloatDenormMode::FLUSH_OUTPUT),
        }
    }
}

/// Instructions after which a wave yields: it may poll what another wave of its work-group is to store.
pub(crate) const YIELD_AFTER: u64 = 1 << 16;

/// A wave.
pub(crate) struct Wave {
    /// Vector registers, two spare ones, and the constants of the program.
    pub(crate) rows: Box<[Row]>,
    /// Scalar registers by their numbers, a place for dropped results, and the constants of the program.
    pub(crate) scalars: Box<[u32]>,
    /// EXEC as a row.
    pub(crate) exec_row: Row,
    /// Sources that are not registers: up to three of two words.
    pub(crate) temps: [[Row; 2]; 4],
    /// The first source of an instruction with DPP.
    pub(crate) dpp_source: Row,
    pub(crate) scc: bool,
    /// The index of the next instruction.
    pub(crate) next: u32,
    pub(crate) denormals_32: Denormals,
    pub(crate) denormals_16_64: Denormals,
    /// Clamping turns NaN into zero.
    pub(crate) clamp_nan: bool,
    /// Results are not scaled.
    pub(crate) ieee: bool,
    /// Why the wave trapped, and in which lane.
    pub(crate) trap: Option<(TrapKind, Option<u32>)>,
    /// Private memory of all lanes; each lane has `scratch_stride` bytes.
    pub(crate) scratch: Vec<u8>,
    pub(crate) scratch_stride: u32,
    /// Instructions executed.
    pub(crate) executed: u64,
    /// How many it executes until it yields at a jump back, or has reached the limit.
    pub(crate) yields_after: u64,
    /// The number of the wave in its work-group.
    pub(crate) index: u32,
}

/// The state that the waves of a work-group share.
pub(crate) struct Group<'a> {
    pub(crate) program: &'a Program,
    /// The memory of the work-group.
    pub(crate) local: Vec<u8>,
    pub(crate) port: Port<'a>,
    pub(crate) half_sums: HalfSums,
    /// The sanitizer.
    pub(crate) hook: Option<Box<dyn GroupHook + 'a>>,
    pub(crate) stop: &'a Stop,
    /// Instructions that a wave may execute.
    pub(crate) limit: u64,
}

impl Wave {
    #[inline(always)]
    pub(crate) fn exec(&self) -> Mask {
        self.scalars[EXEC as usize]
    }

    #[inline(always)]
    pub(crate) fn set_exec(&mut self, mask: Mask) {
        self.scalars[EXEC as usize] = mask;
        self.exec_row = Row::of_mask(mask);
    }

    #[inline(always)]
    pub(crate) fn set_exec_pair(&mut self, mask: u64) {
        self.set_exec(mask as u32);
        self.scalars[EXEC as usize + 1] = (mask >> 32) as u32;
    }

    #[inline(always)]
    pub(crate) fn set_scalar(&mut self, number: u16, value: u32) {
        self.scalars[usize::from(number)] = value;
        if u32::from(number) == EXEC {
            self.exec_row = Row::of_mask(value);
        }
    }

    pub(crate) fn vcc(&self) -> Mask {
        self.scalars[VCC as usize]
    }

    /// Whether a jump that can make a kernel run for ever goes on at once.
    #[inline(always)]
    pub(crate) fn may_jump(&self, group: &Group<'_>) -> bool {
        !group.stop.requested() && self.executed <= self.yields_after
    }

    /// The next step of a wave that may not go on at once after a jump.
    #[cold]
    pub(crate) fn paused(&mut self, group: &Group<'_>) -> Next {
        if group.stop.requested() || self.executed > group.limit {
            return self.trapped(TrapKind::Stopped, None);
        }
        self.yields_after = self.executed.saturating_add(YIELD_AFTER).min(group.limit);
        Next::Yield
    }

    /// Notes a trap.
    #[cold]
    pub(crate) fn trapped(&mut self, kind: TrapKind, lane: Option<u32>) -> Next {
        self.trap = Some((kind, lane));
        Next::Trap
    }
}
