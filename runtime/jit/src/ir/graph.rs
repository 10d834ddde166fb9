//! The intermediate form: blocks of nodes in static single assignment.
//!
//! Values that several branches bring to a block are its parameters. Code is entered from outside at blocks that have an
//! [`Entry`], which find their values in the slots of the frame; nothing that was computed before dominates such a block, so no value
//! ever lives across what leaves the code. Code is left at an [`Exit`], which says what the slots have to hold.

use smallvec::SmallVec;

use super::types::{Effect, Scalar, Ty, Width};
use crate::bytecode::{CallId, ListId};
use crate::generated::vm::primitive::Primitive;

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub u32);

impl NodeId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Nodes in order. Most blocks have few, and branches bring few.
pub(crate) type Nodes = SmallVec<[NodeId; 4]>;

/// A place where code is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExitId(pub u32);

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// These bits.
    Constant(u64),
    /// What the branches to the block bring.
    Parameter,
    /// What a slot holds when the block is entered from outside.
    Slot(u16),
    /// Slots get what the exit says: nothing of it is known behind.
    FlushToSlots,
    /// What other compiled code has left in this register of the bank of its type.
    Passed(u8),
    /// A primitive on values of this type. The operands of loads and stores are the base and the index; checks stand by themselves.
    Primitive(Primitive, Scalar),
    /// A truth value as 0 or 1.
    Number,
    /// The low half of an `i64`.
    Low,
    /// The high half.
    High,
    /// An `i64` from its halves, low one first.
    Pair,
    /// The same bits as another type of the same width.
    Cast,
    /// Exits unless a register of references holds a buffer.
    IsBuffer(u16),
    /// Exits unless the buffer in the register is mutable. Its operand is the check that there is one, as for those that follow.
    IsMutable(u16),
    /// The address of the first byte of the buffer in the register.
    Base(u16),
    /// The bytes of that buffer, shifted right.
    Elements(u16, u8),
    /// The address of the object that a register of references refers to, or zero.
    Reference(u16),
    /// The address of the first byte of the module's value globals.
    Globals,
    /// Exits unless the first operand is below the second, unsigned.
    InRange,
    /// Exits if fuel is counted, which is done for each turn of a loop.
    NoFuel,
    /// A primitive in each lane.
    Lanes(Primitive, Scalar),
    /// The same value in each lane.
    Splat,
    /// Truths in lanes as 0 or 1.
    LaneNumbers,
    /// The value of one lane.
    Extract(u8),
    /// The sum of all lanes.
    SumLanes,
    /// The number of each lane times a constant.
    Multiples(i32),
    /// A load or store of elements that follow each other: as the primitive, with the index of the first lane of the first vector. The
    /// number is that of the vector.
    LoadLanes(Primitive, u8),
    StoreLanes(Primitive, u8),
    /// A load of elements at distances from the index, which are the third operand. Behind all of them is the number of elements.
    Gather(Primitive, i32),
    /// Exits unless a call may be made without the interpreter: the frame fits.
    HasRoom,
}

/// A node of a block, or a constant.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub kind: Kind,
    pub ty: Ty,
    pub args: SmallVec<[NodeId; 3]>,
    /// Where code is left if the node cannot do what it says.
    pub exit: Option<ExitId>,
}

impl Node {
    /// The type of its value. Truths and nothing are never asked.
    pub fn scalar(&self) -> Scalar {
        match self.ty {
            Ty::Scalar(scalar) => scalar,
            Ty::Lanes(scalar, _) => scalar,
            Ty::Truth | Ty::Nothing => Scalar::I32,
        }
    }

    /// Whether its value is in a vector register.
    pub fn is_vector(&self) -> bool {
        match self.ty {
            Ty::Scalar(scalar) => scalar.is_float(),
            Ty::Lanes(..) => true,
            Ty::Truth | Ty::Nothing => false,
        }
    }

    /// How many lanes its value has, if it is one of lanes.
    pub fn width(&self) -> Option<Width> {
        self.ty.width()
    }

    /// Whether its code calls a function, which keeps few registers.
    pub fn is_call(&self) -> bool {
        matches!(self.kind, Kind::Primitive(primitive, _) | Kind::Lanes(primitive, _) if primitive.effect() == Effect::Call)
    }
}

/// What a slot has to hold when code is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotValue {
    pub slot: u16,
    pub node: NodeId,
    pub part: Part,
}

/// Which part of a value a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All 32 bits, or all 64 of this slot and the next one.
    Whole,
    /// The low half of 64 bits.
    Low,
    /// The high half.
    High,
}

/// Leaving code at an op: the slots the interpreter may read from there on.
#[derive(Clone, Debug)]
pub(crate) struct Exit {
    pub pc: u32,
    pub frame_state: Vec<SlotValue>,
    /// Stores that the program has made by then, and code has not.
    pub pending_stores: Vec<NodeId>,
    /// Code is not left at all: it goes on there.
    pub fallback: Option<Branch>,
}

/// A branch to a block, with the values of its parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branch {
    pub target: usize,
    pub args: Nodes,
    /// For a backward branch: it is counted, and where it exits if the limits have to be looked at.
    pub limits_exit: Option<ExitId>,
    /// As how many branches it counts, less one.
    pub extra_iterations: u16,
    /// The block does nothing but to test, and it is known that the test is false.
    pub skips_header_test: bool,
}

/// How code is left at the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideExitKind {
    /// The interpreter executes the op, and code goes on at the next block if it comes to the next op.
    Op,
    /// As `Op`, for a call of a function of the module.
    Call,
    /// For good: the interpreter goes on.
    Return,
}

/// How a block ends.
#[derive(Clone, Debug)]
pub(crate) enum Terminator {
    Jump(Branch),
    /// On a truth.
    Branch(NodeId, Branch, Branch),
    /// To the first, where checks may find that the second is the one to take: with these arguments, which exist here.
    Guarded(Branch, Branch),
    SideExit(SideExitKind, ExitId),
    /// Not known yet.
    Open,
}

/// How a block is entered from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The op at which the interpreter is.
    pub pc: u32,
    /// It follows what left the code, and is entered from there only.
    pub resumes: bool,
    /// Compiled code enters it, and not the interpreter.
    pub native: bool,
}

/// Where a value is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassedIn {
    /// In a register that no value lives in.
    Register(u8),
    /// In its slot: an argument in one of the function that is called, a result in one of the caller.
    Slot,
}

/// A value that is passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub of: Scalar,
    /// The slot that the interpreter puts it into, of the callee for an argument.
    pub slot: u16,
    pub place: PassedIn,
}

/// What compiled code does itself at the end of a block that leaves, and the values that it passes. The exit is for where that is not
/// possible.
#[derive(Clone, Debug)]
pub(crate) struct NativeTerminator {
    pub values: Vec<(NodeId, Passed)>,
    pub kind: NativeKind,
}

/// Passages by their blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct NativeTerminators(Vec<(usize, NativeTerminator)>);

impl NativeTerminators {
    fn find(&self, block: usize) -> Result<usize, usize> {
        self.0.binary_search_by_key(&block, |(block, _)| *block)
    }

    /// Adds that of a block, which mostly is behind those that there are.
    pub fn insert(&mut self, block: usize, terminator: NativeTerminator) {
        match self.find(block) {
            Ok(index) => self.0[index].1 = terminator,
            Err(index) => self.0.insert(index, (block, terminator)),
        }
    }

    pub fn get(&self, block: &usize) -> Option<&NativeTerminator> {
        self.find(*block).ok().map(|index| &self.0[index].1)
    }

    pub fn get_mut(&mut self, block: &usize) -> Option<&mut NativeTerminator> {
        self.find(*block).ok().map(|index| &mut self.0[index].1)
    }

    pub fn values(&self) -> impl Iterator<Item = &NativeTerminator> {
        self.0.iter().map(|(_, terminator)| terminator)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut NativeTerminator> {
        self.0.iter_mut().map(|(_, terminator)| terminator)
    }
}

/// What is done at the end of a block that leaves.
#[derive(Clone, Debug)]
pub(crate) enum NativeKind {
    /// It returns from a function that compiled code has called. The values are in slots of this function, too, if they are put there.
    Return {
        operands: ListId,
        /// References of the frame, which have to be released.
        refs: u16,
        /// Whether some of them are results, or the values do not go to registers.
        through_frames: bool,
    },
    /// It calls compiled code.
    Call(NativeCall),
    /// It lets the runtime execute the op, without the interpreter's dispatcher.
    Op(RuntimeOp),
}

/// An op that a function of the runtime executes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuntimeOp {
    /// The block behind it, which finds its values in the slots.
    pub continuation: usize,
    /// The call, if it is one of an import.
    pub import: Option<CallId>,
    /// It allocates a buffer that is filled at once, and need not be zeroed.
    pub is_filled: bool,
}

/// A call of compiled code.
#[derive(Clone, Debug)]
pub(crate) struct NativeCall {
    /// The function.
    pub callee: u32,
    /// Bytes from the slots of the frame to those of the new one.
    pub advance: u32,
    /// Bytes to the end of the slots of the new one.
    pub size: u32,
    /// Bytes of the new slots that are zeroed.
    pub zeroed: u32,
    /// References of the new frame.
    pub refs: u16,
    /// Whether some are passed.
    pub passes_refs: bool,
    /// The block that the callee returns to.
    pub continuation: usize,
    /// Slots that are read behind the call and have to hold something by then.
    pub live_slots: Vec<u16>,
    /// It has been counted, and the frame fits.
    pub partly_inlined: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub entry: Option<Entry>,
    pub parameters: Nodes,
    pub nodes: Nodes,
    pub terminator: Terminator,
    /// In front of a loop: where code is left that was moved here from the loop.
    pub preheader_exit: Option<ExitId>,
    /// For the first block of a loop: what the slots hold when a turn begins.
    pub header_exit: Option<ExitId>,
    /// The number of loops it is in.
    pub depth: u32,
}

/// Where values are between the blocks of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompileMode {
    /// Wherever it is best.
    Optimised,
    /// In their slots.
    Baseline,
}

/// A function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub nodes: Vec<Node>,
    pub blocks: Vec<Block>,
    pub exits: Vec<Exit>,
    /// The order in which blocks are laid out.
    pub order: Vec<usize>,
    /// For each node that was built, the op it is made of; only listings ask.
    pub origins: Vec<u32>,
    /// Blocks and the ops that their ends are made of, likewise.
    pub terminator_ops: Vec<(usize, u32)>,
    /// Blocks whose ends compiled code may make without the interpreter.
    pub native_terminators: NativeTerminators,
    /// Where compiled code enters the function, if it may: the block, and the ordinal of the function.
    pub native_entry: Option<(usize, u32)>,
}

impl Graph {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn exit(&self, id: ExitId) -> &Exit {
        &self.exits[id.0 as usize]
    }

    /// A new block without an end, which is laid out by whoever made it.
    pub fn add_block(&mut self) -> usize {
        self.blocks.push(Block {
            entry: None,
            parameters: Nodes::new(),
            nodes: Nodes::new(),
            terminator: Terminator::Open,
            preheader_exit: None,
            header_exit: None,
            depth: 0,
        });
        self.blocks.len() - 1
    }

    /// A new parameter of a block.
    pub fn parameter(&mut self, block: usize, ty: Ty) -> NodeId {
        let id = self.make_node(Kind::Parameter, ty, &[]);
        self.blocks[block].parameters.push(id);
        id
    }

    /// A new node at the end of a block.
    pub fn add_node(&mut self, block: usize, kind: Kind, ty: Ty, args: &[NodeId]) -> NodeId {
        let id = self.make_node(kind, ty, args);
        self.blocks[block].nodes.push(id);
        id
    }

    /// A constant.
    pub fn add_constant(&mut self, of: Scalar, bits: u64) -> NodeId {
        self.make_node(Kind::Constant(bits), Ty::Scalar(of), &[])
    }

    fn make_node(&mut self, kind: Kind, ty: Ty, args: &[NodeId]) -> NodeId {
        self.nodes.push(Node { kind, ty, args: SmallVec::from_slice(args), exit: None });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// A new exit.
    pub fn add_exit(&mut self, exit: Exit) -> ExitId {
        self.exits.push(exit);
        ExitId(self.exits.len() as u32 - 1)
    }

    pub fn constant(&self, id: NodeId) -> Option<u64> {
        match self.node(id).kind {
            Kind::Constant(bits) => Some(bits),
            _ => None,
        }
    }

    /// The branches at the end of a block.
    pub fn branches(&self, block: usize) -> SmallVec<[&Branch; 2]> {
        match &self.blocks[block].terminator {
            Terminator::Jump(branch) => SmallVec::from_slice(&[branch]),
            Terminator::Branch(_, then, otherwise) | Terminator::Guarded(then, otherwise) => {
                SmallVec::from_slice(&[then, otherwise])
            }
            Terminator::SideExit(..) | Terminator::Open => SmallVec::new(),
        }
    }

    pub fn branches_mut(&mut self, block: usize) -> SmallVec<[&mut Branch; 2]> {
        let mut branches = SmallVec::new();
        match &mut self.blocks[block].terminator {
            Terminator::Jump(branch) => branches.push(branch),
            Terminator::Branch(_, then, otherwise) | Terminator::Guarded(then, otherwise) => {
                branches.extend([then, otherwise])
            }
            Terminator::SideExit(..) | Terminator::Open => {}
        }
        branches
    }

    /// Calls `visit` with what is read where a truth is tested: its operands, since nobody keeps it.
    pub fn for_each_operand(&self, id: NodeId, visit: &mut impl FnMut(NodeId)) {
        for arg in &self.node(id).args {
            match self.node(*arg).ty {
                Ty::Truth => self.for_each_operand(*arg, visit),
                Ty::Scalar(_) | Ty::Lanes(..) => visit(*arg),
                Ty::Nothing => {}
            }
        }
    }

    /// Whether the slot holds the value anyway: it came from there, and slots are written only where code is left.
    pub fn is_in_slot(&self, slot_value: &SlotValue) -> bool {
        match (self.node(slot_value.node).kind, slot_value.part) {
            (Kind::Slot(own), Part::Whole | Part::Low) => own == slot_value.slot,
            (Kind::Slot(own), Part::High) => own + 1 == slot_value.slot,
            _ => false,
        }
    }

    /// Calls `visit` with what has to be known where code is left. A number made of a truth is made there.
    pub fn for_each_exit_use(&self, exit: ExitId, visit: &mut impl FnMut(NodeId)) {
        for slot_value in self.exit(exit).frame_state.iter().filter(|slot_value| !self.is_in_slot(slot_value)) {
            if self.node(slot_value.node).kind == Kind::Number {
                self.for_each_operand(slot_value.node, visit);
            } else {
                visit(slot_value.node);
            }
        }
        if let Some(branch) = &self.exit(exit).fallback {
            branch.args.iter().for_each(|arg| visit(*arg));
        }
        for store in &self.exit(exit).pending_stores {
            self.for_each_operand(*store, visit);
        }
    }
}
