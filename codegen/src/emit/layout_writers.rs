//! Renders the conversions of writable layouts: to bytes, to a zeroed value, and to text. Called by `layouts`.

use proc_macro2::TokenStream;
use quote::quote;

use super::constants::literal;
use super::hal_types::{type_ident, value_ident};
use super::scope::{Scope, is_padding, size_of};
use crate::model::api::Plain;
use crate::model::hal::{Layout, LayoutField, LayoutType};

/// Bytes, a zeroed value and a text form of `layout`.
pub(super) fn writer(layout: &Layout, scope: Scope<'_>) -> TokenStream {
    let (name, text) = (type_ident(&layout.name), &layout.name);
    let writes = layout.fields.iter().filter(|field| !is_padding(field, scope)).flat_map(|field| writes(field, scope));
    let reserved = layout.fields.iter().filter(|field| has_reserved(field, scope)).map(|field| {
        let name = value_ident(&field.name);
        match field.count {
            None if !is_reserved(field) => quote!(self.#name.reserved_is_zero()),
            Some(count) => {
                let count = literal(count);
                quote!(self.#name == [0; #count])
            }
            None => quote!(self.#name == 0),
        }
    });
    let reserved: Vec<TokenStream> = reserved.collect();
    let reserved = (!reserved.is_empty()).then(|| {
        quote! {
            /// True if everything that must be zero is.
            pub fn reserved_is_zero(&self) -> bool {
                #(#reserved)&&*
            }
        }
    });
    let display = (!scope.is_format()).then(|| {
        let shows = layout.fields.iter().map(|field| show(field, scope));
        quote! {
            impl std::fmt::Display for #name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    let mut dump = Dump::new(f, #text)?;
                    #(#shows)*
                    dump.finish()
                }
            }
        }
    });
    quote! {
        impl #name {
            /// Encodes it.
            pub fn to_bytes(&self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                #(#writes)*
                bytes
            }

            #reserved
        }

        impl Default for #name {
            /// All bytes zero.
            fn default() -> Self {
                Self::read(&[0; Self::SIZE])
            }
        }

        #display
    }
}

/// Fields of this name hold nothing yet: integers that must be zero.
fn is_reserved(field: &LayoutField) -> bool {
    field.name.starts_with("reserved") && matches!(field.ty, LayoutType::Int(_))
}

/// Reserved fields, and in a format of files also layouts that have some.
fn has_reserved(field: &LayoutField, scope: Scope<'_>) -> bool {
    if is_reserved(field) {
        return true;
    }
    match &field.ty {
        LayoutType::Layout(name) if scope.is_format() && field.count.is_none() => match scope.plain(name) {
            Some(Plain::Layout(inner)) => inner.fields.iter().any(|field| has_reserved(field, scope)),
            _ => false,
        },
        _ => false,
    }
}

fn writes(field: &LayoutField, scope: Scope<'_>) -> Vec<TokenStream> {
    let name = value_ident(&field.name);
    let size = size_of(&field.ty, scope);
    let one = |value: TokenStream, offset: u64| {
        let encoded = match &field.ty {
            LayoutType::Layout(name) => match scope.plain(name) {
                Some(Plain::Layout(_)) => {
                    let (start, end) = (literal(offset), literal(offset + size));
                    return quote!(bytes[#start..#end].copy_from_slice(&#value.to_bytes()););
                }
                _ => quote!(#value.0.to_le_bytes()),
            },
            _ => quote!(#value.to_le_bytes()),
        };
        // Bytes that are named become one store; a copy of a slice is a call in crates that have many.
        let places = (offset..offset + size).map(literal);
        quote!([#(bytes[#places]),*] = #encoded;)
    };
    match field.count {
        Some(count) => (0..count)
            .map(|index| {
                let place = literal(index);
                one(quote!(self.#name[#place]), field.offset + index * size)
            })
            .collect(),
        None => vec![one(quote!(self.#name), field.offset)],
    }
}

fn show(field: &LayoutField, scope: Scope<'_>) -> TokenStream {
    let (name, text) = (value_ident(&field.name), &field.name);
    if is_reserved(field) {
        let used = match field.count {
            Some(count) => {
                let count = literal(count);
                quote!(self.#name != [0; #count])
            }
            None => quote!(self.#name != 0),
        };
        return quote!(if #used { dump.field(#text, format_args!("{:x?}", self.#name))?; });
    }
    let plain = match &field.ty {
        LayoutType::Layout(name) => scope.plain(name),
        _ => None,
    };
    let value = match (plain, field.count) {
        (Some(Plain::Layout(_)), None) => quote!("{}", self.#name),
        (Some(Plain::Handle(_)), Some(_)) => {
            quote!("{}", HexRow(&self.#name.map(|handle| handle.0)))
        }
        (Some(Plain::Handle(_)), None) => quote!("{:#x}", self.#name.0),
        (None, Some(_)) if field.hex => quote!("{}", HexRow(&self.#name)),
        (None, None) if field.hex => quote!("{:#x}", self.#name),
        _ => quote!("{:?}", self.#name),
    };
    quote!(dump.field(#text, format_args!(#value))?;)
}
