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

mod barriers;
mod blocks;
mod checks;
mod dispatch;
mod groups;
mod host;
mod known;
mod lanes;
mod order;
mod progress;
mod races;
mod report;
mod shadow;
mod sites;
mod state;
mod stored;
mod unwritten;
mod warning;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

pub use blocks::BlockInfo;
pub use checks::{Checks, Limits, UnknownCheck};
pub use dispatch::{Code, NewDispatch};
pub use lanes::stores_to_one_address;
pub use order::Known;
pub use report::{AllocationNote, ExitNote, Finding, OtherAccess, Place, Report, Site, Tell};
pub use state::poison;
pub use warning::{Unchecked, Warning};

use crate::memory::{Access, AccessHook, Memory, Port};
use blocks::Blocks;
use groups::DispatchHook;
use known::{Knowledge, MOST_ENTRIES};
use order::{DispatchRecord, Order};
use report::Reports;
use shadow::Shadow;
use sites::Sites;
use state::State;
use unwritten::Unwritten;

/// A dispatch that has begun.
pub struct RunningDispatch(Arc<DispatchRecord>);

impl fmt::Debug for RunningDispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {} of queue {}", self.0.packet, self.0.queue)
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
        state::lock(&self.state)
    }

    /// There is a new allocation. The caller has filled it with [`poison`] if it says so.
    pub fn allocated(&self, block: BlockInfo) {
        let mut state = self.state();
        state.shadow.forget(block.start, block.length);
        state.blocks.insert(block);
    }

    /// An allocation was freed, and who did that. `keep` is what keeps its address from others.
    pub fn freed(&self, start: u64, by: String, keep: Arc<dyn Any + Send + Sync>) {
        self.state().free(start, by, keep);
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
            note: None,
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
        self.begin_by(dispatch, Order::begin)
    }

    /// A dispatch begins after those that its owner knows to be complete. Such an owner tells of no packets.
    pub fn begin_after(&self, dispatch: NewDispatch, known: &Known) -> RunningDispatch {
        self.begin_by(dispatch, |order, dispatch| order.begin_after(dispatch, known.completed()))
    }

    fn begin_by(
        &self,
        dispatch: NewDispatch,
        begin: impl FnOnce(&mut Order, NewDispatch) -> Arc<DispatchRecord>,
    ) -> RunningDispatch {
        let mut state = self.state();
        if !state.order.has_room(&dispatch) {
            // Numbers of waves start again, so nothing may refer to the old ones.
            state.shadow.forget_accesses(0, u64::MAX);
            state.order.restart();
            state.known.clear();
            state.pending.clear();
            state.reports.warn(Unchecked::EarlierAccesses, Some(dispatch.code.kernel()), u32::MAX.into());
        }
        let record = begin(&mut state.order, dispatch);
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
        DispatchHook { state: &self.state, record: dispatch.0.clone(), memory }
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
