//! Emits the other end of a library, which a software library of ours is: the table of its functions, their exports
//! under their C names, and the version script of the linker, since programs may ask for the version of the symbols of
//! the library that they were linked with.

use std::fmt::Write as _;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::hal_types::{type_ident, value_ident};
use crate::emit::layouts;
use crate::emit::scope::Scope;
use crate::model::api::{Api, Library};

/// `SOFTWARE/functions.rs`, `SOFTWARE/exports.rs` and `SOFTWARE/NAME.map` for each library that has software of ours.
pub fn emit(api: &Api) -> Vec<GeneratedFile> {
    let files = api.libraries.iter().filter_map(|library| {
        let (folder, spec) = (library.software.as_ref()?, &library.origin.file);
        Some([
            source(&format!("{folder}/functions.rs"), spec, functions(library)),
            source(&format!("{folder}/exports.rs"), spec, exports(api, library)),
            GeneratedFile { path: version_script_path(library)?, text: version_script(library) },
        ])
    });
    files.flatten().collect()
}

/// The path of the version script of the software library, if there is one: `softhsa/libhsa-runtime64.map`.
pub fn version_script_path(library: &Library) -> Option<String> {
    let stem = library.names.first()?.split(".so").next()?;
    Some(format!("{}/{stem}.map", library.software.as_ref()?))
}

fn functions(library: &Library) -> TokenStream {
    let table = format_ident!("{}Functions", type_ident(&library.name));
    let fields = library.symbols.iter().map(|symbol| {
        let name = format_ident!("{}", symbol.function.name);
        if symbol.required { quote!(#name) } else { quote!(#name: Some(#name)) }
    });
    quote! {
        /// All functions of the software library.
        pub(crate) const FUNCTIONS: #table = #table { #(#fields,)* };
    }
}

fn exports(api: &Api, library: &Library) -> TokenStream {
    // No file of the API is called so, so each type is named with its module.
    let scope = Scope::Api(api, "");
    let module = format_ident!("{}", library.origin.stem());
    let promise = format!(" Pointers are what the documentation of {} says of them.", library.title);
    let safety = comment("SAFETY: the caller guarantees that pointers are as documented.");
    if library.refusal.is_some() {
        return entry_exports(scope, library);
    }
    let exports = library.symbols.iter().map(|symbol| {
        let function = &symbol.function;
        let (name, doc) = (format_ident!("{}", function.name), &function.doc);
        let ty = format_ident!("{}Fn", type_ident(&function.name));
        let args = function.args.iter().map(|(name, arg)| {
            let (name, ty) = (value_ident(name), layouts::ty(arg, scope));
            quote!(#name: #ty)
        });
        let names = function.args.iter().map(|(name, _)| value_ident(name));
        let result = function.result.as_ref().map(|result| {
            let ty = layouts::ty(result, scope);
            quote!(-> #ty)
        });
        let field = if symbol.required {
            quote!(FUNCTIONS.#name)
        } else {
            quote!(match FUNCTIONS.#name { Some(function) => function, None => panic!("the table has all functions") })
        };
        let origin = comment(&function.origin.to_string());
        quote! {
            #origin
            #[doc = #doc]
            ///
            /// # Safety
            #[doc = #promise]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn #name(#(#args),*) #result {
                const FUNCTION: super::#module::#ty = #field;
                #safety
                unsafe { FUNCTION(#(#names),*) }
            }
        }
    });
    quote!(#(#exports)*)
}

/// The exports of a library whose functions are the entries of `library_entries`: each calls the entry of its name.
fn entry_exports(scope: Scope<'_>, library: &Library) -> TokenStream {
    let promise = format!(" Pointers are what the documentation of {} says of them.", library.title);
    let safety = comment("SAFETY: the caller guarantees that pointers are as documented.");
    let exports = library.symbols.iter().flat_map(|symbol| {
        let names = [Some(symbol.function.name.clone()), symbol.per_thread_name()];
        names.into_iter().flatten().map(|name| (symbol, name)).collect::<Vec<_>>()
    });
    let exports = exports.map(|(symbol, name)| {
        let (function, name) = (&symbol.function, format_ident!("{name}"));
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
        quote! {
            #origin
            #[doc = #doc]
            ///
            /// # Safety
            #[doc = #promise]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn #name(#(#args),*) #result {
                #safety
                unsafe { entries::#name(#(#names),*) }
            }
        }
    });
    let refused = library.refused.iter().zip(library.refusal.iter().cycle()).map(|(refused, refusal)| {
        let (name, status) = (format_ident!("{}", refused.name), scope.path(&refusal.code));
        quote! {
            /// Not implemented: it returns the status for that.
            #[unsafe(no_mangle)]
            pub extern "C" fn #name() -> #status {
                entries::#name()
            }
        }
    });
    quote!(#(#exports)* #(#refused)*)
}

fn version_script(library: &Library) -> String {
    let mut text = format!("# Generated by vireo-codegen from {}; do not edit.\n", library.origin.file);
    // Symbols of a library without a version are in a node without a name.
    let version = library.version.as_ref().map_or(String::new(), |version| format!("{version} "));
    let _ = writeln!(text, "{version}{{\n  global:");
    for name in library.exported() {
        let _ = writeln!(text, "    {name};");
    }
    text.push_str("  local: *;\n};\n");
    text
}
