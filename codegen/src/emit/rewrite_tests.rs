//! Emits `jit/rewrite_tests.rs`: a test of each rewrite of `spec/jit`, which computes the pattern with the functions of
//! the interpreter, and compares it with the replacement.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::ident;
use crate::load::Spec;
use crate::model::jit::{Form, Rewrite, TRUTH, VALUES};
use crate::sem::{Expr, ExprKind, Home, Ty};

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let tests = spec.rewrites.iter().map(test);
    vec![source("jit/rewrite_tests.rs", "spec/jit/*.yaml", quote!(#(#tests)*))]
}

fn test(rewrite: &Rewrite) -> TokenStream {
    let (name, origin) = (ident(&rewrite.name), comment(&rewrite.origin.to_string()));
    let checks = rewrite.forms.iter().map(check);
    quote! {
        #origin
        #[test]
        fn #name() {
            #(#checks)*
        }
    }
}

fn check(form: &Form) -> TokenStream {
    let of = ident(form.of.name());
    let (pattern, replacement) = (function(&form.pattern), function(&form.replacement));
    quote!(holds::<#of>(#pattern, #replacement);)
}

/// A function of all variables.
fn function(expr: &Expr) -> TokenStream {
    let mut used = Vec::new();
    expr.for_each_operand(&mut |name| used.push(name.to_string()));
    let name = |name: &str| {
        let is_used = used.iter().any(|other| other == name);
        let name = ident(name);
        if is_used { quote!(#name) } else { quote!(_) }
    };
    let (values, truth, body) = (VALUES.map(name), name(TRUTH), expression(expr));
    quote!(|[#(#values),*], #truth| #body)
}

fn expression(expr: &Expr) -> TokenStream {
    match &expr.kind {
        ExprKind::Operand(name) => {
            let name = ident(name);
            quote!(#name)
        }
        ExprKind::Int(value) => {
            let literal = Literal::i64_unsuffixed(*value);
            quote!(#literal)
        }
        ExprKind::Float(bits) if expr.ty == Ty::F32 => {
            let bits = Literal::u64_unsuffixed(bits & u64::from(u32::MAX));
            quote!(f32::from_bits(#bits))
        }
        ExprKind::Float(bits) => {
            let bits = Literal::u64_unsuffixed(*bits);
            quote!(f64::from_bits(#bits))
        }
        ExprKind::BoolToI32(inner) => {
            let inner = expression(inner);
            quote!(i32::from(#inner))
        }
        ExprKind::Call { primitive, of, args } => {
            let (name, args) = (ident(primitive.name()), args.iter().map(expression));
            let of = of.map(|of| ident(of.name()));
            match primitive.home() {
                Home::Int => quote!(<#of as Int>::#name(#(#args),*)),
                Home::Float => quote!(<#of as Float>::#name(#(#args),*)),
                // The model has refused those that read globals and tables.
                Home::Free | Home::Globals | Home::GlobalsMut | Home::Table => quote!(prim::#name(#(#args),*)),
            }
        }
    }
}
