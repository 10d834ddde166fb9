//! The graph: an SSA control-flow graph with block parameters, which `build` makes, `passes` rewrite and `x64` emits.
//!
//! A value for which the predecessors of a block have different definitions is a parameter of the block. Machine code
//! is entered at blocks with an [`Entry`], which load their values from the slots of the VM frame. Entries are the
//! roots of the dominator tree, so no value is live across a call or an op of the interpreter. Machine code is left at
//! an [`Exit`], whose frame state says what the slots have to hold. `ir/text` writes graphs as text and reads them.

use smallvec::SmallVec;

use super::bits::Bits;
pub(crate) use super::block_index::BlockIndex;
use super::decisions::Decisions;
use super::effort::Effort;
use super::per_block::{Blocks, PerBlock};
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

/// Nodes in order. Most blocks have few, and most branches few arguments.
pub(crate) type Nodes = SmallVec<[NodeId; 4]>;

/// A side exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExitId(pub u32);

/// The operation of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// These bits.
    Constant(u64),
    /// A parameter of a block: the argument of the branch that was taken to it.
    Parameter,
    /// Loads a slot of the VM frame, in a block that is entered from the interpreter or after a call.
    Slot(u16),
    /// Writes the frame state of the exit to the slots. Values have to be loaded from there afterwards.
    FlushToSlots,
    /// An argument or result that other machine code passes in this register of the bank of its type.
    Passed(u8),
    /// A primitive on values of this type. Loads and stores take the base and the index; their checks are nodes of
    /// their own.
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
    /// Exits unless a reference register holds a buffer.
    IsBuffer(u16),
    /// Exits unless the buffer in the register is mutable. Its operand is the check that there is a buffer, as for
    /// `Base` and `Elements`.
    IsMutable(u16),
    /// The address of the first byte of the buffer in the register.
    Base(u16),
    /// The length of that buffer in elements: its bytes, shifted right by the second field.
    Elements(u16, u8),
    /// The address of the object that a reference register refers to, or zero.
    Reference(u16),
    /// The address of the first byte of the module's value globals.
    Globals,
    /// Exits unless the first operand is below the second, unsigned.
    InRange,
    /// Counts as many steps as its operand says against the limits, for an iteration of a vector loop that follows.
    /// Exits without counting if a limit is reached, or the fuel is not enough.
    CountSteps,
    /// Takes back one step that was counted: the vector loop has made the last iteration, after which there is no back
    /// edge.
    UncountStep,
    /// A primitive in each lane.
    Lanes(Primitive, Scalar),
    /// A shift of each lane, of this type, by a constant amount that is below its bits.
    ShiftLanes(Primitive, Scalar, u8),
    /// A function in each lane, which the next node calls, for its own vector and for this one
    /// (`passes/call_pairing.rs`).
    FirstOfPair(Primitive, Scalar),
    /// The quotients of the lanes of `i32` and one divisor, toward zero, with signs or without. The second operand has
    /// its magnified reciprocal in half as many lanes of `f64` (`passes/vectorise/vector_loop/division.rs`).
    Quotients {
        signed: bool,
    },
    /// The quotients of the lanes of `i32` and a constant, toward zero: the upper halves of the products with the
    /// second operand, which has the constant's multiplier in all lanes, and what has to be done to these.
    ConstantQuotients(ConstantDivision),
    /// The products, of 64 bits, of the lower halves of both operands' lanes of 64 bits, without signs.
    LowProducts,
    /// The same value in each lane; of eight or sixteen lanes half as many if it is an `f64`.
    Splat,
    /// Truth values in lanes as 0 or 1.
    LaneNumbers,
    /// The value of one lane.
    Extract(u8),
    /// The sum of all lanes.
    SumLanes,
    /// The number of each lane times a constant.
    Multiples(i32),
    /// A load or store of consecutive elements, by the primitive. The index is that of the first lane of vector 0; the
    /// number is that of the vector. One more operand, a truth value in each lane, is a mask: the other lanes access
    /// nothing. So it is for gathers.
    LoadLanes(Primitive, u8),
    StoreLanes(Primitive, u8),
    /// A gather: loads the elements at the index plus a displacement, which is the field, plus the offset of each lane,
    /// which are the third operand. All are in elements.
    Gather(Primitive, i32),
    /// Loads four consecutive elements of 32 bits, or in four lanes of 64, of every fourth row: those of one row to the
    /// first four lanes, those of the fourth row after it to the next four, and so on. The index is that of row 0.
    LoadRows(Primitive, Rows),
    /// Loads one element to each lane: that at the index plus a displacement in elements, which is the field.
    LoadSplat(Primitive, i32),
    /// Loads every other one of twice as many elements, as vector number so many of these. Sixteen lanes are chosen
    /// from two vectors, of which the second one begins with the last element of the first; a third operand says for
    /// each lane which element of both it is. Two more operands are masks of both vectors.
    LoadEven(Primitive, u8),
    /// Loads one byte of each row. The index is that of row 0.
    LoadBytes(Primitive, Rows),
    /// Loads four consecutive bytes of each row, as one number. The index is that of row 0; the third operand has the
    /// distance of each lane's row from that of the first lane.
    GatherBytes(Primitive, Rows),
    /// One of the four bytes of each lane, lowest first, extended as the load does it.
    Byte(Primitive, u8),
    /// Lanes of both operands in turn, in each group of four.
    Interleave(Interleave),
    /// Exits unless the frame of a native call fits the stacks, so that the interpreter need not make the call.
    HasRoom,
}

/// How quotients by a constant follow from the upper halves of products (`passes/vectorise/vector_loop/division.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConstantDivision {
    /// The numbers have signs.
    pub signed: bool,
    /// The divisor is negative.
    pub is_negative: bool,
    /// The multiplier is by 2^32 more than the number that is multiplied, so the dividend is added to the upper half.
    /// Without signs, the sum has 33 bits.
    pub adds_dividend: bool,
    /// By how much the upper half, or the sum, is shifted.
    pub shift: u8,
}

/// Rows of elements in a buffer, for a load of every fourth one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rows {
    /// How many elements are between the first of a row and the first of the next one.
    pub stride: i32,
    /// The first row that is loaded.
    pub first: i32,
}

impl Rows {
    /// The element from which on four are loaded to group number `group` of lanes, from row 0.
    pub fn element(self, group: i32) -> i32 {
        self.stride * (self.first + 4 * group)
    }
}

/// Which lanes of the operands are interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interleave {
    /// The first two of each operand: `a0 b0 a1 b1`.
    Low,
    /// The last two: `a2 b2 a3 b3`.
    High,
    /// The first two as a pair: `a0 a1 b0 b1`.
    LowPairs,
    /// The last two as a pair: `a2 a3 b2 b3`.
    HighPairs,
    /// Those of even numbers, in four lanes of 64 bits: `a0 b0 a2 b2`.
    Even,
    /// Those of odd numbers: `a1 b1 a3 b3`.
    Odd,
}

/// A node of a block, or a constant, which is in no block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub kind: Kind,
    pub ty: Ty,
    pub args: SmallVec<[NodeId; 3]>,
    /// The side exit that is taken if the node is a check that fails, or a primitive that traps.
    pub exit: Option<ExitId>,
}

impl Node {
    /// The type of its value, or of its lanes. Truth values and nodes without a value have no type that is used.
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

    /// How many lanes its value has, if it is a vector.
    pub fn width(&self) -> Option<Width> {
        self.ty.width()
    }

    /// Whether its code calls a function, which preserves callee-saved registers only. The first one of a pair is
    /// called by the next node.
    pub fn is_call(&self) -> bool {
        matches!(self.kind, Kind::Primitive(primitive, _) | Kind::Lanes(primitive, _) if primitive.effect() == Effect::Call)
    }
}

/// An entry of a frame state: the value that a slot has to hold at a side exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotValue {
    pub slot: u16,
    pub node: NodeId,
    pub part: Part,
}

/// Which part of a value is written to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All 32 bits, or all 64 bits to this slot and the next one.
    Whole,
    /// The low half of 64 bits.
    Low,
    /// The high half.
    High,
}

/// A move of references in the frame, from one register to another one, or of null. All sources are read before a
/// target is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefMove {
    pub target: u16,
    pub source: Option<u16>,
}

/// A side exit: native code gives up at an op, and the interpreter continues there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exit {
    pub pc: u32,
    pub frame_state: Vec<SlotValue>,
    /// The references that the registers of the frame have to hold, where others hold them.
    pub references: Vec<RefMove>,
    /// Stores that the program has made by then and that were moved after the loop (`passes/scalar_promotion.rs`).
    pub pending_stores: Vec<NodeId>,
    /// The block to continue at instead of in the interpreter: the scalar loop, where a guard of a vector loop fails.
    pub fallback: Option<Branch>,
}

/// A branch to a block, with the arguments for its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Branch {
    pub target: BlockIndex,
    pub args: Nodes,
    /// For a back edge: it counts down, and exits here when the limits have to be checked.
    pub limits_exit: Option<ExitId>,
    /// The target is a loop header that does nothing but test, and the test is known to be false.
    pub skips_header_test: bool,
}

impl Default for Branch {
    /// A branch that leads nowhere until its target is set.
    fn default() -> Branch {
        Branch { target: BlockIndex::NONE, args: Nodes::new(), limits_exit: None, skips_header_test: false }
    }
}

/// The tier that continues after a side exit at the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideExitKind {
    /// The interpreter executes the op, and machine code continues at the next block if the op falls through to the
    /// next one.
    Op,
    /// As `Op`, for a call of a function of the module.
    Call,
    /// The interpreter.
    Return,
}

/// The terminator of a block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Terminator {
    Jump(Branch),
    /// To the first branch if the truth value holds, else to the second.
    Branch(NodeId, [Branch; 2]),
    /// To the guards of a vector loop. If one fails, the second branch is taken, so its arguments have to be live here.
    Guarded([Branch; 2]),
    SideExit(SideExitKind, ExitId),
    /// None yet.
    Open,
}

impl Terminator {
    /// Its branches, in order.
    pub fn branches(&self) -> &[Branch] {
        match self {
            Terminator::Jump(branch) => std::slice::from_ref(branch),
            Terminator::Branch(_, branches) | Terminator::Guarded(branches) => branches,
            Terminator::SideExit(..) | Terminator::Open => &[],
        }
    }

    pub fn branches_mut(&mut self) -> &mut [Branch] {
        match self {
            Terminator::Jump(branch) => std::slice::from_mut(branch),
            Terminator::Branch(_, branches) | Terminator::Guarded(branches) => branches,
            Terminator::SideExit(..) | Terminator::Open => &mut [],
        }
    }
}

/// An entry into machine code: a resume point, or the entry or continuation of a native call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The op at which the interpreter is.
    pub pc: u32,
    /// It follows a side exit, and is entered from there only.
    pub resumes: bool,
    /// Machine code enters it, and not the interpreter.
    pub native: bool,
}

/// Where an argument or a result is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassedIn {
    /// In a register that is never allocated to a value.
    Register(u8),
    /// In a slot: an argument in one of the callee, a result in one of the caller.
    Slot,
}

/// An argument or result of a native call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Passed {
    pub of: Scalar,
    /// The slot in which the interpreter passes it, of the callee for an argument.
    pub slot: u16,
    pub passed_in: PassedIn,
}

/// A call, a return or an op of the runtime at the end of a block, which machine code performs itself, with the values
/// that it passes. If it cannot (the callee has no code, the stack is nearly full), the side exit of the block hands
/// the op to the interpreter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NativeTerminator {
    pub values: Vec<(NodeId, Passed)>,
    pub kind: NativeKind,
}

/// The native terminators of a graph by their blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NativeTerminators(Vec<(BlockIndex, NativeTerminator)>);

impl NativeTerminators {
    fn find(&self, block: BlockIndex) -> Result<usize, usize> {
        self.0.binary_search_by_key(&block, |(block, _)| *block)
    }

    pub fn reserve(&mut self, additional: usize) {
        self.0.reserve(additional);
    }

    /// Adds that of a block. Most are added in the order of the blocks.
    pub fn insert(&mut self, block: BlockIndex, terminator: NativeTerminator) {
        match self.find(block) {
            Ok(index) => self.0[index].1 = terminator,
            Err(index) => self.0.insert(index, (block, terminator)),
        }
    }

    pub fn get(&self, block: BlockIndex) -> Option<&NativeTerminator> {
        self.find(block).ok().map(|index| &self.0[index].1)
    }

    pub fn get_mut(&mut self, block: BlockIndex) -> Option<&mut NativeTerminator> {
        self.find(block).ok().map(|index| &mut self.0[index].1)
    }

    pub fn values(&self) -> impl Iterator<Item = &NativeTerminator> {
        self.0.iter().map(|(_, terminator)| terminator)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut NativeTerminator> {
        self.0.iter_mut().map(|(_, terminator)| terminator)
    }
}

/// The kind of a native terminator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NativeKind {
    /// It returns to the machine code that called the function. `slot` of a result is the one of this function that
    /// holds it.
    Return {
        operands: ListId,
        /// The number of reference registers of the frame, which have to be released.
        refs: u16,
        /// Whether some results are references, or are passed in slots.
        through_frames: bool,
    },
    /// It calls a function of the module.
    Call(NativeCall),
    /// It calls the function of the runtime that executes the op.
    Op(RuntimeOp),
}

/// An op that is executed by a function of the runtime, without the interpreter's dispatcher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RuntimeOp {
    /// The block after it, which loads its values from the slots.
    pub continuation: BlockIndex,
    /// The call, if the op calls an import.
    pub import: Option<CallId>,
    /// It allocates a buffer that is filled next and need not be zeroed (`build/zeroing_elision.rs`).
    pub is_filled: bool,
    /// It is no op of the bytecode: it moves the references of the exit, on an edge or before an op.
    pub moves_refs: bool,
    /// How machine code executes it itself in a frame that references are lent to.
    pub lent: Option<LentOp>,
    /// How machine code executes it itself while the call is not limited.
    pub direct: Option<DirectCall>,
}

/// A direct call of an import (`direct_import.rs` of the interpreter), with the values of its terminator as arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DirectCall {
    /// The addresses of the import and of the function that calls it.
    pub import: usize,
    pub function: usize,
    /// The type of the result, and the slot that it goes to.
    pub result: Option<(Scalar, u16)>,
}

/// An op that machine code executes if the references of its frame are lent (`lent_references.rs` of the interpreter).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LentOp {
    /// It reads an element of the lent list, whose index is in a slot.
    Get { list: u16, index: u16, result: u16 },
    /// It loads a reference to data of the module.
    Data { rodata: u16, result: u16 },
    /// It makes registers null: those whose bits are set.
    Discard(u64),
}

/// A native call: of a function of the module, by a call instruction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NativeCall {
    /// The ordinal of the function.
    pub callee: u32,
    /// Bytes from the slots of the caller to those of the callee.
    pub advance: u32,
    /// Bytes from the slots of the caller to the end of those of the callee.
    pub size: u32,
    /// Bytes of the callee's slots that are zeroed.
    pub zeroed: u32,
    /// Reference registers of the callee.
    pub refs: u16,
    /// Whether some arguments are references.
    pub passes_refs: bool,
    /// The block that the callee returns to.
    pub continuation: BlockIndex,
    /// Slots of the caller that are read after the call, and so have to be written before it.
    pub live_slots: Vec<u16>,
    /// The callee's first block was inlined before it. The call has been counted then, and the frame was found to fit.
    pub partly_inlined: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub entry: Option<Entry>,
    pub parameters: Nodes,
    pub nodes: Nodes,
    pub terminator: Terminator,
    /// For a preheader: the side exit of checks that are hoisted to it.
    pub preheader_exit: Option<ExitId>,
    /// For a loop header: the frame state at the beginning of an iteration.
    pub header_exit: Option<ExitId>,
    /// The number of loops that the block is in.
    pub depth: u32,
}

/// How a function is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompileMode {
    /// Values are SSA values of the whole function, and passes run.
    Optimised,
    /// The same, without passes whose code leans on guards that stand for several iterations: each access has a check
    /// of its own index.
    Checked,
    /// Values are in slots between pieces of a few ops (`build/baseline.rs`).
    Baseline,
}

/// The graph of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub nodes: Vec<Node>,
    pub blocks: PerBlock<Block>,
    pub exits: Vec<Exit>,
    /// The order in which blocks are laid out.
    pub order: Vec<BlockIndex>,
    /// For each node that was built, the op that it is from; for listings and the verifier.
    pub origins: Vec<u32>,
    /// Blocks and the ops that their terminators are from, likewise.
    pub terminator_ops: Vec<(BlockIndex, u32)>,
    /// The side exits at ends of blocks that machine code may perform itself.
    pub native_terminators: NativeTerminators,
    /// The block at which machine code that calls the function enters it, if it may, and the ordinal of the function.
    pub native_entry: Option<(BlockIndex, u32)>,
    /// The block at which the function enters itself when its first block has been inlined in the call.
    pub inlined_entry: Option<BlockIndex>,
    /// Loads that are made where their only user is, in a register that is never allocated to a value
    /// (`passes/splats.rs`), and numbers that are where their operand is (`passes/folding.rs`).
    pub folded: Bits,
    /// The visits that are left for it.
    pub effort: Effort,
    /// The decisions of passes about its loops.
    pub decisions: Decisions,
}

impl Blocks for Graph {
    fn count(&self) -> usize {
        self.blocks.len()
    }
}

impl Graph {
    /// Whether a load is made where its only user is, or a number is where its operand is.
    pub fn is_folded(&self, id: NodeId) -> bool {
        self.folded.contains(id.index())
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn exit(&self, id: ExitId) -> &Exit {
        &self.exits[id.0 as usize]
    }

    /// Adds a block without a terminator. The caller adds it to `order`.
    pub fn add_block(&mut self) -> BlockIndex {
        self.blocks.push(Block {
            entry: None,
            parameters: Nodes::new(),
            nodes: Nodes::new(),
            terminator: Terminator::Open,
            preheader_exit: None,
            header_exit: None,
            depth: 0,
        })
    }

    /// Adds a parameter to a block.
    pub fn parameter(&mut self, block: BlockIndex, ty: Ty) -> NodeId {
        let id = self.make_node(Kind::Parameter, ty, &[]);
        self.blocks[block].parameters.push(id);
        id
    }

    /// Adds a node at the end of a block.
    pub fn add_node(&mut self, block: BlockIndex, kind: Kind, ty: Ty, args: &[NodeId]) -> NodeId {
        let id = self.make_node(kind, ty, args);
        self.blocks[block].nodes.push(id);
        id
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, of: Scalar, bits: u64) -> NodeId {
        self.make_node(Kind::Constant(bits), Ty::Scalar(of), &[])
    }

    fn make_node(&mut self, kind: Kind, ty: Ty, args: &[NodeId]) -> NodeId {
        self.nodes.push(Node { kind, ty, args: SmallVec::from_slice(args), exit: None });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Adds a side exit.
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

    /// The branches of the terminator of a block.
    pub fn branches(&self, block: BlockIndex) -> &[Branch] {
        self.blocks[block].terminator.branches()
    }

    pub fn branches_mut(&mut self, block: BlockIndex) -> &mut [Branch] {
        self.blocks[block].terminator.branches_mut()
    }

    /// Whether a node extends a number of 32 bits with zeros.
    pub fn is_extension(&self, id: NodeId) -> bool {
        let node = self.node(id);
        node.kind == Kind::Primitive(Primitive::Zext64, Scalar::I64) && self.constant(node.args[0]).is_none()
    }

    /// The node in whose location a number is: the operand of a folded extension, else itself.
    pub fn unfolded(&self, id: NodeId) -> NodeId {
        if self.is_folded(id) && self.is_extension(id) { self.node(id).args[0] } else { id }
    }

    /// Calls `visit` with the operands of a node that are in registers or memory: for an operand that is a truth value
    /// or folded, with the operands of that, which is emitted where the node is.
    pub fn for_each_operand(&self, id: NodeId, visit: &mut impl FnMut(NodeId)) {
        for arg in &self.node(id).args {
            match self.node(*arg).ty {
                _ if self.is_folded(*arg) => self.for_each_operand(*arg, visit),
                Ty::Truth => self.for_each_operand(*arg, visit),
                Ty::Scalar(_) | Ty::Lanes(..) => visit(*arg),
                Ty::Nothing => {}
            }
        }
    }

    /// Whether the slot holds the value anyway: the value was loaded from it, and slots are written only at exits.
    pub fn is_in_slot(&self, slot_value: &SlotValue) -> bool {
        match (self.node(slot_value.node).kind, slot_value.part) {
            (Kind::Slot(own), Part::Whole | Part::Low) => own == slot_value.slot,
            (Kind::Slot(own), Part::High) => own + 1 == slot_value.slot,
            _ => false,
        }
    }

    /// Calls `visit` with the values that an exit uses. A number made of a truth value is computed by the exit, from
    /// the operands of the test, and a folded one is where its operand is.
    pub fn for_each_exit_use(&self, exit: ExitId, visit: &mut impl FnMut(NodeId)) {
        for slot_value in self.exit(exit).frame_state.iter().filter(|slot_value| !self.is_in_slot(slot_value)) {
            if self.node(slot_value.node).kind == Kind::Number || self.is_folded(slot_value.node) {
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
