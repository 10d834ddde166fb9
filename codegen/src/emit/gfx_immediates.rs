//! Emits the words and choices of gfx11 instructions: accessors of bit fields, and enums of the values that have names.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::constants::literal;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::model::gfx::{Case, Choice, Gfx, Word, WordField};

/// `gfx/immediates.rs`
pub fn emit(gfx: &Gfx) -> Vec<GeneratedFile> {
    let words = gfx.words.iter().map(word);
    let choices = gfx.choices.iter().map(choice);
    vec![source("gfx/immediates.rs", &gfx.path("immediates.yaml"), quote!(#(#words)* #(#choices)*))]
}

fn variant(name: &str) -> Ident {
    format_ident!("{}", camel_case(name))
}

fn mask(width: u32) -> TokenStream {
    literal((1 << width) - 1)
}

fn word(word: &Word) -> TokenStream {
    let (name, doc, origin) = (variant(&word.name), &word.doc, comment(&word.origin.to_string()));
    let table = word.fields.iter().map(|field| {
        let (name, bit) = (&field.name, literal(u64::from(field.bit)));
        let width = literal(u64::from(field.width * field.count.unwrap_or(1)));
        quote!(BitField { name: #name, bit: #bit, width: #width })
    });
    let named = word.fields.iter().fold(0, |bits, field| bits | field.mask());
    let reserved = literal(((1u64 << word.width) - 1) & !u64::from(named));
    let accessors = word.fields.iter().map(accessor);
    quote! {
        #origin
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct #name(pub u32);

        impl #name {
            /// Its fields in the order of the text form.
            pub const FIELDS: &'static [BitField] = &[#(#table),*];

            /// Bits of no field.
            pub const RESERVED: u32 = #reserved;

            #(#accessors)*
        }
    }
}

fn accessor(field: &WordField) -> TokenStream {
    let (name, doc) = (format_ident!("{}", field.name), &field.doc);
    let (bit, mask) = (literal(u64::from(field.bit)), mask(field.width));
    let value = if field.bit == 0 { quote!(self.0 & #mask) } else { quote!(self.0 >> #bit & #mask) };
    match (&field.kind, field.count) {
        (Some(kind), _) => {
            let (kind, bits) = (variant(kind), format_ident!("{}_bits", field.name));
            let bits_doc = format!("The bits of `{}`.", field.name);
            quote! {
                #[doc = #doc]
                pub const fn #name(self) -> Option<#kind> { #kind::of(self.#bits()) }

                #[doc = #bits_doc]
                pub const fn #bits(self) -> u32 { #value }
            }
        }
        (None, Some(_)) => {
            let width = literal(u64::from(field.width));
            let shift = if field.bit == 0 { quote!((#width * index)) } else { quote!((#bit + #width * index)) };
            quote!(#[doc = #doc] pub const fn #name(self, index: u32) -> u32 { self.0 >> #shift & #mask })
        }
        (None, None) if field.width == 1 => {
            quote!(#[doc = #doc] pub const fn #name(self) -> bool { #value != 0 })
        }
        (None, None) => quote!(#[doc = #doc] pub const fn #name(self) -> u32 { #value }),
    }
}

fn choice(choice: &Choice) -> TokenStream {
    let (name, doc, origin) = (variant(&choice.name), &choice.doc, comment(&choice.origin.to_string()));
    let variants = choice.cases.iter().map(|case| {
        let (name, doc) = (variant(&case.name), &case.doc);
        let amount = (case.amount > 0).then(|| quote!((u32)));
        quote!(#[doc = #doc] #name #amount,)
    });
    let of = choice.cases.iter().map(|case| {
        let (name, numbers) = (variant(&case.name), numbers(case));
        let amount = (case.amount > 0).then(|| {
            let mask = mask(case.amount);
            quote!((number & #mask))
        });
        quote!(#numbers => Some(Self::#name #amount),)
    });
    let text = choice.cases.iter().map(|case| {
        let (name, text) = (variant(&case.name), &case.text);
        let amount = (case.amount > 0).then(|| quote!((_)));
        quote!(Self::#name #amount => #text,)
    });
    quote! {
        #origin
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum #name { #(#variants)* }

        impl #name {
            /// The meaning of a number, if it has one.
            pub const fn of(number: u32) -> Option<Self> {
                match number {
                    #(#of)*
                    _ => None,
                }
            }

            /// How it is written, without its amount.
            pub const fn text(self) -> &'static str {
                match self { #(#text)* }
            }
        }
    }
}

fn numbers(case: &Case) -> TokenStream {
    let (first, last) = (Literal::u32_unsuffixed(case.first), Literal::u32_unsuffixed(case.last));
    if case.first == case.last { quote!(#first) } else { quote!(#first..=#last) }
}
