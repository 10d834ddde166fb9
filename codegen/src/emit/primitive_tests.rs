//! Emits the examples of primitives as tests of the interpreters' functions: `vm/tests/primitives.rs` and
//! those of `gfx` and `ptx` hold one test for each primitive that has some. One that several instruction sets use has
//! the same examples in all.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};

use crate::camel_case::camel_case;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::ident;
use crate::model::gfx::Gfx;
use crate::model::ptx::Ptx;
use crate::model::vm::Isa;
use crate::sem::primitive_example::{PrimitiveExample, Value};
use crate::sem::{Effect, Home, Primitive, Vocabulary};

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    file("vm/tests/primitives.rs", &isa.primitives, check)
}

/// The same for the functions on lanes, whose integers have no sign.
pub fn emit_gfx(gfx: &Gfx) -> Vec<GeneratedFile> {
    file("gfx/tests/primitives.rs", &gfx.primitives, check_of_lanes)
}

/// The same for PTX.
pub fn emit_ptx(ptx: &Ptx) -> Vec<GeneratedFile> {
    file("ptx/tests/primitives.rs", &ptx.primitives, check_of_lanes)
}

/// Makes the test of an example.
type Check = fn(&Primitive, &PrimitiveExample) -> TokenStream;

fn file(path: &str, primitives: &Vocabulary, check: Check) -> Vec<GeneratedFile> {
    let with_examples = primitives.iter().filter(|primitive| !primitive.examples().is_empty());
    let tests = with_examples.map(|primitive| test(primitive, check));
    vec![source(path, "spec/primitives/*.yaml", quote!(#(#tests)*))]
}

fn test(primitive: &Primitive, check: Check) -> TokenStream {
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

fn check_of_lanes(primitive: &Primitive, example: &PrimitiveExample) -> TokenStream {
    let (name, text) = (ident(primitive.name()), &example.text);
    let bits = |value: &Value| match value {
        Value::I32(number) => Literal::u32_suffixed(*number as u32).into_token_stream(),
        Value::I64(number) => Literal::u64_suffixed(*number as u64).into_token_stream(),
        other => self::value(other),
    };
    let operands = example.operands.iter().map(bits);
    // Nothing of lanes traps.
    let result = example.outcome.iter().map(bits);
    quote!(is(#text, prim::#name(#(#operands),*), #(#result)*);)
}

fn value(value: &Value) -> TokenStream {
    value.to_string().parse().unwrap_or_default()
}
