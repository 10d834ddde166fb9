//! The limit of time of commands that look at a module and run nothing of it that has limits of its own: `dump` and
//! `explain`.
//!
//! Reading, verifying, compiling and printing take time that grows with the file, in places that look at no deadline.
//! The process ends instead.

use std::process::exit;
use std::thread;

use anstream::AutoStream;

use crate::arguments::Seconds;
use crate::exit::Exit;
use crate::failure::Failure;

/// Ends the process after so much time, unless it has ended before.
///
/// # Errors
/// If the system has no thread for it.
pub fn start(limit: Option<Seconds>, doing: &str) -> Result<(), Failure> {
    let Some(Seconds(limit)) = limit else { return Ok(()) };
    let seconds = limit.as_secs_f64();
    let failure = Failure::new(Exit::RunFailure, format!("{doing} took longer than the limit of {seconds} s"));
    let body = move || {
        thread::sleep(limit);
        // A caller that does not read the messages of the process gets its exit code.
        let _ = failure.report(&mut AutoStream::auto(std::io::stderr()));
        exit(failure.exit as i32);
    };
    let thread = thread::Builder::new().name("time limit".into()).spawn(body);
    let failed = |error| Failure::new(Exit::RunFailure, "no thread for the limit of time").because(error);
    thread.map(drop).map_err(failed)
}
