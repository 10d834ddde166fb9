//! Emits wrappers that notify an observer of each call of a device, and of the objects it creates, with arguments and
//! result: for each object the methods of `Observed`, the tables that number objects, and the exchange of wrappers for
//! inner objects in arguments and results, also inside structs and lists. `observe` of the runtime has the rest.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::hal_calls::{call, is_reply_argument, reply};
use crate::emit::hal_forward::{inner_ident, trait_ident};
use crate::emit::hal_operations::value;
use crate::emit::hal_traits::signature;
use crate::emit::hal_types::{method_variant, type_ident, value_ident};
use crate::load::Spec;
use crate::model::hal::{Hal, Kind, Method, Object, Observed, Shape};

/// `hal/observe.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    let observed = hal.observed();
    if observed.wrapped.is_empty() {
        return Vec::new();
    }
    let known = known(&observed);
    let wrappers = observed.wrapped.iter().enumerate().map(|(index, object)| {
        let side = if index < observed.made { quote!(Side::Host) } else { quote!(Side::Device) };
        let (exchange, implementation) = (wrapped(object, &side), implementation(hal, &observed, object));
        quote!(#exchange #implementation)
    });
    let structs = structs(hal, &observed);
    let items = quote! {
        use std::any::Any;
        use std::sync::Arc;
        use std::sync::atomic::AtomicU64;

        use super::calls::{Call, Reply};
        use super::forward::*;
        use super::traits::*;
        use super::types::*;

        #known
        #(#wrappers)*
        #structs
    };
    vec![source("hal/observe.rs", "spec/hal/*.yaml", items)]
}

/// A table for each kind of object.
fn known(observed: &Observed<'_>) -> TokenStream {
    let objects: Vec<&&Object> = observed.wrapped.iter().chain(&observed.numbered).collect();
    let numbers = objects.iter().map(|object| {
        observed.wraps(&object.name).then(|| {
            quote! {
                fn of_wrapper<'a>(&'a self, observation: &Observation) -> Option<(u64, &'a AtomicU64)> {
                    Some(observation.as_wrapper(self)?.known())
                }
            }
        })
    });
    let fields: Vec<Ident> = objects.iter().map(|object| value_ident(&object.name)).collect();
    let names = objects.iter().map(|object| &object.name);
    let types: Vec<Ident> = objects.iter().map(|object| type_ident(&object.name)).collect();
    quote! {
        /// The objects that occurred in calls, by their kinds.
        #[derive(Default)]
        pub struct Tables { #(#fields: Table<dyn #types>,)* }

        #(impl Known for dyn #types {
            const NAME: &'static str = #names;

            fn table(tables: &Tables) -> &Table<Self> {
                &tables.#fields
            }

            fn as_any(&self) -> &dyn Any {
                self
            }

            #numbers
        })*
    }
}

/// The constructor of the wrapper of an object, and the side that creates such objects: devices or hosts.
fn wrapped(object: &Object, side: &TokenStream) -> TokenStream {
    let ty = type_ident(&object.name);
    quote! {
        impl Wrapped for dyn #ty {
            const SIDE: Side = #side;

            fn wrapper(observed: Observed<Self>) -> Arc<Self> {
                Arc::new(Forward(observed))
            }
        }

        impl Exchange for Arc<dyn #ty> {
            fn exchanged(&self, observation: &Arc<Observation>, to: Side) -> Self {
                observation.exchanged(self, to)
            }
        }
    }
}

/// The structs that hold objects with wrappers.
fn structs(hal: &Hal, observed: &Observed<'_>) -> TokenStream {
    let mut seen = BTreeSet::new();
    let methods = observed.wrapped.iter().flat_map(|object| &object.methods);
    for shape in methods.flat_map(|method| method.args.iter().map(|arg| &arg.shape).chain(&method.result)) {
        mention(hal, observed, shape, &mut seen);
    }
    let structs = seen.iter().filter_map(|name| hal.structure(name)).map(|structure| {
        let name = type_ident(&structure.name);
        let exchanged = structure.fields.iter().filter(|field| is_exchanged(hal, observed, &field.shape));
        let exchanged: Vec<Ident> = exchanged.map(|field| value_ident(&field.name)).collect();
        let rest = (exchanged.len() < structure.fields.len()).then(|| quote!(..self.clone()));
        quote! {
            impl Exchange for #name {
                fn exchanged(&self, observation: &Arc<Observation>, to: Side) -> Self {
                    #name { #(#exchanged: self.#exchanged.exchanged(observation, to),)* #rest }
                }
            }
        }
    });
    structs.collect()
}

/// Adds the structs in `shape` that hold objects with wrappers.
fn mention(hal: &Hal, observed: &Observed<'_>, shape: &Shape, seen: &mut BTreeSet<String>) {
    if let Kind::Struct(name) = &shape.kind
        && is_exchanged(hal, observed, shape)
        && seen.insert(name.clone())
    {
        for field in hal.structure(name).into_iter().flat_map(|structure| &structure.fields) {
            mention(hal, observed, &field.shape, seen);
        }
    }
}

/// Whether values are or hold objects with wrappers.
fn is_exchanged(hal: &Hal, observed: &Observed<'_>, shape: &Shape) -> bool {
    hal.objects_in(shape).iter().any(|object| observed.wraps(&object.name))
}

fn implementation(hal: &Hal, observed: &Observed<'_>, object: &Object) -> TokenStream {
    let (name, ty, inner) = (trait_ident(&object.name), type_ident(&object.name), inner_ident(object));
    let methods = object.methods.iter().map(|method| observed_method(hal, observed, object, method));
    let origin = comment(&object.origin.to_string());
    let release = object.vm_type.as_ref().map(|_| {
        quote! {
            fn release(self) -> Arc<dyn #ty> {
                Observed::release(self)
            }
        }
    });
    quote! {
        #origin
        impl #name for Observed<dyn #ty> {
            fn #inner(&self) -> &Arc<dyn #ty> {
                self.wrapped()
            }

            #release
            #(#methods)*
        }
    }
}

fn observed_method(hal: &Hal, observed: &Observed<'_>, object: &Object, method: &Method) -> TokenStream {
    let (name, signature) = (value_ident(&method.name), signature(hal, method));
    let (call, reply) = (call(object, method), reply(hal, object, method));
    let exchanges = method.args.iter().filter(|arg| is_exchanged(hal, observed, &arg.shape)).map(|arg| {
        let name = value_ident(&arg.name);
        let value = match (arg.shape.list, arg.shape.null) {
            (true, _) => quote!(self.all_passed_on(#name)),
            (false, true) => quote!(#name.map(|value| self.passed_on(value))),
            (false, false) => quote!(self.passed_on(#name)),
        };
        quote!(let #name = #value;)
    });
    let exchanges: Vec<_> = exchanges.collect();
    let args: Vec<_> = method
        .args
        .iter()
        .map(|arg| {
            let name = value_ident(&arg.name);
            match &arg.shape {
                shape if is_exchanged(hal, observed, shape) => match (shape.list, shape.null) {
                    (false, true) => quote!(#name.as_ref()),
                    _ => quote!(&#name),
                },
                shape if matches!(shape.kind, Kind::Status | Kind::Owner) => quote!(#name.clone()),
                _ => quote!(#name),
            }
        })
        .collect();
    let inner = quote!(self.wrapped().#name(#(#args),*));
    let (safety, inner) = match method.safety {
        Some(_) => (Some(comment("SAFETY: the caller guarantees the same to this method.")), quote!(unsafe { #inner })),
        None => (None, inner),
    };
    let returned = method.result.as_ref().filter(|shape| is_exchanged(hal, observed, shape));
    let unsafety = method.safety.as_ref().map(|_| quote!(unsafe));
    let borrows = method.result.as_ref().is_some_and(|shape| shape.kind == Kind::String);
    let body = if method.infallible {
        let inner = if returned.is_some() { quote!(self.returned(&#inner)) } else { inner };
        let (value, result) = match (&method.result, borrows) {
            (None, _) => (quote!(#inner;), quote!()),
            (_, true) => (quote!(let result = #inner;), quote!(result)),
            (_, false) => (quote!(let value = #inner; let result = &value;), quote!(value)),
        };
        quote! {
            let observed = self.called(#call);
            #(#exchanges)*
            #safety
            #value
            observed.returns(#reply);
            #result
        }
    } else {
        let inner = if returned.is_some() { quote!(#inner.map(|value| self.returned(&value))) } else { inner };
        let result = match &method.result {
            None => quote!(|()| #reply),
            Some(shape) if is_reply_argument(hal, shape) => {
                let variant = method_variant(object, method);
                quote!(Reply::#variant)
            }
            Some(_) => quote!(|result| #reply),
        };
        let operation = method.operation.as_ref().map(|_| value(method));
        let (operation, inner) = match operation {
            Some(operation) => (
                Some(quote!(let operation = #operation;)),
                quote! {
                    match observed.submits(operation) {
                        Ok(()) => #inner,
                        Err(failure) => fail_operation(&wait, &signal, failure),
                    }
                },
            ),
            None => (None, inner),
        };
        quote! {
            let observed = self.called(#call);
            observed.begins()?;
            #operation
            #(#exchanges)*
            #safety
            let outcome = #inner;
            observed.ends(outcome.as_ref().map(#result));
            outcome
        }
    };
    quote!(#unsafety fn #name #signature { #body })
}
