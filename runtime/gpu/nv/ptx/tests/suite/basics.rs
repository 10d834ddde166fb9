//! Programs of a few lines.

use crate::support::{compute, load, text};
use vireo_ptx::{LoadErrorKind, Module, Options, TrapKind};

const STORE: &str = "mul.wide.u32 %rd10, %r0, 4; add.s64 %rd11, %rd1, %rd10; st.global.u32 [%rd11], %r1;";

#[test]
fn a_value_of_each_thread_is_loaded_and_stored() {
    let input: Vec<u32> = (0..70).map(|index| index * 3).collect();
    let body = format!(
        "mul.wide.u32 %rd5, %r0, 4; add.s64 %rd6, %rd0, %rd5; ld.global.u32 %r2, [%rd6]; add.s32 %r1, %r2, 5; {STORE}"
    );
    let output = compute(70, &input, 70, &body).unwrap();
    assert!(output.iter().zip(&input).all(|(output, input)| *output == input + 5));
}

#[test]
fn lanes_branch_loop_and_meet() {
    // Each thread adds up the numbers below its own, and odd ones negate.
    let body = format!(
        "mov.u32 %r1, 0; mov.u32 %r2, 0;\n$L1:\nsetp.ge.u32 %p1, %r2, %r0;\n@%p1 bra $L2;\nadd.s32 %r1, %r1, %r2;\n\
         add.s32 %r2, %r2, 1;\nbra.uni $L1;\n$L2:\nand.b32 %r3, %r0, 1;\nsetp.eq.s32 %p2, %r3, 1;\n@%p2 neg.s32 %r1, %r1;\n\
         {STORE}"
    );
    let output = compute(64, &[0], 64, &body).unwrap();
    for (thread, value) in output.iter().enumerate() {
        let sum = (thread * thread.saturating_sub(1) / 2) as u32;
        assert_eq!(*value, if thread % 2 == 1 { sum.wrapping_neg() } else { sum }, "thread {thread}");
    }
}

#[test]
fn shared_memory_and_barriers_order_warps() {
    let body = format!(
        ".shared .align 4 .b8 s[512]; mov.u32 %r5, s; shl.b32 %r6, %r0, 2; add.s32 %r7, %r5, %r6;\n\
         st.shared.u32 [%r7], %r0; bar.sync 0; mov.u32 %r8, 127; sub.s32 %r8, %r8, %r0; shl.b32 %r8, %r8, 2;\n\
         add.s32 %r8, %r5, %r8; ld.shared.u32 %r1, [%r8]; {STORE}"
    );
    let output = compute(128, &[0], 128, &body).unwrap();
    assert!(output.iter().enumerate().all(|(thread, value)| *value == 127 - thread as u32));
}

#[test]
fn calls_have_frames_and_results() {
    let source = text(
        ".func (.param .b32 r) square(.param .b32 a) { .reg .b32 %r<4>; ld.param.b32 %r1, [a]; mul.lo.s32 %r2, %r1, %r1;\n\
         st.param.b32 [r], %r2; ret; }\n\
         .func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %r<4>; ld.param.b32 %r1, [a]; { .param .b32 x; .param .b32 y;\n\
         st.param.b32 [x], %r1; call.uni (y), square, (x); ld.param.b32 %r2, [y]; } add.s32 %r2, %r2, %r2;\n\
         st.param.b32 [r], %r2; ret; }\n\
         .visible .entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\n\
         ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 7; @%p1 bra A;\n\
         { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call.uni (y), twice, (x); ld.param.b32 %r2, [y]; } bra B;\n\
         A: { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call.uni (y), square, (x); ld.param.b32 %r2, [y]; }\n\
         B: mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2; ret; }\n",
    );
    let module = load(&source);
    let mut buffers = crate::support::Buffers::new();
    let to = buffers.add_words(&[0; 32]);
    crate::support::run(module.kernel("k").unwrap(), &buffers, [1, 1, 1], [32, 1, 1], &[to]).unwrap();
    for (thread, value) in buffers.words(to).into_iter().enumerate() {
        let square = (thread * thread) as u32;
        assert_eq!(value, if thread < 7 { square } else { 2 * square }, "thread {thread}");
    }
}

#[test]
fn traps_name_kernel_line_block_and_thread() {
    let body = "mul.wide.u32 %rd5, %r0, 40000000;\nadd.s64 %rd6, %rd0, %rd5;\nld.global.u32 %r1, [%rd6];";
    let trap = compute(40, &[0; 40], 40, body).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::Memory(_)));
    assert_eq!((trap.kernel.as_str(), trap.instruction.as_str(), trap.thread), ("k", "ld.global.u32", [1, 0, 0]));
    let expected = "load of 4 bytes at 0x1002625a00: no allocation, in kernel k, line 12: ld.global.u32, block (0,0,0), \
                    thread (1,0,0)";
    assert_eq!(trap.to_string(), expected);
    let trap = compute(1, &[0; 4], 4, "ld.global.u32 %r1, [%rd0+2];").unwrap_err();
    assert!(trap.to_string().contains("it is not aligned"), "{trap}");
    let trap = compute(1, &[0; 4], 4, "$L: bra $L;").unwrap_err();
    assert_eq!(trap.kind, TrapKind::Stopped);
}

#[test]
fn what_is_refused_is_named_with_its_line() {
    let refused =
        |body: &str| Module::load(crate::support::kernel(1, body).as_bytes(), &Options::default()).expect_err(body);
    let error = refused("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, {%f1,%f2}];");
    assert_eq!((error.kind, error.line), (LoadErrorKind::Unsupported, 9));
    assert!(error.message.contains("textures"), "{error}");
    assert!(refused("wgmma.fence.sync.aligned;").message.contains("asynchronous products"));
    assert!(refused("ex2.approx.f64 %d1, %d2;").message.contains("no target has this approximation for f64"));
    assert!(refused("frobnicate.b32 %r1, %r2;").message.contains("no such instruction"));
    assert!(refused("add.b7 %r1, %r2, %r3;").message.contains("no such suffixes"));
    assert!(refused("add.s32 %r1, %r2;").message.contains("operands"));
    assert!(refused("add.s32 %rd1, %r2, %r3;").message.contains("32 bits in a register of 64"));
    assert!(refused("bra nowhere;").message.contains("no label"));
    // The first element of an array is the array; others would need the size of an element.
    let element = |index: u32| format!(".shared .align 8 .b8 a[8];\nmov.u64 %rd5, a[{index}];");
    assert!(Module::load(crate::support::kernel(1, &element(0)).as_bytes(), &Options::default()).is_ok());
    assert!(refused(&element(1)).message.contains("not the first one"));
    // There may be no space between a directive and a type.
    let close = "{ .reg.b16 %h1; .shared.b8 a[8]; mov.b16 %h1, 1; }";
    assert!(Module::load(crate::support::kernel(1, close).as_bytes(), &Options::default()).is_ok());
    assert_eq!(refused("call.uni f;").kind, LoadErrorKind::Invalid);
    let error = Module::load(b".version 99.0\n", &Options::default()).unwrap_err();
    assert_eq!(error.kind, LoadErrorKind::Version);
    let old = text(".entry k() { .reg .b32 %r<4>; max.f16x2 %r1, %r2, %r3; }").replace("sm_120", "sm_70");
    assert_eq!(Module::load(old.as_bytes(), &Options::default()).unwrap_err().kind, LoadErrorKind::Target);
    let recursive = text(".func f() { call.uni f; ret; } .entry k() { call.uni f; }");
    let error = Module::load(recursive.as_bytes(), &Options::default()).unwrap_err();
    assert!(error.message.contains("recursion"), "{error}");
}

#[test]
fn lanes_print() {
    let text = text(
        ".global .align 1 .b8 format[22] = {37,100,32,37,46,50,102,32,37,115,32,37,108,108,117,32,37,99,37,37,10,0};\n\
         .global .align 1 .b8 wrong[3] = {37,110,0};\n.global .align 1 .b8 word[4] = {111,110,101,0};\n\
         .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n\
         .entry k(.param .u64 p) { .reg .b32 %r<4>; .reg .b64 %rd<6>; .reg .f64 %d; .reg .pred %q; .local .align 8 .b8 values[40];\n\
         mov.u32 %r1, %tid.x; neg.s32 %r2, %r1; mov.u64 %rd1, values; cvta.local.u64 %rd2, %rd1; st.local.u32 [%rd1], %r2;\n\
         cvt.rn.f64.u32 %d, %r1; st.local.f64 [%rd1+8], %d; mov.u64 %rd3, word; st.local.u64 [%rd1+16], %rd3;\n\
         mov.u64 %rd4, -1; st.local.u64 [%rd1+24], %rd4; mov.u32 %r3, 65; st.local.u32 [%rd1+32], %r3;\n\
         mov.u64 %rd5, format; ld.param.u64 %rd4, [p]; setp.eq.u64 %q, %rd4, 1; @%q mov.u64 %rd5, wrong;\n\
         setp.eq.u64 %q, %rd4, 2; @%q mov.u64 %rd2, -1;\n\
         { .param .b64 f; .param .b64 v; .param .b32 r; st.param.b64 [f], %rd5; st.param.b64 [v], %rd2; call.uni (r), vprintf, (f, v);\n\
         ld.param.b32 %r3, [r]; setp.ne.u32 %q, %r3, 5; @%q trap; } ret; }",
    );
    let module = load(&text);
    let mut buffers = crate::support::Buffers::new();
    let globals: Vec<u64> = module.globals().iter().map(|global| buffers.add(&global.initial)).collect();
    let printed = std::sync::Mutex::new(Vec::new());
    let take = |text: &[u8]| printed.lock().unwrap().extend(text);
    crate::support::run_printing(module.kernel("k").unwrap(), &buffers, 2, &[0], &globals, &take).unwrap();
    let expected = "0 0.00 one 18446744073709551615 A%\n-1 1.00 one 18446744073709551615 A%\n";
    assert_eq!(String::from_utf8(printed.lock().unwrap().clone()).unwrap(), expected);
    let refused = |case| {
        let kernel = module.kernel("k").unwrap();
        crate::support::run_printing(kernel, &buffers, 2, &[case], &globals, &take).unwrap_err().kind
    };
    assert!(matches!(refused(1), TrapKind::InvalidOperand(_)), "a conversion that there is not");
    assert!(matches!(refused(2), TrapKind::Memory(_)), "values at the last address");
}

#[test]
fn functions_of_the_machine_end_a_kernel() {
    let source = |name: &str| {
        text(&format!(
            ".extern .func (.param .b32 r) {name}(.param .b64 a, .param .b64 b);\n.entry k(.param .u64 p) {{ .reg .pred %p<2>; .reg .b32 %r<2>;\n\
             mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 5; @%p1 bra E;\n{{ .param .b64 x; .param .b64 y; .param .b32 z;\n\
             call.uni (z), {name}, (x, y);\n}}\nE: ret; }}"
        ))
    };
    let run = |name: &str| {
        let module = load(&source(name));
        let buffers = crate::support::Buffers::new();
        crate::support::run(module.kernel("k").unwrap(), &buffers, [1, 1, 1], [8, 1, 1], &[0]).unwrap_err()
    };
    let trap = run("__assertfail");
    let expected = (TrapKind::Raised(vireo_ptx::limits::ASSERTION_TRAP), 8, [5, 0, 0]);
    assert_eq!((trap.kind, trap.line, trap.thread), expected);
    // The launch takes no texts.
    assert!(matches!(run("vprintf").kind, TrapKind::NotImplemented(_)));
    let error = Module::load(source("elsewhere").as_bytes(), &Options::default()).unwrap_err();
    assert_eq!((error.kind, error.line), (LoadErrorKind::Unresolved, 8));
    // Another text may define it.
    let other = text(".visible .func (.param .b32 r) elsewhere(.param .b64 a, .param .b64 b) { ret; }");
    let linked = Module::link(&[source("elsewhere").as_bytes(), other.as_bytes()], &Options::default());
    assert!(linked.is_ok_and(|module| module.kernel("k").is_some()));
}
