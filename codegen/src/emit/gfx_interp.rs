//! Emits the handlers of gfx11 instructions: a function for each, in two variants, for any processor and for one with
//! AVX2 and FMA; and the types of what accesses to memory do.
//!
//! A handler passes the lane expression of the instruction as a closure to a loop of the runtime, which fetches
//! operands and writes results under the mask. The second variant inlines the same function where the compiler may use
//! wider vectors.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::camel_case::camel_case;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::gfx_tables::{families, family_module, family_modules, family_source};
use crate::model::gfx::{Body, Gfx, Instruction, MemoryValue, PARTS, SPACES};
use crate::sem::{Expr, ExprKind, Ty};

/// The features of processors for which the second variant is.
pub(crate) const FEATURES: [&str; 6] = ["avx2", "fma", "bmi1", "bmi2", "lzcnt", "popcnt"];

/// `gfx/interp.rs`, and `gfx/interp/FAMILY.rs` for each file of instructions.
pub fn emit(gfx: &Gfx) -> Vec<GeneratedFile> {
    let families = families(gfx);
    let modules = family_modules("interp", &families);
    let accesses = accesses();
    let clamped = |fast: bool| {
        let paths = families.iter().flat_map(|(family, instructions)| {
            let family = family_module(family);
            let saturating = instructions.iter().filter(|instruction| instruction.clamped.is_some());
            saturating.map(move |instruction| {
                let (opcode, name) = (format_ident!("{}", camel_case(&instruction.name)), clamped_name(instruction));
                if fast {
                    quote!((Opcode::#opcode, #family::fast::#name))
                } else {
                    quote!((Opcode::#opcode, #family::#name))
                }
            })
        });
        paths.collect::<Vec<_>>()
    };
    let all = |fast: bool| {
        let paths = families.iter().flat_map(|(family, instructions)| {
            let family = family_module(family);
            instructions.iter().map(move |instruction| {
                let name = format_ident!("{}", instruction.name);
                if fast { quote!(#family::fast::#name) } else { quote!(#family::#name) }
            })
        });
        paths.collect::<Vec<_>>()
    };
    let (any, fast, count) = (all(false), all(true), gfx.instructions.len());
    let (any_clamped, fast_clamped) = (clamped(false), clamped(true));
    let (features, enabled) = (FEATURES, FEATURES.join(","));
    let tokens = quote! {
        #modules
        #accesses

        /// The handlers for any processor, at the numbers of their instructions.
        static ANY: [Handler; #count] = [#(#any),*];

        /// Those of instructions whose integer saturates.
        static ANY_CLAMPED: &[(Opcode, Handler)] = &[#(#any_clamped),*];

        /// The handlers for processors with AVX2 and FMA.
        #[cfg(target_arch = "x86_64")]
        static FAST: [Handler; #count] = [#(#fast),*];

        /// Those of instructions whose integer saturates.
        #[cfg(target_arch = "x86_64")]
        static FAST_CLAMPED: &[(Opcode, Handler)] = &[#(#fast_clamped),*];

        /// The handlers for a kind of processors.
        pub(crate) struct Handlers {
            /// Those at the numbers of their instructions.
            pub(crate) plain: &'static [Handler; #count],
            /// Those of instructions with the modifier `clamp` whose integer saturates.
            pub(crate) clamped: &'static [(Opcode, Handler)],
            /// That of instructions with DPP.
            pub(crate) with_dpp: Handler,
        }

        /// The handler of instructions with DPP for them.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = #enabled)]
        fn fast_with_dpp(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
            lanes::with_dpp(wave, group, inst)
        }

        /// The handlers that suit this processor.
        pub(crate) fn handlers() -> Handlers {
            #[cfg(target_arch = "x86_64")]
            if #(is_x86_feature_detected!(#features))&&* {
                return Handlers { plain: &FAST, clamped: FAST_CLAMPED, with_dpp: fast_with_dpp };
            }
            Handlers { plain: &ANY, clamped: ANY_CLAMPED, with_dpp: lanes::with_dpp }
        }
    };
    let mut files = vec![source("gfx/interp.rs", &gfx.path("ops"), tokens)];
    for (family, instructions) in &families {
        let path = format!("gfx/interp/{family}.rs");
        files.push(source(&path, &family_source(gfx, family), family_handlers(instructions)));
    }
    files
}

fn family_handlers(instructions: &[&Instruction]) -> TokenStream {
    let handlers = instructions.iter().map(|instruction| handler(instruction));
    let features = FEATURES.join(",");
    let names = instructions.iter().flat_map(|instruction| {
        let clamped = instruction.clamped.as_ref().map(|_| clamped_name(instruction));
        [Some(format_ident!("{}", instruction.name)), clamped].into_iter().flatten()
    });
    let fast = names.map(|name| {
        quote! {
            #[target_feature(enable = #features)]
            pub(in super::super) fn #name(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next {
                super::#name(wave, group, inst)
            }
        }
    });
    quote! {
        use super::*;

        #(#handlers)*

        #[cfg(target_arch = "x86_64")]
        pub(super) mod fast {
            use super::{Group, Inst, Next, Wave};

            #(#fast)*
        }
    }
}

/// The name of the handler of an instruction whose integer saturates.
fn clamped_name(instruction: &Instruction) -> proc_macro2::Ident {
    format_ident!("{}_clamped", instruction.name)
}

/// The types of the arguments of accesses to memory.
fn accesses() -> TokenStream {
    let variants = |names: &[(&str, &str)]| {
        let variants = names.iter().map(|(name, doc)| {
            let name = format_ident!("{}", camel_case(name));
            quote!(#[doc = #doc] #name,)
        });
        quote!(#(#variants)*)
    };
    let (spaces, parts) = (variants(&SPACES), variants(&PARTS));
    let values: Vec<_> = MemoryValue::ALL.iter().map(|value| format_ident!("{}", camel_case(value.name))).collect();
    let docs = MemoryValue::ALL.iter().map(|value| format!("`{}`", value.name));
    let bytes = MemoryValue::ALL.iter().map(|value| Literal::u32_unsuffixed(value.bytes));
    quote! {
        /// Where an access goes.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Space { #spaces }

        /// Which part of a register a small value is.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Part { #parts }

        /// The form of a value that is loaded or stored.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Value { #(#[doc = #docs] #values,)* }

        impl Value {
            /// How many bytes it has in memory.
            #[inline(always)]
            pub(crate) const fn bytes(self) -> u32 {
                match self { #(Value::#values => #bytes,)* }
            }

            /// How many registers it takes.
            #[inline(always)]
            pub(crate) const fn words(self) -> usize {
                self.bytes().div_ceil(4) as usize
            }
        }
    }
}

/// The Rust type of a value of a lane.
pub(crate) fn rust_type(ty: Ty) -> TokenStream {
    match ty {
        Ty::I16 => quote!(u16),
        Ty::I32 => quote!(u32),
        Ty::I64 => quote!(u64),
        Ty::F16 => quote!(F16),
        Ty::F32 => quote!(f32),
        Ty::F64 => quote!(f64),
        Ty::Bool => quote!(bool),
        // No operand is one of these, and no primitive of lanes.
        Ty::Ref | Ty::Buffer | Ty::List | Ty::Global | Ty::Regs(_) | Ty::Unit => quote!(()),
    }
}

/// A value of a lane as a call of primitives.
pub(crate) fn value(expr: &Expr) -> TokenStream {
    match &expr.kind {
        ExprKind::Operand(name) => {
            let name = format_ident!("{name}");
            quote!(#name)
        }
        ExprKind::Int(bits) => {
            let literal = match expr.ty {
                Ty::I16 => Literal::u16_suffixed(*bits as u16),
                Ty::I64 => Literal::u64_suffixed(*bits as u64),
                _ => Literal::u32_suffixed(*bits as u32),
            };
            quote!(#literal)
        }
        ExprKind::Float(bits) => match expr.ty {
            Ty::F32 => {
                let literal = Literal::f32_suffixed(f32::from_bits(*bits as u32));
                quote!(#literal)
            }
            _ => {
                let literal = Literal::f64_suffixed(f64::from_bits(*bits));
                quote!(#literal)
            }
        },
        ExprKind::BoolToI32(inner) => {
            let inner = value(inner);
            quote!(u32::from(#inner))
        }
        ExprKind::Call { primitive, args, .. } => {
            let (name, args) = (format_ident!("{}", primitive.name()), args.iter().map(value));
            // Operands of the primitive do not tell the type of its value.
            let is_of_result = primitive.result().is_open() && !primitive.params().iter().any(|sig| sig.is_open());
            let of = is_of_result.then(|| rust_type(expr.ty)).map(|ty| quote!(::<#ty>));
            quote!(prim::#name #of(#(#args),*))
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
        Body::Access(access) if access.atomic().is_some() => {
            let change = format_ident!("{}", access.atomic().unwrap_or_default());
            let [space, value] = [access.space, access.value.name].map(|name| format_ident!("{}", camel_case(name)));
            quote!(atomic::#change(wave, group, inst, Space::#space, Value::#value))
        }
        Body::Access(access) => {
            // Accesses to two values have the unit of their offsets as a parameter: `load2_stride64`.
            let (op, stride) = access.op.split_once("_stride").unwrap_or((&access.op, "1"));
            let stride = op.ends_with('2').then(|| stride.parse::<u32>().ok()).flatten().map(Literal::u32_unsuffixed);
            let (op, stride) = (format_ident!("{op}"), stride.map(|stride| quote!(::<#stride>)));
            let [space, value, part] =
                [access.space, access.value.name, access.part].map(|name| format_ident!("{}", camel_case(name)));
            quote!(memory::#op #stride(wave, group, inst, Space::#space, Value::#value, Part::#part))
        }
    };
    let clamped = instruction.clamped.as_ref().map(|results| {
        let (name, body) = (clamped_name(instruction), vector(instruction, results));
        quote! {
            #origin
            #[doc = #doc]
            #[inline(always)]
            pub(super) fn #name(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next { #body }
        }
    });
    quote! {
        #origin
        #[doc = #doc]
        #[inline(always)]
        pub(super) fn #name(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst) -> Next { #body }
        #clamped
    }
}

fn scalar(instruction: &Instruction, results: &[(String, Expr)]) -> TokenStream {
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

fn vector(instruction: &Instruction, results: &[(String, Expr)]) -> TokenStream {
    let reads = instruction.reads();
    let run = format_ident!("run{}", reads.len());
    let params = reads.iter().map(|(name, ty)| {
        // Of the two variants of an instruction, one may read what the other does not.
        let read = results.iter().any(|(_, expr)| expr.reads(name));
        let (name, ty) = (format_ident!("{}{name}", if read { "" } else { "_" }), rust_type(*ty));
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
