//! Emits what the threaded dispatcher needs to run the handlers of `interp`: `vm/interp/threaded/<family>.rs` names the body of each
//! op that is made of primitives by a type, `vm/interp/threaded.rs` picks it for a decoded op.
//!
//! All that is unsafe about the dispatcher is written once, by hand, over these types.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use super::interp::{Ending, ending, is_portable};
use crate::emit::operand::{
    decoded_families, family_modules, family_source, function, ident, is_ref, operands, origin, variant,
};
use crate::emit::{GeneratedFile, comment, source};
use crate::model::vm::{Body, Isa, Op};
use crate::sem::ExprKind;

/// The files of this artifact.
pub(super) fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let mut families = decoded_families(isa);
    for (_, ops) in &mut families {
        ops.retain(|op| is_portable(op));
    }
    families.retain(|(_, ops)| !ops.is_empty());
    let mut files = vec![source("vm/interp/threaded.rs", "spec/vm", top(&families))];
    for (family, ops) in &families {
        let bodies = ops.iter().map(|op| body(op));
        let tokens = quote! {
            use crate::bytecode::*;
            use crate::interp::frame::Frame;
            use crate::interp::threaded::Body;
            #(#bodies)*
        };
        files.push(source(&format!("vm/interp/threaded/{family}.rs"), &family_source(family), tokens));
    }
    files
}

/// Whether the result says whether something is true, so that a branch on it is worth fusing.
fn is_test(op: &Op) -> bool {
    matches!(&op.body, Body::Semantics(expr) if matches!(expr.kind, ExprKind::BoolToI32(_))) && !op.properties.can_trap
}

/// The operands of an op as those of a cell: `(buffer.placed(), index, result)`.
fn placed(op: &Op) -> TokenStream {
    let values = operands(op).into_iter().map(|operand| {
        let name = operand.name;
        let is_ref = op.fields.iter().any(|field| name == ident(&field.name) && is_ref(field));
        if is_ref { quote!(#name.placed()) } else { quote!(#name) }
    });
    quote!((#(#values,)*))
}

/// The operands of an op as a pattern: `(lhs, rhs, result)`.
fn tuple(op: &Op) -> TokenStream {
    let names = operands(op).into_iter().map(|operand| operand.name);
    quote!((#(#names,)*))
}

fn names(op: &Op) -> Vec<Ident> {
    operands(op).into_iter().map(|operand| operand.name).collect()
}

fn top(families: &[(&str, Vec<&Op>)]) -> TokenStream {
    let modules = family_modules("threaded", families);
    let ops = || families.iter().flat_map(|(family, ops)| ops.iter().map(move |op| (ident(family), *op)));
    let plain = ops().map(|(family, op)| {
        let (variant, names, tuple) = (variant(op), names(op), placed(op));
        quote!(Op::#variant { #(#names),* } => to.op::<#family::#variant>(#tuple),)
    });
    let fused = ops().filter(|(_, op)| is_test(op)).filter_map(|(family, op)| {
        let (variant, names, tuple) = (variant(op), names(op), placed(op));
        let result = ident(&op.result()?.name);
        Some(quote! {
            Op::#variant { #(#names),* } if #result == condition => to.branch::<#family::#variant>(#tuple, backward),
        })
    });
    quote! {
        use crate::bytecode::*;
        use crate::interp::threaded::Stream;
        #modules

        #[doc = " Appends an op that is made of primitives. False for any other."]
        pub(crate) fn plain(op: Op, to: &mut Stream<'_>) -> bool {
            match op {
                #(#plain)*
                _ => return false,
            }
            true
        }

        #[doc = " Appends a comparison and a branch on its result as one. False if the op is no comparison with this result."]
        pub(crate) fn fused(op: Op, condition: Reg, backward: bool, to: &mut Stream<'_>) -> bool {
            match op {
                #(#fused)*
                _ => return false,
            }
            true
        }
    }
}

/// The type that stands for the handler of an op.
fn body(op: &Op) -> TokenStream {
    let (name, family, function, origin) = (variant(op), ident(&op.family), function(op), comment(&origin(op)));
    let types = operands(op).into_iter().map(|operand| operand.ty);
    let (names, tuple) = (names(op), tuple(op));
    let call = quote!(super::super::#family::#function(frame, #(#names),*));
    let run = match ending(op) {
        Ending::Fallible => call,
        _ => quote!(#call; Ok(())),
    };
    quote! {
        #origin
        pub(super) struct #name;

        impl Body for #name {
            type Operands = (#(#types,)*);

            #[inline(always)]
            fn run<F: Frame>(frame: &mut F, &#tuple: &Self::Operands) -> Result<(), F::Error> { #run }
        }
    }
}
