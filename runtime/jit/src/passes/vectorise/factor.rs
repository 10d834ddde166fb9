//! The vectorisation factor, and the surroundings of a loop on which it depends.

use crate::ir::types::Width;

/// The vectorisation factor: the vectors that an iteration of a vector loop computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Factor {
    pub width: Width,
    pub vectors: usize,
    /// It makes the iterations that are left, fewer than there are lanes: a mask leaves out the other ones.
    pub is_masked: bool,
}

impl Factor {
    /// How many iterations of the scalar loop these are.
    pub fn iterations(self) -> u64 {
        self.width.lanes() * self.vectors as u64
    }
}

/// The surroundings of a loop that becomes vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surroundings {
    /// Nothing that is known: it needs guards, and counts its steps.
    Unknown,
    /// A jammed loop, whose guards hold for it, too, and which counts all steps. An iteration may compute so many
    /// vectors.
    Jammed { vectors: usize },
}

impl Surroundings {
    /// The same, for a loop of which an iteration computes one vector.
    pub fn with_one_vector(self) -> Surroundings {
        match self {
            Surroundings::Unknown => self,
            Surroundings::Jammed { .. } => Surroundings::Jammed { vectors: 1 },
        }
    }
}
