//! The table as data, and the opcode maps that are in it.

use super::probe::Space;
use super::tree::Forest;

/// The opcode maps of an encoding.
pub struct Maps {
    /// The names in the table.
    pub name: &'static str,
    pub space: Space,
    pub numbers: &'static [usize],
    /// How many vector lengths are told apart.
    pub lengths: usize,
}

/// The maps of all encodings.
pub const MAPS: [Maps; 5] = [
    Maps { name: "LEGACY", space: Space::Legacy, numbers: &[0, 1, 2, 3], lengths: 1 },
    Maps { name: "AMD_3DNOW", space: Space::Amd3dnow, numbers: &[0], lengths: 1 },
    Maps { name: "VEX", space: Space::Vex, numbers: &[1, 2, 3], lengths: 2 },
    Maps { name: "EVEX", space: Space::Evex, numbers: &[1, 2, 3, 5, 6], lengths: 4 },
    Maps { name: "XOP", space: Space::Xop, numbers: &[8, 9, 10], lengths: 2 },
];

/// The table, as data.
pub struct Table {
    /// For each of `MAPS`, for each map, the reference of each opcode.
    pub roots: Vec<Vec<Vec<u16>>>,
    pub forest: Forest,
    /// Names of features, and sets of their numbers.
    pub names: Vec<String>,
    pub sets: Vec<Vec<usize>>,
}
