//! Definitions of slots: which node each slot holds at the op that is being built. The builder keeps them, and a copy
//! for each branch to a block that is not built yet.

use std::ops::Index;

use smallvec::SmallVec;

use crate::ir::bits::Bits;
use crate::ir::graph::{NodeId, Part};

/// The definition of a slot: a node, or a half of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Def {
    pub node: NodeId,
    pub part: Part,
}

/// The definitions of all slots. A slot without one is dead.
#[derive(Debug)]
pub(super) struct Defs {
    defs: SmallVec<[Option<Def>; 16]>,
    /// Slots whose values are in the frame and have no node yet: most of them are not read before the next exit. Their
    /// entries in `defs` are out of date.
    pub home: Bits,
    /// Slots that are defined by nodes other than constants.
    computed: Bits,
}

impl Defs {
    pub fn new(slots: usize) -> Defs {
        Defs { defs: SmallVec::from_elem(None, slots), home: Bits::new(slots), computed: Bits::new(slots) }
    }

    pub fn len(&self) -> usize {
        self.defs.len()
    }

    /// Sets the definitions of all slots.
    pub fn fill(&mut self, def: Option<Def>) {
        self.defs.fill(def);
        self.home.clear();
        self.computed.clear();
    }

    /// The definition of a slot, if it has a node.
    pub fn get(&self, slot: usize) -> Option<Def> {
        self.defs[slot].filter(|_| !self.home.contains(slot))
    }

    pub fn define(&mut self, slot: usize, def: Def, is_constant: bool) {
        self.defs[slot] = Some(def);
        self.home.remove(slot);
        if is_constant {
            self.computed.remove(slot);
        } else {
            self.computed.insert(slot);
        }
    }

    /// Takes the definition of a slot from others.
    pub fn copy(&mut self, slot: usize, from: &Defs) {
        self.defs[slot] = from.defs[slot];
        self.home.set(slot, from.home.contains(slot));
        self.computed.set(slot, from.computed.contains(slot));
    }

    /// Defines a slot by what another one holds, which has a node.
    pub fn copy_within(&mut self, to: usize, from: usize) {
        self.defs[to] = self.defs[from];
        self.home.remove(to);
        self.computed.set(to, self.computed.contains(from));
    }

    /// Whether the definition of a slot is that of others.
    pub fn same(&self, other: &Defs, slot: usize) -> bool {
        self.home.contains(slot) == other.home.contains(slot) && self.get(slot) == other.get(slot)
    }

    /// Those of the slots that are defined by nodes other than constants.
    pub fn computed(&self, slots: &Bits) -> impl Iterator<Item = usize> {
        slots.and(&self.computed)
    }

    /// After an op of the runtime or the interpreter, these slots are in the frame alone. The others that are live hold
    /// constants.
    pub fn leave(&mut self, home: Bits) {
        self.home = home;
        self.computed.clear();
    }
}

impl Clone for Defs {
    fn clone(&self) -> Defs {
        // All at once, which the clone of the vector is not.
        Defs { defs: SmallVec::from_slice(&self.defs), home: self.home.clone(), computed: self.computed.clone() }
    }
}

impl Index<usize> for Defs {
    type Output = Option<Def>;

    fn index(&self, slot: usize) -> &Option<Def> {
        &self.defs[slot]
    }
}
