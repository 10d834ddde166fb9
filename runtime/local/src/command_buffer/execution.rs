//! Executions of command programs: on one thread, or shared with the workers of an executor. The discipline of local queues calls them.

use std::ops::Range;
use std::time::Instant;

use smallvec::SmallVec;

use super::profile::Estimate;
use super::recording::{Command, Dispatch, LocalCommandProgram, Step};
use crate::hal::deferred::{ResolvedRange, resolve};
use crate::hal::host_kernels::{Arguments, Bindings, Grid, KernelTiming, WorkgroupMemory};
use crate::hal::transfer::check_range;
use crate::hal::{BufferBinding, BufferUsage, buffer_copy, buffer_fill, buffer_read, buffer_write};
use crate::limits::Limits;
use crate::limits::scope::{self, Scope};
use crate::status::{Result, Status};
use crate::task::{Executor, Leader, TiledWork};

/// A program is shared if its shareable work takes this many times the sharing threshold, since waking workers takes time as well.
const MIN_SHAREABLE_RATIO: u64 = 8;
/// Target time of a tile in nanoseconds, so that taking a tile costs little beside running it.
const TARGET_TILE_TIME: u64 = 2_000;
/// Tiles for each thread, so that threads that finish early can steal some.
const TILES_PER_THREAD: u64 = 8;
/// Most tiles of one dispatch.
const MAX_TILES: u64 = 1 << 16;
/// Approximate bytes that a transfer moves in a nanosecond.
const TRANSFER_SPEED: u64 = 8;

/// A command that is ready to run.
struct ReadyCommand<'a> {
    index: usize,
    kind: ReadyCommandKind<'a>,
}

#[expect(clippy::large_enum_variant, reason = "it lives on the stack, next to others of its kind")]
enum ReadyCommandKind<'a> {
    /// One tile.
    Transfer(&'a Command),
    Dispatch(ReadyDispatch<'a>),
}

struct ReadyDispatch<'a> {
    dispatch: &'a Dispatch,
    grid: Grid,
    workgroups: u64,
    /// Workgroups of a tile.
    tile_size: u64,
    bindings: Bindings<'a>,
}

impl ReadyCommand<'_> {
    fn tiles(&self) -> u64 {
        match &self.kind {
            ReadyCommandKind::Transfer(_) => 1,
            ReadyCommandKind::Dispatch(ready) => ready.workgroups.div_ceil(ready.tile_size),
        }
    }

    /// Its expected time on one thread in nanoseconds, if that is known.
    fn time(&self) -> Option<u64> {
        match &self.kind {
            ReadyCommandKind::Transfer(command) => Some(length(command) / TRANSFER_SPEED),
            ReadyCommandKind::Dispatch(ready) => {
                let timing = ready.dispatch.executable.timing(ready.dispatch.function);
                let each = timing.map_or(Some(0), |timing| timing.nanoseconds())?;
                Some(ready.workgroups.saturating_mul(each.into()))
            }
        }
    }
}

/// Executions of a program.
#[derive(Clone, Copy)]
pub(crate) struct Execution<'p>(pub &'p LocalCommandProgram);

impl<'p> Execution<'p> {
    /// Runs all commands, sharing them with the workers of `executor` where that is worth it.
    pub(crate) fn run(&self, table: &[BufferBinding], executor: Option<&Executor>) -> Result<()> {
        let _started = self.limits().and_then(scope::start);
        // Without an executor the times are not used.
        let measured = executor.is_some() && self.0.profile().count(|| self.estimate(executor).is_some());
        let local_memory_limit = executor.and_then(Executor::local_memory_limit);
        let executor = executor.filter(|executor| executor.concurrency() > 1);
        match executor.map(|executor| (executor, self.estimate(Some(executor)))) {
            Some((executor, None)) => self.run_shared(table, executor, measured)?,
            Some((executor, Some(estimate)))
                if estimate.shareable >= MIN_SHAREABLE_RATIO * executor.sharing_threshold() =>
            {
                self.run_shared(table, executor, measured)?;
            }
            _ => {
                for index in 0..self.0.steps().len() {
                    scope::check()?;
                    self.run_step(index, table, local_memory_limit, measured)?;
                }
            }
        }
        if measured && let Some(estimate) = self.compute_estimate(executor) {
            self.0.profile().set(estimate);
        }
        Ok(())
    }

    /// The limits of a run outside of calls, if its kernels have some.
    fn limits(&self) -> Option<&Limits> {
        if scope::is_armed() {
            return None;
        }
        let mut dispatches = self.0.steps().iter().filter_map(|step| match &step.command {
            Command::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        });
        dispatches.next()?.executable.limits()
    }

    /// The expected time of a run on one thread in nanoseconds, if all of its kernels were measured. None without an executor, which is what
    /// uses it.
    pub(crate) fn expected_time(&self, executor: Option<&Executor>) -> Option<u64> {
        executor.and_then(|executor| self.estimate(Some(executor))).map(|estimate| estimate.total)
    }

    /// The estimate, computed once all kernels were measured.
    fn estimate(&self, executor: Option<&Executor>) -> Option<Estimate> {
        self.0.profile().get().or_else(|| {
            let estimate = self.compute_estimate(executor)?;
            self.0.profile().set(estimate);
            Some(estimate)
        })
    }

    /// Adds up the times of the commands; none if a kernel was not measured yet.
    fn compute_estimate(&self, executor: Option<&Executor>) -> Option<Estimate> {
        let threshold = executor.map_or(u64::MAX, Executor::sharing_threshold);
        let mut estimate = Estimate { total: 0, shareable: 0 };
        for group in self.groups() {
            let (mut time, mut tiles) = (0u64, 0u64);
            for step in group.1 {
                let Command::Dispatch(dispatch) = &step.command else {
                    time = time.saturating_add(length(&step.command) / TRANSFER_SPEED);
                    tiles = tiles.saturating_add(1);
                    continue;
                };
                let workgroups = dispatch.grid.workgroups().unwrap_or(u64::MAX);
                let sequential = dispatch.executable.is_sequential(dispatch.function);
                tiles = tiles.saturating_add(if sequential { 1 } else { workgroups });
                if let Some(timing) = dispatch.executable.timing(dispatch.function) {
                    time = time.saturating_add(workgroups.saturating_mul(timing.nanoseconds()?.into()));
                }
            }
            estimate.total = estimate.total.saturating_add(time);
            if tiles > 1 && time >= threshold {
                estimate.shareable = estimate.shareable.saturating_add(time);
            }
        }
        Some(estimate)
    }

    /// Groups of commands without a barrier between them, with the index of the first.
    fn groups(&self) -> impl Iterator<Item = (usize, &[Step])> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let rest = self.0.steps().get(start..).filter(|rest| !rest.is_empty())?;
            let length = rest.iter().skip(1).position(|step| step.follows_barrier).map_or(rest.len(), |next| next + 1);
            let group = (start, &rest[..length]);
            start += length;
            Some(group)
        })
    }

    fn run_shared(&self, table: &[BufferBinding], executor: &Executor, measured: bool) -> Result<()> {
        let lead = executor.lead(true);
        for (first, group) in self.groups() {
            scope::check()?;
            let mut ready_commands: SmallVec<[ReadyCommand; 2]> = SmallVec::new();
            for (offset, step) in group.iter().enumerate() {
                let index = first + offset;
                let kind = match &step.command {
                    Command::Dispatch(dispatch) => self.ready(dispatch, table, executor.concurrency() as u64),
                    transfer => Ok(ReadyCommandKind::Transfer(transfer)),
                };
                ready_commands.push(ReadyCommand { index, kind: kind.map_err(|status| self.failed(index, status))? });
            }
            self.run_group(&ready_commands, table, &lead, executor, measured)?;
        }
        Ok(())
    }

    /// Runs commands that may run at the same time.
    fn run_group(
        &self,
        ready_commands: &[ReadyCommand],
        table: &[BufferBinding],
        lead: &Leader<'_>,
        executor: &Executor,
        measured: bool,
    ) -> Result<()> {
        let tiles: u64 = ready_commands.iter().map(ReadyCommand::tiles).sum();
        let time = ready_commands
            .iter()
            .try_fold(0u64, |time, ready_command| Some(time.saturating_add(ready_command.time()?)));
        let (threshold, concurrency) = (executor.sharing_threshold(), executor.concurrency() as u32);
        let local_memory_limit = executor.local_memory_limit();
        let scope = Scope::current();
        let group =
            CommandGroup { program: *self, ready_commands, table, concurrency, local_memory_limit, measured, scope };
        match u32::try_from(tiles) {
            Ok(tiles) if tiles > 1 && time.is_none_or(|time| time >= threshold) => {
                let wake = time.is_some_and(|time| time >= MIN_SHAREABLE_RATIO * threshold);
                lead.share(tiles, &group, wake)
            }
            _ => WorkgroupMemory::with(|workgroup_memory| {
                ready_commands
                    .iter()
                    .try_for_each(|ready_command| group.run_ready_command(ready_command, 0..u64::MAX, workgroup_memory))
            }),
        }
    }

    /// A dispatch with its bindings and its tile size.
    fn ready<'a>(
        &'a self,
        dispatch: &'a Dispatch,
        table: &'a [BufferBinding],
        concurrency: u64,
    ) -> Result<ReadyCommandKind<'a>> {
        let grid = self.grid(dispatch, table)?;
        let workgroups = grid.workgroups()?;
        let executable = &dispatch.executable;
        let tile_size = if executable.is_sequential(dispatch.function) {
            workgroups
        } else {
            let nanoseconds = executable.timing(dispatch.function).and_then(KernelTiming::nanoseconds);
            let worthwhile = nanoseconds.map_or(1, |nanoseconds| TARGET_TILE_TIME / u64::from(nanoseconds.max(1)));
            let balanced = workgroups / (concurrency * TILES_PER_THREAD);
            worthwhile.min(balanced).max(workgroups.div_ceil(MAX_TILES))
        };
        let mut bindings = Bindings::default();
        self.bind(dispatch, table, &mut bindings)?;
        Ok(ReadyCommandKind::Dispatch(ReadyDispatch {
            dispatch,
            grid,
            workgroups,
            tile_size: tile_size.max(1),
            bindings,
        }))
    }

    /// Runs one command alone.
    fn run_step(
        &self,
        index: usize,
        table: &[BufferBinding],
        local_memory_limit: Option<u32>,
        measured: bool,
    ) -> Result<()> {
        self.run_command(&self.0.steps()[index].command, table, local_memory_limit, measured)
            .map_err(|status| self.failed(index, status))
    }

    #[cold]
    fn failed(&self, index: usize, status: Status) -> Status {
        // The position distinguishes commands that look alike.
        status.context(format!(
            "command {index} of {} ({})",
            self.0.steps().len(),
            name(&self.0.steps()[index].command)
        ))
    }

    fn run_command(
        &self,
        command: &Command,
        table: &[BufferBinding],
        local_memory_limit: Option<u32>,
        measured: bool,
    ) -> Result<()> {
        match command {
            Command::Fill { target, pattern } => {
                let target = resolve(target, table, BufferUsage::TRANSFER_TARGET)?;
                buffer_fill(&**target.buffer, target.offset, target.length, &self.0.bytes()[pattern.clone()])
            }
            Command::Update { target, source } => {
                let target = resolve(target, table, BufferUsage::TRANSFER_TARGET)?;
                buffer_write(&**target.buffer, target.offset, &self.0.bytes()[source.clone()])
            }
            Command::Copy { source, target } => {
                let source = resolve(source, table, BufferUsage::TRANSFER_SOURCE)?;
                let target = resolve(target, table, BufferUsage::TRANSFER_TARGET)?;
                buffer_copy(&**source.buffer, source.offset, &**target.buffer, target.offset, target.length)
            }
            Command::Synchronise { range } => resolve(range, table, BufferUsage::empty()).map(|_| ()),
            Command::Dispatch(dispatch) => {
                let grid = self.grid(dispatch, table)?;
                let workgroups = grid.workgroups()?;
                let mut bindings = Bindings::default();
                self.bind(dispatch, table, &mut bindings)?;
                let constants = &self.0.constants()[dispatch.constants.clone()];
                let arguments = Arguments { grid, constants, bindings: &bindings, concurrency: 1, local_memory_limit };
                WorkgroupMemory::with(|workgroup_memory| {
                    run_timed(dispatch, &arguments, 0..workgroups, workgroup_memory, measured)
                })
            }
        }
    }

    /// The size of a dispatch, with the counts read from a buffer if it is indirect.
    fn grid(&self, dispatch: &Dispatch, table: &[BufferBinding]) -> Result<Grid> {
        let mut grid = dispatch.grid;
        if let Some(counts) = &dispatch.indirect {
            let counts = resolve(counts, table, BufferUsage::DISPATCH_INDIRECT_PARAMETERS)?;
            let mut bytes = [0; 12];
            check_range(counts.length, 0, bytes.len() as u64)?;
            buffer_read(&**counts.buffer, counts.offset, &mut bytes)?;
            for (count, word) in grid.count.iter_mut().zip(bytes.chunks_exact(4)) {
                *count = word.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
            }
        }
        Ok(grid)
    }

    /// Adds the bindings of a dispatch to `bindings`, which the caller has where it uses them: they are half a kilobyte to copy.
    #[inline]
    fn bind<'a>(&'a self, dispatch: &Dispatch, table: &'a [BufferBinding], bindings: &mut Bindings<'a>) -> Result<()> {
        for binding in &self.0.bindings()[dispatch.bindings.clone()] {
            let ResolvedRange { buffer, offset, length } = resolve(binding, table, BufferUsage::empty())?;
            bindings.bind(&**buffer, offset, length)?;
        }
        Ok(())
    }
}

/// Runs some workgroups, and adds their time to the timing of the kernel if it is `measured`.
fn run_timed(
    dispatch: &Dispatch,
    arguments: &Arguments<'_>,
    workgroups: Range<u64>,
    workgroup_memory: &mut WorkgroupMemory,
    measured: bool,
) -> Result<()> {
    let count = workgroups.end - workgroups.start;
    let run = || {
        // SAFETY: recording has checked the numbers of constants and bindings, and both callers pass workgroups of the grid.
        unsafe { dispatch.executable.run(dispatch.function, arguments, workgroups, workgroup_memory) }
    };
    let timing = if measured { dispatch.executable.timing(dispatch.function) } else { None };
    let Some(timing) = timing else {
        return run();
    };
    let start = Instant::now();
    run()?;
    timing.add(start.elapsed(), count);
    Ok(())
}

/// A group of commands that threads share.
struct CommandGroup<'a> {
    program: Execution<'a>,
    ready_commands: &'a [ReadyCommand<'a>],
    table: &'a [BufferBinding],
    concurrency: u32,
    local_memory_limit: Option<u32>,
    measured: bool,
    /// The limits of the call that the commands belong to.
    scope: Scope,
}

impl CommandGroup<'_> {
    /// Runs the workgroups of a dispatch that exist in the range, or a transfer as a whole.
    fn run_ready_command(
        &self,
        ready_command: &ReadyCommand,
        workgroups: Range<u64>,
        workgroup_memory: &mut WorkgroupMemory,
    ) -> Result<()> {
        let ready = match &ready_command.kind {
            ReadyCommandKind::Transfer(_) => {
                return self.program.run_step(ready_command.index, self.table, self.local_memory_limit, self.measured);
            }
            ReadyCommandKind::Dispatch(ready) => ready,
        };
        let constants = &self.program.0.constants()[ready.dispatch.constants.clone()];
        let (grid, bindings, concurrency) = (ready.grid, &ready.bindings, self.concurrency);
        let local_memory_limit = self.local_memory_limit;
        let arguments = Arguments { grid, constants, bindings, concurrency, local_memory_limit };
        let workgroups = workgroups.start..workgroups.end.min(ready.workgroups);
        run_timed(ready.dispatch, &arguments, workgroups, workgroup_memory, self.measured)
            .map_err(|status| self.program.failed(ready_command.index, status))
    }
}

impl TiledWork for CommandGroup<'_> {
    fn run(&self, tile: u32, workgroup_memory: &mut WorkgroupMemory) -> Result<()> {
        let _entered = self.scope.clone().enter();
        self.scope.check()?;
        let mut tile = u64::from(tile);
        for ready_command in self.ready_commands {
            let tiles = ready_command.tiles();
            if tile < tiles {
                let tile_size = match &ready_command.kind {
                    ReadyCommandKind::Transfer(_) => 1,
                    ReadyCommandKind::Dispatch(ready) => ready.tile_size,
                };
                let start = tile * tile_size;
                return self.run_ready_command(ready_command, start..start + tile_size, workgroup_memory);
            }
            tile -= tiles;
        }
        Ok(())
    }
}

/// The name of a command, for errors.
fn name(command: &Command) -> String {
    match command {
        Command::Fill { .. } => "fill".to_string(),
        Command::Update { .. } => "update".to_string(),
        Command::Copy { .. } => "copy".to_string(),
        Command::Synchronise { .. } => "flush or invalidation".to_string(),
        Command::Dispatch(dispatch) => {
            format!("dispatch of {}", dispatch.executable.name(dispatch.function))
        }
    }
}

/// Bytes that a transfer writes, as far as the command itself shows.
fn length(command: &Command) -> u64 {
    match command {
        Command::Fill { target, .. } | Command::Update { target, .. } | Command::Copy { target, .. } => {
            // The whole of a buffer in the binding table, whose length is not known here.
            if target.length == crate::hal::WHOLE_BUFFER { 0 } else { target.length }
        }
        Command::Synchronise { .. } | Command::Dispatch(_) => 0,
    }
}
