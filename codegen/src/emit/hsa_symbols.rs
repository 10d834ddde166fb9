//! Emits the table of functions that the driver looks up in the HSA library.

use proc_macro2::Literal;
use quote::{format_ident, quote};

use crate::emit::constants::literal;
use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_types::type_ident;
use crate::emit::layouts;
use crate::emit::scope::Scope;
use crate::model::api::Api;

/// `amdgpu/hsa_symbols.rs`
pub fn emit(api: &Api) -> Vec<GeneratedFile> {
    let symbols = &api.symbols;
    if symbols.is_empty() {
        return Vec::new();
    }
    let scope = Scope::Api(api, "hsa_symbols");
    let types = symbols.iter().map(|symbol| {
        let name = format_ident!("{}Fn", type_ident(&symbol.function.name));
        layouts::function(&symbol.function, &name, scope)
    });
    let rows = symbols.iter().map(|symbol| {
        let (name, required) = (&symbol.function.name, symbol.required);
        quote!(HsaSymbol { name: #name, required: #required })
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
        let text = Literal::c_string(&std::ffi::CString::new(symbol.function.name.as_str()).unwrap_or_default());
        let ty = format_ident!("{}Fn", type_ident(&symbol.function.name));
        let cast = quote!(unsafe { std::mem::transmute::<std::ptr::NonNull<std::ffi::c_void>, #ty>(address) });
        let safety = crate::emit::file::comment("SAFETY: `find` returned the function of this name.");
        quote! {
            let #name = match find(#text) {
                Some(address) => {
                    #safety
                    let function = #cast;
                    Some(function)
                }
                None => { missing.push(&HSA_SYMBOLS[#index]); None }
            };
        }
    });
    let required = symbols.iter().zip(&names).filter(|(symbol, _)| symbol.required).map(|(_, name)| name);
    let required: Vec<_> = required.collect();
    let optional: Vec<_> =
        symbols.iter().zip(&names).filter(|(symbol, _)| !symbol.required).map(|(_, name)| name).collect();
    let items = quote! {
        /// Every function, in the order of the spec.
        pub const HSA_SYMBOLS: &[HsaSymbol] = &[#(#rows),*];

        #(#types)*

        /// The functions of a loaded library.
        #[derive(Clone, Copy, Debug)]
        pub struct HsaFunctions { #(#fields,)* }

        impl HsaFunctions {
            /// Looks up every function.
            ///
            /// # Errors
            /// The required ones that `find` does not know, all of them.
            ///
            /// # Safety
            /// `find` returns addresses of the functions of these names in an HSA library that stays loaded.
            pub unsafe fn load(
                mut find: impl FnMut(&'static std::ffi::CStr) -> Option<std::ptr::NonNull<std::ffi::c_void>>,
            ) -> Result<Self, Vec<&'static HsaSymbol>> {
                let mut missing = Vec::new();
                #(#lookups)*
                missing.retain(|symbol| symbol.required);
                let (#(Some(#required),)*) = (#(#required,)*) else { return Err(missing); };
                Ok(Self { #(#required,)* #(#optional,)* })
            }
        }
    };
    vec![source("amdgpu/hsa_symbols.rs", "spec/api/amdgpu/hsa_symbols.yaml", items)]
}
