//! The queue discipline of local devices. Inline, an operation runs before its submission returns, unless another
//! thread is running the queue and takes it over; one that had to wait runs on the thread that signals the last of its
//! points. With workers this holds only for light operations, and for those that their thread is blocked on anyway:
//! others go to a worker.
//!
//! Either way no operation runs within another one, so chains of any length need constant stack.

use std::borrow::Cow;
use std::sync::Arc;

use super::discipline::{LocalDiscipline, Operation};
use super::thread_queue::{ThreadQueue, run_and_drain};
use crate::blocking::is_blocking;
use crate::command_buffer::{Execution, LocalCommandProgram, LocalCommands};
use crate::hal::recycle::{MAX_FREE, Uninit, free_list};
use crate::hal::timepoints::{PendingWait, complete};
use crate::hal::{BufferBinding, Timepoint};
use crate::hal_driver::queue::{Discipline, Held, QueueFreeLists, Queued, Submission, Weight};
use crate::status::Result;
use crate::task::Executor;

free_list! { static OPERATIONS: Box<Operation>, MAX_FREE }
free_list! { static PENDING: Uninit<PendingWait<Queued<LocalDiscipline>>>, MAX_FREE }

impl Discipline for LocalDiscipline {
    type Device = LocalCommands;
    type Runner = Executor;

    #[inline]
    fn free_lists() -> QueueFreeLists<LocalDiscipline> {
        QueueFreeLists { operations: &OPERATIONS, pending: &PENDING }
    }

    #[inline]
    fn runner(&self) -> Option<Held<'_, Executor>> {
        match self {
            LocalDiscipline::Inline(_) => None,
            LocalDiscipline::Workers(executor) => Some(Cow::Borrowed(executor)),
        }
    }

    /// By the time that the commands took before.
    fn weight(&self, program: &LocalCommandProgram) -> Weight {
        Weight::Time(Execution(program).expected_time(self.executor()))
    }

    #[inline]
    fn run(&self, signal: &[Timepoint], weight: Weight, submission: impl Submission<LocalDiscipline>) {
        match self {
            LocalDiscipline::Inline(inline) => inline.run(signal, weight, submission),
            LocalDiscipline::Workers(executor) => {
                let light = weight.is_light(executor.handover_threshold());
                if light || weight != Weight::Foreign && is_blocking() {
                    run_and_drain(|| complete(signal, submission.perform(signal)));
                } else {
                    let mut operation = Operation::new(weight, signal, submission);
                    operation.charge_memory(0);
                    executor.spawn(operation);
                }
            }
        }
    }

    fn push(&self, operation: Box<Operation>) {
        match self {
            LocalDiscipline::Inline(inline) => inline.push(operation),
            LocalDiscipline::Workers(executor) if operation.weight.is_light(executor.handover_threshold()) => {
                ThreadQueue::push(operation);
            }
            LocalDiscipline::Workers(executor) => executor.spawn(operation),
        }
    }

    #[inline]
    fn execute(program: &Arc<LocalCommandProgram>, table: &[BufferBinding], runner: Option<&Executor>) -> Result<()> {
        Execution(program).run(table, runner)
    }
}
