//! The common parts of traces, whatever their events are: one order of changes and of what is told of them
//! ([`Tracer`]), a file that is written until it fails or ends ([`WrittenTrace`]), and numbers in place of addresses
//! ([`Numbers`]).

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

/// How a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceFormat {
    /// Lines of text.
    #[default]
    Text,
    /// Trace events in JSON, which Perfetto and Chrome open.
    Perfetto,
}

impl TraceFormat {
    /// The format of a file: JSON if its name ends in `.json`.
    pub fn of_file(path: &Path) -> TraceFormat {
        match path.extension().is_some_and(|extension| extension == "json") {
            true => TraceFormat::Perfetto,
            false => TraceFormat::Text,
        }
    }
}

/// An observer, which is told of changes in the order in which they happen.
#[derive(Debug)]
pub struct Tracer<O: ?Sized> {
    observer: Arc<O>,
    order: Arc<Mutex<()>>,
}

impl<O: ?Sized> Clone for Tracer<O> {
    fn clone(&self) -> Self {
        Tracer { observer: self.observer.clone(), order: self.order.clone() }
    }
}

impl<O: ?Sized> Tracer<O> {
    /// A tracer for an observer.
    pub fn new(observer: Arc<O>) -> Self {
        Tracer { observer, order: Arc::default() }
    }

    /// Until this is dropped no other thread changes anything that is traced.
    pub fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The observer, for a caller that holds the order.
    pub fn observer(&self, _order: &MutexGuard<'_, ()>) -> &O {
        &self.observer
    }
}

/// A trace that a writer writes, until the writer fails or the trace ends.
pub struct WrittenTrace<W: ?Sized>(Mutex<State<W>>);

enum State<W: ?Sized> {
    Writing(Box<W>),
    /// The writer failed, and nothing more is written.
    Failed(io::Error),
    Finished,
}

impl<W: ?Sized> fmt::Debug for WrittenTrace<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrittenTrace")
    }
}

impl<W: ?Sized> WrittenTrace<W> {
    /// A trace.
    pub fn new(writer: Box<W>) -> Self {
        WrittenTrace(Mutex::new(State::Writing(writer)))
    }

    /// Writes something, unless the trace has ended or failed.
    pub fn write(&self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Writing(writer) = &mut *state
            && let Err(error) = write(writer)
        {
            *state = State::Failed(error);
        }
    }

    /// Ends the trace: nothing is written later.
    ///
    /// # Errors
    /// The first error of the writer, which is told once.
    pub fn finish(&self, finish: impl FnOnce(Box<W>) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Finished) {
            State::Writing(writer) => finish(writer),
            State::Failed(error) => Err(error),
            State::Finished => Ok(()),
        }
    }
}

/// Numbers of objects by their addresses, in the order in which they are seen, so that traces of equal runs are equal.
#[derive(Debug, Default)]
pub struct Numbers(HashMap<u64, usize>);

impl Numbers {
    /// The number of an address.
    pub fn of(&mut self, address: u64) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(address).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_failed_writes_no_more_and_says_so_once() {
        let trace = WrittenTrace::new(Box::new(Vec::new()));
        trace.write(|lines| {
            lines.push(1);
            Ok(())
        });
        trace.write(|_| Err(io::Error::other("full")));
        trace.write(|_| panic!("it has failed"));
        let finish = |lines: Box<Vec<i32>>| panic!("it has failed: {lines:?}");
        assert_eq!(trace.finish(finish).map_err(|error| error.to_string()), Err("full".to_string()));
        assert!(trace.finish(finish).is_ok());
    }

    #[test]
    fn formats_are_chosen_by_the_names_of_files() {
        let of = |name: &str| TraceFormat::of_file(Path::new(name));
        assert_eq!(
            (of("a.json"), of("a.txt"), of("json")),
            (TraceFormat::Perfetto, TraceFormat::Text, TraceFormat::Text)
        );
    }
}
