//! Emits the assembler of each op: `vm/asm.rs` holds the table of mnemonics, `vm/asm/<family>.rs` one function for each
//! op.
//!
//! A function reads the operands in the order of the text form, which changes nothing, and then writes them in the
//! order of the encoding. It reads exactly what the function of `vm/disasm.rs` writes, and the other forms that the
//! spec lists.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{
    call_form, constant, decoded_families, decoded_ops, family_modules, family_source, function, ident, is_ref,
    is_wide, origin,
};
use crate::model::vm::{Body, Field, FieldKind, Isa, Op, TextPart, Type};

/// The placeholder of a cast's source type, which the bytecode lacks: the assembler reads any type there.
const ANY_TYPE: &str = "!vm.ref<?>";

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let families = decoded_families(isa);
    let modules = family_modules("asm", &families);
    let mut ops: Vec<&Op> = decoded_ops(isa).collect();
    ops.sort_by(|a, b| a.mnemonic.cmp(&b.mnemonic));
    let rows = ops.iter().map(|op| {
        let (mnemonic, family, function) = (&op.mnemonic, ident(&op.family), function(op));
        let terminator = op.is_terminator();
        quote!(AsmOp { mnemonic: #mnemonic, terminator: #terminator, assemble: #family::#function },)
    });
    let tokens = quote! {
        #modules

        #[doc = " Every op, sorted by mnemonic."]
        pub const OPS: &[AsmOp] = &[#(#rows)*];
    };
    let mut files = vec![source("vm/asm.rs", "spec/isa/vm", tokens)];
    for (family, ops) in &families {
        let functions = ops.iter().map(|op| assemble(isa, op));
        let tokens = quote! {
            use super::*;
            #(#functions)*
        };
        files.push(source(&format!("vm/asm/{family}.rs"), &family_source(family), tokens));
    }
    files
}

fn assemble(isa: &Isa, op: &Op) -> TokenStream {
    let (function, origin) = (function(op), comment(&origin(op)));
    let opcode = opcode(isa, op);
    let call = match &op.body {
        Body::Control(control) => call_form(*control),
        _ => None,
    };
    let body = match call {
        Some((variadic, yieldable)) => {
            let writes = op.fields.iter().map(write_call_field);
            quote! {
                let call = statement.call(#variadic, #yieldable)?;
                #opcode
                #(#writes)*
            }
        }
        None => {
            let reads = read(op);
            let writes = op.fields.iter().map(write_field);
            quote!(#reads #opcode #(#writes)*)
        }
    };
    quote! {
        #origin
        pub(super) fn #function<'t>(statement: &mut Statement<'t>, code: &mut CodeWriter<'_, 't>) -> Result<(), AsmError> {
            #body
            Ok(())
        }
    }
}

/// `code.opcode(&[opcode::core::ADD_I32], features);`
fn opcode(isa: &Isa, op: &Op) -> TokenStream {
    let (set, name) = (ident(&op.set), constant(op));
    let prefix = isa.sets.iter().find(|set| set.name == op.set).and_then(|set| set.prefix.as_deref());
    let prefix = prefix.and_then(|prefix| isa.op(prefix)).map(|prefix| {
        let (set, name) = (ident(&prefix.set), constant(prefix));
        quote!(opcode::#set::#name,)
    });
    quote!(code.opcode(&[#prefix opcode::#set::#name], opcode::#set::FEATURES);)
}

/// Reads the operands into variables that are called like the fields.
fn read(op: &Op) -> TokenStream {
    let result = match op.result() {
        Some(field) => {
            let (name, read) = (ident(&field.name), read_result(field));
            quote!(let #name = statement.#read?;)
        }
        None => quote!(statement.no_result()?;),
    };
    let names: Vec<_> =
        op.fields.iter().filter(|field| field.kind != FieldKind::Result).map(|field| ident(&field.name)).collect();
    let main = match &op.text {
        Some(parts) => read_parts(op, parts),
        None => read_list(op),
    };
    if op.also.is_empty() {
        return quote!(#result #main statement.end()?;);
    }
    let value = match names.as_slice() {
        [name] => quote!(#name),
        names => quote!((#(#names),*)),
    };
    let forms = std::iter::once(main).chain(op.also.iter().map(|parts| read_parts(op, parts)));
    let forms = forms.map(|reads| quote!(|statement| { #reads statement.end()?; Ok(#value) }));
    quote! {
        #result
        let #value = statement.forms([#(#forms),*])?;
    }
}

/// Reads operands that have no text form of their own: the list of them.
fn read_list(op: &Op) -> TokenStream {
    let fields = op.fields.iter().filter(|field| field.kind != FieldKind::Result).enumerate();
    let reads = fields.map(|(index, field)| {
        let name = ident(&field.name);
        if index > 0 && field.kind == FieldKind::Regs {
            let kind = list_kind(field);
            return quote!(let #name = statement.more(#kind)?;);
        }
        let separator = (index > 0).then(|| quote!(statement.token(",")?;));
        let read = read_field(field);
        quote!(#separator let #name = statement.#read?;)
    });
    reads.collect()
}

fn read_parts(op: &Op, parts: &[TextPart]) -> TokenStream {
    let mut reads = TokenStream::new();
    for (index, part) in parts.iter().enumerate() {
        let next = parts.get(index + 1).and_then(|part| field_of(op, part));
        match part {
            // A list after a comma may be empty, and then the comma is not there.
            TextPart::Literal(text) if text == ", " && next.is_some_and(|field| field.kind == FieldKind::Regs) => {}
            TextPart::Literal(text) => reads.extend(text.split_whitespace().map(|word| match word {
                ANY_TYPE => quote!(statement.any_type()?;),
                word => quote!(statement.token(#word)?;),
            })),
            TextPart::Field(_) => {
                let Some(field) = field_of(op, part) else { continue };
                let name = ident(&field.name);
                let after_comma = index.checked_sub(1).and_then(|index| parts.get(index));
                let after_comma = matches!(after_comma, Some(TextPart::Literal(text)) if text == ", ");
                let read = if field.kind == FieldKind::Regs && after_comma {
                    let kind = list_kind(field);
                    quote!(more(#kind))
                } else {
                    read_field(field)
                };
                reads.extend(quote!(let #name = statement.#read?;));
            }
        }
    }
    reads
}

fn field_of<'o>(op: &'o Op, part: &TextPart) -> Option<&'o Field> {
    match part {
        TextPart::Field(name) => op.field(name),
        TextPart::Literal(_) => None,
    }
}

/// The contents that a register list may have, as a constructor of `ListKind`.
fn list_kind(field: &Field) -> TokenStream {
    let movable = field.movable;
    let kind = match field.ty {
        Some(Type::I32 | Type::F32) => quote!(Slots),
        Some(Type::I64 | Type::F64) => quote!(Pairs),
        Some(Type::Any) | None => quote!(Any),
        Some(Type::Ref | Type::Buffer | Type::List) => quote!(Refs { movable: #movable }),
    };
    quote!(ListKind::#kind)
}

/// The call of the method of `Statement` that reads a field.
fn read_field(field: &Field) -> TokenStream {
    let (wide, movable) = (is_wide(field), field.movable);
    match field.kind {
        FieldKind::Reg if is_ref(field) => quote!(ref_reg(#movable)),
        FieldKind::Reg => quote!(reg(#wide)),
        FieldKind::Result => read_result(field),
        FieldKind::Regs => {
            let kind = list_kind(field);
            quote!(list(#kind))
        }
        FieldKind::Imm => match field.ty {
            Some(Type::I64) => quote!(imm_i64()),
            Some(Type::F32) => quote!(imm_f32()),
            Some(Type::F64) => quote!(imm_f64()),
            _ => quote!(imm_i32()),
        },
        kind => {
            let method = format_ident!("{}", kind.name());
            let method = if kind == FieldKind::Type { format_ident!("type_name") } else { method };
            quote!(#method())
        }
    }
}

fn read_result(field: &Field) -> TokenStream {
    let wide = is_wide(field);
    if is_ref(field) { quote!(result_ref()) } else { quote!(result(#wide)) }
}

/// Writes a field from the variable that is called like it.
fn write_field(field: &Field) -> TokenStream {
    let name = ident(&field.name);
    match field.kind {
        FieldKind::Reg | FieldKind::Result => quote!(code.reg(#name);),
        FieldKind::Regs => quote!(code.list(&#name)?;),
        FieldKind::Imm => match field.ty {
            Some(Type::I64) => quote!(code.imm_i64(#name);),
            Some(Type::F32) => quote!(code.imm_f32(#name);),
            Some(Type::F64) => quote!(code.imm_f64(#name);),
            _ => quote!(code.imm_i32(#name);),
        },
        FieldKind::Global if is_ref(field) => quote!(code.global_ref(#name)?;),
        FieldKind::Global => {
            let width = if is_wide(field) { quote!(8) } else { quote!(4) };
            quote!(code.global(#name, #width)?;)
        }
        FieldKind::Type => quote!(code.type_name(#name)?;),
        FieldKind::Rodata => quote!(code.rodata(#name);),
        FieldKind::Import => quote!(code.import(#name)?;),
        FieldKind::String => quote!(code.string(&#name)?;),
        FieldKind::Edge => quote!(code.edge(&#name)?;),
        FieldKind::Target => quote!(code.target(#name);),
        FieldKind::Cases => quote!(code.cases(&#name)?;),
        // These occur in calls, which are written below.
        FieldKind::Function | FieldKind::Results | FieldKind::Segments => TokenStream::new(),
    }
}

fn write_call_field(field: &Field) -> TokenStream {
    match field.kind {
        FieldKind::Function => quote!(code.function(call.callee)?;),
        FieldKind::Segments => quote!(code.segments(&call.segments)?;),
        FieldKind::Regs => quote!(code.list(&call.operands)?;),
        FieldKind::Results => quote!(code.list(&call.results)?;),
        FieldKind::Target => quote!(code.resume(call.resume);),
        _ => TokenStream::new(),
    }
}
