//! Emits the operations of queues as values: `QueueOperation`, one variant for each method of a device that has an
//! `operation` in the spec. A driver implements `submit` with one `match`; the methods make the value and call it.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_checks::set;
use crate::emit::hal_types::{borrowed_argument_type, method_variant, type_ident, value_ident};
use crate::load::Spec;
use crate::model::hal::{Field, Hal, Kind, Method, Object, POINTS};

/// `hal/operations.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    let methods = methods(hal);
    if methods.is_empty() {
        return Vec::new();
    }
    let (operation, accesses) = (operation(hal, &methods), accesses(&methods));
    let items = quote! {
        use std::sync::Arc;

        use super::forward::ForwardedMethod;
        use super::traits::*;
        use super::types::*;

        #operation
        #accesses
    };
    vec![source("hal/operations.rs", "spec/hal/device.yaml", items)]
}

/// The methods that submit operations.
pub(crate) fn methods(hal: &Hal) -> Vec<(&Object, &Method)> {
    hal.objects().flat_map(|object| object.operations().map(move |method| (object, method))).collect()
}

/// `Fill`
pub(crate) fn variant_ident(method: &Method) -> Ident {
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

/// The arms of `accesses`, by the accesses of their operands.
fn accesses(methods: &[(&Object, &Method)]) -> TokenStream {
    let arms = methods.iter().filter_map(|(_, method)| {
        let accessed: Vec<&Field> = method.operands().iter().filter(|arg| !arg.accesses().is_empty()).collect();
        if accessed.is_empty() {
            return None;
        }
        let (variant, names) = (variant_ident(method), used(method, &accessed));
        let rest = (names.len() < method.operands().len()).then(|| quote!(..));
        let lengths = known_lengths(method, &accessed);
        let pushes = accessed.iter().map(|arg| access(method, arg));
        Some(quote!(QueueOperation::#variant { #(#names,)* #rest } => { #(#lengths)* #(#pushes)* }))
    });
    let arms: Vec<_> = arms.collect();
    let others = (arms.len() < methods.len()).then(|| quote!(_ => {}));
    quote! {
        impl<'a> QueueOperation<'a> {
            /// The memory that it reads and writes: ranges of buffers and files, and the objects that alone know what
            /// they use. A range that it may not use, since a flag or a slot says so, is not left out.
            pub fn accesses(self) -> Vec<Access<'a>> {
                let mut accesses = Vec::new();
                match self { #(#arms)* #others }
                accesses
            }
        }
    }
}

/// The names of operands that are accessed, and of those that say where.
fn used(method: &Method, accessed: &[&Field]) -> Vec<Ident> {
    let is_used = |name: &String| {
        let in_range = |arg: &Field| range(arg).is_some_and(|(offset, length)| [offset, length].contains(&name));
        accessed.iter().any(|arg| arg.name == *name || in_range(arg))
    };
    method.operands().iter().filter(|arg| is_used(&arg.name)).map(|arg| value_ident(&arg.name)).collect()
}

/// The arguments that are the offset and the length of the range of a buffer or file.
fn range(arg: &Field) -> Option<(&String, &String)> {
    arg.rules.as_ref()?.range.as_ref().map(|(offset, length)| (offset, length))
}

/// A length that stands for all there is becomes the least that is left of what it is a length of.
fn known_lengths(method: &Method, accessed: &[&Field]) -> Vec<TokenStream> {
    let is_number = |name: &String| method.args.iter().any(|arg| arg.name == *name && arg.shape.kind != Kind::Bytes);
    let mut lengths: Vec<&String> = accessed.iter().filter_map(|arg| Some(range(arg)?.1)).collect();
    lengths.dedup();
    let known = lengths.into_iter().filter(|length| is_number(length)).map(|length| {
        let left = accessed.iter().filter_map(|arg| {
            let (offset, _) = range(arg).filter(|(_, other)| *other == length)?;
            let (object, offset) = (accessed_value(arg)?, value_ident(offset));
            Some(quote!(#object.left(#offset)))
        });
        let length = value_ident(length);
        quote!(let #length = known_length(#length, &[#(#left),*]);)
    });
    known.collect()
}

/// `Accessed::Buffer(target_buffer)`; none for a struct that holds objects.
fn accessed_value(arg: &Field) -> Option<TokenStream> {
    let Kind::Object(object) = &arg.shape.kind else { return None };
    let (variant, name) = (type_ident(object), value_ident(&arg.name));
    Some(quote!(Accessed::#variant(#name)))
}

/// Adds what is done to an operand.
fn access(method: &Method, arg: &Field) -> TokenStream {
    let (name, kinds) = (value_ident(&arg.name), set("memory_access", arg.accesses()));
    match (accessed_value(arg), range(arg)) {
        (Some(object), Some((offset, length))) => {
            let is_bytes = method.args.iter().any(|arg| arg.name == *length && arg.shape.kind == Kind::Bytes);
            let (offset, length) = (value_ident(offset), value_ident(length));
            let length = if is_bytes { quote!(#length.len() as u64) } else { quote!(#length) };
            quote!(accesses.push(#object.range(#offset, #length, #kinds));)
        }
        (Some(object), None) => quote!(accesses.push(#object.whole(#kinds));),
        (None, _) if arg.shape.list => quote!(for item in #name { item.accessed(#kinds, &mut accesses); }),
        (None, _) => quote!(#name.accessed(#kinds, &mut accesses);),
    }
}
