//! Renders binary layouts: `repr(C)` structs whose sizes and offsets are asserted when the runtime is compiled.
//!
//! Not an artifact of its own: [`super::elf`], [`super::executable_library`], [`super::executable_plugin`] and
//! [`super::api`] call it.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::emit::constants::literal;
use crate::emit::file::comment;
use crate::emit::hal_types::{type_ident, value_ident, values};
pub(crate) use crate::emit::scope::ty;
use crate::emit::scope::{Scope, is_padding, size_of};
use crate::emit::{layout_writers, trailing};
use crate::model::api::Plain;
use crate::model::hal::{Function, Layout, LayoutField, LayoutType, SpecFile};
use crate::model::int::Int;

/// Everything that a file with layouts declares.
pub(crate) fn file(file: &SpecFile, scope: Scope<'_>) -> TokenStream {
    let mut items = values(file);
    items.extend(file.functions.iter().map(|item| function(item, &type_ident(&item.name), scope)));
    items.extend(file.layouts.iter().map(|item| layout(item, scope)));
    items
}

/// The type of a native function, called `name`.
pub(crate) fn function(function: &Function, name: &Ident, scope: Scope<'_>) -> TokenStream {
    let doc = &function.doc;
    let args = function.args.iter().map(|(name, arg)| {
        let (name, ty) = (value_ident(name), ty(arg, scope));
        quote!(#name: #ty)
    });
    let result = function.result.as_ref().map(|result| {
        let ty = ty(result, scope);
        quote!(-> #ty)
    });
    let args: Vec<TokenStream> = args.collect();
    let origin = comment(&function.origin.to_string());
    let types = scope.conventions().iter().map(|(condition, convention)| {
        let condition = condition.map(|condition| {
            let condition: TokenStream = condition.parse().expect("conditions are written in `scope`");
            quote!(#[cfg(#condition)])
        });
        quote! {
            #condition
            #[doc = #doc]
            pub type #name = unsafe extern #convention fn(#(#args),*) #result;
        }
    });
    quote! {
        #origin
        #(#types)*
    }
}

fn field_type(field: &LayoutField, scope: Scope<'_>) -> TokenStream {
    let ty = ty(&field.ty, scope);
    match field.count {
        Some(count) => {
            let count = literal(count);
            quote!([#ty; #count])
        }
        None => ty,
    }
}

fn layout(layout: &Layout, scope: Scope<'_>) -> TokenStream {
    let (name, doc) = (type_ident(&layout.name), &layout.doc);
    let names: Vec<Ident> = layout.fields.iter().map(|field| value_ident(&field.name)).collect();
    let docs = layout.fields.iter().map(|field| &field.doc);
    let types = layout.fields.iter().map(|field| field_type(field, scope));
    let offsets = layout.fields.iter().map(|field| literal(field.offset));
    let (size, align) = (literal(layout.size), literal(layout.align));
    let reader = layout.readable.then(|| reader(layout, scope));
    let writer = layout.writable.then(|| layout_writers::writer(layout, scope));
    let trailing = (scope.is_format() && layout.writable).then(|| trailing::trailing(layout, scope));
    let repr = if layout.over_aligned { quote!(C, align(#align)) } else { quote!(C) };
    let derives = if layout.readable { quote!(Clone, Copy, Debug, PartialEq, Eq) } else { quote!(Clone, Copy, Debug) };
    let origin = comment(&layout.origin.to_string());
    // Interfaces of kernels have pointers of 64 bits. Where pointers are shorter there are no kernels in machine code
    // to agree with.
    let has_pointers = layout.fields.iter().any(|field| !matches!(field.ty, LayoutType::Int(_)));
    let asserted = (has_pointers && matches!(scope, Scope::File)).then(|| quote!(#[cfg(target_pointer_width = "64")]));
    quote! {
        #origin
        #[doc = #doc]
        #[derive(#derives)]
        #[repr(#repr)]
        pub struct #name { #(#[doc = #docs] pub #names: #types,)* }

        #asserted
        const _: () = {
            assert!(size_of::<#name>() == #size);
            assert!(align_of::<#name>() == #align);
            #(assert!(std::mem::offset_of!(#name, #names) == #offsets);)*
        };

        #reader
        #writer
        #trailing
    }
}

/// The value of the type `ty` at `offset` of `bytes`; its bytes are those of integers.
fn value_at(ty: &LayoutType, offset: u64, scope: Scope<'_>) -> TokenStream {
    let integer = |int: Int| {
        let ty = format_ident!("{}", int.name());
        let bytes = (0..int.size()).map(|byte| {
            let index = literal(offset + byte);
            quote!(bytes[#index])
        });
        quote!(#ty::from_le_bytes([#(#bytes),*]))
    };
    match ty {
        LayoutType::Int(int) => integer(*int),
        LayoutType::Layout(name) => {
            let path = scope.path(name);
            match scope.plain(name) {
                Some(Plain::Layout(layout)) => {
                    let fields = fields_at(layout, offset, scope);
                    quote!(#path { #(#fields,)* })
                }
                Some(number) => {
                    let value = number.int().map(integer);
                    quote!(#path(#value))
                }
                // The model refuses other fields in readable layouts.
                None => quote!(),
            }
        }
        _ => quote!(),
    }
}

fn fields_at(layout: &Layout, offset: u64, scope: Scope<'_>) -> Vec<TokenStream> {
    let fields = layout.fields.iter().map(|field| {
        let (name, start) = (value_ident(&field.name), offset + field.offset);
        // Writers of files leave anything in padding.
        match field.count {
            Some(count) if is_padding(field, scope) => {
                let count = literal(count);
                quote!(#name: [0; #count])
            }
            None if is_padding(field, scope) => quote!(#name: 0),
            Some(count) => {
                let size = size_of(&field.ty, scope);
                let elements = (0..count).map(|index| value_at(&field.ty, start + index * size, scope));
                quote!(#name: [#(#elements),*])
            }
            None => {
                let value = value_at(&field.ty, start, scope);
                quote!(#name: #value)
            }
        }
    });
    fields.collect()
}

/// Reads a layout of little-endian integers from bytes.
fn reader(layout: &Layout, scope: Scope<'_>) -> TokenStream {
    let name = type_ident(&layout.name);
    let size = literal(layout.size);
    let fields = fields_at(layout, 0, scope);
    let doc = match scope {
        Scope::File => "Decodes the bytes of a file.",
        Scope::Api(..) => "Decodes bytes; any are accepted.",
    };
    quote! {
        impl #name {
            /// Size in bytes.
            pub const SIZE: usize = #size;

            #[doc = #doc]
            pub fn read(bytes: &[u8; Self::SIZE]) -> Self {
                Self { #(#fields,)* }
            }
        }
    }
}
