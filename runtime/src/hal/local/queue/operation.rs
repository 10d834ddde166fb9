//! Operations that are kept until they can run, and the memory they are kept in, which is used again.

use std::sync::Arc;

use super::signal::{complete, finish};
use super::weight::Weight;
use crate::hal::local::commands::Program;
use crate::hal::local::task::Executor;
use crate::hal::recycle::{MAX_KEPT, kept};
use crate::hal::transient::{MemorySource, TransientBuffer};
use crate::hal::{
    Buffer, BufferBinding, BufferParams, HostCall, HostCallContext, HostCallFlags, Timepoint, buffer_copy, buffer_fill,
    buffer_write,
};
use crate::limits::scope::{self, Scope};
use crate::limits::{Charge, OBJECT_BYTES};
use crate::status::{Result, Status, StatusCode};

/// Most bytes and points that the memory of an operation is kept with.
const MAX_KEPT_BYTES: usize = 64 << 10;
const MAX_KEPT_ENTRIES: usize = 1 << 10;

kept! { static KEPT: Box<Operation>, MAX_KEPT }

/// What to do and what to signal then. It owns what it needs.
pub(in crate::hal::local) struct Operation {
    pub(in crate::hal::local) weight: Weight,
    pub(in crate::hal::local) work: Work,
    /// A pattern, or what an update writes.
    pub(in crate::hal::local) bytes: Vec<u8>,
    /// What the slots of a program are bound to.
    pub(in crate::hal::local) table: Vec<BufferBinding>,
    signal: Vec<Timepoint>,
    /// The limits of the call that submitted it.
    scope: Scope,
    /// What counts the memory of an operation that waits.
    charge: Charge,
}

/// What an operation does.
#[derive(Default)]
pub(in crate::hal::local) enum Work {
    /// What is ordered after others is all there is to it.
    #[default]
    Nothing,
    /// Fails at once.
    Fail(Status),
    /// Fills with the pattern that is in the bytes.
    Fill {
        target: Arc<dyn Buffer>,
        offset: u64,
        length: u64,
    },
    /// Writes the bytes.
    Update {
        target: Arc<dyn Buffer>,
        offset: u64,
    },
    Copy {
        source: Arc<dyn Buffer>,
        source_offset: u64,
        target: Arc<dyn Buffer>,
        target_offset: u64,
        length: u64,
    },
    /// Runs a program on what is in the table, with the workers of the queue if it has some.
    Execute(Arc<Program>, Option<Arc<Executor>>),
    /// Gives a transient buffer memory.
    Commit {
        transient: Arc<TransientBuffer>,
        source: MemorySource,
        params: BufferParams,
        length: u64,
    },
    /// Takes the memory of a transient buffer away. Other buffers stay as they are.
    Decommit(Arc<dyn Buffer>),
    Call {
        call: Arc<dyn HostCall>,
        context: HostCallContext,
        flags: HostCallFlags,
    },
    /// Anything that programs do not do at each call.
    Other(Box<dyn FnOnce() -> Result<()> + Send>),
}

impl Operation {
    /// An operation that does nothing yet.
    pub(in crate::hal::local) fn new(weight: Weight, signal: &[Timepoint]) -> Box<Operation> {
        let mut operation = KEPT.take(0).unwrap_or_else(|| {
            let (bytes, table, signal) = (Vec::new(), Vec::new(), Vec::new());
            let (scope, charge) = (Scope::default(), Charge::default());
            Box::new(Operation { weight, work: Work::Nothing, bytes, table, signal, scope, charge })
        });
        operation.weight = weight;
        operation.signal.extend_from_slice(signal);
        operation.scope = Scope::current();
        operation
    }

    /// Counts its memory, and that of `waits` points which know of it, for the call that submits it.
    pub(in crate::hal::local) fn count(&mut self, waits: usize) {
        if scope::is_armed() {
            let objects = 2 + waits + self.signal.len() + self.table.len();
            self.charge = Charge::of_call_anyway(self.bytes.len() as u64 + objects as u64 * OBJECT_BYTES);
        }
    }

    /// Does it and signals.
    pub(in crate::hal::local) fn run(mut self: Box<Self>) {
        let outcome = {
            let _entered = self.take_scope().enter();
            self.perform()
        };
        self.end(outcome);
    }

    /// The limits to perform it within.
    pub(super) fn take_scope(&mut self) -> Scope {
        std::mem::take(&mut self.scope)
    }

    /// What is still to be done once it was performed: lets go of what it held, passes on how it ended, and keeps the memory.
    pub(super) fn end(mut self: Box<Self>, outcome: Result<()>) {
        // Who waits for the operation finds that nothing of it is left.
        for buffer in self.table.drain(..).filter_map(|binding| binding.buffer) {
            buffer.recycle();
        }
        complete(&self.signal, outcome);
        for point in self.signal.drain(..) {
            point.semaphore.recycle();
        }
        self.bytes.clear();
        (self.scope, self.charge) = (Scope::default(), Charge::default());
        if self.bytes.capacity() <= MAX_KEPT_BYTES
            && self.table.capacity() <= MAX_KEPT_ENTRIES
            && self.signal.capacity() <= MAX_KEPT_ENTRIES
        {
            KEPT.keep(0, self);
        }
    }

    /// Does it, without signaling. Within the scope that [`Operation::take_scope`] gives.
    pub(super) fn perform(&mut self) -> Result<()> {
        // What a limit refuses is let go of, too: nothing of it may be left for who gets the memory next.
        let work = std::mem::take(&mut self.work);
        if !matches!(work, Work::Fail(_) | Work::Decommit(_)) {
            scope::check()?;
        }
        match work {
            Work::Nothing => Ok(()),
            Work::Fail(cause) => Err(cause),
            Work::Fill { target, offset, length } => {
                let outcome = buffer_fill(&*target, offset, length, &self.bytes);
                target.recycle();
                outcome
            }
            Work::Update { target, offset } => {
                let outcome = buffer_write(&*target, offset, &self.bytes);
                target.recycle();
                outcome
            }
            Work::Copy { source, source_offset, target, target_offset, length } => {
                let outcome = buffer_copy(&*source, source_offset, &*target, target_offset, length);
                source.recycle();
                target.recycle();
                outcome
            }
            Work::Execute(program, executor) => {
                let outcome = program.run(&self.table, executor.as_deref());
                Program::retire(program);
                outcome
            }
            Work::Commit { transient, source, params, length } => {
                let outcome = source.allocate(params, length).map(|memory| transient.commit(memory));
                transient.recycle();
                outcome
            }
            Work::Decommit(allocation) => {
                let outcome = decommit(&*allocation);
                allocation.recycle();
                outcome
            }
            Work::Call { call, context, flags } => call_host(&*call, context, flags, &self.signal),
            Work::Other(work) => work(),
        }
    }
}

/// Calls a function of the host that signals `signal`, by itself or when it returns.
pub(in crate::hal::local) fn call_host(
    call: &dyn HostCall,
    context: HostCallContext,
    flags: HostCallFlags,
    signal: &[Timepoint],
) -> Result<()> {
    if flags.contains(HostCallFlags::NON_BLOCKING) {
        finish(signal, Ok(()));
        // Nobody waits for the call, so nobody learns how it ended.
        let _ = call.call(context, &[]);
        return Err(Status::new(StatusCode::Deferred, "the points are signaled already"));
    }
    call.call(context, signal)
}

/// Takes the memory of a transient buffer away. Other buffers stay as they are.
pub(in crate::hal::local) fn decommit(allocation: &dyn Buffer) -> Result<()> {
    let any: &dyn std::any::Any = allocation;
    any.downcast_ref::<TransientBuffer>().map_or(Ok(()), TransientBuffer::decommit)
}
