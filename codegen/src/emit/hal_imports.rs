//! Emits implementations of the HAL traits for objects of other libraries, which call their vtables.

use proc_macro2::TokenStream;
use quote::quote;

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::hal_operations::{points, submit_signature};
use crate::emit::hal_traits::signature;
use crate::emit::hal_types::{is_plain, type_ident, value_ident};
use crate::emit::hal_vtables::{kind_of_one, kind_of_value, raw_value, shared, vtable_ident};
use crate::load::Spec;
use crate::model::hal::{DefaultBody, Field, Hal, Kind, Method, Object, Shape};

/// `hal/imports.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    if hal.objects().next().is_none() {
        return Vec::new();
    }
    let objects = shared(hal).map(|object| {
        let vtable = vtable_ident(object);
        let base = object.extends.as_ref().and_then(|name| hal.object(name));
        let traits = base.into_iter().chain([object]).map(|of| implementation(hal, of, &vtable));
        quote!(#(#traits)*)
    });
    let items = quote! {
        use std::any::Any;
        use std::mem::MaybeUninit;
        use std::sync::Arc;

        use super::traits::*;
        use super::types::*;
        use super::vtables::*;

        #(#objects)*
    };
    vec![source("hal/imports.rs", "spec/hal/*.yaml", items)]
}

fn implementation(hal: &Hal, object: &Object, vtable: &proc_macro2::Ident) -> TokenStream {
    let name = type_ident(&object.name);
    let methods = object.methods.iter().map(|method| self::method(hal, object, method));
    let origin = comment(&object.origin.to_string());
    let submit = object.operations().next().map(|_| {
        let (signature, points) = (submit_signature(), points());
        quote!(fn submit #signature { operation.call(self, #(#points),*) })
    });
    quote! {
        #origin
        impl<S: Side> #name for Imported<S, #vtable> {
            #(#methods)*
            #submit
        }
    }
}

fn method(hal: &Hal, object: &Object, method: &Method) -> TokenStream {
    let (name, title) = (value_ident(&method.name), format!("{}.{}", object.name, method.name));
    let unsafety = method.safety.as_ref().map(|_| quote!(unsafe));
    let signature = signature(hal, method);
    let slot = match method.default {
        None => quote!(let slot = self.vtable().#name;),
        Some(default) => {
            let missing = match default {
                DefaultBody::Unimplemented => quote!(Err(unimplemented(#title))),
                DefaultBody::Zero if method.infallible => quote!(Default::default()),
                DefaultBody::Zero => quote!(Ok(Default::default())),
            };
            quote!(let Some(slot) = self.vtable().#name else { return #missing; };)
        }
    };
    let lent = method.args.iter().filter_map(|arg| lend(hal, arg));
    let passed = method.args.iter().map(pass);
    let call = |out: TokenStream| quote!(slot(self.data() #(, #passed)* #out));
    let body = result(hal, method, &title, call);
    quote! {
        #unsafety fn #name #signature {
            #slot
            #(#lent)*
            #body
        }
    }
}

/// The call, and the conversion of its result.
fn result(hal: &Hal, method: &Method, title: &str, call: impl FnOnce(TokenStream) -> TokenStream) -> TokenStream {
    let safety = comment("SAFETY: a method of the object; what it borrows outlives it.");
    let returned = comment("SAFETY: the method succeeded, so its result is there.");
    let Some(shape) = &method.result else {
        let call = call(quote!());
        return match method.infallible {
            true => quote!(#safety unsafe { #call }),
            false => quote!(#safety unsafe { take(#call) }),
        };
    };
    let ty = raw_value(hal, shape);
    let call = call(quote!(, out.as_mut_ptr()));
    let call = match method.infallible {
        true => quote!(#safety unsafe { #call };),
        false => quote!(#safety unsafe { take(#call) }?;),
    };
    let value = match (&shape.kind, method.infallible) {
        (Kind::String, true) => {
            quote!(#returned unsafe { borrowed_text(out.assume_init()) }.unwrap_or_else(|status| broken(#title, status)))
        }
        (Kind::String, false) => quote!(#returned unsafe { borrowed_text(out.assume_init()) }),
        (_, infallible) => {
            let decode = decode_result(shape);
            let broken = infallible.then(|| quote!(.unwrap_or_else(|status| broken(#title, status))));
            quote!(#returned let value = unsafe { #decode }; value.decode() #broken)
        }
    };
    quote! {
        let mut out = MaybeUninit::<#ty>::uninit();
        #call
        #value
    }
}

fn decode_result(shape: &Shape) -> TokenStream {
    let kind = kind_of_value(shape);
    quote!(Lent::<S, #kind>::returned(out))
}

/// The temporaries that an argument borrows from during the call.
fn lend(hal: &Hal, arg: &Field) -> Option<TokenStream> {
    let (name, kind) = (value_ident(&arg.name), kind_of_one(&arg.shape));
    let value = match &arg.shape.kind {
        Kind::Bytes if arg.shape.list => {
            quote!(#name.iter().map(|bytes| RawSlice::of(bytes)).collect::<Vec<RawSlice<u8>>>())
        }
        _ if arg.shape.list => quote!(LentList::<S, #kind>::new(#name)),
        Kind::Object(_) if arg.shape.null => quote!(Lent::<S, #kind>::new(&#name.cloned())),
        Kind::Object(_) => quote!(Lent::<S, #kind>::new(#name)),
        Kind::Owner => quote!(Lent::<S, #kind>::new(&#name)),
        // Plain structs are values, others are borrowed already.
        Kind::Struct(of) if hal.structure(of).is_some_and(|structure| is_plain(hal, structure)) => {
            quote!(Lent::<S, #kind>::new(&#name))
        }
        Kind::Struct(_) => quote!(Lent::<S, #kind>::new(#name)),
        _ => return None,
    };
    Some(quote!(let #name = #value;))
}

/// The argument as the slot takes it.
fn pass(arg: &Field) -> TokenStream {
    let name = value_ident(&arg.name);
    match &arg.shape.kind {
        Kind::Bytes if arg.shape.list => quote!(RawSlice::of(&#name)),
        _ if arg.shape.list => quote!(#name.slice()),
        Kind::Object(_) | Kind::Owner => quote!(*#name.raw()),
        Kind::Struct(_) => quote!(#name.raw()),
        Kind::String => quote!(RawSlice::of(#name.as_bytes())),
        Kind::Bytes => quote!(RawSlice::of(#name)),
        Kind::Status => quote!(status_into_raw(&#name)),
        Kind::Deadline => quote!(encode_deadline(#name)),
        Kind::Callback => quote!(RawCallback::new(#name)),
        Kind::Layout { .. } => quote!(#name),
        _ => {
            let kind = kind_of_one(&arg.shape);
            quote!(encode::<S, #kind>(&#name))
        }
    }
}
