//! Times of a queue ([`QueueTimes`]), for an observer of the device. While there is none, an admission looks at one
//! flag.
//!
//! A dispatch is timed by a completion signal of its own, which the packet processor gives the times. The signal of the
//! epoch has those of one packet only, so a submission that is timed ends with a barrier. The completion thread reads
//! the times and lends the signals again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use vireo_hsa::hsa::Agent;
use vireo_hsa::packet::{KernelDispatchPacket, PACKET_SIZE, PacketHeader, PacketType};

use crate::hal::{DispatchTime, SubmissionTime, TimesObserver};
use crate::hal_driver::device_queue::{LANES, guarded};
use crate::symbols::{Hsa, OwnedQueue, OwnedSignal, duration};

/// Bytes of a packet.
type PacketBytes = [u8; PACKET_SIZE as usize];

/// The times of a queue.
#[derive(Default)]
pub(super) struct QueueTimes {
    /// The queue, by its place among those of the device.
    ordinal: u32,
    is_observed: AtomicBool,
    observer: RwLock<Option<Arc<dyn TimesObserver>>>,
    /// Ticks a second, once that is needed.
    frequency: OnceLock<u64>,
    /// Signals that no packet has.
    free: Mutex<Vec<OwnedSignal>>,
    has_pending: AtomicBool,
    /// The dispatches that are timed and have not completed, in the order in which they were submitted.
    pending: Mutex<VecDeque<Timed>>,
}

/// A dispatch that is timed.
struct TimedDispatch {
    /// None if there was none left: its times stay unknown.
    signal: Option<OwnedSignal>,
    kernel: Option<Arc<str>>,
    workgroups: u64,
}

/// A submission that is timed.
struct Timed {
    observer: Arc<dyn TimesObserver>,
    lane: usize,
    epoch: u64,
    sequence: u64,
    submitted: u64,
    dispatches: Vec<TimedDispatch>,
}

impl QueueTimes {
    /// Times of the queue at this place.
    pub(super) fn new(ordinal: u32) -> QueueTimes {
        QueueTimes { ordinal, ..QueueTimes::default() }
    }

    /// Replaces the observer.
    pub(super) fn observe(&self, queue: &OwnedQueue, observer: Option<Arc<dyn TimesObserver>>) {
        let is_observed = observer.is_some();
        // A library that refuses gives no times, and the observer learns that.
        let _ = queue.set_times(is_observed);
        *self.observer.write().unwrap_or_else(PoisonError::into_inner) = observer;
        self.is_observed.store(is_observed, Ordering::Release);
    }

    /// Whether the submission that is admitted now is timed, and for whom.
    pub(super) fn active(&self) -> Option<Arc<dyn TimesObserver>> {
        if !self.is_observed.load(Ordering::Acquire) {
            return None;
        }
        let observer = self.observer.read().unwrap_or_else(PoisonError::into_inner).clone();
        observer.filter(|observer| observer.is_active())
    }

    /// Gives each dispatch of a submission a signal. What the library refuses is not timed: that is no reason for the
    /// submission to fail.
    pub(super) fn begin(
        &self,
        observer: Arc<dyn TimesObserver>,
        hsa: &Arc<Hsa>,
        (lane, epoch): (usize, u64),
        sequence: u64,
        packets: &mut [PacketBytes],
    ) {
        let Ok(submitted) = hsa.now() else { return };
        let mut dispatches = Vec::new();
        for bytes in packets {
            // A dispatch whose size is in memory is not published yet, and has no type.
            let kind = PacketHeader(u16::from_le_bytes([bytes[0], bytes[1]])).r#type();
            if kind != PacketType::KERNEL_DISPATCH && kind != PacketType::INVALID {
                continue;
            }
            let packet = KernelDispatchPacket::read(bytes);
            let lent = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let signal = lent.or_else(|| hsa.signal(1).ok());
            if let Some(signal) = &signal {
                let at = std::mem::offset_of!(KernelDispatchPacket, completion_signal);
                bytes[at..at + 8].copy_from_slice(&signal.handle().0.to_le_bytes());
            }
            let counts = packet.grid_size.iter().zip(packet.workgroup_size);
            let workgroups = match kind {
                PacketType::INVALID => 0,
                _ => counts.map(|(items, size)| u64::from(items.div_ceil(u32::from(size.max(1))))).product(),
            };
            dispatches.push(TimedDispatch { signal, kernel: hsa.kernel_name(packet.kernel_object), workgroups });
        }
        let timed = Timed { observer, lane, epoch, sequence, submitted, dispatches };
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push_back(timed);
        self.has_pending.store(true, Ordering::Release);
    }

    /// Reports what has completed. The completion thread calls it before anyone learns of that.
    pub(super) fn report(&self, hsa: &Hsa, agent: Agent, completed: &[u64; LANES]) {
        if !self.has_pending.load(Ordering::Acquire) {
            return;
        }
        loop {
            let timed = {
                let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                let index = pending.iter().position(|timed| timed.epoch <= completed[timed.lane]);
                let timed = index.and_then(|index| pending.remove(index));
                self.has_pending.store(!pending.is_empty(), Ordering::Release);
                timed
            };
            let Some(timed) = timed else { return };
            self.report_one(hsa, agent, timed);
        }
    }

    fn report_one(&self, hsa: &Hsa, agent: Agent, timed: Timed) {
        let Timed { observer, sequence, submitted, dispatches, .. } = timed;
        let frequency = *self.frequency.get_or_init(|| hsa.frequency().unwrap_or(0));
        let moment = |ticks: u64| duration(ticks, frequency);
        let mut range: Option<(Duration, Duration)> = None;
        for TimedDispatch { signal, kernel, workgroups } in &dispatches {
            // SAFETY: the signal is held, and the epoch says that its packet has completed.
            let ticks = signal.as_ref().and_then(|signal| unsafe { hsa.packet_time(agent, signal.handle()) });
            let ran = ticks.map(|(start, end)| (moment(start), moment(end)));
            if let Some((start, end)) = ran {
                let (first, last) = range.unwrap_or((start, end));
                range = Some((first.min(start), last.max(end)));
            }
            let time = DispatchTime {
                queue: self.ordinal,
                submission: sequence,
                kernel: kernel.as_deref().unwrap_or_default(),
                workgroups: *workgroups,
                times: ran,
            };
            // If one panics, the others are told all the same.
            let _ = guarded("an observer of times", || observer.dispatch(&time));
        }
        let time = SubmissionTime {
            queue: self.ordinal,
            submission: sequence,
            dispatches: dispatches.len() as u32,
            submitted: moment(submitted),
            times: range,
            completed: moment(hsa.now().unwrap_or(submitted)),
        };
        let _ = guarded("an observer of times", || observer.submission(&time));
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        for signal in dispatches.into_iter().filter_map(|dispatch| dispatch.signal) {
            signal.store(1);
            free.push(signal);
        }
    }
}
