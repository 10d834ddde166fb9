//! Emits traits for wrappers of HAL objects: every method is provided and calls that of an inner object, so a wrapper
//! implements only those that it overrides. `Forward` of the runtime makes an object of an implementation, and calls
//! its `before` before each method.
//!
//! An optional method is forwarded like any other: the inner object decides whether it has it. Objects without
//! methods are not here, since there is nothing to override.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::hal_operations::{points, submit, submit_signature};
use crate::emit::hal_traits::{many_arguments, method_enum, signature};
use crate::emit::hal_types::{method_variant, type_ident, value_ident};
use crate::load::Spec;
use crate::model::hal::{Facet, Hal, Method, Object};

/// `hal/forward.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    if hal.objects().next().is_none() {
        return Vec::new();
    }
    let methods: Vec<_> =
        wrapped(hal).flat_map(|object| object.methods.iter().map(move |method| (object, method))).collect();
    let methods = method_enum("ForwardedMethod", "A method, as wrappers get it before each call.", &methods);
    let objects = wrapped(hal).map(|object| {
        let (trait_, implementation) = (forwarding_trait(hal, object), implementation(hal, object));
        quote!(#trait_ #implementation)
    });
    let operations = wrapped(hal).any(|object| object.operations().next().is_some());
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
        use super::traits::*;
        use super::types::*;

        #methods
        #(#objects)*
    };
    vec![source("hal/forward.rs", "spec/hal/*.yaml", items)]
}

/// The objects that have something to override.
fn wrapped(hal: &Hal) -> impl Iterator<Item = &Object> {
    hal.objects().filter(|object| !(object.concrete || object.methods.is_empty() && object.facets.is_empty()))
}

/// `ForwardDevice`
pub(crate) fn trait_ident(object: &str) -> Ident {
    format_ident!("Forward{}", type_ident(object))
}

/// The method that returns the inner object. A wrapper of an object that extends another has two of them, so the second
/// one is called after its object.
pub(crate) fn inner_ident(object: &Object) -> Ident {
    match object.extends {
        None => format_ident!("inner"),
        Some(_) => format_ident!("inner_{}", object.name),
    }
}

fn forwarding_trait(hal: &Hal, object: &Object) -> TokenStream {
    let (name, of, inner) = (trait_ident(&object.name), type_ident(&object.name), inner_ident(object));
    let (argument, inner_of) = (value_ident(&object.name), format_ident!("{inner}_of"));
    let doc = format!("Forwards to an inner [`{of}`] what a wrapper does not override; [`Forward`] makes the object.");
    let of_doc = format!(
        "The object that `{}` forwards to if it is a [`Forward`] of this type, else `{0}` itself.",
        object.name
    );
    let (base, before) = match &object.extends {
        Some(base) => (trait_ident(base).to_token_stream(), None),
        None => (quote!(Any + Debug + Send + Sync), Some(before())),
    };
    let methods = object.methods.iter().map(|method| provided(hal, object, method));
    let submit = object.operations().next().map(|_| {
        let (signature, points) = (submit_signature(), points());
        quote! {
            /// Submits an operation that no method of the wrapper handles to the inner object.
            ///
            /// # Errors
            /// Those of the method of the operation.
            fn submit #signature {
                self.#inner().submit(#(#points),*, operation)
            }
        }
    });
    let facets = object.facets.iter().map(|facet| provided_facet(object, facet));
    let origin = comment(&object.origin.to_string());
    let release = object.vm_type.as_ref().map(|_| {
        quote! {
            /// The inner object, of a wrapper that is let go of. It is recycled if there is no other reference to it.
            fn release(self) -> Arc<dyn #of>
            where
                Self: Sized,
            {
                self.#inner().clone()
            }
        }
    });
    quote! {
        #origin
        #[doc = #doc]
        pub trait #name: #base {
            /// The object that methods are forwarded to, always the same.
            fn #inner(&self) -> &Arc<dyn #of>;

            #[doc = #of_doc]
            fn #inner_of(#argument: &Arc<dyn #of>) -> &Arc<dyn #of>
            where
                Self: Sized,
            {
                let any: &dyn Any = &**#argument;
                any.downcast_ref::<Forward<Self>>().map_or(#argument, |forward| forward.0.#inner())
            }

            #before
            #(#methods)*
            #submit
            #(#facets)*
            #release
        }
    }
}

/// `before`, which is called before each method. A wrapper of an object that extends another has it once.
fn before() -> TokenStream {
    quote! {
        /// Called at each call of a method of the object, whether overridden or not, before the method.
        fn before(&self, method: ForwardedMethod) {
            let _ = method;
        }
    }
}

fn provided(hal: &Hal, object: &Object, method: &Method) -> TokenStream {
    let (name, signature, inner) = (value_ident(&method.name), signature(hal, method), inner_ident(object));
    let path = format!("[`{}::{}`]", type_ident(&object.name), method.name);
    let doc = format!("Forwards {path}.");
    let call = match method.operation {
        Some(_) => submit(method),
        None => call(method, quote!(self.#inner())),
    };
    let many = many_arguments(method);
    let errors = (!method.infallible).then(|| {
        let doc = format!("Those of {path}.");
        quote!(#[doc = ""] #[doc = "# Errors"] #[doc = #doc])
    });
    let unsafety = method.safety.as_ref().map(|_| {
        let doc = format!("The guarantees that {path} asks for.");
        (quote!(#[doc = ""] #[doc = "# Safety"] #[doc = #doc]), quote!(unsafe))
    });
    let (docs, unsafety) = unsafety.unzip();
    quote! {
        #[doc = #doc]
        #errors
        #docs
        #many
        #unsafety fn #name #signature { #call }
    }
}

fn provided_facet(object: &Object, facet: &Facet) -> TokenStream {
    let (method, ty, inner) = (value_ident(&facet.name), type_ident(&facet.name), inner_ident(object));
    let doc = format!("Forwards [`{}::{}`].", type_ident(&object.name), facet.name);
    let (result, body) = match facet.part {
        true => (quote!(Option<&#ty>), quote!(self.#inner().#method())),
        false => (quote!(Option<Arc<dyn #ty>>), quote!(self.#inner().clone().#method())),
    };
    quote! {
        #[doc = #doc]
        #[doc(hidden)]
        fn #method(&self) -> #result { #body }
    }
}

/// The object that a wrapper becomes: all methods of its trait, of which none is left to a default.
fn implementation(hal: &Hal, object: &Object) -> TokenStream {
    let (name, of) = (trait_ident(&object.name), type_ident(&object.name));
    let methods = object.methods.iter().map(|method| {
        let (name, signature, call) = (value_ident(&method.name), signature(hal, method), call(method, quote!(self.0)));
        let (unsafety, variant) = (method.safety.as_ref().map(|_| quote!(unsafe)), method_variant(object, method));
        quote! {
            #unsafety fn #name #signature {
                self.0.before(ForwardedMethod::#variant);
                #call
            }
        }
    });
    let facets = object.facets.iter().map(|facet| {
        let (method, ty) = (value_ident(&facet.name), type_ident(&facet.name));
        let signature = match facet.part {
            true => quote!((&self) -> Option<&#ty>),
            false => quote!((self: Arc<Self>) -> Option<Arc<dyn #ty>>),
        };
        quote! {
            fn #method #signature { self.0.#method() }
        }
    });
    let submit = object.operations().next().map(|_| {
        let (signature, points) = (submit_signature(), points());
        let each = comment("The wrapper may override the methods.");
        quote! {
            fn submit #signature {
                #each
                operation.call(self, #(#points),*)
            }
        }
    });
    let recycle = object.vm_type.as_ref().map(|_| {
        quote! {
            fn recycle(self: Arc<Self>) {
                if let Some(Forward(wrapper)) = Arc::into_inner(self) {
                    wrapper.release().recycle();
                }
            }
        }
    });
    quote! {
        impl<T: #name> #of for Forward<T> {
            #(#methods)*
            #submit
            #(#facets)*
            #recycle
        }
    }
}

/// The call of the same method of `receiver` with the same arguments.
fn call(method: &Method, receiver: TokenStream) -> TokenStream {
    let (name, args) = (value_ident(&method.name), method.args.iter().map(|arg| value_ident(&arg.name)));
    let call = quote!(#receiver.#name(#(#args),*));
    if method.safety.is_none() {
        return call;
    }
    let safety = comment("SAFETY: the caller guarantees the same to this method.");
    quote!(#safety unsafe { #call })
}
