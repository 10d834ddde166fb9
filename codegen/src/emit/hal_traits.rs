//! Emits the object-safe traits of the HAL, their methods in slot order, and the names of optional methods.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::hal_operations::{submit, submit_signature};
use crate::emit::hal_types::{is_plain, method_variant, owned, type_ident, value_ident};
use crate::load::Spec;
use crate::model::hal::{DefaultBody, Field, Hal, Kind, Method, Object, Shape};

/// `hal/traits.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let objects: Vec<&Object> = spec.hal.objects().collect();
    if objects.is_empty() {
        return Vec::new();
    }
    let traits = objects.iter().filter(|object| !object.concrete).map(|object| object_trait(&spec.hal, object));
    let vm_types = objects.iter().filter_map(|object| vm_type(object));
    let optional = optional_methods(&spec.hal);
    let operations = objects.iter().any(|object| object.operations().next().is_some());
    let operations = operations.then(|| {
        quote!(
            use super::operations::*;
        )
    });
    let items = quote! {
        use std::any::Any;
        use std::fmt::Debug;
        use std::sync::Arc;

        #operations
        use super::types::*;

        #(#traits)*
        #(#vm_types)*
        #optional
    };
    vec![source("hal/traits.rs", "spec/hal/*.yaml", items)]
}

fn object_trait(hal: &Hal, object: &Object) -> TokenStream {
    let (name, doc) = (type_ident(&object.name), &object.doc);
    let methods = object.methods.iter().map(|method| self::method(hal, object, method));
    let base = match &object.extends {
        Some(base) => {
            let base = type_ident(base);
            quote!(#base)
        }
        None => quote!(Any + Debug + Send + Sync),
    };
    let origin = comment(&object.origin.to_string());
    let recycle = (object.vm_type.is_some() && !object.concrete).then(|| {
        quote! {
            /// Drops a reference. An implementation may recycle the object if it was the last one.
            fn recycle(self: Arc<Self>) {}
        }
    });
    let submit = object.operations().next().map(|_| {
        let signature = submit_signature();
        quote! {
            /// Submits an operation to a queue; the methods of operations call it. A device fails operations that it
            /// lacks with UNIMPLEMENTED.
            ///
            /// # Errors
            /// Those of the method of the operation.
            fn submit #signature;
        }
    });
    let facets = object.facets.iter().map(|facet| {
        let (method, ty, doc) = (value_ident(&facet.name), type_ident(&facet.name), &facet.doc);
        let signature = match facet.part {
            true => quote!((&self) -> Option<&#ty>),
            false => quote!((self: Arc<Self>) -> Option<Arc<dyn #ty>>),
        };
        quote! {
            #[doc = #doc]
            #[doc(hidden)]
            fn #method #signature {
                None
            }
        }
    });
    quote! {
        #origin
        #[doc = #doc]
        pub trait #name: #base {
            #(#methods)*
            #submit
            #(#facets)*
            #recycle
        }
    }
}

/// The methods without which a device is one all the same, as an enum.
fn optional_methods(hal: &Hal) -> TokenStream {
    let doc = "A method that devices, or the objects they make, need not have. What lacks it fails with UNIMPLEMENTED.";
    method_enum("OptionalMethod", doc, &hal.optional_methods())
}

/// An enum of methods, with their names; nothing if there are none.
pub(crate) fn method_enum(name: &str, doc: &str, methods: &[(&Object, &Method)]) -> TokenStream {
    if methods.is_empty() {
        return quote!();
    }
    let name = format_ident!("{name}");
    let variants: Vec<_> = methods.iter().map(|(object, method)| method_variant(object, method)).collect();
    let names: Vec<_> = methods.iter().map(|(object, method)| format!("{}.{}", object.name, method.name)).collect();
    let docs = names.iter().map(|name| format!("`{name}`"));
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum #name { #(#[doc = #docs] #variants,)* }

        impl #name {
            /// All of them, by object, in the order of their slots.
            pub const ALL: &'static [#name] = &[#(#name::#variants),*];

            /// Its object and name, as [`Device::supports`] takes them.
            pub const fn name(self) -> &'static str {
                match self { #(#name::#variants => #names,)* }
            }
        }
    }
}

fn method(hal: &Hal, object: &Object, method: &Method) -> TokenStream {
    let (name, doc) = (value_ident(&method.name), &method.doc);
    let mut docs = vec![quote!(#[doc = #doc])];
    let described: Vec<&Field> = method.args.iter().filter(|arg| !arg.doc.is_empty()).collect();
    if !described.is_empty() {
        docs.push(quote!(#[doc = ""]));
    }
    for arg in described {
        let line = format!("* `{}`: {}", arg.name, arg.doc);
        docs.push(quote!(#[doc = #line]));
    }
    let errors = errors(method);
    if !errors.is_empty() {
        docs.push(quote!(#[doc = ""] #[doc = "# Errors"] #[doc = #errors]));
    }
    let unsafety = method.safety.as_ref().map(|text| {
        docs.push(quote!(#[doc = ""] #[doc = "# Safety"] #[doc = #text]));
        quote!(unsafe)
    });
    let body = match method.default {
        _ if method.operation.is_some() => {
            let submit = submit(method);
            quote!({ #submit })
        }
        None => quote!(;),
        Some(body) => default_body(object, method, body),
    };
    let signature = signature(hal, method);
    let many = many_arguments(method);
    quote! { #(#docs)* #many #unsafety fn #name #signature #body }
}

/// The reason for which a method fails, as a sentence; empty if the spec does not say.
fn errors(method: &Method) -> String {
    let missing = (method.default == Some(DefaultBody::Unimplemented)).then_some("UNIMPLEMENTED where it is missing.");
    missing.into_iter().chain(method.errors.as_deref()).collect::<Vec<_>>().join(" ")
}

/// More than seven arguments are the rule for queue operations, and the spec's to decide.
pub(crate) fn many_arguments(method: &Method) -> Option<TokenStream> {
    (method.args.len() > 6).then(|| quote!(#[expect(clippy::too_many_arguments, reason = "the spec lists them")]))
}

/// `(&self, value: u64) -> Result<()>`
pub(crate) fn signature(hal: &Hal, method: &Method) -> TokenStream {
    let args = method.args.iter().map(|arg| {
        let (name, ty) = (value_ident(&arg.name), argument_type(hal, &arg.shape));
        quote!(#name: #ty)
    });
    let result = method.result.as_ref().map_or_else(|| quote!(()), result_type);
    let result = if method.infallible { result } else { quote!(Result<#result>) };
    let result = if result.to_string() == "()" { quote!() } else { quote!(-> #result) };
    quote! { (&self #(, #args)*) #result }
}

fn default_body(object: &Object, method: &Method, body: DefaultBody) -> TokenStream {
    let args: Vec<_> = method.args.iter().map(|arg| value_ident(&arg.name)).collect();
    let unused = match &args[..] {
        [] => quote!(),
        [arg] => quote!(let _ = #arg;),
        args => quote!(let _ = (#(#args),*);),
    };
    let value = match (body, method.infallible) {
        (DefaultBody::Unimplemented, _) => {
            let method = format!("{}.{}", object.name, method.name);
            quote!(Err(unimplemented(#method)))
        }
        (DefaultBody::Zero, true) => quote!(Default::default()),
        (DefaultBody::Zero, false) => quote!(Ok(Default::default())),
    };
    quote!({ #unused #value })
}

/// Arguments other than plain numbers are borrowed. Objects are passed as the `Arc`, so that the callee can keep them.
fn argument_type(hal: &Hal, shape: &Shape) -> TokenStream {
    let ty = owned(&shape.kind);
    if shape.list {
        return quote!(&[#ty]);
    }
    match &shape.kind {
        Kind::Object(_) if shape.null => quote!(Option<&#ty>),
        Kind::Object(_) => quote!(&#ty),
        Kind::Struct(name) => match hal.structure(name) {
            Some(structure) if is_plain(hal, structure) => ty,
            _ => quote!(&#ty),
        },
        Kind::Layout { .. } => quote!(&#ty),
        _ if shape.null => quote!(Option<#ty>),
        _ => ty,
    }
}

fn result_type(shape: &Shape) -> TokenStream {
    let ty = owned(&shape.kind);
    match (shape.list, shape.null) {
        (true, _) => quote!(Vec<#ty>),
        (false, true) => quote!(Option<#ty>),
        (false, false) => ty,
    }
}

/// The reference type of programs for handles of this object.
fn vm_type(object: &Object) -> Option<TokenStream> {
    let type_name = object.vm_type.as_ref()?;
    let name = type_ident(&object.name);
    let ty = if object.concrete { quote!(#name) } else { quote!(dyn #name) };
    let recycle = (!object.concrete).then(|| {
        quote! {
            fn recycle(object: Arc<Self>) {
                object.recycle();
            }
        }
    });
    Some(quote! {
        impl VmType for #ty {
            const TYPE_NAME: &'static str = #type_name;

            #recycle
        }
    })
}
