//! Emits `jit/rewrites.rs`: the function that finds the rewrite of `spec/jit` whose pattern a node has.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::ident;
use crate::load::Spec;
use crate::model::jit::{Form, Operand, Rewrite};

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    // Those of one primitive share an arm of the match.
    let mut by_primitive: Vec<(&str, Vec<&Rewrite>)> = Vec::new();
    for rewrite in &spec.rewrites {
        let variant = rewrite.primitive.variant();
        match by_primitive.iter_mut().find(|(other, _)| *other == variant) {
            Some((_, rewrites)) => rewrites.push(rewrite),
            None => by_primitive.push((variant, vec![rewrite])),
        }
    }
    let arms = by_primitive.iter().map(|(variant, rewrites)| arm(variant, rewrites));
    let tokens = quote! {
        #[doc = " What a node of a primitive with these operands is equal to, if a rewrite says so. `of` is the type that this use works on."]
        pub(crate) fn rewrite(graph: &Graph, primitive: Primitive, of: Scalar, operands: &[NodeId]) -> Option<Simpler> {
            match (primitive, operands) {
                #(#arms)*
                _ => {}
            }
            None
        }
    };
    vec![source("jit/rewrites.rs", "spec/jit/*.yaml", tokens)]
}

/// The arm for all rewrites of one primitive.
fn arm(variant: &str, rewrites: &[&Rewrite]) -> TokenStream {
    let count = rewrites.iter().flat_map(|rewrite| &rewrite.forms).map(|form| form.operands.len()).max().unwrap_or(0);
    let checks: TokenStream = rewrites.iter().map(|rewrite| checks(rewrite)).collect();
    let is_used = |index: usize| {
        let name = operand_name(index).to_string();
        mentions(&checks, &name)
    };
    let names = (0..count).map(|index| {
        let name = operand_name(index);
        if is_used(index) { quote!(#name) } else { quote!(_) }
    });
    let variant = ident(variant);
    quote!((Primitive::#variant, &[#(#names),*]) => { #checks })
}

/// Whether a name is somewhere in tokens.
fn mentions(tokens: &TokenStream, name: &str) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        proc_macro2::TokenTree::Group(group) => mentions(&group.stream(), name),
        proc_macro2::TokenTree::Ident(ident) => ident == name,
        _ => false,
    })
}

fn operand_name(index: usize) -> proc_macro2::Ident {
    format_ident!("operand_{index}")
}

/// The checks of a rewrite: one for all types that have the same constants.
fn checks(rewrite: &Rewrite) -> TokenStream {
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
    let origin = comment(&rewrite.origin.to_string());
    let checks = groups.iter().map(|group| check(group));
    quote!(#origin #(#checks)*)
}

fn check(forms: &[&Form]) -> TokenStream {
    let Some(form) = forms.first() else { return TokenStream::new() };
    let types = forms.iter().map(|form| ident(&format!("{:?}", form.of)));
    let mut conditions = vec![quote!(matches!(of, #(Scalar::#types)|*))];
    let position =
        |operand: &Operand| operand_name(form.operands.iter().position(|other| other == operand).unwrap_or_default());
    for (index, operand) in form.operands.iter().enumerate() {
        let own = operand_name(index);
        match operand {
            Operand::Constant(bits) => {
                let bits = Literal::u64_unsuffixed(*bits);
                conditions.push(quote!(is_constant(graph, #own, #bits)));
            }
            Operand::Variable(_) if position(operand) != own => {
                let first = position(operand);
                conditions.push(quote!(is_same(graph, #first, #own)));
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
            let name = position(operand);
            quote!(Simpler::Operand(#name))
        }
    };
    quote!(if #(#conditions)&&* { return Some(#simpler); })
}
