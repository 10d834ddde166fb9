//! Emits calls of HAL methods as values, for observers of devices: `Call` has the arguments of a call, `Reply` its
//! result, and both have a text. The text omits memory of the host, which must not be read, and values that differ
//! between runs.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_types::{borrowed_argument_type, is_plain, method_variant, owned, type_ident, value_ident};
use crate::load::Spec;
use crate::model::hal::{Hal, Kind, Method, Object, Shape};

/// Structs and objects whose text is shorter than the list of their fields or a number: `observe/text.rs` of the
/// runtime has it.
const SHORT: [&str; 4] = ["buffer", "buffer_binding", "buffer_ref", "timepoint"];

/// `hal/calls.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    let observed = hal.observed();
    if observed.wrapped.is_empty() {
        return Vec::new();
    }
    let methods: Vec<(&Object, &Method)> =
        observed.wrapped.iter().flat_map(|object| object.methods.iter().map(move |method| (*object, method))).collect();
    let (calls, replies) = (calls(hal, &methods), replies(hal, &methods));
    let texts = texts(hal, &methods);
    let items = quote! {
        use std::any::Any;
        use std::sync::Arc;

        use super::forward::ForwardedMethod;
        use super::traits::*;
        use super::types::*;

        #calls
        #replies
        #texts
    };
    vec![source("hal/calls.rs", "spec/hal/*.yaml", items)]
}

/// `enum Call`
fn calls(hal: &Hal, methods: &[(&Object, &Method)]) -> TokenStream {
    let variants = methods.iter().map(|(object, method)| {
        let (variant, doc) = (method_variant(object, method), title(object, method));
        let fields = kept(method).map(|(name, shape, doc)| {
            let ty = borrowed_argument_type(hal, shape);
            quote!(#[doc = #doc] #name: #ty)
        });
        let fields: Vec<_> = fields.collect();
        let fields = (!fields.is_empty()).then(|| quote!({ #(#fields),* }));
        quote!(#[doc = #doc] #variant #fields)
    });
    let names: Vec<_> = methods.iter().map(|(object, method)| method_variant(object, method)).collect();
    let patterns = methods.iter().map(|(object, method)| {
        let variant = method_variant(object, method);
        if kept(method).next().is_some() { quote!(Call::#variant { .. }) } else { quote!(Call::#variant) }
    });
    let arms = methods.iter().filter_map(|(object, method)| {
        let variant = method_variant(object, method);
        let names: Vec<Ident> = kept(method).map(|(name, ..)| name).collect();
        let texts: Vec<String> =
            method.args.iter().filter(|arg| is_kept(&arg.shape)).map(|arg| arg.name.clone()).collect();
        (!names.is_empty()).then(|| {
            quote! {
                Call::#variant { #(#names),* } => { #(text.named(#texts, #names);)* }
            }
        })
    });
    quote! {
        /// A call of a method of a device, of an object that it makes, or of one of the host, with its arguments as the
        /// caller passes them. Callbacks are not here, since calling them uses them up.
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub enum Call<'a> { #(#variants,)* }

        impl Call<'_> {
            /// The method.
            pub fn method(&self) -> ForwardedMethod {
                match self { #(#patterns => ForwardedMethod::#names,)* }
            }

            /// Writes the arguments with their names.
            pub(crate) fn show(&self, text: &mut Text<'_>) {
                match self {
                    #(#arms)*
                    _ => {}
                }
            }
        }
    }
}

/// The methods with a result: the variant, what its documentation says, and the result.
pub(crate) fn with_result<'a>(methods: &[(&'a Object, &'a Method)]) -> Vec<(Ident, String, &'a Shape)> {
    let variant = |(object, method): &(&'a Object, &'a Method)| {
        Some((method_variant(object, method), title(object, method), method.result.as_ref()?))
    };
    methods.iter().filter_map(variant).collect()
}

/// `enum Reply`
fn replies(hal: &Hal, methods: &[(&Object, &Method)]) -> TokenStream {
    let with_result = with_result(methods);
    let variants = with_result.iter().map(|(variant, doc, shape)| {
        let ty = reply_type(hal, shape);
        quote!(#[doc = #doc] #variant(#ty))
    });
    let names = with_result.iter().map(|(variant, ..)| variant);
    quote! {
        /// The result of a call as the caller gets it.
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub enum Reply<'a> {
            /// Of a method without a result.
            Nothing,
            #(#variants,)*
        }

        impl Reply<'_> {
            /// Writes the result; nothing if there is none.
            pub(crate) fn show(&self, text: &mut Text<'_>) {
                match self {
                    Reply::Nothing => {}
                    #(Reply::#names(value) => value.show(text),)*
                }
            }
        }
    }
}

/// How structs, numbers, handles and objects in calls look.
fn texts(hal: &Hal, methods: &[(&Object, &Method)]) -> TokenStream {
    let mut seen = BTreeSet::new();
    for (_, method) in methods {
        for shape in method.args.iter().map(|arg| &arg.shape).chain(&method.result) {
            mention(hal, &shape.kind, &mut seen);
        }
    }
    let mut texts = TokenStream::new();
    for name in &seen {
        let ty = type_ident(name);
        if SHORT.contains(&name.as_str()) {
            continue;
        }
        let (of, body) = if let Some(structure) = hal.structure(name) {
            let fields = structure.fields.iter().filter(|field| is_kept(&field.shape)).map(|field| {
                let (text, name) = (&field.name, value_ident(&field.name));
                quote!(text.named(#text, &self.#name);)
            });
            (quote!(#ty), quote!(text.braces(|text| { #(#fields)* });))
        } else if hal.handle(name).is_some() {
            (quote!(#ty), quote!(self.0.show(text);))
        } else if hal.numbers(name).is_some() {
            (quote!(#ty), quote!(text.write(format_args!("{self:?}"));))
        } else {
            (quote!(Arc<dyn #ty>), quote!(text.object(self);))
        };
        texts.extend(quote! {
            impl Show for #of {
                fn show(&self, text: &mut Text<'_>) { #body }
            }
        });
    }
    texts
}

/// Adds the name of `kind` and the names of the kinds of its fields.
pub(crate) fn mention(hal: &Hal, kind: &Kind, seen: &mut BTreeSet<String>) {
    let (Kind::Numbers(name) | Kind::Handle(name) | Kind::Struct(name) | Kind::Object(name)) = kind else { return };
    if seen.insert(name.clone()) {
        for field in hal.structure(name).into_iter().flat_map(|structure| &structure.fields) {
            mention(hal, &field.shape.kind, seen);
        }
    }
}

/// ``` `device.queue_fill` ```
pub(crate) fn title(object: &Object, method: &Method) -> String {
    format!("`{}.{}`", object.name, method.name)
}

/// Whether calls keep an argument: a callback is used up by the method.
fn is_kept(shape: &Shape) -> bool {
    shape.kind != Kind::Callback
}

/// The arguments that a `Call` keeps, and their texts.
fn kept(method: &Method) -> impl Iterator<Item = (Ident, &Shape, String)> {
    method.args.iter().filter(|arg| is_kept(&arg.shape)).map(|arg| {
        let doc = if arg.doc.is_empty() { format!("The argument `{}`.", arg.name) } else { arg.doc.clone() };
        (value_ident(&arg.name), &arg.shape, doc)
    })
}

fn reply_type(hal: &Hal, shape: &Shape) -> TokenStream {
    let ty = owned(&shape.kind);
    match &shape.kind {
        _ if shape.list => quote!(&'a [#ty]),
        Kind::String | Kind::Text => quote!(&'a str),
        Kind::Object(_) if shape.null => quote!(Option<&'a #ty>),
        Kind::Struct(name) if hal.structure(name).is_some_and(|structure| is_plain(hal, structure)) => ty,
        Kind::Object(_) | Kind::Struct(_) => quote!(&'a #ty),
        _ => ty,
    }
}

/// `Call::DeviceTrim`, or with the arguments, which are variables of their names.
pub(crate) fn call(object: &Object, method: &Method) -> TokenStream {
    let variant = method_variant(object, method);
    let fields: Vec<_> = kept(method)
        .map(|(name, shape, _)| match shape.kind {
            // These are passed by value.
            Kind::Status | Kind::Owner => quote!(#name: &#name),
            _ => quote!(#name),
        })
        .collect();
    if fields.is_empty() { quote!(Call::#variant) } else { quote!(Call::#variant { #(#fields),* }) }
}

/// Whether the variant of `Reply` holds a reference to the result.
pub(crate) fn is_reply_argument(hal: &Hal, shape: &Shape) -> bool {
    let borrowed = match &shape.kind {
        Kind::Object(_) => true,
        Kind::Struct(name) => !hal.structure(name).is_some_and(|structure| is_plain(hal, structure)),
        _ => false,
    };
    borrowed && !shape.null && !shape.list
}

/// `Reply::DeviceTrim(...)` of the variable `result`, which is a reference to the result.
pub(crate) fn reply(hal: &Hal, object: &Object, method: &Method) -> TokenStream {
    let Some(shape) = &method.result else { return quote!(Reply::Nothing) };
    let variant = method_variant(object, method);
    let value = match &shape.kind {
        _ if shape.list => quote!(result),
        Kind::Text | Kind::String => quote!(result),
        Kind::Object(_) if shape.null => quote!(result.as_ref()),
        Kind::Struct(name) if hal.structure(name).is_some_and(|structure| is_plain(hal, structure)) => quote!(*result),
        Kind::Object(_) | Kind::Struct(_) => quote!(result),
        _ => quote!(*result),
    };
    quote!(Reply::#variant(#value))
}
