//! Native modules: modules of functions in Rust that programs import. The interpreter and hosts call them through
//! [`NativeModule`].
//!
//! A call crosses the boundary as two streams in the order of the calling convention: one 64-bit word per `i I f F`,
//! one entry per `r`. A span `C...D` is one word with the number of tuples, then the tuples. `#[vm_module]` writes this
//! code; few write it by hand.

use std::any::{Any, TypeId};
use std::mem::MaybeUninit;

use super::object::Ref;
use super::wait_source::BoxedWaitSource;
pub use super::wait_source::WaitSource;
use crate::status::Result;

/// One exported function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeExport {
    /// Name without the module's name.
    pub name: &'static str,
    /// Calling convention, such as `0rIiiI_r`.
    pub convention: &'static str,
}

/// The arguments of a native call, and the lists for its results. A context reuses one value for all calls, so that
/// they need no allocation. It has cache lines of its own, because what other threads read may lie beside it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Call {
    /// Value arguments. The upper half of an `i` or `f` is undefined.
    pub words: Vec<u64>,
    /// Reference arguments. The callee may take those that are not lent.
    pub refs: Vec<Option<Ref>>,
    /// Which of the first 64 references are lent, as a bit set: the callee may use and clone a lent reference, but not
    /// take it.
    pub lent: u64,
    /// Value results, filled by the callee.
    pub result_words: Vec<u64>,
    /// Reference results, filled by the callee.
    pub result_refs: Vec<Option<Ref>>,
}

impl Call {
    /// Clears arguments and results.
    #[inline]
    pub fn clear(&mut self) {
        self.words.clear();
        clear(&mut self.refs);
        self.lent = 0;
        self.result_words.clear();
        clear(&mut self.result_refs);
    }
}

/// Empties a list, which most often is empty already: a test then, where `clear` would call a function.
#[inline(always)]
fn clear(refs: &mut Vec<Option<Ref>>) {
    while let Some(reference) = refs.pop() {
        drop(reference);
    }
}

/// Moves references out of a list, each with the target of the same index, and releases those that are too many. As
/// `drain`, without the guard for what the loop leaves: if a destructor panics, those after it leak.
#[inline(always)]
pub(crate) fn move_out<T>(references: &mut Vec<Option<Ref>>, targets: &[T], mut to: impl FnMut(&T, Option<Ref>)) {
    let count = references.len();
    // SAFETY: an empty list is not longer than its memory.
    unsafe { references.set_len(0) };
    for (target, reference) in targets.iter().zip(&mut references.spare_capacity_mut()[..count]) {
        // SAFETY: the memory holds as many references as the list had, which does not own them any more. Each is moved
        // out once.
        to(target, unsafe { reference.assume_init_read() });
    }
    if count > targets.len() {
        // SAFETY: the memory holds as many references as the list had, which does not own them any more. Each is moved
        // out once; those before were moved out, and these were not.
        unsafe { release(&mut references.spare_capacity_mut()[targets.len()..count]) };
    }
}

/// Releases references that a native function has added to its arguments or results.
///
/// # Safety
/// They must be initialised, and not be used any more.
#[cold]
unsafe fn release(references: &mut [MaybeUninit<Option<Ref>>]) {
    // SAFETY: the caller guarantees that they are initialised and not used any more.
    references.iter_mut().for_each(|reference| unsafe { reference.assume_init_drop() });
}

/// The outcome of a native call.
pub enum Outcome {
    /// It returned; the results are in the call.
    Return,
    /// It has to wait. The caller waits for the source and then calls the function again with the same arguments, which
    /// the callee must have left in place.
    Wait(BoxedWaitSource),
}

/// Most integers, and most floats, among the arguments of a direct call: the registers of the processor that pass them.
pub const DIRECT_INTEGERS: usize = 4;
/// See [`DIRECT_INTEGERS`].
pub const DIRECT_FLOATS: usize = 4;

/// The function of a direct entry. It takes the machine, the import, then integers and floats, each in their order; a
/// narrower number is in the lower bits. Those that the export does not have are undefined.
pub(crate) type DirectFunction =
    unsafe extern "C" fn(*mut (), *const (), u64, u64, u64, u64, f64, f64, f64, f64) -> DirectResult;

/// The result of a direct call, in two registers.
#[repr(C)]
pub(crate) struct DirectResult {
    /// The result as in [`Call::result_words`].
    pub bits: u64,
    /// Zero if the export has failed; the machine says why.
    pub has_returned: u64,
}

/// The direct entry of an export: how machine code calls it without a [`Call`]. The export takes numbers, returns at
/// most one, and never waits.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct DirectEntry {
    pub(crate) function: DirectFunction,
    /// The type of the module that the function takes.
    pub(crate) module: TypeId,
}

/// A module written in Rust. One instance may be in many contexts, each of which has a state of its own.
pub trait NativeModule: Any + Send + Sync {
    /// Name that imports have before the dot.
    fn name(&self) -> &str;

    /// Version of the module; importers state a minimum.
    fn version(&self) -> u32;

    /// The exported functions; an index into this slice is the function's ordinal.
    fn exports(&self) -> &[NativeExport];

    /// Makes the state of one context.
    ///
    /// # Errors
    /// The failures of the module, which end the creation of the context.
    fn create_state(&self) -> Result<Box<dyn Any + Send>>;

    /// Calls export `ordinal`.
    ///
    /// # Errors
    /// The failures of the export, which become those of the program; `INVALID_ARGUMENT` if the arguments do not match
    /// its calling convention.
    fn call(&self, ordinal: usize, state: &mut dyn Any, call: &mut Call) -> Result<Outcome>;

    /// How machine code calls export `ordinal` directly, if it can.
    #[doc(hidden)]
    fn direct_entry(&self, ordinal: usize) -> Option<DirectEntry> {
        let _ = ordinal;
        None
    }
}
