//! `cargo xtask growth`: whether what is done to a hostile module grows with its size and no faster.
//!
//! Modules of each of [`kinds::KINDS`] are written in sizes of n and 2 n, and each command runs them under a counter of
//! instructions: `perf` if the processor lets it count, else Valgrind. The instructions of a module that is nearly
//! empty are subtracted. If twice the size takes more than [`MOST`] times the instructions, so does each doubling after
//! that, or nearly: a file of a few megabytes would take for ever. Times would depend on the machine.

mod kinds;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use kinds::{KINDS, Kind};

/// The help of the command.
pub const HELP: &str = "usage: cargo xtask growth [--command FILE] [NAME]

Builds `vireo` as it is released, or takes FILE. Writes modules that are hostile to the passes of the loader, the verifier, the interpreter
and the compiler in sizes of n and 2 n, counts the instructions of `vireo run --tier=interp`, `vireo run --tier=jit`, `vireo explain` and
`vireo dump`, and fails if twice the size takes more than 2.3 times as many. NAME is a part of the name of the kinds to look at.

Counts with `perf stat`, or with `valgrind --tool=callgrind` where that cannot count. Without either nothing is checked, and the command says
`skipped: ` and why.";

/// Twice the size may take so many times the instructions.
const MOST: f64 = 2.3;
/// So many instructions more than those of an empty module are not judged: tables that grow by doubling are as much.
const FEWEST: u64 = 400_000;
/// A run that takes longer is stopped.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The commands, with the file of the module in place of `FILE`.
const COMMANDS: [(&str, &[&str]); 4] = [
    (
        "run --tier=interp",
        &["run", "--untrusted", "--no-confine", "--timeout=60", "--tier=interp", "FILE", "--function=main"],
    ),
    (
        "run --tier=jit",
        &["run", "--untrusted", "--no-confine", "--timeout=60", "--tier=jit", "FILE", "--function=main"],
    ),
    ("explain", &["explain", "FILE"]),
    ("dump", &["dump", "--output=all", "FILE"]),
];

/// Runs all kinds whose name has `part`.
pub fn growth(command: Option<&Path>, part: &str) -> Result<(), String> {
    let Some(counter) = Counter::of_this_machine() else {
        println!("skipped: neither `perf stat` nor `valgrind` counts instructions here");
        return Ok(());
    };
    let command = command.map_or_else(build, |command| Ok(command.to_path_buf()))?;
    let folder = env::temp_dir().join(format!("vireo-growth-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let run = Run { counter, command, folder };
    run.all(part).map_err(|problems| format!("{problems}\nthe modules are in {}", run.folder.display()))?;
    let _ = fs::remove_dir_all(&run.folder);
    Ok(())
}

/// A counter of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    Perf,
    Valgrind,
}

impl Counter {
    fn of_this_machine() -> Option<Counter> {
        [Counter::Perf, Counter::Valgrind].into_iter().find(|counter| {
            let run = counter.command(Path::new("true")).stdin(Stdio::null()).output();
            run.is_ok_and(|output| counter.count(&String::from_utf8_lossy(&output.stderr)).is_some())
        })
    }

    /// The command line that counts a program.
    fn command(self, program: &Path) -> Command {
        let mut command = match self {
            Counter::Perf => Command::new("perf"),
            Counter::Valgrind => Command::new("valgrind"),
        };
        match self {
            Counter::Perf => command.args(["stat", "--field-separator=,", "--event=instructions:u", "--"]),
            Counter::Valgrind => command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]),
        };
        command.arg(program);
        command
    }

    /// The count in what it has written to stderr.
    fn count(self, text: &str) -> Option<u64> {
        text.lines().rev().find_map(|line| match self {
            Counter::Perf => line.contains("instructions").then(|| line.split(',').next()?.parse().ok())?,
            Counter::Valgrind => line.split_once("Collected :")?.1.trim().parse().ok(),
        })
    }
}

struct Run {
    counter: Counter,
    command: PathBuf,
    folder: PathBuf,
}

/// The instructions of a run, or why there is no count.
type Count = Result<u64, String>;

impl Run {
    fn all(&self, part: &str) -> Result<(), String> {
        let kinds: Vec<&Kind> = KINDS.iter().filter(|kind| kind.name.contains(part)).collect();
        if kinds.is_empty() {
            return Err(format!("no kind of module has `{part}` in its name"));
        }
        // As small as the kinds are large.
        let empty = self.assemble("empty", &(KINDS[0].text)(1))?;
        let base: Vec<u64> = COMMANDS.iter().map(|(_, line)| self.count(line, &empty)).collect::<Result<_, _>>()?;
        let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some(kind) = kinds.get(next.fetch_add(1, Ordering::Relaxed)) {
                let problem = self.kind(kind, &base);
                if let Ok(mut problems) = problems.lock() {
                    problems.extend(problem);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        let problems = problems.into_inner().unwrap_or_default();
        let kinds = kinds.len();
        println!("{kinds} kinds of modules, {} commands each, counted by {:?}", COMMANDS.len(), self.counter);
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }

    /// Counts a kind in both sizes, prints the counts, and returns what is wrong.
    fn kind(&self, kind: &Kind, base: &[u64]) -> Vec<String> {
        let files = [kind.size, 2 * kind.size].map(|size| {
            let name = format!("{}-{size}", kind.name.replace(|letter: char| !letter.is_alphanumeric(), "_"));
            self.assemble(&name, &(kind.text)(size))
        });
        let [Ok(small), Ok(large)] = &files else {
            return files.into_iter().filter_map(Result::err).map(|error| format!("{}: {error}", kind.name)).collect();
        };
        let mut problems = Vec::new();
        let mut row = format!("{} ({}):", kind.name, kind.size);
        for ((name, line), base) in COMMANDS.iter().zip(base) {
            let of = |file| Ok::<_, String>(self.count(line, file)?.saturating_sub(*base));
            match of(small).and_then(|small| Ok((small, of(large)?))) {
                Ok((small, large)) => {
                    let growth = large as f64 / small.max(FEWEST) as f64;
                    row.push_str(&format!("  {name} {:.1}M x{growth:.2}", small as f64 / 1e6));
                    if growth > MOST {
                        let message = format!("from {small} to {large} instructions, x{growth:.2}");
                        problems.push(format!("{}: `{name}` grows {message}", kind.name));
                    }
                }
                Err(error) => problems.push(format!("{}: `{name}`: {error}", kind.name)),
            }
        }
        println!("{row}");
        problems
    }

    fn assemble(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let [source, file] = ["vmasm", "vmfb"].map(|extension| self.folder.join(name).with_extension(extension));
        fs::write(&source, text).map_err(|error| format!("{}: {error}", source.display()))?;
        let output = Command::new(&self.command).arg("asm").arg(&source).arg("-o").arg(&file).output();
        let output = output.map_err(|error| format!("{}: {error}", self.command.display()))?;
        if output.status.success() { Ok(file) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    /// The instructions that a command takes for a file.
    fn count(&self, line: &[&str], file: &Path) -> Count {
        let mut command = self.counter.command(&self.command);
        for argument in line {
            if *argument == "FILE" {
                command.arg(file)
            } else {
                command.arg(argument)
            };
        }
        let errors = file.with_extension(format!("{:?}.txt", thread::current().id()));
        let stderr = fs::File::create(&errors).map_err(|error| format!("{}: {error}", errors.display()))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        let begin = Instant::now();
        let status = loop {
            match child.try_wait().map_err(|error| format!("{command:?}: {error}"))? {
                Some(status) => break status,
                None if begin.elapsed() > TIMEOUT => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(format!("stopped after {} s", TIMEOUT.as_secs()));
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let text = fs::read_to_string(&errors).map_err(|error| format!("{}: {error}", errors.display()))?;
        if !status.success() {
            return Err(format!("{command:?}: {status}\n{text}"));
        }
        self.counter.count(&text).ok_or_else(|| format!("no count of instructions in\n{text}"))
    }
}

/// Builds the command, and returns its file.
fn build() -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = crate::chore::workspace().to_path_buf();
    let status =
        Command::new(cargo).args(["build", "--quiet", "--release", "--package=vireo-cli"]).current_dir(&root).status();
    let status = status.map_err(|error| format!("cargo build: {error}"))?;
    if !status.success() {
        return Err(format!("cargo build: {status}"));
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join(format!("vireo{}", env::consts::EXE_SUFFIX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        assert_eq!(Counter::Perf.count("123456,,instructions:u,9,100.00,,\n"), Some(123_456));
        assert_eq!(Counter::Perf.count("<not supported>,,instructions:u,0,100.00,,\n"), None);
        assert_eq!(
            Counter::Valgrind.count("==1== Events    : Ir\n==1== Collected : 1488583\n==1== \n"),
            Some(1_488_583)
        );
    }

    #[test]
    fn kinds_have_names_of_their_own_and_grow() {
        assert!(KINDS.len() >= 25);
        for kind in KINDS {
            assert_eq!(KINDS.iter().filter(|other| other.name == kind.name).count(), 1, "{}", kind.name);
            let [small, large] = [kind.size, 2 * kind.size].map(|size| (kind.text)(size).len());
            assert!(large > small * 3 / 2, "{}: {small} and {large} bytes", kind.name);
        }
    }
}
