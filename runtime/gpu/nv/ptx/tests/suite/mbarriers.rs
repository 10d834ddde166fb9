//! Barriers in shared memory, against a count of arrivals by hand, and matrices that warps store and transpose.

use std::fmt::Write;

use vireo_ptx::{Module, Options};
use vireo_simt::sanitize::Finding;

use crate::races::findings;
use crate::support::{Buffers, compute, kernel, load, run_with};

struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % limit
    }

    fn bits(&mut self) -> u32 {
        self.below(1 << 16) | self.below(1 << 16) << 16
    }
}

/// A barrier as the documents describe it.
struct Counted {
    expected: u32,
    pending: u32,
    phase: u32,
}

impl Counted {
    fn arrive(&mut self, count: u32, drops: bool) {
        self.pending -= count;
        self.expected -= if drops { count } else { 0 };
        if self.pending == 0 {
            (self.pending, self.phase) = (self.expected, self.phase + 1);
        }
    }
}

/// One thread arrives, drops arrivals and asks for phases in a drawn order, and finds the same as a count by hand.
#[test]
fn phases_are_complete_as_arrivals_are_counted() {
    for seed in 0..200 {
        let mut draw = Draw(seed * 2 + 1);
        let most = if draw.below(2) == 0 { 6 } else { (1 << 20) - 1 };
        let first = 1 + draw.below(most);
        let (mut counted, mut states) = (Counted { expected: first, pending: first, phase: 0 }, Vec::new());
        let (mut body, mut expected) = (String::new(), Vec::new());
        let is_generic = draw.below(2) == 0;
        let (space, at) = if is_generic { ("", "[%rd50]") } else { (".shared", "[s+8]") };
        write!(
            body,
            ".shared .align 8 .b8 s[16]; cvta.shared.u64 %rd50, s; add.s64 %rd50, %rd50, 8; mov.u32 %r50, {first};\n\
             mbarrier.init{space}.b64 {at}, %r50;\n"
        )
        .unwrap();
        let mut store = |body: &mut String, value: u32| {
            writeln!(body, "st.global.u32 [%rd1+{}], %r51;", 4 * expected.len()).unwrap();
            expected.push(value);
        };
        for _ in 0..40 {
            let kind = draw.below(8);
            if kind < 5 && counted.pending > 0 && states.len() < 30 {
                let drops = draw.below(4) == 0;
                let most = if draw.below(4) == 0 { counted.pending } else { counted.pending.min(3) };
                let count = 1 + draw.below(most);
                let (name, state) = (if drops { "arrive_drop" } else { "arrive" }, format!("%rd{}", 10 + states.len()));
                let stays = count < counted.pending && draw.below(2) == 0;
                let (suffix, count_text) = match (stays, count) {
                    (true, _) => (".noComplete", format!(", {count}")),
                    (_, 1) => ("", String::new()),
                    _ => (".release.cta", format!(", {count}")),
                };
                writeln!(body, "mbarrier.{name}{suffix}{space}.b64 {state}, {at}{count_text};").unwrap();
                writeln!(body, "mbarrier.pending_count.b64 %r51, {state};").unwrap();
                store(&mut body, counted.pending);
                states.push(counted.phase);
                counted.arrive(count, drops);
                continue;
            }
            // Only the last two phases may be asked for.
            let recent: Vec<usize> = (0..states.len()).filter(|at| states[*at] + 1 >= counted.phase).collect();
            let is_complete = if draw.below(2) == 0 || recent.is_empty() {
                let parity = draw.below(2);
                writeln!(body, "mbarrier.test_wait.parity{space}.b64 %p1, {at}, {parity};").unwrap();
                counted.phase % 2 != parity
            } else {
                let state = recent[draw.below(recent.len() as u32) as usize];
                let hint = if draw.below(2) == 0 { "" } else { ", 100" };
                let name = if hint.is_empty() { "test_wait.acquire.cta" } else { "try_wait" };
                writeln!(body, "mbarrier.{name}{space}.b64 %p1, {at}, %rd{}{hint};", 10 + state).unwrap();
                states[state] < counted.phase
            };
            body += "selp.u32 %r51, 1, 0, %p1;\n";
            store(&mut body, is_complete.into());
        }
        body += &format!("mbarrier.inval{space}.b64 {at};");
        let outputs =
            compute(1, &[0], expected.len(), &body).unwrap_or_else(|trap| panic!("seed {seed}: {trap}\n{body}"));
        assert_eq!(outputs, expected, "seed {seed}\n{body}");
    }
}

/// Threads of several warps exchange values in shared memory, in rounds with a barrier each; some drop out of it. A
/// thread that is ahead, or that waits for lanes of its warp that do not run, would find other values or never end.
#[test]
fn threads_go_on_when_all_have_arrived() {
    for seed in 0..40 {
        let mut draw = Draw(seed * 2 + 77);
        let (threads, rounds) = (1 + draw.below(160), 2 + draw.below(6));
        let (by_parity, is_try, drops) = (draw.below(2) == 0, draw.below(2) == 0, draw.below(2) == 0);
        let wait = format!("mbarrier.{}", if is_try { "try_wait" } else { "test_wait" });
        let test = match by_parity {
            true => format!("{wait}.parity.shared.b64 %p2, [b], %r12;"),
            false => format!("{wait}.shared.b64 %p2, [b], %rd6;"),
        };
        let step = 1 + draw.below(threads);
        // Every third thread arrives, and is not there any more, after half of the rounds. Odd lanes arrive later.
        let leaves = if drops { rounds / 2 } else { rounds };
        let body = format!(
            ".shared .align 8 .b8 b[8]; .shared .align 4 .b8 s[1280];\n\
             setp.ne.u32 %p1, %r0, 0; @%p1 bra $ready; mbarrier.init.shared.b64 [b], {threads};\n$ready: bar.sync 0;\n\
             mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r2, s; and.b32 %r20, %r0, 1;\n\
             rem.u32 %r21, %r0, 3; setp.eq.u32 %p5, %r21, 1; add.u32 %r22, %r0, {step}; rem.u32 %r22, %r22, {threads};\n\
             rem.u32 %r23, %r22, 3;\n\
             $round:\n\
             setp.eq.u32 %p3, %r20, 0; @%p3 bra $even; mad.lo.u32 %r3, %r0, 3, %r10; mad.lo.u32 %r3, %r3, 5, 1;\n\
             $even: mad.lo.u32 %r3, %r0, 1000, %r10; and.b32 %r4, %r10, 1; mad.lo.u32 %r4, %r4, {threads}, %r0;\n\
             shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r2; st.shared.u32 [%r4], %r3;\n\
             add.u32 %r5, %r10, 1; setp.eq.and.u32 %p4, %r5, {leaves}, %p5;\n\
             @%p4 mbarrier.arrive_drop.shared.b64 %rd6, [b];\n\
             @!%p4 mbarrier.arrive.shared.b64 %rd6, [b];\n\
             $wait: {test} @!%p2 bra $wait;\n\
             and.b32 %r4, %r10, 1; mad.lo.u32 %r4, %r4, {threads}, %r22; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r2;\n\
             ld.shared.u32 %r6, [%r4]; setp.ge.u32 %p6, %r10, {leaves}; setp.eq.and.u32 %p6, %r23, 1, %p6;\n\
             selp.u32 %r6, 0, %r6, %p6; mad.lo.u32 %r11, %r11, 31, %r6;\n\
             xor.b32 %r12, %r12, 1; add.u32 %r10, %r10, 1;\n\
             @%p4 bra $out; setp.lt.u32 %p1, %r10, {rounds}; @%p1 bra $round;\n\
             $out: mul.wide.u32 %rd7, %r0, 4; add.s64 %rd7, %rd1, %rd7; st.global.u32 [%rd7], %r11;"
        );
        let outputs =
            compute(threads, &[0], threads as usize, &body).unwrap_or_else(|trap| panic!("seed {seed}: {trap}"));
        for thread in 0..threads {
            let mut expected = 0u32;
            for round in 0..if thread % 3 == 1 { leaves } else { rounds } {
                let other = (thread + step) % threads;
                let value = if round >= leaves && other % 3 == 1 { 0 } else { other * 1000 + round };
                expected = expected.wrapping_mul(31).wrapping_add(value);
            }
            assert_eq!(outputs[thread as usize], expected, "seed {seed}, thread {thread} of {threads}\n{body}");
        }
    }
}

#[test]
fn a_barrier_that_is_misused_is_told() {
    let new = "mbarrier.init.shared.b64 [s], 2; ";
    for (body, message) in [
        ("mbarrier.arrive.shared.b64 %rd5, [s];".into(), "no barrier was initialised at this address"),
        (format!("{new} mbarrier.inval.shared.b64 [s]; mbarrier.inval.shared.b64 [s];"), "no barrier was initialised"),
        ("mbarrier.init.shared.b64 [s], 0;".into(), "a barrier of 0 arrivals: expected 1 to 1048575"),
        ("mbarrier.init.shared.b64 [s], 1048576;".into(), "a barrier of 1048576 arrivals"),
        (
            format!("{new} mbarrier.arrive.shared.b64 %rd5, [s], 3;"),
            "3 arrivals at a barrier where 2 are missing: expected 1 to 2",
        ),
        (format!("{new} mbarrier.arrive.noComplete.shared.b64 %rd5, [s], 2;"), "that may not complete it"),
        (format!("{new} mov.u64 %rd5, 7; mbarrier.test_wait.shared.b64 %p1, [s], %rd5;"), "that no arrival returned"),
        ("mbarrier.init.shared.b64 [s+4], 1;".into(), "not aligned"),
        ("mbarrier.init.shared.b64 [s+65536], 1;".into(), "no allocation"),
        ("mbarrier.init.b64 [%rd1], 1;".into(), "an address of another space"),
    ] {
        let trap = compute(1, &[0], 1, &format!(".shared .align 8 .b8 s[16]; {body}")).expect_err(&body);
        assert!(trap.to_string().contains(message), "{body}: {trap}");
    }
    // A wait for arrivals that never come ends with the limit, and not before.
    let text = kernel(
        1,
        &format!(
            ".shared .align 8 .b8 s[16]; {new} $l: mbarrier.test_wait.parity.shared.b64 %p1, [s], 0; @!%p1 bra $l;"
        ),
    );
    let mut buffers = Buffers::new();
    let data = buffers.add_words(&[0]);
    let trap =
        run_with(load(&text).kernel("k").unwrap(), &buffers, [1, 1, 1], [64, 1, 1], &[data], &[], 5000).unwrap_err();
    assert!(trap.to_string().contains("stopped"), "{trap}");
}

#[test]
fn barriers_that_are_not_there_are_refused_by_name() {
    let refused = |version: &str, target: &str, instruction: &str| {
        let text = format!(
            ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{ .reg .pred %p<3>; .reg .b32 %r<9>; \
             .reg .b64 %rd<9>; .shared .align 8 .b8 s[16];\n{instruction}\nret; }}"
        );
        Module::load(text.as_bytes(), &Options::default()).map(|_| ()).expect_err(instruction).to_string()
    };
    for (instruction, message) in [
        ("mbarrier.arrive.expect_tx.shared.b64 %rd1, [s], 4;", "count the bytes of bulk copies"),
        ("mbarrier.expect_tx.relaxed.cta.shared.b64 [s], 4;", "count the bytes of bulk copies"),
        ("mbarrier.complete_tx.relaxed.cta.shared.b64 [s], 4;", "count the bytes of bulk copies"),
        ("mbarrier.arrive.shared::cluster.b64 _, [s];", "no such suffixes"),
        ("mbarrier.arrive.shared.b64 %rd1;", "expected a result and an address"),
        ("mbarrier.arrive.noComplete.shared.b64 %rd1, [s];", "how many arrivals"),
        ("mbarrier.test_wait.shared.b64 %p1, [s], %r1;", "a value of 64 bits in a register of 32"),
        ("mbarrier.init.shared.b64 [%rd1], %rd2;", "a value of 32 bits in a register of 64"),
    ] {
        let error = refused("8.8", "sm_90", instruction);
        assert!(error.contains(message), "{instruction}: {error}");
    }
    for (version, target, instruction, message) in [
        ("6.5", "sm_80", "mbarrier.init.shared.b64 [s], 4;", "needs version 7.0"),
        ("8.0", "sm_75", "mbarrier.init.shared.b64 [s], 4;", "needs sm_80"),
        ("8.0", "sm_80", "mbarrier.arrive.shared.b64 %rd1, [s], 4;", "a number of arrivals needs sm_90"),
        ("7.0", "sm_80", "mbarrier.test_wait.parity.shared.b64 %p1, [s], 0;", "needs version 7.1"),
        ("8.0", "sm_80", "mbarrier.try_wait.shared.b64 %p1, [s], %rd1;", "needs sm_90"),
        ("8.0", "sm_80", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [s], %r1;", "needs sm_90"),
        ("7.7", "sm_80", "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;", "needs version 7.8"),
    ] {
        let error = refused(version, target, instruction);
        assert!(error.contains(message), "{instruction}: {error}");
    }
}

/// An arrival and a wait for it order accesses of the one thread before and of the other one later, and nothing else
/// does.
#[test]
fn an_arrival_and_a_wait_order_accesses() {
    let init = "setp.ne.u32 %p1, %r0, 0; @%p1 bra $ready; mbarrier.init.shared.b64 [b], 72;\n$ready: bar.sync 0;\n";
    let wait = "$wait: mbarrier.test_wait.shared.b64 %p2, [b], %rd5; @!%p2 bra $wait;\n";
    let program = |wait: &str| {
        format!(
            ".shared .align 8 .b8 b[8]; .shared .align 4 .b8 s[512];\n{init}shl.b32 %r1, %r0, 2; mov.u32 %r2, s;\n\
             add.u32 %r3, %r2, %r1; st.shared.u32 [%r3], %r0;\nmbarrier.arrive.shared.b64 %rd5, [b];\n{wait}\
             add.u32 %r4, %r0, 1; rem.u32 %r4, %r4, 72; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r2;\n\
             ld.shared.u32 %r5, [%r4];"
        )
    };
    let once = "mbarrier.test_wait.shared.b64 %p2, [b], %rd5;\n";
    for (what, text, is_found) in
        [("waits", program(wait), false), ("asks once", program(once), true), ("goes on", program(""), true)]
    {
        let mut buffers = Buffers::new();
        let data = buffers.add_words(&[0; 16]);
        let reports = findings(&kernel(1, &text), &buffers, data);
        let found = reports.iter().any(|report| report.finding == Finding::GroupRace);
        assert_eq!(found, is_found, "{what}: {reports:?}");
    }
    // Nothing orders the new barrier and arrivals of other threads.
    let text =
        program(wait).replace("bar.sync 0;", "").replace("@%p1 bra $ready;", "@%p1 bra $ready; bar.warp.sync 1;");
    let text =
        text.replace("mbarrier.init.shared.b64 [b], 72;", "mbarrier.init.shared.b64 [b], 72; st.global.u32 [%rd0], 1;");
    let mut buffers = Buffers::new();
    let data = buffers.add_words(&[0; 16]);
    let reports = findings(&kernel(1, &text), &buffers, data);
    assert!(reports.iter().any(|report| report.finding == Finding::GroupRace), "{reports:?}");
}

/// Copies of threads arrive at a barrier when they are made: the threads wait at the barrier for those of all others.
#[test]
fn copies_arrive_at_a_barrier() {
    for (suffix, expected) in [(".noinc", 128), ("", 64)] {
        let body = format!(
            ".shared .align 8 .b8 b[8]; .shared .align 16 .b8 s[1024];\n\
             setp.ne.u32 %p1, %r0, 0; @%p1 bra $ready; mbarrier.init.shared.b64 [b], {expected};\n$ready: bar.sync 0;\n\
             mul.wide.u32 %rd5, %r0, 4; add.s64 %rd6, %rd0, %rd5; mov.u32 %r2, s; shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r2;\n\
             cp.async.ca.shared.global [%r3], [%rd6], 4; cp.async.mbarrier.arrive{suffix}.shared.b64 [b];\n\
             mbarrier.arrive.shared.b64 %rd7, [b];\n\
             $wait: mbarrier.test_wait.shared.b64 %p2, [b], %rd7; @!%p2 bra $wait;\n\
             xor.b32 %r4, %r0, 63; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r2; ld.shared.u32 %r5, [%r4];\n\
             add.s64 %rd6, %rd1, %rd5; st.global.u32 [%rd6], %r5;"
        );
        let input: Vec<u32> = (0..64).map(|at| at * 77 + 5).collect();
        let reversed: Vec<u32> = input.iter().rev().copied().collect();
        assert_eq!(compute(64, &input, 64, &body).unwrap(), reversed, "{suffix}");
    }
}

/// Four matrices in registers are stored, at places in shared memory that are drawn, or transposed.
#[test]
fn matrices_are_stored_and_transposed() {
    for seed in 0..32 {
        let mut draw = Draw(seed * 2 + 5);
        let count = [1, 2, 4][draw.below(3) as usize];
        let (is_transposed, is_generic) = (draw.below(2) == 0, draw.below(2) == 0);
        let mut places: Vec<u32> = (0..64).collect();
        (1..64).rev().for_each(|at| places.swap(at, draw.below(at as u32 + 1) as usize));
        let values: Vec<u32> = (0..128).map(|_| draw.bits()).collect();
        let registers = ["%r10", "%r10, %r11", "%r10, %r11, %r12, %r13"][count / 2];
        let (suffix, space) = (if is_transposed { ".trans" } else { "" }, if is_generic { "" } else { ".shared" });
        let address = if is_generic { "cvta.shared.u64 %rd9, %rd8;" } else { "mov.u64 %rd9, %rd8;" };
        // The places come after the values, and the shared memory is copied out as it is.
        let body = format!(
            ".shared .align 16 .b8 s[1024]; mul.wide.u32 %rd5, %r0, 16; add.s64 %rd6, %rd0, %rd5; mov.u64 %rd7, s;\n\
             ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd6]; mul.wide.u32 %rd10, %r0, 4; add.s64 %rd11, %rd0, %rd10;\n\
             mad.wide.u32 %rd12, %r0, 32, %rd7; mov.u32 %r14, 0;\n\
             st.shared.v4.u32 [%rd12], {{%r14, %r14, %r14, %r14}}; st.shared.v4.u32 [%rd12+16], {{%r14, %r14, %r14, %r14}};\n\
             ld.global.u32 %r15, [%rd11+512]; mad.wide.u32 %rd8, %r15, 16, %rd7; {address} bar.sync 0;\n\
             stmatrix.sync.aligned.m8n8.x{count}{suffix}{space}.b16 [%rd9], {{{registers}}}; bar.sync 0;\n\
             mul.wide.u32 %rd13, %r0, 32; add.s64 %rd14, %rd1, %rd13; ld.shared.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd12];\n\
             st.global.v4.u32 [%rd14], {{%r20, %r21, %r22, %r23}}; ld.shared.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd12+16];\n\
             st.global.v4.u32 [%rd14+16], {{%r20, %r21, %r22, %r23}};\n\
             movmatrix.sync.aligned.m8n8.trans.b16 %r16, %r10; add.s64 %rd15, %rd1, %rd10; st.global.u32 [%rd15+1024], %r16;"
        );
        let input: Vec<u32> = values.iter().chain(&places[..32]).copied().collect();
        let outputs = compute(32, &input, 288, &body).unwrap_or_else(|trap| panic!("{trap}\n{body}"));
        let element = |matrix: usize, row: usize, column: usize| {
            (values[4 * (4 * row + column / 2) + matrix] >> (16 * (column % 2))) as u16
        };
        let mut expected = vec![0u16; 512];
        for matrix in 0..count {
            for (row, column) in (0..64).map(|at| (at / 8, at % 8)) {
                let place = 8 * places[8 * matrix + row] as usize + column;
                expected[place] =
                    if is_transposed { element(matrix, column, row) } else { element(matrix, row, column) };
            }
        }
        let found: Vec<u16> = outputs[..256].iter().flat_map(|word| [*word as u16, (*word >> 16) as u16]).collect();
        assert_eq!(found, expected, "seed {seed}\n{body}");
        for lane in 0..32 {
            let (row, column) = (lane / 4, lane % 4 * 2);
            let expected = u32::from(element(0, column, row)) | u32::from(element(0, column + 1, row)) << 16;
            assert_eq!(outputs[256 + lane], expected, "seed {seed}, lane {lane}");
        }
    }
    let half = "setp.gt.u32 %p1, %r0, 15; @%p1 bra $end; movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;\n$end:";
    let trap = compute(32, &[0], 1, half).unwrap_err();
    assert!(trap.to_string().contains("a transposition of a matrix in which not all lanes"), "{trap}");
    let unaligned = ".shared .align 16 .b8 s[64]; stmatrix.sync.aligned.m8n8.x1.shared.b16 [s+8], %r0;";
    assert!(compute(32, &[0], 1, unaligned).unwrap_err().to_string().contains("not aligned"));
}
