//! Emits the examples of every op as data for the tests of the runtime: `vm/op_tests/<family>.rs` holds one test for
//! each op.
//!
//! Every example becomes a module: functions as bytes, tables, arguments, and the expected outcome of the call. The
//! runtime's test harness takes it through the whole path, from decoding to the results.

mod case;
mod encode;
mod vector;

use proc_macro2::{Literal as Token, TokenStream};
use quote::quote;

use self::case::Case;
use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::{decoded_families, family_modules, family_source, function, ident, origin};
use crate::model::example::{After, Example, Literal, Outcome, ProgramExample};
use crate::model::vm::{Isa, Op};

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let families = decoded_families(isa);
    let modules = family_modules("op_tests", &families);
    let mut files = vec![source("vm/op_tests.rs", "spec/isa/vm", modules)];
    for (family, ops) in &families {
        let tests: TokenStream = ops.iter().map(|op| test(isa, op)).collect();
        let tokens = quote! {
            use super::*;
            #tests
        };
        files.push(source(&format!("vm/op_tests/{family}.rs"), &family_source(family), tokens));
    }
    files
}

fn test(isa: &Isa, op: &Op) -> TokenStream {
    let (name, origin) = (function(op), comment(&origin(op)));
    let mut programs = Programs::default();
    let cases: Vec<TokenStream> = op
        .examples
        .iter()
        .map(|example| {
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
            case_tokens(isa, &case, &mut programs)
        })
        .collect();
    let programs = programs.constants();
    quote! {
        #origin
        #[test]
        fn #name() {
            #programs
            run(&[#(#cases),*]);
        }
    }
}

/// The distinct programs of a test: examples in vector form mostly differ in their arguments alone.
#[derive(Default)]
struct Programs(Vec<TokenStream>);

impl Programs {
    /// The name of the constant that holds `program`.
    fn name(&mut self, program: TokenStream) -> TokenStream {
        let text = program.to_string();
        let index = self.0.iter().position(|known| known.to_string() == text).unwrap_or_else(|| {
            self.0.push(program);
            self.0.len() - 1
        });
        let name = ident(&format!("F{index}"));
        quote!(#name)
    }

    fn constants(&self) -> TokenStream {
        let constants = self.0.iter().enumerate().map(|(index, program)| {
            let name = ident(&format!("F{index}"));
            quote!(const #name: Fixture = #program;)
        });
        constants.collect()
    }
}

/// `.method(arguments)`, or nothing where the value is the default.
fn unless(default: bool, method: &str, arguments: TokenStream) -> TokenStream {
    let method = ident(method);
    if default { TokenStream::new() } else { quote!(.#method(#arguments)) }
}

fn program_tokens(isa: &Isa, program: &ProgramExample) -> TokenStream {
    let functions = program.functions.iter().map(|function| {
        let encoded = encode::function(isa, function);
        let (convention, code) = (isa.conventions.text(&function.convention), Token::byte_string(&encoded.bytes));
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
    let mut tokens = quote!(Fixture::new(&[#(#functions),*]));
    tokens.extend(unless(types.is_empty(), "types", quote!(&[#(#types),*])));
    tokens.extend(unless(program.imports.is_empty(), "imports", quote!(&[#(#imports),*])));
    tokens.extend(unless(program.rodata.is_empty(), "rodata", quote!(&[#(#rodata),*])));
    let no_globals = program.global_bytes == 0 && program.global_refs == 0;
    tokens.extend(unless(no_globals, "globals", quote!(#global_bytes, #global_refs)));
    tokens
}

fn case_tokens(isa: &Isa, case: &Case, programs: &mut Programs) -> TokenStream {
    let program = &case.program;
    let (name, origin) = (&program.name, program.origin.to_string());
    let constant = programs.name(program_tokens(isa, program));
    let args = program.args.iter().map(literal);
    let outcome = match &program.outcome {
        Outcome::Traps(code) => {
            let code = ident(&crate::camel_case::camel_case(code));
            quote!(Traps(StatusCode::#code))
        }
        Outcome::Results(values) => {
            let values = values.iter().map(literal);
            quote!(Results(&[#(#values),*]))
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
    let globals = Token::byte_string(&case.globals);
    let globals_after = Token::byte_string(case.globals_after.as_deref().unwrap_or_default());
    let ulp = Token::u32_unsuffixed(case.ulp);
    let mut tokens = quote!(case(#origin, #constant, &[#(#args),*], #outcome));
    tokens.extend(unless(name.is_empty(), "named", quote!(#name)));
    tokens.extend(unless(case.globals.is_empty(), "globals", quote!(#globals)));
    tokens.extend(unless(case.after.is_empty(), "after", quote!(&[#(#after),*])));
    tokens.extend(unless(case.globals_after.is_none(), "globals_after", quote!(#globals_after)));
    tokens.extend(unless(!case.any_nan, "any_nan", quote!()));
    tokens.extend(unless(case.ulp == 0, "ulp", quote!(#ulp)));
    tokens
}

fn literal(literal: &Literal) -> TokenStream {
    match literal {
        Literal::I32(value) => {
            let value = Token::i32_unsuffixed(*value);
            quote!(I32(#value))
        }
        Literal::I64(value) => {
            let value = Token::i64_unsuffixed(*value);
            quote!(I64(#value))
        }
        Literal::F32(bits) => {
            let bits = hexadecimal(u64::from(*bits));
            quote!(F32(#bits))
        }
        Literal::F64(bits) => {
            let bits = hexadecimal(*bits);
            quote!(F64(#bits))
        }
        Literal::Null => quote!(Null),
        Literal::None => quote!(Absent),
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
            quote!(Same(#index))
        }
        Literal::Same(_) | Literal::Regs(_) | Literal::TypeName(_) | Literal::String(_) => quote!(Null),
    }
}

fn hexadecimal(bits: u64) -> Token {
    // `Literal` has no constructor for hexadecimal, but parses one.
    format!("{bits:#x}").parse().unwrap_or_else(|_| Token::u64_unsuffixed(bits))
}
