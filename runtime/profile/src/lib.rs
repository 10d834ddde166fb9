//! Profiles of what devices did (`.ireeprof`), in the format of IREE: a file of chunks of records, such as the
//! operations of a queue with their times.
//!
//! - [`Reader`] checks the records of a file one after the other, [`TypedRecords`] those of a chunk; [`ProfileWriter`]
//!   writes them.
//! - [`statistics`], [`explain`], [`dispatch`], [`executable`], [`command`], [`queue`], [`counter`] and [`memory`] are
//!   the reports of the commands with these names. [`cat`] shows the records, [`Summary`] counts what they hold,
//!   [`export`] writes rows for other tools, all as `iree-profile` does.
//! - [`diff`] compares two profiles. [`html()`] and [`perfetto()`] draw the time line of one.
//! - [`Model`] joins what chunks say about executables, functions, command buffers, clocks and metrics.
//! - [`ProfiledDevices`] wraps devices, so that they write profiles, such as to a [`ProfileFile`].
//! - [`records`] and [`format`](mod@format) are generated from `spec/profile`.
//!
//! Profiles are untrusted input: every length and number is checked before it is used. Memory depends on the
//! number of executables, functions, command buffers and metrics, and not on that of events.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
#![forbid(unsafe_code)]

mod cat;
mod clock;
mod export;
mod float_text;
mod generated;
mod joins;
mod model;
mod producer;
mod reader;
mod render;
mod report;
mod sink;
mod summary;
mod summary_text;
mod writer;

pub use cat::cat;
pub use clock::ClockFit;
pub use export::export;
pub use generated::contents::Content;
#[doc(hidden)]
pub use generated::dump::LAYOUTS;
#[doc(hidden)]
pub use generated::perfetto as perfetto_fields;
pub use generated::{format, records};
pub use model::{Clocks, Model};
pub use producer::ProfiledDevices;
pub use reader::{OutputError, Reader, Record, TypedRecord, TypedRecords};
pub use render::{html, perfetto};
pub use report::{
    DiffOptions, ReportFilter, command, counter, diff, dispatch, executable, explain, memory, queue, statistics,
};
pub use sink::ProfileFile;
pub use summary::{DeviceSummary, Summary};
pub use vireo_core::record_file::ReadError;
pub use writer::ProfileWriter;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// A JSON object on each line, for programs.
    Jsonl,
}
