//! The state of the emitter, which all files of this folder share: the code so far, its labels, and the stubs that
//! come after all blocks.

use dynasmrt::DynamicLabel;

use super::super::lower::Asm;
use super::super::runtime_layout::LinkTargets;
use crate::analysis::origins::Origins;
use crate::ir::graph::{BlockIndex, ExitId, Graph, NodeId, RuntimeOp};
use crate::ir::hash::Table;
use crate::ir::per_block::{BlockSet, PerBlock};
use crate::ir::types::Width;
use crate::regalloc::Location;

/// The origin of a part of the code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// The beginning of a block, with its resume point.
    Block(BlockIndex),
    /// A resume point that is emitted after all blocks.
    ResumePoint(BlockIndex),
    Node(NodeId),
    Terminator(BlockIndex),
    SideExit(ExitId),
    Limits(ExitId),
    Shared(Shared),
    /// A constant that instructions read.
    Constant,
}

/// Code that is rarely run, emitted after all blocks.
pub(super) struct Stub {
    pub(super) label: DynamicLabel,
    pub(super) exit: ExitId,
    pub(super) kind: StubKind,
}

/// A back edge that is counted before its test.
#[derive(Clone, Copy)]
pub(super) struct SpeculativeCount {
    /// It is taken if this test is as `taken` says.
    pub(super) test: NodeId,
    pub(super) taken: bool,
    /// Where code continues if it is not taken, after the count is undone.
    pub(super) not_taken: DynamicLabel,
}

/// The purpose of a stub.
#[derive(Clone, Copy)]
pub(super) enum StubKind {
    /// A check has failed, or a primitive traps.
    FailedCheck,
    /// The countdown has run out: code resumes at the label unless a limit has been reached.
    Limits(DynamicLabel),
    /// The same for a back edge that was counted before its test.
    SpeculativeCount(DynamicLabel, SpeculativeCount),
    /// The countdown has fewer steps than an iteration of a vector loop takes: code resumes at the label if they could
    /// be counted.
    CountSteps(DynamicLabel, NodeId),
    /// The native terminator of this block cannot be performed, so the interpreter executes the op.
    Terminator(BlockIndex),
    /// The same for a call that has been counted: the interpreter counts it again.
    CountedCall(BlockIndex),
    /// Machine code cannot execute the op at the end of this block itself, since no references are lent to the frame or
    /// the call is limited. So the runtime does, with the operands in the slots.
    ByRuntime(BlockIndex, RuntimeOp),
    /// A direct call of an import has failed.
    FailedImport,
}

/// Code for an access that has failed its check.
pub(super) struct FailedAccess {
    pub(super) label: DynamicLabel,
    pub(super) node: NodeId,
}

pub(super) struct Emitter<'a> {
    pub(super) asm: Asm,
    pub(super) graph: &'a Graph,
    pub(super) locations: &'a [Location],
    pub(super) link_targets: &'a LinkTargets,
    pub(super) labels: PerBlock<DynamicLabel>,
    pub(super) stubs: Vec<Stub>,
    /// The stub of each side exit that checks have taken so far. All of them can use one: a value has one location
    /// wherever it is live.
    pub(super) failed_checks: Vec<Option<DynamicLabel>>,
    /// The origins of values, if accesses are checked.
    pub(super) checked: Option<Origins>,
    pub(super) failed_accesses: Vec<FailedAccess>,
    pub(super) shared: Vec<(Shared, DynamicLabel)>,
    /// Bytes of the native frame.
    pub(super) frame: i32,
    pub(super) next: Option<BlockIndex>,
    /// Where that one is in the order of blocks.
    pub(super) following: usize,
    /// The blocks before that one.
    pub(super) emitted: BlockSet,
    pub(super) has_calls: bool,
    /// Where the function returns to if the interpreter has entered it, and it can be called natively: a return is the
    /// same then in both cases. None if a return has to know, because it releases references.
    pub(super) returns: Option<(DynamicLabel, BlockIndex)>,
    /// The width of the largest vectors, if the function has some.
    pub(super) lanes: Option<Width>,
    /// Constants that instructions read, which come after all code: their bits, and where each one is.
    pub(super) constants: Table<u64, DynamicLabel>,
    /// The node before, if it and this one are a pair of calls.
    pub(super) first_of_pair: Option<NodeId>,
}

/// A shared stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// Takes a side exit to the op in `eax`. The frame state has been flushed.
    SideExit,
    /// Returns to the interpreter, which stops or continues as the machine says.
    Stop,
    /// Checks the limits for the op in `eax`; a subroutine. The zero flag is set if one is reached, which the machine
    /// has noted then. All registers that are allocated to values are preserved.
    Limits,
    /// The same for the steps of a vector loop, whose number is in `eax`. The machine has the countdown.
    CountMany,
    /// Calls the runtime to execute the op in `edx`; a subroutine. The zero flag is set if machine code is not to
    /// continue.
    Execute,
    /// The same for a call of an import, whose number is in `ecx`.
    Import,
    /// The same for an allocation of a buffer that need not be zeroed.
    Allocate,
    /// Fails the op in `edx`, a direct call of an import, as the machine says.
    FailedImport,
    /// Fails the call, for an access by the op in `edx` that its range checks did not cover.
    OutOfRange,
}

impl Shared {
    /// The description of the stub, for listings.
    pub fn text(self) -> &'static str {
        match self {
            Shared::SideExit => "side exit at the op",
            Shared::Stop => "stop",
            Shared::Limits => "check the limits",
            Shared::CountMany => "count steps and check the limits",
            Shared::Execute => "call the runtime",
            Shared::Import => "call the import",
            Shared::Allocate => "allocate without zeroing",
            Shared::FailedImport => "fail at a call of an import",
            Shared::OutOfRange => "fail at an access out of range",
        }
    }
}
