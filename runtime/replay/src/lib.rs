//! Captures of what devices were asked to do (`.ireereplay`), in the format of IREE: a file of records, each a call of
//! a device or of an object that it made, with the bytes that it needs.
//!
//! - [`Reader`] checks the records of a file one after the other, [`CaptureWriter`] writes them.
//! - [`Recorder`] writes one of what devices are asked to do.
//! - [`dump()`] shows a capture to people or programs, as `iree-dump-replay` does.
//! - [`Plan`] is a capture that was read and checked; [`Plan::run`] replays it on devices.
//! - [`diff()`] compares two replays, dispatch by dispatch; [`minimize()`] makes a capture of one dispatch.
//! - [`edit()`] writes a changed copy, and [`reduce()`] the least one that a test finds interesting.
//! - [`Examined`] says what a capture needs and holds, [`extract()`] takes it apart, [`salvage()`] saves what is whole
//!   of a damaged one, and [`Expected`] compares a replay with what the host read when the capture was made.
//! - [`payloads`] and [`operations`] are generated from `spec/replay`.
//!
//! Captures are untrusted input: every length and number is checked before it is used, and memory does not
//! depend on the length of a file.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
#![forbid(unsafe_code)]

mod captured_file;
mod compare;
mod diff;
mod digest;
mod dump;
mod edit;
mod examine;
mod executor;
mod expected;
mod extract;
mod generated;
mod minimize;
mod objects;
mod operation;
mod options;
mod order;
mod payload;
mod plan;
mod reader;
mod recorder;
mod reduce;
mod salvage;
mod sequence;
mod slice;
mod stepper;
mod strip;
mod summary;
mod timelines;
mod writer;

pub use compare::{CompareAs, Comparison, DifferentElement, ElementValue, RangeDifference};
pub use diff::{Cause, ContentsOf, Diff, DiffSide, FirstDifference, WatchDiff, diff};
pub use dump::{DumpError, DumpFormat, dump};
pub use edit::{EditOptions, Edited, RecordRanges, edit};
pub use examine::{CapturedExecutable, Examined, NamedFile};
pub use executor::{HostRead, Replayed, Watch};
pub use expected::{Difference, Expected, Outputs};
pub use extract::{Extracted, extract};
#[doc(hidden)]
pub use generated::dump::LAYOUTS;
pub use generated::dump::{PAYLOADS, payload as payload_type};
pub use generated::{format, operations, payloads};
pub use minimize::{Minimized, minimize};
pub use operation::{Operation, Replay};
pub use options::{FileAccess, FileRemap, ParseError, ReplayOptions, Substitution, SubstitutionSource};
pub use plan::Plan;
pub use reader::{Reader, Record};
pub use recorder::{CaptureFile, FilePolicy, FileValidation, Recorder, RecorderOptions};
pub use reduce::{Candidate, Reduced, Verdict, reduce};
pub use salvage::{Salvaged, salvage};
pub use stepper::{BoundRange, SteppedDispatch, SteppedRead};
pub use strip::Stripped;
pub use summary::Summary;
pub use vireo_core::record_file::ReadError;
pub use writer::CaptureWriter;
