//! Emits what the threaded dispatcher needs to run the handlers of `interp`: `vm/interp/threaded/<family>.rs` names the
//! body of each op that is made of primitives, or is executed by a helper, by a type; `vm/interp/threaded.rs` picks it
//! for a decoded op.
//!
//! All that is unsafe about the dispatcher is written once, by hand, over these types.

use std::cmp::Reverse;

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::handler::{Ending, ending, names};
use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{
    decoded_families, family_modules, family_source, function, ident, is_ref, operands, origin, variant,
};
use crate::model::vm::{Body, Field, Isa, Op, Sequence, Type};

/// The files of this artifact.
pub(super) fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let mut families = decoded_families(isa);
    for (_, ops) in &mut families {
        ops.retain(|op| op.is_portable() || is_helper(op));
    }
    families.retain(|(_, ops)| !ops.is_empty());
    let mut files = vec![source("vm/interp/threaded.rs", "spec/isa/vm", top(isa, &families))];
    for (family, ops) in &families {
        let bodies = ops.iter().map(|op| if is_helper(op) { helper_body(op) } else { body(op) });
        let tokens = quote!(use super::super::threaded_prelude::*; #(#bodies)*);
        files.push(source(&format!("vm/interp/threaded/{family}.rs"), &family_source(family), tokens));
    }
    files
}

/// Whether a method of `Helpers` executes the op.
fn is_helper(op: &Op) -> bool {
    matches!(op.body, Body::Helper(_))
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

/// `narrow(lhs)`, `wide(lhs)`: the slots of a value.
fn slots(field: &Field) -> TokenStream {
    let name = ident(&field.name);
    match field.ty {
        Some(Type::I64 | Type::F64) => quote!(wide(#name)),
        _ => quote!(narrow(#name)),
    }
}

fn top(isa: &Isa, families: &[(&str, Vec<&Op>)]) -> TokenStream {
    let modules = family_modules("threaded", families);
    let ops = || families.iter().flat_map(|(family, ops)| ops.iter().map(move |op| (ident(family), *op)));
    let plain = ops().filter(|(_, op)| op.is_portable()).map(|(family, op)| {
        let (variant, names, tuple) = (variant(op), names(op), placed(op));
        let reads = op.values().map(slots);
        let result = op.result().filter(|field| !is_ref(field)).map(slots);
        let result = result.map_or_else(|| quote!(None), |slots| quote!(Some(#slots)));
        quote!(Op::#variant { #(#names),* } => visitor.op::<#family::#variant>(#tuple, &[#(#reads),*], #result),)
    });
    let fused = ops().filter(|(_, op)| op.is_test()).filter_map(|(family, op)| {
        let (variant, names, tuple) = (variant(op), names(op), placed(op));
        let result = ident(&op.result()?.name);
        let reads = op.values().map(slots);
        Some(quote! {
            Op::#variant { #(#names),* } if #result == condition => visitor.test::<#family::#variant>(#tuple, &[#(#reads),*]),
        })
    });
    let helpers = ops().filter(|(_, op)| is_helper(op)).map(|(family, op)| {
        let (variant, names, tuple) = (variant(op), names(op), tuple(op));
        quote!(Op::#variant { #(#names),* } => visitor.helper::<#family::#variant>(#tuple),)
    });
    // A sequence is tried before those that it begins with.
    let mut by_length: Vec<&Sequence> = isa.sequences.iter().collect();
    by_length.sort_by_key(|sequence| Reverse((sequence.steps.len(), sequence.branch)));
    let longest = by_length.first().map_or(0, |sequence| sequence.steps.len());
    let sequences = by_length.into_iter().map(|sequence| sequence_arm(isa, sequence));
    quote! {
        use super::threaded_prelude::*;
        #modules

        #[doc = " Visits an op that is made of primitives. False for any other."]
        pub fn visit_op(op: Op, visitor: &mut impl OpVisitor) -> bool {
            match op {
                #(#plain)*
                _ => return false,
            }
            true
        }

        #[doc = " The most instructions that a handler of [`sequence`] executes."]
        pub const LONGEST_SEQUENCE: usize = #longest;

        #[doc = " The handler that executes the first of these instructions, which follow each other, and how many it executes. None if only the"]
        #[doc = " first would be."]
        pub fn sequence(run: &[EmittedOp]) -> Option<(usize, Handler)> {
            match run {
                #(#sequences)*
                _ => None,
            }
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

/// An op of a sequence, and the number of the value operand that is carried, counted from 1; 0 if none is.
type NumberedStep<'a> = (&'a Op, usize);

/// The ops of a sequence.
fn numbered<'a>(isa: &'a Isa, sequence: &Sequence) -> Vec<NumberedStep<'a>> {
    let steps = sequence.steps.iter().filter_map(|step| {
        let op = isa.op(&step.op)?;
        let carried = op.values().position(|field| step.carried.as_ref() == Some(&field.name));
        Some((op, carried.map_or(0, |index| index + 1)))
    });
    steps.collect()
}

/// The body of an op: `integer::AddI32`.
fn body_path(op: &Op) -> TokenStream {
    let (family, variant) = (ident(&op.family), variant(op));
    quote!(#family::#variant)
}

/// Ops as a list of types: a pair of the first one and the rest.
fn step_list<'a>(steps: impl DoubleEndedIterator<Item = NumberedStep<'a>>) -> TokenStream {
    let steps = steps.map(|(op, carried)| {
        let (body, carried) = (body_path(op), Literal::usize_unsuffixed(carried));
        quote!(Step<#body, #carried>)
    });
    steps.rev().reduce(|rest, first| quote!((#first, #rest))).unwrap_or_default()
}

/// Patterns of the instructions of a sequence: the operand that the first one carries is bound to `carried`, and the
/// kind of the branch at its end, if there is one, to `branch`.
fn patterns(steps: &[NumberedStep<'_>], ends_in_branch: bool) -> TokenStream {
    let last = steps.len() - 1;
    let patterns = steps.iter().enumerate().map(|(index, (op, carried))| {
        let (variant, carried) = (variant(op), Literal::usize_unsuffixed(*carried));
        let carried = if index == 0 { quote!(carried) } else { quote!(carried: #carried) };
        let branch = if index == last && ends_in_branch { quote!(Some(branch)) } else { quote!(None) };
        quote!(EmittedOp { op: Op::#variant { .. }, #carried, branch: #branch, .. })
    });
    quote!(#(#patterns),*)
}

/// The arm of a sequence in `sequence`: the handlers by the carried operand of its first op, and by the kind of branch
/// at its end.
fn sequence_arm(isa: &Isa, sequence: &Sequence) -> TokenStream {
    let steps = numbered(isa, sequence);
    let (Some((first, _)), Some((last, last_carried))) = (steps.first(), steps.last()) else { return quote!() };
    let patterns = patterns(&steps, sequence.branch);
    let before_branch = if sequence.branch { steps.len() - 1 } else { steps.len() };
    let handlers = (0..=first.values().count()).map(|carried| {
        let list = step_list(starting_with(carried, &steps[..before_branch]));
        let (last, last_carried) = (body_path(last), Literal::usize_unsuffixed(*last_carried));
        match steps[before_branch..] {
            [] => quote!(steps::<#list>),
            _ => quote!(steps_and_branch_handlers::<#list, #last, #last_carried>()),
        }
    });
    let count = Literal::usize_unsuffixed(steps.len());
    let doc = format!(" {}: {}", sequence.origin.file, sequence.doc);
    let (ty, index) = match sequence.branch {
        true => (quote!(BranchHandlers), quote!([*carried][*branch])),
        false => (quote!(Handler), quote!([*carried])),
    };
    quote! {
        [#patterns, ..] => {
            #[doc = #doc]
            const HANDLERS: &[#ty] = &[#(#handlers),*];
            Some((#count, HANDLERS #index))
        }
    }
}

/// The ops of a sequence whose first one has this operand carried.
fn starting_with<'a>(
    carried: usize,
    steps: &'a [NumberedStep<'a>],
) -> impl DoubleEndedIterator<Item = NumberedStep<'a>> {
    steps.iter().enumerate().map(move |(index, (op, other))| (*op, if index == 0 { carried } else { *other }))
}

/// The type that stands for the handlers of an op: one for each value operand that may be the carry, and one for none.
fn body(op: &Op) -> TokenStream {
    let (name, family, function, origin) = (variant(op), ident(&op.family), function(op), comment(&origin(op)));
    let types = operands(op).into_iter().map(|operand| operand.ty);
    let tuple = tuple(op);
    let variants = || (0..=op.values().count()).map(Literal::usize_unsuffixed);
    let numbered: Vec<(&str, Literal)> = op.values().map(|field| field.name.as_str()).zip(variants().skip(1)).collect();
    let arguments = op.fields.iter().map(|field| {
        let name = ident(&field.name);
        match numbered.iter().find(|(value, _)| *value == field.name) {
            Some((_, number)) => quote!(Operand::new(#name, #number, CARRIED)),
            None => quote!(#name),
        }
    });
    let call = quote!(super::super::#family::#function(frame, #(#arguments),*));
    let run = match ending(op) {
        Ending::Fallible => call,
        _ => quote!(#call; Ok(())),
    };
    let handlers = variants().map(|number| quote!(op::<Self, #number>));
    let test = op.is_test().then(|| {
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
