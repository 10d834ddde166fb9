//! Common parts of the integration tests: running the built command, and where the fixtures are.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The outcome of the command.
pub struct Outcome {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The built command, to be started. `VIREO_RUNNER` has the words before its name that run it, an emulator where it is
/// for another machine.
pub fn command() -> Command {
    let program = env!("CARGO_BIN_EXE_vireo");
    let words = std::env::var("VIREO_RUNNER").unwrap_or_default();
    let mut words = words.split_whitespace();
    let Some(runner) = words.next() else { return Command::new(program) };
    let mut command = Command::new(runner);
    command.args(words).arg(program);
    command
}

/// Runs `vireo` with `arguments` in `folder`.
pub fn vireo<S: AsRef<std::ffi::OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Outcome {
    let output = command().args(arguments).current_dir(folder).env_remove("CLICOLOR_FORCE").output();
    let Output { status, stdout, stderr } = output.unwrap_or_else(|error| panic!("cannot run vireo: {error}"));
    let text = |bytes| String::from_utf8(bytes).unwrap_or_else(|error| panic!("output is not UTF-8: {error}"));
    Outcome { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}

/// A folder of the repository, relative to this package.
pub fn folder(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// The file of a model of `fixtures/models`, of those whose kernels are for the machine that the tests run on.
pub fn model(name: &str) -> String {
    if cfg!(target_arch = "aarch64") { format!("aarch64_{name}.vmfb") } else { format!("{name}.vmfb") }
}

/// The library of an example, which cargo builds next to the tests because this package depends on it.
pub fn example_library(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("the path of the tests");
    let file = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let found = tests.ancestors().skip(1).take(2).map(|folder| folder.join(&file)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("there is no {file} next to {}", tests.display()))
}
