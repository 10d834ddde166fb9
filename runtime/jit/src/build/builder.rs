//! The state of the builder of a graph, which all files of this room share. Generated code calls its methods for each
//! op.

use smallvec::SmallVec;

use super::defs::Defs;
use super::holders::RefState;
use crate::analysis::block_liveness::BlockLiveness;
use crate::analysis::calls::FunctionContext;
use crate::analysis::constants::{ConstantSlots, Constants};
use crate::analysis::typed_liveness::TypedLiveness;
use crate::bytecode::{BlockId, Decoded};
use crate::ir::graph::{BlockIndex, ExitId, Graph, Kind, NodeId, Passed};
use crate::ir::hash::Table;
use crate::ir::types::Scalar;

/// Most entries of a list that an op selects from by a chain of tests; longer ones are left to the runtime.
pub(super) const MAX_TABLE_ENTRIES: usize = 64;

/// The builder of one function's graph; generated code calls it for each op.
pub(crate) struct FunctionBuilder<'a> {
    pub(super) decoded: &'a Decoded,
    pub(super) context: FunctionContext<'a>,
    /// The arguments of native calls, if there may be some of the function.
    pub(super) arguments_if_called: Option<Vec<Passed>>,
    pub(super) liveness: TypedLiveness<'a>,
    pub(super) entry_constants: Constants,
    /// Where references are.
    pub(super) refs: RefState,
    /// The constants in slots before the op that is being built.
    pub(super) slot_constants: ConstantSlots,
    pub(super) graph: Graph,
    pub(super) current: BlockIndex,
    pub(super) defs: Defs,
    pub(super) pc: u32,
    /// The side exit that is taken if the op at `pc` traps, once there is one.
    pub(super) exit: Option<ExitId>,
    /// Liveness before and after the op that is being built.
    pub(super) at_op: BlockLiveness,
    pub(super) incoming: Vec<Vec<Incoming>>,
    /// Blocks that are laid out after all others.
    pub(super) cold: Vec<BlockIndex>,
    /// A block that is laid out before the first one of a block of the bytecode.
    pub(super) laid_out_before: Option<(BlockId, BlockIndex)>,
    /// For each block of the bytecode that is a loop header, the header in the graph and its parameters.
    pub(super) headers: Table<BlockId, (BlockIndex, LiveIns)>,
    pub(super) constant_nodes: Table<(u64, Scalar), NodeId>,
    /// For each slot the node of the constant that was last found in it: a cache, since constants often stay.
    pub(super) recent: Vec<Option<(u64, Scalar, NodeId)>>,
    pub(super) numbered: Table<(Kind, SmallVec<[NodeId; 3]>), NodeId>,
    pub(super) frame_state_values: usize,
    pub(super) failed: bool,
    /// The state of baseline mode, if the function is built in it.
    pub(super) baseline: Option<Baseline>,
}

/// A branch to a block that is not built yet, with the definitions of slots at its end.
pub(super) struct Incoming {
    pub from: BlockIndex,
    /// Whether it is the second branch of its block.
    pub second: bool,
    pub defs: Defs,
}

/// A slot that is live into a block, and the type that it is read as next: a parameter of the block, unless it is known
/// to be a constant.
#[derive(Clone, Copy)]
pub(super) struct LiveIn {
    pub slot: u16,
    pub of: Scalar,
}

impl LiveIn {
    pub(super) fn slots(self) -> u16 {
        1 + u16::from(self.of.is_wide())
    }
}

/// The live-ins of a block, in the order of the slots.
pub(super) type LiveIns = SmallVec<[LiveIn; 16]>;

/// The state of the builder in baseline mode.
#[derive(Default)]
pub(super) struct Baseline {
    /// For each block of the bytecode, the block of the graph in which it begins.
    pub(super) begins: Vec<BlockIndex>,
    /// The slots that have a definition in the current piece, some of them twice.
    pub(super) defined: Vec<u16>,
}
