//! Emits `names/<file>.rs`: an enum for each closed set of words, with their spellings.

use std::collections::BTreeMap;

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::names::Names;

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let mut files: BTreeMap<&str, TokenStream> = BTreeMap::new();
    for names in &spec.names {
        files.entry(&names.file).or_default().extend(enumeration(names));
    }
    let file = |(file, tokens)| source(&format!("names/{file}.rs"), &format!("spec/names/{file}.yaml"), tokens);
    files.into_iter().map(file).collect()
}

fn enumeration(names: &Names) -> TokenStream {
    let (name, doc) = (format_ident!("{}", camel_case(&names.name)), format!(" {}", names.doc));
    let origin = comment(&names.origin.to_string());
    let variants: Vec<_> = names.values.iter().map(|value| format_ident!("{}", camel_case(&value.name))).collect();
    let texts: Vec<_> = names.values.iter().map(|value| &value.text).collect();
    let docs = names.values.iter().map(|value| match value.text == value.name {
        true => format!(" {}", value.doc),
        false => format!(" `{}`: {}", value.text, value.doc),
    });
    let values = names.values.iter().map(|value| &value.doc);
    let read = names.values.iter().map(|value| {
        let also = &value.also;
        let text = &value.text;
        quote!(#text #(| #also)*)
    });
    let written = names.values.iter().flat_map(|value| std::iter::once(&value.text).chain(&value.also));
    let count = Literal::usize_unsuffixed(names.values.len());
    quote! {
        #origin
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum #name { #(#[doc = #docs] #variants,)* }

        impl #name {
            #[doc = " Every one of them."]
            pub const ALL: [#name; #count] = [#(#name::#variants),*];

            #[doc = " Everything that is read as one of them."]
            pub const WRITTEN: &'static [&'static str] = &[#(#written),*];

            #[doc = " How it is written."]
            pub const fn name(self) -> &'static str {
                match self { #(#name::#variants => #texts,)* }
            }

            #[doc = " Its description."]
            pub const fn doc(self) -> &'static str {
                match self { #(Self::#variants => #values,)* }
            }

            #[doc = " The one that is written so, if there is one."]
            pub fn from_name(name: &str) -> Option<#name> {
                Some(match name {
                    #(#read => #name::#variants,)*
                    _ => return None,
                })
            }
        }

        impl std::fmt::Display for #name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    }
}
