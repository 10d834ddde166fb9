//! Objects of recordings ([`RecordedObject`]).

/// An object of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedObject {
    /// The number of the call that returned it first. None if it was there before, or is one of the host.
    pub made_by: Option<u64>,
    /// True for a buffer that the host can map. What it writes there is not in the recording.
    pub is_mappable: bool,
}
