//! Starts programs of a target: by its runner, and with a limit of time, since an emulator that waits for something
//! would wait for ever.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than a program takes for a model; an emulator that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(180);

/// How often a program is asked whether it has ended.
const PAUSE: Duration = Duration::from_millis(2);

/// The output of a program.
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A command that runs a program by the words of its runner.
pub fn started(runner: &[String], program: &Path) -> Command {
    match runner {
        [] => Command::new(program),
        [runner, arguments @ ..] => {
            let mut command = Command::new(runner);
            command.args(arguments).arg(program);
            command
        }
    }
}

/// Runs a command to its end, or ends it at the limit, which is an error.
pub fn output(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error| format!("{name}: {error}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(failed)?;
    // Both are read at once, as a program that fills one pipe waits before it writes to the other.
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stdout = thread::spawn(|| text(stdout));
    let stderr = thread::spawn(|| text(stderr));
    let Some(status) = end_of(&mut child).map_err(failed)? else {
        // A process that it has started may have its pipes still, so nothing waits for their ends.
        return Err(format!("{name} had not ended after {} seconds", LIMIT.as_secs()));
    };
    let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().unwrap_or_default());
    Ok(Output { status, stdout, stderr })
}

/// The status of a process at its end, or nothing if it was killed at the limit.
fn end_of(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(PAUSE);
    }
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // The bytes before an error are the output of the program.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A program that runs in Wine until this is dropped. Wine starts its server and several services for the first
/// program, which takes seconds, and ends them with the last one; while this one is there, others start in some tenths
/// of a second.
pub struct Wine {
    command: Child,
}

impl Wine {
    /// Starts Wine's shell, which reads commands from an empty pipe.
    pub fn start(runner: &[String]) -> Result<Wine, String> {
        let mut command = started(runner, Path::new("cmd"));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Wine { command: command.map_err(|error| format!("{}: {error}", runner.join(" ")))? })
    }
}

impl Drop for Wine {
    fn drop(&mut self) {
        // The shell ends at the end of its input.
        drop(self.command.stdin.take());
        // An error leaves nothing to be done.
        let _ = end_of(&mut self.command);
    }
}
