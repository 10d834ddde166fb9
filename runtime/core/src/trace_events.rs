//! Trace events ([`TraceEvents`]): the JSON of Chrome's tracing tools, which Perfetto opens as well. Recorders of the
//! times of devices write them with this: packets of the software agent, profiles of drivers.
//!
//! The format is "Trace Event Format" of the Chromium project: one object with a list of events. A *process* groups
//! tracks, a *track* (a thread there) is a row with slices, of which one lies within the other or after it. Times are
//! microseconds with three decimals, from nanoseconds.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::visible_text::is_invisible;

/// A row of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Track {
    /// The group of rows that it is in.
    pub process: u32,
    /// Its number in the group.
    pub thread: u32,
}

/// The value of an argument, which a viewer shows beside an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    /// A text. Addresses are texts, since numbers of JSON have 53 bits.
    Text(&'a str),
    /// A number.
    Number(i64),
}

/// Named arguments of an event.
pub type Arguments<'a> = [(&'a str, Argument<'a>)];

/// Writes a trace; [`TraceEvents::finish`] ends it.
#[derive(Debug)]
pub struct TraceEvents<W: Write> {
    out: W,
    is_first: bool,
    line: String,
}

impl<W: Write> TraceEvents<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Those of the writer, here and below.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(TraceEvents { out, is_first: true, line: String::new() })
    }

    /// Names a group of tracks.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn name_process(&mut self, process: u32, name: &str) -> io::Result<()> {
        let track = Track { process, thread: 0 };
        self.event('M', track, "process_name", None, &[("name", Argument::Text(name))])
    }

    /// Names a track.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn name_track(&mut self, track: Track, name: &str) -> io::Result<()> {
        self.event('M', track, "thread_name", None, &[("name", Argument::Text(name))])
    }

    /// A slice of a track from `begin` to `end` nanoseconds. Slices of a track lie within each other or one after the
    /// other, and are written in the order of their ends; what overlaps otherwise has a track of its own.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn slice(
        &mut self,
        track: Track,
        name: &str,
        (begin, end): (u64, u64),
        arguments: &Arguments<'_>,
    ) -> io::Result<()> {
        self.event('B', track, name, Some(begin), arguments)?;
        self.event('E', track, name, Some(end.max(begin)), &[])
    }

    /// A mark on a track.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn mark(&mut self, track: Track, name: &str, time: u64, arguments: &Arguments<'_>) -> io::Result<()> {
        self.event('i', track, name, Some(time), arguments)
    }

    /// The value of a counter from a time on; a process has one track for each name.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn counter(&mut self, process: u32, name: &str, time: u64, value: i64) -> io::Result<()> {
        let track = Track { process, thread: 0 };
        self.event('C', track, name, Some(time), &[("value", Argument::Number(value))])
    }

    /// Ends the trace and returns the writer.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn event(
        &mut self,
        phase: char,
        track: Track,
        name: &str,
        time: Option<u64>,
        arguments: &Arguments<'_>,
    ) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        line.push_str(if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" });
        let Track { process, thread } = track;
        let _ = write!(line, "{{\"ph\":\"{phase}\",\"pid\":{process},\"tid\":{thread},\"name\":");
        string(line, name);
        if let Some(time) = time {
            let _ = write!(line, ",\"ts\":{}.{:03}", time / 1000, time % 1000);
        }
        if phase == 'i' {
            // The mark is of its track, not of all tracks.
            line.push_str(",\"s\":\"t\"");
        }
        for (index, (name, value)) in arguments.iter().enumerate() {
            line.push_str(if index == 0 { ",\"args\":{" } else { "," });
            string(line, name);
            line.push(':');
            match value {
                Argument::Text(text) => string(line, text),
                Argument::Number(number) => {
                    let _ = write!(line, "{number}");
                }
            }
        }
        line.push_str(if arguments.is_empty() { "}" } else { "}}" });
        self.out.write_all(line.as_bytes())
    }
}

/// Appends a string of JSON.
fn string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if is_invisible(control) => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_written_as_the_format_says() {
        let track = Track { process: 1, thread: 2 };
        let mut trace = TraceEvents::new(Vec::new()).unwrap();
        trace.name_process(1, "GPU \"0\"").unwrap();
        trace.name_track(track, "queue\n2").unwrap();
        let arguments = [("grid", Argument::Text("64")), ("index", Argument::Number(-3))];
        trace.slice(track, "add", (1_234_567, 1_234_999), &arguments).unwrap();
        trace.mark(track, "doorbell", 5, &[]).unwrap();
        trace.counter(1, "signal", 1_000_000, i64::MIN).unwrap();
        let text = String::from_utf8(trace.finish().unwrap()).unwrap();
        let expected = concat!(
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n",
            "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"GPU \\\"0\\\"\"}},\n",
            "{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"queue\\u000a2\"}},\n",
            "{\"ph\":\"B\",\"pid\":1,\"tid\":2,\"name\":\"add\",\"ts\":1234.567,\"args\":{\"grid\":\"64\",\"index\":-3}},\n",
            "{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"name\":\"add\",\"ts\":1234.999},\n",
            "{\"ph\":\"i\",\"pid\":1,\"tid\":2,\"name\":\"doorbell\",\"ts\":0.005,\"s\":\"t\"},\n",
            "{\"ph\":\"C\",\"pid\":1,\"tid\":0,\"name\":\"signal\",\"ts\":1000.000,\"args\":{\"value\":-9223372036854775808}}\n",
            "]}\n",
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn an_empty_trace_is_one() {
        let text = String::from_utf8(TraceEvents::new(Vec::new()).unwrap().finish().unwrap()).unwrap();
        assert_eq!(text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n]}\n");
    }
}
