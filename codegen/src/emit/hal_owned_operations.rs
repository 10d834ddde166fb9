//! Emits the operations of queues as values that own what they need: `OwnedQueueOperation`. Its lists have places that
//! all operations share, so that memory for one of them serves the next one.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_operations::{methods, value, variant_ident};
use crate::emit::hal_types::{is_plain, owned, value_ident};
use crate::load::Spec;
use crate::model::hal::{Field, Hal, Kind, Method, Object, Shape};

/// `hal/owned_operations.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    let methods = methods(hal);
    if methods.is_empty() {
        return Vec::new();
    }
    let (lists, operation) = (lists(hal, &methods), operation(hal, &methods));
    let items = quote! {
        use std::fmt;
        use std::sync::Arc;

        use super::operations::*;
        use super::traits::*;
        use super::types::*;

        #operation
        #lists
    };
    vec![source("hal/owned_operations.rs", "spec/hal/device.yaml", items)]
}

/// A list among the operands: its place, and the type of its items.
struct List {
    place: Ident,
    item: Kind,
}

/// The place of each operand that is a list. Operands of one type have places of their own if one operation has both.
fn places(method: &Method) -> Vec<Option<List>> {
    let mut places: Vec<Option<List>> = Vec::new();
    for arg in method.operands() {
        let item = match &arg.shape {
            Shape { kind, list: true, .. } => Some(kind.clone()),
            Shape { kind: Kind::Bytes, .. } => Some(Kind::Int(crate::model::int::Int::U8)),
            _ => None,
        };
        places.push(item.map(|item| {
            let name = match &item {
                Kind::Int(int) => int.name().to_string(),
                Kind::Struct(name) | Kind::Numbers(name) | Kind::Handle(name) | Kind::Object(name) => name.clone(),
                _ => "other".to_string(),
            };
            let before = places.iter().flatten().filter(|list| list.item == item).count();
            let place = match before {
                0 => format_ident!("{name}_list"),
                _ => format_ident!("{name}_list_{}", before + 1),
            };
            List { place, item }
        }));
    }
    places
}

/// `struct Lists`
fn lists(hal: &Hal, methods: &[(&Object, &Method)]) -> TokenStream {
    let mut lists: Vec<List> = Vec::new();
    for list in methods.iter().flat_map(|(_, method)| places(method)).flatten() {
        if lists.iter().all(|known| known.place != list.place) {
            lists.push(list);
        }
    }
    let places: Vec<&Ident> = lists.iter().map(|list| &list.place).collect();
    let items: Vec<TokenStream> = lists.iter().map(|list| owned(&list.item)).collect();
    let clears = lists.iter().map(|List { place, item }| {
        let shape = Shape { kind: item.clone(), null: false, list: false, count: None };
        match recycle(hal, &shape, &quote!(item)) {
            Some(recycle) => quote!(for item in self.#place.drain(..) { #recycle }),
            None => quote!(self.#place.clear();),
        }
    });
    quote! {
        /// The lists of an operation: those of one type have the same place, whatever operation it is.
        #[derive(Clone, Default)]
        struct Lists { #(#places: Vec<#items>,)* }

        impl Lists {
            fn clear(&mut self) { #(#clears)* }

            fn bytes(&self) -> usize { [#(size_of_val(self.#places.as_slice())),*].into_iter().sum() }

            fn capacity(&self) -> usize { [#(self.#places.capacity() * size_of::<#items>()),*].into_iter().sum() }
        }
    }
}

/// Drops the objects in `value` that may be recycled, those that programs refer to; none if there are none.
fn recycle(hal: &Hal, shape: &Shape, value: &TokenStream) -> Option<TokenStream> {
    match &shape.kind {
        Kind::Object(name) => {
            hal.object(name)?.vm_type.as_ref()?;
            Some(match shape.null {
                true => quote!(if let Some(object) = #value { object.recycle(); }),
                false => quote!(#value.recycle();),
            })
        }
        Kind::Struct(name) => {
            let fields = &hal.structure(name)?.fields;
            let recycled = fields.iter().filter_map(|field| {
                let name = value_ident(&field.name);
                recycle(hal, &field.shape, &quote!(#value.#name))
            });
            let recycled: Vec<_> = recycled.collect();
            (!recycled.is_empty()).then(|| quote!(#(#recycled)*))
        }
        _ => None,
    }
}

/// The operands of an operation that are no lists.
fn singles(method: &Method) -> impl Iterator<Item = &Field> {
    method.operands().iter().zip(places(method)).filter(|(_, list)| list.is_none()).map(|(arg, _)| arg)
}

fn operation(hal: &Hal, methods: &[(&Object, &Method)]) -> TokenStream {
    let variants = methods.iter().map(|(_, method)| {
        let variant = variant_ident(method);
        let names = singles(method).map(|arg| value_ident(&arg.name));
        let types = singles(method).map(|arg| owned(&arg.shape.kind));
        quote!(#variant { #(#names: #types),* })
    });
    let owns = methods.iter().map(|(_, method)| {
        let (variant, value) = (variant_ident(method), value(method));
        let lists = method.operands().iter().zip(places(method)).filter_map(|(arg, list)| {
            let (name, place) = (value_ident(&arg.name), list?.place);
            Some(quote!(lists.#place.extend_from_slice(#name);))
        });
        let names = singles(method).map(|arg| {
            let name = value_ident(&arg.name);
            if is_borrowed(hal, &arg.shape) { quote!(#name: #name.clone()) } else { quote!(#name) }
        });
        quote!(#value => { #(#lists)* Operands::#variant { #(#names),* } })
    });
    let gets = methods.iter().map(|(_, method)| {
        let (variant, names) = (variant_ident(method), singles(method).map(|arg| value_ident(&arg.name)));
        let fields = method.operands().iter().zip(places(method)).map(|(arg, list)| {
            let name = value_ident(&arg.name);
            match list {
                Some(List { place, .. }) => quote!(#name: &self.lists.#place),
                None if is_borrowed(hal, &arg.shape) => quote!(#name),
                None => quote!(#name: *#name),
            }
        });
        quote!(Operands::#variant { #(#names),* } => QueueOperation::#variant { #(#fields),* })
    });
    let recycles = methods.iter().filter_map(|(_, method)| {
        let variant = variant_ident(method);
        let objects = singles(method).filter_map(|arg| {
            let name = value_ident(&arg.name);
            Some((name.clone(), recycle(hal, &arg.shape, &quote!(#name))?))
        });
        let (names, recycles): (Vec<_>, Vec<_>) = objects.unzip();
        let rest = (names.len() < singles(method).count()).then(|| quote!(..));
        (!names.is_empty()).then(|| quote!(Operands::#variant { #(#names,)* #rest } => { #(#recycles)* }))
    });
    let recycles: Vec<_> = recycles.collect();
    let others = (recycles.len() < methods.len()).then(|| quote!(_ => {}));
    quote! {
        /// An operation of a queue that owns what it needs.
        #[derive(Clone)]
        pub struct OwnedQueueOperation {
            operands: Operands,
            lists: Lists,
        }

        impl QueueOperation<'_> {
            /// The same operation with references and lists of its own.
            pub fn into_owned(self) -> OwnedQueueOperation {
                let mut lists = Lists::default();
                OwnedQueueOperation { operands: Operands::new(self, &mut lists), lists }
            }
        }

        impl OwnedQueueOperation {
            /// The operation.
            pub fn get(&self) -> QueueOperation<'_> {
                match &self.operands { #(#gets,)* }
            }

            /// Puts another operation in its place, in the same memory. The objects of the former one are recycled.
            pub fn assign(&mut self, operation: QueueOperation<'_>) {
                self.lists.clear();
                let operands = Operands::new(operation, &mut self.lists);
                std::mem::replace(&mut self.operands, operands).recycle();
            }

            /// Bytes that its lists have.
            pub fn list_bytes(&self) -> usize {
                self.lists.bytes()
            }

            /// Bytes that its lists have memory for.
            pub fn list_capacity(&self) -> usize {
                self.lists.capacity()
            }
        }

        impl fmt::Debug for OwnedQueueOperation {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.get(), f)
            }
        }

        /// The operands that are no lists.
        #[derive(Clone)]
        enum Operands { #(#variants,)* }

        impl Operands {
            /// Owns the operands of an operation. `lists` is empty, and gets those that are lists.
            fn new(operation: QueueOperation<'_>, lists: &mut Lists) -> Operands {
                match operation { #(#owns,)* }
            }

            fn recycle(self) {
                match self { #(#recycles)* #others }
            }
        }
    }
}

/// Whether operations that own nothing borrow it.
fn is_borrowed(hal: &Hal, shape: &Shape) -> bool {
    match &shape.kind {
        Kind::Struct(name) => !hal.structure(name).is_some_and(|structure| is_plain(hal, structure)),
        Kind::Object(_) | Kind::String | Kind::Status | Kind::Owner | Kind::Layout { .. } => true,
        _ => false,
    }
}
