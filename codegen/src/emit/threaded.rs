//! Emits what the threaded dispatcher needs to run the handlers of `interp`: `vm/interp/threaded/<family>.rs` names the body of each
//! op that is made of primitives, or is executed by a helper, by a type; `vm/interp/threaded.rs` picks it for a decoded op.
//!
//! All that is unsafe about the dispatcher is written once, by hand, over these types.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::handler::{Ending, ending, is_portable, is_value, names};
use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{
    decoded_families, family_modules, family_source, function, ident, is_ref, operands, origin, variant,
};
use crate::model::vm::{Body, Field, Isa, Op, Type};
use crate::sem::ExprKind;

/// The files of this artifact.
pub(super) fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let mut families = decoded_families(isa);
    for (_, ops) in &mut families {
        ops.retain(|op| is_portable(op) || is_helper(op));
    }
    families.retain(|(_, ops)| !ops.is_empty());
    let mut files = vec![source("vm/interp/threaded.rs", "spec/vm", top(&families))];
    for (family, ops) in &families {
        let bodies = ops.iter().map(|op| if is_helper(op) { helper_body(op) } else { body(op) });
        let tokens = quote!(use super::super::prelude::*; #(#bodies)*);
        files.push(source(&format!("vm/interp/threaded/{family}.rs"), &family_source(family), tokens));
    }
    files
}

/// Whether a method of `Helpers` executes the op.
fn is_helper(op: &Op) -> bool {
    matches!(op.body, Body::Helper(_))
}

/// Whether the result says whether something is true, so that a branch on it is worth fusing.
fn is_test(op: &Op) -> bool {
    matches!(&op.body, Body::Semantics(expr) if matches!(expr.kind, ExprKind::BoolToI32(_))) && !op.properties.can_trap
}

/// The operands of an op as those of a threaded instruction: `(buffer.frame_relative(), index, result)`.
fn placed(op: &Op) -> TokenStream {
    let values = operands(op).into_iter().map(|operand| {
        let name = operand.name;
        let is_ref = op.fields.iter().any(|field| name == ident(&field.name) && is_ref(field));
        if is_ref { quote!(#name.frame_relative()) } else { quote!(#name) }
    });
    quote!((#(#values,)*))
}

/// The operands of an op as a pattern: `(lhs, rhs, result)`.
fn tuple(op: &Op) -> TokenStream {
    let names = names(op);
    quote!((#(#names,)*))
}

/// The fields that are read as values, in their order.
fn values(op: &Op) -> impl Iterator<Item = &Field> {
    op.fields.iter().filter(|field| is_value(field))
}

/// `narrow(lhs)`, `wide(lhs)`: the slots of a value.
fn slots(field: &Field) -> TokenStream {
    let name = ident(&field.name);
    match field.ty {
        Some(Type::I64 | Type::F64) => quote!(wide(#name)),
        _ => quote!(narrow(#name)),
    }
}

fn top(families: &[(&str, Vec<&Op>)]) -> TokenStream {
    let modules = family_modules("threaded", families);
    let ops = || families.iter().flat_map(|(family, ops)| ops.iter().map(move |op| (ident(family), *op)));
    let plain = ops().filter(|(_, op)| is_portable(op)).map(|(family, op)| {
        let (variant, names, tuple) = (variant(op), names(op), placed(op));
        let reads = values(op).map(slots);
        let result = op.result().filter(|field| !is_ref(field)).map(slots);
        let result = result.map_or_else(|| quote!(None), |slots| quote!(Some(#slots)));
        quote!(Op::#variant { #(#names),* } => visitor.op::<#family::#variant>(#tuple, &[#(#reads),*], #result),)
    });
    let fused = ops().filter(|(_, op)| is_test(op)).filter_map(|(family, op)| {
        let (variant, names, tuple) = (variant(op), names(op), placed(op));
        let result = ident(&op.result()?.name);
        let reads = values(op).map(slots);
        Some(quote! {
            Op::#variant { #(#names),* } if #result == condition => visitor.test::<#family::#variant>(#tuple, &[#(#reads),*]),
        })
    });
    let helpers = ops().filter(|(_, op)| is_helper(op)).map(|(family, op)| {
        let (variant, names, tuple) = (variant(op), names(op), tuple(op));
        quote!(Op::#variant { #(#names),* } => visitor.helper::<#family::#variant>(#tuple),)
    });
    quote! {
        use super::prelude::*;
        #modules

        #[doc = " Visits an op that is made of primitives. False for any other."]
        pub fn visit_op(op: Op, visitor: &mut impl OpVisitor) -> bool {
            match op {
                #(#plain)*
                _ => return false,
            }
            true
        }

        #[doc = " Visits an op that a helper executes. False for any other."]
        pub fn visit_helper(op: Op, visitor: &mut impl HelperVisitor) -> bool {
            match op {
                #(#helpers)*
                _ => return false,
            }
            true
        }

        #[doc = " Visits a comparison whose result only a branch reads. False if the op is no comparison with this result."]
        pub fn visit_fused_test(op: Op, condition: Reg, visitor: &mut impl OpVisitor) -> bool {
            match op {
                #(#fused)*
                _ => return false,
            }
            true
        }
    }
}

/// The type that stands for the handlers of an op: one for each value operand that may be the carry, and one for none.
fn body(op: &Op) -> TokenStream {
    let (name, family, function, origin) = (variant(op), ident(&op.family), function(op), comment(&origin(op)));
    let types = operands(op).into_iter().map(|operand| operand.ty);
    let tuple = tuple(op);
    let variants = || (0..=values(op).count()).map(Literal::usize_unsuffixed);
    let numbered: Vec<(&str, Literal)> = values(op).map(|field| field.name.as_str()).zip(variants().skip(1)).collect();
    let arguments = op.fields.iter().map(|field| {
        let name = ident(&field.name);
        match numbered.iter().find(|(value, _)| *value == field.name) {
            Some((_, number)) => quote!(Operand::new(#name, CARRIED == #number)),
            None => quote!(#name),
        }
    });
    let call = quote!(super::super::#family::#function(frame, #(#arguments),*));
    let run = match ending(op) {
        Ending::Fallible => call,
        _ => quote!(#call; Ok(())),
    };
    let handlers = variants().map(|number| quote!(op::<Self, #number>));
    let test = is_test(op).then(|| {
        let handlers = variants().map(|number| quote!(branch_handlers::<Self, #number>()));
        quote!(impl TestBody for #name { const BRANCH_HANDLERS: &'static [BranchHandlers] = &[#(#handlers),*]; })
    });
    quote! {
        #origin
        pub(super) struct #name;

        impl OpBody for #name {
            type Operands = (#(#types,)*);
            const HANDLERS: &'static [Handler] = &[#(#handlers),*];

            #[inline(always)]
            fn run<F: Frame, const CARRIED: usize>(
                frame: &mut F,
                &#tuple: &Self::Operands,
            ) -> Result<(), F::Error> { #run }
        }

        #test
    }
}

/// The type that stands for the handler of an op that a helper executes.
fn helper_body(op: &Op) -> TokenStream {
    let (name, family, function, origin) = (variant(op), ident(&op.family), function(op), comment(&origin(op)));
    let types = operands(op).into_iter().map(|operand| operand.ty);
    let (names, tuple) = (names(op), tuple(op));
    quote! {
        #origin
        pub(super) struct #name;

        impl HelperBody for #name {
            type Operands = (#(#types,)*);

            #[inline(always)]
            fn run(cx: &mut Machine<'_>, &#tuple: &Self::Operands) -> Result<()> {
                super::super::#family::#function(cx, #(#names),*)
            }
        }
    }
}
