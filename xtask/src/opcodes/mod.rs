//! `cargo xtask opcodes`: writes the table of the instruction decoder in `runtime/local`, from what iced says about
//! every encoding.
//!
//! `probe` asks iced for the `cell` of every encoding, `tree` shares equal ones, and `emit` prints the table. The
//! decoder has a table of its own because iced builds its tables on the heap when a process first decodes, which took a
//! quarter of the time to run a small model.

mod cell;
mod emit;
mod probe;
mod table;
mod tree;

use std::fs;
use std::path::PathBuf;

use iced_x86::CpuidFeature;

use crate::chore::{Failure, workspace};
use crate::op;
use probe::{Probe, Space};
use table::{MAPS, Table};
use tree::Forest;

/// Writes the table.
pub fn opcodes() -> Result<(), Failure> {
    let text = generate()?;
    let path = path();
    fs::write(&path, text).map_err(|error| Failure::Wrong(format!("{}: {error}", path.display())))?;
    println!("{}", path.display());
    Ok(())
}

fn path() -> PathBuf {
    workspace().join("runtime/local/src/executable/instruction/table.rs")
}

/// The text of the table.
fn generate() -> Result<String, Failure> {
    let spec = op::read_spec()?;
    let file = spec.hal.file("cpu_features");
    let known: Vec<&str> = file.cpu_features.iter().map(|feature| feature.name.as_str()).collect();
    Ok(emit::text(&table(&known).map_err(Failure::Wrong)?))
}

fn table(known: &[&str]) -> Result<Table, String> {
    let mut probe = Probe::new(is_common);
    let mut forest = Forest::default();
    let mut roots = Vec::new();
    for maps in &MAPS {
        let mut of_space = Vec::new();
        for map in maps.numbers {
            let mut of_map = Vec::new();
            for opcode in 0..=u8::MAX {
                let cells = match is_prefix(maps.space, *map, opcode) {
                    true => None,
                    false => probe.opcode(maps.space, *map, opcode, maps.lengths)?,
                };
                of_map.push(cells.map_or(0, |cells| forest.add(&cells)));
            }
            of_space.push(of_map);
        }
        roots.push(of_space);
    }
    let mut features: Vec<CpuidFeature> = Vec::new();
    let mut sets = Vec::new();
    for set in &probe.sets {
        let number = |feature: &CpuidFeature| {
            features.iter().position(|known| known == feature).unwrap_or_else(|| {
                features.push(*feature);
                features.len() - 1
            })
        };
        sets.push(set.iter().map(number).collect());
    }
    let names = features.iter().map(|feature| name(*feature, known)).collect();
    Ok(Table { roots, forest, names, sets })
}

/// True for bytes that are no opcode: prefixes, and the first bytes of other maps.
fn is_prefix(space: Space, map: usize, opcode: u8) -> bool {
    match (space, map) {
        (Space::Legacy, 0) => matches!(
            opcode,
            0x0F | 0x26 | 0x2E | 0x36 | 0x3E | 0x40..=0x4F | 0x62 | 0x64..=0x67 | 0xC4 | 0xC5 | 0xF0 | 0xF2 | 0xF3
        ),
        (Space::Legacy, 1) => matches!(opcode, 0x0F | 0x38 | 0x3A),
        _ => false,
    }
}

/// The name of a feature: that in `cpu_features.yaml`, which iced spells differently, or for others that of iced.
fn name(feature: CpuidFeature, known: &[&str]) -> String {
    fn plain(name: &str) -> impl Iterator<Item = u8> {
        name.bytes().filter(|byte| !b"_.-".contains(byte)).map(|byte| byte.to_ascii_lowercase())
    }
    let iced = format!("{feature:?}");
    known.iter().find(|name| plain(name).eq(plain(&iced))).map_or(iced.to_lowercase(), |name| name.to_string())
}

/// True for features that every x86-64 processor has, and for hints, which other processors execute as no-ops.
fn is_common(feature: CpuidFeature) -> bool {
    use CpuidFeature::*;
    matches!(
        feature,
        INTEL8086
            | INTEL186
            | INTEL286
            | INTEL386
            | INTEL486
            | X64
            | FPU
            | FPU287
            | FPU387
            | CPUID
            | CMOV
            | CX8
            | FXSR
            | MMX
            | SSE
            | SSE2
            | TSC
            | SYSCALL
            | MULTIBYTENOP
            | PAUSE
            | HLE
            | PREFETCHW
            | PREFETCHWT1
            | PREFETCHITI
            | CLDEMOTE
            | CET_IBT
            | CET_SS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_what_iced_says() {
        let Ok(text) = generate() else { panic!("no table") };
        let written = fs::read_to_string(path()).expect("the table is there");
        if let Some((number, (new, old))) =
            text.lines().zip(written.lines()).enumerate().find(|(_, (new, old))| new != old)
        {
            panic!("line {}: `{old}` should be `{new}`; run `cargo xtask opcodes`", number + 1);
        }
        assert_eq!(text.len(), written.len(), "run `cargo xtask opcodes`");
    }
}
