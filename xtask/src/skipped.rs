//! `cargo xtask skipped FILE`: lists the tests that were skipped, and fails if this machine has what they needed.
//!
//! `FILE` has a line for each skip, written by `runtime/tests/support/skip.rs`: what is needed, the test, and why.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs, io};

/// Prints what was skipped, and fails if something could have run here. A file that does not exist says that nothing
/// was skipped.
pub fn skipped(file: &Path) -> Result<(), String> {
    let text = read(file)?;
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let machine = Machine::new(&cpuinfo, env::var_os("PATH").as_deref().map(env::split_paths).into_iter().flatten());
    let problems = judge(&text, &machine)?;
    print!("{}", report(&text)?);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// The lines of a file of skips, which does not exist if there were none.
pub fn read(file: &Path) -> Result<String, String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(|error| format!("{}: {error}", file.display())),
    }
}

/// How many skips the text has, and which tests had them for what.
pub fn report(text: &str) -> Result<String, String> {
    let needs = skips(text)?;
    let count: usize = needs.values().map(Vec::len).sum();
    let mut report = format!("{count} skipped\n");
    for (need, tests) in needs {
        report.push_str(&format!("{:>5} for {need}\n", tests.len()));
        for (test, why) in tests {
            report.push_str(&format!("{:6}{test}: {why}\n", ""));
        }
    }
    Ok(report)
}

/// The abilities of a machine, as far as tests ask for them.
struct Machine {
    /// Features of the processor, if the system names them.
    features: Vec<String>,
    /// Programs that can be run.
    tools: Vec<String>,
}

impl Machine {
    fn new(cpuinfo: &str, folders: impl Iterator<Item = std::path::PathBuf>) -> Machine {
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).and_then(|line| line.split_once(':'));
        let features = flags.map_or_else(Vec::new, |(_, flags)| flags.split_whitespace().map(String::from).collect());
        let entries = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let tools = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        Machine { features, tools }
    }

    fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|known| known == feature)
    }

    /// Whether the need is met here; an error for an unknown need.
    fn can(&self, need: &str) -> Result<bool, String> {
        let (kind, name) = need.split_once(' ').unwrap_or((need, ""));
        Ok(match kind {
            "platform" => [env::consts::ARCH, env::consts::OS, env::consts::FAMILY].contains(&name),
            "processor" => self.has(name),
            "no-processor" => !self.has(name),
            "tool" => self.tools.iter().any(|tool| tool == name),
            // `.ci/run` installs packages first, or sets the variable if it cannot.
            "package" => env::var_os("VIREO_NO_PACKAGES").is_none(),
            "variable" => env::var_os(name).is_some(),
            // Those that skipped have tried: nothing else says whether an index of Python's packages is there, and what
            // a system allows.
            "python" | "permission" => false,
            _ => return Err(format!("no test needs `{need}`: is the file one of skipped tests?")),
        })
    }
}

/// The tests in `text` that should have run on the machine.
fn judge(text: &str, machine: &Machine) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for (need, tests) in skips(text)? {
        if machine.can(need)? {
            for (test, why) in tests {
                problems.push(format!("`{test}` was skipped for {need}, which this machine has: {why}"));
            }
        }
    }
    Ok(problems)
}

/// The tests that were skipped for each need, and why.
type Skips<'a> = BTreeMap<&'a str, Vec<(&'a str, &'a str)>>;

/// The skips that the lines of a text are of.
fn skips(text: &str) -> Result<Skips<'_>, String> {
    let mut needs = Skips::new();
    for (index, line) in text.lines().enumerate() {
        let mut parts = line.split('\t');
        let (Some(need), Some(test), Some(why), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err(format!("line {}: expected a need, a test and a reason, got `{line}`", index + 1));
        };
        needs.entry(need).or_default().push((test, why));
    }
    Ok(needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine { features: vec!["avx2".into()], tools: vec!["cc".into()] }
    }

    #[test]
    fn what_is_not_here_may_be_skipped() {
        let text =
            "processor avx512f\tlanes\tno lanes\nprocessor avx512f\tothers\tno lanes\ntool c++\theader\tno compiler\n";
        let problems = judge(text, &machine()).unwrap();
        assert!(judge("python packages\tpython/check\tno index\n", &machine()).unwrap().is_empty());
        assert!(judge("permission perf_event\tcounters\trefused\n", &machine()).unwrap().is_empty());
        assert_eq!(
            report(text).unwrap(),
            "3 skipped\n    2 for processor avx512f\n      lanes: no lanes\n      others: no lanes\n    1 for tool c++\n      \
             header: no compiler\n"
        );
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(report("").unwrap(), "0 skipped\n");
    }

    #[test]
    fn what_is_here_may_not_be_skipped() {
        let arch = format!("platform {}\tcode\tno code", env::consts::ARCH);
        for line in ["processor avx2\tlanes\tno lanes", "no-processor fma4\told\tnew", "tool cc\theader\tnone", &arch] {
            let problems = judge(line, &machine()).unwrap();
            assert_eq!(problems.len(), 1, "{line}");
        }
    }

    #[test]
    fn what_nobody_needs_is_no_file_of_skips() {
        assert!(judge("luck\ta\tb", &machine()).unwrap_err().contains("no test needs `luck`"));
        assert!(judge("a line", &machine()).unwrap_err().starts_with("line 1: expected"));
    }
}
