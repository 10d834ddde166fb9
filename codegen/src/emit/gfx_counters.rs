//! Emits the counters of waves and instructions of gfx11, for the interpreter that counts them and the profiles that
//! have them.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::file::{GeneratedFile, source};
use crate::model::gfx::{Counter, Gfx};

/// `gfx/counters.rs`
pub fn emit(gfx: &Gfx) -> Vec<GeneratedFile> {
    let (infos, count) = (gfx.counters.iter().map(info), gfx.counters.len());
    let tokens = quote! {
        /// The counters, in the order of their values.
        pub static COUNTERS: [CounterInfo; #count] = [#(#infos),*];
    };
    vec![source("gfx/counters.rs", &gfx.path("counters.yaml"), tokens)]
}

fn info(counter: &Counter) -> TokenStream {
    let (name, doc) = (&counter.name, &counter.doc);
    let variants = |names: &[String], of: &str| -> Vec<TokenStream> {
        let of = format_ident!("{of}");
        let variant = |name: &String| format_ident!("{}", camel_case(name));
        names.iter().map(variant).map(|variant| quote!(#of::#variant)).collect()
    };
    let encodings = variants(&counter.encodings, "Encoding");
    let without = variants(&counter.without, "Opcode");
    let returns = match counter.returns {
        Some(returns) => quote!(Some(#returns)),
        None => quote!(None),
    };
    quote! {
        CounterInfo {
            name: #name,
            description: #doc,
            encodings: &[#(#encodings),*],
            returns: #returns,
            without: &[#(#without),*],
        }
    }
}
