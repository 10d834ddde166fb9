//! The queue operations of a device as methods of [`Queue`], which drivers call. Each takes the points to wait for and
//! those to signal; a failure goes to the latter, or to the caller if there are none and the operation has run already.

use std::borrow::Cow;
use std::sync::Arc;

use super::operation::Request;
use super::submission::{Discipline, Queue};
use super::weight::Weight;
use super::work::{Held, Work};
use crate::deferred::CommandProgram;
use crate::hal::{Buffer, BufferBinding, File, Timepoint};
use crate::status::{Result, Status};

/// The points to wait for, and those to signal.
pub type WaitAndSignal<'a> = (&'a [Timepoint], &'a [Timepoint]);

#[expect(clippy::missing_errors_doc, reason = "the first lines of the file describe the errors of all")]
impl<D: Discipline> Queue<D> {
    /// Signals after the wait, without work of its own.
    pub fn barrier(self: &Arc<Self>, (wait, signal): WaitAndSignal<'_>) -> Result<()> {
        self.submit(wait, signal, Weight::Light, Work::Nothing)
    }

    /// Fills `length` bytes with a pattern of 1, 2 or 4 bytes.
    pub fn fill(
        self: &Arc<Self>,
        (wait, signal): WaitAndSignal<'_>,
        (target, offset): (&Arc<dyn Buffer>, u64),
        length: u64,
        pattern: &[u8],
    ) -> Result<()> {
        let work = Work::Fill { target: Cow::Borrowed(target), offset, length };
        let request = Request { bytes: pattern, ..Request::from(work) };
        self.submit(wait, signal, Weight::of_transfer(length), request)
    }

    /// Writes bytes that the host passes.
    pub fn update(
        self: &Arc<Self>,
        (wait, signal): WaitAndSignal<'_>,
        source: &[u8],
        (target, offset): (&Arc<dyn Buffer>, u64),
    ) -> Result<()> {
        let work = Work::Update { target: Cow::Borrowed(target), offset };
        let request = Request { bytes: source, ..Request::from(work) };
        self.submit(wait, signal, Weight::of_transfer(source.len() as u64), request)
    }

    /// Copies `length` bytes between buffers.
    pub fn copy(
        self: &Arc<Self>,
        (wait, signal): WaitAndSignal<'_>,
        (source, source_offset): (&Arc<dyn Buffer>, u64),
        (target, target_offset): (&Arc<dyn Buffer>, u64),
        length: u64,
    ) -> Result<()> {
        let (source, target) = (Cow::Borrowed(source), Cow::Borrowed(target));
        let work = Work::Copy { source, source_offset, target, target_offset, length };
        self.submit(wait, signal, Weight::of_transfer(length), work)
    }

    /// Reads `length` bytes of a file.
    pub fn read(
        self: &Arc<Self>,
        (wait, signal): WaitAndSignal<'_>,
        (source, source_offset): (&Arc<dyn File>, u64),
        (target, target_offset): (&Arc<dyn Buffer>, u64),
        length: u64,
    ) -> Result<()> {
        let (source, target) = (Cow::Borrowed(source), Cow::Borrowed(target));
        let work = Work::Read { source, source_offset, target, target_offset, length };
        self.submit(wait, signal, Weight::Time(None), work)
    }

    /// Writes `length` bytes to a file.
    pub fn write(
        self: &Arc<Self>,
        (wait, signal): WaitAndSignal<'_>,
        (source, source_offset): (&Arc<dyn Buffer>, u64),
        (target, target_offset): (&Arc<dyn File>, u64),
        length: u64,
    ) -> Result<()> {
        let (source, target) = (Cow::Borrowed(source), Cow::Borrowed(target));
        let work = Work::Write { source, source_offset, target, target_offset, length };
        self.submit(wait, signal, Weight::Time(None), work)
    }

    /// Executes a command program with a binding table, and with the runner of the queue if it has one.
    #[inline]
    pub fn execute(
        self: &Arc<Self>,
        (wait, signal): WaitAndSignal<'_>,
        weight: Weight,
        program: Held<'_, CommandProgram<D::Device>>,
        table: &[BufferBinding],
    ) -> Result<()> {
        if program.slots() > table.len() {
            let (slots, given) = (program.slots(), table.len());
            return Err(Status::invalid_argument(format!("the commands refer to {slots} slots, {given} are bound")));
        }
        let work = Work::Execute { program, runner: self.discipline().runner() };
        self.submit(wait, signal, weight, Request { table, ..Request::from(work) })
    }
}
