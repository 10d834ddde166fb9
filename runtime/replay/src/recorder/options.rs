//! The options of a recording ([`RecorderOptions`]).

use super::file::{FilePolicy, FileValidation};

/// The options of a recording: files, and checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderOptions {
    /// The way in which the capture has files that are imported by their descriptors.
    pub files: FilePolicy,
    /// How a replay checks files that it finds by their paths.
    pub validation: FileValidation,
    /// Compares all buffers that the host can map with a copy before each operation of a queue, to find writes that
    /// were not recorded. It waits for the operations before, and takes memory for all buffers.
    pub check_writes: bool,
}
