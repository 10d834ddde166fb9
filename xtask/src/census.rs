//! `cargo xtask census FOLDER`: which ops follow each other in the loops of the modules of a folder. The rows of
//! `spec/isa/vm/sequences.yaml` are chosen from it.
//!
//! `vireo dump` prints the code, so this crate need not be built again when a spec changes. An op counts eight times as
//! much for each loop around it, which stands for how often it runs, and all ops of a module add up to one, so that a
//! large module says no more than a small one.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chore::{Failure, target};

/// An op counts so many times as much for each loop around it.
const FACTOR: f64 = 8.0;
/// Loops deeper than this count as much.
const DEEPEST: i32 = 5;
/// The longest sequence.
const LONGEST: usize = 3;
/// Of each length so many rows are printed.
const ROWS: usize = 40;

/// The share of a sequence in all modules, and in how many of them it is.
#[derive(Default)]
struct Row {
    share: f64,
    modules: usize,
}

/// Prints the census of folders, which are read with those inside. `command` is the `vireo` to run, if not that of
/// `cargo build --release`.
pub fn census(command: Option<&Path>, folders: &[&str]) -> Result<(), Failure> {
    let command = command.map_or_else(|| target().join("release/vireo"), Path::to_path_buf);
    if !command.exists() {
        let message = format!("there is no {}: cargo build --release -p vireo-cli", command.display());
        return Err(Failure::Wrong(message));
    }
    let mut files = Vec::new();
    for folder in folders {
        collect(Path::new(folder), &mut files).map_err(|error| Failure::Wrong(format!("{folder}: {error}")))?;
    }
    files.sort();
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let (mut counted, mut failed) = (0_usize, 0_usize);
    for file in &files {
        let output = Command::new(&command).args(["dump", "--output=disassembly"]).arg(file).output();
        let output = output.map_err(|error| Failure::Wrong(format!("{}: {error}", command.display())))?;
        if !output.status.success() {
            failed += 1;
            continue;
        }
        let module = count(&String::from_utf8_lossy(&output.stdout));
        let all: f64 = module.iter().filter(|(name, _)| !name.contains(", ")).map(|(_, weight)| weight).sum();
        if all == 0.0 {
            continue;
        }
        counted += 1;
        for (name, weight) in module {
            let row = rows.entry(name).or_default();
            row.share += weight / all;
            row.modules += 1;
        }
    }
    println!("{counted} modules with loops; {failed} of {} files cannot be shown", files.len());
    for length in 1..=LONGEST {
        println!("\nshare of ops that begin one, modules, sequences of {length}");
        let mut listed: Vec<_> = rows.iter().filter(|(name, _)| name.matches(", ").count() + 1 == length).collect();
        listed.sort_by(|(_, left), (_, right)| right.share.total_cmp(&left.share));
        for (name, row) in listed.into_iter().take(ROWS) {
            println!("{:>7.2} % {:>5}  {name}", row.share / counted.max(1) as f64 * 100.0, row.modules);
        }
    }
    Ok(())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "vmfb") {
            files.push(path);
        }
    }
    Ok(())
}

/// An op of a listing.
struct Listed<'a> {
    name: &'a str,
    result: &'a str,
    operands: Vec<&'a str>,
}

/// The weight of each sequence in the loops of a listing.
fn count(listing: &str) -> HashMap<String, f64> {
    let mut weights = HashMap::new();
    let mut blocks: Vec<Vec<Listed<'_>>> = Vec::new();
    for line in listing.lines().map(|line| line.split("//").next().unwrap_or_default().trim()) {
        if line.starts_with("vm.func") || line == "}" {
            weigh(&std::mem::take(&mut blocks), &mut weights);
        } else if line.starts_with('^') {
            blocks.push(Vec::new());
        } else if let (Some(op), Some(block)) = (parse(line), blocks.last_mut()) {
            block.push(op);
        }
    }
    weights
}

/// `%i2 = vm.add.i32 %i0, %i1`.
fn parse(line: &str) -> Option<Listed<'_>> {
    let (result, rest) = match line.split_once(" = ") {
        Some((result, rest)) => (result, rest),
        None => ("", line),
    };
    let rest = rest.strip_prefix("vm.")?;
    let (name, operands) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(Listed { name, result, operands: operands.split(", ").map(str::trim).collect() })
}

/// Adds the sequences of the blocks of a function.
fn weigh(blocks: &[Vec<Listed<'_>>], weights: &mut HashMap<String, f64>) {
    let targets = |block: &[Listed<'_>]| -> Vec<usize> {
        let last = block.last().map(|op| op.operands.join(", ")).unwrap_or_default();
        let labels = last.split("^bb").skip(1);
        labels.filter_map(|label| label.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()).collect()
    };
    let mut latches: HashMap<usize, usize> = HashMap::new();
    for (index, block) in blocks.iter().enumerate() {
        for target in targets(block).into_iter().filter(|target| *target <= index) {
            let latch = latches.entry(target).or_default();
            *latch = (*latch).max(index);
        }
    }
    for (index, block) in blocks.iter().enumerate() {
        let depth = latches.iter().filter(|(header, latch)| (**header..=**latch).contains(&index)).count();
        if depth == 0 {
            continue;
        }
        let weight = FACTOR.powi((depth as i32).min(DEEPEST));
        for start in 0..block.len() {
            let mut name = String::new();
            for (position, op) in block[start..].iter().take(LONGEST).enumerate() {
                let before = position.checked_sub(1).map(|before| block[start + before].result);
                name += if position == 0 { "" } else { ", " };
                name += op.name;
                // The operand that the op before has written, and so is carried.
                let carried = before.filter(|result| !result.is_empty());
                let carried = carried.and_then(|result| op.operands.iter().position(|operand| *operand == result));
                if let Some(operand) = carried {
                    name += &format!("(#{})", operand + 1);
                }
                *weights.entry(name.clone()).or_default() += weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    const LISTING: &str = "
vm.func @f(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1  // 0x00000001
  vm.br ^bb1()
^bb1:
  %i2 = vm.add.i32 %i1, %i0
  %i1 = vm.sub.i32 %i0, %i2
  %i3 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i3, ^bb1(%i2->%i1), ^bb2()
^bb2:
  vm.return %i1
}
";

    #[test]
    fn ops_of_loops_are_counted_with_the_operand_that_is_carried() {
        let weights = count(LISTING);
        assert_eq!(weights.get("add.i32, sub.i32(#2)"), Some(&8.0));
        assert_eq!(weights.get("sub.i32, cmp.lt.i32.s(#1), cond_br(#1)"), Some(&8.0));
        assert_eq!(weights.get("const.i32"), None);
        assert_eq!(weights.get("return"), None);
    }
}
