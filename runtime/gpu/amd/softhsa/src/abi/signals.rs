//! Signals. Functions without a status report a wrong handle on the standard error stream, and do nothing.

use std::ffi::c_void;

use vireo_hsa::hsa::{Agent as AgentHandle, HsaStatus, ProfilingDispatchTime, SignalHandler, SignalValue, WaitState};
use vireo_hsa::signal::{Signal as SignalHandle, SignalCondition};
use vireo_soft::clock;

use super::pointers::{Out, array, call};
use crate::handlers;
use crate::signals::{Handler, Signal, compare};
use crate::status::{Result, tell};
use crate::system::{System, system};

/// Signals that a thread waits for at most.
const MAX_SIGNALS: u32 = 1 << 16;

/// Does something with a signal that has a value.
fn with<T: Default>(name: &str, handle: SignalHandle, action: impl FnOnce(&System, &Signal) -> Result<T>) -> T {
    let result = system().and_then(|system| action(&system, &*system.signals.get(handle)?));
    result.unwrap_or_else(|status| {
        tell(format_args!("{name}: {status:?} for the signal {:#x}", handle.0));
        T::default()
    })
}

/// Functions that replace the value of a signal.
macro_rules! updates {
    ($($function:ident)* => |$old:ident, $value:ident| $new:expr) => {
        $(pub(crate) unsafe extern "C" fn $function(signal: SignalHandle, $value: i64) {
            with(stringify!($function), signal, |system, signal| {
                system.update_signal(signal, |$old| $new);
                Ok(())
            });
        })*
    };
}

updates!(hsa_signal_store_relaxed hsa_signal_store_screlease
    hsa_signal_silent_store_relaxed hsa_signal_silent_store_screlease => |_old, value| value);
updates!(hsa_signal_add_scacq_screl hsa_signal_add_scacquire hsa_signal_add_relaxed hsa_signal_add_screlease
    => |old, value| old.wrapping_add(value));
updates!(hsa_signal_subtract_scacq_screl hsa_signal_subtract_scacquire
    hsa_signal_subtract_relaxed hsa_signal_subtract_screlease => |old, value| old.wrapping_sub(value));
updates!(hsa_signal_and_scacq_screl hsa_signal_and_scacquire hsa_signal_and_relaxed hsa_signal_and_screlease
    => |old, value| old & value);
updates!(hsa_signal_or_scacq_screl hsa_signal_or_scacquire hsa_signal_or_relaxed hsa_signal_or_screlease
    => |old, value| old | value);
updates!(hsa_signal_xor_scacq_screl hsa_signal_xor_scacquire hsa_signal_xor_relaxed hsa_signal_xor_screlease
    => |old, value| old ^ value);

/// Functions that exchange the value of a signal. All have the order that is the strictest of them.
macro_rules! exchanges {
    ($($function:ident)*) => {
        $(pub(crate) unsafe extern "C" fn $function(signal: SignalHandle, value: i64) -> i64 {
            with(stringify!($function), signal, |system, signal| Ok(system.update_signal(signal, |_| value)))
        })*
    };
}

exchanges!(hsa_signal_exchange_scacq_screl hsa_signal_exchange_scacquire
    hsa_signal_exchange_relaxed hsa_signal_exchange_screlease);

/// Functions that exchange the value of a signal if it is as expected.
macro_rules! conditional_exchanges {
    ($($function:ident)*) => {
        $(pub(crate) unsafe extern "C" fn $function(signal: SignalHandle, expected: i64, value: i64) -> i64 {
            with(stringify!($function), signal, |system, signal| {
                Ok(system.update_signal(signal, |old| if old == expected { value } else { old }))
            })
        })*
    };
}

conditional_exchanges!(hsa_signal_cas_scacq_screl hsa_signal_cas_scacquire
    hsa_signal_cas_relaxed hsa_signal_cas_screlease);

/// Functions that load the value of a signal.
macro_rules! loads {
    ($($function:ident)*) => {
        $(pub(crate) unsafe extern "C" fn $function(signal: SignalHandle) -> i64 {
            with(stringify!($function), signal, |_, signal| Ok(signal.load()))
        })*
    };
}

loads!(hsa_signal_load_scacquire hsa_signal_load_relaxed);

/// Functions that wait for a signal.
macro_rules! waits {
    ($($function:ident)*) => {
        $(pub(crate) unsafe extern "C" fn $function(
            signal: SignalHandle,
            condition: SignalCondition,
            compare_value: i64,
            timeout_hint: u64,
            _wait_state_hint: WaitState,
        ) -> i64 {
            with(stringify!($function), signal, |system, signal| {
                system.signals.wait(signal, condition, compare_value, clock::deadline(timeout_hint))
            })
        })*
    };
}

waits!(hsa_signal_wait_scacquire hsa_signal_wait_relaxed);

/// Creates a signal; `consumers` say who waits for it, which is anyone here.
unsafe fn create(
    initial_value: i64,
    num_consumers: u32,
    consumers: *const AgentHandle,
    signal: *mut SignalHandle,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let (out, consumers) = unsafe { (Out::new(signal)?, array(consumers, num_consumers as usize)?) };
        consumers.into_iter().try_for_each(|agent| system.agent(agent).map(|_| ()))?;
        out.set(SignalHandle(system.add_signal(Signal::user(initial_value))?));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_signal_create(
    initial_value: i64,
    num_consumers: u32,
    consumers: *const AgentHandle,
    signal: *mut SignalHandle,
) -> HsaStatus {
    // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
    unsafe { create(initial_value, num_consumers, consumers, signal) }
}

pub(crate) unsafe extern "C" fn hsa_amd_signal_create(
    initial_value: i64,
    num_consumers: u32,
    consumers: *const AgentHandle,
    attributes: u64,
    signal: *mut SignalHandle,
) -> HsaStatus {
    use vireo_hsa::hsa::SignalAttributes;
    let known = u64::from(SignalAttributes(0).with_amd_gpu_only(true).0);
    if attributes & !known != 0 {
        // Other processes cannot use a signal.
        return HsaStatus::ERROR_INVALID_ARGUMENT;
    }
    // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
    unsafe { create(initial_value, num_consumers, consumers, signal) }
}

pub(crate) unsafe extern "C" fn hsa_signal_destroy(signal: SignalHandle) -> HsaStatus {
    call(|system| {
        // The doorbell of a queue ends with it.
        if system.signals.get(signal)?.is_doorbell() {
            return Err(HsaStatus::ERROR_INVALID_SIGNAL);
        }
        system.signals.remove(signal)?;
        system.memory.remove(signal.0, |_| true);
        if let Some(sanitizer) = &system.sanitizer {
            sanitizer.signal_removed(signal.0);
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_signal_wait_any(
    signal_count: u32,
    signals: *mut SignalHandle,
    conds: *mut SignalCondition,
    values: *mut i64,
    timeout_hint: u64,
    _wait_hint: WaitState,
    satisfying_value: *mut i64,
) -> u32 {
    let wait = || -> Result<Option<(u32, i64)>> {
        let system = system()?;
        if signal_count == 0 || signal_count > MAX_SIGNALS {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let count = signal_count as usize;
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let (handles, conditions, operands) =
            unsafe { (array(signals, count)?, array(conds, count)?, array(values, count)?) };
        let signals: Vec<_> = handles.into_iter().map(|handle| system.signals.get(handle)).collect::<Result<_>>()?;
        conditions.iter().try_for_each(|condition| compare(0, *condition, 0).map(|_| ()))?;
        Ok(system.signals.bell.wait(clock::deadline(timeout_hint), || {
            signals.iter().enumerate().find_map(|(index, signal)| {
                let value = signal.load();
                let ready = compare(value, conditions[index], operands[index]) != Ok(false) || signal.is_destroyed();
                ready.then_some((index as u32, value))
            })
        }))
    };
    match wait() {
        Ok(Some((index, value))) => {
            // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
            if let Some(out) = unsafe { Out::optional(satisfying_value) } {
                out.set(value);
            }
            index
        }
        // The wait has ended without a signal.
        Ok(None) => u32::MAX,
        Err(status) => {
            tell(format_args!("hsa_amd_signal_wait_any: {status:?}"));
            u32::MAX
        }
    }
}

pub(crate) unsafe extern "C" fn hsa_amd_signal_async_handler(
    signal: SignalHandle,
    cond: SignalCondition,
    value: i64,
    handler: Option<SignalHandler>,
    arg: *mut c_void,
) -> HsaStatus {
    call(|system| {
        let function = handler.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        let signal = system.signals.get(signal)?;
        handlers::add(system, Handler { signal, condition: cond, operand: value, function, argument: arg })
    })
}

/// Threads that wait for a signal look at its value, so a program may write to it. A doorbell has no value.
pub(crate) unsafe extern "C" fn hsa_amd_signal_value_pointer(
    signal: SignalHandle,
    value_ptr: *mut *mut SignalValue,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(value_ptr) }?;
        let signal = system.signals.get(signal)?;
        if signal.is_doorbell() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        out.set(std::ptr::with_exposed_provenance_mut(signal.value_address() as usize));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_profiling_get_dispatch_time(
    agent: AgentHandle,
    signal: SignalHandle,
    time: *mut ProfilingDispatchTime,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(time) }?;
        system.agent(agent)?;
        let (start, end) = system.signals.get(signal)?.times();
        if start == 0 {
            return Err(HsaStatus::ERROR);
        }
        out.set(ProfilingDispatchTime { start, end });
        Ok(())
    })
}
