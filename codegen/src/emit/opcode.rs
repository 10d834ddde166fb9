//! Emits opcode numbers, mnemonics and sets, and the constants of the stream: `vm/opcode.rs`.

use proc_macro2::Literal;
use quote::{format_ident, quote};

use crate::emit::constants;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{constant, ident, origin};
use crate::load::Spec;

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let isa = &spec.vm;
    let (major, minor) = (isa.bytecode.major, isa.bytecode.minor);
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
    let bits = isa.sets.iter().filter_map(|set| set.feature).chain(isa.features.iter().map(|feature| feature.bit));
    let all = bits.fold(0, |all, bits| all | bits);
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
        #[doc = " The bytecode version that these tables describe; files with another major version are not readable."]
        pub const BYTECODE_MAJOR: u16 = #major;
        #[doc = " The newest minor version that is understood."]
        pub const BYTECODE_MINOR: u16 = #minor;
        #[doc = " Every bit of a function's or module's feature word that has a meaning."]
        pub const ALL_FEATURES: u32 = #all;
        #[doc = " The bits of the feature word by name: opcode sets, and what no set stands for."]
        pub const FEATURES: &[(&str, u32)] = &[#(#named),*];
        #[doc = " Bits of the feature word that no opcode set stands for."]
        pub mod feature { #(#features)* }
        #(#constants)*
        #(#sets)*
        #(#mnemonics)*
    };
    vec![source("vm/opcode.rs", "spec/vm", tokens)]
}

fn hexadecimal(opcode: u8) -> Literal {
    // `Literal` has no constructor for hexadecimal, but parses one.
    format!("{opcode:#04x}").parse().unwrap_or_else(|_| Literal::u8_unsuffixed(opcode))
}
