//! The streams of the command: results for stdout, messages for stderr, and the one document of JSON.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use vireo::visible_text::{visible_json, visible_lines};

use crate::exit::Exit;
use crate::failure::Failure;

/// Writes `text` and flushes, so that output and messages keep their order. What comes from files has no lines of its
/// own by now; no other character of theirs reaches the terminal either.
pub fn print(out: &mut dyn Write, text: &str) -> Result<Exit, Failure> {
    print_styled(out, &visible_lines(text))
}

/// Whether stdout has a document already: there is one at most, so a later failure is told on stderr alone.
static HAS_DOCUMENT: AtomicBool = AtomicBool::new(false);

/// Writes a failure as a document, if there is none yet. The message on stderr is for people; that stdout is closed is
/// not told twice.
pub fn print_failure_as_json(failure: &Failure) {
    if !HAS_DOCUMENT.load(Ordering::Relaxed) {
        let _ = print_json(&mut io::stdout(), &format!("{:#}\n", json!({"error": failure.to_json()})));
    }
}

/// As [`print`], for JSON.
pub fn print_json(out: &mut dyn Write, text: &str) -> Result<Exit, Failure> {
    HAS_DOCUMENT.store(true, Ordering::Relaxed);
    print_styled(out, &visible_json(text))
}

/// Writes `text` to stderr. It is a courtesy: a closed stderr must not turn a good run into a bad one.
pub fn print_aside(text: &str) {
    let _ = io::stderr().write_all(visible_lines(text).as_bytes());
}

/// As [`print`], for text with colours, whose other parts are escaped already.
pub fn print_styled(out: &mut dyn Write, text: &str) -> Result<Exit, Failure> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(Exit::Ok),
        Err(error) => Err(Failure::new(Exit::RunFailure, "cannot write to stdout").because(error)),
    }
}
