//! The sanitizer of `vireo-simt`, told of copies, fills and frees of this library ([`Transfers`]); `image` tells it of
//! kernels. The order of work is that of the crew's operations ([`Known`]): an operation knows those that it waits for,
//! and those that the program knew to be done when it submitted it.

use std::fmt;
use std::sync::Arc;

use vireo_simt::Access;
use vireo_simt::sanitize::{Code, Known, Limits, NewDispatch, Place, RunningDispatch, Sanitizer, Site, Tell, poison};
use vireo_soft::memory::map::Allocation;

use crate::api::DeviceView;
use crate::memory::Memory;
use crate::options::Options;
use crate::reports::tell;

/// The number of the legacy default stream of each context.
pub(crate) const DEFAULT_STREAM: u64 = 1;

/// A stream in a report.
pub(crate) fn stream_name(stream: u64) -> String {
    if stream == DEFAULT_STREAM { "the default stream".to_string() } else { format!("stream {stream}") }
}

/// The sanitizer that options ask for.
pub(crate) fn of_options(options: &Options) -> Option<Sanitizer> {
    let print: Tell = Box::new(|text: &dyn fmt::Display| tell(format_args!("sanitizer: {text}")));
    options.sanitize.any().then(|| Sanitizer::new(options.sanitize, Limits::default(), Some(print)))
}

/// Something of the library that accesses memory.
struct Transfer(&'static str);

impl Code for Transfer {
    fn kernel(&self) -> &str {
        self.0
    }

    fn place(&self, _instruction: u64) -> Place {
        Place::default()
    }

    fn describe(&self, site: &Site) -> Option<String> {
        Some(format!("{}, {}", self.0, stream_name(site.queue)))
    }
}

/// A copy, fill or free that has begun.
pub(crate) struct Transfers<'a> {
    sanitizer: &'a Sanitizer,
    dispatch: RunningDispatch,
    view: DeviceView<'a>,
}

impl<'a> Transfers<'a> {
    /// One begins in a stream of a device, if there is a sanitizer.
    pub(crate) fn begin(
        memory: &'a Memory,
        name: &'static str,
        (device, stream): (u32, u64),
        known: &Known,
    ) -> Option<Self> {
        let sanitizer = memory.sanitizer.as_ref()?;
        let (code, groups) = (Arc::new(Transfer(name)), [1; 3]);
        let dispatch = sanitizer.begin_after(NewDispatch { code, queue: stream, packet: 0, groups, waves: 1 }, known);
        Some(Transfers { sanitizer, dispatch, view: DeviceView::new(&memory.map, device) })
    }

    /// It reads a range of an allocation.
    pub(crate) fn reads(&self, start: u64, length: u64) {
        self.sanitizer.transfers(&self.dispatch, start, length, Access::Load, &self.view);
    }

    /// It writes a range of an allocation.
    pub(crate) fn writes(&self, start: u64, length: u64) {
        self.sanitizer.transfers(&self.dispatch, start, length, Access::Store, &self.view);
    }

    /// It has written a range from elsewhere.
    pub(crate) fn fills(&self, start: u64, length: u64) {
        self.sanitizer.filled(start, length);
    }

    /// It reads a range for the host.
    pub(crate) fn leaves(&self, start: u64, length: u64, name: &str) {
        self.sanitizer.leaves(start, length, name, &self.view);
    }

    /// It copies between allocations. Returns the ranges that are to be unwritten again.
    pub(crate) fn copies(&self, to: u64, from: u64, length: u64) -> Vec<(u64, u64)> {
        self.sanitizer.copies(to, from, length, &self.view)
    }

    /// It frees an allocation, by a name for reports.
    pub(crate) fn frees(&self, allocation: Arc<Allocation>, by: String) {
        let (start, length) = (allocation.start, allocation.length);
        self.sanitizer.frees(&self.dispatch, start, length, by, allocation);
    }

    /// It has ended: those after it know it.
    pub(crate) fn end(&self, known: &mut Known) {
        *known = self.sanitizer.finish(&self.dispatch);
    }
}

/// The byte that unwritten memory has at an address.
pub(crate) fn unwritten_byte(address: u64) -> u8 {
    poison(address & !3).to_le_bytes()[(address & 3) as usize]
}
