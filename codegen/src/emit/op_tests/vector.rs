//! Turns an example in vector form into a program: a function that takes the operands, does the one op and returns its
//! result.

use super::case::Case;
use crate::model::abi::{Convention, Kind, Slot};
use crate::model::example::{
    Instruction, Literal, Operand, Outcome, ProgramExample, ProgramFunction, Register, VectorExample,
};
use crate::model::vm::{Body, ControlOp, Field, FieldKind, Isa, Op, Type};

/// The program of `example`.
pub(super) fn case(isa: &Isa, op: &Op, example: &VectorExample) -> Case {
    let mut builder = Builder::default();
    let operands: Vec<_> = op.fields.iter().map(|field| builder.operand(field, example)).collect();
    let result = op.result().zip(operands.iter().zip(&op.fields).find_map(|(operand, field)| match operand {
        Operand::Reg(register) if field.kind == FieldKind::Result => Some(*register),
        _ => None,
    }));
    let returned = result.map(|(_, register)| Operand::Regs(vec![register]));
    let convention = Convention {
        args: builder.kinds.iter().copied().map(Slot::One).collect(),
        results: result.and_then(|(field, _)| field.ty).map(Type::kind).into_iter().collect(),
    };
    let mut code = vec![Instruction { mnemonic: op.mnemonic.clone(), operands }];
    if let Some(op) = return_op(isa) {
        let operands = vec![returned.unwrap_or(Operand::Regs(Vec::new()))];
        code.push(Instruction { mnemonic: op.mnemonic.clone(), operands });
    }
    let mut after = Vec::new();
    let mut globals_after = None;
    for (name, contents) in &example.after {
        match (builder.fields.iter().find(|(field, _)| field == name), contents) {
            (Some((_, index)), _) => after.push((*index, contents.clone())),
            (None, crate::model::example::After::Bytes(bytes)) => globals_after = Some(bytes.clone()),
            (None, crate::model::example::After::List(_)) => {}
        }
    }
    let globals = example.globals.clone().unwrap_or_default();
    Case {
        program: ProgramExample {
            name: example.name.clone().unwrap_or_default(),
            functions: vec![ProgramFunction { convention, blocks: vec![code] }],
            args: builder.args,
            outcome: match &example.outcome {
                // A result that names an operand is the object of that argument.
                Outcome::Results(values) => {
                    Outcome::Results(values.iter().map(|value| resolve(value, &builder.fields)).collect())
                }
                Outcome::Traps(code) => Outcome::Traps(code.clone()),
            },
            types: builder.types,
            imports: Vec::new(),
            rodata: builder.rodata,
            global_bytes: u32::try_from(globals.len()).unwrap_or(u32::MAX),
            global_refs: builder.global_refs,
            origin: example.origin.clone(),
        },
        globals,
        after,
        globals_after,
        any_nan: example.any_nan,
        ulp: example.ulp,
    }
}

fn return_op(isa: &Isa) -> Option<&Op> {
    isa.ops.iter().find(|op| matches!(op.body, Body::Control(ControlOp::Return)))
}

#[derive(Default)]
struct Builder {
    kinds: Vec<Kind>,
    args: Vec<Literal>,
    /// The argument that each register field is.
    fields: Vec<(String, usize)>,
    types: Vec<String>,
    rodata: Vec<Vec<u8>>,
    global_refs: u32,
    slots: u16,
    refs: u16,
}

impl Builder {
    fn operand(&mut self, field: &Field, example: &VectorExample) -> Operand {
        let value = example.inputs.iter().find(|(name, _)| *name == field.name).map(|(_, value)| value);
        let ty = field.ty.unwrap_or(Type::I32);
        match (field.kind, value) {
            // Results get their registers here as well: after the arguments of the fields before, and of none after
            // them.
            (FieldKind::Result, _) => Operand::Reg(self.register(ty)),
            (FieldKind::Reg, Some(value)) => {
                self.fields.push((field.name.clone(), self.args.len()));
                Operand::Reg(self.argument(ty, value))
            }
            (FieldKind::Regs, Some(Literal::Regs(values))) => {
                Operand::Regs(values.iter().map(|value| self.argument(ty, value)).collect())
            }
            (FieldKind::Imm, Some(value)) => Operand::Imm(value.clone()),
            (FieldKind::Type, Some(Literal::TypeName(name))) => {
                self.types.push(name.clone());
                Operand::Ordinal(ordinal(self.types.len() - 1))
            }
            (FieldKind::Rodata, Some(Literal::Buffer { bytes, .. })) => {
                self.rodata.push(bytes.clone());
                Operand::Ordinal(ordinal(self.rodata.len() - 1))
            }
            (FieldKind::Global, Some(Literal::Ordinal(value))) => {
                if ty.is_ref() {
                    self.global_refs = self.global_refs.max(value + 1);
                }
                Operand::Ordinal(*value)
            }
            (FieldKind::String, Some(Literal::String(text))) => Operand::String(text.clone()),
            // Fields of other kinds are refused in the vector form.
            (_, Some(Literal::Ordinal(value))) => Operand::Ordinal(*value),
            _ => Operand::Regs(Vec::new()),
        }
    }

    fn argument(&mut self, ty: Type, value: &Literal) -> Register {
        self.kinds.push(ty.kind());
        let value = resolve(value, &self.fields);
        self.args.push(value);
        self.register(ty)
    }

    fn register(&mut self, ty: Type) -> Register {
        let index = match ty {
            Type::I32 | Type::F32 => {
                self.slots += 1;
                self.slots - 1
            }
            Type::I64 | Type::F64 => {
                let index = self.slots.next_multiple_of(2);
                self.slots = index + 2;
                index
            }
            Type::Ref | Type::Buffer | Type::List | Type::Any => {
                self.refs += 1;
                self.refs - 1
            }
        };
        Register { is_ref: ty.kind() == Kind::Ref, index, moved: false }
    }
}

/// An alias becomes the index of the argument that it names.
fn resolve(value: &Literal, fields: &[(String, usize)]) -> Literal {
    match value {
        Literal::Same(name) => fields
            .iter()
            .find(|(field, _)| field == name)
            .map_or(Literal::Null, |(_, index)| Literal::Ordinal(ordinal(*index))),
        other => other.clone(),
    }
}

fn ordinal(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
