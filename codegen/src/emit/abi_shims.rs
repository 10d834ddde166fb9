//! Emits one shim for each distinct calling convention of the spec'd modules: from the streams of a call to typed Rust
//! arguments, and from typed results back. The macros emit the same shims for modules that no spec lists.

use std::collections::BTreeMap;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::abi::{Convention, Kind, Slot};

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let mut users: BTreeMap<Convention, Vec<String>> = BTreeMap::new();
    let mut origins: BTreeMap<Convention, String> = BTreeMap::new();
    for module in spec.abi.modules.values() {
        for (export, adaptor) in module.functions() {
            let (convention, origin) = match adaptor {
                Some(adaptor) => (adaptor.convention.clone(), &adaptor.origin),
                None => (export.convention(), &export.origin),
            };
            origins.entry(convention.clone()).or_insert_with(|| origin.to_string());
            users.entry(convention).or_default().push(format!("`{}.{}`", module.name, export.name));
        }
    }
    let shims = users.iter().map(|(convention, users)| {
        let origin = comment(&origins[convention]);
        let grammar = &spec.abi.grammar;
        let (name, text) = (format_ident!("{}", grammar.name(convention)), grammar.text(convention));
        let shim = shim(convention, &name, &TokenStream::new(), &format!(" `{text}`: {}.", users.join(", ")));
        quote!(#origin #shim)
    });
    vec![source("abi/shims.rs", "spec/abi", quote!(#(#shims)*))]
}

/// The shim of `convention` as the function `name`, whose paths begin with `root`: `::vireo::`, or nothing in the
/// runtime, which imports them.
pub fn shim(convention: &Convention, name: &Ident, root: &TokenStream, doc: &str) -> TokenStream {
    let names: Vec<_> = (0..convention.args.len()).map(|index| format_ident!("a{index}")).collect();
    let types = convention.args.iter().map(|arg| slot_type(arg, root));
    let reads = convention.args.iter().map(|arg| match arg {
        Slot::One(kind) => read(*kind),
        Slot::Span(kinds) => {
            let refs = kinds.iter().filter(|kind| **kind == Kind::Ref).count();
            let words = kinds.len() - refs;
            quote!(arguments.span(#words, #refs)?)
        }
    });
    let mutable = (!convention.args.is_empty()).then(|| quote!(mut));
    let results: Vec<_> = (0..convention.results.len()).map(|index| format_ident!("r{index}")).collect();
    let pattern = if results.len() == 1 { quote!(#(#results)*) } else { quote!((#(#results),*)) };
    let returned = result_type(convention, root);
    let writes = convention.results.iter().zip(&results).map(|(kind, name)| match kind {
        Kind::I32 => quote!(call.result_words.push(u64::from(#name as u32));),
        Kind::I64 => quote!(call.result_words.push(#name as u64);),
        Kind::F32 => quote!(call.result_words.push(u64::from(#name.to_bits()));),
        Kind::F64 => quote!(call.result_words.push(#name.to_bits());),
        Kind::Ref => quote!(call.result_refs.push(#name);),
    });
    quote! {
        #[doc = #doc]
        pub fn #name(
            call: &mut #root vm::Call,
            keep: bool,
            function: impl FnOnce(#(#types),*) -> #root Result<#root abi::Step<#returned>>,
        ) -> #root Result<#root vm::Outcome> {
            let #mutable arguments = #root abi::Arguments::new(call, keep);
            #(let #names = #reads;)*
            arguments.finish()?;
            match function(#(#names),*)? {
                #root abi::Step::Return(#pattern) => {
                    #(#writes)*
                    Ok(#root vm::Outcome::Return)
                }
                #root abi::Step::Wait(wait) => Ok(#root vm::Outcome::Wait(wait)),
            }
        }
    }
}

/// The Rust type that a shim passes for an argument.
fn slot_type(arg: &Slot, root: &TokenStream) -> TokenStream {
    match arg {
        Slot::One(kind) => argument_type(*kind, root),
        Slot::Span(_) => quote!(#root abi::RawSpan<'_>),
    }
}

/// The Rust type that a shim expects for the results: nothing, one value, or a tuple.
fn result_type(convention: &Convention, root: &TokenStream) -> TokenStream {
    let fields = convention.results.iter().map(|kind| kind_type(*kind, root));
    if convention.results.len() == 1 { quote!(#(#fields)*) } else { quote!((#(#fields),*)) }
}

fn argument_type(kind: Kind, root: &TokenStream) -> TokenStream {
    if kind == Kind::Ref { quote!(#root abi::RefArgument<'_>) } else { kind_type(kind, root) }
}

fn kind_type(kind: Kind, root: &TokenStream) -> TokenStream {
    match kind {
        Kind::I32 => quote!(i32),
        Kind::I64 => quote!(i64),
        Kind::F32 => quote!(f32),
        Kind::F64 => quote!(f64),
        Kind::Ref => quote!(Option<#root vm::Ref>),
    }
}

fn read(kind: Kind) -> TokenStream {
    match kind {
        Kind::I32 => quote!(arguments.i32()?),
        Kind::I64 => quote!(arguments.i64()?),
        Kind::F32 => quote!(arguments.f32()?),
        Kind::F64 => quote!(arguments.f64()?),
        Kind::Ref => quote!(arguments.reference()?),
    }
}
