//! Emits the functions by which other libraries call objects of this one, and the vtables they are in.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::hal_types::{is_plain, type_ident, value_ident};
use crate::emit::hal_vtables::{kind_of_one, kind_of_value, raw_argument, raw_value, shared, vtable_ident};
use crate::load::Spec;
use crate::model::hal::{Field, Hal, Kind, Method, Object};

/// `hal/exports.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    if hal.objects().next().is_none() {
        return Vec::new();
    }
    let objects = shared(hal).map(|object| self::object(hal, object));
    let items = quote! {
        use std::any::Any;
        use std::ffi::c_void;
        use std::mem::offset_of;
        use std::sync::Arc;

        use super::traits::*;
        use super::types::*;
        use super::vtables::*;

        #(#objects)*
    };
    vec![source("hal/exports.rs", "spec/hal/*.yaml", items)]
}

fn object(hal: &Hal, object: &Object) -> TokenStream {
    let (name, vtable, spec_name) = (type_ident(&object.name), vtable_ident(object), &object.name);
    let id = proc_macro2::Literal::u32_unsuffixed(object.id);
    let slots = hal.slots(object);
    let values = slots.iter().map(|(_, method)| {
        let (slot, function) = (value_ident(&method.name), function_ident(object, method));
        if method.default.is_some() { quote!(#slot: Some(#function::<S>)) } else { quote!(#slot: #function::<S>) }
    });
    let required = match slots.iter().rev().find(|(_, method)| method.default.is_none()) {
        Some((_, method)) => {
            let slot = value_ident(&method.name);
            quote!(offset_of!(#vtable, #slot) + size_of::<unsafe extern "C" fn()>())
        }
        None => quote!(size_of::<Header>()),
    };
    let functions = slots.iter().map(|(_, method)| function(hal, object, method));
    let origin = comment(&object.origin.to_string());
    quote! {
        #origin
        impl<S: Side> Interface<S> for dyn #name {
            type Vtable = #vtable;
            const ID: u32 = #id;
            const NAME: &'static str = #spec_name;
            const REQUIRED: usize = #required;
            const VTABLE: &'static #vtable = &#vtable {
                header: header::<S, dyn #name>(),
                #(#values,)*
            };

            fn as_any(&self) -> &dyn Any {
                self
            }

            fn import(object: Imported<S, #vtable>) -> Arc<dyn #name> {
                Arc::new(object)
            }
        }

        #(#functions)*
    }
}

fn function_ident(object: &Object, method: &Method) -> proc_macro2::Ident {
    format_ident!("{}_{}", object.name, method.name)
}

fn function(hal: &Hal, object: &Object, method: &Method) -> TokenStream {
    let (name, of) = (function_ident(object, method), type_ident(&object.name));
    let (slot, title) = (value_ident(&method.name), format!("{}.{}", object.name, method.name));
    let args = method.args.iter().map(|arg| {
        let (name, ty) = (value_ident(&arg.name), raw_argument(hal, &arg.shape));
        quote!(#name: #ty)
    });
    // Transferred arguments are taken before anything can fail, or they would leak.
    let moved = |arg: &&Field| matches!(arg.shape.kind, Kind::Status | Kind::Callback);
    let first = method.args.iter().filter(moved).map(take);
    let then = method.args.iter().filter(|arg| !moved(arg)).map(take);
    let passed = method.args.iter().map(|arg| pass(hal, arg));
    let question = (!method.infallible).then(|| quote!(?));
    let call = quote!(object.#slot(#(#passed),*) #question);
    let (out, tail) = match &method.result {
        None if method.infallible => (quote!(), quote!(#call; Ok(()))),
        None => (quote!(), quote!(#call; Ok(()))),
        Some(shape) => {
            let ty = raw_value(hal, shape);
            let value = match shape.kind {
                Kind::String => quote!(RawSlice::of(value.as_bytes())),
                _ => {
                    let kind = kind_of_value(shape);
                    quote!(encode::<S, #kind>(&value))
                }
            };
            (quote!(, out: *mut #ty), quote!(let value = #call; out.write(#value); Ok(())))
        }
    };
    let status = (!method.infallible).then(|| quote!(-> *mut RawStatus));
    let guard = if method.infallible { quote!(guard_infallible) } else { quote!(guard) };
    let object_type = quote!(dyn #of);
    let safety = comment("SAFETY: the caller keeps the interface: all arguments are valid.");
    quote! {
        unsafe extern "C" fn #name<S: Side>(this: *mut c_void #(, #args)* #out) #status {
            S::called(#title);
            #safety
            #guard(#title, || unsafe {
                let object = object::<#object_type>(this);
                #(#first)*
                #(#then)*
                #tail
            })
        }
    }
}

/// From the raw argument to a value that lives until the call is over.
fn take(arg: &Field) -> TokenStream {
    let name = value_ident(&arg.name);
    let value = match &arg.shape.kind {
        Kind::Bytes if arg.shape.list => quote!(slices(#name)?),
        _ if arg.shape.list => {
            let kind = kind_of_one(&arg.shape);
            quote!(decode_list::<S, #kind>(#name)?)
        }
        Kind::String => quote!(#name.text()?),
        Kind::Bytes => quote!(#name.get()?),
        Kind::Struct(_) => {
            let kind = kind_of_one(&arg.shape);
            quote!(decode_at::<S, #kind>(#name)?)
        }
        Kind::Layout { .. } => quote!(borrow(#name)?),
        Kind::Status => quote!(take_status(#name)),
        Kind::Deadline => quote!(decode_deadline(#name)),
        Kind::Callback => quote!(#name.take()),
        _ => {
            let kind = kind_of_one(&arg.shape);
            quote!(decode::<S, #kind>(&#name)?)
        }
    };
    quote!(let #name = #value;)
}

/// The value as the trait takes it.
fn pass(hal: &Hal, arg: &Field) -> TokenStream {
    let name = value_ident(&arg.name);
    match &arg.shape.kind {
        _ if arg.shape.list => quote!(&#name),
        Kind::Object(_) if arg.shape.null => quote!(#name.as_ref()),
        Kind::Object(_) => quote!(&#name),
        Kind::Struct(of) if !hal.structure(of).is_some_and(|structure| is_plain(hal, structure)) => quote!(&#name),
        _ => quote!(#name),
    }
}
