//! Emits the text form of each decoded op: `vm/disasm.rs` holds the dispatch, `vm/disasm/<family>.rs` one function for
//! each op.
//!
//! Operands may have their values after them, for traces; results are written by their registers alone.
//!
//! The grammar is that of IREE's disassembler. It is that of its assembler too, except for the operands of `trace` and
//! `print` and for indirect globals.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{
    accessor, call_form, decoded_families, decoded_ops, family_modules, family_source, function, ident, is_ref,
    is_wide, operands, origin, variant,
};
use crate::model::vm::{Body, Field, FieldKind, Isa, Op, TextPart, Type};
use crate::sem::Ty;

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let families = decoded_families(isa);
    let modules = family_modules("disasm", &families);
    let arms = decoded_ops(isa).map(|op| {
        let (variant, family, function) = (variant(op), ident(&op.family), function(op));
        let names: Vec<_> = operands(op).into_iter().map(|operand| operand.name).collect();
        quote!(Op::#variant { #(#names),* } => #family::#function(printer, #(#names),*),)
    });
    let tokens = quote! {
        #modules

        #[doc = " Prints one op."]
        pub fn print_op(op: Op, printer: &mut Printer<'_>) {
            match op { #(#arms)* }
        }
    };
    let mut files = vec![source("vm/disasm.rs", "spec/isa/vm", tokens)];
    for (family, ops) in &families {
        let functions = ops.iter().map(|op| print(op));
        let tokens = quote! {
            use super::*;
            #(#functions)*
        };
        files.push(source(&format!("vm/disasm/{family}.rs"), &family_source(family), tokens));
    }
    files
}

fn print(op: &Op) -> TokenStream {
    let (function, origin) = (function(op), comment(&origin(op)));
    let mnemonic = format!("vm.{}", op.mnemonic);
    let parameters = operands(op).into_iter().map(|operand| {
        let (name, ty) = (operand.name, operand.ty);
        quote!(#name: #ty)
    });
    let steps = match &op.body {
        Body::Control(control) if call_form(*control).is_some() => quote!(printer.call(#mnemonic, call);),
        _ => steps(op, &mnemonic),
    };
    quote! {
        #origin
        pub(super) fn #function(printer: &mut Printer<'_>, #(#parameters),*) { #steps }
    }
}

/// `%result = vm.mnemonic operands`
fn steps(op: &Op, mnemonic: &str) -> TokenStream {
    let result = op.result().map(|field| {
        let print = print_field(field);
        quote!(#print printer.text(" = ");)
    });
    let fields = op.fields.iter().filter(|field| field.kind != FieldKind::Result);
    let list_only = matches!(fields.clone().collect::<Vec<_>>().as_slice(), [Field { kind: FieldKind::Regs, .. }]);
    if list_only && op.text.is_none() {
        // An op with only a list of operands, such as `return`, has no space after it if the list is empty.
        let lists = fields.map(|field| ident(&field.name));
        return quote!(#result printer.text(#mnemonic); #(printer.trailing_list(#lists);)*);
    }
    let parts: Vec<TokenStream> = match &op.text {
        Some(parts) => parts.iter().map(|part| print_part(op, part)).collect(),
        None => {
            let separated = fields.enumerate().map(|(index, field)| {
                if index > 0 && field.kind == FieldKind::Regs {
                    let name = ident(&field.name);
                    return quote!(printer.more(#name););
                }
                let separator = (index > 0).then(|| quote!(printer.text(", ");));
                let print = print_field(field);
                quote!(#separator #print)
            });
            separated.collect()
        }
    };
    let mnemonic = if parts.is_empty() { mnemonic.to_string() } else { format!("{mnemonic} ") };
    quote!(#result printer.text(#mnemonic); #(#parts)*)
}

fn print_part(op: &Op, part: &TextPart) -> TokenStream {
    match part {
        TextPart::Literal(text) => quote!(printer.text(#text);),
        TextPart::Field(name) => op.field(name).map(print_field).unwrap_or_default(),
    }
}

fn print_field(field: &Field) -> TokenStream {
    let method = match field.kind {
        FieldKind::Reg if is_ref(field) => format_ident!("operand_ref"),
        FieldKind::Reg => {
            let scalar = field.ty.and_then(Type::operand).and_then(Ty::scalar).map_or("i32", |scalar| scalar.name());
            format_ident!("operand_{scalar}")
        }
        FieldKind::Result if is_wide(field) => format_ident!("reg_pair"),
        // These occur in calls, which are printed as a whole.
        FieldKind::Function | FieldKind::Results | FieldKind::Segments => return TokenStream::new(),
        _ => accessor(field),
    };
    let name = ident(&field.name);
    quote!(printer.#method(#name);)
}
