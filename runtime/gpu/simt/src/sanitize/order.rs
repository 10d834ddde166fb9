//! The order of dispatches ([`Order`]): which were complete when another one began, by barrier bits, signals and times
//! of submission.
//!
//! A dispatch is after another one if that was complete when its packet was submitted, if a barrier bit in its queue
//! waited for it, or if a packet of its queue waited for a signal that was changed after it. A packet that is submitted
//! knows everything that is complete: the host may have learnt of it in many ways. So what the host orders is never a
//! race, and packets of two queues can race if each was submitted before the other one was complete.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::dispatch::{Code, NewDispatch};
use super::report::Site;

/// The number of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DispatchId(u64);

/// Dispatches that are remembered. Older ones count as complete before everything that begins.
const REMEMBERED: usize = 8192;
/// Single dispatches of a set at most; more would not be remembered either.
const MOST_SINGLE: usize = REMEMBERED;
/// Submissions of a queue that are remembered.
const MOST_SUBMISSIONS: usize = 4096;

/// A set of dispatches that are known to be complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CompletedDispatches {
    /// All before this one.
    before: u64,
    single: BTreeSet<u64>,
}

impl CompletedDispatches {
    pub(super) fn contains(&self, dispatch: DispatchId) -> bool {
        dispatch.0 < self.before || self.single.contains(&dispatch.0)
    }

    fn insert(&mut self, dispatch: DispatchId) {
        if dispatch.0 >= self.before {
            self.single.insert(dispatch.0);
        }
        self.normalise();
    }

    fn join(&mut self, other: &CompletedDispatches) {
        self.before = self.before.max(other.before);
        self.single.extend(&other.single);
        self.normalise();
    }

    fn normalise(&mut self) {
        while let Some(first) = self.single.first().copied() {
            if first > self.before && self.single.len() <= MOST_SINGLE {
                break;
            }
            self.single.pop_first();
            self.before = self.before.max(first + 1);
        }
    }
}

/// The dispatches that are complete before something, for owners that order dispatches themselves.
#[derive(Clone, Debug, Default)]
pub struct Known(Option<Arc<CompletedDispatches>>);

impl Known {
    /// Adds what another one knows.
    pub fn join(&mut self, other: &Known) {
        match (&mut self.0, &other.0) {
            (_, None) => {}
            (own @ None, Some(_)) => own.clone_from(&other.0),
            (Some(own), Some(other)) if Arc::ptr_eq(own, other) => {}
            (Some(own), Some(other)) => Arc::make_mut(own).join(other),
        }
    }

    pub(super) fn completed(&self) -> CompletedDispatches {
        self.0.as_deref().cloned().unwrap_or_default()
    }

    /// The knowledge of those that come after a dispatch.
    pub(super) fn after(record: &DispatchRecord) -> Known {
        let mut known = record.known.clone();
        known.insert(record.id);
        Known(Some(Arc::new(known)))
    }
}

/// A dispatch that has begun.
pub(super) struct DispatchRecord {
    pub(super) id: DispatchId,
    pub(super) code: Arc<dyn Code>,
    pub(super) queue: u64,
    pub(super) packet: u64,
    pub(super) groups: [u32; 3],
    /// Waves of a work-group.
    pub(super) waves: u32,
    /// The number of its first wave.
    first_wave: u32,
    wave_count: u32,
    known: CompletedDispatches,
    /// Accesses that were refused.
    pub(super) refused: AtomicU64,
}

impl DispatchRecord {
    /// The number of a wave.
    pub(super) fn wave(&self, group: u64, wave: u32) -> u32 {
        // The numbers of a dispatch whose waves are not counted are not used.
        self.first_wave.wrapping_add((group * u64::from(self.waves)) as u32).wrapping_add(wave)
    }

    /// Whether its waves have numbers. There are not enough for a grid of more than 2^32 waves.
    pub(super) fn is_counted(&self) -> bool {
        self.wave_count != 0
    }

    fn group_of(&self, wave: u32) -> u32 {
        (wave - self.first_wave) / self.waves
    }

    /// The number of the first wave of the work-group of a wave of this dispatch.
    pub(super) fn group_key(&self, wave: u32) -> u32 {
        self.first_wave + self.group_of(wave) * self.waves
    }

    /// The work-group, and the wave in it.
    pub(super) fn place_of(&self, wave: u32) -> ([u32; 3], u32) {
        let group = self.group_of(wave);
        let [width, height, _] = self.groups.map(|size| size.max(1));
        let place = [group % width, group / width % height, group / width / height];
        (place, (wave - self.first_wave) % self.waves)
    }

    /// An instruction of a lane, or of a wave as a whole.
    pub(super) fn site(&self, instruction: u64, group: [u32; 3], wave: u32, lane: Option<u32>) -> Site {
        let (kernel, place) = (self.code.kernel().to_string(), self.code.place(instruction));
        let (queue, packet) = (self.queue, self.packet);
        let mut site = Site { kernel, place, group, wave, lane, queue, packet, text: None };
        site.text = self.code.describe(&site);
        site
    }

    pub(super) fn has(&self, wave: u32) -> bool {
        wave.wrapping_sub(self.first_wave) < self.wave_count
    }

    /// Whether another dispatch was complete when this one began.
    pub(super) fn knows(&self, other: DispatchId) -> bool {
        self.known.contains(other)
    }
}

#[derive(Default)]
struct QueueOrder {
    /// The knowledge of the next packet.
    launch: CompletedDispatches,
    /// The knowledge once all packets so far are complete.
    all: CompletedDispatches,
    /// The packets that were complete when packets up to an index were submitted.
    submissions: VecDeque<(u64, CompletedDispatches)>,
}

/// The order of all dispatches.
pub(super) struct Order {
    next: u64,
    next_wave: u32,
    recent: VecDeque<Arc<DispatchRecord>>,
    complete: CompletedDispatches,
    queues: HashMap<u64, QueueOrder>,
    signals: HashMap<u64, CompletedDispatches>,
}

impl Default for Order {
    fn default() -> Self {
        Order {
            next: 0,
            // Zero is no wave.
            next_wave: 1,
            recent: VecDeque::new(),
            complete: CompletedDispatches::default(),
            queues: HashMap::new(),
            signals: HashMap::new(),
        }
    }
}

/// The waves of a dispatch, if they can be counted.
fn waves_of(dispatch: &NewDispatch) -> Option<u32> {
    let groups = dispatch.groups.iter().try_fold(1u32, |all, size| all.checked_mul(*size))?;
    groups.checked_mul(dispatch.waves.max(1))
}

impl Order {
    /// Whether the waves of a dispatch get numbers that no other wave has.
    pub(super) fn has_room(&self, dispatch: &NewDispatch) -> bool {
        waves_of(dispatch).is_some_and(|waves| self.next_wave.checked_add(waves).is_some())
    }

    /// Begins with the first number again.
    pub(super) fn restart(&mut self) {
        self.recent.clear();
        self.next_wave = 1;
    }

    pub(super) fn submitted(&mut self, queue: u64, end: u64) {
        let complete = self.complete.clone();
        let submissions = &mut self.queues.entry(queue).or_default().submissions;
        if submissions.back().is_none_or(|(last, _)| *last < end) {
            submissions.push_back((end, complete));
        }
        if submissions.len() > MOST_SUBMISSIONS {
            // The packets of the oldest one take the next one's, which knows more.
            submissions.pop_front();
        }
    }

    pub(super) fn packet(&mut self, queue: u64, index: u64, barrier: bool) {
        let complete = &self.complete;
        let queue = self.queues.entry(queue).or_default();
        while queue.submissions.front().is_some_and(|(end, _)| *end <= index) {
            queue.submissions.pop_front();
        }
        // A submission without a call of the library is known to have happened by now, and no more.
        let submitted = queue.submissions.front().map_or(complete, |(_, known)| known);
        queue.launch.join(submitted);
        if barrier {
            let all = std::mem::take(&mut queue.all);
            queue.launch.join(&all);
        }
    }

    pub(super) fn waited(&mut self, queue: u64, signal: u64) {
        let Some(known) = self.signals.get(&signal) else { return };
        self.queues.entry(queue).or_default().launch.join(known);
    }

    pub(super) fn waited_for_memory(&mut self, queue: u64) {
        self.queues.entry(queue).or_default().launch.join(&self.complete);
    }

    pub(super) fn signalled_by_queue(&mut self, queue: u64, signal: u64) {
        let known = &self.queues.entry(queue).or_default().launch;
        self.signals.entry(signal).or_default().join(known);
    }

    pub(super) fn signalled_by_host(&mut self, signal: u64) {
        self.signals.entry(signal).or_default().join(&self.complete);
    }

    pub(super) fn signal_removed(&mut self, signal: u64) {
        self.signals.remove(&signal);
    }

    pub(super) fn queue_removed(&mut self, queue: u64) {
        self.queues.remove(&queue);
    }

    pub(super) fn begin(&mut self, dispatch: NewDispatch) -> Arc<DispatchRecord> {
        let known = self.queues.entry(dispatch.queue).or_default().launch.clone();
        self.begin_after(dispatch, known)
    }

    /// A dispatch begins after those that are known to be complete, whatever its queue says.
    pub(super) fn begin_after(&mut self, dispatch: NewDispatch, known: CompletedDispatches) -> Arc<DispatchRecord> {
        let id = DispatchId(self.next);
        self.next += 1;
        // A dispatch without numbers for its waves is not checked for races.
        let counted = waves_of(&dispatch).filter(|waves| self.next_wave.checked_add(*waves).is_some());
        let wave_count = counted.unwrap_or(0);
        let record = Arc::new(DispatchRecord {
            id,
            code: dispatch.code,
            queue: dispatch.queue,
            packet: dispatch.packet,
            groups: dispatch.groups,
            waves: dispatch.waves.max(1),
            first_wave: self.next_wave,
            wave_count,
            known,
            refused: AtomicU64::new(0),
        });
        self.next_wave += wave_count;
        self.recent.push_back(record.clone());
        if self.recent.len() > REMEMBERED {
            self.recent.pop_front();
        }
        record
    }

    pub(super) fn complete(&mut self, record: &DispatchRecord, signal: Option<u64>) {
        self.complete.insert(record.id);
        let mut known = record.known.clone();
        known.insert(record.id);
        self.queues.entry(record.queue).or_default().all.join(&known);
        if let Some(signal) = signal {
            self.signals.entry(signal).or_default().join(&known);
        }
    }

    /// The dispatch that a wave belongs to, if it is remembered.
    pub(super) fn of_wave(&self, wave: u32) -> Option<Arc<DispatchRecord>> {
        let after = self.recent.partition_point(|record| record.first_wave <= wave);
        let record = self.recent.get(after.checked_sub(1)?)?;
        record.has(wave).then(|| record.clone())
    }
}
