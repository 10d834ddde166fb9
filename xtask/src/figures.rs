//! `cargo xtask figures`: quotes the figures of `benches/figures.json` in the section of README.md that says how fast
//! Vireo is.
//!
//! The section is `benches/how_fast.md`, whose placeholders name figures: `{faster NAME}` is how many times as fast
//! Vireo is, `{ratio NAME}` the time of Vireo as a multiple of that of the other, `{percent NAME}` a share, and
//! `{measured}` when and where the quoted figures were measured. A test of this crate holds the section to it, so that
//! no figure is quoted that was not measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Deserialize;

use crate::chore::{Failure, workspace};

const README: &str = "README.md";
const TEMPLATE: &str = "benches/how_fast.md";
const KEPT: &str = "benches/figures.json";

/// The heading after the section.
const NEXT: &str = "\n## Where to read on\n";

/// The figures that `benches/figures.py` keeps.
#[derive(Deserialize)]
struct Kept {
    /// The machine whose figures are quoted.
    quoted: String,
    /// Figures by name, for each machine.
    machines: BTreeMap<String, BTreeMap<String, Figure>>,
}

#[derive(Deserialize)]
struct Figure {
    ratio: f64,
    when: String,
    commit: String,
}

/// Writes the section.
pub fn figures() -> Result<(), Failure> {
    let (is, should) = (read(README)?, quoted()?);
    if is == should {
        println!("{README} quotes {KEPT} already");
        return Ok(());
    }
    fs::write(workspace().join(README), should).map_err(|error| Failure::Wrong(format!("{README}: {error}")))?;
    println!("wrote {README}");
    Ok(())
}

/// README.md with the section as it should be.
fn quoted() -> Result<String, Failure> {
    let kept: Kept = serde_json::from_str(&read(KEPT)?).map_err(|error| Failure::Wrong(format!("{KEPT}: {error}")))?;
    let template = read(TEMPLATE)?;
    let figures = kept.machines.get(&kept.quoted);
    let figures = figures.ok_or_else(|| Failure::Wrong(format!("{KEPT}: no figures of `{}`", kept.quoted)))?;
    let section =
        fill(&template, &kept.quoted, figures).map_err(|problem| Failure::Wrong(format!("{TEMPLATE}: {problem}")))?;
    let readme = read(README)?;
    let heading = template.lines().next().unwrap_or_default();
    let wrong = |what: &str| Failure::Wrong(format!("{README}: there is no line `{}`", what.trim()));
    let (before, rest) = readme.split_once(&format!("\n{heading}\n")).ok_or_else(|| wrong(heading))?;
    let (_, after) = rest.split_once(NEXT).ok_or_else(|| wrong(NEXT))?;
    Ok(format!("{before}\n{section}{NEXT}{after}"))
}

fn read(file: &str) -> Result<String, Failure> {
    fs::read_to_string(workspace().join(file)).map_err(|error| Failure::Wrong(format!("{file}: {error}")))
}

/// Replaces what stands in braces.
fn fill(template: &str, machine: &str, figures: &BTreeMap<String, Figure>) -> Result<String, String> {
    let mut used = Vec::new();
    let mut parts = vec![String::new()];
    let mut rest = template;
    while let Some((text, after)) = rest.split_once('{') {
        let (placeholder, after) = after.split_once('}').ok_or("a `{` without a `}`")?;
        parts.last_mut().expect("there is a first part").push_str(text);
        rest = after;
        if placeholder == "measured" {
            parts.push(String::new());
            continue;
        }
        let (form, name) = placeholder.split_once(' ').ok_or_else(|| format!("`{{{placeholder}}}` names no figure"))?;
        let figure = figures.get(name).ok_or_else(|| format!("{KEPT} has no figure `{name}`"))?;
        used.push(figure);
        let shown = match form {
            "faster" => times(1.0 / figure.ratio),
            "ratio" => format!("{:.2}", figure.ratio),
            "percent" if figure.ratio == 0.0 => "none".to_string(),
            // One of two hundred is not none.
            "percent" if figure.ratio < 0.01 => format!("{:.1} %", 100.0 * figure.ratio),
            "percent" => format!("{:.0} %", 100.0 * figure.ratio),
            _ => return Err(format!("`{{{placeholder}}}`: expected `faster`, `ratio` or `percent`")),
        };
        parts.last_mut().expect("there is a first part").push_str(&shown);
    }
    parts.last_mut().expect("there is a first part").push_str(rest);
    Ok(parts.join(&measured(machine, &used)))
}

/// Two digits, as far as they are known: `1.03x`, `2.4x`, `54x`.
fn times(ratio: f64) -> String {
    match ratio {
        _ if ratio >= 9.95 => format!("{ratio:.0}x"),
        _ if ratio >= 1.195 => format!("{ratio:.1}x"),
        _ => format!("{ratio:.2}x"),
    }
}

/// When and where the figures were measured.
fn measured(machine: &str, figures: &[&Figure]) -> String {
    let each = |part: fn(&Figure) -> &str| figures.iter().copied().map(part).collect::<BTreeSet<&str>>();
    let days: Vec<&str> = each(|figure| &figure.when).into_iter().collect();
    let days = match days.as_slice() {
        [] => return "nothing is quoted".to_string(),
        [day] => format!("on {day}"),
        [first, .., last] => format!("from {first} to {last}"),
    };
    let commits = each(|figure| &figure.commit);
    let noun = if commits.len() == 1 { "commit" } else { "commits" };
    let commits = commits.into_iter().collect::<Vec<_>>().join("; ");
    format!("these figures were measured {days} at {noun} {commits} ({machine})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ratio: f64) -> Figure {
        Figure { ratio, when: "2026-11-23".into(), commit: "abc".into() }
    }

    #[test]
    fn the_readme_quotes_what_was_measured() {
        let should = quoted().unwrap_or_else(|_| panic!("{TEMPLATE} cannot be filled"));
        assert!(read(README).is_ok_and(|is| is == should), "{README} is not what `cargo xtask figures` writes");
    }

    #[test]
    fn placeholders_are_figures() {
        let figures = BTreeMap::from([
            ("a.b".to_string(), figure(0.0185)),
            ("c, d".to_string(), figure(0.9712)),
            ("e".to_string(), figure(0.005)),
            ("f".to_string(), figure(0.0)),
        ]);
        let filled = fill(
            "{faster a.b} {faster c, d} {ratio c, d} {percent a.b} {percent e} {percent f}: {measured}.",
            "a server",
            &figures,
        );
        let expected =
            "54x 1.03x 0.97 2 % 0.5 % none: these figures were measured on 2026-11-23 at commit abc (a server)."
                .to_string();
        assert_eq!(filled, Ok(expected));
        for (template, problem) in [
            ("{faster x}", "no figure `x`"),
            ("{faster a.b", "without"),
            ("{slower a.b}", "expected"),
            ("{a.b}", "names no figure"),
        ] {
            let error = fill(template, "a server", &figures).expect_err(template);
            assert!(error.contains(problem), "{error}");
        }
    }
}
