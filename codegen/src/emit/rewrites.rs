//! Emits `jit/rewrites.rs`: the function that finds the rewrite of `spec/jit` whose pattern a node has.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::ident;
use crate::load::Spec;
use crate::model::jit::{Form, Operand, Rewrite};

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let arms = spec.rewrites.iter().map(arms);
    let tokens = quote! {
        #[doc = " What a node of a primitive with these operands is equal to, if a rewrite says so. `of` is the type that this use works on."]
        pub(crate) fn rewrite(graph: &Graph, primitive: Primitive, of: Scalar, operands: &[NodeId]) -> Option<Simpler> {
            Some(match (primitive, operands) {
                #(#arms)*
                _ => return None,
            })
        }
    };
    vec![source("jit/rewrites.rs", "spec/jit/*.yaml", tokens)]
}

/// The arms of a rewrite: one for all types that have the same constants.
fn arms(rewrite: &Rewrite) -> TokenStream {
    let mut groups: Vec<Vec<&Form>> = Vec::new();
    for form in &rewrite.forms {
        let is_same = |group: &&mut Vec<&Form>| {
            group.iter().all(|other| (&other.operands, &other.replaced_by) == (&form.operands, &form.replaced_by))
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(form),
            None => groups.push(vec![form]),
        }
    }
    let (variant, origin) = (ident(rewrite.primitive.variant()), comment(&rewrite.origin.to_string()));
    let arms = groups.iter().map(|group| arm(&variant, &origin, group));
    quote!(#(#arms)*)
}

fn arm(variant: &Ident, origin: &TokenStream, forms: &[&Form]) -> TokenStream {
    let Some(form) = forms.first() else { return TokenStream::new() };
    let types = forms.iter().map(|form| ident(&format!("{:?}", form.of)));
    let mut conditions = vec![quote!(matches!(of, #(Scalar::#types)|*))];
    let first = |operand: &Operand| form.operands.iter().position(|other| other == operand).unwrap_or_default();
    let mut used = vec![false; form.operands.len()];
    for (index, operand) in form.operands.iter().enumerate() {
        let own = operand_name(index);
        match operand {
            Operand::Constant(bits) => {
                let bits = Literal::u64_unsuffixed(*bits);
                conditions.push(quote!(is_constant(graph, *#own, #bits)));
                used[index] = true;
            }
            Operand::Variable(_) if first(operand) != index => {
                let other = operand_name(first(operand));
                conditions.push(quote!(is_same(graph, *#other, *#own)));
                (used[index], used[first(operand)]) = (true, true);
            }
            Operand::Variable(_) => {}
        }
    }
    let simpler = match &form.replaced_by {
        Operand::Constant(bits) => {
            let bits = Literal::u64_unsuffixed(*bits);
            quote!(Simpler::Constant(of, #bits))
        }
        operand => {
            used[first(operand)] = true;
            let name = operand_name(first(operand));
            quote!(Simpler::Operand(*#name))
        }
    };
    let names = used.iter().enumerate().map(|(index, is_used)| {
        let name = operand_name(index);
        if *is_used { quote!(#name) } else { quote!(_) }
    });
    quote!((Primitive::#variant, [#(#names),*]) if #(#conditions)&&* => { #origin #simpler })
}

fn operand_name(index: usize) -> Ident {
    format_ident!("operand_{index}")
}
