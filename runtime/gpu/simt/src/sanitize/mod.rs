//! The sanitizer: checks the accesses of kernels to memory for those out of bounds, to freed memory, to unwritten
//! bytes, and for data races.
//!
//! The agent that runs kernels tells it of allocations, packets and signals ([`Sanitizer`]), and hands the hook of each
//! dispatch to the interpreter. `shadow` keeps, for each word that was accessed, its last write and reads; `order` says
//! which dispatches were complete when another one began; `blocks` are the allocations, with freed ones in quarantine;
//! `known` is what atomic accesses order; `races` compares an access with those before it, a store by its effect, of
//! which `stored` keeps the bytes before; `unwritten` finds bytes without a writer; `groups` joins them for each
//! access; `report` is what was found.
//!
//! Races are found by the happens-before relation and not by chance: two accesses to the same bytes, at least one of
//! them a store, are a race unless the order of packets, a signal, a barrier of their work-group or an atomic access
//! orders them, whichever ran first here. The algorithm is that of FastTrack, with the wave as the thread and its
//! number of barriers as its clock. A store is looked at once it has been made: one that leaves the bytes as they were
//! is silent, and counts as a read that races with stores of other bytes. Races of silent stores with each other, with
//! the store of the same bytes and with reads of them change nothing, and are a class of their own. An order that is
//! wider than it should be (an atomic access orders all of its work-group until the next barrier; two reads are kept of
//! each word) can hide a race, but reports none that is not there. Memory is bounded by [`Limits`]. Where that of
//! shadows does not suffice, memory that is accessed then is not checked; where that of moments or of what atomic
//! accesses order does not, which takes millions of barriers or thousands of work-groups that meet at one address, the
//! accesses so far are forgotten. Either is told once, as a [`Warning`], which is no finding.

mod blocks;
mod groups;
mod known;
mod order;
mod races;
mod report;
mod shadow;
mod stored;
mod unwritten;
mod warning;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use blocks::BlockInfo;
pub use report::{AllocationNote, ExitNote, Finding, OtherAccess, Place, Report, Site, Tell};
pub use warning::{Unchecked, Warning};

use crate::memory::{Access, AccessHook, Memory, Port};
use blocks::Blocks;
use groups::DispatchHook;
use known::{Knowledge, MOST_ENTRIES};
use order::{DispatchRecord, Order};
use report::Reports;
use shadow::Shadow;
use stored::Pending;
use unwritten::Unwritten;

/// The checks that are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Accesses out of bounds, and to freed memory.
    pub memory: bool,
    /// Data races.
    pub race: bool,
    /// Data races that change nothing, since the stores leave the bytes that were there. They are found where `race` is
    /// on.
    pub same_value: bool,
    /// Reads of what was never written.
    pub init: bool,
}

impl Checks {
    /// The names of the checks.
    pub const NAMES: [&str; 4] = ["memory", "race", "race-same-value", "init"];

    /// True if something is checked.
    pub fn any(self) -> bool {
        self.memory || self.race || self.init
    }

    /// The checks that either has on.
    pub fn or(self, other: Checks) -> Checks {
        Checks {
            memory: self.memory || other.memory,
            race: self.race || other.race,
            same_value: self.same_value || other.same_value,
            init: self.init || other.init,
        }
    }
}

/// The error for a name that is no check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCheck(String);

impl fmt::Display for UnknownCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not one of {}", self.0, Checks::NAMES.join(", "))
    }
}

impl std::error::Error for UnknownCheck {}

impl FromStr for Checks {
    type Err = UnknownCheck;

    /// Reads `memory,race,init`, or with `+` between them. `race-same-value` has `race` on, too.
    fn from_str(text: &str) -> Result<Self, UnknownCheck> {
        let mut checks = Checks::default();
        for name in text.split([',', '+']).map(str::trim) {
            match name {
                "memory" => checks.memory = true,
                "race" => checks.race = true,
                "race-same-value" => (checks.race, checks.same_value) = (true, true),
                "init" => checks.init = true,
                _ => return Err(UnknownCheck(name.to_string())),
            }
        }
        Ok(checks)
    }
}

/// Bounds on the memory of a sanitizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of shadow memory; the moments of accesses take up to a quarter as many on top.
    pub shadow: u64,
    /// Bytes of freed allocations that are kept, so that their addresses are not given out.
    pub quarantine: u64,
    /// Reports at places of their own.
    pub reports: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { shadow: 2 << 30, quarantine: 256 << 20, reports: 1000 }
    }
}

/// The code of a dispatch, for reports.
pub trait Code: Send + Sync {
    /// The name of the kernel.
    fn kernel(&self) -> &str;

    /// Where an instruction is in the code object.
    fn place(&self, instruction: u64) -> Place;
}

/// A dispatch that begins.
pub struct NewDispatch {
    /// Its code.
    pub code: Arc<dyn Code>,
    /// Its queue.
    pub queue: u64,
    /// The index of its packet in the queue.
    pub packet: u64,
    /// Work-groups of the grid.
    pub groups: [u32; 3],
    /// Waves of a work-group.
    pub waves: u32,
}

/// A dispatch that has begun.
pub struct RunningDispatch(Arc<DispatchRecord>);

impl fmt::Debug for RunningDispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {} of queue {}", self.0.packet, self.0.queue)
    }
}

/// The state of all checks. One lock guards it: dispatches of several queues take turns for each access of a wave.
pub(crate) struct State {
    checks: Checks,
    limits: Limits,
    blocks: Blocks,
    shadow: Shadow,
    order: Order,
    reports: Reports,
    sites: Sites,
    /// The order that atomic accesses establish.
    known: Knowledge,
    /// The last store of each work-group that runs, by its first wave, until it is known to have been made.
    pending: HashMap<u32, Pending>,
}

impl State {
    /// Forgets what atomic accesses have ordered, and so the accesses before.
    fn forget_known(&mut self, kernel: &str) {
        self.reports.warn(Unchecked::EarlierAccesses, Some(kernel), MOST_ENTRIES as u64);
        self.known.clear();
        self.shadow.forget_accesses(0, u64::MAX);
    }

    /// Makes room for the numbers of two other moments. Numbers start again when there is none, so nothing may refer to
    /// the old ones.
    fn reserve_sites(&mut self, kernel: &str) {
        let most = Sites::most(self.limits.shadow / 4);
        if !self.sites.has_room(most) {
            self.reports.warn(Unchecked::EarlierAccesses, Some(kernel), most);
            self.sites.clear();
            self.shadow.forget_accesses(0, u64::MAX);
        }
    }

    /// Notes that memory was written by a kernel, or by the host.
    fn set_written(&mut self, start: u64, length: u64, kernel: Option<&str>) {
        if self.shadow.set_written(start, length).is_err() {
            self.reports.warn(Unchecked::PartsOfWords, kernel, self.limits.shadow);
        }
    }
}

/// Checks the kernels of one system.
pub struct Sanitizer {
    checks: Checks,
    state: Mutex<State>,
}

impl fmt::Debug for Sanitizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sanitizer").field("checks", &self.checks).finish_non_exhaustive()
    }
}

/// An instruction of a wave after a number of barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Moment {
    instruction: u64,
    /// Barriers that the wave was at before.
    phase: u32,
    /// True if the wave as a whole made the access.
    scalar: bool,
    /// True for a store that left the bytes as they were.
    silent: bool,
}

/// Moments by numbers that fit into a cell of the shadow.
#[derive(Default)]
pub(crate) struct Sites {
    all: Vec<Moment>,
    numbers: HashMap<Moment, u32>,
    /// How often the numbers have started again.
    generation: u64,
}

/// Bytes of a moment in both tables, with their unused space.
const SITE_BYTES: u64 = 96;

impl Sites {
    /// The most moments in so many bytes.
    fn most(bytes: u64) -> u64 {
        (bytes / SITE_BYTES).clamp(2, shadow::MAX_SITES.into())
    }

    /// Whether two more are at most `most`.
    fn has_room(&self, most: u64) -> bool {
        self.all.len() as u64 + 2 <= most
    }

    /// The number of a moment.
    fn number(&mut self, moment: Moment) -> u32 {
        *self.numbers.entry(moment).or_insert_with(|| {
            self.all.push(moment);
            self.all.len() as u32 - 1
        })
    }

    fn clear(&mut self) {
        self.all.clear();
        self.numbers.clear();
        self.generation += 1;
    }

    fn get(&self, number: u32) -> Moment {
        self.all.get(number as usize).copied().unwrap_or_default()
    }
}

/// The word that new memory has at `address` until somebody writes it. The host may write memory without a call, so a
/// word that has another value counts as written.
pub fn poison(address: u64) -> u32 {
    ((address >> 2) as u32).wrapping_mul(0x9E37_79B1) ^ 0xB5AD_4ECE
}

impl Sanitizer {
    /// A sanitizer that knows of no allocation yet. `tell` is called with each report and each warning when it is new.
    pub fn new(checks: Checks, limits: Limits, tell: Option<Tell>) -> Self {
        let state = State {
            checks,
            limits,
            blocks: Blocks::default(),
            shadow: Shadow::new(limits.shadow),
            order: Order::default(),
            reports: Reports::new(limits.reports, tell),
            sites: Sites::default(),
            known: Knowledge::new(MOST_ENTRIES),
            pending: HashMap::new(),
        };
        Sanitizer { checks, state: Mutex::new(state) }
    }

    /// The checks that are on.
    pub fn checks(&self) -> Checks {
        self.checks
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a new allocation. The caller has filled it with [`poison`] if it says so.
    pub fn allocated(&self, block: BlockInfo) {
        let mut state = self.state();
        state.shadow.forget(block.start, block.length);
        state.blocks.insert(block);
    }

    /// An allocation was freed, and who did that. `keep` is what keeps its address from others.
    pub fn freed(&self, start: u64, by: String, keep: Arc<dyn Any + Send + Sync>) {
        let mut state = self.state();
        let quarantine = state.limits.quarantine;
        for (start, length) in state.blocks.free(start, by, keep, quarantine) {
            state.shadow.forget(start, length);
        }
    }

    /// Somebody other than a kernel wrote memory.
    pub fn written(&self, start: u64, length: u64) {
        let mut state = self.state();
        if state.checks.init && state.blocks.holds(start) {
            state.set_written(start, length, None);
        }
        // The host may order other accesses by its copies, which is not known, so a copy ends the history of the bytes.
        state.shadow.forget_accesses(start, length);
    }

    /// Bytes of an allocation leave the device, under a name for reports. Unwritten ones are found once for each name.
    pub fn leaves(&self, start: u64, length: u64, name: &str, memory: &dyn Memory) {
        let mut guard = self.state();
        let state = &mut *guard;
        if !state.checks.init || !state.blocks.is_poisoned(start, length) {
            return;
        }
        let found = unwritten::find(state, &mut Port::new(memory), (start, length), None);
        let Some(Unwritten { first, count }) = found else { return };
        let State { blocks, reports, .. } = state;
        reports.add(Finding::UnwrittenResult, name, 0, || Report {
            finding: Finding::UnwrittenResult,
            access: Access::Load,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            address: first,
            site: None,
            allocation: blocks.note(first),
            group_bytes: None,
            other: None,
            exit: Some(ExitNote { name: name.to_string(), bytes: length, unwritten: count, offset: first - start }),
            count: 1,
        });
    }

    /// Packets of a queue up to this index, not included, were submitted.
    pub fn submitted(&self, queue: u64, end: u64) {
        self.state().order.submitted(queue, end);
    }

    /// A packet of a queue begins.
    pub fn packet(&self, queue: u64, index: u64, barrier: bool) {
        self.state().order.packet(queue, index, barrier);
    }

    /// A packet of a queue has waited for a signal.
    pub fn waited(&self, queue: u64, signal: u64) {
        self.state().order.waited(queue, signal);
    }

    /// A packet of a queue has waited for memory that is no signal: its writer may have waited for anything.
    pub fn waited_for_memory(&self, queue: u64) {
        self.state().order.waited_for_memory(queue);
    }

    /// A packet of a queue that ran no kernel changed a signal.
    pub fn signalled_by_queue(&self, queue: u64, signal: u64) {
        self.state().order.signalled_by_queue(queue, signal);
    }

    /// The host, or a copy, changed a signal.
    pub fn signalled_by_host(&self, signal: u64) {
        self.state().order.signalled_by_host(signal);
    }

    /// A signal is gone.
    pub fn signal_removed(&self, signal: u64) {
        self.state().order.signal_removed(signal);
    }

    /// A queue is gone.
    pub fn queue_removed(&self, queue: u64) {
        self.state().order.queue_removed(queue);
    }

    /// A dispatch begins, after its packet did.
    pub fn begin(&self, dispatch: NewDispatch) -> RunningDispatch {
        let mut state = self.state();
        if !state.order.has_room(&dispatch) {
            // Numbers of waves start again, so nothing may refer to the old ones.
            state.shadow.forget_accesses(0, u64::MAX);
            state.order.restart();
            state.known.clear();
            state.pending.clear();
            state.reports.warn(Unchecked::EarlierAccesses, Some(dispatch.code.kernel()), u32::MAX.into());
        }
        let record = state.order.begin(dispatch);
        if state.checks.race && !record.is_counted() {
            state.reports.warn(Unchecked::Dispatch, Some(record.code.kernel()), u32::MAX.into());
        }
        RunningDispatch(record)
    }

    /// A dispatch is complete, and changed this signal.
    pub fn complete(&self, dispatch: &RunningDispatch, signal: Option<u64>) {
        self.state().order.complete(&dispatch.0, signal);
    }

    /// The hook of a dispatch.
    pub fn hook<'a>(&'a self, dispatch: &RunningDispatch, memory: &'a dyn Memory) -> impl AccessHook + 'a {
        DispatchHook { sanitizer: self, record: dispatch.0.clone(), memory }
    }

    /// The findings since the last call, in the order in which they were made.
    pub fn take_reports(&self) -> Vec<Report> {
        self.state().reports.take()
    }

    /// The warnings since the last call. Each kind is told once.
    pub fn take_warnings(&self) -> Vec<Warning> {
        self.state().reports.take_warnings()
    }
}

#[cfg(test)]
mod tests;
