//! Emits opcode numbers, mnemonics and sets, and the constants of the stream: `vm/opcode.rs`.

use proc_macro2::Literal;
use quote::{format_ident, quote};

use crate::emit::constants;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{constant, ident, origin};
use crate::model::vm::{Bytecode, GapFill, Isa};

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let sets = isa.sets.iter().map(|set| {
        let module = ident(&set.name);
        let doc = format!(" {}", set.doc);
        let ops = isa.ops.iter().filter(|op| op.set == set.name).map(|op| {
            let (name, value) = (constant(op), hexadecimal(op.opcode));
            let (origin, doc) = (comment(&origin(op)), format!(" `{}`", op.mnemonic));
            quote!(#origin #[doc = #doc] pub const #name: u8 = #value;)
        });
        let feature = set.feature.unwrap_or(0);
        quote! {
            #[doc = #doc]
            pub mod #module {
                #[doc = " The bits of a function's feature word that these opcodes need."]
                pub const FEATURES: u32 = #feature;
                #(#ops)*
            }
        }
    });
    let mnemonics = isa.sets.iter().map(|set| {
        let module = ident(&set.name);
        let arms = isa.ops.iter().filter(|op| op.set == set.name).map(|op| {
            let (name, mnemonic) = (constant(op), &op.mnemonic);
            quote!(#module::#name => #mnemonic,)
        });
        let function = format_ident!("{}_mnemonic", set.name);
        let doc = format!(" The mnemonic of an opcode of the set `{}`, if it is one.", set.name);
        quote! {
            #[doc = #doc]
            pub fn #function(opcode: u8) -> Option<&'static str> {
                Some(match opcode { #(#arms)* _ => return None })
            }
        }
    });
    let versions = isa.versions.iter().map(|version| {
        let Bytecode { major, minor, releases, moves, .. } = version;
        let features = isa.features.iter().filter(|feature| feature.since <= *major).map(|feature| feature.bit);
        let features = isa.sets.iter().filter_map(|set| set.feature).chain(features);
        let features = features.fold(0, |all: u32, bits| all | bits);
        let gap_fill = match &version.gap_fill {
            Some(GapFill { module, version, releases }) => {
                quote!(Some(GapFill { module: #module, version: #version, releases: #releases }))
            }
            None => quote!(None),
        };
        quote! {
            BytecodeVersion {
                major: #major,
                minor: #minor,
                releases: #releases,
                features: #features,
                moves: #moves,
                gap_fill: #gap_fill,
            }
        }
    });
    let newest = isa.versions.len().saturating_sub(1);
    let named = isa.sets.iter().filter_map(|set| Some((set.name.as_str(), set.feature?)));
    let named = named.chain(isa.features.iter().map(|feature| (feature.name.as_str(), feature.bit)));
    let named = named.map(|(name, bit)| quote!((#name, #bit)));
    let features = isa.features.iter().map(|feature| {
        let name = format_ident!("{}", feature.name.to_uppercase());
        let (doc, bit) = (format!(" {}", feature.doc), feature.bit);
        quote!(#[doc = #doc] pub const #name: u32 = #bit;)
    });
    let constants = isa.constants.iter().map(constants::constant);
    let tokens = quote! {
        #[doc = " A version of the bytecode. All have the same encodings."]
        #[derive(Debug, PartialEq, Eq)]
        pub struct BytecodeVersion {
            #[doc = " Its major version."]
            pub major: u16,
            #[doc = " Its minor version."]
            pub minor: u16,
            #[doc = " The releases of the compiler that write it."]
            pub releases: &'static str,
            #[doc = " Every bit of a function's or module's feature word that has a meaning."]
            pub features: u32,
            #[doc = " False if the MOVE bit means nothing: references are copied."]
            pub moves: bool,
            #[doc = " Modules that have arguments in the gaps that 64-bit arguments leave, if any has."]
            pub gap_fill: Option<GapFill>,
        }
        #[doc = " Modules of compilers that fill gaps between arguments."]
        #[derive(Debug, PartialEq, Eq)]
        pub struct GapFill {
            #[doc = " The name of another module; those that need at most `version` of it are of such compilers. Others may be."]
            pub module: &'static str,
            #[doc = " The version of that module."]
            pub version: u32,
            #[doc = " The releases of these compilers."]
            pub releases: &'static str,
        }
        #[doc = " The versions that can be read, oldest first."]
        pub const BYTECODE_VERSIONS: &[BytecodeVersion] = &[#(#versions),*];
        #[doc = " The newest version, which the assembler writes."]
        pub const NEWEST_BYTECODE: &BytecodeVersion = &BYTECODE_VERSIONS[#newest];
        #[doc = " The bits of the feature word by name: opcode sets, and what no set stands for."]
        pub const FEATURES: &[(&str, u32)] = &[#(#named),*];
        #[doc = " Bits of the feature word that no opcode set stands for."]
        pub mod feature { #(#features)* }
        #(#constants)*
        #(#sets)*
        #(#mnemonics)*
    };
    vec![source("vm/opcode.rs", "spec/isa/vm", tokens)]
}

fn hexadecimal(opcode: u8) -> Literal {
    // `Literal` has no constructor for hexadecimal, but parses one.
    format!("{opcode:#04x}").parse().unwrap_or_else(|_| Literal::u8_unsuffixed(opcode))
}
