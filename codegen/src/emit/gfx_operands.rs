//! Emits what source fields of gfx11 instructions stand for: the types of operands, the numbers of registers and
//! constants, and the numbers that stand for a word after the instruction; and the limits of kernels.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::constants::{constant, constant_ident, literal};
use crate::emit::file::{GeneratedFile, comment, source};
use crate::model::gfx::{Bank, Gfx, OperandTy, RegisterText, SCALAR_BITS, Source, SourceKind, VECTOR_BITS};

/// `gfx/operands.rs` and `gfx/limits.rs`
pub fn emit(gfx: &Gfx) -> Vec<GeneratedFile> {
    let (types, register_types, tables) = (operand_types(), register_types(), tables(gfx));
    let numbers = gfx.sources.iter().filter_map(number);
    let constants = constants_of(gfx, "operands");
    let (scalars, vectors) = (literal(1 << SCALAR_BITS), literal(1 << VECTOR_BITS));
    let tokens = quote! {
        #types
        #register_types

        /// How many numbers scalar registers have.
        pub const SCALAR_REGISTERS: u32 = #scalars;

        /// How many vector registers there are.
        pub const VECTOR_REGISTERS: u32 = #vectors;

        /// The number of the first vector register in source fields.
        pub const FIRST_VECTOR: u32 = #vectors;

        #(#numbers)*
        #constants
        #tables
    };
    vec![
        source("gfx/operands.rs", &gfx.path("operands.yaml"), tokens),
        source("gfx/limits.rs", &gfx.path("limits.yaml"), constants_of(gfx, "limits")),
    ]
}

/// The constants of a file.
fn constants_of(gfx: &Gfx, stem: &str) -> TokenStream {
    gfx.constants.iter().filter(|constant| constant.origin.stem() == stem).map(constant).collect()
}

/// The banks of registers, and how these are written.
fn register_types() -> TokenStream {
    let variant = |name: &str, rust: &str| {
        let (doc, rust) = (format!("`{name}`"), format_ident!("{rust}"));
        quote!(#[doc = #doc] #rust,)
    };
    let banks = Bank::NAMES.iter().map(|(name, rust, _)| variant(name, rust));
    let texts = RegisterText::NAMES.iter().map(|(name, rust, _)| variant(name, rust));
    quote! {
        /// A bank of registers: of one value for the wave, or one for each lane.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bank { #(#banks)* }

        /// How registers are written: `s5` and `s[2:3]`, `vcc_lo` and `vcc`, or `m0`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RegisterText { #(#texts)* }
    }
}

fn operand_types() -> TokenStream {
    let variants = OperandTy::NAMES.iter().map(|(name, variant, _)| {
        let (doc, variant) = (format!("`{name}`"), format_ident!("{variant}"));
        quote!(#[doc = #doc] #variant,)
    });
    let words = OperandTy::NAMES.iter().filter(|(.., ty)| ty.words() != 1).map(|(_, variant, ty)| {
        let (variant, words) = (format_ident!("{variant}"), ty.words());
        let words = Literal::u32_unsuffixed(words);
        quote!(OperandType::#variant => #words,)
    });
    let halves = OperandTy::NAMES.iter().filter(|(.., ty)| ty.is_half()).map(|(_, variant, _)| {
        let variant = format_ident!("{variant}");
        quote!(OperandType::#variant)
    });
    quote! {
        /// The type of an operand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OperandType { #(#variants)* }

        impl OperandType {
            /// How many registers it takes.
            pub fn words(self) -> u32 {
                match self {
                    #(#words)*
                    _ => 1,
                }
            }

            /// True if it is half a register.
            pub fn is_half(self) -> bool {
                matches!(self, #(#halves)|*)
            }
        }
    }
}

/// The number of a register, of a value of the wave, or of a word after the instruction as a constant. Numbered
/// registers are in the table of all registers.
fn number(entry: &Source) -> Option<TokenStream> {
    match entry.kind {
        SourceKind::Registers { text: RegisterText::Halves | RegisterText::Single, .. }
        | SourceKind::ExtraWord
        | SourceKind::Special => {}
        _ => return None,
    }
    let (origin, name, doc) = (comment(&entry.origin.to_string()), constant_ident(&entry.name), &entry.doc);
    let number = literal(u64::from(entry.first));
    Some(quote!(#origin #[doc = #doc] pub const #name: u32 = #number;))
}

fn tables(gfx: &Gfx) -> TokenStream {
    let registers: Vec<_> = gfx.sources.iter().filter_map(registers).collect();
    let integers: Vec<_> = gfx.sources.iter().filter_map(integers).collect();
    let floats: Vec<_> = gfx.sources.iter().filter_map(float).collect();
    let specials = gfx.sources.iter().filter(|source| source.kind == SourceKind::Special);
    let specials: Vec<_> = specials
        .map(|source| {
            let (number, name) = (literal(u64::from(source.first)), &source.name);
            quote!((#number, #name))
        })
        .collect();
    let counts = [registers.len(), integers.len(), floats.len(), specials.len()];
    let [register_count, integer_count, float_count, special_count] = counts;
    quote! {
        /// The registers that instructions name.
        pub static REGISTERS: [Registers; #register_count] = [#(#registers),*];

        /// The integers that numbers of source fields stand for.
        pub static INTEGERS: [Integers; #integer_count] = [#(#integers),*];

        /// The floats that numbers of source fields stand for.
        pub static FLOATS: [FloatConstant; #float_count] = [#(#floats),*];

        /// The values of the wave and the device that numbers of source fields stand for, with their names.
        pub static SPECIALS: [(u32, &str); #special_count] = [#(#specials),*];
    }
}

fn registers(entry: &Source) -> Option<TokenStream> {
    let SourceKind::Registers { bank, text } = entry.kind else { return None };
    let name = &entry.name;
    // Vector registers count from zero in their own fields.
    let base = if bank == Bank::Vector { 1 << VECTOR_BITS } else { 0 };
    let (first, last) = (literal(u64::from(entry.first - base)), literal(u64::from(entry.last - base)));
    let text = RegisterText::NAMES.iter().find(|(.., form)| *form == text).map_or("", |(_, name, _)| name);
    let (text, bank) = (format_ident!("{text}"), format_ident!("{bank:?}"));
    Some(quote! {
        Registers { name: #name, bank: Bank::#bank, first: #first, last: #last, text: RegisterText::#text }
    })
}

fn integers(entry: &Source) -> Option<TokenStream> {
    let SourceKind::Integers { first: value, step } = entry.kind else { return None };
    let (first, last) = (literal(u64::from(entry.first)), literal(u64::from(entry.last)));
    let (value, step) = (Literal::i32_unsuffixed(value), Literal::i32_unsuffixed(step));
    Some(quote!(Integers { first: #first, last: #last, value: #value, step: #step }))
}

fn float(entry: &Source) -> Option<TokenStream> {
    let SourceKind::Float(float) = entry.kind else { return None };
    let (number, text) = (literal(u64::from(entry.first)), &entry.name);
    let text_f64 = format!("{:?}", f64::from_bits(float.f64));
    let (half, single, double) = (literal(u64::from(float.f16)), literal(u64::from(float.f32)), literal(float.f64));
    Some(quote! {
        FloatConstant { number: #number, text: #text, text_f64: #text_f64, f16: #half, f32: #single, f64: #double }
    })
}
