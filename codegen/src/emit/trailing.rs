//! Renders the parts that follow a layout of a file: their places, readers and writers. Called by `layouts`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::constants::literal;
use super::hal_types::{type_ident, value_ident};
use super::scope::{Scope, is_padding, size_of, ty};
use crate::emit::file::comment;
use crate::model::api::Plain;
use crate::model::hal::{Layout, LayoutType, Trailing};
use crate::model::int::Int;

/// `layout` as an element, and its parts if it has some.
pub(super) fn trailing(layout: &Layout, scope: Scope<'_>) -> TokenStream {
    let name = type_ident(&layout.name);
    let parts = (!layout.then.is_empty()).then(|| parts(layout, scope));
    quote! {
        impl Part for #name {
            const SIZE: usize = Self::SIZE;

            fn read_part(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or_else(Self::default, Self::read)
            }

            fn write_part(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_bytes());
            }
        }

        #parts
    }
}

/// The integer type of the field that counts `part`.
fn count_int(layout: &Layout, part: &Trailing) -> Int {
    let field = layout.fields.iter().find(|field| field.name == part.count);
    match field.map(|field| &field.ty) {
        Some(LayoutType::Int(int)) => *int,
        // The model refuses other counts.
        _ => Int::U64,
    }
}

fn element_size(part: &Trailing, scope: Scope<'_>) -> u64 {
    part.part.as_ref().map_or(1, |ty| size_of(ty, scope))
}

fn parts(layout: &Layout, scope: Scope<'_>) -> TokenStream {
    let (name, text) = (type_ident(&layout.name), &layout.name);
    let (ranges, view) = (format_ident!("{name}Ranges"), format_ident!("{name}Parts"));
    let names: Vec<_> = layout.then.iter().map(|part| value_ident(&part.name)).collect();
    let docs: Vec<_> = layout.then.iter().map(|part| &part.doc).collect();
    let extents = layout.then.iter().map(|part| {
        let (ident, label, size) = (value_ident(&part.name), &part.name, literal(element_size(part, scope)));
        let count = value_ident(&part.count);
        let count =
            if count_int(layout, part) == Int::U64 { quote!(self.#count) } else { quote!(u64::from(self.#count)) };
        quote! {
            let #ident = extent(#text, #label, end, #count, #size)?;
            let end = #ident.end;
        }
    });
    let types: Vec<_> = layout
        .then
        .iter()
        .map(|part| match &part.part {
            Some(element) => {
                let element = ty(element, scope);
                (quote!(Elements<'a, #element>), quote!(&[#element]))
            }
            None => (quote!(&'a [u8]), quote!(&[u8])),
        })
        .collect();
    let (views, slices): (Vec<_>, Vec<_>) = types.into_iter().unzip();
    let reads = layout.then.iter().map(|part| {
        let ident = value_ident(&part.name);
        match part.part {
            Some(_) => quote!(Elements::new(within(bytes, &ranges.#ident))),
            None => quote!(within(bytes, &ranges.#ident)),
        }
    });
    let counts = layout.then.iter().map(|part| {
        let (ident, count, label) = (value_ident(&part.name), value_ident(&part.count), &part.name);
        quote!(head.#count = count_of(#text, #label, #ident.len())?;)
    });
    // Records of profiles begin with the length of all.
    let length = layout.fields.first().filter(|field| field.name == "record_length").map(|_| {
        let lengths = layout.then.iter().map(|part| {
            let ident = value_ident(&part.name);
            match element_size(part, scope) {
                1 => quote!(+ #ident.len()),
                size => {
                    let size = literal(size);
                    quote!(+ #size * #ident.len())
                }
            }
        });
        quote!(head.record_length = count_of(#text, "record_length", Self::SIZE #(#lengths)*)?;)
    });
    let writes = layout.then.iter().map(|part| {
        let ident = value_ident(&part.name);
        match part.part {
            Some(_) => quote!(#ident.iter().for_each(|part| part.write_part(out));),
            None => quote!(out.extend_from_slice(#ident);),
        }
    });
    let ranges_doc = format!("The places of the parts of a `{text}`, counted from its first byte.");
    let view_doc = format!("A `{text}` and the parts that follow it.");
    let origin = comment(&layout.origin.to_string());
    quote! {
        #origin
        #[doc = #ranges_doc]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct #ranges {
            #(#[doc = #docs] pub #names: std::ops::Range<u64>,)*
            /// The end of the last part.
            pub end: u64,
        }

        #[doc = #view_doc]
        #[derive(Clone, Copy, Debug)]
        pub struct #view<'a> {
            /// The fields.
            pub head: #name,
            #(#[doc = #docs] pub #names: #views,)*
        }

        impl #name {
            /// Where its parts lie.
            ///
            /// # Errors
            /// If the counts say more than 64 bits can address.
            pub fn ranges(&self) -> Result<#ranges, TrailingError> {
                let end = Self::SIZE as u64;
                #(#extents)*
                Ok(#ranges { #(#names,)* end })
            }

            /// Appends it with its parts, whose lengths replace the counts.
            ///
            /// # Errors
            /// If a part is longer than its count can say.
            pub fn write(&self, out: &mut Vec<u8>, #(#names: #slices),*) -> Result<(), TrailingError> {
                let mut head = *self;
                #(#counts)*
                #length
                out.extend_from_slice(&head.to_bytes());
                #(#writes)*
                Ok(())
            }
        }

        impl<'a> #view<'a> {
            /// Reads it from bytes, which end with its last part.
            ///
            /// # Errors
            /// If the bytes are fewer or more than it has.
            pub fn read(bytes: &'a [u8]) -> Result<Self, TrailingError> {
                let Some(head) = bytes.first_chunk() else {
                    return Err(TrailingError::length(#text, #name::SIZE as u64, bytes.len() as u64));
                };
                let head = #name::read(head);
                let ranges = head.ranges()?;
                if ranges.end != bytes.len() as u64 {
                    return Err(TrailingError::length(#text, ranges.end, bytes.len() as u64));
                }
                Ok(Self { head, #(#names: #reads,)* })
            }
        }
    }
}

/// The bytes of `layout`, which begins at `offset`, that writers leave zero.
fn zero_bytes(layout: &Layout, offset: u64, scope: Scope<'_>, zeros: &mut Vec<(u64, u64)>) {
    for field in &layout.fields {
        let start = offset + field.offset;
        if field.name.starts_with("reserved") || is_padding(field, scope) {
            zeros.push((start, start + size_of(&field.ty, scope) * field.count.unwrap_or(1)));
        } else if let LayoutType::Layout(name) = &field.ty
            && let Some(Plain::Layout(inner)) = scope.plain(name)
        {
            zero_bytes(inner, start, scope, zeros);
        }
    }
}

/// A description of each writable layout of `layouts`, by which tests make values of it.
pub(super) fn descriptions<'a>(layouts: impl Iterator<Item = &'a Layout>, scope: Scope<'_>) -> TokenStream {
    let descriptions = layouts.map(|layout| {
        let (name, size) = (&layout.name, literal(layout.size));
        let path = scope.path(&layout.name);
        let mut zeros = Vec::new();
        zero_bytes(layout, 0, scope, &mut zeros);
        let zeros = zeros.into_iter().map(|(start, end)| {
            let (start, end) = (literal(start), literal(end));
            quote!((#start, #end))
        });
        let parts = layout.then.iter().map(|part| {
            let count = layout.fields.iter().find(|field| field.name == part.count);
            let (offset, size) = count.map_or((0, 0), |field| (field.offset, size_of(&field.ty, scope)));
            let (name, offset, size) = (&part.name, literal(offset), literal(size));
            let element = literal(element_size(part, scope));
            quote!((#name, #offset, #size, #element))
        });
        let rewrite = if layout.then.is_empty() {
            quote! {
                |bytes| {
                    let Some(head) = bytes.first_chunk() else {
                        return Err(TrailingError::length(#name, #path::SIZE as u64, bytes.len() as u64));
                    };
                    Ok(#path::read(head).to_bytes().to_vec())
                }
            }
        } else {
            let view = format_ident!("{}Parts", type_ident(&layout.name));
            let module = path.to_string();
            let view = match module.rsplit_once("::") {
                Some((module, _)) => format!("{module}::{view}").parse().unwrap_or_default(),
                None => quote!(#view),
            };
            let parts = layout.then.iter().map(|part| {
                let ident = value_ident(&part.name);
                match part.part {
                    Some(_) => quote!(&parts.#ident.iter().collect::<Vec<_>>()),
                    None => quote!(parts.#ident),
                }
            });
            quote! {
                |bytes| {
                    let parts = #view::read(bytes)?;
                    let mut out = Vec::new();
                    parts.head.write(&mut out, #(#parts),*)?;
                    Ok(out)
                }
            }
        };
        quote! {
            LayoutDescription { name: #name, size: #size, zeros: &[#(#zeros),*], parts: &[#(#parts),*], rewrite: #rewrite }
        }
    });
    quote! {
        /// Every layout of the format.
        #[doc(hidden)]
        pub const LAYOUTS: &[LayoutDescription] = &[#(#descriptions),*];
    }
}
