//! Decision trees of opcodes, in which equal ones are shared: a tree of cells that are all equal is that cell, so the
//! table holds only what an opcode depends on.

use std::collections::HashMap;

use super::cell::Cell;
use super::probe::{FORMS, PREFIXES};

/// Says that a reference is the place of a switch among the nodes. Others are numbers of cells, and 0 says that there
/// is no instruction.
pub const SWITCH: u16 = 0x8000;

/// The dimensions, as in `cell::DIMENSIONS`. They are asked in this order: others make about as many nodes.
const PREFIX: usize = 0;
const WIDE: usize = 1;
const LENGTH: usize = 2;
const FORM: usize = 3;
const REG: usize = 4;
const RM: usize = 5;

/// The trees of all opcodes.
#[derive(Default)]
pub struct Forest {
    /// For each switch its dimension, then a reference for each value.
    pub nodes: Vec<u16>,
    /// Cells, from number 1 on.
    pub cells: Vec<Cell>,
    places: HashMap<Vec<u16>, u16>,
    numbers: HashMap<Cell, u16>,
}

impl Forest {
    /// The reference to the tree of an opcode.
    pub fn add(&mut self, cells: &[Option<Cell>]) -> u16 {
        let lengths = cells.len() / (PREFIXES * 2 * FORMS);
        self.build(cells, lengths, &mut [0; 6], PREFIX)
    }

    fn build(&mut self, cells: &[Option<Cell>], lengths: usize, at: &mut [usize; 6], dimension: usize) -> u16 {
        if dimension > RM {
            let form = if at[FORM] == 0 { at[REG] } else { 8 + at[REG] * 8 + at[RM] };
            let cell = cells[((at[PREFIX] * 2 + at[WIDE]) * lengths + at[LENGTH]) * FORMS + form];
            return cell.map_or(0, |cell| self.number(cell));
        }
        let values = match dimension {
            PREFIX => PREFIXES,
            LENGTH => lengths,
            REG => 8,
            // Its cells are those of any memory operand.
            RM => {
                if at[FORM] == 0 {
                    1
                } else {
                    8
                }
            }
            _ => 2,
        };
        let mut node = vec![dimension as u16];
        for value in 0..values {
            at[dimension] = value;
            node.push(self.build(cells, lengths, at, dimension + 1));
        }
        at[dimension] = 0;
        if node[1..].iter().all(|arm| *arm == node[1]) {
            return node[1];
        }
        if let Some(place) = self.places.get(&node) {
            return *place;
        }
        let place = SWITCH | self.nodes.len() as u16;
        assert!(self.nodes.len() + node.len() < usize::from(SWITCH), "the table outgrows its references");
        self.nodes.extend_from_slice(&node);
        self.places.insert(node, place);
        place
    }

    fn number(&mut self, cell: Cell) -> u16 {
        let Forest { cells, numbers, .. } = self;
        *numbers.entry(cell).or_insert_with(|| {
            cells.push(cell);
            cells.len() as u16
        })
    }
}
