//! Emits calls of HAL methods, and what came of them, as values that own what they hold, for recordings: `RecordedCall`
//! and `RecordedReply`. Objects are their numbers; what cannot be kept, callbacks and memory of the host, is marked as
//! such. Each can be visited field by field, so that an encoder needs to know the kinds of values alone.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::emit::constants::int_type;
use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_calls::{mention, title, with_result};
use crate::emit::hal_types::{in_shape, is_plain, method_variant, owned, type_ident, value_ident};
use crate::load::Spec;
use crate::model::hal::{Field, Form, Hal, Kind, Method, Numbers, Object, Shape, Struct};
use crate::model::int::Int;

/// The name of the object whose parts, its subspans, are objects that no recorded call makes: `observe/record` of the
/// runtime says how it is kept.
const BUFFER: &str = "buffer";

/// `hal/records.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    let observed = hal.observed();
    if observed.wrapped.is_empty() {
        return Vec::new();
    }
    let methods: Vec<(&Object, &Method)> =
        observed.wrapped.iter().flat_map(|object| object.methods.iter().map(move |method| (*object, method))).collect();
    let (calls, replies) = (calls(hal, &methods), replies(hal, &methods));
    let mut seen = BTreeSet::new();
    for (_, method) in &methods {
        for shape in method.args.iter().map(|arg| &arg.shape).chain(&method.result) {
            mention(hal, &shape.kind, &mut seen);
        }
    }
    let values = seen.iter().map(|name| value(hal, name));
    let items = quote! {
        use std::sync::Arc;

        use super::calls::{Call, Reply};
        use super::forward::ForwardedMethod;
        use super::traits::*;
        use super::types::*;

        #calls
        #replies
        #(#values)*
    };
    vec![source("hal/records.rs", "spec/hal/*.yaml", items)]
}

/// `enum RecordedCall`
fn calls(hal: &Hal, methods: &[(&Object, &Method)]) -> TokenStream {
    let variants = methods.iter().map(|(object, method)| {
        let (variant, doc) = (method_variant(object, method), title(object, method));
        let fields = method.args.iter().map(|arg| {
            let (name, ty) = (value_ident(&arg.name), kept_type(hal, &arg.shape));
            let doc = if arg.doc.is_empty() { format!("The argument `{}`.", arg.name) } else { arg.doc.clone() };
            quote!(#[doc = #doc] #name: #ty)
        });
        let fields: Vec<_> = fields.collect();
        let fields = (!fields.is_empty()).then(|| quote!({ #(#fields),* }));
        quote!(#[doc = #doc] #variant #fields)
    });
    let names: Vec<Ident> = methods.iter().map(|(object, method)| method_variant(object, method)).collect();
    let patterns = methods.iter().map(|(object, method)| {
        let variant = method_variant(object, method);
        if method.args.is_empty() { quote!(RecordedCall::#variant) } else { quote!(RecordedCall::#variant { .. }) }
    });
    let keeps = methods.iter().map(|(object, method)| {
        let variant = method_variant(object, method);
        if method.args.is_empty() {
            return quote!(Call::#variant => RecordedCall::#variant,);
        }
        let taken: Vec<Ident> = passed(method).map(|arg| value_ident(&arg.name)).collect();
        let taken = (!taken.is_empty()).then(|| quote!({ #(#taken),* }));
        let kept = method.args.iter().map(|arg| {
            let name = value_ident(&arg.name);
            match arg.shape.kind {
                Kind::Callback => quote!(#name: Unseen::Callback),
                _ => quote!(#name: #name.keep(keeper)),
            }
        });
        quote!(Call::#variant #taken => RecordedCall::#variant { #(#kept),* },)
    });
    let visits = methods.iter().filter(|(_, method)| !method.args.is_empty()).map(|(object, method)| {
        let variant = method_variant(object, method);
        let names: Vec<Ident> = method.args.iter().map(|arg| value_ident(&arg.name)).collect();
        let texts = method.args.iter().map(|arg| &arg.name);
        quote! {
            RecordedCall::#variant { #(#names),* } => {
                #(visitor.field(#texts); #names.visit(visitor);)*
            }
        }
    });
    quote! {
        /// A call of a method with its arguments.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum RecordedCall { #(#variants,)* }

        impl RecordedCall {
            /// The method.
            pub fn method(&self) -> ForwardedMethod {
                match self { #(#patterns => ForwardedMethod::#names,)* }
            }
        }

        impl Visit for RecordedCall {
            fn visit(&self, visitor: &mut dyn Visitor) {
                visitor.begin_fields();
                match self {
                    #(#visits)*
                    _ => {}
                }
                visitor.end_fields();
            }
        }

        impl Keep for Call<'_> {
            type Kept = RecordedCall;

            fn keep(&self, keeper: &mut Keeper<'_>) -> RecordedCall {
                match self { #(#keeps)* }
            }
        }
    }
}

/// The arguments that calls have.
fn passed(method: &Method) -> impl Iterator<Item = &Field> {
    method.args.iter().filter(|arg| arg.shape.kind != Kind::Callback)
}

/// `enum RecordedReply`
fn replies(hal: &Hal, methods: &[(&Object, &Method)]) -> TokenStream {
    let with_result = with_result(methods);
    let variants = with_result.iter().map(|(variant, doc, shape)| {
        let ty = kept_type(hal, shape);
        quote!(#[doc = #doc] #variant(#ty))
    });
    let names: Vec<&Ident> = with_result.iter().map(|(variant, ..)| variant).collect();
    quote! {
        /// The result of a call.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum RecordedReply {
            /// Of a method without a result.
            Nothing,
            #(#variants,)*
        }

        impl Visit for RecordedReply {
            fn visit(&self, visitor: &mut dyn Visitor) {
                match self {
                    RecordedReply::Nothing => visitor.absent(),
                    #(RecordedReply::#names(value) => value.visit(visitor),)*
                }
            }
        }

        impl Keep for Reply<'_> {
            type Kept = RecordedReply;

            fn keep(&self, keeper: &mut Keeper<'_>) -> RecordedReply {
                match self {
                    Reply::Nothing => RecordedReply::Nothing,
                    #(Reply::#names(value) => RecordedReply::#names(value.keep(keeper)),)*
                }
            }
        }
    }
}

/// How a named value is kept and visited.
fn value(hal: &Hal, name: &str) -> TokenStream {
    let ty = type_ident(name);
    if let Some(structure) = hal.structure(name) {
        return self::structure(hal, structure);
    }
    let number = match (hal.handle(name), hal.numbers(name)) {
        (Some(handle), _) => unsigned(handle.int, quote!(self.0)),
        (None, Some(numbers)) => number(numbers),
        (None, None) if name == BUFFER => return quote!(),
        (None, None) => {
            return quote! {
                impl Keep for Arc<dyn #ty> {
                    type Kept = ObjectId;

                    fn keep(&self, keeper: &mut Keeper<'_>) -> ObjectId {
                        keeper.object(self)
                    }
                }
            };
        }
    };
    let keep = keep_copy(&ty);
    quote! {
        #keep

        impl Visit for #ty {
            fn visit(&self, visitor: &mut dyn Visitor) {
                visitor.symbol(#number, self);
            }
        }
    }
}

fn keep_copy(ty: &Ident) -> TokenStream {
    quote! {
        impl Keep for #ty {
            type Kept = #ty;

            fn keep(&self, _keeper: &mut Keeper<'_>) -> #ty {
                *self
            }
        }
    }
}

/// The number of one of a set.
fn number(numbers: &Numbers) -> TokenStream {
    let ty = int_type(numbers.int);
    let number = match numbers.form {
        Form::Enum => quote!(*self as #ty),
        Form::Bits | Form::OpenBits => quote!(self.bits()),
        Form::Code => quote!(self.0),
    };
    unsigned(numbers.int, number)
}

/// A number as a `u64`.
fn unsigned(int: Int, number: TokenStream) -> TokenStream {
    match int {
        Int::U64 => number,
        Int::U8 | Int::U16 | Int::U32 => quote!(u64::from(#number)),
        Int::I32 | Int::I64 => quote!(i64::from(#number).cast_unsigned()),
    }
}

/// A struct of numbers is kept as it is; any other has one beside it.
fn structure(hal: &Hal, structure: &Struct) -> TokenStream {
    let ty = type_ident(&structure.name);
    let names: Vec<Ident> = structure.fields.iter().map(|field| value_ident(&field.name)).collect();
    let texts: Vec<&String> = structure.fields.iter().map(|field| &field.name).collect();
    let kept = kept_struct(hal, structure);
    let keep = if is_plain(hal, structure) {
        keep_copy(&ty)
    } else {
        let doc = format!("A [`{ty}`] that is kept.");
        let docs = structure.fields.iter().map(|field| &field.doc);
        let types = structure.fields.iter().map(|field| kept_type(hal, &field.shape));
        quote! {
            #[doc = #doc]
            #[derive(Clone, Debug)]
            pub struct #kept { #(#[doc = #docs] pub #names: #types,)* }

            impl Keep for #ty {
                type Kept = #kept;

                fn keep(&self, keeper: &mut Keeper<'_>) -> #kept {
                    #kept { #(#names: self.#names.keep(keeper),)* }
                }
            }
        }
    };
    quote! {
        #keep

        impl Visit for #kept {
            fn visit(&self, visitor: &mut dyn Visitor) {
                visitor.begin_fields();
                #(visitor.field(#texts); self.#names.visit(visitor);)*
                visitor.end_fields();
            }
        }
    }
}

fn kept_struct(hal: &Hal, structure: &Struct) -> Ident {
    let ty = type_ident(&structure.name);
    if is_plain(hal, structure) { ty } else { format_ident!("Recorded{ty}") }
}

/// The type of what is kept.
fn kept_type(hal: &Hal, shape: &Shape) -> TokenStream {
    let ty = match &shape.kind {
        Kind::Bool | Kind::Int(_) | Kind::Numbers(_) | Kind::Handle(_) | Kind::Status => owned(&shape.kind),
        Kind::String | Kind::Text => quote!(String),
        Kind::Bytes => quote!(Vec<u8>),
        Kind::Pointer | Kind::Owner | Kind::Deadline | Kind::Callback | Kind::Layout { .. } => quote!(Unseen),
        Kind::Struct(name) => match hal.structure(name) {
            Some(structure) => {
                let name = kept_struct(hal, structure);
                quote!(#name)
            }
            None => owned(&shape.kind),
        },
        Kind::Object(name) if name == BUFFER => quote!(RecordedBuffer),
        Kind::Object(_) => quote!(ObjectId),
    };
    in_shape(shape, ty)
}
