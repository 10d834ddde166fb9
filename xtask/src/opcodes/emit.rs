//! The table as the text of a Rust file: numbers without addresses, which a process maps as they are in its file.

use std::fmt::Write;

use super::cell::{Cell, DIMENSIONS, Flow, Immediate, Operand};
use super::table::{MAPS, Table};
use super::tree::SWITCH;

/// Numbers in a line.
const IN_LINE: usize = 16;

/// Bits of a cell, from the lowest: features, where execution continues, the immediate, the operand.
const FLOW_SHIFT: u16 = 8;
const IMMEDIATE_SHIFT: u16 = 11;
const OPERAND_SHIFT: u16 = 14;

const FLOWS: [(Flow, &str); 5] = [
    (Flow::Next, "NEXT"),
    (Flow::Branch, "BRANCH"),
    (Flow::Jump, "JUMP"),
    (Flow::IndirectJump, "INDIRECT_JUMP"),
    (Flow::End, "END"),
];
const OPERANDS: [(Operand, &str); 3] =
    [(Operand::None, "NO_OPERAND"), (Operand::ModRm, "MODRM"), (Operand::Registers, "MODRM_REGISTERS")];

pub fn text(table: &Table) -> String {
    let mut out = String::new();
    // Writing to a text cannot fail.
    let _ = write(&mut out, table);
    out
}

fn write(out: &mut String, table: &Table) -> std::fmt::Result {
    writeln!(
        out,
        "//! The instructions of x86-64. `cargo xtask opcodes` writes this file from what iced says, and a test of `xtask`"
    )?;
    writeln!(out, "//! compares the two. Do not edit.")?;
    writeln!(out, "//!")?;
    writeln!(
        out,
        "//! The reference of an opcode is 0 if it is not valid, the number of a cell, or with [`SWITCH`] the place of a node."
    )?;
    constant(out, "Bit of references to nodes.", "SWITCH", "u16", SWITCH)?;
    for (number, (name, what)) in DIMENSIONS.iter().enumerate() {
        constant(out, &format!("Dimension of a node: {what}."), name, "u16", number as u16)?;
    }
    for (number, (_, name)) in FLOWS.iter().enumerate() {
        constant(out, "Where execution continues.", name, "u16", number as u16)?;
    }
    for (number, immediate) in Immediate::ALL.iter().enumerate() {
        if let Some((name, what)) = match immediate {
            Immediate::Bytes(_) => None,
            Immediate::Operand => Some(("OPERAND_SIZED", "4 bytes, or 2 with the prefix 66 and without W")),
            Immediate::Wide => Some(("WIDE_SIZED", "4 bytes, 2 with the prefix 66, 8 with W")),
            Immediate::Address => Some(("ADDRESS_SIZED", "8 bytes, or 4 with the prefix 67")),
        } {
            constant(
                out,
                &format!("Size of an immediate: {what}. Lower numbers are sizes."),
                name,
                "u16",
                number as u16,
            )?;
        }
    }
    for (number, (_, name)) in OPERANDS.iter().enumerate() {
        constant(out, "The operand after the opcode.", name, "u16", number as u16)?;
    }
    constant(out, "Place of the flow in a cell, above its set of features.", "FLOW_SHIFT", "u16", FLOW_SHIFT)?;
    constant(out, "Place of the immediate's size in a cell.", "IMMEDIATE_SHIFT", "u16", IMMEDIATE_SHIFT)?;
    constant(out, "Place of the operand in a cell.", "OPERAND_SHIFT", "u16", OPERAND_SHIFT)?;
    features(out, table)?;
    cells(out, table)?;
    nodes(out, &table.forest.nodes)?;
    for (maps, roots) in MAPS.iter().zip(&table.roots) {
        let numbers: Vec<String> = maps.numbers.iter().map(usize::to_string).collect();
        writeln!(out, "\n/// References of opcodes in the maps {} of this encoding.", numbers.join(", "))?;
        writeln!(out, "#[rustfmt::skip]\npub static {}: [[u16; 256]; {}] = [", maps.name, roots.len())?;
        for map in roots {
            writeln!(out, "    [")?;
            numbers_of(out, "        ", map)?;
            writeln!(out, "    ],")?;
        }
        writeln!(out, "];")?;
    }
    Ok(())
}

fn constant(out: &mut String, what: &str, name: &str, kind: &str, value: u16) -> std::fmt::Result {
    writeln!(out, "\n/// {what}\npub const {name}: {kind} = {value:#x};")
}

/// The names of features as one text, and the sets as one list, each with where its parts begin.
fn features(out: &mut String, table: &Table) -> std::fmt::Result {
    constant(out, "Number of features.", "FEATURES", "usize", table.names.len() as u16)?;
    writeln!(out, "\n/// Names of features, separated by spaces.\npub const NAMES: &str = \"\\")?;
    for (number, line) in table.names.chunks(IN_LINE / 2).enumerate() {
        let last = (number + 1) * (IN_LINE / 2) >= table.names.len();
        writeln!(out, "    {}{}", line.join(" "), if last { "\";" } else { " \\" })?;
    }
    writeln!(out, "\n/// Features of all sets.")?;
    let flat: Vec<u16> = table.sets.iter().flatten().map(|feature| *feature as u16).collect();
    writeln!(out, "#[rustfmt::skip]\npub static SETS: [u8; {}] = [", flat.len())?;
    for set in table.sets.iter().filter(|set| !set.is_empty()) {
        let names: Vec<&str> = set.iter().map(|feature| table.names[*feature].as_str()).collect();
        let set: String = set.iter().map(|feature| format!("{feature}, ")).collect();
        writeln!(out, "    {set}// {}", names.join(" "))?;
    }
    writeln!(out, "];")?;
    let mut starts = vec![0];
    for set in &table.sets {
        starts.push(starts.last().unwrap_or(&0) + set.len() as u16);
    }
    writeln!(out, "\n/// Where each set begins, and the end of the last one.")?;
    array(out, "SET_STARTS", &starts)
}

fn cells(out: &mut String, table: &Table) -> std::fmt::Result {
    let cells = &table.forest.cells;
    assert!(table.sets.len() <= 1 << FLOW_SHIFT, "too many sets of features");
    writeln!(out, "\n/// The cells, from number 1 on.")?;
    writeln!(out, "#[rustfmt::skip]\npub static CELLS: [u16; {}] = [", cells.len())?;
    for Cell { operand, immediate, flow, features } in cells {
        let operand_number = OPERANDS.iter().position(|(known, _)| known == operand).unwrap_or(0) as u16;
        let flow_number = FLOWS.iter().position(|(known, _)| known == flow).unwrap_or(0) as u16;
        let immediate_number = Immediate::ALL.iter().position(|known| known == immediate).unwrap_or(0) as u16;
        let bits = *features as u16
            | flow_number << FLOW_SHIFT
            | immediate_number << IMMEDIATE_SHIFT
            | operand_number << OPERAND_SHIFT;
        let names: String = table.sets[*features].iter().map(|feature| format!(" {}", table.names[*feature])).collect();
        writeln!(out, "    {bits:#06x}, // {operand:?}, {immediate:?}, {flow:?}:{names}")?;
    }
    writeln!(out, "];")
}

fn nodes(out: &mut String, nodes: &[u16]) -> std::fmt::Result {
    writeln!(out, "\n/// Nodes: a dimension, and a reference for each value of it.")?;
    array(out, "NODES", nodes)
}

fn array(out: &mut String, name: &str, values: &[u16]) -> std::fmt::Result {
    writeln!(out, "#[rustfmt::skip]\npub static {name}: [u16; {}] = [", values.len())?;
    numbers_of(out, "    ", values)?;
    writeln!(out, "];")
}

fn numbers_of(out: &mut String, indent: &str, values: &[u16]) -> std::fmt::Result {
    for line in values.chunks(IN_LINE) {
        let line: Vec<String> = line.iter().map(|value| format!("{value:#x}")).collect();
        writeln!(out, "{indent}{},", line.join(", "))?;
    }
    Ok(())
}
