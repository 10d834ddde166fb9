//! Dispatches: the initial state of waves by the kernel descriptor, and grids of work-groups over cores.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use vireo_hsa::kernel_descriptor::{FloatRoundMode, KernelDescriptor, WorkitemIdVgprs};
use vireo_simt::group::{self, Arrival, Pause};
use vireo_simt::{AccessHook, LANES, Mask, Memory, Pool, Port, Row, Stop, Trap, TrapKind, grid};

use crate::counters::{self, Counts};
use crate::isa::limits::{VECTOR_GRANULE, WORK_GROUP_BYTES, WORK_GROUP_ITEMS};
use crate::isa::operands::VECTOR_REGISTERS;
use crate::machine::{Denormals, FIRST_CONSTANT, Group, HalfSums, Next, Program, Wave, YIELD_AFTER};

/// The most bytes of private memory of a work-item.
const MOST_SCRATCH: u32 = 1 << 20;

/// The values that scalar registers of a kernel may have when it starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelRegisters {
    /// The address of the dispatch packet.
    pub dispatch_packet: u64,
    /// The address of the queue.
    pub queue: u64,
    /// The address of the arguments.
    pub kernarg: u64,
    /// The number of the packet in its queue.
    pub dispatch_id: u64,
}

/// A dispatch of a kernel.
#[derive(Clone, Copy)]
pub struct GridDispatch<'a> {
    /// The code.
    pub program: &'a Program,
    /// The descriptor of the kernel.
    pub descriptor: &'a KernelDescriptor,
    /// The first values of its scalar registers.
    pub registers: KernelRegisters,
    /// Work-items of the grid.
    pub grid: [u32; 3],
    /// Work-items of a work-group.
    pub work_group: [u16; 3],
    /// Bytes of memory of a work-group.
    pub local_bytes: u32,
    /// Bytes of private memory of a work-item.
    pub scratch_bytes: u32,
    /// Device memory.
    pub memory: &'a dyn Memory,
    /// How products of matrices add up 16 bits.
    pub half_sums: HalfSums,
    /// The sanitizer.
    pub hook: Option<&'a dyn AccessHook>,
    /// Stops the dispatch.
    pub stop: &'a Stop,
    /// Instructions that a wave may execute.
    pub limit: u64,
    /// The most threads that run work-groups.
    pub threads: NonZeroUsize,
    /// Where those are from, but for the calling one.
    pub pool: &'a Pool,
}

/// How many vector registers a wave of a kernel has.
pub fn vector_registers(descriptor: &KernelDescriptor) -> u32 {
    VECTOR_GRANULE * (u32::from(descriptor.compute_pgm_rsrc1.granulated_workitem_vgpr_count()) + 1)
}

fn refuse(what: impl Into<Cow<'static, str>>) -> Trap {
    Trap::new(TrapKind::InvalidDispatch(what.into()))
}

/// Runs a dispatch to its end, and returns how many instructions its waves executed.
///
/// # Errors
/// The first trap of a wave, or why the dispatch cannot be run.
pub fn run(dispatch: &GridDispatch<'_>) -> Result<u64, Trap> {
    let executed = AtomicU64::new(0);
    run_groups(dispatch, |mut worker| {
        let executed = &executed;
        move |work_group| {
            executed.fetch_add(worker.run(work_group, &mut ())?, Ordering::Relaxed);
            Ok(())
        }
    })?;
    Ok(executed.into_inner())
}

/// Runs a dispatch to its end, and returns what its waves executed. Its program is one of [`Program::decode_counted`].
///
/// # Errors
/// As [`run`].
pub fn run_counted(dispatch: &GridDispatch<'_>) -> Result<Counts, Trap> {
    let Some(sets) = &dispatch.program.counters else {
        return Err(refuse("a program that was not decoded for counters"));
    };
    let counts = Mutex::new(Counts::default());
    run_groups(dispatch, |mut worker| {
        let (counts, mut visits) = (&counts, vec![0; sets.len()]);
        move |work_group| {
            worker.run(work_group, &mut visits)?;
            let mut of_group = Counts::default();
            of_group.add(counters::of_waves(), worker.waves.len() as u64);
            for (set, visits) in sets.iter().zip(&mut visits) {
                of_group.add(*set, std::mem::take(visits));
            }
            counts.lock().unwrap_or_else(PoisonError::into_inner).merge(&of_group);
            Ok(())
        }
    })?;
    Ok(counts.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Runs work-groups by the function that `start` makes of the worker of each thread.
fn run_groups<'a, F>(dispatch: &'a GridDispatch<'a>, start: impl Fn(Worker<'a>) -> F + Sync) -> Result<(), Trap>
where
    F: FnMut([u32; 3]) -> Result<(), Trap>,
{
    let size = dispatch.work_group.map(u32::from);
    // Three factors of 16 bits fit.
    let items = size.iter().map(|size| u64::from(*size)).product::<u64>();
    if items == 0 || items > u64::from(WORK_GROUP_ITEMS) {
        return Err(refuse(format!("a work-group of {items} work-items")));
    }
    if dispatch.local_bytes > WORK_GROUP_BYTES || dispatch.scratch_bytes > MOST_SCRATCH {
        let (local, scratch) = (dispatch.local_bytes, dispatch.scratch_bytes);
        return Err(refuse(format!("{local} bytes for a work-group and {scratch} bytes for a work-item")));
    }
    let (rsrc1, properties) = (dispatch.descriptor.compute_pgm_rsrc1, dispatch.descriptor.kernel_code_properties);
    if !properties.enable_wavefront_size32() {
        return Err(refuse("waves of 64 lanes"));
    }
    let rounding = [rsrc1.float_round_mode_32(), rsrc1.float_round_mode_16_64()];
    if rounding != [FloatRoundMode::NEAREST_EVEN; 2] {
        return Err(refuse("rounding other than to nearest"));
    }
    if rsrc1.fp16_overflow() {
        return Err(refuse("16-bit results that are limited to the largest number"));
    }
    if dispatch.descriptor.compute_pgm_rsrc2.enable_sgpr_workgroup_info() {
        return Err(refuse("a scalar register for the waves of the work-group"));
    }
    if dispatch.program.vectors != vector_registers(dispatch.descriptor).min(VECTOR_REGISTERS) {
        return Err(refuse("a program that was decoded for another number of registers"));
    }
    let groups = std::array::from_fn(|axis| dispatch.grid[axis].div_ceil(size[axis]));
    let user = user_registers(dispatch)?;
    grid::run(groups, dispatch.threads, dispatch.pool, dispatch.stop, || {
        start(Worker::new(dispatch, items as u32, user.clone()))
    })
}

/// Learns which instructions of a program a wave executes.
pub(crate) trait Visits {
    /// The instruction with this index is executed.
    fn visit(&mut self, index: u32);
}

/// Nothing is counted.
impl Visits for () {
    #[inline(always)]
    fn visit(&mut self, _: u32) {}
}

/// How often each instruction was executed.
impl Visits for Vec<u64> {
    fn visit(&mut self, index: u32) {
        self[index as usize] += 1;
    }
}

/// Runs work-groups one after another, in the same memory.
struct Worker<'a> {
    dispatch: &'a GridDispatch<'a>,
    group: Group<'a>,
    waves: Vec<Wave>,
    /// The first state of each wave, in every work-group.
    first: Vec<First>,
    user: Vec<u32>,
}

/// The work-items of a wave.
struct First {
    /// Their numbers in the work-group.
    items: [[u32; 3]; LANES],
    /// The lanes that have one.
    present: Mask,
    /// The content of the first vector register.
    packed: Row,
}

impl First {
    fn new(dispatch: &GridDispatch<'_>, wave: usize) -> Self {
        let size = dispatch.work_group.map(u32::from);
        let mut first = First { items: [[0; 3]; LANES], present: 0, packed: Row::ZERO };
        for lane in 0..LANES {
            let flat = (wave * LANES + lane) as u32;
            let [x, y, z] = [flat % size[0], flat / size[0] % size[1], flat / size[0] / size[1]];
            first.items[lane] = [x, y, z];
            first.present |= u32::from(z < size[2]) << lane;
            first.packed.0[lane] = match dispatch.descriptor.compute_pgm_rsrc2.enable_vgpr_workitem_id() {
                WorkitemIdVgprs::X => x,
                WorkitemIdVgprs::X_Y => x | y << 10,
                _ => x | y << 10 | z << 20,
            };
        }
        first
    }

    /// The lanes whose work-items are in the grid.
    fn inside(&self, dispatch: &GridDispatch<'_>, work_group: [u32; 3]) -> Mask {
        // How many work-items of the work-group are inside; none of them if it begins after the grid.
        let left: [u64; 3] = std::array::from_fn(|axis| {
            let start = u64::from(work_group[axis]) * u64::from(dispatch.work_group[axis]);
            u64::from(dispatch.grid[axis]).saturating_sub(start)
        });
        if (0..3).all(|axis| left[axis] >= u64::from(dispatch.work_group[axis])) {
            return self.present;
        }
        let inside = |lane: usize| (0..3).all(|axis| u64::from(self.items[lane][axis]) < left[axis]);
        (0..LANES).fold(0, |mask, lane| mask | u32::from(inside(lane)) << lane) & self.present
    }
}

impl<'a> Worker<'a> {
    fn new(dispatch: &'a GridDispatch<'a>, items: u32, user: Vec<u32>) -> Self {
        let group = Group {
            program: dispatch.program,
            local: vec![0; dispatch.local_bytes as usize],
            port: Port::new(dispatch.memory),
            half_sums: dispatch.half_sums,
            hook: None,
            stop: dispatch.stop,
            limit: dispatch.limit,
        };
        let count = items.div_ceil(LANES as u32) as usize;
        let waves = (0..count).map(|_| Wave::new(dispatch.program, dispatch.scratch_bytes)).collect();
        let first = (0..count).map(|wave| First::new(dispatch, wave)).collect();
        Worker { dispatch, group, waves, first, user }
    }

    fn run(&mut self, work_group: [u32; 3], visits: &mut impl Visits) -> Result<u64, Trap> {
        self.group.local.fill(0);
        self.group.hook = self.dispatch.hook.map(|hook| hook.start_group(work_group, self.dispatch.local_bytes));
        for index in 0..self.waves.len() {
            self.start(index, work_group);
        }
        let Worker { group, waves, .. } = self;
        let trap_of = |trap: Trap, wave: usize| Trap { group: work_group, wave: wave as u32, ..trap };
        group::run(waves.len(), true, |index| {
            let pause = waves[index].run(group, visits).map_err(|trap| trap_of(trap, index))?;
            if let (Pause::At(_), Some(hook)) = (pause, &mut group.hook) {
                hook.barrier(index as u32, &group.local);
            }
            Ok(pause)
        })?;
        if let Some(hook) = &mut group.hook {
            hook.end(&group.local);
        }
        Ok(self.waves.iter().map(|wave| wave.executed).sum())
    }

    /// Sets a wave up.
    fn start(&mut self, index: usize, work_group: [u32; 3]) {
        let (dispatch, wave, first) = (self.dispatch, &mut self.waves[index], &self.first[index]);
        wave.reset(dispatch.program);
        wave.yields_after = YIELD_AFTER.min(dispatch.limit);
        wave.index = index as u32;
        wave.set_exec(first.inside(dispatch, work_group));
        if dispatch.program.vectors > 0 {
            wave.rows[0] = first.packed;
        }
        let rsrc2 = dispatch.descriptor.compute_pgm_rsrc2;
        let count = usize::from(rsrc2.user_sgpr_count());
        let user = &self.user[..self.user.len().min(count)];
        wave.scalars[..user.len()].copy_from_slice(user);
        let enabled = [
            rsrc2.enable_sgpr_workgroup_id_x(),
            rsrc2.enable_sgpr_workgroup_id_y(),
            rsrc2.enable_sgpr_workgroup_id_z(),
        ];
        let numbers = work_group.into_iter().zip(enabled).filter(|(_, enabled)| *enabled);
        for (place, (number, _)) in numbers.enumerate() {
            wave.scalars[count + place] = number;
        }
        let rsrc1 = dispatch.descriptor.compute_pgm_rsrc1;
        wave.denormals_32 = Denormals::of_mode(rsrc1.float_denorm_mode_32());
        wave.denormals_16_64 = Denormals::of_mode(rsrc1.float_denorm_mode_16_64());
        wave.clamp_nan = rsrc1.enable_dx10_clamp();
        wave.ieee = rsrc1.enable_ieee_mode();
    }
}

/// The first scalar registers, in their order.
fn user_registers(dispatch: &GridDispatch<'_>) -> Result<Vec<u32>, Trap> {
    let properties = dispatch.descriptor.kernel_code_properties;
    let registers = &dispatch.registers;
    if properties.enable_sgpr_private_segment_buffer() || properties.enable_sgpr_flat_scratch_init() {
        return Err(refuse("scalar registers for the address of private memory, which this architecture has not"));
    }
    let wanted = [
        (properties.enable_sgpr_dispatch_ptr(), registers.dispatch_packet),
        (properties.enable_sgpr_queue_ptr(), registers.queue),
        (properties.enable_sgpr_kernarg_segment_ptr(), registers.kernarg),
        (properties.enable_sgpr_dispatch_id(), registers.dispatch_id),
    ];
    let mut words = Vec::with_capacity(16);
    for (_, value) in wanted.into_iter().filter(|(wanted, _)| *wanted) {
        words.extend([value as u32, (value >> 32) as u32]);
    }
    if properties.enable_sgpr_private_segment_size() {
        words.push(dispatch.scratch_bytes);
    }
    Ok(words)
}

impl Wave {
    pub(crate) fn new(program: &Program, scratch_bytes: u32) -> Self {
        let mut rows = vec![Row::ZERO; program.vectors as usize + 2];
        rows.extend(&program.row_constants);
        let mut scalars = vec![0; usize::from(FIRST_CONSTANT)];
        scalars.extend(&program.scalar_constants);
        Wave {
            rows: rows.into(),
            scalars: scalars.into(),
            exec_row: Row::ZERO,
            temps: [[Row::ZERO; 2]; 4],
            dpp_source: Row::ZERO,
            scc: false,
            next: 0,
            denormals_32: Denormals::default(),
            denormals_16_64: Denormals::default(),
            clamp_nan: false,
            ieee: false,
            trap: None,
            scratch: vec![0; LANES * scratch_bytes as usize],
            scratch_stride: scratch_bytes,
            executed: 0,
            yields_after: 0,
            index: 0,
        }
    }

    /// Zeros the registers and the private memory.
    fn reset(&mut self, program: &Program) {
        self.rows[..program.vectors as usize + 2].fill(Row::ZERO);
        self.scalars[..usize::from(FIRST_CONSTANT)].fill(0);
        self.scratch.fill(0);
        (self.scc, self.next, self.executed, self.trap) = (false, 0, 0, None);
    }

    /// Executes instructions until the wave pauses.
    pub(crate) fn run(&mut self, group: &mut Group<'_>, visits: &mut impl Visits) -> Result<Pause, Trap> {
        let program = group.program;
        loop {
            let Some(inst) = program.insts.get(self.next as usize) else {
                return Err(Trap::new(TrapKind::InvalidAddress));
            };
            visits.visit(self.next);
            self.next += 1;
            self.executed += 1;
            // SAFETY: Programs are decoded with handlers that suit this processor.
            let next = unsafe { (inst.handler)(self, group, inst) };
            match next {
                Next::Continue => {}
                Next::Barrier => return Ok(Pause::At(Arrival::ALL)),
                Next::Yield => return Ok(Pause::Yield),
                Next::End => return Ok(Pause::Ended),
                Next::Trap => {
                    let (kind, lane) = self.trap.take().unwrap_or((TrapKind::UnknownInstruction, None));
                    let (address, instruction) = program.place(inst);
                    return Err(Trap { address, instruction, lane, ..Trap::new(kind) });
                }
            }
        }
    }
}
