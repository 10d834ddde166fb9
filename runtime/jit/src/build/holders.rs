//! The holders of references at the op that is being built, with the moves that branches and ops need. The state of the
//! builder has them; `references` builds the moves.

use crate::analysis::references::{Holders, MAX_REFS, References};
use crate::analysis::typed_liveness::TypedLiveness;
use crate::bytecode::{BlockId, Decoded, Edge, VerifiedFunction};
use crate::ir::graph::RefMove;

/// The state of the builder that tells where references are.
#[derive(Default)]
pub(super) struct RefState {
    /// None if no branch of the function renames references.
    references: Option<References>,
    /// The holders at the op that is being built.
    holders: Holders,
    /// The registers that are live before each op of the block, and the first of these.
    live: Vec<u64>,
    first: u32,
}

impl RefState {
    pub fn new(references: Option<References>) -> RefState {
        RefState { references, ..RefState::default() }
    }

    /// Begins a block of the bytecode.
    pub fn begin(&mut self, decoded: &Decoded, liveness: &TypedLiveness<'_>, block: BlockId) {
        if let Some(references) = &self.references {
            self.holders = references.entry(block).clone();
            self.live = references.live_before(decoded, liveness, block);
            self.first = decoded.block(block).ops.start;
        }
    }

    /// After an op that the runtime or the interpreter has executed, each reference is in its own register.
    pub fn settle(&mut self) {
        if let Some(references) = &self.references {
            self.holders = references.own().clone();
        }
    }

    /// The moves after which references are with the holders at an op, when each is in its own register.
    pub fn moves_from_own(&self, pc: u32) -> Vec<RefMove> {
        match &self.references {
            Some(references) => references.own().moves_to(&self.holders, self.live_at(pc)),
            None => Vec::new(),
        }
    }

    /// Whether machine code executes branches that move references.
    pub fn renames(&self) -> bool {
        self.references.is_some()
    }

    /// The analysis, if branches of the function move references.
    pub fn analysis(&self) -> Option<&References> {
        self.references.as_ref()
    }

    fn live_at(&self, pc: u32) -> u64 {
        pc.checked_sub(self.first).and_then(|index| self.live.get(index as usize)).copied().unwrap_or(0)
    }

    /// The register of the frame that holds a reference; none if it is null.
    pub fn holder(&self, register: usize) -> Option<u16> {
        self.holders.of(register)
    }

    /// The moves after which the registers that are live at an op have their own references.
    pub fn moves_at(&self, pc: u32) -> Vec<RefMove> {
        match &self.references {
            Some(references) => self.holders.moves_to(references.own(), self.live_at(pc)),
            None => Vec::new(),
        }
    }

    /// The moves of a branch at the end of the block.
    pub fn moves_of(&self, decoded: &Decoded, edge: &Edge) -> Vec<RefMove> {
        self.references.as_ref().map_or_else(Vec::new, |references| references.moves(decoded, edge, &self.holders))
    }
}

/// The moves of an edge between blocks that have each reference in its own register.
pub(super) fn moves_of_own(function: &VerifiedFunction, edge: &Edge) -> Vec<RefMove> {
    let own = Holders::own(function.refs());
    let mut holders = own.clone();
    holders.rename(function.decoded().remaps(edge));
    holders.moves_to(&own, u64::MAX)
}

/// Whether the references that an edge moves can be moved by machine code.
pub(super) fn can_move(function: &VerifiedFunction) -> bool {
    function.refs() <= MAX_REFS
}
