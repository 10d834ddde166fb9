//! Emits the table of each module that a spec lists: name, versions, and its exports in the order of the file.

use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let modules = spec.abi.modules.values().map(|module| {
        let ident = format_ident!("{}", module.name);
        let (name, version, minimum) = (&module.name, module.version, module.minimum_version);
        let origin = comment(&module.origin.to_string());
        let doc = format!(" {}", module.doc);
        let exports = module.functions().map(|(export, adaptor)| {
            let convention = adaptor.map_or_else(|| export.convention(), |adaptor| adaptor.convention.clone());
            let (name, convention) = (&export.name, spec.abi.grammar.text(&convention));
            // Comments cannot stand inside an expression, so the origin is left to the shim.
            quote!(NativeExport { name: #name, convention: #convention },)
        });
        quote! {
            #origin
            #[doc = #doc]
            pub mod #ident {
                use super::*;
                /// Name that imports have before the dot.
                pub const NAME: &str = #name;
                /// Newest version of the interface.
                pub const VERSION: u32 = #version;
                /// Oldest supported version.
                pub const MINIMUM_VERSION: u32 = #minimum;
                /// The exports, then the earlier forms of some of them; the position of one is its ordinal.
                pub const EXPORTS: &[NativeExport] = &[#(#exports)*];
            }
        }
    });
    vec![source("abi/modules.rs", "spec/abi/modules", quote!(#(#modules)*))]
}
