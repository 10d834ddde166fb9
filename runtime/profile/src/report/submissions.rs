//! Sums of the dispatches of each submission of a queue, for `queue` and `explain`.

use super::dispatches::{Dispatches, Ordered, Spans};

/// Submission, device, queue and stream.
pub(super) type SubmissionKey = (u64, u32, u32, u64);

/// The submissions with dispatches on devices, in the order in which they occur.
pub(super) fn submissions(dispatches: &Dispatches) -> Ordered<SubmissionKey, Sums> {
    let mut submissions: Ordered<SubmissionKey, Sums> = Ordered::default();
    for ((_, submission, device, queue, stream), spans) in &dispatches.device.executions.all {
        submissions.get((*submission, *device, *queue, *stream)).add_all(spans);
    }
    submissions
}

/// The sums of a submission.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    pub(super) count: u64,
    pub(super) valid: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) total: u64,
}

impl Default for Sums {
    fn default() -> Self {
        Sums { count: 0, valid: 0, first: u64::MAX, last: 0, total: 0 }
    }
}

impl Sums {
    fn add_all(&mut self, spans: &Spans) {
        self.count += spans.count;
        self.valid += spans.valid;
        (self.first, self.last) = (self.first.min(spans.first), self.last.max(spans.last));
        self.total = self.total.saturating_add(spans.total);
    }
}
