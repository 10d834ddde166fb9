//! Encodes the functions of examples to bytecode, by the kinds of fields in `spec/README.md`. Called by `op_tests`.

use crate::model::abi::{Convention, Kind};
use crate::model::example::{Edge, Instruction, Literal, Operand, ProgramFunction, Register};
use crate::model::vm::{Body, Field, FieldKind, Isa, Op, Structure, Type};

/// The bytecode of a function, and the contents of its descriptor.
pub(super) struct Encoded {
    pub bytes: Vec<u8>,
    pub slots: u32,
    pub refs: u32,
    pub features: u32,
}

/// Encodes a function.
pub(super) fn function(isa: &Isa, function: &ProgramFunction) -> Encoded {
    let mut encoder = Encoder { isa, bytes: Vec::new(), slots: 0, refs: 0, features: 0, targets: Vec::new() };
    encoder.reserve_arguments(&function.convention);
    let marker = isa.ops.iter().find(|op| matches!(op.body, Body::Structure(Structure::Block))).map(|op| op.opcode);
    let mut starts = Vec::new();
    for block in &function.blocks {
        starts.push(encoder.bytes.len());
        encoder.bytes.extend(marker);
        block.iter().for_each(|instruction| encoder.instruction(instruction));
    }
    for (place, block) in std::mem::take(&mut encoder.targets) {
        // A target that does not exist is encoded as one that is never a block, for the verifier to refuse.
        let start = starts.get(block).and_then(|start| u32::try_from(*start).ok()).unwrap_or(u32::MAX);
        encoder.bytes[place..place + 4].copy_from_slice(&start.to_le_bytes());
    }
    let Encoder { bytes, slots, refs, features, .. } = encoder;
    Encoded { bytes, slots, refs, features }
}

struct Encoder<'a> {
    isa: &'a Isa,
    bytes: Vec<u8>,
    slots: u32,
    refs: u32,
    features: u32,
    /// Offsets of branch targets and the blocks that they name.
    targets: Vec<(usize, usize)>,
}

impl Encoder<'_> {
    /// The frame has room for the arguments even if the code names none of them.
    fn reserve_arguments(&mut self, convention: &Convention) {
        for kind in convention.fixed_args().unwrap_or_default() {
            match kind {
                Kind::I32 | Kind::F32 => self.slots += 1,
                Kind::I64 | Kind::F64 => self.slots = self.slots.next_multiple_of(2) + 2,
                Kind::Ref => self.refs += 1,
            }
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        let Some(op) = self.isa.op(&instruction.mnemonic) else { return };
        self.opcode(op);
        for (field, operand) in op.fields.iter().zip(&instruction.operands) {
            self.operand(field, operand);
        }
    }

    fn opcode(&mut self, op: &Op) {
        if let Some(set) = self.isa.sets.iter().find(|set| set.name == op.set) {
            self.features |= set.feature.unwrap_or(0);
        }
        self.bytes.extend(self.isa.prefix(&op.set));
        self.bytes.push(op.opcode);
    }

    fn operand(&mut self, field: &Field, operand: &Operand) {
        match operand {
            Operand::Reg(register) => self.register(*register, field.ty),
            Operand::Regs(registers) => {
                self.count(registers.len());
                registers.iter().for_each(|register| self.register(*register, field.ty));
            }
            Operand::Imm(literal) => match literal {
                Literal::I32(value) => self.bytes.extend(value.to_le_bytes()),
                Literal::I64(value) => self.bytes.extend(value.to_le_bytes()),
                Literal::F32(bits) => self.bytes.extend(bits.to_le_bytes()),
                Literal::F64(bits) => self.bytes.extend(bits.to_le_bytes()),
                _ => {}
            },
            Operand::Ordinal(ordinal) => self.bytes.extend(ordinal.to_le_bytes()),
            Operand::Import(ordinal) => {
                let bits = ordinal | self.isa.number("import_bit") as u32;
                self.bytes.extend(bits.to_le_bytes());
            }
            Operand::String(text) => {
                let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
                self.bytes.extend(length.to_le_bytes());
                self.bytes.extend(text.bytes().take(usize::from(length)));
            }
            Operand::Edge(edge) => self.edge(edge),
            Operand::Target(block) => self.target(*block),
            Operand::Segments(segments) => {
                self.count(segments.len());
                self.bytes.extend(segments.iter().flat_map(|segment| segment.to_le_bytes()));
            }
            Operand::Cases(cases) => {
                self.u16(cases.len());
                cases.iter().for_each(|edge| self.edge(edge));
            }
        }
        debug_assert!(field.kind != FieldKind::Function || !matches!(operand, Operand::Regs(_)));
    }

    fn register(&mut self, register: Register, ty: Option<Type>) {
        if register.is_ref {
            self.refs = self.refs.max(u32::from(register.index) + 1);
        } else {
            // Where the type follows from a convention, the value may be a wide one.
            let wide = !matches!(ty, Some(Type::I32 | Type::F32));
            self.slots = self.slots.max(u32::from(register.index) + if wide { 2 } else { 1 });
        }
        let bit = |name, is_set| if is_set { self.isa.number(name) as u16 } else { 0 };
        let bits = register.index | bit("ref_bit", register.is_ref) | bit("move_bit", register.moved);
        self.bytes.extend(bits.to_le_bytes());
    }

    fn edge(&mut self, edge: &Edge) {
        self.target(edge.target);
        self.count(edge.remap.len());
        for (source, target) in &edge.remap {
            self.register(*source, Some(Type::I32));
            self.register(*target, Some(Type::I32));
        }
    }

    fn target(&mut self, block: usize) {
        self.targets.push((self.bytes.len(), block));
        self.bytes.extend([0; 4]);
    }

    /// Padding to an even offset, and a count.
    fn count(&mut self, count: usize) {
        if !self.bytes.len().is_multiple_of(2) {
            self.bytes.push(0);
        }
        self.u16(count);
    }

    fn u16(&mut self, value: usize) {
        self.bytes.extend(u16::try_from(value).unwrap_or(u16::MAX).to_le_bytes());
    }
}
