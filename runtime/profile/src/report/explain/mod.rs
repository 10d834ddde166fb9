//! `explain`: the most important of a profile in short: how busy devices and queues were, the functions and the
//! dispatches that took most time, operations of queues, the most memory, and hints at what is missing or wrong.
//!
//! `findings` makes the findings; `text` and `rows` write them.

mod findings;
mod rows;
mod text;

use std::io::Write;

use findings::Findings;

use super::ReportFilter;
use crate::ReportFormat;
use crate::reader::{OutputError, Reader};
use crate::summary::Summary;

/// Writes where the time of a profile went, and hints, as `iree-profile explain` does. The filter selects dispatches;
/// the number is that of a dispatch event.
///
/// # Errors
/// If the profile is damaged, or `out` fails.
pub fn explain(
    reader: &mut Reader,
    filter: &ReportFilter,
    format: ReportFormat,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    reader.rewind();
    let summary = Summary::read(reader)?;
    let findings = Findings::read(reader, summary, filter)?;
    match format {
        ReportFormat::Text => text::write(&findings, out)?,
        ReportFormat::Jsonl => rows::write(&findings, out)?,
    }
    Ok(())
}
