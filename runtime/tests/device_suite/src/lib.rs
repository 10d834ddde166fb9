//! The device suite: the duties of every device, over the methods of `spec/hal/`, for any driver to run on its devices.
//!
//! A test takes a [`Backend`] and knows nothing of it but what kernels it runs; what is optional is tested where the
//! device says that it supports it. Nothing here depends on when a queue does what it was given: tests wait for
//! timelines, without a limit that could pass on a slow machine. `graphs` has random programs of queues and what they
//! must come to. [`on!`] makes the tests of a backend.

#[doc(hidden)]
pub mod collectives;
#[doc(hidden)]
pub mod commands;
#[doc(hidden)]
pub mod devices;
#[doc(hidden)]
pub mod dispatches;
#[doc(hidden)]
pub mod failures;
#[doc(hidden)]
pub mod files;
#[doc(hidden)]
pub mod graphs;
#[doc(hidden)]
pub mod host_calls;
#[doc(hidden)]
pub mod lifetimes;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod optional;
#[doc(hidden)]
pub mod queues;
#[doc(hidden)]
pub mod semaphores;
#[doc(hidden)]
pub mod times;
#[doc(hidden)]
pub mod workgroups;

#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../../support/machine.rs"]
mod machine;
#[path = "../../support/skip.rs"]
mod skip;

use std::sync::Arc;
use std::time::{Duration, Instant};

use vireo::hal::*;
use vireo::{Result, StatusCode};

/// A backend under test.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// The name, for messages.
    pub name: &'static str,
    /// Makes a device, one of its own for each test.
    pub create: fn() -> Arc<dyn Device>,
    /// Whether dispatches compute something.
    pub runs_kernels: bool,
    /// Whether kernels are those of a GPU, with work-items.
    pub is_gpu: bool,
    /// Queues that the operations of graphs are spread over.
    pub queues: u32,
}

impl Backend {
    /// A device of its own for each test.
    pub fn device(&self) -> Arc<dyn Device> {
        (self.create)()
    }

    /// Whether transient buffers have memory as soon as their allocation is submitted, rather than when it is its turn:
    /// packets that use it are written before.
    fn commits_early(&self) -> bool {
        self.is_gpu
    }
}

fn create(uri: &str) -> Arc<dyn Device> {
    create_device(uri).unwrap_or_else(|error| panic!("{uri}: {error}"))
}

/// Hands the tests, by the modules they are in, to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! suite {
    ($($each:tt)*) => {
        $($each)*! {
            memory: buffers_are_zero_and_aligned, buffers_check_ranges_usage_and_access,
                parts_share_the_memory_of_the_whole, holders_are_counted, allocators_say_what_they_do,
                memory_is_imported_and_exported_in_place, memory_of_others_needs_no_owner, hosts_write_parts,
                hosts_copy_between_buffers, mappings_are_written, virtual_memory_works_or_is_refused;
            semaphores: timelines_only_advance, the_first_failure_stays, waits_end_with_signals_and_failures,
                waits_with_a_deadline_that_passed_do_not_block, callbacks_come_once, all_or_any_of_several_points,
                timelines_that_go_away_fail_their_waiters, timepoints_of_others_work_or_are_refused,
                threads_signal_and_wait, waits_of_a_finite_time_end;
            queues: fills_updates_and_copies_transfer, overlapping_ranges_are_copied_as_if_through_a_third_place,
                operations_wait_for_their_points, waits_come_before_their_signals,
                transients_come_from_the_pool_that_is_named, transients_have_memory_between_alloca_and_dealloca, failures_reach_everyone_with_their_cause,
                what_a_queue_cannot_do_fails, long_chains_complete, many_threads_submit,
                timelines_of_other_devices_order_operations, transients_without_access_have_all,
                transients_outlive_a_failed_dealloca, transients_go_back_to_their_origin,
                transients_of_indeterminate_lifetime_stay, updates_are_as_long_as_they_like;
            commands: commands_run_in_order, binding_tables_are_chosen_at_each_execution,
                ranges_are_flushed_and_invalidated, recording_is_checked,
                one_shot_commands_run_once, barriers_and_events_order_commands, groups_are_closed,
                commands_outlive_their_recorder, executions_may_overlap, commands_name_transients_before_they_have_memory,
                hundreds_of_commands_run, events_order_command_buffers;
            collectives: ranks_meet_on_one_thread, channels_are_split, hosts_know_the_ranks;
            dispatches: executables_tell_what_they_are, dispatches_compute, recorded_dispatches_take_constants,
                workgroup_counts_come_from_buffers, counts_in_buffers_have_limits, arguments_are_checked, dispatches_share_a_queue;
            workgroups: workgroups_know_their_place, many_workgroups_run, counts_are_a_whole_buffer,
                counts_are_written_by_the_same_commands, dispatches_may_borrow_their_resources,
                dispatches_of_nothing_wait;
            files: memory_is_a_file, files_allow_what_they_were_imported_for, descriptors_are_files;
            host_calls: the_host_is_called_in_its_turn, failures_of_calls_are_those_of_the_queue,
                calls_may_signal_later, calls_nobody_waits_for_fail_nobody, calls_submit_to_their_queue;
            lifetimes: calls_that_wait_outlive_their_device, kernels_and_transfers_that_wait_outlive_their_device,
                a_device_may_end_where_its_operations_complete, transfers_of_files_outlive_their_device;
            failures: an_operation_whose_wait_fails_does_nothing, a_host_call_that_panics_fails_its_points,
                an_execution_that_is_refused_fails_after_its_waits, operations_are_held_to_the_limits_of_their_call;
            devices: devices_describe_themselves, allocators_are_replaced, topologies_are_assigned_once;
            times: observers_learn_when_work_ran, observers_may_want_submissions_alone, statistics_count_kernels;
            optional: what_is_supported_is_what_devices_say;
            graphs: random_graphs;
        }
    };
}

/// Runs every test on one backend: makes a module of tests.
#[macro_export]
macro_rules! on {
    ($module:ident, $backend:expr) => {
        mod $module {
            use super::*;

            const BACKEND: $crate::Backend = $backend;

            $crate::suite!($crate::tests_of_backend);
        }
    };
}

/// The tests of one backend.
#[doc(hidden)]
#[macro_export]
macro_rules! tests_of_backend {
    ($($group:ident: $($test:ident),*;)*) => {
        $(mod $group {
            $(#[test]
            fn $test() {
                $crate::$group::$test(&super::BACKEND);
            })*
        })*
    };
}

macro_rules! functions {
    ($($group:ident: $($test:ident),*;)*) => {
        /// All tests, with the modules they are in.
        pub const TESTS: &[(&str, fn(&Backend))] = &[$($((stringify!($group), $group::$test)),*),*];
    };
}

suite!(functions);

const ANY: QueueAffinity = QueueAffinity::ANY;

/// A point in time that no machine is too slow for. Reaching it means that something waits for ever.
fn in_time() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(120))
}

fn params() -> BufferParams {
    BufferParams {
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
        ..BufferParams::default()
    }
}

fn buffer_of(device: &dyn Device, bytes: &[u8]) -> Arc<dyn Buffer> {
    let buffer = device.allocator().allocate_buffer(params(), bytes.len() as u64).unwrap();
    buffer_write(&*buffer, 0, bytes).unwrap();
    buffer
}

fn bytes_of(buffer: &dyn Buffer) -> Vec<u8> {
    buffer_to_vec(buffer, buffer.byte_length()).unwrap()
}

fn range(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length }
}

fn whole(buffer: &Arc<dyn Buffer>) -> BufferRef {
    range(buffer, 0, WHOLE_BUFFER)
}

fn slot(slot: u32, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: None, slot, offset, length }
}

fn bound(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferBinding {
    BufferBinding { buffer: Some(buffer.clone()), offset, length }
}

fn timeline(device: &dyn Device) -> Arc<dyn Semaphore> {
    device.create_semaphore(ANY, 0, SemaphoreFlags::DEFAULT).unwrap()
}

fn point(semaphore: &Arc<dyn Semaphore>, value: u64) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value }
}

/// The outcome of an operation: a refusal of its submission, or the state of its timeline.
fn outcome(device: &dyn Device, submit: impl FnOnce(&[Timepoint]) -> Result<()>) -> Result<()> {
    let line = timeline(device);
    submit(&[point(&line, 1)])?;
    line.wait(1, in_time())
}

fn record(device: &dyn Device, mode: CommandBufferMode, capacity: u32) -> Arc<dyn CommandBuffer> {
    let commands = device.create_command_buffer(mode, CommandCategory::ANY, ANY, capacity).unwrap();
    commands.begin().unwrap();
    commands
}

fn execute(device: &dyn Device, commands: &Arc<dyn CommandBuffer>, table: &[BufferBinding]) -> Result<()> {
    outcome(device, |signal| device.queue_execute(ANY, &[], signal, commands, table, ExecuteFlags::empty()))
}

/// A barrier in a command buffer between everything before it and everything after it.
fn barrier(commands: &dyn CommandBuffer) -> Result<()> {
    let all = MemoryBarrier {
        source_scope: AccessScope::MEMORY_WRITE,
        target_scope: AccessScope::MEMORY_READ | AccessScope::MEMORY_WRITE,
    };
    let (before, after) = (ExecutionStage::COMMAND_RETIRE, ExecutionStage::COMMAND_ISSUE);
    commands.execution_barrier(before, after, ExecutionBarrierFlags::empty(), &[all], &[])
}

fn code<T>(result: Result<T>) -> StatusCode {
    result.err().expect("a failure").code()
}
