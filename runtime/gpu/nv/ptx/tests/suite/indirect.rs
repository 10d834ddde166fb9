//! Jumps and calls whose targets are in registers.

use crate::support::{Buffers, compute, kernel, load, run, run_with, text};
use vireo_ptx::{LoadErrorKind, Module, Options, TrapKind};

const STORE: &str = "mul.wide.u32 %rd10, %r0, 4; add.s64 %rd11, %rd1, %rd10; st.global.u32 [%rd11], %r1;";

#[test]
fn lanes_jump_to_entries_of_a_list() {
    let body = format!(
        "rem.u32 %r2, %r0, 3;\nts: .branchtargets A, B, A;\nbrx.idx %r2, ts;\nA: mov.u32 %r1, 10; bra E;\n\
         B: mov.u32 %r1, 20;\nE: add.u32 %r1, %r1, %r0; {STORE}"
    );
    let found = compute(64, &[0], 64, &body).unwrap();
    assert!((0..64).all(|at| found[at as usize] == at + if at % 3 == 1 { 20 } else { 10 }), "{found:?}");
    // Under a condition, with a loop that the list closes, and with a list of a scope around it.
    let body = format!(
        "mov.u32 %r1, 0; mov.u32 %r3, 0;\nts: .branchtargets L, E;\nL: add.u32 %r1, %r1, 5; add.u32 %r3, %r3, 1;\n\
         setp.ge.u32 %p1, %r3, %r0; selp.u32 %r4, 1, 0, %p1; setp.lt.u32 %p2, %r0, 60;\n\
         {{ @%p2 brx.idx %r4, ts; }}\nadd.u32 %r1, %r1, 1000;\nE: {STORE}"
    );
    let found = compute(64, &[0], 64, &body).unwrap();
    assert!((0..64).all(|at| found[at as usize] == if at < 60 { 5 * at.max(1) } else { 1005 }), "{found:?}");
    let trap = compute(8, &[0], 8, "ts: .branchtargets A, B;\nbrx.idx %r0, ts;\nA: B:").unwrap_err();
    assert!(trap.to_string().contains("a jump to entry 2 of a list of 2"), "{trap}");
    assert_eq!(trap.thread, [2, 0, 0]);
    // Jumps back count.
    for endless in [
        "mov.u32 %r2, 0;\nts: .branchtargets A;\nA: brx.idx.uni %r2, ts;",
        // Lanes take turns, since the first one goes to the later place.
        "and.b32 %r2, %r0, 1;\nts: .branchtargets B, A;\nL: brx.idx %r2, ts;\nA: add.u32 %r1, %r1, 1;\nB: bra L;",
        "L: bar.sync 0; bra L;",
    ] {
        let endless = load(&kernel(1, endless));
        let kernel = endless.kernel("k").unwrap();
        let trap = run_with(kernel, &Buffers::new(), [1, 1, 1], [40, 1, 1], &[0], &[], 10_000).unwrap_err();
        assert_eq!(trap.kind, TrapKind::Stopped);
    }
}

#[test]
fn many_jumps_share_a_list() {
    let labels: Vec<String> = (0..2000).map(|index| format!("L{index}")).collect();
    let jumps: String = labels.iter().map(|label| format!("{label}: brx.idx %r2, ts;\n")).collect();
    let body = format!("mov.u32 %r2, 1999;\nts: .branchtargets {};\n{jumps}", labels.join(", "));
    let module = load(&kernel(1, &body));
    assert!(module.kernel("k").unwrap().instructions() < 2100);
}

const FUNCTIONS: &str = ".func (.param .b32 r) add(.param .b32 a, .param .b32 b) { .reg .b32 %r<4>;\n\
    ld.param.b32 %r1, [a]; ld.param.b32 %r2, [b]; add.u32 %r3, %r1, %r2; st.param.b32 [r], %r3; ret; }\n\
    .func (.param .b32 r) product(.param .b32 a, .param .b32 b) { .reg .b32 %r<4>;\n\
    ld.param.b32 %r1, [a]; ld.param.b32 %r2, [b]; mul.lo.u32 %r3, %r1, %r2; st.param.b32 [r], %r3; ret; }\n\
    .func other(.param .b64 a) { ret; }\n";

/// A kernel that calls what is in `%rd5`, with the number of its thread and seven.
fn caller(globals: &str, choose: &str, table: &str) -> String {
    let body = format!(
        ".reg .b64 %f1; {choose}\n{table}\n{{ .param .b32 x; .param .b32 y; .param .b32 z;\n\
         st.param.b32 [x], %r0; st.param.b32 [y], 7; call (z), %rd5, (x, y), t; ld.param.b32 %r1, [z]; }}\n{STORE}"
    );
    let text = kernel(2, &body.replace(".reg .b64 %f1; ", ""));
    let (head, kernel) = text.split_at(text.find(".visible").unwrap());
    format!("{head}{FUNCTIONS}{globals}{kernel}")
}

const PROTOTYPE: &str = "t: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);";

fn called(text: &str, globals: usize) -> Result<Vec<u32>, String> {
    let module = Module::load(text.as_bytes(), &Options::default()).map_err(|error| error.to_string())?;
    let mut buffers = Buffers::new();
    let (from, to) = (buffers.add_words(&[0; 2]), buffers.add_words(&[0; 32]));
    let globals: Vec<u64> = module.globals().iter().take(globals).map(|global| buffers.add(&global.initial)).collect();
    let kernel = module.kernel("k").unwrap();
    run_with(kernel, &buffers, [1, 1, 1], [32, 1, 1], &[from, to], &globals, 1 << 20)
        .map_err(|trap| trap.to_string())?;
    Ok(buffers.words(to))
}

#[test]
fn lanes_call_functions_in_registers() {
    let choose = "and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 0; mov.u64 %rd5, add; mov.u64 %rd6, product;\n\
                  selp.b64 %rd5, %rd5, %rd6, %p1;";
    let expected: Vec<u32> = (0..32).map(|at| if at % 2 == 0 { at + 7 } else { at * 7 }).collect();
    assert_eq!(called(&caller("", choose, PROTOTYPE), 0), Ok(expected.clone()));
    assert_eq!(called(&caller("", choose, "t: .calltargets add, product;"), 0), Ok(expected.clone()));
    // The addresses are in memory of the module.
    let table = ".global .align 8 .u64 table[2] = {add, product};\n";
    let choose = "and.b32 %r2, %r0, 1; mov.u64 %rd6, table; mul.wide.u32 %rd7, %r2, 8; add.s64 %rd6, %rd6, %rd7;\n\
                  ld.global.u64 %rd5, [%rd6];";
    assert_eq!(called(&caller(table, choose, PROTOTYPE), 1), Ok(expected));
    // An address of a function with other parameters, and one of none.
    for wrong in ["other", "5"] {
        let error =
            called(&caller("", &format!("mov.u64 %rd5, {wrong}; mov.u64 %rd6, add;"), PROTOTYPE), 0).unwrap_err();
        assert!(error.contains("no function of this prototype"), "{error}");
    }
    let error = called(&caller("", "mov.u64 %rd5, nowhere;", PROTOTYPE), 0).unwrap_err();
    assert!(error.contains("there is no `nowhere`"), "{error}");
    let error = called(&caller("", "mov.u64 %rd5, add;", "u: .calltargets add;"), 0).unwrap_err();
    assert!(error.contains("no list of functions or prototype `t`"), "{error}");
    let error = called(&caller("", "mov.u64 %rd5, k;", PROTOTYPE), 0).unwrap_err();
    assert!(error.contains("the address of a kernel"), "{error}");
}

#[test]
fn functions_that_may_call_themselves_are_refused() {
    let source = text(
        ".func f(.param .b64 a) { .reg .b64 %rd<3>; ld.param.u64 %rd1, [a]; { .param .b64 x; st.param.b64 [x], %rd1;\n\
         t: .callprototype _ (.param .b64 _); call %rd1, (x), t; } ret; }\n\
         .entry k() { .reg .b64 %rd<3>; mov.u64 %rd1, f; { .param .b64 x; st.param.b64 [x], %rd1; call f, (x); } ret; }",
    );
    let error = Module::load(source.as_bytes(), &Options::default()).unwrap_err();
    assert!(error.kind == LoadErrorKind::Unsupported && error.message.contains("recursion"), "{error}");
}

#[test]
fn parameters_have_generic_addresses() {
    let source = text(
        ".entry k(.param .u64 p, .param .align 8 .b8 q[64]) { .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\n\
         ld.param.u64 %rd1, [p]; mov.b64 %rd2, q; cvta.param.u64 %rd3, %rd2; mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4;\n\
         add.s64 %rd5, %rd3, %rd4; ld.u32 %r2, [%rd5]; isspacep.param %p1, %rd5; selp.u32 %r3, 100, 0, %p1; add.u32 %r2, %r2, %r3;\n\
         cvta.to.param.u64 %rd6, %rd5; ld.param.u32 %r4, [%rd6]; add.u32 %r2, %r2, %r4; add.s64 %rd7, %rd1, %rd4;\n\
         st.u32 [%rd7], %r2; ret; }",
    );
    let module = load(&source);
    let mut buffers = Buffers::new();
    let to = buffers.add_words(&[0; 16]);
    let values: Vec<u64> = (0..8).map(|at| (2 * at) | ((2 * at + 1) << 32)).collect();
    let params: Vec<u64> = [to].into_iter().chain(values).collect();
    run(module.kernel("k").unwrap(), &buffers, [1, 1, 1], [16, 1, 1], &params).unwrap();
    assert!(buffers.words(to).iter().zip(0..).all(|(found, at)| *found == 2 * at + 100));
    // A store there is refused.
    let store = source.replace("ld.u32 %r2, [%rd5]", "st.u32 [%rd5], %r1");
    let trap = run(load(&store).kernel("k").unwrap(), &buffers, [1, 1, 1], [1, 1, 1], &params).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::Memory(_)), "{trap}");
}
