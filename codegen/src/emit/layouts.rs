//! Renders binary layouts: `repr(C)` structs whose sizes and offsets are asserted when the runtime is compiled.
//!
//! Not an artifact of its own: [`super::elf`] and [`super::executable_library`] are made with it.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::emit::comment;
use crate::emit::hal_types::{literal, type_ident, value_ident, values};
use crate::model::hal::{Function, Layout, LayoutField, LayoutType, SpecFile};

/// Everything that a file with layouts declares.
pub(crate) fn file(file: &SpecFile) -> TokenStream {
    let mut items = values(file);
    items.extend(file.functions.iter().map(function));
    items.extend(file.layouts.iter().map(layout));
    items
}

fn ty(ty: &LayoutType) -> TokenStream {
    match ty {
        LayoutType::Int(int) => {
            let name = format_ident!("{}", int.name());
            quote!(#name)
        }
        LayoutType::Pointer { to, mutable } => {
            let to = self::ty(to);
            if *mutable { quote!(*mut #to) } else { quote!(*const #to) }
        }
        LayoutType::Void => quote!(std::ffi::c_void),
        LayoutType::Function(name) => {
            let name = type_ident(name);
            quote!(Option<#name>)
        }
        LayoutType::Layout(name) => {
            let name = type_ident(name);
            quote!(#name)
        }
    }
}

fn function(function: &Function) -> TokenStream {
    let (name, doc) = (type_ident(&function.name), &function.doc);
    let args = function.args.iter().map(|(name, arg)| {
        let (name, ty) = (value_ident(name), ty(arg));
        quote!(#name: #ty)
    });
    let result = function.result.as_ref().map(|result| {
        let ty = ty(result);
        quote!(-> #ty)
    });
    let origin = comment(&function.origin.to_string());
    quote! {
        #origin
        #[doc = #doc]
        pub type #name = unsafe extern "sysv64" fn(#(#args),*) #result;
    }
}

fn field_type(field: &LayoutField) -> TokenStream {
    let ty = ty(&field.ty);
    match field.count {
        Some(count) => {
            let count = literal(count);
            quote!([#ty; #count])
        }
        None => ty,
    }
}

fn layout(layout: &Layout) -> TokenStream {
    let (name, doc) = (type_ident(&layout.name), &layout.doc);
    let names: Vec<Ident> = layout.fields.iter().map(|field| value_ident(&field.name)).collect();
    let docs = layout.fields.iter().map(|field| &field.doc);
    let types = layout.fields.iter().map(field_type);
    let offsets = layout.fields.iter().map(|field| literal(field.offset));
    let (size, align) = (literal(layout.size), literal(layout.align));
    let reader = layout.readable.then(|| reader(layout));
    let derives = if layout.readable { quote!(Clone, Copy, Debug, PartialEq, Eq) } else { quote!(Clone, Copy, Debug) };
    let origin = comment(&layout.origin.to_string());
    quote! {
        #origin
        #[doc = #doc]
        #[derive(#derives)]
        #[repr(C)]
        pub struct #name { #(#[doc = #docs] pub #names: #types,)* }

        const _: () = {
            assert!(size_of::<#name>() == #size);
            assert!(align_of::<#name>() == #align);
            #(assert!(std::mem::offset_of!(#name, #names) == #offsets);)*
        };

        #reader
    }
}

/// Reads a layout of little-endian integers from bytes.
fn reader(layout: &Layout) -> TokenStream {
    let name = type_ident(&layout.name);
    let size = literal(layout.size);
    let fields = layout.fields.iter().map(|field| {
        let (name, LayoutType::Int(int)) = (value_ident(&field.name), &field.ty) else {
            // The model refuses other fields in readable layouts.
            return quote!();
        };
        let ty = format_ident!("{}", int.name());
        let element = |offset: u64| {
            let bytes = (0..int.size()).map(|byte| {
                let index = literal(offset + byte);
                quote!(bytes[#index])
            });
            quote!(#ty::from_le_bytes([#(#bytes),*]))
        };
        match field.count {
            Some(count) => {
                let elements = (0..count).map(|index| element(field.offset + index * int.size()));
                quote!(#name: [#(#elements),*])
            }
            None => {
                let value = element(field.offset);
                quote!(#name: #value)
            }
        }
    });
    quote! {
        impl #name {
            /// Size in bytes.
            pub const SIZE: usize = #size;

            /// Decodes the bytes of a file.
            pub fn read(bytes: &[u8; Self::SIZE]) -> Self {
                Self { #(#fields,)* }
            }
        }
    }
}
