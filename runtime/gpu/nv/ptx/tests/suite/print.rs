//! The printer: what it writes is parsed to the same tree, and printed the same again.

use vireo_ptx::syntax::{Body, Function, Instruction, Name, Operand, Source, Variable, parse, print};
use vireo_ptx::{Module, Options};

/// The parts of a variable that the printer keeps.
fn variable(variable: &Variable<'_>) -> String {
    let Variable { space, linkage, align, element, size, initial, register, .. } = variable;
    format!("{space:?} {linkage:?} {align} {element} {size:?} {initial:?} {register:?}")
}

/// An operand; labels and lists by their numbers.
fn operand(body: &Body<'_>, instruction: &Instruction<'_>, operand: &Operand<'_>) -> String {
    if let Operand::Name(Name::Global(name), 0) = operand {
        match instruction.opcode.split('.').next() {
            Some("bra") => return format!("label {:?}", body.label(instruction.scope, name)),
            Some("brx" | "call") if body.table(instruction.scope, name).is_some() => {
                return format!("list {:?}", body.table(instruction.scope, name).map(|(number, _)| number));
            }
            _ => {}
        }
    }
    format!("{operand:?}")
}

fn function(function: &Function<'_>) -> String {
    let formals = [&function.results, &function.parameters];
    let formals = formals.map(|formals| formals.iter().map(variable).collect::<Vec<_>>());
    let mut text = format!(
        "{} {:?} {formals:?} {:?} {:?}",
        function.name, function.linkage, function.max_threads, function.required_threads
    );
    let Some(body) = &function.body else { return text };
    text += &format!("{:?} {:?}", body.registers, body.variables.iter().map(variable).collect::<Vec<_>>());
    for instruction in &body.instructions {
        let operands: Vec<_> = instruction.operands.iter().map(|one| operand(body, instruction, one)).collect();
        text += &format!("\n{:?} {} {operands:?}", instruction.guard, instruction.opcode);
    }
    text
}

/// The parts of a tree that the printer keeps. A declaration may have been added.
fn normal(source: &Source<'_>) -> String {
    let variables: Vec<String> = source.variables.iter().map(variable).collect();
    let functions = source.functions.iter().filter(|function| function.body.is_some()).map(function);
    format!("{} {} {variables:#?}\n{}", source.version, source.target, functions.collect::<Vec<_>>().join("\n"))
}

/// Parses what the printer writes, and compares.
pub fn round_trip(text: &str) {
    let tree = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let printed = print(&tree);
    let again = parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(normal(&tree), normal(&again), "{printed}");
    assert_eq!(print(&again), printed);
    let load = |text: &str| Module::load(text.as_bytes(), &Options::default());
    match (load(text), load(&printed)) {
        (Ok(first), Ok(second)) => {
            let summary = |module: &Module| {
                let kernels = module.kernels().iter().map(|kernel| {
                    let sizes = [kernel.registers(), kernel.local_bytes(), kernel.shared_bytes(), kernel.max_threads()];
                    (kernel.name().to_string(), kernel.instructions(), sizes, kernel.parameters().to_vec())
                });
                (kernels.collect::<Vec<_>>(), module.globals().to_vec())
            };
            assert_eq!(summary(&first), summary(&second), "{printed}");
        }
        (Err(first), Err(second)) => assert_eq!((first.kind, first.message), (second.kind, second.message)),
        (first, second) => panic!("{:?} and {:?}\n{printed}", first.map(|_| ()), second.map(|_| ())),
    }
}

#[test]
fn texts_of_compilers_are_printed_and_parsed() {
    for text in [
        include_str!("../seed.ptx"),
        include_str!("../seed_indirect.ptx"),
        include_str!("../kernels/ew_divf_f32.ptx"),
        include_str!("../kernels/ew_divsi_i64.ptx"),
        include_str!("../kernels/ew_exp_f32.ptx"),
        include_str!("../kernels/ew_exp2_f16.ptx"),
        include_str!("../kernels/ew_pow_bf16.ptx"),
        include_str!("../kernels/ew_tan_f32.ptx"),
        include_str!("../kernels/mm_bf16.ptx"),
        include_str!("../kernels/mm_f16.ptx"),
        include_str!("../kernels/mm_f16_f16.ptx"),
        include_str!("../kernels/mm_f32.ptx"),
        include_str!("../kernels/mm_f32_odd.ptx"),
        include_str!("../kernels/mm_i8.ptx"),
        include_str!("../kernels/red_addf_f32.ptx"),
        include_str!("../kernels/transpose.ptx"),
    ] {
        round_trip(text);
    }
}

#[test]
fn scopes_lists_and_names_like_those_of_the_printer_are_kept_apart() {
    round_trip(
        ".version 8.0\n.target sm_80\n.global .align 8 .u64 $v0[3] = {f, $v0+8, -1}; .const .b8 %r1 = 5; .extern .shared .b8 $L0[];\n\
         .weak .global .b16 h[0]; .global .align 4 .f32 w = 0f3F800000; .extern .func g(.reg .b32 %x);\n\
         .func (.reg .b64 %y) f(.param .align 8 .b8 a[16], .reg .b16 %h) { .reg .b32 %r<3>, %r7; .reg .pred p;\n\
         ld.param.u32 %r1, [a+4]; { .reg .b32 %r1; .local .v2 .b32 %r5; mov.u32 %r1, -5; $L0: @!p bra $L0; }\n\
         $L0: mov.u64 %y, $v0-16; @p bra $L0; call g, (7); ret; }\n\
         .visible .entry k(.param .u64 p, .param .b8 q) .reqntid 32, 2 { .reg .b64 a, b; .reg .b32 c; .reg .b16 d;\n\
         t: .branchtargets A, B; u: .callprototype (.param .b64 _) _ (.param .align 8 .b8 _[16], .param .b16 _);\n\
         .reg .pred c1; { t: .branchtargets B; B: @c1 mov.u32 c, 1; } A: brx.idx c, t; ld.v2.u32 {c, _}, [a+-8];\n\
         { .param .b64 r; .param .align 8 .b8 x[16]; call (r), b, (x, d), u; } B: setp.eq.u32 c1|_, c, %tid.x; }",
    );
}
