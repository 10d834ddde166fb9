//! Native modules: functions in Rust that programs import.
//!
//! A call crosses the boundary as two streams in the order of the calling convention: one 64-bit word per `i I f F`, one entry per
//! `r`. A span `C...D` is one word with the number of tuples, then the tuples. `#[vm_module]` writes this code; few write it by hand.

use std::any::Any;

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

/// The arguments of a call and the place for its results. Programs make all their calls in the memory of the first one.
#[derive(Debug, Default)]
pub struct Call {
    /// Value arguments: integers sign-extended or not as the caller has them (read only the low half of an `i` or `f`).
    pub words: Vec<u64>,
    /// Reference arguments. The callee may take those that are not lent.
    pub refs: Vec<Option<Ref>>,
    /// Which of the first 64 references are the caller's: the callee may look at them and count them, not take them.
    pub lent: u64,
    /// Value results, filled by the callee.
    pub result_words: Vec<u64>,
    /// Reference results, filled by the callee.
    pub result_refs: Vec<Option<Ref>>,
}

impl Call {
    /// Forgets arguments and results.
    #[inline]
    pub fn clear(&mut self) {
        self.words.clear();
        self.refs.clear();
        self.lent = 0;
        self.result_words.clear();
        self.result_refs.clear();
    }
}

/// What a native function did.
pub enum Outcome {
    /// It returned; the results are in the call.
    Return,
    /// It has to wait. The caller waits on the source and then calls the function again with the same arguments, which
    /// the callee must have left in place.
    Wait(BoxedWaitSource),
}

/// A module written in Rust. One instance may serve many contexts; what belongs to one context is its state.
pub trait NativeModule: Send + Sync + 'static {
    /// Name that imports use in front of the dot.
    fn name(&self) -> &str;

    /// Version that the minimum versions of importers are compared with.
    fn version(&self) -> u32;

    /// The exported functions; an index into this slice is the function's ordinal.
    fn exports(&self) -> &[NativeExport];

    /// Makes the state of one context.
    fn create_state(&self) -> Result<Box<dyn Any + Send>>;

    /// Calls export `ordinal`.
    fn call(&self, ordinal: usize, state: &mut dyn Any, call: &mut Call) -> Result<Outcome>;
}
