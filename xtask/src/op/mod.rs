//! `cargo xtask op NAME`: everything that a new or changed op needs besides its entry.
//!
//! The specs are read from `spec/` as they are now, so this program is not built again for each edit, and errors of
//! specs come at once. Two test programs are built: that of `vireo-context` runs the op's examples on every tier,
//! through the assembler and the disassembler, and that of `vireo-jit` records machine code. The snapshots of generated
//! code are written from here.

mod self_test;
mod snapshots;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use vireo_codegen::Spec;
use vireo_codegen::diag::did_you_mean;
use vireo_codegen::emit::support;
use vireo_codegen::model::vm::{Body, Isa, Op};

use crate::chore::{Failure, workspace};
use snapshots::{Change, Snapshots};

pub use self_test::self_test;

pub const HELP: &str = "usage: cargo xtask op [--check] [--release] NAME
       cargo xtask op --self-test [FOLDER]

Does what a new or changed op needs besides its entry in spec/isa/vm/ops/:
  1. reads the specs, and says what is wrong with them
  2. generates the code and builds it
  3. runs the examples of the op on every tier (interpreter loop, threaded, compiled), and through the assembler and disassembler;
     then those of all other ops, since what is recorded is of all of them
  4. records the generated code and the machine code in snapshots/ and the number of ops in docs/support.md, and prints what changed

NAME is the mnemonic of an op: clamp.i32 (vm.clamp.i32 and clamp_i32 are the same).

  --check       changes no file; fails if a snapshot is not what it should be
  --release     optimised builds, in which programs use the threaded dispatcher and the examples run on handlers that jump
  --self-test   adds made-up ops to a copy of the workspace with this command alone, and runs the tests of the runtime there, optimised,
                and with FOLDER `handlers` and `soft FOLDER`, too

Exit codes: 0 done; 1 a spec, an example, a build or, with --check, a snapshot is wrong; 2 the arguments are";

/// The text of `--help`: how to use the command, and the opcodes that a new op can have.
pub fn help() -> String {
    let Ok(spec) = read_spec() else { return HELP.to_string() };
    let Ok(isa) = vm(&spec) else { return HELP.to_string() };
    let mut text = format!("{HELP}\n\nFree opcodes, by the `set` of an op:");
    for set in &isa.sets {
        let free = ranges(&isa.free_opcodes(&set.name));
        let free = if free.is_empty() { "none".to_string() } else { free.join(" ") };
        text.push_str(&format!("\n  {:<13} {free}", set.name));
    }
    text
}

/// Ascending numbers as ranges: `0x10 0x12-0x15`.
fn ranges(numbers: &[u8]) -> Vec<String> {
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    runs.map(|run| match run {
        [one] => format!("{one:#04x}"),
        run => format!("{:#04x}-{:#04x}", run[0], run[run.len() - 1]),
    })
    .collect()
}

/// The folder of the specs as they are on disk, by the rule of `spec/embed.rs`: every `.yaml` file below it.
pub fn read_spec() -> Result<Spec, Failure> {
    let mut files = Vec::new();
    collect(&workspace().join("spec"), &mut files).map_err(|error| Failure::Wrong(format!("spec: {error}")))?;
    let texts: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    vireo_codegen::load(&texts).map_err(|diagnostics| {
        let count = diagnostics.len();
        let errors = if count == 1 { "one error".to_string() } else { format!("{count} errors") };
        Failure::Wrong(format!("{}{errors} in the specs", diagnostics.report()))
    })
}

/// The instruction set that ops are of.
pub fn vm(spec: &Spec) -> Result<&Isa, Failure> {
    spec.vm("vm").ok_or_else(|| Failure::Wrong("spec/isa/vm is not there".to_string()))
}

fn collect(folder: &Path, files: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.strip_prefix(workspace()).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.push((name, fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// The arguments of the command.
#[derive(Default)]
struct Options<'a> {
    name: Option<&'a str>,
    check: bool,
    release: bool,
}

impl<'a> Options<'a> {
    fn parse(arguments: &[&'a str]) -> Option<Options<'a>> {
        let mut options = Options::default();
        for argument in arguments {
            match *argument {
                "--check" => options.check = true,
                "--release" => options.release = true,
                name if !name.starts_with('-') && options.name.is_none() => options.name = Some(name),
                _ => return None,
            }
        }
        Some(options)
    }
}

/// Does what the arguments say: everything for an op, or only to look.
pub fn op(arguments: &[&str]) -> Result<(), Failure> {
    let Some(Options { name: Some(name), check, release }) = Options::parse(arguments) else {
        return Err(Failure::Usage(HELP.to_string()));
    };
    let spec = read_spec()?;
    let op = find(&spec, name)?;
    println!("{} ({}), examples: {}", op.mnemonic, op.origin, op.examples.len());
    let [examples, listing_of_code] = TestProgram::build(["vireo-context", "vireo-jit"], release)?;
    let test = format!("{EXAMPLES}::{}::{}", op.family, op.mnemonic.replace('.', "_"));
    examples.run(&test, "no", "the examples fail")?;
    println!("the examples hold on every tier, and in text");
    examples
        .run_all(EXAMPLES, "the examples of other ops fail, so nothing is recorded: what is recorded is of all ops")?;

    let root = workspace().join("snapshots");
    let mut snapshots = Snapshots::compare(&root, &spec).map_err(|error| Failure::Wrong(error.to_string()))?;
    let listings = root.join("machine_code");
    let before = snapshots::texts(&listings).map_err(|error| Failure::Wrong(error.to_string()))?;
    let listing = "x64::lower::tests::listing::every_op_with_its_machine_code";
    if listing_of_code.has(listing)? {
        if check {
            let outdated = "the machine code of ops is not what snapshots/machine_code records";
            listing_of_code.run(listing, "no", outdated)?;
        } else {
            listing_of_code.run(listing, "always", "the machine code of ops cannot be listed")?;
        }
    } else {
        println!("skipped: machine code, which is made for x86-64 only");
    }
    if !check {
        snapshots.write().map_err(|error| Failure::Wrong(error.to_string()))?;
        let after = snapshots::texts(&listings).map_err(|error| Failure::Wrong(error.to_string()))?;
        snapshots.changes.extend(Change::between(&before, &after));
    }
    snapshots.changes.extend(support(&spec, check)?);
    snapshots.print();
    match (snapshots.changes.len(), check) {
        (0, _) => println!("what is recorded is as it should be"),
        (count, true) => {
            return Err(Failure::Wrong(format!("recorded files that are outdated: {count}")));
        }
        (count, false) => println!("recorded files that changed: {count}"),
    }
    Ok(())
}

/// Writes the ops into `docs/support.md`, if they have changed.
fn support(spec: &Spec, check: bool) -> Result<Option<Change>, Failure> {
    const PAGE: &str = "docs/support.md";
    let path = workspace().join(PAGE);
    let wrong = |error: io::Error| Failure::Wrong(format!("{PAGE}: {error}"));
    let before = fs::read_to_string(&path).map_err(wrong)?;
    let part = before.find(support::HEADING).map(|start| {
        let rest = start + support::HEADING.len();
        start..before[rest..].find("\n## ").map_or(before.len(), |end| rest + end)
    });
    let part = part.ok_or_else(|| Failure::Wrong(format!("{PAGE} has no part about ops")))?;
    let mut after = before.clone();
    after.replace_range(part, &support::ops(vm(spec)?));
    if before == after {
        return Ok(None);
    }
    if !check {
        fs::write(&path, &after).map_err(wrong)?;
    }
    Ok(Some(Change { path: PAGE.to_string(), before, after }))
}

fn find<'s>(spec: &'s Spec, name: &str) -> Result<&'s Op, Failure> {
    let wanted = name.strip_prefix("vm.").unwrap_or(name);
    let isa = vm(spec)?;
    let ops = || isa.ops.iter().filter(|op| !matches!(op.body, Body::Structure(_)));
    ops()
        .find(|op| op.mnemonic == wanted)
        .or_else(|| ops().find(|op| op.mnemonic.replace('.', "_") == wanted))
        .ok_or_else(|| {
            let meant = did_you_mean(wanted, ops().map(|op| op.mnemonic.as_str()));
            Failure::Usage(format!("there is no op `{wanted}` in spec/isa/vm/ops{meant}"))
        })
}

/// The module of the tests that are the examples of ops.
const EXAMPLES: &str = "generated::op_tests";

/// The unit tests of a crate, as one program.
struct TestProgram(PathBuf);

impl TestProgram {
    /// Builds those of some packages.
    fn build<const N: usize>(packages: [&str; N], release: bool) -> Result<[TestProgram; N], Failure> {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--lib", "--no-run", "--message-format=json-render-diagnostics"]);
        cargo.args(release.then_some("--release"));
        packages.iter().for_each(|package| _ = cargo.args(["--package", package]));
        cargo.current_dir(workspace()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let output = cargo.output().map_err(|error| Failure::Wrong(format!("cargo: {error}")))?;
        if !output.status.success() {
            return Err(Failure::Wrong("the library does not build".to_string()));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let mut programs: Vec<(String, PathBuf)> = messages
            .filter_map(|message| {
                let name = message["target"]["name"].as_str()?.replace('_', "-");
                Some((name, PathBuf::from(message["executable"].as_str()?)))
            })
            .collect();
        let mut missing = None;
        let found = packages.map(|package| {
            let position = programs.iter().position(|(name, _)| name == package);
            let path = position.map(|position| programs.swap_remove(position).1);
            TestProgram(path.unwrap_or_else(|| {
                missing = Some(package);
                PathBuf::new()
            }))
        });
        match missing {
            Some(package) => Err(Failure::Wrong(format!("cargo names no test program of {package}"))),
            None => Ok(found),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.0);
        // As `cargo test` does.
        command.current_dir(workspace().join("runtime"));
        command
    }

    /// Whether there is a test of this name.
    fn has(&self, test: &str) -> Result<bool, Failure> {
        let output = self.command().args(["--list", "--exact", test]).output();
        let output = output.map_err(|error| Failure::Wrong(format!("{}: {error}", self.0.display())))?;
        Ok(String::from_utf8_lossy(&output.stdout).contains(&format!("{test}: test")))
    }

    /// Runs one test, which must be there, and tells what it says if it fails.
    fn run(&self, test: &str, update: &str, problem: &str) -> Result<(), Failure> {
        let text = self.tested(&["--exact", test], update, problem)?;
        if !text.contains(" 1 passed;") {
            return Err(Failure::Wrong(format!("there is no test `{test}`")));
        }
        Ok(())
    }

    /// Runs all tests of a module.
    fn run_all(&self, module: &str, problem: &str) -> Result<(), Failure> {
        self.tested(&[&format!("{module}::")], "no", problem).map(|_| ())
    }

    /// The output of tests that succeed.
    fn tested(&self, arguments: &[&str], update: &str, problem: &str) -> Result<String, Failure> {
        let mut command = self.command();
        command.args(arguments).env("INSTA_UPDATE", update).env("RUST_BACKTRACE", "0");
        let output = command.output().map_err(|error| Failure::Wrong(format!("{}: {error}", self.0.display())))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        Err(Failure::Wrong(format!("{}\n{problem}", messages(&text))))
    }
}

/// The messages of failed tests, without what the test harness and the panic handler say around them.
fn messages(text: &str) -> String {
    let start = text.find("---- ").unwrap_or(0);
    let end = text.rfind("\nfailures:\n").unwrap_or(text.len());
    let said = text.get(start..end).unwrap_or(text);
    let is_around = |line: &&str| {
        line.starts_with("---- ") && line.ends_with(" stdout ----")
            || line.starts_with("thread '") && line.contains("' ") && line.contains("panicked at ")
            || line.starts_with("note: run with `RUST_BACKTRACE")
            || line.is_empty()
    };
    let lines: Vec<&str> = said.lines().filter(|line| !is_around(line)).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_opcodes_are_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 7, 0xfe, 0xff]), ["0x00-0x02", "0x07", "0xfe-0xff"]);
        assert!(ranges(&[]).is_empty());
        let help = help();
        assert!(help.contains("\n  core ") && help.contains("\n  ext_f32 "), "{help}");
    }

    #[test]
    fn a_failed_example_is_told_without_the_panic_around_it() {
        let output = "\nrunning 1 test\ntest generated::op_tests::integer::a ... FAILED\n\nfailures:\n\n\
                      ---- generated::op_tests::integer::a stdout ----\n\n\
                      thread 'generated::op_tests::integer::a' (7) panicked at runtime/context/src/op_tests.rs:149:5:\n\
                      1 of 2 examples fail:\nspec/isa/vm/ops/integer.yaml:7 (all tiers): returns i32(2), expected i32(3)\n\
                      note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n\n\n\
                      failures:\n    generated::op_tests::integer::a\n\ntest result: FAILED. 0 passed; 1 failed\n";
        assert_eq!(
            messages(output),
            "1 of 2 examples fail:\nspec/isa/vm/ops/integer.yaml:7 (all tiers): returns i32(2), expected i32(3)"
        );
    }
}
