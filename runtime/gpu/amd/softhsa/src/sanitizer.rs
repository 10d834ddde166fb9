//! The sanitizer of a system: what `vireo-simt` checks, told of this crate's allocations, packets and signals, and
//! names for its reports.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use vireo_gfx::listing;
use vireo_simt::sanitize::{BlockInfo, Code, Limits, Place, Report, Sanitizer, Tell, Warning, poison};
use vireo_soft::memory::map::Allocation;

use crate::executable::LoadedObject;
use crate::status::tell;
use crate::topology::Topology;

/// Reports of systems that have ended that are kept at most, for programs that do not ask.
const MOST_FINISHED: usize = 10_000;

/// Reports of systems that have ended.
static FINISHED: Mutex<Vec<Report>> = Mutex::new(Vec::new());

/// Warnings of systems that have ended.
static WARNINGS: Mutex<Vec<Warning>> = Mutex::new(Vec::new());

/// A sanitizer that tells stderr of each finding and warning if it should, or none if the topology asks for none.
pub(crate) fn of_topology(topology: &Topology, prints: bool) -> Option<Sanitizer> {
    let print = |text: &dyn fmt::Display| tell(format_args!("sanitizer: {text}"));
    let print = prints.then(|| Box::new(print) as Tell);
    topology.sanitize.any().then(|| Sanitizer::new(topology.sanitize, Limits::default(), print))
}

/// The reports of systems that have ended, since the last call.
pub(crate) fn take_finished() -> Vec<Report> {
    std::mem::take(&mut *FINISHED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The warnings of systems that have ended, since the last call.
pub(crate) fn take_finished_warnings() -> Vec<Warning> {
    std::mem::take(&mut *WARNINGS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Keeps the reports and warnings of a system that ends.
pub(crate) fn finish(sanitizer: &Sanitizer) {
    let mut warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let room = MOST_FINISHED.saturating_sub(warnings.len());
    warnings.extend(sanitizer.take_warnings().into_iter().take(room));
    drop(warnings);
    let mut finished = FINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let room = MOST_FINISHED.saturating_sub(finished.len());
    finished.extend(sanitizer.take_reports().into_iter().take(room));
}

/// A new allocation of `size` bytes from a pool, of which no program knows yet.
pub(crate) fn allocated(sanitizer: &Sanitizer, allocation: &Allocation, size: u64, guard: u64) {
    let poisoned = sanitizer.checks().init;
    if poisoned {
        allocation.fill(poison);
    }
    let what = match allocation.owner {
        0 => "memory of the host".to_string(),
        gpu => format!("memory of GPU {}", gpu - 1),
    };
    let reserved = allocation.length + guard;
    sanitizer.allocated(BlockInfo { start: allocation.start, length: size, padding: 0, reserved, poisoned, what });
}

/// The program has freed an allocation.
pub(crate) fn freed(sanitizer: &Sanitizer, allocation: Arc<Allocation>) {
    let thread = std::thread::current();
    let by = format!("the thread `{}`", thread.name().unwrap_or("without a name"));
    sanitizer.freed(allocation.start, by, allocation);
}

/// A kernel of a loaded code object.
pub(crate) struct KernelCode {
    pub(crate) name: String,
    pub(crate) object: Arc<LoadedObject>,
    /// The address of the first instruction.
    pub(crate) entry: u64,
}

impl Code for KernelCode {
    fn kernel(&self) -> &str {
        &self.name
    }

    fn place(&self, instruction: u64) -> Place {
        let address = self.object.file_address(instruction);
        let text = self.object.file_bytes(instruction).and_then(listing::instruction_text);
        Place {
            address,
            offset: instruction.wrapping_sub(self.entry),
            instruction: text.map(|(text, _)| text).unwrap_or_default(),
            source: listing::source_line(&self.object.file, address),
        }
    }
}
