//! Emits the entries of a software library that exports more than it implements: a function under each exported name,
//! which calls the implementation through one gate (`entry`) or refuses (`refused`), and the table by which the finder
//! of the library looks them up by name and version.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::hal_types::value_ident;
use crate::emit::layouts;
use crate::emit::scope::Scope;
use crate::model::api::{Api, Library, Symbol};

/// `SOFTWARE/entries.rs` for each library with a status for what is not implemented.
pub fn emit(api: &Api) -> Vec<GeneratedFile> {
    let with_refusal = api.libraries.iter().filter(|library| library.refusal.is_some());
    let files = with_refusal.filter_map(|library| {
        let folder = library.software.as_ref()?;
        Some(source(&format!("{folder}/entries.rs"), &library.origin.file, entries(api, library)))
    });
    files.collect()
}

/// A row of the table.
fn row(library: &Library, found_as: Option<&str>, symbol: &str, version: u32) -> TokenStream {
    let (name, per_thread) = library.suffixes.split(symbol);
    let name = found_as.unwrap_or(name);
    let (version, function) = (Literal::u32_unsuffixed(version), format_ident!("{symbol}"));
    quote! {
        Entry {
            name: #name,
            symbol: #symbol,
            version: #version,
            per_thread: #per_thread,
            address: #function as *const (),
        }
    }
}

fn entries(api: &Api, library: &Library) -> TokenStream {
    let scope = Scope::Api(api, "");
    let mut rows = Vec::new();
    for symbol in &library.symbols {
        let version = symbol.version.unwrap_or_default();
        let names = [Some(symbol.function.name.clone()), symbol.per_thread_name()];
        for name in names.into_iter().flatten() {
            rows.push(row(library, None, &name, version));
            let also = symbol.also.iter().map(|(found_as, version)| row(library, Some(found_as), &name, *version));
            rows.extend(also);
        }
    }
    rows.extend(library.refused.iter().map(|refused| row(library, None, &refused.name, refused.version)));
    let functions = library.symbols.iter().map(|symbol| {
        let own = function(library, symbol, &symbol.function.name, false, scope);
        let variant = symbol.per_thread_name().map(|name| function(library, symbol, &name, true, scope));
        quote!(#own #variant)
    });
    let refused = library.refused.iter().zip(library.refusal.iter().cycle()).map(|(refused, refusal)| {
        let (name, symbol) = (format_ident!("{}", refused.name), &refused.name);
        let status = scope.path(&refusal.code);
        quote! {
            /// Not implemented: it returns the status for that.
            pub extern "C" fn #name() -> #status {
                refused(#symbol)
            }
        }
    });
    quote! {
        /// Every function under each name by which it is found.
        pub(crate) const ENTRIES: &[Entry] = &[#(#rows),*];

        #(#functions)*

        #(#refused)*
    }
}

fn function(library: &Library, symbol: &Symbol, name: &str, per_thread: bool, scope: Scope<'_>) -> TokenStream {
    let function = &symbol.function;
    let promise = format!(" Pointers are what the documentation of {} says of them.", library.title);
    let safety = comment("SAFETY: the caller guarantees that pointers are as documented.");
    let (origin, doc) = (comment(&function.origin.to_string()), &function.doc);
    let args = function.args.iter().map(|(name, arg)| {
        let (name, ty) = (value_ident(name), layouts::ty(arg, scope));
        quote!(#name: #ty)
    });
    let names = function.args.iter().map(|(name, _)| value_ident(name));
    let result = function.result.as_ref().map(|result| {
        let ty = layouts::ty(result, scope);
        quote!(-> #ty)
    });
    let (ident, implementation) = (format_ident!("{name}"), format_ident!("{}", function.name));
    quote! {
        #origin
        #[doc = #doc]
        ///
        /// # Safety
        #[doc = #promise]
        pub unsafe extern "C" fn #ident(#(#args),*) #result {
            #safety
            entry(#name, #per_thread, || unsafe { abi::#implementation(#(#names),*) })
        }
    }
}
