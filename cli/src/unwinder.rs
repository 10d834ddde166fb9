//! The unwinder of a command without unwind tables (`cargo xtask dist`): each walk of the stack is at its end at once.
//! Nothing unwinds where panics abort, and the stack cannot be walked without tables, but the standard library refers
//! to both, and prints backtraces with a reader of debug information. Since the walk is known to be empty when the
//! command is linked, all of that is left out, as is the unwinder of the system.
#![expect(unsafe_code, reason = "the standard library calls the unwinder by the names of C")]

use std::ffi::{c_int, c_void};
use std::process::abort;

/// The result of a walk at the end of the stack.
const END_OF_STACK: c_int = 5;

// SAFETY: these are the signatures of C.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_each: extern "C" fn(*mut c_void, *mut c_void) -> c_int, _data: *mut c_void) -> c_int {
    END_OF_STACK
}

/// Functions that only unwinding calls.
macro_rules! never_called {
    ($($name:ident)*) => {
        $(
            // SAFETY: it does not return, so neither arguments nor the result matter.
            #[unsafe(no_mangle)]
            extern "C" fn $name() {
                abort()
            }
        )*
    };
}

never_called! {
    _Unwind_GetDataRelBase
    _Unwind_GetIP
    _Unwind_GetIPInfo
    _Unwind_GetLanguageSpecificData
    _Unwind_GetRegionStart
    _Unwind_GetTextRelBase
    _Unwind_Resume
    _Unwind_SetGR
    _Unwind_SetIP
}
