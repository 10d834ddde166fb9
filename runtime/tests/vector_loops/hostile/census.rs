//! How many hostile nests reach each part of the vectoriser, so that the generator goes on doing it.

use vireo::asm::assemble;
use vireo::interp::CodeShape;
use vireo::vm::Module;

use super::super::has_lanes;
use super::super::skip::{Need, skipped};
use super::draw::Program;
use super::forms::Form;
use super::number;
use super::run::drawn;

/// Part of machine code that only vector loops have, and the least number of programs of a thousand that have it.
/// Processors with vectors of 8 and of 16 lanes reach a part in other programs, so the least number is some deviations
/// below the mean of many seeds.
const PARTS: [(&str, usize); 13] = [
    ("vectors", 240),
    ("stores", 230),
    ("masks", 70),
    ("values of several rows", 35),
    ("carried vectors", 90),
    ("gathers", 60),
    ("rows", 1),
    ("every other element", 4),
    ("quotients", 4),
    ("lanes of bytes", 2),
    ("strips", 40),
    ("rows of tiles", 10),
    ("vectors beside branches", 2),
];

/// Which parts a program has, with so many lanes, and whether its guards were not proved to cover its accesses.
fn parts(Program { text, form, .. }: &Program, max_lanes: u8, osr_entries: bool) -> ([bool; PARTS.len()], bool) {
    let mut module = Module::from_bytes(&assemble(text).expect("it is a program")).expect("it is a module");
    module.set_code_shape(CodeShape { max_lanes, osr_entries, ..CodeShape::default() });
    let compiled = module.compiled(0).expect("it is compiled").expect("there is machine code in this build");
    let has = |what: &[&str]| compiled.parts.iter().any(|part| what.iter().any(|what| part.text.contains(what)));
    // Operands of a load of lanes are a base and an index, and maybe a mask.
    let is_masked = |text: &str| {
        let operands = |access: &str| text.split_once(access).map_or(0, |(_, rest)| rest.matches(", v").count());
        operands("LoadLanes(") > 1 || operands("StoreLanes(") > 2
    };
    let written = text.matches("vm.buffer.store").count();
    let (mut stores, mut has_rows) = (0, false);
    for part in &compiled.parts {
        stores = if part.begins_block { 0 } else { stores };
        let is_first_vector = part.text.contains("StoreLanes(") && part.text.contains(", 0) ");
        stores += usize::from(is_first_vector);
        has_rows |= stores > written;
    }
    let is_vector = |title: &str| title.contains(" in ymm") || title.contains(" in zmm");
    let has_vectors = has(&["StoreLanes(", "SumLanes"]);
    let parts = [
        has(&["LoadLanes(", "StoreLanes(", "SumLanes", "Gather(", "LoadEven(", "LoadRows("]),
        has(&["StoreLanes("]),
        compiled.parts.iter().any(|part| is_masked(&part.text)),
        has_rows,
        compiled.parts.iter().any(|part| part.begins_block && is_vector(&part.text)),
        has(&["Gather(", "LoadBytes("]),
        has(&["LoadRows(", "GatherBytes("]),
        has(&["LoadEven("]),
        has(&["Quotients"]),
        has(&["bytes of ymm"]),
        has_vectors && matches!(form, Form::Strip | Form::Tile),
        has_rows && *form == Form::Tile,
        has_vectors && *form == Form::Branches,
    ];
    (parts, compiled.is_checked)
}

#[test]
fn hostile_nests_reach_all_of_the_vectoriser() {
    if !has_lanes(8) {
        return skipped(Need::Processor("avx2"), "there are no vectors");
    }
    let first = number("VIREO_FIRST", 0);
    let count = number("VIREO_NESTS", if cfg!(debug_assertions) { 300 } else { 1000 }) as usize;
    let (mut found, mut unproved) = ([0; PARTS.len()], 0);
    for seed in first..first + count as u64 {
        let lanes = if has_lanes(16) && seed.is_multiple_of(2) { 16 } else { 8 };
        let (own, is_checked) = parts(&drawn(seed), lanes, seed / 2 % 2 == 0);
        found.iter_mut().zip(own).for_each(|(found, own)| *found += usize::from(own));
        unproved += usize::from(is_checked);
    }
    let told = PARTS.iter().zip(found).map(|((name, _), found)| format!("{name}: {found}"));
    eprintln!("of {count} programs, {}, guards that are not proved: {unproved}", told.collect::<Vec<_>>().join(", "));
    assert!(count < 300 || unproved * 4 < count, "the guards of {unproved} of {count} programs are not proved");
    for ((name, least), found) in PARTS.iter().zip(found) {
        // Of a few programs, a rare part may be in none.
        assert!(
            count < 300 || count < 1000 && *least < 200 || found * 1000 >= least * count,
            "only {found} of {count} programs have {name}"
        );
    }
}
