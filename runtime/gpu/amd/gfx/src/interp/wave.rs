//! The state of a wave and of its work-group.

use vireo_hsa::kernel_descriptor::FloatDenormMode;
use vireo_simt::{GroupHook, Mask, Port, Row, Stop, TrapKind};

use super::Next;
use super::kernel::HalfSums;
use crate::isa::operands::{EXEC, VCC};
use crate::program::Program;

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

    /// What happens after a jump of a wave that may not go on at once.
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
