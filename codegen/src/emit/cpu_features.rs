//! Emits the table of processor features, which the runtime detects and kernels read.

use quote::{format_ident, quote};

use crate::emit::constants::literal;
use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_types::values;
use crate::load::Spec;

/// `hal/cpu_features.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let file = spec.hal.file("cpu_features");
    if file.cpu_features.is_empty() {
        return Vec::new();
    }
    let constants = values(&file);
    let entries = file.cpu_features.iter().map(|feature| {
        let name = &feature.name;
        let place = match feature.place {
            Some((field, bit)) => {
                let (field, bit) = (literal(field.into()), literal(bit.into()));
                quote!(Some((#field, #bit)))
            }
            None => quote!(None),
        };
        let (leaf, subleaf) = (literal(feature.cpuid.leaf.into()), literal(feature.cpuid.subleaf.into()));
        let (register, cpuid_bit) = (format_ident!("{}", feature.cpuid.register), literal(feature.cpuid.bit.into()));
        let register = format_ident!("{}", crate::model::hal::type_name(&register.to_string()));
        let mask = feature.state.and_then(|state| file.cpu_states.get(state)).map_or(0, |state| state.mask);
        let mask = literal(mask.into());
        let doc = &feature.doc;
        quote! {
            CpuFeature {
                name: #name, doc: #doc, place: #place, leaf: #leaf, subleaf: #subleaf,
                register: CpuidRegister::#register, cpuid_bit: #cpuid_bit, state_mask: #mask,
            }
        }
    });
    let arm_entries = file.arm_features.iter().map(|feature| {
        let (name, doc) = (&feature.name, &feature.doc);
        let pair = |(word, bit): (u8, u8)| {
            let (word, bit) = (literal(word.into()), literal(bit.into()));
            quote!((#word, #bit))
        };
        let (place, hwcap) = (pair(feature.place), pair(feature.hwcap));
        quote!(ArmFeature { name: #name, doc: #doc, place: #place, hwcap: #hwcap })
    });
    let items = quote! {
        #constants

        /// A register that `cpuid` writes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CpuidRegister {
            /// `eax`
            Eax,
            /// `ebx`
            Ebx,
            /// `ecx`
            Ecx,
            /// `edx`
            Edx,
        }

        /// A feature of x86-64 processors.
        #[derive(Clone, Copy, Debug)]
        pub struct CpuFeature {
            /// Its name in queries.
            pub name: &'static str,
            /// Its documentation.
            pub doc: &'static str,
            /// The word of the processor data and the bit in it, for features that programs see.
            pub place: Option<(usize, u32)>,
            /// The `cpuid` leaf that reports it.
            pub leaf: u32,
            /// The subleaf.
            pub subleaf: u32,
            /// The register.
            pub register: CpuidRegister,
            /// The bit in that register.
            pub cpuid_bit: u32,
            /// Bits of the state leaf that must be set too.
            pub state_mask: u32,
        }

        /// A feature of 64-bit Arm processors.
        #[derive(Clone, Copy, Debug)]
        pub struct ArmFeature {
            /// Its name in queries.
            pub name: &'static str,
            /// Its documentation.
            pub doc: &'static str,
            /// The word of the processor data and the bit in it.
            pub place: (usize, u32),
            /// The word of the capabilities that Linux reports, 0 for `AT_HWCAP` and 1 for `AT_HWCAP2`, and the bit in
            /// it.
            pub hwcap: (usize, u32),
        }

        /// All features of 64-bit Arm processors.
        pub const ARM_FEATURES: &[ArmFeature] = &[#(#arm_entries),*];

        /// All features of x86-64 processors.
        pub const CPU_FEATURES: &[CpuFeature] = &[#(#entries),*];
    };
    vec![source("hal/cpu_features.rs", "spec/hal/cpu_features.yaml", items)]
}
