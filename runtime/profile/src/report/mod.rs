//! Reports on profiles, with the rows of `iree-profile`: sums of everything ([`statistics`]), and what there is of
//! dispatches ([`dispatch`]), executables ([`executable`]), command buffers ([`command`]), queues ([`queue`]), counters
//! ([`counter`]) and memory ([`memory`]), and of all the most important in short ([`explain`]);
//! and [`diff`], which compares two profiles.
//!
//! `catalog` has what events refer to, `dispatches` sums of those that a filter selects, `submissions` the same of each
//! submission, and `lifecycles` what allocations add up to.

mod balance;
pub(crate) mod catalog;
mod command;
mod counter;
mod diff;
mod dispatch;
mod dispatches;
mod executable;
mod explain;
mod lifecycles;
mod memory;
mod queue;
mod statistics;
mod submissions;
pub(crate) mod timeline;

pub use command::command;
pub use counter::counter;
pub use diff::{DiffOptions, diff};
pub use dispatch::dispatch;
pub use executable::executable;
pub use explain::explain;
pub use memory::memory;
pub use queue::queue;
pub use statistics::statistics;
use vireo_core::glob;
use vireo_core::record_file::ReadError;

use crate::generated::contents::Content;
use crate::generated::format::HAS_HASH;
use crate::reader::{Reader, Record, TypedRecord};

/// The events that a report is about.
#[derive(Clone, Debug)]
pub struct ReportFilter {
    /// Names, with `*` and `?`.
    pub pattern: String,
    /// The number of the event, executable, command buffer or submission.
    pub id: Option<u64>,
    /// Whether each dispatch has a row, instead of the report.
    pub dispatch_events: bool,
}

impl Default for ReportFilter {
    /// All events.
    fn default() -> Self {
        ReportFilter { pattern: "*".to_string(), id: None, dispatch_events: false }
    }
}

impl ReportFilter {
    fn matches(&self, name: &[u8]) -> bool {
        glob::matches(self.pattern.as_bytes(), name)
    }

    fn is(&self, id: u64) -> bool {
        self.id.is_none_or(|wanted| wanted == id)
    }
}

/// Reads all records of chunks of types that are known, from the first one.
fn each_record(
    reader: &mut Reader,
    mut visit: impl FnMut(&Record, Content, &mut TypedRecord<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    reader.rewind();
    while let Some(chunk) = reader.next_record()? {
        let Some(content) = chunk.content() else { continue };
        let mut records = reader.typed(&chunk, content);
        while let Some(mut record) = records.next_record()? {
            visit(&chunk, content, &mut record)?;
        }
    }
    Ok(())
}

/// Three numbers as the rows for people have them: `1x2x3`.
fn by(values: [u32; 3]) -> String {
    format!("{}x{}x{}", values[0], values[1], values[2])
}

/// Three numbers in brackets.
fn list(values: [u32; 3]) -> String {
    format!("[{},{},{}]", values[0], values[1], values[2])
}

/// A hash of two words, if the flags of an executable or a function say that there is one.
fn hash(flags: u32, words: [u64; 2]) -> Option<String> {
    (flags & HAS_HASH != 0).then(|| format!("{:016x}{:016x}", words[0], words[1]))
}
