//! Renders families of layouts: an enum that is read from bytes by its tags, and constructors that set the tags.

use proc_macro2::TokenStream;
use quote::quote;

use super::constants::literal;
use super::hal_types::type_ident;
use super::scope::Scope;
use crate::emit::file::comment;
use crate::model::api::{Family, Tag, Variant};

/// The enum of `family`, and the constructors of its members.
pub(super) fn family(family: &Family, scope: Scope<'_>) -> TokenStream {
    let (name, text, doc) = (type_ident(&family.name), &family.name, &family.doc);
    let variants: Vec<_> = family.variants.iter().map(|variant| type_ident(&variant.name)).collect();
    let layouts: Vec<_> = family.variants.iter().map(|variant| scope.path(&variant.layout.name)).collect();
    let docs = family.variants.iter().map(|variant| &variant.layout.doc);
    let names: Vec<_> = family.variants.iter().map(|variant| &variant.name).collect();
    let conditions = family.variants.iter().map(condition);
    let constructors = family.variants.iter().map(|variant| constructor(variant, scope));
    let origin = comment(&family.origin.to_string());
    quote! {
        #origin
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum #name { #(#[doc = #docs] #variants(#layouts),)* }

        impl #name {
            /// Name and size of each member.
            pub const MEMBERS: &'static [(&'static str, usize)] = &[#((#names, #layouts::SIZE)),*];

            /// Decodes the member that starts at the first byte; later bytes are ignored.
            ///
            /// # Errors
            /// If the tags are of no member, or the bytes end within it.
            pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
                #(if #conditions {
                    let Some(bytes) = bytes.first_chunk() else {
                        return Err(ReadError::short(#names, #layouts::SIZE, bytes.len()));
                    };
                    return Ok(Self::#variants(#layouts::read(bytes)));
                })*
                Err(ReadError::unknown(#text, bytes))
            }

            /// The name of the member.
            pub fn name(&self) -> &'static str {
                match self { #(Self::#variants(_) => #names,)* }
            }

            /// Appends its bytes.
            pub fn write(&self, bytes: &mut Vec<u8>) {
                match self { #(Self::#variants(value) => bytes.extend_from_slice(&value.to_bytes()),)* }
            }
        }

        impl std::fmt::Display for #name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self { #(Self::#variants(value) => value.fmt(f),)* }
            }
        }

        #(impl From<#layouts> for #name {
            fn from(value: #layouts) -> Self {
                Self::#variants(value)
            }
        })*

        #(#constructors)*
    }
}

fn condition(variant: &Variant) -> TokenStream {
    let tags = variant.when.iter().map(|tag| {
        let (offset, size, value) = (literal(tag.offset), literal(tag.size), literal(tag.value));
        let (bit, width) = (literal(u64::from(tag.bit)), literal(u64::from(tag.width)));
        quote!(tag(bytes, #offset, #size, #bit, #width) == Some(#value))
    });
    quote!(#(#tags)&&*)
}

fn constructor(variant: &Variant, scope: Scope<'_>) -> TokenStream {
    let path = scope.path(&variant.layout.name);
    let size = usize::try_from(variant.layout.size).unwrap_or_default();
    let mut bytes = vec![0u8; size];
    for tag in variant.when.iter().chain(&variant.sets) {
        set(&mut bytes, tag);
    }
    let writes = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(index, byte)| {
        let (index, byte) = (literal(index as u64), literal(u64::from(*byte)));
        quote!(bytes[#index] = #byte;)
    });
    let tags: Vec<String> =
        variant.when.iter().chain(&variant.sets).map(|tag| format!("`{}` = {:#x}", tag.path, tag.value)).collect();
    let doc = format!("All zero but what makes it a `{}`: {}.", variant.name, tags.join(", "));
    quote! {
        impl #path {
            #[doc = #doc]
            pub fn tagged() -> Self {
                let mut bytes = [0; Self::SIZE];
                #(#writes)*
                Self::read(&bytes)
            }
        }
    }
}

/// Writes `tag` into `bytes`, least significant byte first.
fn set(bytes: &mut [u8], tag: &Tag) {
    for index in 0..tag.width {
        let bit = u64::from(tag.bit + index);
        let place = usize::try_from(tag.offset + bit / 8).unwrap_or(usize::MAX);
        if let Some(byte) = bytes.get_mut(place).filter(|_| tag.value >> index & 1 != 0) {
            *byte |= 1 << (bit % 8);
        }
    }
}
