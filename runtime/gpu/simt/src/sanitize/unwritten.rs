//! Unwritten bytes ([`find`]), in what kernels load and in what leaves the device.

use super::state::{State, poison};
use crate::memory::Port;

/// The unwritten bytes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unwritten {
    /// The address of the first one.
    pub(super) first: u64,
    pub(super) count: u64,
}

/// Bytes that are looked at together where all of them were written.
const STEP: u64 = 4096;

/// Finds the unwritten bytes of a range in a poisoned allocation.
///
/// The host writes memory without a call: of a word some bytes of which are not known to be written, it wrote all if
/// they differ from the poison. `kernel` is who asks, for warnings.
pub(super) fn find(
    state: &mut State,
    port: &mut Port<'_>,
    (start, length): (u64, u64),
    kernel: Option<&str>,
) -> Option<Unwritten> {
    let end = start.saturating_add(length);
    let mut found: Option<Unwritten> = None;
    let mut word = start & !3;
    while word < end {
        let step = STEP - word % STEP;
        let part = (word.max(start), word.saturating_add(step).min(end));
        if state.shadow.is_written(part.0, part.1 - part.0) {
            word = word.saturating_add(step);
            continue;
        }
        for word in (word..part.1).step_by(4) {
            let open = (0..4u32).filter(|byte| !state.shadow.is_written(word + u64::from(*byte), 1));
            let mask = open.fold(0, |mask, byte| mask | 0xFF << (8 * byte));
            if mask == 0 {
                continue;
            }
            if port.load_words::<1>(word).is_ok_and(|[now]| (now ^ poison(word)) & mask != 0) {
                state.set_written(word, 4, kernel);
                continue;
            }
            let in_range = |byte: &u64| (start..end).contains(&(word + byte)) && mask >> (8 * byte) & 1 == 1;
            for byte in (0..4).filter(in_range) {
                let found = found.get_or_insert(Unwritten { first: word + byte, count: 0 });
                found.count += 1;
            }
        }
        word = word.saturating_add(step);
    }
    found
}
