//! Emits `abi/status.rs`: the codes of errors as an enum, with their numbers and names.

use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::constants::literal;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::status::StatusCode;

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let codes = &spec.abi.statuses;
    if codes.is_empty() {
        return Vec::new();
    }
    let variants: Vec<_> = codes.iter().map(|code| format_ident!("{}", camel_case(&code.name))).collect();
    let numbers: Vec<_> = codes.iter().map(|code| literal(u64::from(code.number))).collect();
    let names = codes.iter().map(StatusCode::upper_name);
    let items = codes.iter().zip(&variants).zip(&numbers).map(|((code, variant), number)| {
        let doc = format!(" {}", code.doc);
        quote!(#[doc = #doc] #variant = #number,)
    });
    let origin = comment(&codes[0].origin.file);
    let tokens = quote! {
        #origin
        #[doc = " The canonical status codes, with the numbers that modules and kernels use."]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum StatusCode { #(#items)* }

        impl StatusCode {
            /// The code with number `value`, if there is one. Zero, "ok", is not an error and has no code.
            pub fn from_number(value: u32) -> Option<StatusCode> {
                Some(match value {
                    #(#numbers => StatusCode::#variants,)*
                    _ => return None,
                })
            }

            /// The name as other tools print it, such as `OUT_OF_RANGE`.
            pub fn name(self) -> &'static str {
                match self { #(StatusCode::#variants => #names,)* }
            }
        }
    };
    vec![source("abi/status.rs", "spec/abi/status.yaml", tokens)]
}
