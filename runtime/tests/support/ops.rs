//! The ops that random programs choose from: all of the specs but those that direct control, in pools by what they take
//! and give. A new op is in the pool of its kind without a line here, with operands that its encoding asks for.

use std::fmt::Write;
use std::sync::LazyLock;

use vireo_codegen::Spec;
use vireo_codegen::model::vm::{Body, Field, FieldKind, Op, TextPart, Type};
use vireo_codegen::sem::{Effect, Expr, ExprKind};

use super::{CONSTANTS, FLOAT_CONSTANTS, MASK, ONE, Writer};

/// Ops that a place in a program may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    /// Two integers to one of the same type.
    Combine,
    /// Other integer arithmetic.
    Integer,
    /// Integer arithmetic that can trap.
    Divide,
    /// Truth values, of integers.
    Truth,
    /// Truth values, of floats.
    FloatTruth,
    /// Immediates and fixed values.
    Constant,
    /// Choices between values.
    Choose,
    /// Floats to a float, inline.
    Float,
    /// Floats to a float, by a function that takes long.
    Library,
    /// Between integers and floats.
    Convert,
    /// An element of a buffer.
    Element,
    /// A value global at a fixed offset.
    Global,
    /// Everything else on references, lists, buffers and globals: mostly ops that compiled code lets the runtime
    /// execute.
    Runtime,
}

static SPEC: LazyLock<Spec> =
    LazyLock::new(|| vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}")));

static POOLS: LazyLock<Vec<(Pool, &'static Op)>> =
    LazyLock::new(|| SPEC.vm("vm").into_iter().flat_map(|vm| &vm.ops).filter_map(|op| Some((pool(op)?, op))).collect());

fn pool(op: &Op) -> Option<Pool> {
    let expr = match &op.body {
        Body::Semantics(expr) => expr,
        Body::Helper(_) => return Some(Pool::Runtime),
        Body::Control(_) | Body::Structure(_) => return None,
    };
    let result = op.result().and_then(|field| field.ty);
    let reads: Vec<Type> = reads(op).filter_map(|field| field.ty).collect();
    if op.fields.iter().any(|field| field.kind == FieldKind::Global) {
        return Some(Pool::Global);
    }
    let properties = &op.properties;
    if properties.reads_memory || properties.writes_memory || properties.touches_refs {
        let element = matches!(reads.as_slice(), [Type::Buffer, Type::I64] | [Type::Buffer, Type::I64, _]);
        return Some(if element { Pool::Element } else { Pool::Runtime });
    }
    let floats = reads.iter().chain(&result).filter(|ty| is_float(**ty)).count();
    Some(if matches!(expr.kind, ExprKind::BoolToI32(_)) {
        if floats > 0 { Pool::FloatTruth } else { Pool::Truth }
    } else if reads.is_empty() {
        Pool::Constant
    } else if has(expr, &["select", "table_select"]) {
        Pool::Choose
    } else if floats > 0 {
        match floats == reads.len() + result.iter().count() {
            _ if properties.calls => Pool::Library,
            true => Pool::Float,
            false => Pool::Convert,
        }
    } else if properties.can_trap {
        Pool::Divide
    } else if reads.len() == 2 && reads.iter().all(|ty| Some(*ty) == result) {
        Pool::Combine
    } else {
        Pool::Integer
    })
}

fn reads(op: &Op) -> impl Iterator<Item = &Field> {
    op.fields.iter().filter(|field| matches!(field.kind, FieldKind::Reg | FieldKind::Regs))
}

fn is_float(ty: Type) -> bool {
    matches!(ty, Type::F32 | Type::F64)
}

fn is_wide(ty: Type) -> bool {
    matches!(ty, Type::I64 | Type::F64)
}

fn has(expr: &Expr, primitives: &[&str]) -> bool {
    let mut found = false;
    expr.for_each_primitive(&mut |primitive| found |= primitives.contains(&primitive.name()));
    found
}

/// The field whose value a store writes to memory.
fn stored(op: &Op) -> Option<&str> {
    let Body::Semantics(Expr { kind: ExprKind::Call { primitive, args, .. }, .. }) = &op.body else { return None };
    match (primitive.effect(), args.last().map(|arg| &arg.kind)) {
        (Effect::Store, Some(ExprKind::Operand(name))) => Some(name),
        _ => None,
    }
}

/// Whether an op reads or writes a value global at an offset that a register holds.
fn is_indirect(op: &Op) -> bool {
    let Body::Semantics(expr) = &op.body else { return false };
    let mut found = false;
    expr.for_each_primitive(&mut |primitive| {
        found |= matches!(primitive.effect(), Effect::IndirectLoad | Effect::IndirectStore);
    });
    found
}

/// The text of an op with these operands, one for each field.
fn render(op: &Op, operands: &[String]) -> String {
    let operand = |name: &str| op.fields.iter().zip(operands).find(|(field, _)| field.name == name).unwrap().1.as_str();
    let result = op.result().map(|field| format!("{} = ", operand(&field.name))).unwrap_or_default();
    let rest: String = match &op.text {
        Some(parts) => parts
            .iter()
            .map(|part| match part {
                TextPart::Literal(text) => text,
                TextPart::Field(name) => operand(name),
            })
            .collect(),
        None => {
            let others = op.fields.iter().filter(|field| field.kind != FieldKind::Result);
            others.map(|field| operand(&field.name)).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
        }
    };
    format!("{result}vm.{} {rest}", op.mnemonic)
}

impl Writer<'_> {
    /// An op of a pool.
    pub fn choose_op(&mut self, pool: Pool) -> &'static Op {
        let first = POOLS.iter().filter(|(of, op)| *of == pool && self.admits(op));
        let ops: Vec<&'static Op> = first.map(|(_, op)| *op).collect();
        self.random.choose(&ops)
    }

    /// Whether the reference runtime is known to do the same, where that matters: its ranges wrap around.
    fn admits(&self, op: &Op) -> bool {
        let range = || reads(op).filter(|field| field.ty == Some(Type::I64)).count() > 0;
        self.portable.is_none_or(|ops| ops.contains(&op.mnemonic) && !(pool(op) == Some(Pool::Runtime) && range()))
    }

    /// One op of a pool.
    pub fn one_of(&mut self, pool: Pool) {
        let op = self.choose_op(pool);
        self.write_op(op, None);
    }

    /// An op with random operands; the result may have a register already.
    pub fn write_op(&mut self, op: &'static Op, target: Option<&str>) {
        let mut operands = Vec::new();
        for (position, field) in op.fields.iter().enumerate() {
            operands.push(match (field.kind, target) {
                (FieldKind::Result, Some(target)) => target.to_string(),
                (FieldKind::Result, None) => self.result_of(op, field),
                _ => self.operand(op, position),
            });
        }
        line!(self, "{}", render(op, &operands));
    }

    /// An op all of whose operands are registers, which are given.
    pub fn write_op_on(&mut self, op: &'static Op, operands: &[String]) {
        line!(self, "{}", render(op, operands));
    }

    fn result_of(&mut self, op: &Op, field: &Field) -> String {
        match field.ty.unwrap_or(Type::Any) {
            ty if is_float(ty) => self.float_target(is_wide(ty)),
            ty @ (Type::I32 | Type::I64) => self.integer(is_wide(ty)),
            _ if self.makes_list(op) => "%r1".to_string(),
            _ => "%r2".to_string(),
        }
    }

    /// Whether a type in the text of an op is that of the elements of a list.
    fn makes_list(&self, op: &Op) -> bool {
        let parts = op.text.iter().flatten();
        parts.into_iter().any(|part| matches!(part, TextPart::Literal(text) if text.ends_with("!vm.list<")))
    }

    fn operand(&mut self, op: &'static Op, position: usize) -> String {
        let field = &op.fields[position];
        let ty = field.ty.unwrap_or(Type::Any);
        match field.kind {
            FieldKind::Reg => self.register(op, position, ty),
            FieldKind::Regs => {
                // An op for lists of references takes the references away.
                let count = self.random.below(4);
                let registers: Vec<String> = (0..count)
                    .map(|_| match ty {
                        ty if ty.is_ref() && op.result().is_none() => "%r2".to_string(),
                        ty if ty.is_ref() => self.buffer().to_string(),
                        ty => self.value(ty),
                    })
                    .collect();
                registers.join(", ")
            }
            FieldKind::Imm if is_float(ty) => self.random.choose(FLOAT_CONSTANTS).to_string(),
            FieldKind::Imm => self.random.choose(CONSTANTS).to_string(),
            // Floats are in places of their own: who reads the bits of one may see which NaN it is.
            FieldKind::Global => match ty {
                Type::F32 => "24".to_string(),
                Type::F64 => "32".to_string(),
                Type::I32 | Type::I64 => self.random.choose(&[0, 4, 8, 8, 13, 16]).to_string(),
                _ => self.random.below(2).to_string(),
            },
            FieldKind::Type if self.makes_list(op) => "i32".to_string(),
            FieldKind::Type => "!vm.buffer".to_string(),
            FieldKind::String => "\"seen\"".to_string(),
            _ => "0".to_string(),
        }
    }

    /// A register that is read as a value.
    fn value(&mut self, ty: Type) -> String {
        if is_float(ty) { self.float(is_wide(ty)) } else { self.integer(is_wide(ty)) }
    }

    /// The register that an op reads: mostly one that does not make it trap.
    fn register(&mut self, op: &'static Op, position: usize, ty: Type) -> String {
        let field = &op.fields[position];
        let of_type = |ty: Type| reads(op).any(|field| field.ty == Some(ty));
        let is_first = reads(op).find(|other| other.ty == field.ty) == Some(field);
        let is_last = reads(op).last() == Some(field);
        let makes_ref = op.result().and_then(|field| field.ty).is_some_and(Type::is_ref);
        let any_ref = makes_ref || op.fields.iter().any(|field| field.ty == Some(Type::Ref));
        let wide = is_wide(ty);
        let free = self.random.chance(8) && self.portable.is_none();
        match ty {
            Type::Buffer => return self.buffer().to_string(),
            Type::List => return if any_ref { "%r6" } else { "%r1" }.to_string(),
            Type::Ref | Type::Any if field.movable && self.random.chance(16) => return "%R2".to_string(),
            Type::Ref | Type::Any => return self.reference().to_string(),
            _ => {}
        }
        // Its bits, whatever they are: those of a NaN are not for everybody to see.
        if stored(op) == Some(&field.name) {
            return self.integer(wide);
        }
        match pool(op) {
            Some(Pool::Element) if ty == Type::I64 => return self.index(),
            Some(Pool::Divide) if is_last && !free => return self.divisor(position, ty),
            Some(Pool::Runtime) => {}
            _ if is_float(ty) && matches!(&op.body, Body::Semantics(expr) if has(expr, &["bits"])) => {
                return self.one_nan(position, wide);
            }
            _ => return self.value(ty),
        }
        if is_float(ty) {
            return self.float_target(wide);
        }
        let temporary = Self::temporary(position, wide);
        if is_indirect(op) && is_first && ty == Type::I32 {
            // A place of the type of the value.
            match op.fields.iter().filter_map(|field| field.ty).find(|ty| is_float(*ty)) {
                Some(Type::F32) => line!(self, "{temporary} = vm.const.i32 24"),
                Some(_) => line!(self, "{temporary} = vm.const.i32 32"),
                None => {
                    let word = self.word();
                    line!(self, "{temporary} = vm.and.i32 {word}, %i80");
                }
            }
        } else if free {
            return self.value(ty);
        } else if wide && (of_type(Type::Buffer) || makes_ref) {
            let pair = self.pair();
            line!(self, "{temporary} = vm.and.i64 {pair}, {MASK}");
        } else if makes_ref && of_type(Type::I64) {
            line!(self, "{temporary} = vm.const.i32 16");
        } else if ty == Type::I32 && (of_type(Type::List) && is_first || self.makes_list(op)) {
            let word = self.word();
            line!(self, "{temporary} = vm.and.i32 {word}, %i80");
        } else if ty == Type::I32 && any_ref {
            let word = self.word();
            line!(self, "{temporary} = vm.and.i32 {word}, %i82");
        } else {
            return self.value(ty);
        }
        temporary
    }

    /// A reference, mostly to a buffer.
    fn reference(&mut self) -> &'static str {
        if self.random.chance(4) { self.random.choose(&["%r0", "%r2", "%r3", "%r4"]) } else { self.buffer() }
    }

    /// A register for an operand that is made for the op.
    fn temporary(position: usize, wide: bool) -> String {
        let first = super::TEMPORARIES + 2 * position as u64;
        if wide { format!("%i{first}:{}", first + 1) } else { format!("%i{first}") }
    }

    /// An odd number; where the reference runtime ends its process, one that is neither zero nor -1.
    fn divisor(&mut self, position: usize, ty: Type) -> String {
        let (one, mask) = if is_wide(ty) { (ONE, MASK) } else { ("%i82", "%i80") };
        let (safe, ty, mut number) = (Self::temporary(position, is_wide(ty)), ty.name(), self.integer(is_wide(ty)));
        if self.portable.is_some() {
            line!(self, "{safe} = vm.and.{ty} {number}, {mask}");
            number = safe.clone();
        }
        line!(self, "{safe} = vm.or.{ty} {number}, {one}");
        safe
    }

    /// A float that, if it is a NaN, is always the same one.
    fn one_nan(&mut self, position: usize, wide: bool) -> String {
        let (safe, source) = (Self::temporary(position, wide), self.float_target(wide));
        self.without_nan(&safe, &source, wide);
        safe
    }
}
