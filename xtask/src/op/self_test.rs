//! `cargo xtask op --self-test`: shows that an op is one entry. Made-up ops are added to a copy of the workspace,
//! `cargo xtask op` does the rest there, and the tests that know of ops must then pass with nothing changed but `spec/`
//! and what is recorded of it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::{read_spec, vm};
use crate::chore::{Failure, target, workspace};

/// Ops that no document mentions: integers and floats, of encodings and primitives that there are. `OPCODE` is a free
/// one.
const MADE_UP: [(&str, &str, &str); 3] = [
    (
        "core",
        "spec/isa/vm/ops/integer.yaml",
        "
- op: majority.i32
  opcode: OPCODE
  encoding: ternary(i32)
  doc: Each bit is that of most operands.
  semantics: a.and(b).or(a.or(b).and(c))
  examples:
    - {a: 0x0f, b: 0x33, c: 0x55, result: 0x17}
    - {a: -1, b: 0, c: -2147483648, result: -2147483648}
",
    ),
    (
        "core",
        "spec/isa/vm/ops/integer64.yaml",
        "
- op: mean.i64.u
  opcode: OPCODE
  encoding: binary(i64)
  doc: The mean of two unsigned integers, rounded down.
  semantics: lhs.and(rhs).wrapping_add(lhs.xor(rhs).shr_u(1))
  examples:
    - {lhs: 3, rhs: 6, result: 4}
    - {lhs: -1, rhs: -3, result: -2}
",
    ),
    (
        "ext_f32",
        "spec/isa/vm/ops/float32.yaml",
        "
- op: clamp.f32
  set: ext_f32
  opcode: OPCODE
  encoding: ternary(f32)
  doc: Limits the first operand to the range from the second to the third.
  semantics: a.fmax_lhs(b).fmin_lhs(c)
  examples:
    - {a: 2.5, b: 0, c: 1, result: 1}
    - {a: -2.5, b: 0, c: 1, result: 0}
    - {a: 0.25, b: 0, c: 1, result: 0.25}
",
    ),
];

/// The packages that decode, verify, run, compile or generate ops, or run programs of them. Other tests are the same in
/// the workspace.
const KNOW_OPS: [&str; 8] = [
    "vireo-codegen",
    "vireo-jit",
    "vireo-module",
    "vireo-runtime",
    "vireo-context",
    "vireo-snapshots",
    "vireo-vm",
    "vireo-vmvx",
];

/// The flags of Cargo that ask for the features which the tests give to what `soft` builds.
const SAME_FEATURES: [&str; 6] =
    ["--package", "vireo-core", "--features", "vireo-core/jit", "--package", "workspace-hack"];

/// Adds the ops to a copy, and runs the tests of all that knows of ops there. They are optimised, so this is also how
/// the threaded dispatcher, which only such builds choose, is tested. With `soft`, what else has to be looked at in an
/// optimised build is looked at there, so that there is one: the handlers, and the software libraries, which are put
/// into that folder.
pub fn self_test(soft: Option<&Path>) -> Result<(), Failure> {
    let wrong = |error: io::Error| Failure::Wrong(error.to_string());
    let copy = target().join("op-self-test");
    Tree::read(workspace()).and_then(|original| original.copy(workspace(), &copy)).map_err(wrong)?;
    rename_versions(&copy).map_err(wrong)?;
    run(&copy, &["update", "--workspace", "--offline", "--quiet"])?;
    let original = Tree::read(&copy).map_err(wrong)?;
    let spec = read_spec()?;
    let isa = vm(&spec)?;
    let mut mnemonics = Vec::new();
    let mut given: Vec<(&str, u8)> = Vec::new();
    for (set, file, entry) in MADE_UP {
        let opcode = isa.free_opcodes(set).into_iter().find(|opcode| !given.contains(&(set, *opcode)));
        let opcode = opcode.ok_or_else(|| Failure::Wrong(format!("the set `{set}` has no free opcode")))?;
        given.push((set, opcode));
        let path = copy.join(file);
        let text = fs::read_to_string(&path).map_err(wrong)?;
        fs::write(&path, text + &entry.replace("OPCODE", &format!("{opcode:#04x}"))).map_err(wrong)?;
        mnemonics.push(entry.trim_start().lines().next().unwrap_or_default().trim_start_matches("- op: "));
    }
    for mnemonic in &mnemonics {
        run(&copy, &["run", "--quiet", "--package", "xtask", "--", "op", "--release", mnemonic])?;
    }
    let mut test = vec!["test", "--release"];
    KNOW_OPS.iter().for_each(|package| test.extend(["--package", package]));
    run(&copy, &test)?;
    // Nothing was edited but the specs, and nothing was written but snapshots.
    let after = Tree::read(&copy).map_err(wrong)?;
    let changed = original.changed(&after);
    let elsewhere: Vec<&str> = changed
        .iter()
        .filter(|path| {
            !["spec/isa/vm/ops/", "snapshots/", "docs/support.md"].iter().any(|there| path.starts_with(there))
        })
        .map(String::as_str)
        .collect();
    if !elsewhere.is_empty() {
        return Err(Failure::Wrong(format!(
            "new ops changed more than specs and what is recorded: {}",
            elsewhere.join(" ")
        )));
    }
    if let Some(folder) = soft {
        run(&copy, &["run", "--quiet", "--package", "xtask", "--", "handlers"])?;
        let folder = workspace().join(folder);
        let mut soft = vec!["run", "--quiet", "--package", "xtask", "--", "soft"];
        let folder = folder.to_string_lossy();
        soft.push(&folder);
        // With these the crates have the features that they have in the tests, so that they are not compiled once more.
        soft.extend(SAME_FEATURES);
        run(&copy, &soft)?;
    }
    println!("added {} with {} changed files, all of them in spec/ or recorded", mnemonics.join(", "), changed.len());
    Ok(())
}

/// Gives the packages of the copy a version of their own. Cargo keeps what it builds by package, version and place in
/// the workspace, so it would take what it has built of the copy for the workspace's, and the other way round.
fn rename_versions(copy: &Path) -> io::Result<()> {
    let path = copy.join("Cargo.toml");
    let manifest = fs::read_to_string(&path)?;
    let version = manifest.lines().find(|line| line.starts_with("version = \"")).unwrap_or_default();
    let renamed = format!("{}+op-self-test\"", version.trim_end_matches('"'));
    fs::write(path, manifest.replacen(version, &renamed, 1))
}

/// Runs cargo in the copy; what it builds of other packages is shared with the workspace.
fn run(copy: &Path, arguments: &[&str]) -> Result<(), Failure> {
    println!("\n-- cargo {}", arguments.join(" "));
    let _ = io::stdout().flush();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments).current_dir(copy).env("CARGO_TARGET_DIR", target());
    // Those of this program are about the workspace that it was built in.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH"] {
        cargo.env_remove(name);
    }
    let status = cargo.status().map_err(|error| Failure::Wrong(format!("cargo: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::Wrong(format!("cargo {} failed", arguments.join(" ")))) }
}

/// The files of a workspace, without what is built and what git keeps.
struct Tree(BTreeMap<String, Vec<u8>>);

impl Tree {
    fn read(root: &Path) -> io::Result<Tree> {
        let mut files = BTreeMap::new();
        let mut folders: Vec<PathBuf> = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let (path, kind) = (entry.path(), entry.file_type()?);
                if kind.is_dir() {
                    if !["target", ".git"].iter().any(|name| entry.file_name() == *name) {
                        folders.push(path);
                    }
                } else if kind.is_file() {
                    let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                    // In a worktree of git it is a file.
                    if name != ".git" {
                        files.insert(name, fs::read(&path)?);
                    }
                }
            }
        }
        Ok(Tree(files))
    }

    /// Makes `to` the tree that `from` is. Files that are the same already keep their times, so that little is built
    /// again.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        let there = Tree::read(to)?;
        for path in there.0.keys().filter(|path| !self.0.contains_key(*path)) {
            fs::remove_file(to.join(path))?;
        }
        for (path, _) in self.0.iter().filter(|(path, bytes)| there.0.get(*path) != Some(bytes)) {
            let target = to.join(path);
            fs::create_dir_all(target.parent().unwrap_or(to))?;
            fs::copy(from.join(path), target)?;
        }
        Ok(())
    }

    /// The paths of files that are in one tree alone or differ.
    fn changed(&self, other: &Tree) -> Vec<String> {
        let mut paths: Vec<String> = self.0.keys().chain(other.0.keys()).cloned().collect();
        paths.sort();
        paths.dedup();
        paths.retain(|path| self.0.get(path) != other.0.get(path));
        paths
    }
}
