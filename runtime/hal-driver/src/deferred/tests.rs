//! Tests of deferred command buffers, with a device that records nothing of executables.

use std::sync::Arc;

use super::*;
use crate::hal::recycle::{MAX_FREE, Uninit, Unshared, free_list};
use crate::hal::{
    Allocator, BufferParams, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, DispatchConfig,
    DispatchFlags, Executable, ExecutableFunction, ExecutableFunctionInfo, ExecutionBarrierFlags, ExecutionStage,
    FillFlags, HeapAllocator, QueueAffinity, WHOLE_BUFFER,
};
use crate::limits::scope::Scope;
use crate::limits::{Limits, MemoryBudget};
use crate::status::{Result, Status, StatusCode};

/// A device that records nothing of executables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nothing;

free_list! { static PROGRAMS: Unshared<CommandProgram<Nothing>>, MAX_FREE_PROGRAMS }
free_list! { static COMMAND_BUFFERS: Uninit<DeferredCommandBuffer<ProgramRecorder<Nothing>>>, MAX_FREE }

impl Deferred for Nothing {
    type Executable = ();
    type Profile = ();

    fn free_lists() -> CommandFreeLists<Nothing> {
        CommandFreeLists { programs: &PROGRAMS, command_buffers: &COMMAND_BUFFERS }
    }

    fn executable(self, _dispatch: &DispatchRequest<'_>) -> Result<()> {
        Ok(())
    }
}

/// An executable of no device in particular.
#[derive(Debug)]
pub(crate) struct NoExecutable;

impl Executable for NoExecutable {
    fn function_count(&self) -> u32 {
        0
    }

    fn function_info(&self, _function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        Err(Status::out_of_range("it has none"))
    }

    fn lookup_function(&self, _name: &str) -> Result<ExecutableFunction> {
        Err(Status::not_found("it has none"))
    }
}

fn command_buffer(mode: CommandBufferMode) -> Arc<DeferredCommandBuffer<ProgramRecorder<Nothing>>> {
    let (categories, affinity) = (CommandCategory::ANY, QueueAffinity::ANY);
    DeferredCommandBuffer::new(Nothing, mode, categories, affinity, 2).expect("the mode allows slots")
}

#[test]
fn commands_are_recorded_with_their_order_and_checked_lengths() {
    let buffer = HeapAllocator::new().allocate_buffer(BufferParams::default(), 64).expect("allocates");
    let commands = command_buffer(CommandBufferMode::empty());
    let whole = BufferRef { buffer: Some(buffer), length: WHOLE_BUFFER, ..BufferRef::default() };
    let slot = BufferRef { slot: 1, offset: 4, length: 8, ..BufferRef::default() };
    commands.begin().expect("was not begun");
    commands.fill_buffer(&whole, &[1, 2], FillFlags::empty()).expect("64 is a multiple of 2");
    let stages = ExecutionStage::empty();
    commands.execution_barrier(stages, stages, ExecutionBarrierFlags::empty(), &[], &[]).expect("is recording");
    commands.update_buffer(&[0; 8], &slot, Default::default()).expect("the slot is there");
    let beyond = commands.update_buffer(&[0; 8], &BufferRef { slot: 2, ..slot }, Default::default());
    assert_eq!(beyond.expect_err("there are two slots").code(), StatusCode::OutOfRange);
    commands.end().expect("is recording");

    let program = commands.take_program().expect("is recorded").into_owned();
    assert_eq!((program.slots(), program.bytes()), (2, &[1, 2, 0, 0, 0, 0, 0, 0, 0, 0][..]));
    let [fill, update] = program.steps() else { panic!("{:?}", program.steps()) };
    assert!(matches!(&fill.command, Command::Fill { target, pattern } if target.length == 64 && *pattern == (0..2)));
    assert!(matches!(&update.command, Command::Update { target, source } if target.slot == 1 && *source == (2..10)));
    assert_eq!((fill.follows_barrier, update.follows_barrier), (false, true));
    assert!(commands.take_program().is_ok(), "it is no one-shot command buffer");
}

#[test]
fn a_one_shot_command_buffer_is_executed_once() {
    let commands = command_buffer(CommandBufferMode::ONE_SHOT);
    assert_eq!(commands.take_program().expect_err("is not recorded").code(), StatusCode::FailedPrecondition);
    commands.begin().expect("was not begun");
    commands.end().expect("is recording");
    commands.take_program().expect("is recorded");
    let again = commands.take_program().expect_err("was executed");
    assert_eq!(again.message(), "cannot execute a command buffer that is executed already and one-shot");
}

#[test]
fn a_dispatch_that_is_refused_leaves_nothing_behind() {
    let commands = command_buffer(CommandBufferMode::empty());
    let executable: Arc<dyn Executable> = Arc::new(NoExecutable);
    let config = DispatchConfig { workgroup_count: [1; 3], ..DispatchConfig::default() };
    let dispatch = |slots: [u32; 2]| {
        let bindings = slots.map(|slot| BufferRef { slot, length: 4, ..BufferRef::default() });
        let (function, flags) = (ExecutableFunction(0), DispatchFlags::empty());
        commands.dispatch(&executable, function, &config, &[7], &bindings, flags)
    };
    commands.begin().expect("was not begun");
    assert_eq!(dispatch([1, 2]).expect_err("there are two slots").code(), StatusCode::OutOfRange);
    dispatch([0, 0]).expect("the slot is there");
    commands.end().expect("is recording");
    let program = commands.take_program().expect("is recorded").into_owned();
    assert_eq!((program.slots(), program.bindings().len(), program.constants()), (1, 2, &[7][..]));
}

#[test]
fn every_command_is_charged_to_the_call_that_records_it() {
    let budget = MemoryBudget::new(1 << 20);
    let _entered = Scope::of(&Limits { memory: Some(budget.clone()), ..Limits::default() }).enter();
    let slot = BufferRef { slot: 1, offset: 0, length: 8, ..BufferRef::default() };
    /// A function that records one command.
    type Record = fn(&dyn CommandBuffer, &BufferRef) -> Result<()>;
    let flush: Record = |commands, range| commands.flush_buffer(range);
    let fill: Record = |commands, range| commands.fill_buffer(range, &[1], FillFlags::empty());
    for record in [flush, fill] {
        let commands = command_buffer(CommandBufferMode::empty());
        commands.begin().expect("was not begun");
        let refused = (0..100_000).find_map(|_| record(&*commands, &slot).err());
        assert_eq!(refused.expect("there is no memory").code(), StatusCode::ResourceExhausted);
        drop(commands);
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn programs_with_much_memory_are_not_recycled() {
    let record = |count: u32| {
        let commands = command_buffer(CommandBufferMode::empty());
        let slot = BufferRef { slot: 1, offset: 0, length: 8, ..BufferRef::default() };
        commands.begin().expect("was not begun");
        for _ in 0..count {
            commands.fill_buffer(&slot, &[1], FillFlags::empty()).expect("the slot is there");
        }
        commands.end().expect("is recording");
        commands.recycle();
        PROGRAMS.local_len()
    };
    assert_eq!([record(10), record(20_000), record(10)], [1, 0, 1]);
}
