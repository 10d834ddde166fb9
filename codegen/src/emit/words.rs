//! Renders words of bit fields: accessors that check ranges, and a text form.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::constants::literal;
use super::hal_types::{type_ident, value_ident};
use super::scope::Scope;
use crate::emit::file::comment;
use crate::model::api::{BitField, Plain, Word};
use crate::model::int::Int;

/// The type of `word`.
pub(super) fn word(word: &Word, scope: Scope<'_>) -> TokenStream {
    let (name, text, doc) = (type_ident(&word.name), &word.name, &word.doc);
    let ty = format_ident!("{}", word.int.name());
    let accessors = word.fields.iter().enumerate().map(|(index, field)| accessor(field, index, &ty, scope));
    let table = word.fields.iter().map(|field| {
        let (name, bit, width) = (&field.name, literal(u64::from(field.bit)), literal(u64::from(field.width)));
        quote!(BitField { word: #text, name: #name, bit: #bit, width: #width })
    });
    let named: u64 = word.fields.iter().fold(0, |bits, field| bits | field.max() << field.bit);
    let all = (1u64 << (8 * word.int.size())) - 1;
    let reserved = literal(all & !named);
    let shows = word.fields.iter().map(|field| {
        let (name, text) = (value_ident(&field.name), &field.name);
        if is_flag(field) {
            quote!(dump.flag(#text, self.#name())?;)
        } else {
            let mask = literal(field.max() << field.bit);
            let bits = if field.width as u64 == 8 * word_bytes(&ty) { quote!(self.0) } else { quote!(self.0 & #mask) };
            quote!(dump.value(#text, format_args!("{:?}", self.#name()), #bits == 0)?;)
        }
    });
    let origin = comment(&word.origin.to_string());
    quote! {
        #origin
        #[doc = #doc]
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct #name(pub #ty);

        impl #name {
            /// Its fields from the lowest bit up.
            pub const FIELDS: &'static [BitField] = &[#(#table),*];

            /// Bits that no field names; they must be zero.
            pub const RESERVED: #ty = #reserved;

            #(#accessors)*
        }

        impl std::fmt::Debug for #name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut dump = WordDump::new(f)?;
                #(#shows)*
                dump.finish(u64::from(self.0), u64::from(Self::RESERVED))
            }
        }
    }
}

/// Bytes of a word's type.
fn word_bytes(ty: &proc_macro2::Ident) -> u64 {
    Int::from_name(&ty.to_string()).map_or(0, Int::size)
}

/// One bit without names for its values.
fn is_flag(field: &BitField) -> bool {
    field.width == 1 && field.kind.is_none()
}

fn accessor(field: &BitField, index: usize, ty: &proc_macro2::Ident, scope: Scope<'_>) -> TokenStream {
    let (get, set, doc) = (value_ident(&field.name), format_ident!("with_{}", field.name), &field.doc);
    let setter_doc = format!("Sets `{}`.", field.name);
    let (bit, index) = (literal(u64::from(field.bit)), literal(index as u64));
    // A shift by zero is left out.
    let (down, mask) =
        (if field.bit == 0 { quote!(self.0) } else { quote!(self.0 >> #bit) }, literal(field.max() << field.bit));
    if is_flag(field) {
        let flag = if field.bit == 0 { quote!(value as #ty) } else { quote!((value as #ty) << #bit) };
        return quote! {
            #[doc = #doc]
            pub const fn #get(self) -> bool {
                #down & 1 != 0
            }

            #[doc = #setter_doc]
            #[must_use]
            pub const fn #set(self, value: bool) -> Self {
                Self(self.0 & !#mask | #flag)
            }
        };
    }
    let code = field.kind.as_ref().and_then(|kind| match scope.plain(kind) {
        Some(Plain::Code(numbers)) => Some((scope.path(kind), format_ident!("{}", numbers.int.name()))),
        _ => None,
    });
    let small = match field.width {
        0..=8 => format_ident!("u8"),
        9..=16 => format_ident!("u16"),
        _ => format_ident!("u32"),
    };
    let setter_doc = format!("Sets `{}`; refuses a value of more than {} bits.", field.name, field.width);
    let max = literal(field.max());
    // A conversion from a type to itself is left out.
    let cast = |to: &proc_macro2::Ident| (to != ty).then(|| quote!(as #to));
    // A field as wide as its word needs no mask.
    let bits = if field.width as u64 == 8 * word_bytes(ty) { down } else { quote!(#down & #max) };
    let held_as = |to: &proc_macro2::Ident| cast(to).map_or_else(|| bits.clone(), |cast| quote!((#bits) #cast));
    let (value_type, getter, number) = match &code {
        Some((path, int)) => {
            let held = held_as(int);
            (path.clone(), quote!(#path(#held)), quote!(value.0))
        }
        None => (quote!(#small), held_as(&small), quote!(value)),
    };
    let held = code.as_ref().map_or(&small, |(_, int)| int);
    let back = match (cast(held), field.bit) {
        (None, 0) => number.clone(),
        (None, _) => quote!(#number << #bit),
        (Some(_), 0) => quote!(#number as #ty),
        (Some(_), _) => quote!((#number as #ty) << #bit),
    };
    quote! {
        #[doc = #doc]
        pub const fn #get(self) -> #value_type {
            #getter
        }

        #[doc = #setter_doc]
        pub const fn #set(self, value: #value_type) -> Result<Self, FieldError> {
            match check_field(&Self::FIELDS[#index], #number as u64) {
                Ok(()) => Ok(Self(self.0 & !#mask | #back)),
                Err(error) => Err(error),
            }
        }
    }
}
