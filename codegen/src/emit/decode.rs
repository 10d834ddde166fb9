//! Emits the decoded op and its decoder: `vm/decode.rs` holds the `Op` enum and the dispatch on opcodes,
//! `vm/decode/<family>.rs` one function for each op.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{
    accessor, call_form, constant, decoded_families, decoded_ops, family_modules, family_source, function, ident,
    is_call, one_of, one_of_lint, operands, origin, variant,
};
use crate::model::vm::{Body, FieldKind, Isa, Op, Structure};

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let families = decoded_families(isa);
    let mut files = vec![source("vm/decode.rs", "spec/isa/vm", top(isa, &family_modules("decode", &families)))];
    for (family, ops) in &families {
        let functions = ops.iter().map(|op| reader(op));
        let tokens = quote! {
            use super::*;
            #(#functions)*
        };
        files.push(source(&format!("vm/decode/{family}.rs"), &family_source(family), tokens));
    }
    files
}

fn top(isa: &Isa, modules: &TokenStream) -> TokenStream {
    let variants = decoded_ops(isa).map(|op| {
        let variant = variant(op);
        let fields = operands(op).into_iter().map(|operand| {
            let (name, ty) = (operand.name, operand.ty);
            quote!(#name: #ty)
        });
        let doc = format!(" `{}` ({}): {}", op.mnemonic, op.origin, op.doc);
        quote!(#[doc = #doc] #variant { #(#fields),* })
    });
    let mnemonics = decoded_ops(isa).map(|op| {
        let (variant, mnemonic) = (variant(op), &op.mnemonic);
        quote!(Op::#variant { .. } => #mnemonic,)
    });
    let features = isa.sets.iter().filter(|set| set.feature.is_some()).filter_map(|set| {
        let ops: Vec<_> = decoded_ops(isa).filter(|op| op.set == set.name).map(variant).collect();
        let module = ident(&set.name);
        (!ops.is_empty()).then(|| quote!(#(Op::#ops { .. })|* => opcode::#module::FEATURES,))
    });
    let lint = one_of_lint();
    let terminators = one_of(&quote!(self), decoded_ops(isa).filter(|op| op.is_terminator()));
    let sets = isa.sets.iter().map(|set| set_decoder(isa, &set.name));
    quote! {
        #modules

        #[doc = " A decoded op with typed operands. What is longer than 16 bytes stands in the tables of `Decoded`."]
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the fields are those of the encoding, which the spec documents")]
        pub enum Op { #(#variants,)* }

        const _: () = assert!(size_of::<Op>() <= 16);

        impl Op {
            #[doc = " The mnemonic, without the `vm.` of the text form."]
            pub fn mnemonic(&self) -> &'static str {
                match self { #(#mnemonics)* }
            }

            #[doc = " The feature bits that its opcode set needs."]
            pub fn features(&self) -> u32 {
                match self { #(#features)* _ => 0 }
            }

            #[doc = " True if the op ends its block."]
            #lint
            pub fn is_terminator(&self) -> bool {
                #terminators
            }
        }

        #[doc = " Reads one op."]
        pub fn decode_op(reader: &mut Reader<'_>) -> Result<Op, VerifyError> {
            core(reader)
        }

        #(#sets)*
    }
}

/// The function that reads an op of one set, its prefix being read.
fn set_decoder(isa: &Isa, set: &str) -> TokenStream {
    let module = ident(set);
    let arms = isa.ops.iter().filter(|op| op.set == set).filter_map(|op| {
        let constant = constant(op);
        let call = match op.body {
            Body::Structure(Structure::Block) => return None,
            Body::Structure(Structure::Prefix) => {
                let target = isa.sets.iter().find(|set| set.prefix.as_ref() == Some(&op.mnemonic))?;
                ident(&target.name)
            }
            _ => {
                let (family, function) = (ident(&op.family), function(op));
                let read = if op.since > isa.oldest() {
                    let (mnemonic, since) = (&op.mnemonic, op.since);
                    quote!({ reader.require_version(#mnemonic, #since)?; #family::#function(reader) })
                } else {
                    quote!(#family::#function(reader),)
                };
                return Some(quote!(opcode::#module::#constant => #read));
            }
        };
        Some(quote!(opcode::#module::#constant => #call(reader),))
    });
    let features = (set != "core").then(|| quote!(reader.require_features(#set, opcode::#module::FEATURES)?;));
    quote! {
        fn #module(reader: &mut Reader<'_>) -> Result<Op, VerifyError> {
            #features
            match reader.opcode()? {
                #(#arms)*
                other => Err(reader.unknown_opcode(#set, other)),
            }
        }
    }
}

/// The function that reads the operands of one op.
fn reader(op: &Op) -> TokenStream {
    let (function, variant, origin) = (function(op), variant(op), comment(&origin(op)));
    let body = if is_call(op) {
        call_reader(op)
    } else if op.fields.is_empty() {
        quote!(Ok(Op::#variant {}))
    } else {
        let fields = op.fields.iter().map(|field| {
            let (name, method) = (ident(&field.name), accessor(field));
            quote!(#name: reader.#method()?)
        });
        quote!(Ok(Op::#variant { #(#fields),* }))
    };
    let reader = format_ident!("{}", if op.fields.is_empty() { "_reader" } else { "reader" });
    quote! {
        #origin
        pub(super) fn #function(#reader: &mut Reader<'_>) -> Result<Op, VerifyError> { #body }
    }
}

/// A call's fields are read in the order of the stream and kept as a call site.
fn call_reader(op: &Op) -> TokenStream {
    let variant = variant(op);
    let reads = op.fields.iter().map(|field| {
        let (name, method) = (ident(&field.name), accessor(field));
        quote!(let #name = reader.#method()?;)
    });
    let of_kind = |kind| op.fields.iter().find(|field| field.kind == kind).map(|field| ident(&field.name));
    // A field of the call site takes the field of the op of that kind, whatever its name.
    let given = |name: &str, kind| {
        let (name, value) = (ident(name), of_kind(kind));
        if value.as_ref() == Some(&name) { quote!(#name) } else { quote!(#name: #value) }
    };
    let optional = |name: &str, kind| {
        let (name, value) = (ident(name), of_kind(kind));
        match value {
            Some(value) => quote!(#name: Some(#value)),
            None => quote!(#name: None),
        }
    };
    let callee = given("callee", FieldKind::Function);
    let segments = optional("segments", FieldKind::Segments);
    let operands = given("operands", FieldKind::Regs);
    let results = given("results", FieldKind::Results);
    let resume = optional("resume", FieldKind::Target);
    debug_assert!(matches!(op.body, Body::Control(control) if call_form(control).is_some()));
    quote! {
        #(#reads)*
        let site = CallSite { #callee, #segments, #operands, #results, #resume };
        Ok(Op::#variant { call: reader.call(site)? })
    }
}
