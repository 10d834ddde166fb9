//! Emits the examples of every op as data for the tests of the runtime: `vm/op_tests/<family>.rs` holds one test for each op.
//!
//! Every example becomes a module: functions as bytes, tables, arguments, and what must come of the call. The runtime's test harness
//! takes it through the whole path, from decoding to the results.

mod encode;
mod vector;

use proc_macro2::{Literal as Token, TokenStream};
use quote::quote;

use crate::Spec;
use crate::emit::operand::{decoded_families, family_modules, family_source, function, ident, origin};
use crate::emit::{GeneratedFile, comment, source};
use crate::model::example::{After, Example, Literal, Outcome, ProgramExample};
use crate::model::vm::{Isa, Op};

/// The files of this artifact.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let families = decoded_families(&spec.vm);
    let modules = family_modules("op_tests", &families);
    let mut files = vec![source("vm/op_tests.rs", "spec/vm", modules)];
    for (family, ops) in &families {
        let tests: TokenStream = ops.iter().map(|op| test(&spec.vm, op)).collect();
        let tokens = quote! {
            use crate::interp::op_tests::*;
            #tests
        };
        files.push(source(&format!("vm/op_tests/{family}.rs"), &family_source(family), tokens));
    }
    files
}

/// A module made of an example, the arguments of its first function and what must come of the call.
struct Case {
    program: ProgramExample,
    /// Bytes of the value globals before; zero where this is shorter than they are.
    globals: Vec<u8>,
    /// What arguments (by index) hold afterwards.
    after: Vec<(usize, After)>,
    /// What the value globals hold afterwards.
    globals_after: Option<Vec<u8>>,
    any_nan: bool,
    ulp: u32,
}

fn test(isa: &Isa, op: &Op) -> TokenStream {
    let (name, origin) = (function(op), comment(&origin(op)));
    let cases = op.examples.iter().map(|example| {
        let case = match example {
            Example::Vector(example) => vector::case(isa, op, example),
            Example::Program(program) => Case {
                program: program.clone(),
                globals: Vec::new(),
                after: Vec::new(),
                globals_after: None,
                any_nan: false,
                ulp: 0,
            },
        };
        case_tokens(isa, &case)
    });
    quote! {
        #origin
        #[test]
        fn #name() {
            run(&[#(#cases),*]);
        }
    }
}

fn case_tokens(isa: &Isa, case: &Case) -> TokenStream {
    let program = &case.program;
    let (name, origin) = (&program.name, program.origin.to_string());
    let functions = program.functions.iter().map(|function| {
        let encoded = encode::function(isa, function);
        let (convention, code) = (&function.convention, Token::byte_string(&encoded.bytes));
        let (slots, refs, blocks, features) = (encoded.slots, encoded.refs, function.blocks.len(), encoded.features);
        let (slots, refs, features) =
            (Token::u32_unsuffixed(slots), Token::u32_unsuffixed(refs), Token::u32_unsuffixed(features));
        let blocks = Token::usize_unsuffixed(blocks);
        quote!(Function {
            convention: #convention, code: #code, slots: #slots, refs: #refs, blocks: #blocks, features: #features,
        })
    });
    let types = &program.types;
    let imports = program.imports.iter().map(|(name, convention)| quote!((#name, #convention)));
    let rodata = program.rodata.iter().map(|bytes| Token::byte_string(bytes));
    let (global_bytes, global_refs) =
        (Token::u32_unsuffixed(program.global_bytes), Token::u32_unsuffixed(program.global_refs));
    let globals = Token::byte_string(&case.globals);
    let args = program.args.iter().map(literal);
    let outcome = match &program.outcome {
        Outcome::Traps(code) => {
            let code = ident(&crate::model::vm::camel_case(code));
            quote!(Outcome::Traps(StatusCode::#code))
        }
        Outcome::Results(values) => {
            let values = values.iter().map(literal);
            quote!(Outcome::Results(&[#(#values),*]))
        }
    };
    let after = case.after.iter().map(|(index, after)| {
        let index = Token::usize_unsuffixed(*index);
        match after {
            After::Bytes(bytes) => {
                let bytes = Token::byte_string(bytes);
                quote!((#index, After::Bytes(#bytes)))
            }
            After::List(values) => {
                let values = values.iter().map(literal);
                quote!((#index, After::List(&[#(#values),*])))
            }
        }
    });
    let globals_after = match &case.globals_after {
        Some(bytes) => {
            let bytes = Token::byte_string(bytes);
            quote!(Some(#bytes))
        }
        None => quote!(None),
    };
    let (any_nan, ulp) = (case.any_nan, Token::u32_unsuffixed(case.ulp));
    quote!(Case {
        name: #name,
        origin: #origin,
        functions: &[#(#functions),*],
        types: &[#(#types),*],
        imports: &[#(#imports),*],
        rodata: &[#(#rodata),*],
        global_bytes: #global_bytes,
        global_refs: #global_refs,
        globals: #globals,
        args: &[#(#args),*],
        outcome: #outcome,
        after: &[#(#after),*],
        globals_after: #globals_after,
        any_nan: #any_nan,
        ulp: #ulp,
    })
}

fn literal(literal: &Literal) -> TokenStream {
    match literal {
        Literal::I32(value) => {
            let value = Token::i32_unsuffixed(*value);
            quote!(Literal::I32(#value))
        }
        Literal::I64(value) => {
            let value = Token::i64_unsuffixed(*value);
            quote!(Literal::I64(#value))
        }
        Literal::F32(bits) => {
            let bits = hexadecimal(u64::from(*bits));
            quote!(Literal::F32(#bits))
        }
        Literal::F64(bits) => {
            let bits = hexadecimal(*bits);
            quote!(Literal::F64(#bits))
        }
        Literal::Null => quote!(Literal::Null),
        Literal::None => quote!(Literal::None),
        Literal::Buffer { bytes, mutable } => {
            let bytes = Token::byte_string(bytes);
            quote!(Literal::Buffer { bytes: #bytes, mutable: #mutable })
        }
        Literal::List { element, values } => {
            let values = values.iter().map(self::literal);
            quote!(Literal::List { element: #element, values: &[#(#values),*] })
        }
        // Aliases were resolved to the indices of arguments.
        Literal::Ordinal(index) => {
            let index = Token::u32_unsuffixed(*index);
            quote!(Literal::Same(#index))
        }
        Literal::Same(_) | Literal::Regs(_) | Literal::TypeName(_) | Literal::String(_) => quote!(Literal::Null),
    }
}

fn hexadecimal(bits: u64) -> Token {
    // `Literal` has no constructor for hexadecimal, but parses one.
    format!("{bits:#x}").parse().unwrap_or_else(|_| Token::u64_unsuffixed(bits))
}
