//! The state of warps and blocks, and programs as they are executed.

use vireo_simt::group::BARRIERS;
use vireo_simt::paths::Paths;
use vireo_simt::{GroupHook, LANES, Mask, Port, Row, Stop, TrapKind};

/// Takes texts that lanes print.
pub type Print<'a> = &'a (dyn Fn(&[u8]) + Sync);

/// The next step of a warp after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next instruction of the path.
    Continue,
    /// The paths have changed.
    Switch,
    /// Another path or warp has a turn.
    Yield,
    /// The warp has trapped, and noted why.
    Trap,
}

/// Executes an instruction of a warp.
///
/// # Safety
/// The processor must have the features that the handler was compiled for; `handlers` returns only such.
pub(crate) type Handler = unsafe fn(&mut Warp, &mut Block<'_>, &Inst) -> Next;

/// A predicate or row that is not there.
pub(crate) const NONE: u16 = u16::MAX;

/// A decoded instruction. Long loops read more of these than a cache of the processor holds, so they have what handlers
/// need and nothing else, and two are in a line of a cache.
#[derive(Clone, Debug)]
#[repr(align(32))]
pub(crate) struct Inst {
    pub(crate) handler: Handler,
    /// The rows of sources, or the numbers of predicates.
    pub(crate) sources: [u16; 4],
    pub(crate) result: u16,
    /// A second result, which is a predicate.
    pub(crate) result2: u16,
    /// A number for the handler: the target of a jump, or a space and type.
    pub(crate) number: u32,
    /// An offset in memory, or the place of a list of rows.
    pub(crate) offset: i64,
}

const _: () = assert!(size_of::<Inst>() == 32, "two instructions are in a line of a cache");

/// A value that is the same in all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Constant {
    /// A word.
    Word(u32),
    /// The lower word of the address of a variable plus a number.
    Low(usize, i64),
    /// The upper word.
    High(usize, i64),
    /// A word of the parameters.
    Parameter(u32),
}

/// A kernel with the functions that it calls.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) insts: Vec<Inst>,
    /// Where it begins.
    pub(crate) start: u32,
    /// Rows of registers.
    pub(crate) rows: u32,
    /// Predicates; the first ones have fixed meanings.
    pub(crate) predicates: u32,
    /// Rows after those of registers.
    pub(crate) constants: Vec<Constant>,
    /// Lists of rows.
    pub(crate) lists: Vec<u16>,
    /// The texts of opcodes.
    pub(crate) names: Vec<String>,
    /// Where each instruction is from.
    pub(crate) origins: Vec<Origin>,
    /// The names of files of sources.
    pub(crate) files: Vec<String>,
    /// Bytes of local memory of a thread.
    pub(crate) local_bytes: u32,
    /// Bytes of shared memory that the text declares.
    pub(crate) shared_bytes: u32,
}

/// Where an instruction is from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The number of its text, among those that were linked.
    pub(crate) text: u32,
    /// The line of the text.
    pub(crate) line: u32,
    /// The number of the text of the opcode.
    pub(crate) name: u32,
    /// The index of the file and the line of the source, if the text says so.
    pub(crate) source: Option<(u32, u32)>,
}

/// The predicate of a carry.
pub(crate) const CARRY: u16 = 0;
/// A predicate that is always true.
pub(crate) const TRUE: u16 = 1;
/// A predicate that is always false.
pub(crate) const FALSE: u16 = 2;
/// A predicate that is never read.
pub(crate) const DROPPED: u16 = 3;
/// The first one that is a register.
pub(crate) const FIRST_PREDICATE: u16 = 4;

/// A warp.
pub(crate) struct Warp {
    /// Registers, and the constants of the program.
    pub(crate) rows: Box<[Row]>,
    /// Predicates, a bit for each lane.
    pub(crate) predicates: Box<[Mask]>,
    /// The lanes that execute an instruction.
    pub(crate) mask: Mask,
    /// The same as a row.
    pub(crate) select: Row,
    pub(crate) paths: Paths,
    /// Memory of all lanes; each lane has `local_stride` bytes.
    pub(crate) local: Vec<u8>,
    pub(crate) local_stride: u32,
    /// The number of the warp in its block.
    pub(crate) index: u32,
    /// The numbers of its threads in the block.
    pub(crate) threads: [Row; 3],
    /// Instructions executed.
    pub(crate) executed: u64,
    /// How often the warp has arrived at each barrier with a value.
    pub(crate) phases: [u32; BARRIERS],
    /// Why the warp trapped, and in which lane.
    pub(crate) trap: Option<(TrapKind, Option<u32>)>,
    /// A barrier that lanes were at while others were elsewhere, and those, for the sanitizer.
    pub(crate) divergence: Option<(u32, Mask)>,
}

impl Warp {
    #[inline(always)]
    pub(crate) fn set_mask(&mut self, mask: Mask) {
        self.mask = mask;
        self.select = Row::of_mask(mask);
    }

    /// Notes a trap.
    #[cold]
    pub(crate) fn trapped(&mut self, kind: TrapKind, lane: Option<u32>) -> Next {
        self.trap = Some((kind, lane));
        Next::Trap
    }

    /// Writes a row in the lanes that execute an instruction.
    #[inline(always)]
    pub(crate) fn put(&mut self, result: u16, row: &Row) {
        let Warp { rows, select, mask, .. } = self;
        let target = &mut rows[usize::from(result)];
        if *mask == Mask::MAX { *target = *row } else { target.blend(row, select) }
    }

    /// Writes a predicate in these lanes.
    #[inline(always)]
    pub(crate) fn put_bits(&mut self, result: u16, bits: Mask) {
        let target = &mut self.predicates[usize::from(result)];
        *target = (bits & self.mask) | (*target & !self.mask);
    }

    #[inline(always)]
    pub(crate) fn row(&self, source: u16) -> &Row {
        &self.rows[usize::from(source)]
    }

    #[inline(always)]
    pub(crate) fn bits(&self, source: u16) -> Mask {
        self.predicates[usize::from(source)]
    }
}

/// The values that warps bring to a barrier.
#[derive(Clone, Copy, Default)]
pub(crate) struct Votes {
    pub(crate) phase: u32,
    pub(crate) count: u32,
    pub(crate) all: bool,
}

/// The values of two matrices, which a product writes before it reads them. Vectors of them are in one line of a cache.
#[derive(Default)]
#[repr(align(64))]
#[cfg_attr(any(not(target_arch = "x86_64"), miri), expect(dead_code, reason = "other processors have no such product"))]
pub(crate) struct Matrices {
    /// Lines of the first one.
    pub(crate) lines: [[f64; 16]; 16],
    /// Lines of the second one.
    pub(crate) columns: [[f64; 8]; 16],
}

/// The state that the warps of a block share.
pub(crate) struct Block<'a> {
    pub(crate) program: &'a Program,
    /// Shared memory.
    pub(crate) shared: Vec<u8>,
    pub(crate) port: Port<'a>,
    pub(crate) params: &'a [u8],
    /// The sanitizer.
    pub(crate) hook: Option<Box<dyn GroupHook + 'a>>,
    pub(crate) stop: &'a Stop,
    /// Instructions that a warp may execute.
    pub(crate) limit: u64,
    pub(crate) grid: [u32; 3],
    pub(crate) size: [u32; 3],
    pub(crate) number: [u32; 3],
    pub(crate) grid_id: u64,
    /// The address of the memory where the blocks of a cooperative launch meet.
    pub(crate) workspace: u64,
    /// Takes the texts that lanes print.
    pub(crate) print: Option<Print<'a>>,
    pub(crate) dynamic_bytes: u32,
    /// Values at barriers, of two phases.
    pub(crate) votes: [[Votes; 2]; BARRIERS],
    /// Warps that have arrived at each barrier, how often it was complete, and whether it is of all warps.
    pub(crate) arrived: [u32; BARRIERS],
    pub(crate) generations: [u32; BARRIERS],
    pub(crate) of_all: [bool; BARRIERS],
    /// Values of matrices while they are multiplied.
    pub(crate) matrices: Box<Matrices>,
    /// Warps that have not ended.
    pub(crate) live: u32,
    pub(crate) started: std::time::Instant,
}

impl Block<'_> {
    /// The number of a lane's thread.
    pub(crate) fn thread(&self, warp: u32, lane: u32) -> [u32; 3] {
        let flat = warp * LANES as u32 + lane;
        let [x, y, _] = self.size;
        [flat % x, flat / x % y, flat / x / y]
    }
}
