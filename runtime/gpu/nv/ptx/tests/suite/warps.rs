//! Instructions that lanes or warps execute together, and memory of all spaces.

use std::sync::Mutex;

use crate::support::{Buffers, compute, load, run, run_with, text};
use vireo_ptx::TrapKind;
use vireo_simt::{AccessHook, GroupHook, RowAccess};

const STORE: &str = "mul.wide.u32 %rd10, %r0, 4; add.s64 %rd11, %rd1, %rd10; st.global.u32 [%rd11], %r1;";

fn of(threads: u32, body: &str) -> Vec<u32> {
    compute(threads, &[0; 64], threads as usize, &format!("{body}\n{STORE}")).unwrap_or_else(|trap| panic!("{trap}"))
}

#[test]
fn shuffles_take_the_value_of_another_lane() {
    type From = fn(u32) -> u32;
    let cases: [(&str, &str, u32, From); 8] = [
        ("up", "3", 0, |lane| if lane < 3 { lane } else { lane - 3 }),
        ("down", "3", 31, |lane| if lane > 28 { lane } else { lane + 3 }),
        ("bfly", "5", 31, |lane| lane ^ 5),
        ("idx", "9", 31, |_| 9),
        // Segments of eight lanes.
        ("up", "3", 0x1800, |lane| if lane % 8 < 3 { lane } else { lane - 3 }),
        ("down", "3", 0x181F, |lane| if lane % 8 > 4 { lane } else { lane + 3 }),
        ("bfly", "12", 0x181F, |lane| if (lane ^ 12) <= lane | 7 { lane ^ 12 } else { lane }),
        ("idx", "10", 0x181F, |lane| lane & 24 | 2),
    ];
    for (mode, amount, limits, from) in cases {
        let body = format!("mul.lo.u32 %r2, %r0, 7; shfl.sync.{mode}.b32 %r1|%p1, %r2, {amount}, {limits}, -1;");
        let found = of(32, &body);
        assert!((0..32).all(|lane| found[lane as usize] == 7 * from(lane)), "{mode} {amount} {limits:#x}: {found:?}");
    }
}

#[test]
fn votes_matches_and_reductions_are_of_the_lanes_of_a_mask() {
    let odd = "and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 1;";
    assert_eq!(of(32, &format!("{odd} vote.sync.ballot.b32 %r1, %p1, -1;")), [0xAAAA_AAAA; 32]);
    assert_eq!(of(32, &format!("{odd} vote.sync.any.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;")), [1; 32]);
    assert_eq!(of(32, &format!("{odd} vote.sync.all.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;")), [0; 32]);
    assert_eq!(of(32, &format!("{odd} vote.sync.uni.pred %p2, !%p1, -1; selp.u32 %r1, 1, 0, %p2;")), [0; 32]);
    let third = of(32, "rem.u32 %r2, %r0, 3; match.any.sync.b32 %r1, %r2, -1;");
    assert!(
        (0..32).all(|lane| third[lane] == (0..32).filter(|other| other % 3 == lane % 3).map(|other| 1 << other).sum())
    );
    assert_eq!(of(32, "mov.u64 %rd5, 7; match.all.sync.b64 %r1|%p1, %rd5, -1;"), [u32::MAX; 32]);
    assert_eq!(of(32, "match.all.sync.b32 %r1|%p1, %r0, -1;"), [0; 32]);
    assert_eq!(of(32, "redux.sync.add.u32 %r1, %r0, -1;"), [496; 32]);
    assert_eq!(of(32, "sub.s32 %r2, %r0, 5; redux.sync.min.s32 %r1, %r2, -1;"), [(-5i32) as u32; 32]);
    assert_eq!(of(32, "redux.sync.xor.b32 %r1, %r0, -1;"), [0; 32]);
    // Each half of the warp by itself, in code of its own.
    let halves = of(
        32,
        "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; redux.sync.add.u32 %r1, %r0, 0xFFFF0000; bra B;\n\
         A: redux.sync.max.u32 %r1, %r0, 0xFFFF; B:",
    );
    assert!((0..32).all(|lane| halves[lane] == if lane < 16 { 15 } else { (16..32).sum() }));
    assert_eq!(of(20, "activemask.b32 %r1;"), [0xF_FFFF; 20]);
}

#[test]
fn lanes_of_a_warp_wait_for_each_other() {
    // Lanes arrive after loops of different lengths.
    let body = "mov.u32 %r2, 0;\nL: add.s32 %r2, %r2, 1; setp.le.u32 %p1, %r2, %r0; @%p1 bra L;\n\
                bar.warp.sync -1; shfl.sync.idx.b32 %r1, %r2, 31, 31, -1;";
    assert_eq!(of(32, body), [32; 32]);
    // A lock between lanes of one warp: each adds one to a count that is not atomic.
    let body = "mov.u64 %rd5, %rd0;\nL: atom.global.cas.b32 %r2, [%rd5], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;\n\
                ld.volatile.global.u32 %r1, [%rd5+4]; add.u32 %r1, %r1, 1; st.volatile.global.u32 [%rd5+4], %r1;\n\
                membar.gl; atom.global.exch.b32 %r3, [%rd5], 0;";
    let mut counts = of(64, body);
    counts.sort_unstable();
    assert_eq!(counts, (1..=64).collect::<Vec<u32>>());
}

#[test]
fn a_warp_that_polls_lets_the_other_one_store() {
    let body = ".shared .b32 flag; .shared .b32 value; setp.ge.u32 %p1, %r0, 32; @%p1 bra W;\n\
                P: ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra P; ld.shared.u32 %r1, [value]; bra E;\n\
                W: mov.u32 %r1, 77; st.shared.u32 [value], %r1; st.volatile.shared.u32 [flag], 1; E:";
    assert_eq!(of(64, body), [77; 64]);
}

#[test]
fn lanes_wait_at_a_barrier_while_another_one_polls() {
    // Thread 0 polls for what the second warp stores after a long loop, and the others of its warp wait meanwhile.
    let body = ".shared .b32 flag; .shared .b32 value; mov.u32 %r3, 0; setp.ge.u32 %p1, %r0, 32; @%p1 bra S;\n\
                setp.ne.u32 %p2, %r0, 0; @%p2 bra W;\n\
                P: ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p3, %r2, 0; @%p3 bra P;\n\
                mov.u32 %r4, 77; st.shared.u32 [value], %r4; bra W;\n\
                S: add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 20000; @%p3 bra S; st.volatile.shared.u32 [flag], 1;\n\
                W: bar.sync 0; ld.shared.u32 %r1, [value]; bar.sync 0; mov.u32 %r4, 0; st.shared.u32 [value], %r4;";
    assert_eq!(of(64, body), [77; 64]);
}

#[test]
fn barriers_join_values_of_all_threads() {
    let body = |operation: &str| format!("setp.lt.u32 %p1, %r0, 40; bar.red.{operation}, 2, %p1;");
    assert_eq!(of(96, &body("popc.u32 %r1")), [40; 96]);
    let all = format!("{} selp.u32 %r1, 1, 0, %p2;", body("and.pred %p2"));
    assert_eq!(of(96, &all), [0; 96]);
    let any = format!("{} selp.u32 %r1, 1, 0, %p2;", body("or.pred %p2"));
    assert_eq!(of(96, &any), [1; 96]);
    // Twice in a loop.
    let loops = "mov.u32 %r1, 0; mov.u32 %r3, 0;\nL: setp.lt.u32 %p1, %r0, %r3; bar.red.popc.u32 %r2, 0, %p1;\n\
                 add.u32 %r1, %r1, %r2; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 6; @%p2 bra L;";
    assert_eq!(of(64, loops), [15; 64]);
    // The first warp produces, and does not wait.
    let pipe = ".shared .b32 value; setp.ge.u32 %p1, %r0, 32; @%p1 bra C; mov.u32 %r1, 5; st.shared.u32 [value], %r1;\n\
                bar.arrive 3, 64; bra E; C: bar.sync 3, 64; ld.shared.u32 %r1, [value]; E:";
    assert_eq!(of(64, pipe), [5; 64]);
}

#[test]
fn what_waits_for_ever_is_named() {
    let trap = compute(64, &[0], 64, "setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 96;").unwrap_err();
    assert_eq!((&trap.kind, trap.line, trap.thread), (&TrapKind::Deadlock, 10, [0, 0, 0]));
    let body = "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; bar.sync 1; bra E; A: bar.sync 2; E:";
    let trap = compute(32, &[0], 32, body).unwrap_err();
    assert!(trap.to_string().contains("wait for each other at different places"), "{trap}");
    assert_eq!((trap.line, trap.instruction.as_str()), (10, "bar.sync"));
    assert!(compute(32, &[0], 32, "bar.sync 16;").unwrap_err().to_string().contains("barrier 16"));
    assert!(compute(32, &[0], 32, "bar.sync 1, 33;").unwrap_err().to_string().contains("33 threads"));
}

#[test]
fn generic_addresses_go_to_all_spaces() {
    let body = ".shared .align 8 .b8 s[512]; .local .align 8 .b8 l[8];\n\
        mov.u64 %rd20, s; cvta.shared.u64 %rd20, %rd20; mul.wide.u32 %rd21, %r0, 8; add.s64 %rd20, %rd20, %rd21;\n\
        mov.u64 %rd22, l; cvta.local.u64 %rd22, %rd22; mul.wide.u32 %rd23, %r0, 4; add.s64 %rd23, %rd1, %rd23;\n\
        and.b32 %r2, %r0, 3; setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, 1; mov.u64 %rd24, %rd23;\n\
        @%p1 mov.u64 %rd24, %rd20; @%p2 mov.u64 %rd24, %rd22; mad.lo.u32 %r3, %r0, 3, 1; st.u32 [%rd24], %r3;\n\
        ld.u32 %r4, [%rd24]; isspacep.shared %p3, %rd24; isspacep.local %p4, %rd24; isspacep.global %p5, %rd24;\n\
        selp.u32 %r5, 1000, 0, %p3; selp.u32 %r6, 2000, 0, %p4; selp.u32 %r7, 4000, 0, %p5;\n\
        add.u32 %r1, %r4, %r5; add.u32 %r1, %r1, %r6; add.u32 %r1, %r1, %r7;";
    for (thread, value) in of(64, body).into_iter().enumerate() {
        let space = [1000, 2000, 4000, 4000][thread % 4];
        assert_eq!(value, 3 * thread as u32 + 1 + space, "thread {thread}");
    }
}

#[test]
fn atomics_return_the_old_value() {
    let count = of(64, "atom.global.add.u32 %r1, [%rd0], 2;");
    let mut sorted = count.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..64).map(|index| 2 * index).collect::<Vec<u32>>());
    let body = "atom.global.inc.u32 %r2, [%rd0], 6; atom.global.dec.u32 %r3, [%rd0+4], 9; atom.global.max.s32 %r4, [%rd0+8], %r0;\n\
                red.global.min.s32 [%rd0+12], -5; red.global.add.f32 [%rd0+16], 0f3F000000; red.global.or.b32 [%rd0+20], 6;\n\
                atom.global.cas.b16 %h1, [%rd0+26], %h2, 3; red.global.add.noftz.f16x2 [%rd0+28], 0x3C003C00;\n\
                red.global.add.u64 [%rd0+32], -1; red.global.add.f64 [%rd0+40], 0d3FE0000000000000; mov.u32 %r1, 0;";
    let module = load(&crate::support::kernel(2, &format!("mov.b16 %h2, 0;\n{body}\n{STORE}")));
    let mut buffers = Buffers::new();
    let (from, to) = (buffers.add_words(&[0; 64]), buffers.add_words(&[0; 64]));
    run(module.kernel("k").unwrap(), &buffers, [1, 1, 1], [32, 1, 1], &[from, to]).unwrap();
    let words = buffers.words(from);
    assert_eq!(words[..8], [32 % 7, 8, 31, (-5i32) as u32, 16f32.to_bits(), 6, 3 << 16, 0x5000_5000]);
    assert_eq!((words[8], words[9]), ((-32i32) as u32, u32::MAX));
    assert_eq!(f64::from_bits(u64::from(words[10]) | u64::from(words[11]) << 32), 16.0);
    let shared = ".shared .b32 s; st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 %r2, [s], 1; bar.sync 0; ld.shared.u32 %r1, [s];";
    assert_eq!(of(96, shared), [96; 96]);
}

#[test]
fn variables_of_modules_have_addresses_and_first_values() {
    let source = text(
        ".global .align 8 .u64 pointers[2] = {table, generic(table)+8};\n.const .align 4 .f32 table[4] = {0f3F800000, 0f40000000};\n\
         .entry k(.param .u64 p) { .reg .b64 %rd<9>; .reg .b32 %r<4>; ld.param.u64 %rd1, [p]; ld.global.u64 %rd2, [pointers+8];\n\
         ld.u32 %r1, [%rd2+-4]; ld.const.f32 %r2, [table]; mov.u64 %rd3, pointers; cvta.global.u64 %rd3, %rd3;\n\
         st.global.v2.b32 [%rd1], {%r1, %r2}; st.global.u64 [%rd1+8], %rd3; ret; }",
    );
    let module = load(&source);
    let mut buffers = Buffers::new();
    let mut addresses = Vec::new();
    for global in module.globals() {
        let mut bytes = global.initial.clone();
        bytes.resize(global.size as usize, 0);
        addresses.push(buffers.add(&bytes));
    }
    assert_eq!(module.globals().iter().map(|global| global.name.as_str()).collect::<Vec<_>>(), ["pointers", "table"]);
    let relocations = &module.globals()[0].relocations;
    assert_eq!(
        relocations.iter().map(|at| (at.offset, at.global, at.addend)).collect::<Vec<_>>(),
        [(0, 1, 0), (8, 1, 8)]
    );
    let mut pointers = Vec::new();
    for at in relocations {
        pointers.extend(addresses[at.global].wrapping_add(at.addend as u64).to_le_bytes());
    }
    // The owner puts the addresses there.
    addresses[0] = buffers.add(&pointers);
    let to = buffers.add_words(&[0; 8]);
    let kernel = module.kernel("k").unwrap();
    run_with(kernel, &buffers, [1, 1, 1], [1, 1, 1], &[to], &addresses, 1000).unwrap();
    let words = buffers.words(to);
    assert_eq!(words[..2], [2f32.to_bits(), 1f32.to_bits()]);
    assert_eq!(u64::from(words[2]) | u64::from(words[3]) << 32, addresses[0]);
    let trap = run_with(kernel, &buffers, [1, 1, 1], [1, 1, 1], &[to], &[], 1000).unwrap_err();
    assert!(trap.to_string().contains("addresses of variables"), "{trap}");
}

#[test]
fn vectors_of_all_sizes_are_loaded_and_stored() {
    let input: Vec<u32> = (0..32 * 8).map(|at: u32| at.wrapping_mul(0x9E37_79B1)).collect();
    let cases = [
        ("b8", "%h", 1, 1),
        ("b8", "%h", 2, 1),
        ("b8", "%h", 4, 1),
        ("b16", "%h", 1, 2),
        ("b16", "%h", 2, 2),
        ("b16", "%h", 4, 2),
        ("b32", "%r1", 1, 4),
        ("b32", "%r1", 2, 4),
        ("b32", "%r1", 4, 4),
        ("b64", "%rd2", 1, 8),
        ("b64", "%rd2", 2, 8),
        ("b32", "%r1", 8, 4),
        ("b64", "%rd2", 4, 8),
    ];
    for (ty, stem, count, bytes) in cases {
        let registers: Vec<String> = (0..count).map(|index| format!("{stem}{index}")).collect();
        let (vector, list) = match count {
            1 => (String::new(), registers[0].clone()),
            _ => (format!(".v{count}"), format!("{{{}}}", registers.join(", "))),
        };
        let step = count * bytes;
        let body = format!(
            "mul.wide.u32 %rd30, %r0, {step}; add.s64 %rd31, %rd0, %rd30; add.s64 %rd32, %rd1, %rd30;\n\
             ld.global{vector}.{ty} {list}, [%rd31]; st.global{vector}.{ty} [%rd32], {list};"
        );
        let output = compute(32, &input, 32 * step / 4, &body).unwrap_or_else(|trap| panic!("{ty} {count}: {trap}"));
        assert_eq!(output, input[..32 * step / 4], "{ty} {count}");
    }
    // Smaller values are extended to their registers.
    let body = "ld.global.s8 %r2, [%rd0+3]; ld.global.u16 %r3, [%rd0+2]; ld.global.s16 %rd6, [%rd0+2]; cvt.u32.u64 %r4, %rd6;\n\
                st.global.v4.b32 [%rd1], {%r2, %r3, %r4, %r4};";
    let output = compute(1, &[0x9876_5432, 0], 4, body).unwrap();
    assert_eq!(output, [0xFFFF_FF98, 0x9876, 0xFFFF_9876, 0xFFFF_9876]);
}

#[test]
fn values_are_packed_and_taken_apart() {
    let body = "mov.b32 %r2, {1, 2}; mov.b32 {%h1, %h2}, %r2; cvt.u32.u16 %r3, %h2; mov.b64 %rd5, {%r2, %r3};\n\
                mov.b64 {_, %r4}, %rd5; mov.b64 {%h3, %h4, %h5, %h6}, %rd5; cvt.u32.u16 %r5, %h4;\n\
                mov.b64 %rd6, {%h1, %h2, %h2, %h1}; cvt.u32.u64 %r6, %rd6; shr.u64 %rd6, %rd6, 32; cvt.u32.u64 %r7, %rd6;\n\
                st.global.v4.b32 [%rd1], {%r4, %r5, %r6, %r7};";
    assert_eq!(compute(1, &[0], 4, body).unwrap(), [2, 2, 0x2_0001, 0x1_0002]);
}

#[test]
fn copies_to_shared_memory_fill_with_zeros() {
    let body = ".shared .align 16 .b8 s[512]; mul.wide.u32 %rd5, %r0, 16; add.s64 %rd6, %rd0, %rd5; shl.b32 %r2, %r0, 4;\n\
                mov.u32 %r3, s; add.u32 %r3, %r3, %r2; and.b32 %r4, %r0, 1; selp.u32 %r4, 16, 8, %p0; setp.lt.u32 %p1, %r0, 8;\n\
                selp.u32 %r4, 16, 8, %p1; cp.async.cg.shared.global [%r3], [%rd6], 16, %r4; cp.async.commit_group;\n\
                cp.async.wait_group 0; bar.sync 0; add.s64 %rd7, %rd1, %rd5; ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r3];\n\
                st.global.v4.b32 [%rd7], {%r5, %r6, %r7, %r8};";
    let input: Vec<u32> = (1..=64).collect();
    let output = compute(16, &input, 64, body).unwrap();
    assert!((0..64).all(|at| output[at] == if at < 32 || at % 4 < 2 { input[at] } else { 0 }), "{output:?}");
}

#[test]
fn special_registers_tell_where_a_thread_is() {
    let source = text(
        ".entry k(.param .u64 p) { .reg .b64 %rd<9>; .reg .b32 %r<20>; ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.y;\n\
         mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r1, %r2, %r3; mov.u32 %r5, %ntid.x; mov.u32 %r6, %ntid.y;\n\
         mul.lo.u32 %r7, %r5, %r6; mov.u32 %r8, %tid.y; mov.u32 %r9, %tid.x; mad.lo.u32 %r10, %r8, %r5, %r9;\n\
         mad.lo.u32 %r11, %r4, %r7, %r10; mul.wide.u32 %rd2, %r11, 4; add.s64 %rd3, %rd1, %rd2; mov.u32 %r12, %laneid;\n\
         mov.u32 %r13, %lanemask_lt; popc.b32 %r14, %r13; sub.u32 %r15, %r12, %r14; mov.u32 %r16, %warpid;\n\
         mad.lo.u32 %r16, %r16, 32, %r12; add.u32 %r15, %r15, %r16; st.global.u32 [%rd3], %r15; ret; }",
    );
    let module = load(&source);
    let mut buffers = Buffers::new();
    let to = buffers.add_words(&[u32::MAX; 6 * 40]);
    run(module.kernel("k").unwrap(), &buffers, [3, 2, 1], [8, 5, 1], &[to]).unwrap();
    assert!(buffers.words(to).iter().enumerate().all(|(at, value)| *value as usize == at % 40));
}

/// Each shape and type of matrices, whose elements are small whole numbers, through the layouts of the documents.
#[test]
fn products_of_matrices_follow_their_layouts() {
    // (form, columns of the first matrix, registers of both matrices, element from a small number)
    type Bits = fn(i32) -> u32;
    let half: Bits = |value| u32::from(vireo_simt::prim::F16::of_f32(value as f32).0);
    let brain: Bits = |value| u32::from(vireo_simt::prim::fdemote_bf16(value as f32));
    let single: Bits = |value| (value as f32).to_bits();
    let byte: Bits = |value| u32::from(value as i8 as u8);
    let e5m2: Bits = |value| u32::from(vireo_simt::prim::F16::of_f32(value as f32).0 >> 8);
    // One, two and four, of both signs.
    let e4m3: Bits =
        |value| if value == 0 { 0 } else { ((value < 0) as u32 * 0x80) | (0x38 + 8 * value.abs().ilog2()) };
    let cases: [(&str, usize, u32, Bits); 8] = [
        ("m16n8k16.row.col.f32.f16.f16.f32", 16, 16, half),
        ("m16n8k8.row.col.f32.f16.f16.f32", 8, 16, half),
        ("m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, brain),
        ("m16n8k8.row.col.f32.tf32.tf32.f32", 8, 32, single),
        ("m16n8k4.row.col.f32.tf32.tf32.f32", 4, 32, single),
        ("m16n8k32.row.col.s32.s8.s8.s32", 32, 8, byte),
        ("m16n8k32.row.col.f32.e5m2.e5m2.f32", 32, 8, e5m2),
        ("m16n8k32.row.col.f32.e4m3.e4m3.f32", 32, 8, e4m3),
    ];
    for (form, columns, bits, element) in cases {
        let number = |at: usize| [0, 1, -1, 2, -2, 4, 1][at % 7];
        let a = |row: usize, column: usize| number(row * 5 + column * 3);
        let b = |row: usize, column: usize| number(row * 2 + column * 11);
        let sum = |row: usize, column: usize| (row * 8 + column) as i32;
        let per_word = 32 / bits as usize;
        let (a_words, b_words) = (16 * columns / 32 / per_word, columns * 8 / 32 / per_word);
        // Rows and columns as the documents write them, with groups of four lanes.
        let mut input = vec![0u32; 32 * 16];
        for lane in 0..32usize {
            let (group, inner) = (lane / 4, lane % 4);
            for word in 0..a_words {
                for part in 0..per_word {
                    let row = group + 8 * (word % 2);
                    let column = inner * per_word + part + 4 * per_word * (word / 2);
                    input[lane * 16 + word] |= element(a(row, column)) << (part as u32 * bits);
                }
            }
            for word in 0..b_words {
                for part in 0..per_word {
                    let row = inner * per_word + part + 4 * per_word * word;
                    input[lane * 16 + 4 + word] |= element(b(row, group)) << (part as u32 * bits);
                }
            }
            for word in 0..4 {
                let value = sum(group + 8 * (word / 2), 2 * inner + word % 2);
                let is_integer = form.contains("s32");
                input[lane * 16 + 8 + word] = if is_integer { value as u32 } else { (value as f32).to_bits() };
            }
        }
        let list = |stem: usize, count: usize| {
            let names: Vec<String> = (0..count).map(|index| format!("%r{}", stem + index)).collect();
            format!("{{{}}}", names.join(", "))
        };
        let mut body = String::from("mul.wide.u32 %rd5, %r0, 64; add.s64 %rd6, %rd0, %rd5;\n");
        for word in 0..12 {
            body += &format!("ld.global.b32 %r{}, [%rd6+{}];\n", 20 + word, 4 * word);
        }
        let (a_list, b_list) = (list(20, a_words), list(24, b_words));
        body += &format!("mma.sync.aligned.{form} {}, {a_list}, {b_list}, {};\n", list(40, 4), list(28, 4));
        body +=
            &format!("mul.wide.u32 %rd7, %r0, 16; add.s64 %rd8, %rd1, %rd7; st.global.v4.b32 [%rd8], {};", list(40, 4));
        let output = compute(32, &input, 128, &body).unwrap_or_else(|trap| panic!("{form}: {trap}"));
        for lane in 0..32usize {
            for word in 0..4 {
                let (row, column) = (lane / 4 + 8 * (word / 2), 2 * (lane % 4) + word % 2);
                let expected: i32 =
                    sum(row, column) + (0..columns).map(|inner| a(row, inner) * b(inner, column)).sum::<i32>();
                let found = output[4 * lane + word];
                let found = if form.contains("s32") { found as i32 } else { f32::from_bits(found) as i32 };
                assert_eq!(found, expected, "{form}: row {row}, column {column}");
            }
        }
    }
}

#[test]
fn rows_of_matrices_are_spread_over_the_lanes() {
    for transposed in [false, true] {
        let suffix = if transposed { ".trans" } else { "" };
        let body = format!(
            ".shared .align 16 .b8 s[512]; mul.wide.u32 %rd5, %r0, 16; add.s64 %rd6, %rd0, %rd5; shl.b32 %r2, %r0, 4;\n\
             mov.u32 %r3, s; add.u32 %r3, %r3, %r2; ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd6];\n\
             st.shared.v4.b32 [%r3], {{%r4, %r5, %r6, %r7}}; bar.sync 0;\n\
             ldmatrix.sync.aligned.m8n8.x4{suffix}.shared.b16 {{%r8, %r9, %r10, %r11}}, [%r3];\n\
             add.s64 %rd7, %rd1, %rd5; st.global.v4.b32 [%rd7], {{%r8, %r9, %r10, %r11}};"
        );
        // Half `at` has the number of its place.
        let input: Vec<u32> = (0..128).map(|at| (2 * at) | ((2 * at + 1) << 16)).collect();
        let output = compute(32, &input, 128, &body).unwrap();
        for lane in 0..32u32 {
            for matrix in 0..4 {
                let half = |row: u32, column: u32| 64 * matrix + 8 * row + column;
                let (row, column) = (lane / 4, lane % 4 * 2);
                let expected = match transposed {
                    false => half(row, column) | half(row, column + 1) << 16,
                    true => half(column, row) | half(column + 1, row) << 16,
                };
                assert_eq!(output[(4 * lane + matrix) as usize], expected, "lane {lane}, matrix {matrix}");
            }
        }
    }
}

/// Notes what a hook is shown, and lets lane 3 access nothing.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

struct OfBlock<'a>(&'a Notes);

impl AccessHook for Notes {
    fn start_group(&self, group: [u32; 3], local_bytes: u32) -> Box<dyn GroupHook + '_> {
        self.0.lock().unwrap().push(format!("block {group:?} of {local_bytes} bytes"));
        Box::new(OfBlock(self))
    }
}

impl GroupHook for OfBlock<'_> {
    fn access(&mut self, access: &RowAccess<'_>, _: &[u8]) -> u32 {
        let (kind, space, atomic) = (access.access, access.space, access.atomic);
        let text =
            format!("{} {kind} {} {space:?} {atomic} {}", access.instruction, access.length, access.addresses[3]);
        self.0.0.lock().unwrap().push(text);
        !8
    }

    fn barrier(&mut self, wave: u32, _: &[u8]) {
        self.0.0.lock().unwrap().push(format!("barrier of {wave}"));
    }

    fn end(&mut self, _: &[u8]) {
        self.0.0.lock().unwrap().push("end".into());
    }
}

#[test]
fn a_sanitizer_is_shown_accesses_and_stops_lanes() {
    let body = ".shared .align 4 .b8 s[128]; shl.b32 %r2, %r0, 2; mov.u32 %r3, s; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], 9;\n\
                bar.sync 0; mul.wide.u32 %rd5, %r0, 4; add.s64 %rd6, %rd0, %rd5; ld.volatile.global.u32 %r1, [%rd6];\n\
                add.s64 %rd7, %rd1, %rd5; st.u32 [%rd7], %r1; atom.global.add.u32 %r9, [%rd1+64], 1;";
    let module = load(&crate::support::kernel(2, body));
    let kernel = module.kernel("k").unwrap();
    let mut buffers = Buffers::new();
    let (from, to) = (buffers.add_words(&[5; 32]), buffers.add_words(&[7; 32]));
    let notes = Notes::default();
    crate::support::run_watched(kernel, &buffers, ([1, 1, 1], [8, 1, 1]), &[from, to], &[], 1000, Some(&notes))
        .unwrap();
    let notes = notes.0.into_inner().unwrap();
    let shown: Vec<&str> = notes.iter().map(|note| note.split_once(' ').map_or(&**note, |(_, rest)| rest)).collect();
    let (load, store) = (format!("load 4 Global true {}", from + 12), format!("store 4 Global false {}", to + 12));
    let atomic = format!("atomic access 4 Global true {}", to + 64);
    let expected = ["[0, 0, 0] of 49280 bytes", "store 4 Group false 12", "of 0", &load, &store, &atomic, "end"];
    assert_eq!(shown, expected);
    let number: u64 = notes[1].split(' ').next().unwrap().parse().unwrap();
    let found = kernel.line(number).expect("an instruction");
    assert_eq!((found.line, found.opcode), (10, "st.shared.u32"));
    assert_eq!(buffers.words(to)[..8], [5, 5, 5, 7, 5, 5, 5, 5]);
    assert_eq!(buffers.words(to)[16], 7 + 7);
}

#[test]
fn parts_of_a_warp_arrive_at_a_barrier_by_themselves() {
    // The halves of each warp arrive at different instructions, and a barrier waits for all lanes that have not ended.
    let body = "mov.u32 %r1, 0; setp.ge.u32 %p3, %r0, 90; @%p3 exit; and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 0;\n\
                setp.lt.u32 %p2, %r0, 40; @%p1 bra A; barrier.red.popc.u32 %r1, 3, %p2; barrier.sync 0; bra E;\n\
                A: barrier.red.popc.u32 %r1, 3, %p2; barrier.sync 0; E:";
    let found = of(96, body);
    assert!((0..96).all(|at| found[at] == if at < 90 { 40 } else { 0 }), "{found:?}");
    // With a number of threads, lanes that do not wait, and a barrier in a register.
    let body = ".shared .b32 value; mov.u32 %r5, 7; setp.ge.u32 %p1, %r0, 32; @%p1 bra C; mov.u32 %r1, 5;\n\
                st.shared.u32 [value], %r1; and.b32 %r2, %r0, 1; setp.eq.u32 %p2, %r2, 0; @%p2 bra D;\n\
                barrier.arrive %r5, 64; bra E; D: barrier.arrive %r5, 64; bra E; C: barrier.cta.sync %r5, 64;\n\
                ld.shared.u32 %r1, [value]; E:";
    assert_eq!(of(64, body), [5; 64]);
    let body = |suffixes: &str| format!("setp.lt.u32 %p1, %r0, 40; barrier.cta.red.{suffixes}, 2, 96, !%p1;");
    assert_eq!(of(96, &body("popc.aligned.u32 %r1")), [56; 96]);
    let all = format!("{} selp.u32 %r1, 1, 0, %p2;", body("and.pred %p2"));
    assert_eq!(of(96, &all), [0; 96]);
}

#[test]
fn reductions_of_floats_are_of_numbers_or_of_magnitudes() {
    // Lane 3 has no number.
    let values = "cvt.rn.f32.u32 %f1, %r0; sub.rn.f32 %f1, %f1, 0f41200000; setp.eq.u32 %p1, %r0, 3;\n\
                  selp.f32 %f1, 0f7FC00000, %f1, %p1;";
    let reduced = |suffixes: &str| {
        let found = of(32, &format!("{values} redux.sync.{suffixes}.f32 %r1, %f1, -1;"));
        assert!(found.iter().all(|value| *value == found[0]));
        f32::from_bits(found[0])
    };
    assert_eq!([reduced("min"), reduced("max"), reduced("min.abs"), reduced("max.abs")], [-10.0, 21.0, 0.0, 21.0]);
    assert!(reduced("min.NaN").is_nan() && reduced("max.abs.NaN").is_nan());
}

#[test]
fn values_of_128_bits_are_exchanged() {
    // Each thread counts in both halves; the old values are all different.
    for space in ["", ".global", ".acquire.gpu.global"] {
        let body = format!(
            "ld.global.b128 %q1, [%rd0];\nL: mov.b128 {{%rd5, %rd6}}, %q1; add.u64 %rd7, %rd5, 1; add.u64 %rd8, %rd6, 3;\n\
             mov.b128 %q2, {{%rd7, %rd8}}; atom{space}.cas.b128 %q3, [%rd0], %q1, %q2; mov.b128 {{%rd9, %rd12}}, %q3;\n\
             setp.ne.b64 %p1, %rd9, %rd5; mov.b128 %q1, %q3; @%p1 bra L; cvt.u32.u64 %r1, %rd12;"
        );
        let text = crate::support::kernel(2, &format!(".reg .b128 %q<4>;\n{body}\n{STORE}"));
        let mut buffers = Buffers::new();
        let (from, to) = (buffers.add_words(&[0; 4]), buffers.add_words(&[0; 64]));
        run(load(&text).kernel("k").unwrap(), &buffers, [1, 1, 1], [64, 1, 1], &[from, to]).unwrap();
        assert_eq!(buffers.words(from), [64, 0, 192, 0]);
        let mut old = buffers.words(to);
        old.sort_unstable();
        assert_eq!(old, (0..64).map(|at| 3 * at).collect::<Vec<u32>>());
    }
    let exchange = ".reg .b128 %q<4>; .shared .align 16 .b8 s[16]; cvt.u64.u32 %rd5, %r0; mov.b128 %q1, {%rd5, %rd5};\n\
                    st.shared.b128 [s], %q1; atom.shared.exch.b128 %q2, [s], %q1; ld.shared.u32 %r1, [s+8];";
    assert_eq!(of(1, exchange), [0]);
    let trap =
        compute(1, &[0; 8], 1, ".reg .b128 %q<4>; mov.b128 %q1, {%rd0, %rd0}; atom.exch.b128 %q2, [%rd0+8], %q1;");
    assert!(trap.unwrap_err().to_string().contains("not aligned"));
}
