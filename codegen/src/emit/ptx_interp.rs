//! Emits the handlers of PTX: a function for each expression that forms of instructions compute, in two variants, for
//! any processor and for one with AVX2 and FMA.
//!
//! A handler passes its expression as a closure to a loop of the runtime over all lanes, as those of machine code do. A
//! packed value is computed part by part.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::gfx_interp::{FEATURES, rust_type, value};
use crate::model::ptx::{Handler, Ptx};
use crate::sem::Ty;

/// Handlers of the runtime that run often, with their modules; they are compiled in both variants.
const BY_HAND: [(&str, &str); 16] = [
    ("matrix", "matrix"),
    ("memory", "load_byte"),
    ("memory", "load_half"),
    ("memory", "load_pair"),
    ("memory", "load_quad"),
    ("memory", "load_word"),
    ("memory", "store"),
    ("moves", "add_pairs"),
    ("moves", "copy"),
    ("moves", "copy_pair"),
    ("moves", "multiply_byte"),
    ("moves", "pack"),
    ("moves", "pack_halves"),
    ("moves", "pick_bytes"),
    ("moves", "scatter_parts"),
    ("sync", "shuffle"),
];

/// Handlers in whose place the runtime may take others, which it knows by these names.
const REPLACED: [&str; 5] = ["add_u64", "cvt_s8_s16", "cvt_u8_u16", "mad_lo_u32", "prmt_b32"];

/// `ptx/interp.rs`, and `ptx/interp/FAMILY.rs` for each file of instructions.
pub fn emit(ptx: &Ptx) -> Vec<GeneratedFile> {
    let mut families: Vec<(&str, Vec<&Handler>)> = Vec::new();
    for handler in &ptx.handlers {
        let stem = handler.origin.stem();
        match families.last_mut() {
            Some((family, handlers)) if *family == stem => handlers.push(handler),
            _ => families.push((stem, vec![handler])),
        }
    }
    let modules = families.iter().map(|(family, _)| {
        let (path, name) = (format!("interp/{family}.rs"), format_ident!("of_{family}"));
        quote!(#[path = #path] mod #name;)
    });
    let all = |fast: bool| {
        let paths = ptx.handlers.iter().map(|handler| {
            let (family, name) = (format_ident!("of_{}", handler.origin.stem()), ident(handler));
            if fast { quote!(#family::fast::#name) } else { quote!(#family::#name) }
        });
        paths.collect::<Vec<_>>()
    };
    let (any, fast, count, features) = (all(false), all(true), ptx.handlers.len(), FEATURES);
    let tokens = quote! {
        #(#modules)*

        /// The handlers for any processor.
        static ANY: [Handler; #count] = [#(#any),*];

        /// The handlers for processors with AVX2 and FMA.
        #[cfg(target_arch = "x86_64")]
        static FAST: [Handler; #count] = [#(#fast),*];

        /// The handlers that suit this processor, at the numbers that the tables of instructions have.
        pub(crate) fn handlers() -> &'static [Handler; #count] {
            #[cfg(target_arch = "x86_64")]
            if #(is_x86_feature_detected!(#features))&&* {
                return &FAST;
            }
            &ANY
        }
    };
    let folder = format!("spec/isa/{}/ops", ptx.name);
    let enabled = FEATURES.join(",");
    let by_hand = BY_HAND.map(|(module, name)| (format_ident!("{module}"), format_ident!("{name}")));
    let (modules, names): (Vec<_>, Vec<_>) = by_hand.iter().cloned().unzip();
    let fast_names: Vec<_> = names.iter().map(|name| format_ident!("fast_{name}")).collect();
    let docs = names.iter().map(|name| format!("`{name}`"));
    let by_hand = quote! {
        /// Handlers by hand that run often.
        pub(crate) struct ByHand {
            #(#[doc = #docs] pub(crate) #names: Handler,)*
        }

        #(
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = #enabled)]
            fn #fast_names(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
                #modules::#names(warp, block, inst)
            }
        )*

        /// Those that suit this processor.
        pub(crate) fn by_hand() -> ByHand {
            #[cfg(target_arch = "x86_64")]
            if #(is_x86_feature_detected!(#features))&&* {
                return ByHand { #(#names: #fast_names,)* };
            }
            ByHand { #(#names: #modules::#names,)* }
        }
    };
    // A set without one of them has no constant for it, and code that replaces it does not compile.
    let numbers = REPLACED.iter().filter_map(|name| {
        let (constant, doc) = (format_ident!("{}", name.to_uppercase()), format!("That of `{name}`."));
        let number = ptx.handlers.iter().position(|handler| handler.name == *name);
        let number = proc_macro2::Literal::u16_unsuffixed(number? as u16);
        Some(quote!(#[doc = #doc] pub(crate) const #constant: u16 = #number;))
    });
    let numbers = quote! {
        /// The numbers of handlers.
        pub(crate) mod number {
            #(#numbers)*
        }
    };
    let tokens = quote!(#tokens #by_hand #numbers);
    let mut files = vec![source("ptx/interp.rs", &folder, tokens)];
    for (family, handlers) in &families {
        let made_from = format!("{folder}/{family}.yaml");
        files.push(source(&format!("ptx/interp/{family}.rs"), &made_from, family_handlers(handlers)));
    }
    files
}

fn ident(handler: &Handler) -> proc_macro2::Ident {
    format_ident!("{}", handler.name)
}

fn family_handlers(handlers: &[&Handler]) -> TokenStream {
    let features = FEATURES.join(",");
    let bodies = handlers.iter().map(|handler| function(handler));
    let fast = handlers.iter().map(|handler| {
        let name = ident(handler);
        quote! {
            #[target_feature(enable = #features)]
            pub(in super::super) fn #name(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
                super::#name(warp, block, inst)
            }
        }
    });
    quote! {
        use super::*;

        #(#bodies)*

        #[cfg(target_arch = "x86_64")]
        pub(super) mod fast {
            use super::{Block, Inst, Next, Warp};

            #(#fast)*
        }
    }
}

fn function(handler: &Handler) -> TokenStream {
    let (name, doc, origin) = (ident(handler), &handler.doc, comment(&handler.origin.to_string()));
    let run = format_ident!("run{}", handler.sources.len());
    let names: Vec<_> = handler.sources.iter().map(|(name, _)| format_ident!("{name}")).collect();
    let types = handler.sources.iter().map(|(_, ty)| rust_type(*ty));
    let values: Vec<TokenStream> = handler.results.iter().map(|(_, expr)| value(expr)).collect();
    let result = if let [single] = values.as_slice() { single.clone() } else { quote!((#(#values),*)) };
    let result = match handler.parts {
        None => result,
        Some(part) => {
            let (ty, of, to) = match part {
                Ty::F16 => (quote!(F16), quote!(halves), quote!(of_halves)),
                Ty::F32 => (quote!(f32), quote!(singles), quote!(of_singles)),
                _ => (quote!(u16), quote!(words), quote!(of_words)),
            };
            let split = names.iter().zip(&handler.sources).map(|(name, (_, ty))| match ty {
                Ty::I32 | Ty::I64 => quote!(let #name = packed::#of(#name);),
                _ => quote!(let #name = [#name, #name];),
            });
            let picked = |index: usize| {
                let index = proc_macro2::Literal::usize_unsuffixed(index);
                quote!(#(#names[#index]),*)
            };
            let (low, high) = (picked(0), picked(1));
            let closure_types = handler.sources.iter().map(|(_, source)| match source {
                Ty::I32 | Ty::I64 => ty.clone(),
                other => rust_type(*other),
            });
            let to = if values.len() == 1 && handler.results.iter().all(|(_, expr)| expr.ty != Ty::Bool) {
                quote!(packed::#to([part(#low), part(#high)]))
            } else {
                quote!((part(#low), part(#high)))
            };
            quote! {{
                let part = |#(#names: #closure_types),*| #result;
                #(#split)*
                #to
            }}
        }
    };
    quote! {
        #origin
        #[doc = #doc]
        #[inline(always)]
        pub(super) fn #name(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
            let _ = &block;
            lanes::#run(warp, inst, |#(#names: #types),*| #result)
        }
    }
}
