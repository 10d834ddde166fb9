//! Memory faults of GPUs. The HSA library calls one function for all GPUs of the process and names no queue;
//! [`FaultListener`]s, which are the queues of the driver, learn of those of their GPU.
//!
//! Libraries cannot be told to forget a function. So it gets no address but the number of the [`Hsa`](super::Hsa) that
//! registered it, and looks for listeners in a list of the process.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vireo_hsa::hsa::{Agent, HsaStatus, MemoryFaultEvent};

use crate::status::{Status, StatusCode};

/// The type of memory faults. What a library does about other events is left to it.
const MEMORY_FAULT: u32 = 0;

/// Something that a memory fault ends.
pub(crate) trait FaultListener: Send + Sync {
    /// The GPU accessed memory that it may not.
    fn memory_fault(&self, cause: Status);
}

/// A listener with its GPU, and the number of the library whose GPU that is.
type Registered = (usize, Agent, Weak<dyn FaultListener>);

static LISTENERS: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

fn listeners() -> MutexGuard<'static, Vec<Registered>> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a listener to faults of a library.
pub(super) fn listen(hsa: usize, agent: Agent, listener: Weak<dyn FaultListener>) {
    let mut listeners = listeners();
    listeners.retain(|(.., listener)| listener.strong_count() != 0);
    listeners.push((hsa, agent, listener));
}

/// Called by the HSA library, with the number of an `Hsa` as `data`.
pub(super) unsafe extern "C" fn on_event(event: *const MemoryFaultEvent, data: *mut c_void) -> HsaStatus {
    // SAFETY: events begin with their type, which says what else is there; the library keeps the event during the call.
    let event = unsafe {
        if event.is_null() || (&raw const (*event).event_type).read() != MEMORY_FAULT {
            return HsaStatus::ERROR;
        }
        event.read()
    };
    // Others are not even looked at: a reference that is the last one would end its queue here, under the lock.
    let concerned = |(hsa, agent, listener): &Registered| {
        if *hsa == data.addr() && *agent == event.agent { listener.upgrade() } else { None }
    };
    // They are told without the lock, which their end may take.
    let concerned: Vec<Arc<dyn FaultListener>> = listeners().iter().filter_map(concerned).collect();
    for listener in &concerned {
        let (address, reasons) = (event.virtual_address, event.fault_reason_mask);
        let message = format!("the GPU accessed memory at {address:#x} that it may not ({reasons:?})");
        listener.memory_fault(Status::new(StatusCode::Internal, message));
    }
    // Success tells the library that it need not end the process.
    if concerned.is_empty() { HsaStatus::ERROR } else { HsaStatus::SUCCESS }
}
