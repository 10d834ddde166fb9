//! Emits the examples of primitives as tests of the interpreter's functions: `vm/tests/primitives.rs` holds one test
//! for each primitive that has some.

use proc_macro2::TokenStream;
use quote::quote;

use crate::camel_case::camel_case;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::ident;
use crate::model::vm::Isa;
use crate::sem::primitive_example::{PrimitiveExample, Value};
use crate::sem::{Effect, Home, Primitive};

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let tests = isa.primitives.iter().filter(|primitive| !primitive.examples().is_empty()).map(test);
    let tokens = quote! {
        #(#tests)*
    };
    vec![source("vm/tests/primitives.rs", "spec/primitives/*.yaml", tokens)]
}

fn test(primitive: &Primitive) -> TokenStream {
    let (name, origin) = (ident(primitive.name()), comment(&primitive.origin().to_string()));
    let checks = primitive.examples().iter().map(|example| check(primitive, example));
    quote! {
        #origin
        #[test]
        fn #name() {
            #(#checks)*
        }
    }
}

/// The call of the function, and what is said of its value.
fn check(primitive: &Primitive, example: &PrimitiveExample) -> TokenStream {
    let (name, text) = (ident(primitive.name()), &example.text);
    let operands: Vec<TokenStream> = example.operands.iter().map(value).collect();
    let call = match primitive.home() {
        Home::Int => quote!(Int::#name(#(#operands),*)),
        // The type is that of the result, for those that take an integer.
        Home::Float => match &example.outcome {
            Ok(Value::F64(_)) => quote!(<f64 as Float>::#name(#(#operands),*)),
            Ok(Value::F32(_)) => quote!(<f32 as Float>::#name(#(#operands),*)),
            _ => quote!(Float::#name(#(#operands),*)),
        },
        Home::Free | Home::Globals | Home::GlobalsMut | Home::Table => quote!(prim::#name(#(#operands),*)),
    };
    match (&example.outcome, primitive.effect()) {
        (Ok(result), Effect::Trap) => {
            let result = value(result);
            quote!(is(#text, #call.unwrap(), #result);)
        }
        (Ok(result), _) => {
            let result = value(result);
            quote!(is(#text, #call, #result);)
        }
        (Err(status), _) => {
            let status = ident(&camel_case(status));
            quote!(traps(#text, #call, StatusCode::#status);)
        }
    }
}

fn value(value: &Value) -> TokenStream {
    value.to_string().parse().unwrap_or_default()
}
