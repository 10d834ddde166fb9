//! The builder's methods for generated code: reads and writes of registers, constants, checks of buffers, and
//! primitives.

use smallvec::{SmallVec, smallvec};

use super::builder::{FunctionBuilder, LiveIn, MAX_TABLE_ENTRIES};
use super::defs::Def;
use super::fold;
use crate::bytecode::{GlobalOffset, ListId, RefReg, Reg};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Kind, NodeId, Part};
use crate::ir::types::{Effect, Scalar, Ty};

impl FunctionBuilder<'_> {
    /// Reads a register.
    pub fn read(&mut self, of: Scalar, reg: Reg) -> NodeId {
        let slot = reg.index();
        let is_in_slot = |slot: usize| self.defs.home.contains(slot);
        if is_in_slot(slot) && (!of.is_wide() || is_in_slot(slot + 1)) {
            return self.slot(LiveIn { slot: reg.0, of });
        }
        if !of.is_wide() {
            if let Some(Def { node, part: Part::Whole }) = self.defs.get(slot) {
                return self.cast(node, of);
            }
            let word = self.narrow(slot);
            return self.cast(word, of);
        }
        if let (Some(Def { node, part: Part::Low }), Some(Def { node: other, part: Part::High })) =
            (self.defs.get(slot), self.defs.get(slot + 1))
            && node == other
        {
            return self.cast(node, of);
        }
        let (low, high) = (self.narrow(slot), self.narrow(slot + 1));
        let both = match (self.graph.constant(low), self.graph.constant(high)) {
            (Some(low), Some(high)) => self.constant(Scalar::I64, low | high << 32),
            _ => self.add(Kind::Pair, Ty::Scalar(Scalar::I64), &[low, high], false),
        };
        self.cast(both, of)
    }

    /// Writes a register.
    pub fn write(&mut self, of: Scalar, reg: Reg, value: NodeId) {
        self.define(of, reg.index(), value);
    }

    /// A constant with these bits.
    pub fn constant(&mut self, of: Scalar, bits: u64) -> NodeId {
        if let Some(known) = self.constant_nodes.get(&(bits, of)) {
            return *known;
        }
        let node = self.push(Kind::Constant(bits), Ty::Scalar(of), SmallVec::new(), None);
        self.constant_nodes.insert((bits, of), node);
        node
    }

    /// The check that a reference register holds a buffer, which stands for the buffer as an operand.
    pub fn buffer(&mut self, reg: RefReg) -> NodeId {
        // An op that reads null is executed by the runtime, which fails.
        let holder = self.refs.holder(reg.index()).unwrap_or(reg.index() as u16);
        self.add(Kind::IsBuffer(holder), Ty::Nothing, &[], true)
    }

    /// The bytes of a buffer, as [`FunctionBuilder::buffer`] gives it.
    pub fn length(&mut self, buffer: NodeId) -> NodeId {
        let Kind::IsBuffer(reg) = self.graph.node(buffer).kind else { unreachable!("a buffer is checked to be one") };
        self.add(Kind::Elements(reg, 0), Ty::Scalar(Scalar::I64), &[buffer], false)
    }

    /// The object that a register of references refers to, as a number: zero if there is none.
    pub fn reference(&mut self, reg: RefReg) -> NodeId {
        let holder = self.refs.holder(reg.index()).unwrap_or(reg.index() as u16);
        self.add(Kind::Reference(holder), Ty::Scalar(Scalar::I64), &[], false)
    }

    /// The value of the register that an index selects from a list, or the default: a chain of tests.
    pub fn table_select(&mut self, of: Scalar, index: NodeId, default: NodeId, table: ListId) -> NodeId {
        let decoded = self.decoded;
        let list = decoded.list(table);
        self.failed |= list.len() > MAX_TABLE_ENTRIES;
        list.iter().take(MAX_TABLE_ENTRIES).enumerate().fold(default, |rest, (number, reg)| {
            let number = self.constant(Scalar::I32, number as u64);
            let is_this = self.primitive(Primitive::Eq, Scalar::I32, &[index, number]);
            let value = self.read(of, reg.reg());
            self.primitive(Primitive::Select, of, &[is_this, value, rest])
        })
    }

    /// The address of a value global. The verifier has proved that the memory of globals has it.
    pub fn global(&mut self, offset: GlobalOffset) -> NodeId {
        let globals = self.add(Kind::Globals, Ty::Scalar(Scalar::I64), &[], false);
        let offset = self.constant(Scalar::I64, u64::from(offset.0));
        self.primitive(Primitive::WrappingAdd, Scalar::I64, &[globals, offset])
    }

    /// A truth value as a number.
    pub fn number(&mut self, truth: NodeId) -> NodeId {
        self.add(Kind::Number, Ty::Scalar(Scalar::I32), &[truth], false)
    }

    /// A primitive on operands, those of buffers as [`FunctionBuilder::buffer`] gives them.
    pub fn primitive(&mut self, primitive: Primitive, of: Scalar, args: &[NodeId]) -> NodeId {
        let kind = Kind::Primitive(primitive, of);
        let ty = primitive.result(of);
        match primitive.effect() {
            Effect::Pure | Effect::Call => {
                fold::fold(self, primitive, of, args).unwrap_or_else(|| self.add(kind, ty, args, false))
            }
            Effect::Trap => self.add(kind, ty, args, true),
            Effect::Load | Effect::Store => {
                let Kind::IsBuffer(reg) = self.graph.node(args[0]).kind else {
                    return self.global_element(kind, ty, args);
                };
                if primitive.effect() == Effect::Store {
                    self.add(Kind::IsMutable(reg), Ty::Nothing, &args[..1], true);
                }
                let shift = primitive.element_shift();
                let elements = self.add(Kind::Elements(reg, shift), Ty::Scalar(Scalar::I64), &args[..1], false);
                self.add(Kind::InRange, Ty::Nothing, &[args[1], elements], true);
                let base = self.add(Kind::Base(reg), Ty::Scalar(Scalar::I64), &args[..1], false);
                let mut operands: SmallVec<[NodeId; 3]> = SmallVec::from_slice(args);
                operands[0] = base;
                self.add(kind, ty, &operands, false)
            }
        }
    }

    /// The truth value that a number was made of.
    pub(crate) fn truth(&self, number: NodeId) -> Option<NodeId> {
        let node = self.graph.node(number);
        (node.kind == Kind::Number).then(|| node.args[0])
    }

    /// The truth value of which a number is made, and whether the number is its negation: of a comparison that the
    /// bytecode lacks, compilers make the opposite one and its exclusive or with 1.
    pub(super) fn truth_or_negation(&self, mut number: NodeId) -> Option<(NodeId, bool)> {
        let mut is_negated = false;
        loop {
            let node = self.graph.node(number);
            match (node.kind, &node.args[..]) {
                (Kind::Number, &[truth]) => return Some((truth, is_negated)),
                (Kind::Primitive(Primitive::Xor, Scalar::I32), &[a, b]) if self.bits(b) == Some(1) => number = a,
                (Kind::Primitive(Primitive::Xor, Scalar::I32), &[a, b]) if self.bits(a) == Some(1) => number = b,
                _ => return None,
            }
            is_negated = !is_negated;
        }
    }

    /// A load or store at an address from [`FunctionBuilder::global`].
    fn global_element(&mut self, kind: Kind, ty: Ty, args: &[NodeId]) -> NodeId {
        let address = self.graph.node(args[0]).args.clone();
        let (Kind::Primitive(primitive, _), &[globals, offset]) = (kind, &address[..]) else {
            self.failed = true;
            return args[0];
        };
        let (offset, shift) = (self.bits(offset).unwrap_or(0), primitive.element_shift());
        let is_aligned = offset.is_multiple_of(1 << shift);
        let (base, index) = if is_aligned { (globals, offset >> shift) } else { (args[0], 0) };
        let mut operands: SmallVec<[NodeId; 3]> = smallvec![base, self.constant(Scalar::I64, index)];
        operands.extend_from_slice(&args[1..]);
        self.add(kind, ty, &operands, false)
    }

    /// The bits of a constant.
    pub(crate) fn bits(&self, node: NodeId) -> Option<u64> {
        self.graph.constant(node)
    }
}
