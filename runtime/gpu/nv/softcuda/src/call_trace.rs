//! The trace of calls ([`CallTrace`]): a line of text for each call, or trace events in JSON, which Perfetto and Chrome
//! open, with calls by threads and the work of streams. The file has all up to the last event if the process is killed,
//! and is one array of JSON after each event, which replaces the end of the array: nothing runs reliably when a process
//! ends.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use vireo_cuda::result::CuResult;
use vireo_soft::clock;
use vireo_soft::trace::{TraceFormat, WrittenTrace};

use crate::reports::tell;

/// The processes that the events of calls and of streams are shown in.
const CALLS: u32 = 1;
const STREAMS: u32 = 2;

/// A trace that is written to a file.
#[derive(Debug)]
pub(crate) struct CallTrace {
    file: WrittenTrace<File>,
    format: TraceFormat,
    /// Whether the end of the file can be replaced, as that of a pipe cannot.
    is_closed: bool,
}

/// The end of the array.
const END: &str = "\n]\n";

thread_local! {
    /// The number of the thread in traces; 0 before it has one.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if THREAD.get() == 0 {
        THREAD.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    THREAD.get()
}

/// Writes a text of JSON.
fn write_text(file: &mut impl Write, text: &str) -> io::Result<()> {
    write!(file, "\"")?;
    for letter in text.chars() {
        match letter {
            '"' | '\\' => write!(file, "\\{letter}")?,
            letter if letter.is_control() => write!(file, "\\u{:04x}", u32::from(letter))?,
            letter => write!(file, "{letter}")?,
        }
    }
    write!(file, "\"")
}

impl CallTrace {
    /// A trace to a new file. If there is no such file, that is told.
    pub(crate) fn to_file(path: &Path) -> Option<Self> {
        let file = File::create(path).inspect_err(|error| tell(format_args!("{}: {error}", path.display())));
        let mut file = file.ok()?;
        let is_closed = file.stream_position().is_ok();
        let format = TraceFormat::of_file(path);
        let trace = CallTrace { file: WrittenTrace::new(Box::new(file)), format, is_closed };
        if format == TraceFormat::Perfetto {
            let name = |process: u32, name: &str| {
                format!(r#"{{"name":"process_name","ph":"M","pid":{process},"args":{{"name":"{name}"}}}}"#)
            };
            let names = format!("[\n{},\n{}", name(CALLS, "calls"), name(STREAMS, "streams"));
            let end = if trace.is_closed { END } else { "" };
            trace.file.write(|file| file.write_all((names + end).as_bytes()));
        }
        Some(trace)
    }

    /// A call that began at this time has ended.
    pub(crate) fn call(&self, symbol: &str, begin: u64, status: CuResult) {
        match self.format {
            TraceFormat::Text => self.file.write(|file| file.write_all(format!("{symbol} {}\n", status.0).as_bytes())),
            TraceFormat::Perfetto => self.event(symbol, (CALLS, thread_number()), begin, Some(status)),
        }
    }

    /// Work of a stream that began at this time has ended.
    pub(crate) fn work(&self, name: &str, stream: u64, begin: u64) {
        if self.format == TraceFormat::Perfetto {
            self.event(name, (STREAMS, stream), begin, None);
        }
    }

    fn event(&self, name: &str, (process, thread): (u32, u64), begin: u64, status: Option<CuResult>) {
        // Times are in microseconds.
        let micros = |ticks: u64| format!("{}.{:03}", ticks / 1000, ticks % 1000);
        let (start, duration) = (micros(begin), micros(clock::now().saturating_sub(begin)));
        self.file.write(|file| {
            let mut event = b",\n".to_vec();
            write!(event, r#"{{"name":"#)?;
            write_text(&mut event, name)?;
            write!(event, r#","ph":"X","ts":{start},"dur":{duration},"pid":{process},"tid":{thread}"#)?;
            if let Some(status) = status {
                write!(event, r#","args":{{"status":{}}}"#, status.0)?;
            }
            write!(event, "}}")?;
            if self.is_closed {
                file.seek(SeekFrom::End(-(END.len() as i64)))?;
                event.extend(END.as_bytes());
            }
            // One write, so that a process that is killed leaves a whole array.
            file.write_all(&event)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_an_array_of_json_after_each_event() {
        let path = std::env::temp_dir().join(format!("vireo-calls-{}.json", std::process::id()));
        let trace = CallTrace::to_file(&path).unwrap();
        let events = |expected: usize| {
            let text = std::fs::read_to_string(&path).unwrap();
            let value: serde_json::Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            let events = value.as_array().unwrap().clone();
            assert_eq!(events.len(), expected, "{text}");
            events
        };
        events(2);
        trace.call("cuInit", clock::now(), CuResult(0));
        events(3);
        trace.work("a \"name\" with \\ and \n", 7, clock::now());
        let last = events(4).pop().unwrap();
        assert_eq!((last["name"].as_str(), last["tid"].as_u64()), (Some("a \"name\" with \\ and \n"), Some(7)));
        std::fs::remove_file(&path).unwrap();
    }
}
