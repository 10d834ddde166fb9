//! The gate that every function passes ([`entry`]): faults that are injected, the trace of calls, calls from functions
//! of the host that streams run, and panics, which are mistakes of this library. Functions that are not implemented end
//! in [`refused`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use vireo_cuda::result::CuResult;
use vireo_soft::clock;

use crate::api::Outcome;
use crate::callback::is_calling_back;
use crate::context::text_of;
use crate::generated::entries::ENTRIES;
use crate::reports::{tell, tell_once};
use crate::system::{current_whatever, system, with_per_thread};

/// Statuses of work that end a context: every later call returns them.
const ENDING: [CuResult; 11] = [
    CuResult::ERROR_ECC_UNCORRECTABLE,
    CuResult::ERROR_ILLEGAL_ADDRESS,
    CuResult::ERROR_LAUNCH_TIMEOUT,
    CuResult::ERROR_ASSERT,
    CuResult::ERROR_HARDWARE_STACK_ERROR,
    CuResult::ERROR_ILLEGAL_INSTRUCTION,
    CuResult::ERROR_MISALIGNED_ADDRESS,
    CuResult::ERROR_INVALID_ADDRESS_SPACE,
    CuResult::ERROR_INVALID_PC,
    CuResult::ERROR_LAUNCH_FAILED,
    CuResult::ERROR_TENSOR_MEMORY_LEAK,
];

/// Passes a call.
pub(crate) fn entry(symbol: &'static str, per_thread: bool, call: impl FnOnce() -> Outcome) -> CuResult {
    let _call = system().ok().map(|system| system.crew.call());
    let begin = clock::now();
    let status = pass(symbol, || with_per_thread(per_thread, call));
    let status = status.err().unwrap_or(CuResult::SUCCESS);
    if let Ok(Some(trace)) = system().map(|system| &system.trace) {
        trace.call(symbol, begin, status);
    }
    status
}

fn pass(symbol: &'static str, call: impl FnOnce() -> Outcome) -> Outcome {
    if is_calling_back() {
        return Err(CuResult::ERROR_NOT_PERMITTED);
    }
    if let Ok(system) = system() {
        let is_it = |function: &str| {
            symbol == function || ENTRIES.iter().any(|entry| entry.symbol == symbol && entry.name == function)
        };
        if let Some(status) = system.fault(is_it) {
            tell(format_args!("{symbol}: fails with {} as the options say", status.0));
            if ENDING.contains(&status)
                && let Ok((_, context)) = current_whatever()
            {
                context.fail(status);
            }
            return Err(status);
        }
    }
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        tell(format_args!("{symbol}: a mistake of this library: {}", text_of(&*panic)));
        Err(CuResult::ERROR_UNKNOWN)
    })
}

/// A call of a function that is not implemented.
pub(crate) fn refused(symbol: &'static str) -> CuResult {
    tell_once(symbol, "it is not implemented");
    if let Ok(Some(trace)) = system().map(|system| &system.trace) {
        trace.call(symbol, clock::now(), CuResult::ERROR_NOT_SUPPORTED);
    }
    CuResult::ERROR_NOT_SUPPORTED
}
