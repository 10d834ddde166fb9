//! The trace of calls ([`CallTrace`]): a line of text for each call, or trace events in JSON, which Perfetto and Chrome
//! open, with calls by threads and the work of streams. The file has all up to the last event if the process is killed;
//! both programs open an array of JSON without its end.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
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
    file: WrittenTrace<BufWriter<File>>,
    format: TraceFormat,
}

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
        let (file, format) = (WrittenTrace::new(Box::new(BufWriter::new(file.ok()?))), TraceFormat::of_file(path));
        let trace = CallTrace { file, format };
        if format == TraceFormat::Perfetto {
            trace.write(|file| {
                writeln!(file, "[")?;
                for (process, name) in [(CALLS, "calls"), (STREAMS, "streams")] {
                    let event = r#""name":"process_name","ph":"M""#;
                    writeln!(file, r#"{{{event},"pid":{process},"args":{{"name":"{name}"}}}},"#)?;
                }
                Ok(())
            });
        }
        Some(trace)
    }

    fn write(&self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        self.file.write(|file| {
            write(file)?;
            file.flush()
        });
    }

    /// A call that began at this time has ended.
    pub(crate) fn call(&self, symbol: &str, begin: u64, status: CuResult) {
        match self.format {
            TraceFormat::Text => self.write(|file| writeln!(file, "{symbol} {}", status.0)),
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
        self.write(|file| {
            write!(file, r#"{{"name":"#)?;
            write_text(file, name)?;
            write!(file, r#","ph":"X","ts":{start},"dur":{duration},"pid":{process},"tid":{thread}"#)?;
            if let Some(status) = status {
                write!(file, r#","args":{{"status":{}}}"#, status.0)?;
            }
            writeln!(file, "}},")
        });
    }
}
