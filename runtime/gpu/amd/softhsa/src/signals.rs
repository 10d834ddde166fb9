//! Signals: 64-bit values in memory with the layout of `amd_signal` at their handles. Programs and kernels may load and
//! store the value directly; functions and the packet processor wake those who wait.

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use vireo_gfx::Counts;
use vireo_hsa::hsa::{HsaStatus, SignalHandler};
use vireo_hsa::signal::{AmdSignal, Signal as Handle, SignalCondition, SignalKind};
use vireo_soft::bell::Bell;
use vireo_soft::clock;

use crate::doorbell::Doorbell;
use crate::status::Result;
use crate::trace::{PacketEvent, SignalChange, Tracer};

/// The memory of a signal, as other agents and programs see it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct SignalMemory {
    kind: u64,
    value: AtomicI64,
    event_mailbox: u64,
    event: [AtomicU32; 2],
    start: AtomicU64,
    end: AtomicU64,
    queue: u64,
    reserved: u64,
}

const _: () = {
    assert!(size_of::<SignalMemory>() == AmdSignal::SIZE);
    assert!(offset_of!(SignalMemory, kind) == offset_of!(AmdSignal, kind));
    assert!(offset_of!(SignalMemory, value) == offset_of!(AmdSignal, value));
    assert!(offset_of!(SignalMemory, event_mailbox) == offset_of!(AmdSignal, event_mailbox_ptr));
    assert!(offset_of!(SignalMemory, event) == offset_of!(AmdSignal, event_id));
    assert!(offset_of!(SignalMemory, start) == offset_of!(AmdSignal, start_ts));
    assert!(offset_of!(SignalMemory, end) == offset_of!(AmdSignal, end_ts));
    assert!(offset_of!(SignalMemory, queue) == offset_of!(AmdSignal, queue_ptr));
};

/// The place of a signal's value: its own, or a doorbell of a queue.
#[derive(Debug)]
enum Value {
    Own,
    Doorbell(Arc<Doorbell>),
}

/// A signal.
#[derive(Debug)]
pub(crate) struct Signal {
    memory: SignalMemory,
    target: Value,
    destroyed: AtomicBool,
    /// True if its times are those of a copy.
    of_copy: AtomicBool,
    /// The counts of the kernel whose packet it completed last.
    counts: Mutex<Option<Counts>>,
}

impl Signal {
    fn new(kind: SignalKind, value: i64, queue: u64, target: Value) -> Arc<Self> {
        let memory = SignalMemory {
            kind: kind.0,
            value: AtomicI64::new(value),
            // Without an event there is no interrupt: those who wait look at the value.
            event_mailbox: 0,
            event: Default::default(),
            start: AtomicU64::new(0),
            end: AtomicU64::new(0),
            queue,
            reserved: 0,
        };
        let (destroyed, of_copy, counts) = (AtomicBool::new(false), AtomicBool::new(false), Mutex::new(None));
        Arc::new(Signal { memory, target, destroyed, of_copy, counts })
    }

    /// A signal with a value of its own.
    pub(crate) fn user(value: i64) -> Arc<Self> {
        Self::new(SignalKind::USER, value, 0, Value::Own)
    }

    /// The signal through which programs ring the doorbell of the `amd_queue` at this address.
    pub(crate) fn doorbell(doorbell: Arc<Doorbell>, queue: u64) -> Arc<Self> {
        Self::new(SignalKind::DOORBELL, doorbell.address() as i64, queue, Value::Doorbell(doorbell))
    }

    /// Its handle: the address of its memory.
    pub(crate) fn handle(&self) -> Handle {
        Handle((&raw const self.memory).expose_provenance() as u64)
    }

    /// Whether it is a doorbell, which has no value.
    pub(crate) fn is_doorbell(&self) -> bool {
        matches!(self.target, Value::Doorbell(_))
    }

    /// Its value.
    pub(crate) fn load(&self) -> i64 {
        self.memory.value.load(Ordering::Acquire)
    }

    /// Whether its value compares with `operand` in this way.
    pub(crate) fn satisfies(&self, condition: SignalCondition, operand: i64) -> Result<bool> {
        compare(self.load(), condition, operand)
    }

    /// The address of the `amd_queue` of a doorbell.
    pub(crate) fn queue(&self) -> u64 {
        self.memory.queue
    }

    /// Notes when the packet began and ended that it is the completion of.
    pub(crate) fn set_times(&self, start: u64, end: u64) {
        self.memory.start.store(start, Ordering::Relaxed);
        self.memory.end.store(end, Ordering::Relaxed);
    }

    /// Notes when the copy began and ended that it is the completion of.
    pub(crate) fn set_copy_times(&self, start: u64, end: u64) {
        self.set_times(start, end);
        self.of_copy.store(true, Ordering::Relaxed);
    }

    /// When its copy began and ended; none unless it was the completion of one whose times were noted.
    pub(crate) fn copy_times(&self) -> Option<(u64, u64)> {
        self.of_copy.load(Ordering::Relaxed).then(|| self.times())
    }

    /// Notes what the kernel counted whose packet it completes.
    pub(crate) fn set_counts(&self, counts: Option<Counts>) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }

    /// Takes these counts.
    pub(crate) fn take_counts(&self) -> Option<Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The address of its value.
    pub(crate) fn value_address(&self) -> u64 {
        self.memory.value.as_ptr().expose_provenance() as u64
    }

    /// When its packet began and ended.
    pub(crate) fn times(&self) -> (u64, u64) {
        (self.memory.start.load(Ordering::Relaxed), self.memory.end.load(Ordering::Relaxed))
    }

    /// True once it has been destroyed.
    pub(crate) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Relaxed)
    }
}

/// Whether a value compares with an operand.
pub(crate) fn compare(value: i64, condition: SignalCondition, operand: i64) -> Result<bool> {
    match condition {
        SignalCondition::EQ => Ok(value == operand),
        SignalCondition::NE => Ok(value != operand),
        SignalCondition::LT => Ok(value < operand),
        SignalCondition::GTE => Ok(value >= operand),
        _ => Err(HsaStatus::ERROR_INVALID_ARGUMENT),
    }
}

/// All signals by their handles.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    all: RwLock<HashMap<u64, Arc<Signal>>>,
    /// Where those sleep who wait for signals.
    pub(crate) bell: Bell,
    /// The observer of changes.
    pub(crate) tracer: Option<Tracer>,
}

impl Signals {
    /// No signals; `tracer` is told of the changes of those that will be.
    pub(crate) fn new(tracer: Option<Tracer>) -> Self {
        Signals { tracer, ..Self::default() }
    }

    /// Adds a signal.
    pub(crate) fn insert(&self, signal: Arc<Signal>) -> Handle {
        let handle = signal.handle();
        self.all.write().unwrap_or_else(PoisonError::into_inner).insert(handle.0, signal);
        handle
    }

    /// The signal with this handle.
    pub(crate) fn get(&self, handle: Handle) -> Result<Arc<Signal>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&handle.0).cloned().ok_or(HsaStatus::ERROR_INVALID_SIGNAL)
    }

    /// Removes a signal; who waits for it stops waiting.
    pub(crate) fn remove(&self, handle: Handle) -> Result<Arc<Signal>> {
        let removed = self.all.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        let signal = removed.ok_or(HsaStatus::ERROR_INVALID_SIGNAL)?;
        signal.destroyed.store(true, Ordering::Relaxed);
        self.bell.ring();
        Ok(signal)
    }

    /// Replaces the value, and wakes those who wait. Returns the old value.
    pub(crate) fn update(&self, signal: &Signal, change: impl FnMut(i64) -> i64) -> i64 {
        let Some(tracer) = &self.tracer else { return self.change(signal, change).before };
        let order = tracer.order();
        let (time, change) = (clock::now(), self.change(signal, change));
        match &signal.target {
            Value::Own => tracer.observer(&order).event(&PacketEvent::Signal { time, change }),
            Value::Doorbell(doorbell) => {
                let (agent, queue) = doorbell.place();
                tracer.observer(&order).event(&PacketEvent::Doorbell { time, agent, queue, index: change.after });
            }
        }
        change.before
    }

    /// As [`Signals::update`]; the caller tells of the change.
    pub(crate) fn change(&self, signal: &Signal, mut change: impl FnMut(i64) -> i64) -> SignalChange {
        let mut after = 0;
        let mut wanted = |old| {
            after = change(old);
            after
        };
        let before = match &signal.target {
            Value::Doorbell(doorbell) => {
                doorbell.ring(wanted(0));
                0
            }
            Value::Own => {
                let value = &signal.memory.value;
                let (Ok(old) | Err(old)) =
                    value.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(wanted(old)));
                self.bell.ring();
                old
            }
        };
        SignalChange { signal: signal.handle().0, before, after }
    }

    /// Waits for a condition, and returns the value that has it, or the value at the end of the wait.
    pub(crate) fn wait(
        &self,
        signal: &Signal,
        condition: SignalCondition,
        operand: i64,
        deadline: Option<Instant>,
    ) -> Result<i64> {
        compare(0, condition, 0)?;
        let value = self.bell.wait(deadline, || {
            let value = signal.load();
            let ready = compare(value, condition, operand) != Ok(false) || signal.is_destroyed();
            ready.then_some(value)
        });
        Ok(value.unwrap_or_else(|| signal.load()))
    }
}

/// A handler that waits for its signal.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) signal: Arc<Signal>,
    pub(crate) condition: SignalCondition,
    pub(crate) operand: i64,
    pub(crate) function: SignalHandler,
    pub(crate) argument: *mut c_void,
}

// SAFETY: the program gave the function and its argument to be called on any thread.
unsafe impl Send for Handler {}

/// The handlers that wait.
pub(crate) type Handlers = Mutex<Vec<Handler>>;
