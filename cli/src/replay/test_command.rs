//! The command of `vireo replay minimize --test`: the shell runs it with the path of a capture, and it succeeds if that
//! is still interesting. A command that takes too long is ended, with the processes that it started.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::exit::Exit;
use crate::failure::Failure;

/// The text that the path of the capture replaces.
const PLACE: &str = "{}";

/// How long a wait for the command is at first, and at most.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

/// A command and the file that it tests.
pub struct TestCommand {
    command: String,
    timeout: Duration,
    candidate: PathBuf,
    /// The command has run.
    has_run: bool,
    /// It is removed at the end.
    _folder: TempDir,
}

impl TestCommand {
    /// The command `text`, which may take `timeout`.
    pub fn new(text: &str, timeout: Duration) -> Result<TestCommand, Failure> {
        if !text.contains(PLACE) {
            let message = format!("the command of --test has no `{PLACE}`, which the path of a capture replaces");
            return Err(Failure::new(Exit::Usage, message));
        }
        let folder = tempfile::Builder::new().prefix("vireo-").tempdir();
        let folder = folder
            .map_err(|error| Failure::new(Exit::RunFailure, "cannot make a folder for captures").because(error))?;
        let candidate = folder.path().join("candidate.ireereplay");
        let command = text.replace(PLACE, &quoted(&candidate.display().to_string()));
        Ok(TestCommand { command, timeout, candidate, has_run: false, _folder: folder })
    }

    /// The file that the command tests.
    pub fn candidate(&self) -> &Path {
        &self.candidate
    }

    /// Whether the command succeeds within its time; none if it was `deadline` that ended it.
    pub fn run(&mut self, deadline: Option<Instant>) -> io::Result<Option<bool>> {
        let mut command = shell(&self.command);
        // A command that is wrong says so for the whole capture, and then no more.
        let stderr = if self.has_run { Stdio::null() } else { Stdio::inherit() };
        self.has_run = true;
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn()?;
        let end = Instant::now().checked_add(self.timeout);
        let end = end.into_iter().chain(deadline).min();
        Ok(match wait(&mut child, end)? {
            Some(status) => Some(status.success()),
            None if deadline.is_some_and(|deadline| Instant::now() >= deadline) => None,
            None => Some(false),
        })
    }
}

/// The status of a process that ends before `end`; others are killed.
fn wait(child: &mut Child, end: Option<Instant>) -> io::Result<Option<ExitStatus>> {
    let mut pause = SHORTEST;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            kill(child)?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST);
    }
}

/// A text as one word of the shell.
#[cfg(unix)]
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(not(unix))]
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// A command of the shell, in a group of processes of its own.
#[cfg(unix)]
fn shell(text: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("sh");
    command.arg("-c").arg(text).process_group(0);
    command
}

#[cfg(not(unix))]
fn shell(text: &str) -> Command {
    let mut command = Command::new("cmd");
    command.arg("/C").arg(text);
    command
}

/// Kills a process, with its group.
#[cfg(unix)]
fn kill(child: &mut Child) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process_group};
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    match group.map(|group| kill_process_group(group, Signal::KILL)) {
        Some(Ok(())) => Ok(()),
        // It may have ended just now.
        Some(Err(_)) | None => child.kill(),
    }
}

#[cfg(not(unix))]
fn kill(child: &mut Child) -> io::Result<()> {
    child.kill()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn run(text: &str, timeout: Duration) -> bool {
        let mut test = TestCommand::new(text, timeout).map_err(|_| "it is refused").expect("a command");
        std::fs::write(test.candidate(), b"it's here").expect("a file");
        test.run(None).expect("it runs").expect("it has its time")
    }

    #[test]
    fn commands_succeed_or_fail() {
        let long = Duration::from_secs(60);
        assert!(run("grep -q 'here' {}", long));
        assert!(!run("grep -q 'there' {}", long));
        assert!(!run("no-such-command {}", long));
        assert!(TestCommand::new("true", long).is_err());
    }

    /// The processes that the shell started go with it.
    #[test]
    fn commands_that_take_too_long_have_failed() {
        let start = Instant::now();
        assert!(!run("sleep 100; true {}", Duration::from_millis(50)));
        assert!(start.elapsed() < Duration::from_secs(50));
    }
}
