//! Emits the tables of a format of files: its operations and the methods that they stand for, and its types of chunks.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::constants::literal;
use super::scope::Scope;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::model::format::{Content, Format, Operation, Replay};

/// `FORMAT/operations.rs` and `FORMAT/contents.rs`, if it has some.
pub fn emit(format: &Format) -> Vec<GeneratedFile> {
    let mut files = Vec::new();
    let (name, folder) = (&format.api.name, &format.api.folder);
    if !format.operations.is_empty() {
        let items = operations(format);
        files.push(source(&format!("{name}/operations.rs"), &format!("{folder}/operations.yaml"), items));
    }
    if !format.contents.is_empty() {
        files.push(source(&format!("{name}/contents.rs"), &format!("{folder}/*.yaml"), contents(format)));
    }
    files
}

fn operations(format: &Format) -> TokenStream {
    let mut sorted: Vec<&Operation> = format.operations.iter().collect();
    sorted.sort_by_key(|operation| operation.code);
    let rows = sorted.iter().map(|operation| row(format, operation));
    let constants = sorted.iter().map(|operation| {
        let code = literal(u64::from(operation.code));
        let name = format_ident!("{}", operation.name.replace('.', "_").to_ascii_uppercase());
        let doc = format!("The operation `{}`.", operation.name);
        let origin = comment(&operation.origin.to_string());
        quote!(#origin #[doc = #doc] pub const #name: u32 = #code;)
    });
    let unrecorded = format.unrecorded.iter().map(|method| {
        let (name, reason) = (format!("{}.{}", method.method.0, method.method.1), &method.reason);
        quote!((#name, #reason))
    });
    quote! {
        /// Every operation, by its number.
        pub const OPERATIONS: &[Operation] = &[#(#rows),*];

        /// The numbers of operations.
        pub mod operation {
            #(#constants)*
        }

        /// The methods of the HAL that no operation stands for, each with the reason.
        pub const UNRECORDED: &[(&str, &str)] = &[#(#unrecorded),*];
    }
}

fn row(format: &Format, operation: &Operation) -> TokenStream {
    let (name, code) = (&operation.name, literal(u64::from(operation.code)));
    let code_of = |payload: &Option<String>| {
        let payload = payload.as_ref();
        payload
            .and_then(|name| format.payloads.iter().find(|payload| payload.name == *name))
            .map_or(0, |payload| payload.code)
    };
    let (payload, or) = (literal(u64::from(code_of(&operation.payload))), literal(u64::from(code_of(&operation.or))));
    let option = |text: Option<String>| text.map_or(quote!(None), |text| quote!(Some(#text)));
    let method = option(operation.method.as_ref().map(|(object, method)| format!("{object}.{method}")));
    let makes = option(operation.makes.clone());
    let replay = match operation.replay {
        Replay::Call => quote!(Replay::Call),
        Replay::Skip => quote!(Replay::Skip),
        Replay::Refuse => quote!(Replay::Refuse),
        Replay::Scope => quote!(Replay::Scope),
    };
    quote! {
        Operation { name: #name, code: #code, payload: #payload, or: #or, method: #method, replay: #replay, makes: #makes }
    }
}

fn contents(format: &Format) -> TokenStream {
    let contents: &[Content] = &format.contents;
    let scope = Scope::Api(&format.api, "contents");
    let layouts: Vec<_> = contents.iter().map(|content| scope.path(&content.layout)).collect();
    let names: Vec<_> =
        contents.iter().map(|content| format_ident!("{}", super::hal_types::type_ident(&content.name))).collect();
    let texts: Vec<_> = contents.iter().map(|content| &content.text).collect();
    let docs = contents.iter().map(|content| format!("Records `{}`.", content.layout));
    quote! {
        /// A type of chunks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Content { #(#[doc = #docs] #names,)* }

        impl Content {
            /// Every type.
            pub const ALL: &'static [Content] = &[#(Self::#names),*];

            /// Its name in files, after the prefix of all.
            pub const fn text(self) -> &'static str {
                match self { #(Self::#names => #texts,)* }
            }

            /// Bytes of the fields of a record.
            pub const fn record_size(self) -> usize {
                match self { #(Self::#names => #layouts::SIZE,)* }
            }
        }
    }
}
