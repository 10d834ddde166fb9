//! The properties of an encoding in the table, and its number there.

/// The dimension, in words of the table, that tells cells apart.
pub const DIMENSIONS: [(&str, &str); 6] = [
    ("PREFIX", "the mandatory prefix: none, 66, F3, F2"),
    ("WIDE", "W"),
    ("LENGTH", "the vector length: 128, 256, 512, and in EVEX rounding with registers only"),
    ("FORM", "operand in memory or in a register"),
    ("REG", "`reg` of ModRM"),
    ("RM", "`rm` of ModRM"),
];

/// The bytes after the opcode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    None,
    /// A ModRM byte, and what it says.
    ModRm,
    /// A ModRM byte whose operand is a register in any form.
    Registers,
}

/// The size of what follows the operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Immediate {
    Bytes(u8),
    /// 4, or with the prefix 66 and without W 2.
    Operand,
    /// 4, with the prefix 66 2, with W 8.
    Wide,
    /// 8, or with the prefix 67 4.
    Address,
}

/// Where execution continues.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Flow {
    Next,
    /// At the next instruction, and at the target: conditional branches and calls.
    Branch,
    Jump,
    IndirectJump,
    /// Nowhere: returns and traps.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cell {
    pub operand: Operand,
    pub immediate: Immediate,
    pub flow: Flow,
    /// The number of a set of features.
    pub features: usize,
}

impl Immediate {
    pub const ALL: [Immediate; 8] = [
        Immediate::Bytes(0),
        Immediate::Bytes(1),
        Immediate::Bytes(2),
        Immediate::Bytes(3),
        Immediate::Bytes(4),
        Immediate::Operand,
        Immediate::Wide,
        Immediate::Address,
    ];

    pub fn size(self, operand_size: bool, wide: bool, address_size: bool) -> usize {
        match self {
            Immediate::Bytes(bytes) => bytes.into(),
            Immediate::Operand => {
                if operand_size && !wide {
                    2
                } else {
                    4
                }
            }
            Immediate::Wide if wide => 8,
            Immediate::Wide => {
                if operand_size {
                    2
                } else {
                    4
                }
            }
            Immediate::Address => {
                if address_size {
                    4
                } else {
                    8
                }
            }
        }
    }
}
