//! Emits the tables of PTX: types, classes of suffixes, instructions with their variants, special registers, layouts of
//! matrices, what is refused, and limits.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::constants::constant;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::model::ptx::{Bit, Body, ExternalFunction, Instruction, OperandTy, Ptx, Suffix, Tile, Type, Variant};

/// The files of this artifact.
pub fn emit(ptx: &Ptx) -> Vec<GeneratedFile> {
    let path = |stem: &str| format!("spec/isa/{}/{stem}.yaml", ptx.name);
    let limits: TokenStream = ptx.constants.iter().map(constant).collect();
    vec![
        source("ptx/suffixes.rs", &path("suffixes"), suffixes(ptx)),
        source("ptx/instructions.rs", &format!("spec/isa/{}/ops", ptx.name), instructions(ptx)),
        source("ptx/registers.rs", &path("registers"), registers(ptx)),
        source("ptx/fragments.rs", &path("fragments"), fragments(ptx)),
        source("ptx/limits.rs", &path("limits"), limits),
    ]
}

/// A name in the text form as a variant: `shared::cta` becomes `SharedCta`.
fn variant(name: &str) -> Ident {
    let words = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let name = camel_case(words.trim_matches('_'));
    match name.starts_with(|c: char| c.is_ascii_digit()) {
        true => format_ident!("N{name}"),
        false => format_ident!("{name}"),
    }
}

fn suffixes(ptx: &Ptx) -> TokenStream {
    let kinds = Type::KINDS.map(|kind| format_ident!("{}", camel_case(kind)));
    let kind_docs = Type::KINDS.map(|kind| format!("`{kind}`"));
    let types: Vec<Ident> = ptx.types.iter().map(|ty| variant(&ty.name)).collect();
    let type_docs = ptx.types.iter().map(|ty| &ty.doc);
    let names: Vec<&str> = ptx.types.iter().map(|ty| ty.name.as_str()).collect();
    let bits = ptx.types.iter().map(|ty| Literal::u32_unsuffixed(ty.bits));
    let kinds_of_types = ptx.types.iter().map(|ty| format_ident!("{}", camel_case(&ty.kind)));
    let classes: Vec<Ident> = ptx.suffixes.iter().map(|suffix| variant(&suffix.name)).collect();
    let class_names = ptx.suffixes.iter().map(|suffix| &suffix.name);
    let class_docs = ptx.suffixes.iter().map(|suffix| &suffix.doc);
    let values = ptx.suffixes.iter().map(|suffix| {
        let values = &suffix.values;
        quote!(&[#(#values),*])
    });
    let since = ptx.suffixes.iter().map(|suffix| {
        let since = suffix.since.iter().map(|since| {
            let (isa, target) = (Literal::u32_unsuffixed(since.isa), Literal::u32_unsuffixed(since.target));
            quote!((#isa, #target))
        });
        quote!(&[#(#since),*])
    });
    let enums = ptx.suffixes.iter().filter(|suffix| !suffix.is_type).map(class_enum);
    quote! {
        /// The kinds of types.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TypeKind { #(#[doc = #kind_docs] #kinds,)* }

        /// The types of values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Type { #(#[doc = #type_docs] #types,)* }

        impl Type {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Type] = &[#(Type::#types),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { #(Type::#types => #names,)* }
            }

            /// Bits of a value.
            pub const fn bits(self) -> u32 {
                match self { #(Type::#types => #bits,)* }
            }

            /// Its kind.
            pub const fn kind(self) -> TypeKind {
                match self { #(Type::#types => TypeKind::#kinds_of_types,)* }
            }
        }

        /// The classes of suffixes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Class { #(#[doc = #class_docs] #classes,)* }

        impl Class {
            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { #(Class::#classes => #class_names,)* }
            }

            /// The suffixes of it, without dots.
            pub const fn values(self) -> &'static [&'static str] {
                match self { #(Class::#classes => #values,)* }
            }

            /// Since when each of them is there: ten times the version of the instruction set, and the number of the
            /// target.
            pub const fn since(self) -> &'static [(u32, u32)] {
                match self { #(Class::#classes => #since,)* }
            }
        }

        #(#enums)*
    }
}

fn class_enum(suffix: &Suffix) -> TokenStream {
    let (name, class, doc) = (format_ident!("{}Suffix", camel_case(&suffix.name)), variant(&suffix.name), &suffix.doc);
    let values: Vec<Ident> = suffix.values.iter().map(|value| variant(value)).collect();
    let docs = suffix.values.iter().map(|value| format!("`.{value}`"));
    let origin = comment(&suffix.origin.to_string());
    quote! {
        #origin
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum #name { #(#[doc = #docs] #values,)* }

        impl Suffixes for #name {
            const CLASS: Class = Class::#class;
            const ALL: &'static [Self] = &[#(#name::#values),*];
        }
    }
}

fn instructions(ptx: &Ptx) -> TokenStream {
    let infos = ptx.instructions.iter().map(|instruction| instruction_info(ptx, instruction));
    let variants = ptx.instructions.iter().flat_map(|instruction| &instruction.variants);
    let specials: BTreeSet<&str> = variants
        .filter_map(|variant| match &variant.body {
            Body::Special(name) => Some(name.as_str()),
            Body::Lanes(_) => None,
        })
        .collect();
    let docs = specials.iter().map(|name| format!("`{name}`"));
    let specials: Vec<Ident> = specials.iter().map(|name| variant(name)).collect();
    let refused = ptx.refused.iter().flat_map(|refused| {
        let reason = &refused.reason;
        refused.opcodes.iter().map(move |opcode| quote!((#opcode, #reason)))
    });
    let effects = ExternalFunction::EFFECTS.map(|effect| format_ident!("{}", camel_case(effect)));
    let effect_docs = ExternalFunction::EFFECTS.map(|effect| format!("`{effect}`"));
    let externals = ptx.externals.iter().map(|external| {
        let (name, effect) = (&external.name, format_ident!("{}", camel_case(&external.does)));
        quote!((#name, ExternalEffect::#effect))
    });
    quote! {
        /// The effect of a call of a function that the machine has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ExternalEffect { #(#[doc = #effect_docs] #effects,)* }

        /// Functions that the machine has.
        pub static EXTERNALS: &[(&str, ExternalEffect)] = &[#(#externals),*];

        /// Bodies of instructions that are not made of primitives.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Special { #(#[doc = #docs] #specials,)* }

        /// Instructions, sorted by their names.
        pub static INSTRUCTIONS: &[InstructionInfo] = &[#(#infos),*];

        /// The beginnings of opcodes that are refused, each with the reason.
        pub static REFUSED: &[(&str, &str)] = &[#(#refused),*];
    }
}

fn instruction_info(ptx: &Ptx, instruction: &Instruction) -> TokenStream {
    let (name, doc) = (&instruction.name, &instruction.doc);
    let variants = instruction.variants.iter().map(|variant| variant_info(ptx, variant));
    quote! {
        InstructionInfo { name: #name, doc: #doc, variants: &[#(#variants),*] }
    }
}

fn variant_info(ptx: &Ptx, read: &Variant) -> TokenStream {
    let positions = read.positions.iter().map(|position| {
        let (class, optional) = (variant(&ptx.suffixes[position.class].name), position.optional);
        let values = position.values.iter().map(|value| Literal::usize_unsuffixed(*value));
        quote!(PositionInfo { class: Class::#class, values: &[#(#values),*], optional: #optional })
    });
    let operands = read.operands.iter().map(|operand| {
        let (name, wider) = (&operand.name, operand.may_be_wider);
        let ty = match operand.ty {
            OperandTy::Position(position) => {
                let position = Literal::usize_unsuffixed(position);
                quote!(OperandType::Position(#position))
            }
            OperandTy::Type(ty) => {
                let ty = variant(&ptx.types[ty].name);
                quote!(OperandType::Type(Type::#ty))
            }
        };
        quote!(OperandInfo { name: #name, ty: #ty, may_be_wider: #wider })
    });
    let body = match &read.body {
        Body::Special(name) => {
            let name = variant(name);
            quote!(BodyInfo::Special(Special::#name))
        }
        Body::Lanes(forms) => {
            let handlers = forms.iter().map(|form| match form {
                Some(form) => Literal::usize_unsuffixed(form.handler),
                None => Literal::u16_unsuffixed(u16::MAX),
            });
            quote!(BodyInfo::Lanes(&[#(#handlers),*]))
        }
    };
    let (results, isa, target) = (
        Literal::usize_unsuffixed(read.results),
        Literal::u32_unsuffixed(read.since.isa),
        Literal::u32_unsuffixed(read.since.target),
    );
    let (carry_in, carry_out) = (read.carry_in, read.carry_out);
    quote! {
        VariantInfo {
            positions: &[#(#positions),*],
            operands: &[#(#operands),*],
            results: #results,
            carry_in: #carry_in,
            carry_out: #carry_out,
            body: #body,
            isa: #isa,
            target: #target,
        }
    }
}

fn registers(ptx: &Ptx) -> TokenStream {
    let variants: Vec<Ident> = ptx.registers.iter().map(|register| variant(&register.name)).collect();
    let docs = ptx.registers.iter().map(|register| &register.doc);
    let names = ptx.registers.iter().map(|register| &register.name);
    let bits = ptx.registers.iter().map(|register| Literal::u32_unsuffixed(register.bits));
    quote! {
        /// Special registers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SpecialRegister { #(#[doc = #docs] #variants,)* }

        impl SpecialRegister {
            /// All of them.
            pub const ALL: &[SpecialRegister] = &[#(SpecialRegister::#variants),*];

            /// Its name without the sign before it.
            pub const fn name(self) -> &'static str {
                match self { #(SpecialRegister::#variants => #names,)* }
            }

            /// Its bits.
            pub const fn bits(self) -> u32 {
                match self { #(SpecialRegister::#variants => #bits,)* }
            }
        }
    }
}

fn fragments(ptx: &Ptx) -> TokenStream {
    let fragments = ptx.fragments.iter().map(|fragment| {
        let (name, doc) = (format_ident!("{}", fragment.name.to_ascii_uppercase()), &fragment.doc);
        let origin = comment(&fragment.origin.to_string());
        let bits = |bits: &[Bit]| {
            let bits = bits.iter().map(|bit| match bit {
                Bit::Lane(number) => {
                    let number = Literal::u32_unsuffixed(*number);
                    quote!(Bit::Lane(#number))
                }
                Bit::Element(number) => {
                    let number = Literal::u32_unsuffixed(*number);
                    quote!(Bit::Element(#number))
                }
            });
            quote!(&[#(#bits),*])
        };
        let (row, column) = (bits(&fragment.row), bits(&fragment.column));
        quote! {
            #origin
            #[doc = #doc]
            pub static #name: Fragment = Fragment { row: #row, column: #column, places: OnceLock::new() };
        }
    });
    let values = |class: &str| ptx.suffixes.iter().find(|suffix| suffix.name == class).map(|suffix| &suffix.values);
    let [matrices, shapes] = Tile::CLASSES.map(|class| values(class).map_or(&[][..], Vec::as_slice));
    let tiles = ptx.fragments.iter().flat_map(|fragment| {
        let name = format_ident!("{}", fragment.name.to_ascii_uppercase());
        fragment.tiles.iter().map(move |tile| {
            let (matrix, shape) = (variant(&matrices[tile.matrix]), variant(&shapes[tile.shape]));
            let (ty, registers) = (variant(&ptx.types[tile.ty].name), Literal::u32_unsuffixed(tile.registers));
            quote! {
                Tile {
                    matrix: MatrixSuffix::#matrix,
                    shape: ShapeSuffix::#shape,
                    ty: Type::#ty,
                    registers: #registers,
                    fragment: &#name,
                }
            }
        })
    });
    let tiles: Vec<TokenStream> = tiles.collect();
    // A set without such matrices has no suffixes for them, either.
    let tiles = (!tiles.is_empty()).then(|| {
        quote! {
            /// The matrices of products that a warp loads, multiplies and stores.
            pub static TILES: &[Tile] = &[#(#tiles),*];
        }
    });
    quote!(#(#fragments)* #tiles)
}
