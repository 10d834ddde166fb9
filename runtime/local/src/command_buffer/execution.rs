//! Executions of command programs: on one thread, or shared with the workers of an executor. The discipline of local
//! queues calls them.

use std::ops::Range;
use std::time::Instant;

use smallvec::SmallVec;

use super::profile::{Estimate, GroupTime, SharingLevel};
use super::recording::{Command, LocalCommandProgram, RecordedDispatch, Step};
use crate::hal::BufferBinding;
use crate::hal::bind;
use crate::hal::host_kernels::{Arguments, Bindings, FloatState, Grid, KernelTiming, WorkgroupMemory};
use crate::hal::host_times::{self, HostPart, Watch};
use crate::hal_driver::deferred::ResolvedRange;
use crate::limits::Limits;
use crate::limits::scope::{self, Scope};
use crate::status::{Result, Status};
use crate::task::{Executor, Leader, TiledWork, even_cut};

/// Workers are woken for what saves this many times what a shared group has to save, since waking them takes time as
/// well.
const MIN_WAKE_RATIO: u64 = 8;
/// Target time of a tile in nanoseconds, so that taking a tile costs little beside running it.
const TARGET_TILE_TIME: u64 = 2_000;
/// Tiles for each thread, so that threads that finish early can steal some.
const TILES_PER_THREAD: u64 = 8;
/// Most tiles of one dispatch.
const MAX_TILES: u64 = 1 << 16;
/// Approximate bytes that a transfer moves in a nanosecond, in a cache.
const TRANSFER_SPEED: u64 = 32;

/// A command that is ready to run.
struct ReadyCommand<'a> {
    index: usize,
    kind: ReadyCommandKind<'a>,
    tiles: u64,
    /// Its expected time on one thread in nanoseconds, if that is known.
    time: Option<u64>,
}

#[expect(clippy::large_enum_variant, reason = "it lives on the stack, next to others of its kind")]
enum ReadyCommandKind<'a> {
    /// One tile.
    Transfer,
    Dispatch(ReadyDispatch<'a>),
}

struct ReadyDispatch<'a> {
    dispatch: &'a RecordedDispatch,
    grid: Grid,
    workgroups: u64,
    /// Workgroups of a tile.
    tile_size: u64,
    bindings: Bindings<'a>,
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
        let run_alone = || {
            // Once for all kernels, which find it as they expect it.
            let _float_state = FloatState::for_kernels();
            (0..self.0.steps().len()).try_for_each(|index| {
                scope::check()?;
                self.run_step(index, table, local_memory_limit, measured)
            })
        };
        match executor.filter(|executor| executor.concurrency() > 1) {
            None => run_alone()?,
            Some(executor) => match self.estimate(Some(executor)) {
                None => self.run_shared(table, executor, SharingLevel::MOST, measured)?,
                Some(estimate) if estimate.saved[0] < MIN_WAKE_RATIO * least_saved(executor) => run_alone()?,
                // Without a threshold everything is shared.
                Some(_) if least_saved(executor) == 0 => {
                    self.run_shared(table, executor, SharingLevel::MOST, measured)?;
                }
                Some(estimate) => {
                    let choice = self.0.profile().choose(&estimate);
                    let start = choice.counts.then(Instant::now);
                    match choice.level {
                        SharingLevel::ALONE => run_alone()?,
                        level => self.run_shared(table, executor, level, measured)?,
                    }
                    if let Some(start) = start {
                        self.0.profile().add(choice.level, start.elapsed());
                    }
                }
            },
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

    /// The expected time of a run on one thread in nanoseconds, if all of its kernels were measured. None without an
    /// executor, which is what uses it.
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
        let (least, concurrency) =
            executor.map_or((u64::MAX, 1), |executor| (least_saved(executor), executor.concurrency() as u64));
        let mut estimate = Estimate { total: 0, saved: Default::default() };
        for group in self.groups() {
            let mut total = 0u64;
            for step in group.1 {
                let time = match &step.command {
                    Command::Dispatch(dispatch) => dispatch_time(dispatch, recorded_workgroups(dispatch))?,
                    transfer => transfer_time(transfer),
                };
                total = total.saturating_add(time);
            }
            estimate.total = estimate.total.saturating_add(total);
            // Programs that are recorded for one run have small groups, whose tiles need not be known.
            if total < least || total - total / concurrency < least {
                continue;
            }
            let mut group_time = GroupTime::default();
            for step in group.1 {
                match &step.command {
                    Command::Dispatch(dispatch) => {
                        let workgroups = recorded_workgroups(dispatch);
                        let tiles = workgroups.div_ceil(tile_size(dispatch, workgroups, concurrency));
                        group_time.add(dispatch_time(dispatch, workgroups)?, tiles);
                    }
                    transfer => group_time.add(transfer_time(transfer), 1),
                }
            }
            let saved = group_time.saved(concurrency);
            for (sum, level) in estimate.saved.iter_mut().zip(SharingLevel::shared()) {
                if group_time.tiles > 1 && saved >= level.threshold(least) {
                    *sum = sum.saturating_add(saved);
                }
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

    fn run_shared(
        &self,
        table: &[BufferBinding],
        executor: &Executor,
        level: SharingLevel,
        measured: bool,
    ) -> Result<()> {
        let lead = executor.lead(true);
        for (first, group) in self.groups() {
            scope::check()?;
            let mut ready_commands: SmallVec<[ReadyCommand; 2]> = SmallVec::new();
            for (offset, step) in group.iter().enumerate() {
                let index = first + offset;
                let ready_command = match &step.command {
                    Command::Dispatch(dispatch) => self.ready(index, dispatch, table, executor.concurrency() as u64),
                    transfer => Ok(ReadyCommand {
                        index,
                        kind: ReadyCommandKind::Transfer,
                        tiles: 1,
                        time: Some(transfer_time(transfer)),
                    }),
                };
                ready_commands.push(ready_command.map_err(|status| self.failed(index, status))?);
            }
            self.run_group(&ready_commands, table, &lead, executor, level, measured)?;
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
        level: SharingLevel,
        measured: bool,
    ) -> Result<()> {
        let tiles = ready_commands.iter().fold(0u64, |tiles, command| tiles.saturating_add(command.tiles));
        let time = ready_commands.iter().try_fold(GroupTime::default(), |mut group_time, ready_command| {
            group_time.add(ready_command.time?, ready_command.tiles);
            Some(group_time)
        });
        let (least, concurrency) = (least_saved(executor), executor.concurrency() as u32);
        let saved = time.map(|time| time.saved(concurrency.into()));
        let local_memory_limit = executor.local_memory_limit();
        let (scope, watch) = (Scope::current(), Watch::current());
        let program = *self;
        let group =
            CommandGroup { program, ready_commands, table, concurrency, local_memory_limit, measured, scope, watch };
        match u32::try_from(tiles) {
            Ok(tiles) if tiles > 1 && saved.is_none_or(|saved| saved >= level.threshold(least)) => {
                let wake = saved.is_some_and(|saved| saved >= MIN_WAKE_RATIO * least);
                lead.share(tiles, &group, wake)
            }
            _ => WorkgroupMemory::with(|workgroup_memory| {
                ready_commands.iter().try_for_each(|ready_command| {
                    group.run_ready_command(ready_command, 0..ready_command.tiles, workgroup_memory)
                })
            }),
        }
    }

    /// A dispatch with its bindings and its tile size.
    fn ready<'a>(
        &'a self,
        index: usize,
        dispatch: &'a RecordedDispatch,
        table: &'a [BufferBinding],
        concurrency: u64,
    ) -> Result<ReadyCommand<'a>> {
        let grid = self.0.grid(dispatch, table)?;
        let workgroups = grid.workgroups()?;
        let tile_size = tile_size(dispatch, workgroups, concurrency);
        let mut bindings = Bindings::default();
        self.bind(dispatch, table, &mut bindings)?;
        Ok(ReadyCommand {
            index,
            kind: ReadyCommandKind::Dispatch(ReadyDispatch { dispatch, grid, workgroups, tile_size, bindings }),
            tiles: workgroups.div_ceil(tile_size),
            time: dispatch_time(dispatch, workgroups),
        })
    }

    /// Runs one command alone.
    fn run_step(
        &self,
        index: usize,
        table: &[BufferBinding],
        local_memory_limit: Option<u32>,
        measured: bool,
    ) -> Result<()> {
        self.run_command(index, table, local_memory_limit, measured).map_err(|status| self.failed(index, status))
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
        index: usize,
        table: &[BufferBinding],
        local_memory_limit: Option<u32>,
        measured: bool,
    ) -> Result<()> {
        let Some(dispatch) = self.0.run_transfer(&self.0.steps()[index].command, table)? else { return Ok(()) };
        let grid = self.0.grid(dispatch, table)?;
        let workgroups = grid.workgroups()?;
        let mut bindings = Bindings::default();
        self.bind(dispatch, table, &mut bindings)?;
        let constants = &self.0.constants()[dispatch.constants.clone()];
        let arguments = Arguments { grid, constants, bindings: &bindings, concurrency: 1, local_memory_limit };
        WorkgroupMemory::with(|workgroup_memory| {
            run_timed((index, dispatch), &arguments, 0..workgroups, workgroup_memory, measured)
        })
    }

    /// Adds the bindings of a dispatch to `bindings`, which the caller has where it uses them: they are half a kilobyte
    /// to copy.
    #[inline]
    fn bind<'a>(
        &'a self,
        dispatch: &RecordedDispatch,
        table: &'a [BufferBinding],
        bindings: &mut Bindings<'a>,
    ) -> Result<()> {
        for range in self.0.bindings_of(dispatch, table) {
            let ResolvedRange { buffer, offset, length } = range?;
            bind(bindings, &**buffer, offset, length)?;
        }
        Ok(())
    }
}

/// Runs some workgroups, adds their time to the timing of the kernel if it is `measured`, and tells the observer of the
/// work.
fn run_timed(
    (index, dispatch): (usize, &RecordedDispatch),
    arguments: &Arguments<'_>,
    workgroups: Range<u64>,
    workgroup_memory: &mut WorkgroupMemory,
    measured: bool,
) -> Result<()> {
    let part = workgroups.clone();
    let run = || {
        // SAFETY: recording has checked the numbers of constants and bindings, and both callers pass workgroups of the
        // grid.
        unsafe { dispatch.executable.run(dispatch.function, arguments, workgroups, workgroup_memory) }
    };
    let timing = if measured { dispatch.executable.timing(dispatch.function) } else { None };
    let is_watched = host_times::is_watched();
    if timing.is_none() && !is_watched {
        return run();
    }
    host_times::runs();
    let start = Instant::now();
    let outcome = run();
    let end = Instant::now();
    if let Some(timing) = timing.filter(|_| outcome.is_ok()) {
        timing.add(end.duration_since(start), part.end - part.start);
    }
    if is_watched {
        let (grid, times) = (arguments.grid, (start, end));
        host_times::ran(&HostPart { command: index, grid, workgroups: part, times });
    }
    outcome
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
    /// The observer of the work.
    watch: Watch,
}

impl CommandGroup<'_> {
    /// Runs some tiles of a command.
    fn run_ready_command(
        &self,
        ready_command: &ReadyCommand,
        tiles: Range<u64>,
        workgroup_memory: &mut WorkgroupMemory,
    ) -> Result<()> {
        let ready = match &ready_command.kind {
            ReadyCommandKind::Transfer => {
                return self.program.run_step(ready_command.index, self.table, self.local_memory_limit, self.measured);
            }
            ReadyCommandKind::Dispatch(ready) => ready,
        };
        let constants = &self.program.0.constants()[ready.dispatch.constants.clone()];
        let (grid, bindings, concurrency) = (ready.grid, &ready.bindings, self.concurrency);
        let local_memory_limit = self.local_memory_limit;
        let arguments = Arguments { grid, constants, bindings, concurrency, local_memory_limit };
        // The tiles are those of the dispatch, so only the end of the last one is beyond its workgroups.
        let workgroups =
            tiles.start * ready.tile_size..(tiles.end.saturating_mul(ready.tile_size)).min(ready.workgroups);
        run_timed((ready_command.index, ready.dispatch), &arguments, workgroups, workgroup_memory, self.measured)
            .map_err(|status| self.program.failed(ready_command.index, status))
    }
}

impl TiledWork for CommandGroup<'_> {
    fn run(&self, tile: u32, workgroup_memory: &mut WorkgroupMemory) -> Result<()> {
        let _entered = self.scope.clone().enter();
        let _watched = self.watch.clone().enter();
        self.scope.check()?;
        let mut tile = u64::from(tile);
        for ready_command in self.ready_commands {
            if tile < ready_command.tiles {
                return self.run_ready_command(ready_command, tile..tile + 1, workgroup_memory);
            }
            tile -= ready_command.tiles;
        }
        Ok(())
    }

    /// By the expected times of the commands, which may have tiles of quite different length.
    fn cut(&self, tiles: u32, part: u32, parts: u32) -> u32 {
        let total = self.ready_commands.iter().try_fold(0u64, |sum, command| sum.checked_add(command.time?));
        let Some(total) = total.filter(|total| *total > 0 && self.ready_commands.len() > 1) else {
            return even_cut(tiles, part, parts);
        };
        let mut left = total / u64::from(parts.max(1)) * u64::from(part);
        let mut cut = 0;
        for command in self.ready_commands {
            let time = command.time.unwrap_or(0);
            if left < time {
                let each = (time / command.tiles.max(1)).max(1);
                cut += (left / each).min(command.tiles);
                break;
            }
            left -= time;
            cut += command.tiles;
        }
        // At most all tiles, which are counted in 32 bits.
        cut as u32
    }
}

/// The least time in nanoseconds that sharing a group has to save: what two threads save of the smallest group that is
/// worth it.
fn least_saved(executor: &Executor) -> u64 {
    executor.sharing_threshold() / 2
}

/// The workgroups of a dispatch as far as they were recorded: none if the size is read from a buffer.
fn recorded_workgroups(dispatch: &RecordedDispatch) -> u64 {
    dispatch.grid.workgroups().unwrap_or(u64::MAX)
}

/// The expected time of a dispatch on one thread in nanoseconds, if its kernel was measured.
fn dispatch_time(dispatch: &RecordedDispatch, workgroups: u64) -> Option<u64> {
    let timing = dispatch.executable.timing(dispatch.function);
    let each = timing.map_or(Some(0), KernelTiming::nanoseconds)?;
    Some(workgroups.saturating_mul(each.into()))
}

/// Workgroups of a tile.
fn tile_size(dispatch: &RecordedDispatch, workgroups: u64, concurrency: u64) -> u64 {
    let executable = &dispatch.executable;
    if executable.is_sequential(dispatch.function) {
        return workgroups.max(1);
    }
    let nanoseconds = executable.timing(dispatch.function).and_then(KernelTiming::nanoseconds);
    let worthwhile = nanoseconds.map_or(1, |nanoseconds| TARGET_TILE_TIME / u64::from(nanoseconds.max(1)));
    let balanced = workgroups / (concurrency * TILES_PER_THREAD);
    worthwhile.min(balanced).max(workgroups.div_ceil(MAX_TILES)).max(1)
}

/// The expected time of a transfer in nanoseconds.
fn transfer_time(command: &Command) -> u64 {
    length(command) / TRANSFER_SPEED
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
