//! Instructions before their registers have places.

use super::symbols::FunctionId;
use crate::machine::{Constant, Handler};

/// A place in the local memory of a thread: an offset in the frame of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalPlace {
    pub(super) function: FunctionId,
    pub(super) offset: u32,
}

/// A source or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// There is none.
    None,
    /// A register of the function.
    Register(u32),
    /// A register of another function.
    Foreign(FunctionId, u32),
    /// A predicate with a fixed meaning.
    Predicate(u16),
    /// A value that is the same in all lanes, of one row or, for the second value, of two.
    Constant(Constant, Option<Constant>),
}

/// Where an instruction jumps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The instruction of the tree with this number.
    Statement(u32),
    /// The first instruction after this one that is of the next one of the tree.
    After,
    /// After this many of the instructions that follow.
    Skip(u32),
    /// The beginning of a function.
    Function(FunctionId),
}

/// The meaning of an instruction, as far as it may become a part of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Something else.
    Other,
    /// A byte of the first source, which is shifted to the left by this much, with its sign or zeros above it.
    Byte { shift: u32, is_signed: bool },
    /// The low word of a product, and a sum.
    MultiplyAdd,
}

/// An instruction.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) handler: Handler,
    pub(super) sources: [Place; 4],
    pub(super) result: Place,
    pub(super) result2: Place,
    pub(super) number: u32,
    pub(super) offset: i64,
    /// A place that is added to the offset.
    pub(super) local: Option<LocalPlace>,
    pub(super) target: Option<Target>,
    /// The number of a list of labels of the function, one of which it jumps to.
    pub(super) table: Option<u32>,
    /// Registers of a list, of which the first ones are results.
    pub(super) list: Vec<Place>,
    pub(super) list_results: usize,
    /// Words of a list that are no registers, before those.
    pub(super) words: Vec<u16>,
    /// A number in the place of the first source.
    pub(super) first: Option<u16>,
    /// A number in the place of the result.
    pub(super) second: Option<u16>,
    /// Places in local memory as words of the list.
    pub(super) places: Vec<LocalPlace>,
    /// Whether results are computed before they are written, so that they may have the places of sources.
    pub(super) shares: bool,
    /// Whether it changes the path.
    pub(super) is_control: bool,
    /// Whether it is executed in some lanes of the path only.
    pub(super) is_guarded: bool,
    /// Whether it reads what other warps may write meanwhile.
    pub(super) polls: bool,
    pub(super) role: Role,
}

impl Draft {
    pub(super) fn new(handler: Handler) -> Self {
        Draft {
            handler,
            sources: [Place::None; 4],
            result: Place::None,
            result2: Place::None,
            number: 0,
            offset: 0,
            local: None,
            target: None,
            table: None,
            list: Vec::new(),
            list_results: 0,
            words: Vec::new(),
            first: None,
            second: None,
            places: Vec::new(),
            shares: false,
            is_control: false,
            is_guarded: false,
            polls: false,
            role: Role::Other,
        }
    }

    pub(super) fn control(handler: Handler) -> Self {
        Draft { is_control: true, ..Self::new(handler) }
    }

    /// The same with these sources.
    pub(super) fn with<const N: usize>(mut self, sources: [Place; N]) -> Self {
        self.sources[..N].copy_from_slice(&sources);
        self
    }

    /// The same with this result.
    pub(super) fn to(mut self, result: Place) -> Self {
        self.result = result;
        self
    }
}
