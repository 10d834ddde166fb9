//! Trace sinks: receive the events of the ops `trace` and `print`, and each op of a traced run. Hosts pass one to a
//! context.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use crate::Value;
use crate::visible_text::{prefixed, visible};

/// Receives what programs report. All text is as the program has it, with whatever characters; a sink that shows it
/// escapes them, as those below do.
pub trait TraceSink: Send + Sync {
    /// An event of `trace` with its operands.
    fn trace(&self, event: &str, values: &[Value]);

    /// A text of `print` with its operands.
    fn print(&self, text: &str, values: &[Value]);

    /// An op that is about to be executed, in a run of the tier `Traced`, such as
    /// `[module.f+0000000B]    %i2 = vm.add.i32 %i0(5), %i1(6)`.
    fn executed(&self, line: &str);
}

/// Writes one line per report to the standard error stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stderr;

impl TraceSink for Stderr {
    fn trace(&self, event: &str, values: &[Value]) {
        to_stderr(&traced(event, values));
    }

    fn print(&self, text: &str, values: &[Value]) {
        to_stderr(&printed(text, values));
    }

    fn executed(&self, line: &str) {
        to_stderr(&visible(line));
    }
}

fn to_stderr(lines: &str) {
    // A reader that closes the pipe must not end the program.
    let _ = writeln!(io::stderr(), "{lines}");
}

/// The line of an event. Its name has no lines.
fn traced(event: &str, values: &[Value]) -> String {
    format!("[trace] {}{}", visible(event), Listed(values))
}

/// The lines of a text, each of which shows that a program has printed it.
fn printed(text: &str, values: &[Value]) -> String {
    prefixed("[print] ", &format!("{text}{}", Listed(values)))
}

/// Records what programs report, as the lines that [`Stderr`] writes.
#[derive(Debug, Default)]
pub struct TraceRecorder(Mutex<Vec<String>>);

impl TraceRecorder {
    /// Lines that are kept at most; a program may report in a loop.
    const MAX_LINES: usize = 1 << 16;

    /// Takes the lines that were recorded since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a line that comes from the host, not from the program.
    pub fn add(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < TraceRecorder::MAX_LINES {
            lines.push(line);
        }
    }
}

impl TraceSink for TraceRecorder {
    fn trace(&self, event: &str, values: &[Value]) {
        self.add(traced(event, values));
    }

    fn print(&self, text: &str, values: &[Value]) {
        self.add(printed(text, values));
    }

    fn executed(&self, line: &str) {
        self.add(visible(line));
    }
}

struct Listed<'a>(&'a [Value]);

impl std::fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, value) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { ": " } else { ", " })?;
            match value {
                Value::I32(value) => write!(f, "{value}")?,
                Value::I64(value) => write!(f, "{value}")?,
                Value::F32(value) => write!(f, "{value}")?,
                Value::F64(value) => write!(f, "{value}")?,
                Value::Ref(None) => f.write_str("null")?,
                Value::Ref(Some(reference)) => write!(f, "!{}", reference.type_name())?,
            }
        }
        Ok(())
    }
}
