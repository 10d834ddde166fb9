//! Command buffers and events.

use std::sync::Arc;

use vireo::hal::*;
use vireo::{Result, StatusCode};

use super::*;

pub fn commands_run_in_order(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0; 16]);
    let commands = record(&*device, CommandBufferMode::empty(), 0);
    assert_eq!(commands.mode(), CommandBufferMode::empty());
    assert_eq!(commands.allowed_categories(), CommandCategory::ANY);
    assert_eq!((commands.queue_affinity(), commands.binding_capacity()), (ANY, 0));
    commands.fill_buffer(&whole(&buffer), &[1, 2], FillFlags::empty()).unwrap();
    barrier(&*commands).unwrap();
    let source = vec![9; 3];
    commands.update_buffer(&source, &range(&buffer, 4, 3), UpdateFlags::empty()).unwrap();
    drop(source);
    barrier(&*commands).unwrap();
    commands.copy_buffer(&range(&buffer, 3, 5), &range(&buffer, 11, 5), CopyFlags::empty()).unwrap();
    commands.advise_buffer(&whole(&buffer), MemoryAdviseFlags::empty(), 0, 0).unwrap();
    commands.end().unwrap();
    assert_eq!(bytes_of(&*buffer), [0; 16]);
    execute(&*device, &commands, &[]).unwrap();
    assert_eq!(bytes_of(&*buffer), [1, 2, 1, 2, 9, 9, 9, 2, 1, 2, 1, 2, 9, 9, 9, 2]);
}

pub fn binding_tables_are_chosen_at_each_execution(backend: &Backend) {
    let device = backend.device();
    let commands = record(&*device, CommandBufferMode::empty(), 2);
    assert_eq!(commands.binding_capacity(), 2);
    commands.fill_buffer(&slot(0, 0, 4), &[9], FillFlags::empty()).unwrap();
    barrier(&*commands).unwrap();
    commands.update_buffer(&[1, 2], &slot(0, 1, 2), UpdateFlags::empty()).unwrap();
    barrier(&*commands).unwrap();
    commands.copy_buffer(&slot(0, 0, 4), &slot(1, 2, 4), CopyFlags::empty()).unwrap();
    commands.end().unwrap();
    for _ in 0..3 {
        let (first, second) = (buffer_of(&*device, &[0; 8]), buffer_of(&*device, &[0; 6]));
        execute(&*device, &commands, &[bound(&first, 2, 4), bound(&second, 0, WHOLE_BUFFER)]).unwrap();
        assert_eq!(bytes_of(&*first), [0, 0, 9, 1, 2, 9, 0, 0]);
        assert_eq!(bytes_of(&*second), [0, 0, 9, 1, 2, 9]);
    }
    let buffer = buffer_of(&*device, &[0; 8]);
    let table = |second: BufferBinding| [bound(&buffer, 2, 4), second];
    let none = BufferBinding { buffer: None, offset: 0, length: WHOLE_BUFFER };
    for (table, expected) in [
        (&table(none)[..], StatusCode::FailedPrecondition),
        (&table(bound(&buffer, 3, WHOLE_BUFFER)), StatusCode::OutOfRange),
        (&table(bound(&buffer, 0, 9)), StatusCode::OutOfRange),
        (&table(bound(&buffer, u64::MAX, 2)), StatusCode::OutOfRange),
        (&[bound(&buffer, 0, 4)], StatusCode::InvalidArgument),
        (&[], StatusCode::InvalidArgument),
    ] {
        assert_eq!(code(execute(&*device, &commands, table)), expected, "{table:?}");
    }
}

/// Flushes and invalidations of caches have no visible effect; their ranges are checked.
pub fn ranges_are_flushed_and_invalidated(backend: &Backend) {
    type Synchronise = fn(&dyn CommandBuffer, &BufferRef) -> Result<()>;
    let both: [Synchronise; 2] = [
        |commands, buffer_ref| commands.flush_buffer(buffer_ref),
        |commands, buffer_ref| commands.invalidate_buffer(buffer_ref),
    ];
    for synchronise in both {
        let device = backend.device();
        let buffer = buffer_of(&*device, &[1; 16]);
        let commands = record(&*device, CommandBufferMode::empty(), 1);
        synchronise(&*commands, &whole(&buffer)).unwrap();
        synchronise(&*commands, &range(&buffer, 8, 8)).unwrap();
        synchronise(&*commands, &slot(0, 4, 8)).unwrap();
        assert_eq!(code(synchronise(&*commands, &range(&buffer, 8, 9))), StatusCode::OutOfRange);
        assert_eq!(code(synchronise(&*commands, &range(&buffer, u64::MAX, 1))), StatusCode::OutOfRange);
        assert_eq!(code(synchronise(&*commands, &slot(1, 0, 1))), StatusCode::OutOfRange);
        commands.end().unwrap();
        assert_eq!(code(synchronise(&*commands, &whole(&buffer))), StatusCode::FailedPrecondition);
        execute(&*device, &commands, &[bound(&buffer, 4, 12)]).unwrap();
        assert_eq!(code(execute(&*device, &commands, &[bound(&buffer, 5, 11)])), StatusCode::OutOfRange);
        assert_eq!(bytes_of(&*buffer), [1; 16]);
    }
}

pub fn recording_is_checked(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0; 8]);
    let commands = record(&*device, CommandBufferMode::empty(), 1);
    let fill = |target: &BufferRef, pattern: &[u8]| commands.fill_buffer(target, pattern, FillFlags::empty());
    assert_eq!(code(fill(&range(&buffer, 4, 5), &[0])), StatusCode::OutOfRange);
    assert_eq!(code(fill(&range(&buffer, u64::MAX, 1), &[0])), StatusCode::OutOfRange);
    assert_eq!(code(fill(&range(&buffer, 0, 6), &[0; 4])), StatusCode::InvalidArgument);
    assert_eq!(code(fill(&range(&buffer, 0, 6), &[0; 3])), StatusCode::InvalidArgument);
    assert_eq!(code(fill(&slot(1, 0, 4), &[0])), StatusCode::OutOfRange);
    let copy = |from: &BufferRef, to: &BufferRef| commands.copy_buffer(from, to, CopyFlags::empty());
    assert_eq!(code(copy(&range(&buffer, 0, 2), &range(&buffer, 4, 3))), StatusCode::InvalidArgument);
    assert_eq!(code(copy(&range(&buffer, 7, 2), &range(&buffer, 4, 2))), StatusCode::OutOfRange);
    let update = |bytes: &[u8], to: &BufferRef| commands.update_buffer(bytes, to, UpdateFlags::empty());
    assert_eq!(code(update(&[0; 9], &range(&buffer, 0, 9))), StatusCode::OutOfRange);
    assert_eq!(code(update(&[0; 2], &range(&buffer, 0, 3))), StatusCode::InvalidArgument);
    assert_eq!(code(commands.begin()), StatusCode::FailedPrecondition);
    // A command buffer that is not recorded is not executed, and one that is recorded takes no more.
    assert_eq!(code(execute(&*device, &commands, &[])), StatusCode::FailedPrecondition);
    commands.end().unwrap();
    assert_eq!(code(commands.end()), StatusCode::FailedPrecondition);
    assert_eq!(code(fill(&whole(&buffer), &[1])), StatusCode::FailedPrecondition);
    assert_eq!(code(barrier(&*commands)), StatusCode::FailedPrecondition);
    execute(&*device, &commands, &[]).unwrap();
    assert_eq!(bytes_of(&*buffer), [0; 8]);

    let dispatches =
        device.create_command_buffer(CommandBufferMode::empty(), CommandCategory::DISPATCH, ANY, 0).unwrap();
    assert_eq!(code(dispatches.end()), StatusCode::FailedPrecondition);
    dispatches.begin().unwrap();
    assert!(dispatches.fill_buffer(&whole(&buffer), &[0], FillFlags::empty()).is_err());
}

pub fn one_shot_commands_run_once(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0; 4]);
    let once = record(&*device, CommandBufferMode::ONE_SHOT, 0);
    once.fill_buffer(&whole(&buffer), &[3], FillFlags::empty()).unwrap();
    once.end().unwrap();
    execute(&*device, &once, &[]).unwrap();
    assert_eq!(bytes_of(&*buffer), [3; 4]);
    assert_eq!(code(execute(&*device, &once, &[])), StatusCode::FailedPrecondition);
}

pub fn barriers_and_events_order_commands(backend: &Backend) {
    let device = backend.device();
    let event = device.create_event(ANY, EventFlags::empty()).unwrap();
    let buffer = buffer_of(&*device, &[0; 8]);
    let commands = record(&*device, CommandBufferMode::empty(), 0);
    let transfer = ExecutionStage::TRANSFER;
    commands.fill_buffer(&range(&buffer, 0, 4), &[7], FillFlags::empty()).unwrap();
    commands.signal_event(&event, transfer).unwrap();
    let scope = MemoryBarrier { source_scope: AccessScope::TRANSFER_WRITE, target_scope: AccessScope::TRANSFER_READ };
    let (source_scope, target_scope) = (scope.source_scope, scope.target_scope);
    let narrow = BufferBarrier { source_scope, target_scope, buffer_ref: range(&buffer, 0, 4) };
    let events = [event.clone(), event.clone()];
    commands.wait_events(&events, transfer, transfer, &[scope], std::slice::from_ref(&narrow)).unwrap();
    commands.copy_buffer(&range(&buffer, 0, 4), &range(&buffer, 4, 4), CopyFlags::empty()).unwrap();
    commands.reset_event(&event, transfer).unwrap();
    commands.execution_barrier(transfer, transfer, ExecutionBarrierFlags::empty(), &[], &[narrow]).unwrap();
    commands.update_buffer(&[1], &range(&buffer, 0, 1), UpdateFlags::empty()).unwrap();
    commands.end().unwrap();
    assert_eq!(code(commands.signal_event(&event, transfer)), StatusCode::FailedPrecondition);
    for _ in 0..2 {
        execute(&*device, &commands, &[]).unwrap();
        assert_eq!(bytes_of(&*buffer), [1, 7, 7, 7, 7, 7, 7, 7]);
    }
}

/// An event that one command buffer signals and another one waits for.
pub fn events_order_command_buffers(backend: &Backend) {
    let device = backend.device();
    let event = device.create_event(ANY, EventFlags::empty()).unwrap();
    let buffer = buffer_of(&*device, &[0; 8]);
    let (before, after) = (ExecutionStage::COMMAND_RETIRE, ExecutionStage::COMMAND_ISSUE);
    let first = record(&*device, CommandBufferMode::empty(), 0);
    first.fill_buffer(&range(&buffer, 0, 4), &[7], FillFlags::empty()).unwrap();
    first.signal_event(&event, before).unwrap();
    first.end().unwrap();
    let second = record(&*device, CommandBufferMode::empty(), 0);
    second.wait_events(std::slice::from_ref(&event), before, after, &[], &[]).unwrap();
    second.copy_buffer(&range(&buffer, 0, 4), &range(&buffer, 4, 4), CopyFlags::empty()).unwrap();
    second.end().unwrap();
    drop(event);
    let line = timeline(&*device);
    let at = |value| [point(&line, value)];
    device.queue_execute(ANY, &at(1), &at(2), &second, &[], ExecuteFlags::empty()).unwrap();
    device.queue_execute(ANY, &[], &at(1), &first, &[], ExecuteFlags::empty()).unwrap();
    line.wait(2, in_time()).unwrap();
    assert_eq!(bytes_of(&*buffer), [7; 8]);
}

/// A command names a buffer whose allocation is still to run; the buffer has its memory when the command buffer is
/// executed.
pub fn commands_name_transients_before_they_have_memory(backend: &Backend) {
    let device = backend.device();
    for by_slot in [false, true] {
        let (start, line) = (timeline(&*device), timeline(&*device));
        let (wait, at) = ([point(&start, 1)], |value| [point(&line, value)]);
        let transient = device.queue_alloca(ANY, &wait, &at(1), None, params(), 256, AllocaFlags::empty()).unwrap();
        assert_eq!(line.query().unwrap(), 0);
        let commands = record(&*device, CommandBufferMode::ONE_SHOT, u32::from(by_slot));
        let target = if by_slot { slot(0, 0, 256) } else { range(&transient, 0, 256) };
        commands.fill_buffer(&target, &[0x37, 0x13, 0x5A, 0xA5], FillFlags::empty()).unwrap();
        commands.end().unwrap();
        let table = [bound(&transient, 0, WHOLE_BUFFER)];
        let table = &table[..usize::from(by_slot)];
        device.queue_execute(ANY, &at(1), &at(2), &commands, table, ExecuteFlags::empty()).unwrap();
        start.signal(1).unwrap();
        line.wait(2, in_time()).unwrap();
        assert_eq!(bytes_of(&*transient), [0x37, 0x13, 0x5A, 0xA5].repeat(64));
        device.queue_dealloca(ANY, &at(2), &at(3), &transient, DeallocaFlags::empty()).unwrap();
        line.wait(3, in_time()).unwrap();
    }
}

pub fn hundreds_of_commands_run(backend: &Backend) {
    const COUNT: u32 = 500;
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0; 4 * COUNT as usize]);
    let commands = record(&*device, CommandBufferMode::empty(), 0);
    for index in 0..COUNT {
        let target = range(&buffer, u64::from(index) * 4, 4);
        commands.fill_buffer(&target, &(index * 7 + 1).to_le_bytes(), FillFlags::empty()).unwrap();
    }
    commands.end().unwrap();
    for _ in 0..2 {
        execute(&*device, &commands, &[]).unwrap();
        let expected: Vec<u8> = (0..COUNT).flat_map(|index| (index * 7 + 1).to_le_bytes()).collect();
        assert_eq!(bytes_of(&*buffer), expected);
        buffer_fill(&*buffer, 0, WHOLE_BUFFER, &[0]).unwrap();
    }
}

pub fn groups_are_closed(backend: &Backend) {
    let device = backend.device();
    let commands = record(&*device, CommandBufferMode::empty(), 0);
    let location = LabelLocation { file: "model.mlir".into(), line: 7 };
    commands.begin_debug_group("outer", LabelColor { r: 255, ..LabelColor::default() }, &location).unwrap();
    commands.begin_debug_group("", LabelColor::default(), &LabelLocation::default()).unwrap();
    commands.end_debug_group().unwrap();
    assert_eq!(code(commands.end()), StatusCode::FailedPrecondition);
    commands.end_debug_group().unwrap();
    assert_eq!(code(commands.end_debug_group()), StatusCode::FailedPrecondition);
    commands.end().unwrap();
    execute(&*device, &commands, &[]).unwrap();
}

pub fn commands_outlive_their_recorder(backend: &Backend) {
    let device = backend.device();
    let (start, done) = (timeline(&*device), timeline(&*device));
    let buffer = buffer_of(&*device, &[0; 4]);
    let hidden = buffer_of(&*device, &[5; 4]);
    let commands = record(&*device, CommandBufferMode::ONE_SHOT, 1);
    commands.copy_buffer(&whole(&hidden), &slot(0, 0, 4), CopyFlags::empty()).unwrap();
    commands.end().unwrap();
    let table = [bound(&buffer, 0, 4)];
    let (wait, signal) = ([point(&start, 1)], [point(&done, 1)]);
    device.queue_execute(ANY, &wait, &signal, &commands, &table, ExecuteFlags::empty()).unwrap();
    // The queue keeps what it needs.
    drop((commands, hidden, table));
    start.signal(1).unwrap();
    done.wait(1, in_time()).unwrap();
    assert_eq!(bytes_of(&*buffer), [5; 4]);
}

/// Executions of one command buffer wait for nothing but their own points, and each sees its own table.
pub fn executions_may_overlap(backend: &Backend) {
    const COUNT: u64 = 50;
    let device = backend.device();
    let start = timeline(&*device);
    let commands = record(&*device, CommandBufferMode::empty(), 2);
    commands.copy_buffer(&slot(0, 0, 64), &slot(1, 0, 64), CopyFlags::empty()).unwrap();
    commands.end().unwrap();
    let runs: Vec<(Arc<dyn Buffer>, Arc<dyn Semaphore>)> = (0..COUNT)
        .map(|run| {
            let (source, target) = (buffer_of(&*device, &[run as u8; 64]), buffer_of(&*device, &[0; 64]));
            let done = timeline(&*device);
            let (wait, signal) = ([point(&start, 1 + run % 3)], [point(&done, 1)]);
            let table = [bound(&source, 0, 64), bound(&target, 0, 64)];
            device.queue_execute(ANY, &wait, &signal, &commands, &table, ExecuteFlags::empty()).unwrap();
            (target, done)
        })
        .collect();
    start.signal(3).unwrap();
    for (run, (target, done)) in runs.iter().enumerate() {
        done.wait(1, in_time()).unwrap();
        assert_eq!(bytes_of(&**target), [run as u8; 64]);
    }
}
