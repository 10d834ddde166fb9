//! The state of all checks ([`State`]), and the word that new memory has ([`poison`]).

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::blocks::Blocks;
use super::checks::{Checks, Limits};
use super::known::{Knowledge, MOST_ENTRIES};
use super::order::Order;
use super::report::Reports;
use super::shadow::Shadow;
use super::sites::Sites;
use super::stored::Pending;
use super::warning::Unchecked;

/// The state of all checks. One lock guards it: dispatches of several queues take turns for each access of a wave.
pub(super) struct State {
    pub(super) checks: Checks,
    pub(super) limits: Limits,
    pub(super) blocks: Blocks,
    pub(super) shadow: Shadow,
    pub(super) order: Order,
    pub(super) reports: Reports,
    pub(super) sites: Sites,
    /// The order that atomic accesses establish.
    pub(super) known: Knowledge,
    /// The last store of each work-group that runs, by its first wave, until it is known to have been made.
    pub(super) pending: HashMap<u32, Pending>,
}

impl State {
    /// Forgets what atomic accesses have ordered, and so the accesses before.
    pub(super) fn forget_known(&mut self, kernel: &str) {
        self.reports.warn(Unchecked::EarlierAccesses, Some(kernel), MOST_ENTRIES as u64);
        self.known.clear();
        self.shadow.forget_accesses(0, u64::MAX);
    }

    /// Makes room for the numbers of two other moments. Numbers start again when there is none, so nothing may refer to
    /// the old ones.
    pub(super) fn reserve_sites(&mut self, kernel: &str) {
        let most = Sites::most(self.limits.shadow / 4);
        if !self.sites.has_room(most) {
            self.reports.warn(Unchecked::EarlierAccesses, Some(kernel), most);
            self.sites.clear();
            self.shadow.forget_accesses(0, u64::MAX);
        }
    }

    /// Moves an allocation to those that were freed, and forgets those for which there is no room any more.
    pub(super) fn free(&mut self, start: u64, by: String, keep: Arc<dyn Any + Send + Sync>) {
        for (start, length) in self.blocks.free(start, by, keep, self.limits.quarantine) {
            self.shadow.forget(start, length);
        }
    }

    /// Notes that memory was written by a kernel, or by the host.
    pub(super) fn set_written(&mut self, start: u64, length: u64, kernel: Option<&str>) {
        if self.shadow.set_written(start, length).is_err() {
            self.reports.warn(Unchecked::PartsOfWords, kernel, self.limits.shadow);
        }
    }
}

/// The state, for one who holds the lock.
pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The word that new memory has at `address` until somebody writes it. The host may write memory without a call, so a
/// word that has another value counts as written.
pub fn poison(address: u64) -> u32 {
    ((address >> 2) as u32).wrapping_mul(0x9E37_79B1) ^ 0xB5AD_4ECE
}
