//! `cargo xtask circles`: finds modules of a crate that use each other in a circle, of which there may only be fewer
//! from change to change.
//!
//! A module that is in no circle can be read, tested and moved with what is below it alone. Crates cannot form circles,
//! and the layers of a crate are compared with `ARCHITECTURE.md` by a test of the runtime; inside a layer only this
//! command looks. `xtask/circles.txt` has how many modules of each crate are in circles, and `source` says which uses
//! count.

mod graph;
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use self::graph::circles;
use self::source::Crate;
use crate::chore::{Failure, workspace};

/// The counts that are left, a number and a crate in each line.
const LEFT: &str = "xtask/circles.txt";

/// Prints the circles of all crates, fails if more modules of a crate are in circles than are left, and writes lower
/// counts.
pub fn circles_of_crates() -> Result<(), Failure> {
    let found = found().map_err(Failure::Wrong)?;
    for (name, circles) in &found {
        for circle in circles {
            println!("{name}: {} modules use each other:", circle.len());
            circle.iter().for_each(|module| println!("  {module}"));
        }
    }
    let more = excess(&found, &left().map_err(Failure::Wrong)?);
    if !more.is_empty() {
        return Err(Failure::Wrong(more));
    }
    let counts: String =
        found.iter().filter(|(_, circles)| !circles.is_empty()).map(|(name, circles)| line(name, circles)).collect();
    print!("{counts}");
    fs::write(workspace().join(LEFT), counts).map_err(|error| Failure::Wrong(format!("{LEFT}: {error}")))
}

fn line(name: &str, circles: &[Vec<String>]) -> String {
    format!("{} modules of {name} are in circles\n", count(circles))
}

fn count(circles: &[Vec<String>]) -> usize {
    circles.iter().map(Vec::len).sum()
}

/// The circles of each crate, by its folder: each module with those of its circle that it uses.
fn found() -> Result<BTreeMap<String, Vec<Vec<String>>>, String> {
    let mut found = BTreeMap::new();
    for root in roots() {
        let name = root.parent().unwrap_or(&root).strip_prefix(workspace()).unwrap_or(&root).display().to_string();
        let of_crate = Crate::read(&root)?;
        let uses = of_crate.uses();
        let named = circles(&uses).into_iter().map(|circle| {
            let of_circle = |module: &usize| {
                let names = uses[*module].iter().filter(|used| circle.contains(used)).map(|used| of_crate.name(*used));
                format!("{} uses {}", of_crate.name(*module), names.collect::<Vec<_>>().join(" "))
            };
            circle.iter().map(of_circle).collect()
        });
        found.insert(name, named.collect());
    }
    Ok(found)
}

/// The `src` folders of the libraries, the command and the commands for developers.
fn roots() -> Vec<PathBuf> {
    let folders = |below: &Path| {
        let entries = fs::read_dir(below).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.path().join("src")).collect::<Vec<_>>()
    };
    let mut roots = ["runtime", "runtime/gpu", "runtime/gpu/amd"].map(|name| folders(&workspace().join(name))).concat();
    roots.extend(
        ["runtime", "codegen", "macros", "macros/bind", "cli", "xtask"].map(|name| workspace().join(name).join("src")),
    );
    roots.retain(|root| root.join("lib.rs").exists() || root.join("main.rs").exists());
    roots.sort();
    roots
}

/// The counts that are left, by crate.
fn left() -> Result<BTreeMap<String, usize>, String> {
    let text = fs::read_to_string(workspace().join(LEFT)).map_err(|error| format!("{LEFT}: {error}"))?;
    let counts = text.lines().map(|line| {
        let (number, rest) = line.split_once(" modules of ").ok_or_else(|| format!("{LEFT}: `{line}`"))?;
        let name = rest.strip_suffix(" are in circles").ok_or_else(|| format!("{LEFT}: `{line}`"))?;
        Ok((name.to_string(), number.parse().map_err(|error| format!("{LEFT}: `{line}`: {error}"))?))
    });
    counts.collect()
}

/// The crates of which more modules are in circles than are left; empty if there are none.
fn excess(found: &BTreeMap<String, Vec<Vec<String>>>, left: &BTreeMap<String, usize>) -> String {
    let mut text = String::new();
    for (name, circles) in found {
        let most = left.get(name).copied().unwrap_or(0);
        if count(circles) > most {
            circles.iter().flatten().for_each(|module| text += &format!("{name}: {module}\n"));
            let number = count(circles);
            text += &format!(
                "{number} modules of {name} use each other in circles, where {most} are left: let one of them not know the other\n"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_modules_use_each_other_than_are_left() {
        let more = excess(&found().unwrap(), &left().unwrap());
        assert!(more.is_empty(), "{more}");
    }

    #[test]
    fn a_crate_with_more_modules_in_circles_is_named() {
        let circle = vec![vec!["a".to_string(), "b".to_string()]];
        let found = BTreeMap::from([("runtime/x".to_string(), circle)]);
        let of = |most: usize| excess(&found, &BTreeMap::from([("runtime/x".to_string(), most)]));
        assert!(of(2).is_empty() && of(3).is_empty());
        assert!(of(1).ends_with(
            "2 modules of runtime/x use each other in circles, where 1 are left: let one of them not know the other\n"
        ));
    }
}
