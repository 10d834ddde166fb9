//! Launches: what an owner gives a kernel to run, and the grid of blocks over cores.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use vireo_simt::grid::{Residency, Resident, run_resident};
use vireo_simt::group::{BARRIERS, Round, Waves};
use vireo_simt::paths::{Parked, Paths};
use vireo_simt::{AccessHook, LANES, Memory, Pool, Port, Row, Stop};

use crate::generated::limits::{BLOCK_THREADS, SHARED_BYTES};
use crate::machine::{Block, Constant, Matrices, Print, Program, TRUE, Votes, Warp};
use crate::module::Kernel;
use crate::trap::{Trap, TrapDetails, TrapKind, Waiting};

/// A launch of a kernel.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of shared memory beside those that the kernel declares.
    pub shared_bytes: u32,
    /// The values of the parameters as [`Kernel::parameters`] lays them out.
    pub params: &'a [u8],
    /// The address of each variable of [`crate::Module::globals`], in their order. The owner has allocated and filled
    /// them.
    pub globals: &'a [u64],
    /// Device memory. No allocation is at or above [`crate::limits::SHARED_WINDOW`].
    pub memory: &'a dyn Memory,
    /// The sanitizer, which is shown accesses to global and shared memory. Instructions have the numbers of
    /// [`Kernel::line`].
    pub hook: Option<&'a dyn AccessHook>,
    /// Ends the launch with [`TrapKind::Stopped`] soon after it is requested. A trap requests it, too.
    pub stop: &'a Stop,
    /// Blocks that are alive at most, so that one that polls what another one is to write lets that one run. All
    /// blocks of a cooperative launch are.
    pub resident: u64,
    /// Whether any block may wait for any other one, as at a barrier of the grid.
    pub is_cooperative: bool,
    /// The address of the workspace of a cooperative launch, [`crate::limits::WORKSPACE_BYTES`] of which the first word
    /// has their number and the others are zero.
    pub workspace: u64,
    /// Takes the text that a lane prints, a call at a time for each; a kernel that prints fails if there is none.
    pub print: Option<Print<'a>>,
    /// Instructions that a warp may execute.
    pub limit: u64,
    /// The number of the launch, for the register of this name.
    pub grid_id: u64,
    /// The most threads of the host that run blocks.
    pub threads: NonZeroUsize,
    /// Where those are from, but for the calling one.
    pub pool: &'a Pool,
}

impl<'a> Launch<'a> {
    /// A launch whose blocks run one after another on the calling thread, without parameters, variables, a sanitizer, a
    /// limit or shared memory beside that of the kernel.
    pub fn new(grid: [u32; 3], block: [u32; 3], memory: &'a dyn Memory, stop: &'a Stop, pool: &'a Pool) -> Self {
        Launch {
            grid,
            block,
            shared_bytes: 0,
            params: &[],
            globals: &[],
            memory,
            hook: None,
            stop,
            resident: 1,
            is_cooperative: false,
            workspace: 0,
            print: None,
            limit: u64::MAX,
            grid_id: 1,
            threads: NonZeroUsize::MIN,
            pool,
        }
    }
}

/// Where an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionLine<'a> {
    /// The number of the text, among those that were linked.
    pub text: usize,
    /// The line of the text; zero for what the text has none for.
    pub line: u32,
    /// The opcode with its suffixes.
    pub opcode: &'a str,
    /// The file and the line of the source, where the text says so.
    pub source: Option<(&'a str, u32)>,
}

/// Bytes of local memory of all threads of a block at most.
const MOST_LOCAL: u64 = 1 << 29;

/// Bytes of all blocks that are alive at most.
pub const MOST_RESIDENT: u64 = 1 << 30;

/// Turns of a block that only polls after which others of a launch that is not cooperative have one.
const PATIENCE: u32 = 16;

impl Kernel {
    fn trap(&self, trap: vireo_simt::Trap, size: [u32; 3]) -> Trap {
        let found = self.line(trap.address).filter(|_| trap.lane.is_some());
        let flat = trap.wave * LANES as u32 + trap.lane.unwrap_or_default();
        let source = found.as_ref().and_then(|found| found.source);
        let [x, y] = [size[0].max(1), size[1].max(1)];
        Trap {
            kind: trap.kind,
            kernel: self.name.clone(),
            line: found.as_ref().map_or(0, |found| found.line),
            instruction: found.as_ref().map_or("", |found| found.opcode).to_string(),
            block: trap.group,
            thread: [flat % x, flat / x % y, flat / x / y],
            details: Box::new(TrapDetails {
                source: source.map(|(file, line)| format!("{file}:{line}")),
                waits: Vec::new(),
            }),
        }
    }

    /// The threads of a warp that wait for others.
    fn waits(&self, warp: &Warp, block: &Block<'_>) -> Vec<Waiting> {
        let parked = warp.paths.others().iter().filter(|path| path.parked.is_some());
        let waiting = parked.map(|path| {
            // Behind a barrier a path goes on at the next instruction.
            let (barrier, before) = match path.parked {
                Some(Parked::Barrier(arrival)) => (Some(arrival.barrier), 1),
                _ => (None, 0),
            };
            let found = self.line(u64::from(path.pc) - before);
            let (line, instruction) = found.map_or((0, ""), |found| (found.line, found.opcode));
            let thread = block.thread(warp.index, path.mask.trailing_zeros() & 31);
            Waiting { line, instruction: instruction.to_string(), barrier, thread, count: path.mask.count_ones() }
        });
        waiting.collect()
    }

    /// Where an instruction is, by the number that a sanitizer is shown.
    pub fn line(&self, instruction: u64) -> Option<InstructionLine<'_>> {
        let index = usize::try_from(instruction).ok()?;
        let origin = self.program.origins.get(index)?;
        let source =
            origin.source.and_then(|(file, line)| Some((self.program.files.get(file as usize)?.as_str(), line)));
        let opcode = self.program.names.get(origin.name as usize)?;
        Some(InstructionLine { text: origin.text as usize, line: origin.line, opcode, source })
    }

    /// Bytes that a block of so many threads, with so many bytes of shared memory beside those that the kernel
    /// declares, needs while it is alive.
    pub fn block_bytes(&self, threads: u64, shared_bytes: u32) -> u64 {
        let Program { rows, predicates, constants, local_bytes, .. } = &*self.program;
        let rows = u64::from(*rows) + constants.len() as u64 + 1;
        let warp = rows * size_of::<Row>() as u64
            + u64::from(*predicates) * 4
            + u64::from(*local_bytes) * LANES as u64
            + size_of::<Warp>() as u64;
        let shared = u64::from(self.shared_bytes) + u64::from(shared_bytes);
        threads.div_ceil(LANES as u64) * warp + shared + (size_of::<Block<'_>>() + size_of::<Matrices>()) as u64
    }

    /// Runs a launch to its end, and returns how many instructions its warps executed.
    ///
    /// # Errors
    /// The first trap of a thread, or why the launch cannot be run.
    pub fn launch(&self, launch: &Launch<'_>) -> Result<u64, Trap> {
        let refuse =
            |what: String| Err(self.trap(vireo_simt::Trap::new(TrapKind::InvalidDispatch(what.into())), launch.block));
        let threads = launch.block.iter().map(|size| u64::from(*size)).product::<u64>();
        let most = u64::from(self.max_threads.min(BLOCK_THREADS));
        if threads == 0 || threads > most {
            return refuse(format!("a block of {threads} threads: expected 1 to {most}"));
        }
        if let Some(required) = self.required_threads
            && required != launch.block
        {
            return refuse(format!("a block of {:?} threads: expected {required:?}", launch.block));
        }
        let shared = u64::from(self.shared_bytes) + u64::from(launch.shared_bytes);
        if shared > u64::from(SHARED_BYTES) {
            return refuse(format!("{shared} bytes of shared memory: expected {SHARED_BYTES} at most"));
        }
        if launch.params.len() < self.parameter_bytes as usize {
            let (have, wanted) = (launch.params.len(), self.parameter_bytes);
            return refuse(format!("{have} bytes of parameters: expected {wanted}"));
        }
        let local = u64::from(self.program.local_bytes) * threads.next_multiple_of(LANES as u64);
        if local > MOST_LOCAL {
            return refuse(format!("{local} bytes of local memory: expected {MOST_LOCAL} at most"));
        }
        let Some(constants) = constants(&self.program, launch) else {
            return refuse(format!("{} addresses of variables are too few", launch.globals.len()));
        };
        let blocks = launch.grid.iter().fold(1, |blocks: u64, size| blocks.saturating_mul((*size).into()));
        let bytes = self.block_bytes(threads, launch.shared_bytes);
        let residency = if launch.is_cooperative {
            if blocks.saturating_mul(bytes) > MOST_RESIDENT {
                return refuse(format!("{blocks} blocks of {bytes} bytes: expected {MOST_RESIDENT} together at most"));
            }
            Residency { most: blocks, patience: 0 }
        } else {
            Residency { most: launch.resident.min(MOST_RESIDENT / bytes), patience: PATIENCE }
        };
        let (executed, waits) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        let started = std::time::Instant::now();
        let result = run_resident(launch.grid, launch.threads, residency, launch.pool, launch.stop, || Worker {
            kernel: self,
            launch,
            constants: &constants,
            threads: threads as u32,
            started,
            executed: &executed,
            waits: &waits,
        });
        match result {
            Ok(()) => Ok(executed.into_inner()),
            Err(trap) => {
                let mut trap = self.trap(trap, launch.block);
                trap.details.waits = waits.into_inner().unwrap_or_else(PoisonError::into_inner);
                Err(trap)
            }
        }
    }
}

/// The rows of values that are the same in all lanes; none if a variable has no address.
fn constants(program: &Program, launch: &Launch<'_>) -> Option<Vec<Row>> {
    let address = |index: usize, offset: i64| Some(launch.globals.get(index)?.wrapping_add(offset as u64));
    let word = |constant: &Constant| {
        Some(match constant {
            Constant::Word(word) => *word,
            Constant::Low(index, offset) => address(*index, *offset)? as u32,
            Constant::High(index, offset) => (address(*index, *offset)? >> 32) as u32,
            Constant::Parameter(offset) => {
                let bytes = launch.params.get(*offset as usize..)?.get(..4)?;
                u32::from_le_bytes(bytes.try_into().ok()?)
            }
        })
    };
    program.constants.iter().map(|constant| word(constant).map(Row::splat)).collect()
}

/// Runs the blocks of a thread of the host.
struct Worker<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    constants: &'a [Row],
    threads: u32,
    started: std::time::Instant,
    /// Instructions of all warps.
    executed: &'a AtomicU64,
    /// The threads that wait for each other, after a deadlock.
    waits: &'a Mutex<Vec<Waiting>>,
}

/// A block and its warps, between their turns.
struct Alive<'a> {
    block: Block<'a>,
    warps: Vec<Warp>,
    waves: Waves,
}

impl<'a> Worker<'a> {
    fn block(&self) -> Box<Alive<'a>> {
        let Worker { kernel, launch, constants, .. } = self;
        let block = Block {
            program: &kernel.program,
            shared: vec![0; (kernel.shared_bytes + launch.shared_bytes) as usize],
            port: Port::new(launch.memory),
            params: &launch.params[..kernel.parameter_bytes as usize],
            hook: None,
            stop: launch.stop,
            limit: launch.limit,
            grid: launch.grid,
            size: launch.block,
            number: [0; 3],
            grid_id: launch.grid_id,
            workspace: launch.workspace,
            print: launch.print,
            dynamic_bytes: launch.shared_bytes,
            votes: [[Votes::default(); 2]; BARRIERS],
            arrived: [0; BARRIERS],
            generations: [0; BARRIERS],
            of_all: [false; BARRIERS],
            matrices: Box::default(),
            live: 0,
            started: self.started,
        };
        let count = self.threads.div_ceil(LANES as u32);
        let warps = (0..count).map(|index| warp(&block, index, constants)).collect();
        Box::new(Alive { block, warps, waves: Waves::new(count as usize, true) })
    }
}

impl<'a> Resident for Worker<'a> {
    type Group = Box<Alive<'a>>;

    fn start(&mut self, number: [u32; 3], storage: Option<Self::Group>) -> Result<Self::Group, vireo_simt::Trap> {
        let mut group = storage.unwrap_or_else(|| self.block());
        let Alive { block, warps, waves } = &mut *group;
        block.number = number;
        block.shared.fill(0);
        // Votes are told apart by their generations, which go on from block to block.
        block.arrived = [0; BARRIERS];
        block.of_all = [false; BARRIERS];
        block.live = warps.len() as u32;
        block.hook = self.launch.hook.map(|hook| hook.start_group(number, block.shared.len() as u32));
        for warp in warps.iter_mut() {
            let first = warp.index * LANES as u32;
            let count = self.threads.saturating_sub(first).min(LANES as u32);
            let mask = if count == LANES as u32 { u32::MAX } else { (1 << count) - 1 };
            warp.start(block.program, mask);
        }
        waves.restart();
        Ok(group)
    }

    fn round(&mut self, group: &mut Self::Group) -> Result<Round, vireo_simt::Trap> {
        let Alive { block, warps, waves } = &mut **group;
        let number = block.number;
        let round = waves
            .round(|index| {
                let pause = warps[index].run(block);
                pause.map_err(|trap| vireo_simt::Trap { group: number, wave: index as u32, ..trap })
            })
            .map_err(|trap| {
                if matches!(trap.kind, TrapKind::Deadlock | TrapKind::InvalidOperand(_)) {
                    let waiting = warps.iter().flat_map(|warp| self.kernel.waits(warp, block)).collect();
                    *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = waiting;
                }
                let waits = warps.get(trap.wave as usize).and_then(Warp::waits_at).filter(|_| trap.lane.is_none());
                let (address, lane) = waits.map_or((trap.address, trap.lane), |(address, lane)| (address, Some(lane)));
                vireo_simt::Trap { group: number, address, lane, ..trap }
            })?;
        if round == Round::Ended {
            if let Some(hook) = &mut block.hook {
                hook.end(&block.shared);
            }
            self.executed.fetch_add(warps.iter().map(|warp| warp.executed).sum(), Ordering::Relaxed);
        }
        Ok(round)
    }
}

/// The numbers of the threads of a warp along each axis.
fn threads(block: &Block<'_>, warp: u32) -> [Row; 3] {
    let (mut rows, mut at) = ([Row::ZERO; 3], block.thread(warp, 0));
    for lane in 0..LANES {
        for (row, at) in rows.iter_mut().zip(at) {
            row.0[lane] = at;
        }
        // A count goes on without the divisions of each thread.
        at[0] += 1;
        for axis in 0..2 {
            if at[axis] == block.size[axis] {
                at[axis] = 0;
                at[axis + 1] += 1;
            }
        }
    }
    rows
}

fn warp(block: &Block<'_>, index: u32, constants: &[Row]) -> Warp {
    let program = block.program;
    let mut rows = vec![Row::ZERO; program.rows as usize];
    rows.extend(constants);
    // The upper row of a pair may be read where only the lower one is wanted.
    rows.push(Row::ZERO);
    Warp {
        rows: rows.into(),
        predicates: vec![0; program.predicates as usize].into(),
        mask: 0,
        select: Row::ZERO,
        paths: Paths::new(0, program.start),
        local: vec![0; program.local_bytes as usize * LANES],
        local_stride: program.local_bytes,
        index,
        threads: threads(block, index),
        executed: 0,
        phases: [0; BARRIERS],
        trap: None,
        divergence: None,
    }
}

impl Warp {
    /// Sets a warp up for a block.
    fn start(&mut self, program: &Program, mask: u32) {
        self.rows[..program.rows as usize].fill(Row::ZERO);
        self.predicates.fill(0);
        self.predicates[usize::from(TRUE)] = u32::MAX;
        self.local.fill(0);
        self.paths = Paths::new(mask, program.start);
        (self.executed, self.phases, self.trap, self.divergence) = (0, [0; BARRIERS], None, None);
    }
}
