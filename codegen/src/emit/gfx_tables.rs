//! Emits the tables of encodings and instructions of gfx11, which the decoder, the disassembler and the encoder use.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::file::{GeneratedFile, source};
use crate::model::gfx::{Body, Encoding, FieldKind, Gfx, Instruction, OperandTy};

/// `gfx/encodings.rs`, `gfx/instructions.rs`, and `gfx/instructions/FAMILY.rs` for each file of instructions.
pub fn emit(gfx: &Gfx) -> Vec<GeneratedFile> {
    let families = families(gfx);
    let mut files = vec![
        source("gfx/encodings.rs", &gfx.path("encodings.yaml"), encodings(gfx)),
        source("gfx/instructions.rs", &gfx.path("ops"), instructions(gfx, &families)),
    ];
    for (family, instructions) in &families {
        let infos = instructions.iter().map(|instruction| instruction_info(instruction));
        let tokens = quote! {
            use super::*;

            pub(super) const INSTRUCTIONS: &[InstructionInfo] = &[#(#infos),*];
        };
        files.push(source(&format!("gfx/instructions/{family}.rs"), &family_source(gfx, family), tokens));
    }
    files
}

/// The instructions by the stems of their files, in their order.
pub(crate) fn families(gfx: &Gfx) -> Vec<(&str, Vec<&Instruction>)> {
    let mut families: Vec<(&str, Vec<&Instruction>)> = Vec::new();
    for instruction in &gfx.instructions {
        let stem = instruction.origin.stem();
        match families.last_mut() {
            Some((family, instructions)) if *family == stem => instructions.push(instruction),
            _ => families.push((stem, vec![instruction])),
        }
    }
    families
}

/// The file of a family.
pub(crate) fn family_source(gfx: &Gfx, family: &str) -> String {
    gfx.path(&format!("ops/{family}.yaml"))
}

/// The module of a family. It is not named as the family, since the runtime has modules of such names.
pub(crate) fn family_module(family: &str) -> proc_macro2::Ident {
    format_ident!("of_{family}")
}

/// `#[path = "interp/packed.rs"] mod of_packed;` for each family.
pub(crate) fn family_modules(artifact: &str, families: &[(&str, Vec<&Instruction>)]) -> TokenStream {
    let modules = families.iter().map(|(family, _)| {
        let (path, name) = (format!("{artifact}/{family}.rs"), family_module(family));
        quote!(#[path = #path] mod #name;)
    });
    quote!(#(#modules)*)
}

fn variant(name: &str) -> proc_macro2::Ident {
    format_ident!("{}", camel_case(name))
}

fn encodings(gfx: &Gfx) -> TokenStream {
    let names = gfx.encodings.iter().map(|encoding| {
        let (name, doc) = (variant(&encoding.name), &encoding.doc);
        quote!(#[doc = #doc] #name,)
    });
    let all_fields: BTreeSet<&str> =
        gfx.encodings.iter().flat_map(|encoding| &encoding.fields).map(|field| field.name.as_str()).collect();
    let fields = all_fields.iter().map(|name| {
        let (doc, name) = (format!("`{name}`"), variant(name));
        quote!(#[doc = #doc] #name,)
    });
    let operands = operand_names(gfx).into_iter().map(|name| {
        let (doc, name) = (format!("`{name}`"), variant(name));
        quote!(#[doc = #doc] #name,)
    });
    let kinds = FieldKind::NAMES.iter().map(|(name, kind, _)| {
        let (doc, kind) = (format!("`{name}`"), format_ident!("{kind}"));
        quote!(#[doc = #doc] #kind,)
    });
    let infos = gfx.encodings.iter().map(encoding_info);
    let count = gfx.encodings.len();
    quote! {
        /// The encodings; those with more fixed bits first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Encoding { #(#names)* }

        /// The fields of encodings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Field { #(#fields)* }

        /// The meaning of a field.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FieldKind { #(#kinds)* }

        /// The names of operands, and of registers that instructions read without naming them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Slot { #(#operands)* }

        /// Each encoding, at its number.
        pub static ENCODINGS: [EncodingInfo; #count] = [#(#infos),*];
    }
}

fn operand_names(gfx: &Gfx) -> BTreeSet<&str> {
    let named = gfx.instructions.iter().flat_map(|instruction| {
        let operands = instruction.operands.iter().map(|operand| operand.name.as_str());
        let reads = instruction.reads().into_iter().map(|(name, _)| name);
        operands.chain(reads.collect::<Vec<_>>())
    });
    let of_encodings = gfx.encodings.iter().flat_map(|encoding| &encoding.operands).map(|(name, _)| name.as_str());
    named.chain(of_encodings).collect()
}

fn encoding_info(encoding: &Encoding) -> TokenStream {
    let (variant_name, words, name) = (variant(&encoding.name), encoding.words, &encoding.name);
    let fixed = encoding.fixed.iter().map(|fixed| {
        let (bit, width, value) = (fixed.bit, fixed.width, fixed.value);
        quote!((#bit, #width, #value))
    });
    let fields = encoding.fields.iter().map(|field| {
        let (name, bit, width) = (variant(&field.name), field.bit, field.width);
        let kind = FieldKind::NAMES.iter().find(|(.., kind)| *kind == field.kind).map_or("", |(_, name, _)| name);
        let kind = format_ident!("{kind}");
        quote!(FieldInfo { field: Field::#name, bit: #bit, width: #width, kind: FieldKind::#kind })
    });
    let operands = encoding.operands.iter().map(|(operand, field)| {
        let (operand, field) = (variant(operand), variant(field));
        quote!((Slot::#operand, Field::#field))
    });
    quote! {
        EncodingInfo {
            encoding: Encoding::#variant_name,
            name: #name,
            words: #words,
            fixed: &[#(#fixed),*],
            fields: &[#(#fields),*],
            operands: &[#(#operands),*],
        }
    }
}

fn instructions(gfx: &Gfx, families: &[(&str, Vec<&Instruction>)]) -> TokenStream {
    let modules = family_modules("instructions", families);
    let tables = families.iter().map(|(family, _)| family_module(family));
    let opcodes = gfx.instructions.iter().map(|instruction| {
        let (name, doc) = (variant(&instruction.name), &instruction.doc);
        quote!(#[doc = #doc] #name,)
    });
    let count = gfx.instructions.len();
    let left_out: Vec<_> = gfx.forms_left_out().collect();
    let left_out = left_out.into_iter().map(|(encoding, number, name)| {
        let encoding = variant(encoding);
        quote!((Encoding::#encoding, #number, #name))
    });
    quote! {
        #modules

        /// The instructions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Opcode { #(#opcodes)* }

        /// Each instruction, at its number.
        pub static INSTRUCTIONS: [InstructionInfo; #count] = joined(&[#(#tables::INSTRUCTIONS),*]);

        /// Encoding, number and name of what assemblers have and is no instruction here.
        pub static LEFT_OUT: &[(Encoding, u32, &str)] = &[#(#left_out),*];
    }
}

fn instruction_info(instruction: &Instruction) -> TokenStream {
    let (opcode, name) = (variant(&instruction.name), &instruction.name);
    let forms = instruction.forms.iter().map(|form| {
        let (encoding, number) = (variant(&form.encoding), form.opcode);
        quote!((Encoding::#encoding, #number))
    });
    let operands = instruction.operands.iter().map(|operand| {
        let (name, ty) = (variant(&operand.name), format_ident!("{}", operand.ty.variant()));
        quote!((Slot::#name, OperandType::#ty))
    });
    let reads = instruction.reads().into_iter().map(|(name, ty)| {
        let (name, ty) = (variant(name), format_ident!("{}", OperandTy::Lane(ty).variant()));
        quote!((Slot::#name, OperandType::#ty))
    });
    let writes = match &instruction.body {
        Body::Semantics(results) => results.iter().map(|(name, _)| name.as_str()).collect(),
        _ => Vec::new(),
    };
    let has_no_effect = matches!(&instruction.body, Body::Control(control) if control == "nothing");
    // Those to the memory of a work-group have another number if they return a value.
    let returns_by_glc =
        matches!(&instruction.body, Body::Access(access) if access.atomic().is_some() && access.space != "group");
    let sets_exec = writes.iter().any(|name| name.starts_with("exec"));
    quote! {
        InstructionInfo {
            opcode: Opcode::#opcode,
            name: #name,
            forms: &[#(#forms),*],
            operands: &[#(#operands),*],
            reads: &[#(#reads),*],
            sets_exec: #sets_exec,
            has_no_effect: #has_no_effect,
            returns_by_glc: #returns_by_glc,
        }
    }
}
