//! Times of a queue ([`PacketTimes`]), for an observer of the device. While there is none, an admission looks at one
//! flag.
//!
//! A dispatch is timed by a completion signal of its own, which the packet processor gives the times. The signal of the
//! epoch has those of one packet only, so a submission that is timed ends with a barrier. The completion thread reads
//! the times and lends the signals again.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use vireo_hsa::hsa::Agent;
use vireo_hsa::packet::{KernelDispatchPacket, PACKET_SIZE, PacketHeader, PacketType};

use crate::hal::TimesObserver;
use crate::hal_driver::device_queue::LANES;
use crate::hal_driver::queue_times::{QueueTimes, Ran, Span, Timed, TimedDispatch};
use crate::symbols::{Hsa, OwnedQueue, OwnedSignal, duration};

/// Bytes of a packet.
type PacketBytes = [u8; PACKET_SIZE as usize];

/// The signals of the dispatches of a submission; none if there was none left: their times stay unknown.
type Signals = Vec<Option<OwnedSignal>>;

/// The times of a queue.
pub(super) struct PacketTimes {
    times: QueueTimes<Signals>,
    /// Ticks a second, once that is needed.
    frequency: OnceLock<u64>,
    /// Signals that no packet has.
    free: Mutex<Vec<OwnedSignal>>,
}

impl PacketTimes {
    /// Times of the queue at this place.
    pub(super) fn new(ordinal: u32) -> PacketTimes {
        PacketTimes { times: QueueTimes::new(ordinal), frequency: OnceLock::new(), free: Mutex::default() }
    }

    /// Replaces the observer.
    pub(super) fn observe(&self, queue: &OwnedQueue, observer: Option<Arc<dyn TimesObserver>>) {
        // A library that refuses gives no times, and the observer learns that.
        let _ = queue.set_times(observer.is_some());
        self.times.observe(observer);
    }

    /// Whether the submission that is admitted now is timed, and for whom.
    pub(super) fn active(&self) -> Option<Arc<dyn TimesObserver>> {
        self.times.active()
    }

    fn moment(&self, hsa: &Hsa, ticks: u64) -> Duration {
        duration(ticks, *self.frequency.get_or_init(|| hsa.frequency().unwrap_or(0)))
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
        let (mut dispatches, mut record) = (Vec::new(), Signals::new());
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
            dispatches.push(TimedDispatch { kernel: hsa.kernel_name(packet.kernel_object), workgroups });
            record.push(signal);
        }
        let (submitted, count) = (self.moment(hsa, submitted), dispatches.len() as u32);
        self.times.add(Timed { observer, lane, epoch, sequence, submitted, count, dispatches, record });
    }

    /// Reports what has completed. The completion thread calls it before anyone learns of that.
    pub(super) fn report(&self, hsa: &Hsa, agent: Agent, completed: &[u64; LANES]) {
        self.times.report(completed, |timed| self.read(hsa, agent, timed));
    }

    fn read(&self, hsa: &Hsa, agent: Agent, timed: &mut Timed<Signals>) -> Ran {
        let mut whole: Option<Span> = None;
        let counters = hsa.counters().filter(|_| timed.observer.wants_counters());
        let (mut dispatches, mut counted) = (Vec::with_capacity(timed.record.len()), Vec::new());
        for signal in timed.record.drain(..) {
            // SAFETY: the signal is held, and the epoch says that its packet has completed.
            let ticks = signal.as_ref().and_then(|signal| unsafe { hsa.packet_time(agent, signal.handle()) });
            let ran = ticks.map(|(start, end)| (self.moment(hsa, start), self.moment(hsa, end)));
            if let Some((start, end)) = ran {
                let (first, last) = whole.unwrap_or((start, end));
                whole = Some((first.min(start), last.max(end)));
            }
            dispatches.push(ran);
            if let Some(counters) = counters {
                let values = signal.as_ref().and_then(|signal| counters.take(signal.handle()));
                counted.push(values.unwrap_or_default());
            }
            if let Some(signal) = signal {
                signal.store(1);
                self.free.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
            }
        }
        if !timed.observer.wants_dispatches() {
            dispatches.clear();
        }
        let completed = hsa.now().map_or(timed.submitted, |now| self.moment(hsa, now));
        Ran { whole, dispatches, counters: counted, completed }
    }
}
