//! The program that a command buffer is recorded to ([`Program`]): the templates of its blocks, the buffers and
//! executables that it holds, and the slots of the binding table that it uses. It never changes, so any number of
//! executions may run it.
//!
//! [`Program::resolve`] checks the table of an execution against what commands need of its slots, and notes the
//! addresses. What then writes packets adds offsets that were checked.

use std::fmt;

use super::published::PublishedArguments;
use super::resolved::Resolved;
use super::template::Template;
use super::transfer::TransferKernels;
use crate::hal::BufferBinding;
use crate::hal_driver::references::Held;
use crate::limits::Charge;
use crate::memory::AgentMask;
use crate::status::Result;

/// A recorded command buffer.
pub struct Program {
    /// Its blocks, one at least.
    pub(super) templates: Vec<Template>,
    /// The buffers and executables that its commands refer to.
    pub(super) held: Held<AgentMask>,
    /// The templates whose transfers have lengths that the binding table decides.
    pub(super) unchecked: Vec<u32>,
    /// The arguments that were published when recording ended.
    pub(super) _published: PublishedArguments,
    /// The driver's kernels, if commands need them.
    pub(super) kernels: Option<TransferKernels>,
    /// Number of commands.
    pub(super) commands: u32,
    /// Its memory, charged to the call that recorded it.
    pub(super) _charge: Charge,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.templates.drain(..).for_each(Template::recycle);
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program({} commands in {} blocks)", self.commands, self.templates.len())
    }
}

impl Program {
    /// The templates of its blocks, which are executed one after the other.
    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    /// The driver's kernels, if commands need them.
    pub fn kernels(&self) -> Option<&TransferKernels> {
        self.kernels.as_ref()
    }

    /// Number of commands.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// Finds the memory of everything that commands refer to, and checks the binding table. `resolved` is empty.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for fewer bindings than there are slots, or memory of another kind of device, OUT_OF_RANGE for
    /// a binding that is too short, FAILED_PRECONDITION for an empty one or a buffer without memory, PERMISSION_DENIED
    /// for a usage that the buffer does not allow.
    pub fn resolve(&self, table: &[BufferBinding], resolved: &mut Resolved) -> Result<()> {
        self.held.resolve(table, resolved)?;
        for index in &self.unchecked {
            self.templates[*index as usize].check(resolved)?;
        }
        Ok(())
    }
}
