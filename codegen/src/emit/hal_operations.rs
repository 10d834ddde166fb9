//! Emits the operations of queues as values: `QueueOperation`, one variant for each method of a device that has an
//! `operation` in the spec. A driver implements `submit` with one `match`; the methods make the value and call it.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_types::{borrowed_argument_type, method_variant, type_ident, value_ident};
use crate::load::Spec;
use crate::model::hal::{Hal, Method, Object, POINTS};

/// `hal/operations.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    let methods: Vec<(&Object, &Method)> =
        hal.objects().flat_map(|object| object.operations().map(move |method| (object, method))).collect();
    if methods.is_empty() {
        return Vec::new();
    }
    let operation = operation(hal, &methods);
    let items = quote! {
        use std::sync::Arc;

        use super::forward::ForwardedMethod;
        use super::traits::*;
        use super::types::*;

        #operation
    };
    vec![source("hal/operations.rs", "spec/hal/device.yaml", items)]
}

/// `Fill`
fn variant_ident(method: &Method) -> Ident {
    type_ident(method.operation.as_deref().unwrap_or_default())
}

/// The names of the operands.
fn operands(method: &Method) -> Vec<Ident> {
    method.operands().iter().map(|arg| value_ident(&arg.name)).collect()
}

/// `QueueOperation::Fill { target_buffer, .. }`, of variables with the names of the operands.
pub(crate) fn value(method: &Method) -> TokenStream {
    let (variant, operands) = (variant_ident(method), operands(method));
    quote!(QueueOperation::#variant { #(#operands),* })
}

/// `self.submit(queue_affinity, wait, signal, QueueOperation::Fill { .. })`
pub(crate) fn submit(method: &Method) -> TokenStream {
    let (points, value) = (points(), value(method));
    quote!(self.submit(#(#points),*, #value))
}

/// The arguments of `submit` before the operation.
pub(crate) fn points() -> [Ident; 3] {
    POINTS.map(value_ident)
}

/// `(&self, queue_affinity: QueueAffinity, ..) -> Result<()>`, the signature of `submit`.
pub(crate) fn submit_signature() -> TokenStream {
    let [queue_affinity, wait, signal] = points();
    quote! {
        (
            &self,
            #queue_affinity: QueueAffinity,
            #wait: &[Timepoint],
            #signal: &[Timepoint],
            operation: QueueOperation<'_>,
        ) -> Result<()>
    }
}

fn operation(hal: &Hal, methods: &[(&Object, &Method)]) -> TokenStream {
    let variants = methods.iter().map(|(_, method)| {
        let (variant, doc) = (variant_ident(method), &method.doc);
        let fields = method.operands().iter().map(|arg| {
            let doc = if arg.doc.is_empty() { format!("The argument `{}`.", arg.name) } else { arg.doc.clone() };
            let (name, ty) = (value_ident(&arg.name), borrowed_argument_type(hal, &arg.shape));
            quote!(#[doc = #doc] #name: #ty)
        });
        quote!(#[doc = #doc] #variant { #(#fields),* })
    });
    let names: Vec<Ident> = methods.iter().map(|(_, method)| variant_ident(method)).collect();
    let called = methods.iter().map(|(object, method)| method_variant(object, method));
    let points = points();
    let calls = methods.iter().map(|(_, method)| {
        let (value, name, operands) = (value(method), value_ident(&method.name), operands(method));
        quote!(#value => device.#name(#(#points),*, #(#operands),*))
    });
    let [queue_affinity, wait, signal] = &points;
    quote! {
        /// An operation of a queue, without the points that it waits for and signals. It borrows what the caller of the
        /// method passes.
        #[derive(Clone, Copy, Debug)]
        pub enum QueueOperation<'a> { #(#variants,)* }

        impl QueueOperation<'_> {
            /// The method of a device that submits it.
            pub fn method(&self) -> ForwardedMethod {
                match self { #(QueueOperation::#names { .. } => ForwardedMethod::#called,)* }
            }

            /// Submits it by its method.
            ///
            /// # Errors
            /// Those of the method.
            pub fn call<D: Device + ?Sized>(
                self,
                device: &D,
                #queue_affinity: QueueAffinity,
                #wait: &[Timepoint],
                #signal: &[Timepoint],
            ) -> Result<()> {
                match self { #(#calls,)* }
            }
        }
    }
}
