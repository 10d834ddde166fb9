//! Renders tables of values. Not an artifact of its own: [`super::api`] calls it.

use proc_macro2::TokenStream;
use quote::quote;

use crate::emit::constants::{constant_ident, literal};
use crate::emit::file::comment;
use crate::emit::scope::Scope;
use crate::model::api::Table;

/// The tables of a file, and the list of them.
pub(crate) fn tables(tables: &[&Table], scope: Scope<'_>) -> TokenStream {
    let Some(first) = tables.first() else { return TokenStream::new() };
    let code = scope.path(&first.of);
    let items = tables.iter().map(|table| {
        let (name, doc, code) = (constant_ident(&table.name), &table.doc, scope.path(&table.of));
        let origin = comment(&table.origin.to_string());
        let rows = table.values.iter().map(|(name, value)| {
            let (name, value) = (constant_ident(name), literal(*value));
            quote!((#code::#name, #value))
        });
        quote! {
            #origin
            #[doc = #doc]
            pub const #name: &[Row] = &[#(#rows),*];
        }
    });
    let all = tables.iter().filter(|table| table.of == first.of).map(|table| {
        let (constant, name, text) = (constant_ident(&table.name), &table.name, &table.text);
        quote!((#name, #text, #constant))
    });
    quote! {
        /// A row of a table.
        pub type Row = (#code, u32);

        #(#items)*

        /// Every table: its name in specs, the name that people know it by, and its values.
        pub const TABLES: &[(&str, &str, &[Row])] = &[#(#all),*];
    }
}
