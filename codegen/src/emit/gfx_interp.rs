//! Emits the handlers of gfx11 instructions: a function for each, in two variants, for any processor and for one with AVX2 and FMA.
//!
//! A handler passes the lane expression of the instruction as a closure to a loop of the runtime, which fetches operands and writes results
//! under the mask. The second variant inlines the same function where the compiler may use wider vectors.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::load::Spec;
use crate::model::gfx::{Body, Instruction, LaneExpr, LaneKind, LaneTy};

/// The features of processors for which the second variant is.
const FEATURES: &str = "avx2,fma,bmi1,bmi2,lzcnt,popcnt";

/// `gfx/interp.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let gfx = &spec.gfx11;
    let handlers = gfx.instructions.iter().map(handler);
    let fast = gfx.instructions.iter().map(|instruction| {
        let name = format_ident!("{}", instruction.name);
        quote! {
            #[target_feature(enable = #FEATURES)]
            pub(super) fn #name(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
                super::#name(wave, group, inst)
            }
        }
    });
    let names: Vec<_> = gfx.instructions.iter().map(|instruction| format_ident!("{}", instruction.name)).collect();
    let count = names.len();
    let features = FEATURES.split(',');
    let tokens = quote! {
        #(#handlers)*

        /// The handlers for any processor, at the numbers of their instructions.
        pub(super) static ANY: [Handler; #count] = [#(#names),*];

        /// The handlers for processors with AVX2 and FMA.
        #[cfg(target_arch = "x86_64")]
        pub(super) static FAST: [Handler; #count] = [#(fast::#names),*];

        /// The handler of instructions with DPP for them.
        #[cfg(target_arch = "x86_64")]
        pub(super) static FAST_DPP: Handler = fast::with_dpp;

        /// Whether this processor has what they need.
        #[cfg(target_arch = "x86_64")]
        pub(super) fn is_fast() -> bool {
            #(is_x86_feature_detected!(#features))&&*
        }

        #[cfg(target_arch = "x86_64")]
        mod fast {
            use super::{Group, Inst, Next, Wave};

            #(#fast)*

            #[target_feature(enable = #FEATURES)]
            pub(super) fn with_dpp(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
                super::lanes::with_dpp(wave, group, inst)
            }
        }
    };
    vec![source("gfx/interp.rs", "spec/gfx11/ops", tokens)]
}

/// The Rust type of a value of a lane.
pub(crate) fn rust_type(ty: LaneTy) -> TokenStream {
    match ty {
        LaneTy::B16 => quote!(u16),
        LaneTy::B32 => quote!(u32),
        LaneTy::B64 => quote!(u64),
        LaneTy::F16 => quote!(F16),
        LaneTy::F32 => quote!(f32),
        LaneTy::F64 => quote!(f64),
        LaneTy::Bit => quote!(bool),
    }
}

fn value(expr: &LaneExpr) -> TokenStream {
    match &expr.kind {
        LaneKind::Operand(name) => {
            let name = format_ident!("{name}");
            quote!(#name)
        }
        LaneKind::Number(number) => {
            let literal = match expr.ty {
                LaneTy::B16 => Literal::u16_suffixed(*number as u16),
                LaneTy::B64 => Literal::u64_suffixed(*number),
                _ => Literal::u32_suffixed(*number as u32),
            };
            quote!(#literal)
        }
        LaneKind::Call(name, args) => {
            let (name, args) = (format_ident!("{name}"), args.iter().map(value));
            quote!(prim::#name(#(#args),*))
        }
    }
}

fn handler(instruction: &Instruction) -> TokenStream {
    let name = format_ident!("{}", instruction.name);
    let origin = comment(&instruction.origin.to_string());
    let doc = &instruction.doc;
    let body = match &instruction.body {
        Body::Semantics(results) if instruction.is_scalar() => scalar(instruction, results),
        Body::Semantics(results) => vector(instruction, results),
        Body::Helper(helper) => {
            let helper = format_ident!("{helper}");
            quote!(helpers::#helper(wave, group, inst))
        }
        Body::Control(control) => {
            let control = format_ident!("{control}");
            quote!(control::#control(wave, group, inst))
        }
        Body::Access(access) => {
            // Accesses to two values have the unit of their offsets as a parameter: `load2_stride64`.
            let (op, stride) = access.op.split_once("_stride").unwrap_or((&access.op, "1"));
            let stride = op.ends_with('2').then(|| stride.parse::<u32>().ok()).flatten().map(Literal::u32_unsuffixed);
            let (op, stride) = (format_ident!("{op}"), stride.map(|stride| quote!(::<#stride>)));
            let (space, value) = (camel_case(&access.space), camel_case(&access.value));
            let (space, value) = (format_ident!("{space}"), format_ident!("{value}"));
            let part = format_ident!("{}", camel_case(access.part.as_deref().unwrap_or("whole")));
            quote!(memory::#op #stride(wave, group, inst, Space::#space, Value::#value, Part::#part))
        }
    };
    quote! {
        #origin
        #[doc = #doc]
        #[inline(always)]
        fn #name(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next { #body }
    }
}

fn scalar(instruction: &Instruction, results: &[(String, LaneExpr)]) -> TokenStream {
    let reads = instruction.reads().into_iter().enumerate().map(|(index, (name, ty))| {
        let (variable, ty) = (format_ident!("{name}"), rust_type(ty));
        match name {
            "scc" => quote!(let #variable = wave.scc;),
            _ => quote!(let #variable: #ty = scalar::read(wave, inst, #index);),
        }
    });
    let values = results.iter().map(|(name, expr)| {
        let (name, expr) = (format_ident!("new_{name}"), value(expr));
        quote!(let #name = #expr;)
    });
    let writes = results.iter().map(|(name, _)| {
        let variable = format_ident!("new_{name}");
        match name.as_str() {
            "scc" => quote!(wave.scc = #variable;),
            "exec" => quote!(wave.set_exec(#variable);),
            "exec64" => quote!(wave.set_exec_pair(#variable);),
            _ => quote!(scalar::write(wave, inst, #variable);),
        }
    });
    quote! {
        let _ = &group;
        #(#reads)*
        #(#values)*
        #(#writes)*
        Next::Continue
    }
}

fn vector(instruction: &Instruction, results: &[(String, LaneExpr)]) -> TokenStream {
    let reads = instruction.reads();
    let run = format_ident!("run{}", reads.len());
    let params = reads.iter().map(|(name, ty)| {
        let (name, ty) = (format_ident!("{name}"), rust_type(*ty));
        quote!(#name: #ty)
    });
    let values: Vec<TokenStream> = results
        .iter()
        .map(|(name, expr)| {
            let value = value(expr);
            if name == "exec" { quote!(Exec(#value)) } else { value }
        })
        .collect();
    let value = if let [single] = values.as_slice() { single.clone() } else { quote!((#(#values),*)) };
    quote! {
        let _ = &group;
        lanes::#run(wave, inst, |#(#params),*| #value)
    }
}
