//! Direct imports: calls of functions in Rust by machine code that pass numbers in registers of the processor, not in a
//! [`Call`](crate::Call).
//!
//! `#[vm_module]` writes a [`DirectExport`] for each export that takes numbers, returns at most one and never waits;
//! contexts bind imports to them. The function that machine code calls, [`enter`], does what the interpreter does
//! around such a call, as far as that can be observed without limits: while a call is limited, and in frames that
//! references are lent to, machine code calls the runtime instead (`threaded/runtime_ops.rs`).

use std::any::{Any, TypeId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::NativeModule;
use crate::interp::machine::Machine;
use crate::interp::machine::direct_import::DirectImport;
use crate::interp::ops::native_call::{in_native_frame, native_state};
use crate::native::{DIRECT_FLOATS, DIRECT_INTEGERS, DirectEntry, DirectResult};
use crate::status::{Result, Status};

/// An export that machine code can call directly.
pub trait DirectExport: 'static {
    /// The module.
    type Module: NativeModule;
    /// How many of its arguments are integers.
    const INTEGERS: usize;
    /// How many of its arguments are floats.
    const FLOATS: usize;
    /// Whether it uses the state of the module.
    const TAKES_STATE: bool;

    /// Calls it. The result is as in [`Call::result_words`](crate::Call::result_words).
    ///
    /// # Errors
    /// The failures of the export.
    fn call(module: &Self::Module, state: &mut dyn Any, words: &DirectWords) -> Result<u64>;
}

/// The arguments of a direct call.
pub struct DirectWords {
    integers: [u64; DIRECT_INTEGERS],
    floats: [f64; DIRECT_FLOATS],
}

impl DirectWords {
    /// Integer argument number `index`, as an `i`.
    #[inline(always)]
    pub fn i32(&self, index: usize) -> i32 {
        self.integers[index] as i32
    }

    /// The same as an `I`.
    #[inline(always)]
    pub fn i64(&self, index: usize) -> i64 {
        self.integers[index] as i64
    }

    /// Float argument number `index`, as an `f`.
    #[inline(always)]
    pub fn f32(&self, index: usize) -> f32 {
        f32::from_bits(self.floats[index].to_bits() as u32)
    }

    /// The same as an `F`.
    #[inline(always)]
    pub fn f64(&self, index: usize) -> f64 {
        self.floats[index]
    }
}

impl DirectEntry {
    /// The entry of an export; none if it has more arguments than there are registers.
    pub fn of<E: DirectExport>() -> Option<DirectEntry> {
        let fits = E::INTEGERS <= DIRECT_INTEGERS && E::FLOATS <= DIRECT_FLOATS;
        fits.then(|| DirectEntry { function: enter::<E>, module: TypeId::of::<E::Module>() })
    }
}

/// Calls an export for machine code, through which no panic may unwind.
///
/// # Safety
/// `cx` is a [`Machine`] that no other thread uses during the call, and `import` a [`DirectImport`] that was bound to
/// this export.
unsafe extern "C" fn enter<E: DirectExport>(
    cx: *mut (),
    import: *const (),
    i0: u64,
    i1: u64,
    i2: u64,
    i3: u64,
    f0: f64,
    f1: f64,
    f2: f64,
    f3: f64,
) -> DirectResult {
    // SAFETY: `cx` is a machine that no other thread uses during the call, and `import` was bound to this export.
    // Machine code holds no reference to its machine, and its module keeps the imports.
    let (cx, import) = unsafe { (&mut *cx.cast::<Machine<'_>>(), &*import.cast::<DirectImport>()) };
    let words = DirectWords { integers: [i0, i1, i2, i3], floats: [f0, f1, f2, f3] };
    let called = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `DirectImport::new` found the module to be of this type.
        let module = unsafe { &*Arc::as_ptr(&import.module).cast::<E::Module>() };
        if !E::TAKES_STATE {
            return E::call(module, &mut (), &words);
        }
        E::call(module, native_state(&mut cx.state.modules, import.target)?, &words)
    }));
    match called {
        Ok(Ok(bits)) => DirectResult { bits, has_returned: 1 },
        Ok(Err(status)) => failed(cx, import, status),
        Err(panic) => panicked(cx, panic),
    }
}

const FAILED: DirectResult = DirectResult { bits: 0, has_returned: 0 };

#[cold]
#[inline(never)]
fn failed(cx: &mut Machine<'_>, import: &DirectImport, status: Status) -> DirectResult {
    cx.failure = Some(in_native_frame(&*import.module, import.target, status));
    FAILED
}

#[cold]
#[inline(never)]
fn panicked(cx: &mut Machine<'_>, panic: Box<dyn Any + Send>) -> DirectResult {
    cx.panic = Some(panic);
    FAILED
}
