//! Emits the notation of calling conventions: its characters as constants, the kinds of values with their letters, and
//! the names of reference types.

use proc_macro2::Literal;
use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::constants::constant_ident;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::abi::{Bracket, Letter};

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let grammar = &spec.abi.grammar;
    let notation = grammar.origin.iter().map(|origin| {
        let (origin, doc) = (comment(&origin.to_string()), format!(" {}", grammar.doc));
        let character = |text: &str| text.chars().next().map(Literal::character).into_iter();
        let (version, results) = (character(&grammar.version), character(&grammar.results));
        quote! {
            #origin
            #[doc = #doc]
            pub const VERSION: char = #(#version)*;
            #[doc = " The separator of arguments and results."]
            pub const RESULTS: char = #(#results)*;
        }
    });
    let constants = grammar.letters.iter().filter(|letter| letter.kind.is_none()).map(|letter| {
        let name = match letter.bracket {
            Some(Bracket::Opens) => format_ident!("SPAN_OPENS"),
            Some(Bracket::Closes) => format_ident!("SPAN_CLOSES"),
            None => format_ident!("NOTHING"),
        };
        let (origin, doc) = (comment(&letter.origin.to_string()), format!(" {}", letter.doc));
        let letter = Literal::character(letter.letter);
        quote! {
            #origin
            #[doc = #doc]
            pub const #name: char = #letter;
        }
    });
    let values: Vec<&Letter> = grammar.letters.iter().filter(|letter| letter.kind.is_some()).collect();
    let variants: Vec<_> =
        values.iter().filter_map(|letter| Some(format_ident!("{}", camel_case(letter.kind?.name())))).collect();
    let docs = values.iter().map(|letter| format!(" `{}`: {}", letter.letter, letter.doc));
    let letters: Vec<_> = values.iter().map(|letter| Literal::character(letter.letter)).collect();
    let names = values.iter().filter_map(|letter| Some(letter.kind?.name()));
    let slots = values.iter().map(|letter| Literal::u32_unsuffixed(letter.slots));
    let tokens = quote! {
        #(#notation)*
        #(#constants)*

        #[doc = " The kind of one value of a call."]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind { #(#[doc = #docs] #variants,)* }

        impl Kind {
            #[doc = " The letter of a convention string."]
            pub fn letter(self) -> char {
                match self { #(Kind::#variants => #letters,)* }
            }

            #[doc = " The kind that a letter stands for."]
            pub fn from_letter(letter: char) -> Option<Kind> {
                Some(match letter {
                    #(#letters => Kind::#variants,)*
                    _ => return None,
                })
            }

            #[doc = " How specs and people write it: `i32`, `ref`."]
            pub fn name(self) -> &'static str {
                match self { #(Kind::#variants => #names,)* }
            }

            #[doc = " Number of 32-bit slots that a value takes in a frame: 0 for a reference, 2 for 64-bit values."]
            pub fn slots(self) -> u32 {
                match self { #(Kind::#variants => #slots,)* }
            }
        }
    };
    vec![source("abi/letters.rs", "spec/abi/types.yaml", tokens), refs(spec)]
}

/// The names of reference types as constants, named after them.
fn refs(spec: &Spec) -> GeneratedFile {
    let constants = spec.abi.refs.iter().map(|reference| {
        let (name, text) = (constant_ident(&reference.name.replace('.', "_")), &reference.name);
        let (origin, doc) = (comment(&reference.origin.to_string()), format!(" {}", reference.doc));
        quote! {
            #origin
            #[doc = #doc]
            pub const #name: &str = #text;
        }
    });
    source("abi/refs.rs", "spec/abi/types.yaml", quote!(#(#constants)*))
}
