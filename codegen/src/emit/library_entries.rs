//! Emits the entries of a software library that exports more than it implements: a function under each exported name,
//! which calls the implementation through one gate (`entry`) or refuses (`refused`), and the table by which the finder
//! of the library looks them up by name and version.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::hal_types::value_ident;
use crate::emit::layouts;
use crate::emit::scope::Scope;
use crate::model::api::{Api, Library, NullFunction, NullLibrary, NullResult, Symbol};
use crate::model::hal::LayoutType;

/// `SOFTWARE/entries.rs` for each library with a status for what is not implemented, and for each null library.
pub fn emit(api: &Api) -> Vec<GeneratedFile> {
    let with_refusal = api.libraries.iter().filter(|library| library.refusal.is_some());
    let files = with_refusal.filter_map(|library| {
        let folder = library.software.as_ref()?;
        Some(source(&format!("{folder}/entries.rs"), &library.origin.file, entries(api, library, through_gate)))
    });
    let nulls = api.nulls.iter().filter_map(|null| {
        let library = api.libraries.iter().find(|library| library.name == null.library)?;
        let body = |symbol: &Symbol, _: &str, _: bool, scope: Scope<'_>| null_body(null, symbol, scope);
        Some(source(&format!("{}/entries.rs", null.folder), &null.origin.file, entries(api, library, body)))
    });
    files.chain(nulls).collect()
}

/// Calls the implementation through the gate.
fn through_gate(symbol: &Symbol, name: &str, per_thread: bool, _: Scope<'_>) -> TokenStream {
    let names = symbol.function.args.iter().map(|(name, _)| value_ident(name));
    let implementation = format_ident!("{}", symbol.function.name);
    let safety = comment("SAFETY: the caller guarantees that pointers are as documented.");
    quote! {
        #safety
        entry(#name, #per_thread, || unsafe { abi::#implementation(#(#names),*) })
    }
}

/// Writes what a function of a null library returns.
fn null_body(null: &NullLibrary, symbol: &Symbol, scope: Scope<'_>) -> TokenStream {
    let (name, symbol_name) = (format_ident!("{}", symbol.function.name), &symbol.function.name);
    let safety = comment("SAFETY: the caller guarantees that pointers are as documented.");
    match null.functions.get(symbol_name) {
        None => quote!(refused(#symbol_name)),
        Some(NullFunction::ByHand) => {
            let names = symbol.function.args.iter().map(|(name, _)| value_ident(name));
            quote! {
                #safety
                unsafe { by_hand::#name(#(#names),*) }
            }
        }
        Some(NullFunction::Returns(results)) => {
            let writes = results.iter().map(|(arg, result)| {
                let ty = symbol.function.args.iter().find(|(name, _)| name == arg).map(|(_, ty)| ty);
                let value = match (result, ty) {
                    (NullResult::Next(int), Some(LayoutType::Pointer { to, .. })) => {
                        let (ty, int) = (layouts::ty(to, scope), format_ident!("{}", int.name()));
                        quote!(#ty(next() as #int))
                    }
                    (NullResult::Next(_), _) => quote!(next()),
                    (NullResult::Number(number), _) => {
                        let number = Literal::u64_unsuffixed(*number);
                        quote!(#number)
                    }
                };
                let arg = value_ident(arg);
                quote! {
                    #safety
                    unsafe { put(#arg, #value) };
                }
            });
            quote! {
                #(#writes)*
                success()
            }
        }
    }
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

fn entries(api: &Api, library: &Library, body: impl Fn(&Symbol, &str, bool, Scope<'_>) -> TokenStream) -> TokenStream {
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
        let own = (symbol.function.name.clone(), false);
        let variant = symbol.per_thread_name().map(|name| (name, true));
        let each = [Some(own), variant].into_iter().flatten();
        let each = each.map(|(name, per_thread)| {
            let body = body(symbol, &name, per_thread, scope);
            function((library, symbol), &name, body, scope)
        });
        quote!(#(#each)*)
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

fn function((library, symbol): (&Library, &Symbol), name: &str, body: TokenStream, scope: Scope<'_>) -> TokenStream {
    let function = &symbol.function;
    let promise = format!(" Pointers are what the documentation of {} says of them.", library.title);
    let (origin, doc) = (comment(&function.origin.to_string()), &function.doc);
    let args = function.args.iter().map(|(name, arg)| {
        let (name, ty) = (value_ident(name), layouts::ty(arg, scope));
        quote!(#name: #ty)
    });
    let result = function.result.as_ref().map(|result| {
        let ty = layouts::ty(result, scope);
        quote!(-> #ty)
    });
    let ident = format_ident!("{name}");
    quote! {
        #origin
        #[doc = #doc]
        ///
        /// # Safety
        #[doc = #promise]
        pub unsafe extern "C" fn #ident(#(#args),*) #result {
            #body
        }
    }
}
