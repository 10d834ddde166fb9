//! Emits the table of functions that a driver looks up in a library, for each library of an API.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::constants::literal;
use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_types::type_ident;
use crate::emit::layouts;
use crate::emit::scope::Scope;
use crate::model::api::{Api, Finder, Library};

/// `API/STEM.rs` for each file with a library.
pub fn emit(api: &Api) -> Vec<GeneratedFile> {
    let file = |library: &Library| {
        let path = format!("{}/{}.rs", api.name, library.origin.stem());
        source(&path, &library.origin.file, table(api, library))
    };
    api.libraries.iter().map(file).collect()
}

fn table(api: &Api, library: &Library) -> TokenStream {
    let symbols = &library.symbols;
    let scope = Scope::Api(api, library.origin.stem());
    let row_type = format_ident!("{}Symbol", type_ident(&library.name));
    let table_type = format_ident!("{}Functions", type_ident(&library.name));
    let rows_name = format_ident!("{}_SYMBOLS", library.name.to_uppercase());
    let types = symbols.iter().map(|symbol| {
        let name = format_ident!("{}Fn", type_ident(&symbol.function.name));
        layouts::function(&symbol.function, &name, scope)
    });
    let rows = symbols.iter().map(|symbol| {
        let (name, required) = (&symbol.function.name, symbol.required);
        let version = symbol.version.map(|version| {
            let version = Literal::u32_unsuffixed(version);
            quote!(, version: #version)
        });
        quote!(#row_type { name: #name, required: #required #version })
    });
    let fields = symbols.iter().map(|symbol| {
        let (name, ty) =
            (format_ident!("{}", symbol.function.name), format_ident!("{}Fn", type_ident(&symbol.function.name)));
        let doc = &symbol.function.doc;
        if symbol.required {
            quote!(#[doc = #doc] pub #name: #ty)
        } else {
            quote!(#[doc = #doc] pub #name: Option<#ty>)
        }
    });
    let names: Vec<_> = symbols.iter().map(|symbol| format_ident!("{}", symbol.function.name)).collect();
    let lookups = symbols.iter().enumerate().map(|(index, symbol)| {
        let (name, index) = (&names[index], literal(index as u64));
        let text = c_string(library.suffixes.split(&symbol.function.name).0);
        let version = symbol.version.map(|version| {
            let version = Literal::u32_unsuffixed(version);
            quote!(, #version)
        });
        let ty = format_ident!("{}Fn", type_ident(&symbol.function.name));
        let cast = quote!(unsafe { std::mem::transmute::<std::ptr::NonNull<std::ffi::c_void>, #ty>(address) });
        let safety = crate::emit::file::comment("SAFETY: `find` returned the function of this name.");
        quote! {
            let #name = match find(#text #version) {
                Some(address) => {
                    #safety
                    let function = #cast;
                    Some(function)
                }
                None => { missing.push(&#rows_name[#index]); None }
            };
        }
    });
    let required: Vec<_> =
        symbols.iter().zip(&names).filter(|(symbol, _)| symbol.required).map(|(_, name)| name).collect();
    let optional: Vec<_> =
        symbols.iter().zip(&names).filter(|(symbol, _)| !symbol.required).map(|(_, name)| name).collect();
    let (version, finder) = match &library.finder {
        Finder::Dlsym => (None, None),
        Finder::Function(name) => {
            let text = c_string(name);
            let older = library.older_finder.as_ref().map(|name| {
                let text = c_string(name);
                quote! {
                    /// The function that does so in libraries without that one.
                    pub const OLDER_FINDER: &std::ffi::CStr = #text;
                }
            });
            let finder = quote! {
                /// The function of the library that finds the others, by name and version.
                pub const FINDER: &std::ffi::CStr = #text;
                #older
            };
            (Some(quote!(, u32)), Some(finder))
        }
    };
    let find = matches!(library.finder, Finder::Dlsym).then(|| find(library));
    let (file_names, names_of_file) = (format_ident!("{}_LIBRARY_NAMES", library.name.to_uppercase()), &library.names);
    let promise = format!(
        " `find` returns addresses of the functions of these names in a library of {} that stays loaded.",
        library.title
    );
    quote! {
        /// The names of the file of the library, in the order in which they are tried.
        pub const #file_names: &[&str] = &[#(#names_of_file),*];

        /// Every function, in the order of the spec.
        pub const #rows_name: &[#row_type] = &[#(#rows),*];

        #finder

        #(#types)*

        /// The functions of a loaded library.
        #[derive(Clone, Copy, Debug)]
        pub struct #table_type { #(#fields,)* }

        impl #table_type {
            /// Looks up every function.
            ///
            /// # Errors
            /// The required ones that `find` does not know, all of them.
            ///
            /// # Safety
            #[doc = #promise]
            pub unsafe fn load(
                mut find: impl FnMut(&'static std::ffi::CStr #version) -> Option<std::ptr::NonNull<std::ffi::c_void>>,
            ) -> Result<Self, Vec<&'static #row_type>> {
                let mut missing = Vec::new();
                #(#lookups)*
                missing.retain(|symbol| symbol.required);
                let (#(Some(#required),)*) = (#(#required,)*) else { return Err(missing); };
                Ok(Self { #(#required,)* #(#optional,)* })
            }

            #find
        }
    }
}

/// The look-up of a function of the table, as the loader of the system does it in a library.
fn find(library: &Library) -> TokenStream {
    let arms = library.symbols.iter().map(|symbol| {
        let name = format_ident!("{}", symbol.function.name);
        let text = Literal::byte_string(symbol.function.name.as_bytes());
        let address = quote!(std::ptr::NonNull::new(function as *mut std::ffi::c_void));
        if symbol.required {
            quote!(#text => { let function = self.#name; #address })
        } else {
            quote!(#text => self.#name.and_then(|function| #address))
        }
    });
    quote! {
        /// The address of a function by its name.
        pub fn find(&self, name: &std::ffi::CStr) -> Option<std::ptr::NonNull<std::ffi::c_void>> {
            match name.to_bytes() {
                #(#arms,)*
                _ => None,
            }
        }
    }
}

fn c_string(text: &str) -> Literal {
    Literal::c_string(&std::ffi::CString::new(text).unwrap_or_default())
}
