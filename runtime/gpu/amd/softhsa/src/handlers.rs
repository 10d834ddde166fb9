//! Handlers of signals: functions that a program wants to be called once a signal has some value, by a thread that
//! starts with the first one.

use std::sync::{Arc, PoisonError};

use vireo_hsa::hsa::HsaStatus;

use crate::lifecycle::call_back;
use crate::signals::Handler;
use crate::status::Result;
use crate::system::System;

/// Adds a handler.
pub(crate) fn add(system: &Arc<System>, handler: Handler) -> Result<()> {
    handler.signal.satisfies(handler.condition, handler.operand)?;
    let mut handlers = system.handlers.lock().unwrap_or_else(PoisonError::into_inner);
    handlers.push(handler);
    if handlers.len() == 1 {
        let shared = system.clone();
        let thread = std::thread::Builder::new().name("softhsa-handlers".to_string()).spawn(move || run(&shared));
        let Ok(thread) = thread else {
            handlers.pop();
            return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
        };
        system.add_helper(thread);
    }
    drop(handlers);
    system.signals.bell.ring();
    Ok(())
}

/// Calls handlers until there are none, or the system ends.
fn run(system: &System) {
    loop {
        let ready = system.signals.bell.wait(None, || {
            let mut handlers = system.handlers.lock().unwrap_or_else(PoisonError::into_inner);
            // Those of signals that are gone will not be called.
            handlers.retain(|handler| !handler.signal.is_destroyed());
            if handlers.is_empty() || system.stop.requested() {
                handlers.clear();
                return Some(None);
            }
            let ready = |handler: &Handler| handler.signal.satisfies(handler.condition, handler.operand) == Ok(true);
            handlers.iter().position(ready).map(|index| Some(handlers[index].clone()))
        });
        let Some(Some(handler)) = ready else { return };
        // SAFETY: the program gave the function to be called with its argument.
        let again = call_back(|| unsafe { (handler.function)(handler.signal.load(), handler.argument) });
        let mut handlers = system.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |other: &Handler| {
            Arc::ptr_eq(&other.signal, &handler.signal)
                && other.argument == handler.argument
                && std::ptr::fn_addr_eq(other.function, handler.function)
        };
        if let Some(index) = handlers.iter().position(same) {
            let called = handlers.remove(index);
            if again.0 != 0 {
                // Others come first, even if its signal still has the value.
                handlers.push(called);
            }
        }
        // The first handler of a list starts a thread.
        if handlers.is_empty() {
            return;
        }
    }
}
