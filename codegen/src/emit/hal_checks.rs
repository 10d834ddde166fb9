//! Emits the checks of a validated device that are data in `spec/hal/`: of each call what its arguments must be, what a
//! command buffer must hold to record it, and the points that it waits for and signals. `observe/validate` of the
//! runtime says what the checks are made of, and has those that depend on what happened before.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::emit::constants::{constant_ident, literal};
use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_types::{method_variant, type_ident, value_ident};
use crate::load::Spec;
use crate::model::hal::{Field, Kind, Method, Object, Rules};

/// `hal/checks.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let hal = &spec.hal;
    let observed = hal.observed();
    if observed.wrapped.is_empty() {
        return Vec::new();
    }
    let methods: Vec<(&Object, &Method)> =
        observed.wrapped.iter().flat_map(|object| object.methods.iter().map(move |method| (*object, method))).collect();
    let (recorded, points, checks) = (recorded(&methods), points(&methods), checks(&methods));
    let items = quote! {
        use super::calls::Call;
        use super::types::*;

        impl Call<'_> {
            #recorded
            #points
            #checks
        }
    };
    vec![source("hal/checks.rs", "spec/hal/*.yaml", items)]
}

/// The requirements that command buffers keep when they record a call.
fn recorded(methods: &[(&Object, &Method)]) -> TokenStream {
    let arms = methods.iter().filter_map(|(object, method)| {
        let variant = method_variant(object, method);
        let categories = set("command_category", method.recorded.as_ref()?);
        let pattern = if method.args.is_empty() { quote!(Call::#variant) } else { quote!(Call::#variant { .. }) };
        Some(quote!(#pattern => Some(#categories),))
    });
    quote! {
        /// The categories that a command buffer must hold to record the call, if it is recorded.
        pub(crate) fn recorded(&self) -> Option<CommandCategory> {
            match self {
                #(#arms)*
                _ => None,
            }
        }
    }
}

/// The points of queue operations.
fn points(methods: &[(&Object, &Method)]) -> TokenStream {
    let waits = methods.iter().filter(|(_, method)| is_operation(method));
    let variants = waits.map(|(object, method)| method_variant(object, method));
    quote! {
        /// The points that an operation of a queue waits for, and those that it signals.
        pub(crate) fn points(&self) -> Option<(&[Timepoint], &[Timepoint])> {
            match self {
                #(Call::#variants { wait, signal, .. } => Some((wait, signal)),)*
                _ => None,
            }
        }
    }
}

/// Whether the method submits an operation to a queue: it waits for points and signals others.
fn is_operation(method: &Method) -> bool {
    let is_points = |arg: &Field| arg.shape.list && arg.shape.kind == Kind::Struct("timepoint".to_string());
    let has = |name: &str| method.args.iter().any(|arg| arg.name == name && is_points(arg));
    has("wait") && has("signal")
}

/// The checks of arguments.
fn checks(methods: &[(&Object, &Method)]) -> TokenStream {
    let arms = methods.iter().filter_map(|(object, method)| {
        let rules: Vec<(&Field, &Rules)> =
            method.args.iter().filter_map(|arg| Some((arg, arg.rules.as_ref()?))).collect();
        if rules.is_empty() {
            return None;
        }
        let variant = method_variant(object, method);
        let names = used(method, &rules);
        let rest = (names.len() < method.args.len()).then(|| quote!(..));
        let lengths = rules.iter().flat_map(|(arg, rules)| counts(arg, rules));
        let makers = rules.iter().filter(|(_, rules)| rules.same_device).map(|(arg, _)| {
            let (text, name) = (&arg.name, value_ident(&arg.name));
            match arg.shape.list {
                true => quote!(for object in *#name { checks.same_device(#text, object)?; }),
                false => quote!(checks.same_device(#text, #name)?;),
            }
        });
        let ranges =
            rules.iter().filter(|(_, rules)| rules.are_of_memory()).map(|(arg, rules)| range(method, arg, rules));
        let same =
            rules.iter().filter_map(|(arg, rules)| Some((arg, rules.same_length.as_ref()?))).map(|(arg, other)| {
                let (name, length) = (&arg.name, length_ident(&arg.name));
                let is_bytes = method.args.iter().any(|arg| arg.name == *other && arg.shape.kind == Kind::Bytes);
                let (of, bytes) = (length_ident(other), value_ident(other));
                let expected = if is_bytes { quote!(Some(#bytes.len() as u64)) } else { quote!(#of) };
                quote!(checks.same_length((#name, #length), (#other, #expected))?;)
            });
        Some(quote! {
            Call::#variant { #(#names,)* #rest } => {
                #(#lengths)*
                #(#makers)*
                #(#ranges)*
                #(#same)*
                Ok(())
            }
        })
    });
    quote! {
        /// Checks the arguments of which the spec says what they must be.
        pub(crate) fn check(&self, checks: &mut Checks<'_>) -> Result<()> {
            match self {
                #(#arms)*
                _ => Ok(()),
            }
        }
    }
}

/// The arguments that checks look at.
fn used(method: &Method, rules: &[(&Field, &Rules)]) -> Vec<Ident> {
    let is_used = |name: &String| {
        rules.iter().any(|(arg, rules)| {
            let range = rules.range.iter().flat_map(|(offset, length)| [offset, length]);
            arg.name == *name || range.chain(&rules.multiple_of).chain(&rules.same_length).any(|other| other == name)
        })
    };
    method.args.iter().filter(|arg| is_used(&arg.name)).map(|arg| value_ident(&arg.name)).collect()
}

/// The checks of the number of bytes or items.
fn counts(arg: &Field, rules: &Rules) -> Vec<TokenStream> {
    let (text, name) = (&arg.name, value_ident(&arg.name));
    let mut checks = Vec::new();
    if !rules.lengths.is_empty() {
        let lengths = rules.lengths.iter().map(|length| literal(*length));
        checks.push(quote!(checks.length_of(#text, #name.len(), &[#(#lengths),*])?;));
    }
    if let Some(most) = &rules.at_most {
        let most = constant_ident(most);
        checks.push(quote!(checks.length_up_to(#text, #name.len(), #most)?;));
    }
    checks
}

/// The check of a buffer, a file, or references to ranges.
///
/// A length that stands for all there is becomes the number of bytes that the first buffer has, for what comes after
/// it.
fn range(method: &Method, arg: &Field, rules: &Rules) -> TokenStream {
    let (text, name, needs) = (&arg.name, value_ident(&arg.name), needs(rules));
    match (&arg.shape.kind, &rules.range) {
        (Kind::Object(object), Some((offset, length))) => {
            let offset = value_ident(offset);
            let is_bytes = method.args.iter().any(|arg| arg.name == *length && arg.shape.kind == Kind::Bytes);
            let length = value_ident(length);
            let given = if is_bytes { quote!(#length.len() as u64) } else { quote!(*#length) };
            match object.as_str() {
                "file" => quote!(checks.file(#text, #name, *#offset, #given, #needs)?;),
                _ => {
                    let keep = keeps_length(method, arg).then(|| quote!(let #length = &));
                    quote!(#keep checks.buffer(#text, #name, *#offset, #given, #needs)?;)
                }
            }
        }
        (Kind::Object(_), None) => quote!(checks.buffer(#text, #name, 0, WHOLE_BUFFER, #needs)?;),
        _ if arg.shape.list => quote!(checks.references(#text, #name, #needs)?;),
        _ => {
            let is_compared = |other: &Field| {
                other.rules.as_ref().is_some_and(|rules| rules.same_length.as_deref() == Some(&arg.name))
            };
            let keep = rules.same_length.is_some() || method.args.iter().any(is_compared);
            let length = length_ident(&arg.name);
            let keep = keep.then(|| quote!(let #length =));
            quote!(#keep checks.reference(#text, #name, #needs)?;)
        }
    }
}

/// Whether an argument after this one has a range of the same length.
fn keeps_length(method: &Method, arg: &Field) -> bool {
    let length =
        |arg: &Field| arg.rules.as_ref().and_then(|rules| rules.range.as_ref()).map(|(_, length)| length.clone());
    let after = method.args.iter().skip_while(|other| other.name != arg.name).skip(1);
    after.into_iter().any(|other| length(other).is_some() && length(other) == length(arg))
}

fn needs(rules: &Rules) -> TokenStream {
    let one = |name: &str, set: Option<TokenStream>| {
        let name = format_ident!("{name}");
        set.map(|set| quote!(#name: #set,))
    };
    let of = |kind: &str, names: &[String]| (!names.is_empty()).then(|| set(kind, names));
    let fields = [
        one("usage", of("buffer_usage", &rules.usage)),
        one("any_usage", of("buffer_usage", &rules.any_usage)),
        one("access", of("memory_access", &rules.access)),
        one(
            "multiple_of",
            rules.multiple_of.as_ref().map(|other| {
                let other = value_ident(other);
                quote!(#other.len() as u64)
            }),
        ),
    ];
    let fields: Vec<_> = fields.iter().flatten().collect();
    if fields.is_empty() { quote!(Needs::default()) } else { quote!(Needs { #(#fields)* ..Needs::default() }) }
}

/// `BufferUsage::TRANSFER_SOURCE.union(BufferUsage::TRANSFER_TARGET)`
pub(crate) fn set(kind: &str, names: &[String]) -> TokenStream {
    let ty = type_ident(kind);
    let mut values = names.iter().map(|name| {
        let name = constant_ident(name);
        quote!(#ty::#name)
    });
    match values.next() {
        Some(first) => values.fold(first, |all, value| quote!(#all | #value)),
        None => quote!(#ty::empty()),
    }
}

fn length_ident(name: &str) -> Ident {
    format_ident!("{name}_length")
}
