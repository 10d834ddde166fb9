//! Emits the letters of calling-convention strings as constants, named after the types they stand for.

use proc_macro2::Literal;
use quote::{format_ident, quote};

use crate::Spec;
use crate::emit::{GeneratedFile, comment, source};
use crate::model::abi::Bracket;

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let letters = spec.abi.letters.iter().map(|letter| {
        let name = match (&letter.name, letter.bracket) {
            (Some(name), _) => format_ident!("{}", name.to_uppercase()),
            (None, Some(Bracket::Opens)) => format_ident!("SPAN_OPENS"),
            (None, Some(Bracket::Closes)) => format_ident!("SPAN_CLOSES"),
            (None, None) => format_ident!("NOTHING"),
        };
        let (origin, doc) = (comment(&letter.origin.to_string()), format!(" {}", letter.doc));
        let letter = Literal::character(letter.letter);
        quote! {
            #origin
            #[doc = #doc]
            pub const #name: char = #letter;
        }
    });
    vec![source("abi/letters.rs", "spec/abi/types.yaml", quote!(#(#letters)*))]
}
