//! Tests of deferred command buffers, with a device that records nothing of executables.

use std::sync::Arc;

use super::*;
use crate::recycle::{MAX_FREE, Uninit, Unshared, free_list};
use crate::status::{Result, StatusCode};
use crate::{
    Allocator, BufferParams, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, ExecutionBarrierFlags,
    ExecutionStage, FillFlags, HeapAllocator, QueueAffinity, WHOLE_BUFFER,
};

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

fn command_buffer(mode: CommandBufferMode) -> Arc<DeferredCommandBuffer<ProgramRecorder<Nothing>>> {
    let (categories, affinity) = (CommandCategory::TRANSFER, QueueAffinity::ANY);
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
