//! Names, types and literals of constants, for all emitters.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::file::comment;
use crate::model::constant::{Constant, ConstantValue};
use crate::model::int::Int;

/// A constant as an item.
pub(crate) fn constant(constant: &Constant) -> TokenStream {
    let (name, doc) = (constant_ident(&constant.name), &constant.doc);
    let origin = comment(&constant.origin.to_string());
    match &constant.value {
        ConstantValue::Int(int, value) => {
            let (ty, value) = (int_type(*int), literal(*value));
            quote! { #origin #[doc = #doc] pub const #name: #ty = #value; }
        }
        ConstantValue::Text(text) => quote! { #origin #[doc = #doc] pub const #name: &str = #text; },
    }
}

/// The Rust name of a constant.
pub(crate) fn constant_ident(name: &str) -> Ident {
    format_ident!("{}", name.to_ascii_uppercase())
}

/// The Rust type of an integer.
pub(crate) fn int_type(int: Int) -> Ident {
    format_ident!("{}", int.name())
}

/// An integer literal without a suffix; large ones in hexadecimal.
pub(crate) fn literal(value: u64) -> TokenStream {
    if value < 1024 {
        let literal = Literal::u64_unsuffixed(value);
        return quote!(#literal);
    }
    format!("{value:#x}").parse().expect("a hexadecimal number is a token")
}
