//! The operands of decoded ops: name and type of each field, for all emitters of the VM.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::model::vm::{Body, ControlOp, Field, FieldKind, Isa, Op, Type};

/// A field of the decoded `Op` enum.
pub(crate) struct Operand {
    /// Its name.
    pub name: Ident,
    /// Its Rust type.
    pub ty: TokenStream,
}

/// The fields of the decoded op. The fields of a call are longer than an op; they are in a call site, and the op has
/// its index.
pub(crate) fn operands(op: &Op) -> Vec<Operand> {
    if is_call(op) {
        return vec![Operand { name: format_ident!("call"), ty: quote!(CallId) }];
    }
    op.fields.iter().map(|field| Operand { name: ident(&field.name), ty: rust_type(field) }).collect()
}

/// Whether the operands are in a call site.
pub(crate) fn is_call(op: &Op) -> bool {
    matches!(op.body, Body::Control(control) if control.is_call())
}

/// The ops that have behaviour, which are those of the decoded form.
pub(crate) fn decoded_ops(isa: &Isa) -> impl Iterator<Item = &Op> {
    isa.ops.iter().filter(|op| !matches!(op.body, Body::Structure(_)))
}

/// The families of the ops that have behaviour.
pub(crate) fn decoded_families(isa: &Isa) -> Vec<(&str, Vec<&Op>)> {
    let mut families: Vec<(&str, Vec<&Op>)> = isa.families().into_iter().collect();
    for (_, ops) in &mut families {
        ops.retain(|op| !matches!(op.body, Body::Structure(_)));
    }
    families.retain(|(_, ops)| !ops.is_empty());
    families
}

/// The variant of the decoded `Op` enum.
pub(crate) fn variant(op: &Op) -> Ident {
    ident(&op.variant)
}

/// The name of the op's functions: `add_i32`.
pub(crate) fn function(op: &Op) -> Ident {
    ident(&op.mnemonic.replace('.', "_"))
}

/// The name of the op's opcode constant: `ADD_I32`.
pub(crate) fn constant(op: &Op) -> Ident {
    ident(&op.mnemonic.replace('.', "_").to_uppercase())
}

/// An identifier; a raw one where the name is a keyword.
pub(crate) fn ident(name: &str) -> Ident {
    match syn::parse_str::<Ident>(name) {
        Ok(ident) => ident,
        Err(_) => format_ident!("r#{name}"),
    }
}

/// `spec/isa/vm/ops/integer.yaml:12 add.i32`, for the comment that names where generated lines come from.
pub(crate) fn origin(op: &Op) -> String {
    format!("{} {}", op.origin, op.mnemonic)
}

/// The path of a per-family file, for the banner: `spec/isa/vm/ops/integer.yaml`.
pub(crate) fn family_source(family: &str) -> String {
    format!("spec/isa/vm/ops/{family}.yaml")
}

/// Whether a field of this type is in the bank of references.
pub(crate) fn is_ref(field: &Field) -> bool {
    field.ty.is_some_and(Type::is_ref)
}

/// Whether a value of this field takes two slots.
pub(crate) fn is_wide(field: &Field) -> bool {
    matches!(field.ty, Some(Type::I64 | Type::F64))
}

/// The `Kind` of a value register's field.
pub(crate) fn kind(ty: Type) -> TokenStream {
    match ty {
        Type::I32 => quote!(Kind::I32),
        Type::I64 => quote!(Kind::I64),
        Type::F32 => quote!(Kind::F32),
        Type::F64 => quote!(Kind::F64),
        Type::Ref | Type::Buffer | Type::List | Type::Any => quote!(Kind::Ref),
    }
}

pub(crate) fn rust_type(field: &Field) -> TokenStream {
    match field.kind {
        FieldKind::Reg | FieldKind::Result if is_ref(field) => quote!(RefReg),
        FieldKind::Reg | FieldKind::Result => quote!(Reg),
        FieldKind::Imm => match field.ty {
            Some(Type::I64) => quote!(i64),
            Some(Type::F32) => quote!(F32Bits),
            Some(Type::F64) => quote!(F64Bits),
            _ => quote!(i32),
        },
        FieldKind::Global if is_ref(field) => quote!(GlobalRef),
        FieldKind::Global => quote!(GlobalOffset),
        FieldKind::Type => quote!(TypeId),
        FieldKind::Rodata => quote!(RodataId),
        FieldKind::Function => quote!(CallId),
        FieldKind::Import => quote!(ImportId),
        FieldKind::String => quote!(StringId),
        FieldKind::Edge => quote!(EdgeId),
        FieldKind::Target => quote!(BlockId),
        FieldKind::Regs | FieldKind::Results => quote!(ListId),
        FieldKind::Segments => quote!(SegmentsId),
        FieldKind::Cases => quote!(CasesId),
    }
}

/// The name of the methods that take a field as it is decoded: that of `Reader` reads it, that of `Printer` writes its
/// text.
pub(crate) fn accessor(field: &Field) -> Ident {
    let name = match field.kind {
        FieldKind::Reg | FieldKind::Result if is_ref(field) => "ref_reg",
        FieldKind::Reg | FieldKind::Result => "reg",
        FieldKind::Imm => match field.ty {
            Some(Type::I64) => "imm_i64",
            Some(Type::F32) => "imm_f32",
            Some(Type::F64) => "imm_f64",
            _ => "imm_i32",
        },
        FieldKind::Global if is_ref(field) => "global_ref",
        FieldKind::Global => "global",
        FieldKind::Type => "type_id",
        FieldKind::Rodata => "rodata",
        FieldKind::Function => "function",
        FieldKind::Import => "import",
        FieldKind::String => "string",
        FieldKind::Edge => "edge",
        FieldKind::Target => "target",
        FieldKind::Regs | FieldKind::Results => "list",
        FieldKind::Segments => "segments",
        FieldKind::Cases => "cases",
    };
    format_ident!("{name}")
}

/// Whether a call op has segment sizes, and whether it may yield.
pub(crate) fn call_form(control: ControlOp) -> Option<(bool, bool)> {
    match control {
        ControlOp::Call => Some((false, false)),
        ControlOp::CallVariadic => Some((true, false)),
        ControlOp::CallYieldable => Some((false, true)),
        ControlOp::CallVariadicYieldable => Some((true, true)),
        _ => None,
    }
}

/// Whether `value` is one of `ops`: one op per line, so that a new op changes one line. `matches!` would be formatted
/// to as few lines as possible. The function around it has [`one_of_lint`].
pub(crate) fn one_of<'o>(value: &TokenStream, ops: impl Iterator<Item = &'o Op>) -> TokenStream {
    let ops = ops.map(variant);
    quote!(match #value { #(Op::#ops { .. } => true,)* _ => false })
}

/// The attribute of a function that is one [`one_of`].
pub(crate) fn one_of_lint() -> TokenStream {
    quote!(#[expect(clippy::match_like_matches_macro, reason = "one op a line keeps changes of this text small")])
}

/// `#[path = "decode/integer.rs"] mod integer;` for each family: generated files name each other, so a new family needs
/// no edit.
pub(crate) fn family_modules(artifact: &str, families: &[(&str, Vec<&Op>)]) -> TokenStream {
    let modules = families.iter().map(|(family, _)| {
        let path = format!("{artifact}/{family}.rs");
        let name = ident(family);
        quote!(#[path = #path] mod #name;)
    });
    quote!(#(#modules)*)
}
