//! Emits the `repr(C)` form of HAL objects: a vtable for each object, a mirror of each struct, and the conversion of
//! values to their raw form.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::constants::literal;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::hal_types::{owned, type_ident, value_ident};
use crate::load::Spec;
use crate::model::hal::{Form, Hal, Kind, Method, Numbers, Object, Shape, Struct};

/// `hal/vtables.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    if hal.objects().next().is_none() {
        return Vec::new();
    }
    let vtables = shared(hal).map(|object| vtable(hal, object));
    // Layouts and the types of their fields cross unchanged.
    let files = || hal.files.iter().filter(|file| file.is_interface());
    let mirrors = files().flat_map(|file| &file.structs).map(|structure| mirror(hal, structure));
    let numbers = files().flat_map(|file| &file.numbers).map(number);
    let handles = files().flat_map(|file| &file.handles).map(|handle| {
        let (name, int) = (type_ident(&handle.name), format_ident!("{}", handle.int.name()));
        quote!(number!(#name, #int, |value| value.0, |number| Ok(#name(number)));)
    });
    let items = quote! {
        use std::ffi::c_void;
        use std::mem::offset_of;

        use super::traits::*;
        use super::types::*;

        #(#vtables)*
        #(#mirrors)*
        #(#numbers)*
        #(#handles)*
    };
    vec![source("hal/vtables.rs", "spec/hal/*.yaml", items)]
}

/// The objects that other libraries can implement.
pub(crate) fn shared(hal: &Hal) -> impl Iterator<Item = &Object> {
    hal.objects().filter(|object| !object.concrete)
}

/// `DeviceVtable`
pub(crate) fn vtable_ident(object: &Object) -> proc_macro2::Ident {
    format_ident!("{}Vtable", type_ident(&object.name))
}

/// A type written as in [`Hal::argument_text`] and the like.
fn tokens(text: &str) -> TokenStream {
    text.parse().expect("a type is tokens")
}

/// The type of an argument between libraries.
pub(crate) fn raw_argument(hal: &Hal, shape: &Shape) -> TokenStream {
    match &shape.kind {
        Kind::Layout { .. } => {
            let ty = owned(&shape.kind);
            quote!(*const #ty)
        }
        _ => tokens(&hal.argument_text(shape)),
    }
}

/// The type of a result between libraries.
pub(crate) fn raw_value(hal: &Hal, shape: &Shape) -> TokenStream {
    tokens(&hal.value_text(shape))
}

/// The kind of one value, as the conversions of the runtime call it.
pub(crate) fn kind_of_one(shape: &Shape) -> TokenStream {
    match &shape.kind {
        Kind::Object(name) => {
            let name = type_ident(name);
            if shape.null { quote!(NullObject<dyn #name>) } else { quote!(Object<dyn #name>) }
        }
        Kind::Owner if shape.null => quote!(NullOwner),
        Kind::Owner => quote!(Owner),
        Kind::Pointer if shape.null => quote!(Option<std::ptr::NonNull<u8>>),
        Kind::Pointer => quote!(std::ptr::NonNull<u8>),
        kind => owned(kind),
    }
}

/// The kind of a result or field.
pub(crate) fn kind_of_value(shape: &Shape) -> TokenStream {
    let one = kind_of_one(shape);
    match shape.count {
        _ if shape.list => quote!(List<#one>),
        Some(count) => {
            let count = Literal::u32_unsuffixed(count);
            quote!([#one; #count])
        }
        None => one,
    }
}

/// `unsafe extern "C" fn(this: *mut c_void, value: u64) -> *mut RawStatus`
fn slot_type(hal: &Hal, method: &Method) -> TokenStream {
    let args = method.args.iter().map(|arg| {
        let (name, ty) = (value_ident(&arg.name), raw_argument(hal, &arg.shape));
        quote!(#name: #ty)
    });
    let out = method.result.as_ref().map(|shape| {
        let ty = raw_value(hal, shape);
        quote!(, out: *mut #ty)
    });
    let status = (!method.infallible).then(|| quote!(-> *mut RawStatus));
    quote!(unsafe extern "C" fn(this: *mut c_void #(, #args)* #out) #status)
}

fn vtable(hal: &Hal, object: &Object) -> TokenStream {
    let (name, doc) = (vtable_ident(object), format!("The methods of a `{}` in another library.", object.name));
    let slots = hal.slots(object);
    let fields = slots.iter().map(|(_, method)| {
        let (name, doc, ty) = (value_ident(&method.name), &method.doc, slot_type(hal, method));
        let ty = if method.default.is_some() { quote!(Option<#ty>) } else { ty };
        quote!(#[doc = #doc] pub #name: #ty)
    });
    let (offsets, size) = hal.slot_offsets(object);
    let size = literal(size);
    let asserts = slots.iter().zip(offsets).map(|((_, method), offset)| {
        let (slot, offset) = (value_ident(&method.name), literal(offset));
        quote!(assert!(offset_of!(#name, #slot) == #offset);)
    });
    let origin = comment(&object.origin.to_string());
    quote! {
        #origin
        #[doc = #doc]
        #[repr(C)]
        #[derive(Debug)]
        pub struct #name {
            /// The header of every vtable.
            pub header: Header,
            #(#fields,)*
        }

        #[cfg(target_pointer_width = "64")]
        const _: () = {
            assert!(size_of::<#name>() == #size);
            #(#asserts)*
        };
    }
}

fn mirror(hal: &Hal, structure: &Struct) -> TokenStream {
    let (name, raw) = (type_ident(&structure.name), format_ident!("Raw{}", type_ident(&structure.name)));
    let doc = format!("[`{name}`] between libraries.");
    let names: Vec<_> = structure.fields.iter().map(|field| value_ident(&field.name)).collect();
    let docs = structure.fields.iter().map(|field| &field.doc);
    let types = structure.fields.iter().map(|field| raw_value(hal, &field.shape));
    let kinds: Vec<_> = structure.fields.iter().map(|field| kind_of_value(&field.shape)).collect();
    let (offsets, extent) = hal.layout_of(structure);
    let (size, align) = (literal(extent.size), literal(extent.align));
    let offsets = offsets.into_iter().map(literal);
    let owning = structure.fields.iter().zip(&names).zip(&kinds).filter(|((field, _), _)| owns(hal, &field.shape));
    let owning: Vec<_> = owning.map(|((_, name), kind)| quote!(<#kind as Abi<S>>::dispose(&raw.#name);)).collect();
    let safety = comment("SAFETY: the fields of a valid struct are valid.");
    let dispose = (!owning.is_empty()).then(|| {
        quote! {
            unsafe fn dispose(raw: &#raw) {
                #safety
                unsafe { #(#owning)* }
            }
        }
    });
    let origin = comment(&structure.origin.to_string());
    quote! {
        #origin
        #[doc = #doc]
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct #raw { #(#[doc = #docs] pub #names: #types,)* }

        #[cfg(target_pointer_width = "64")]
        const _: () = {
            assert!(size_of::<#raw>() == #size && align_of::<#raw>() == #align);
            #(assert!(offset_of!(#raw, #names) == #offsets);)*
        };

        impl<S: Side> Abi<S> for #name {
            type Value = #name;
            type Raw = #raw;

            fn encode(value: &#name) -> #raw {
                #raw { #(#names: <#kinds as Abi<S>>::encode(&value.#names),)* }
            }

            unsafe fn decode(raw: &#raw) -> Result<#name> {
                #safety
                Ok(unsafe { #name { #(#names: <#kinds as Abi<S>>::decode(&raw.#names)?,)* } })
            }

            #dispose
        }
    }
}

/// True if raw values of the shape own something.
fn owns(hal: &Hal, shape: &Shape) -> bool {
    match &shape.kind {
        _ if shape.list => true,
        Kind::Struct(name) => {
            hal.structure(name).is_some_and(|structure| structure.fields.iter().any(|field| owns(hal, &field.shape)))
        }
        kind => matches!(kind, Kind::Object(_) | Kind::Text | Kind::Owner),
    }
}

fn number(numbers: &Numbers) -> TokenStream {
    let (name, int) = (type_ident(&numbers.name), format_ident!("{}", numbers.int.name()));
    match numbers.form {
        Form::Enum => quote!(number!(#name, #int, |value| value as #int, #name::from_number);),
        // Bits of a later version are kept: they may be handed back.
        Form::Bits | Form::OpenBits => {
            quote!(number!(#name, #int, #name::bits, |number| Ok(#name::from_bits_retain(number)));)
        }
        Form::Code => quote!(number!(#name, #int, |value| value.0, |number| Ok(#name(number)));),
    }
}
