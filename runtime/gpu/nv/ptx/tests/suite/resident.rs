//! Blocks that wait for each other, and kernels that never end.

use std::num::NonZeroUsize;
use std::time::Duration;

use vireo_ptx::{Launch, MOST_RESIDENT, Trap, TrapKind};
use vireo_simt::{Pool, Stop};

use crate::support::{Buffers, kernel, load};

/// How the blocks of a launch are alive.
#[derive(Clone, Copy)]
struct Alive {
    blocks: u32,
    threads: u32,
    resident: u64,
    is_cooperative: bool,
    /// Threads of the host.
    cores: usize,
}

/// Launches a kernel with one buffer, and stops it after a time if there is one.
fn launch(body: &str, words: &[u32], alive: Alive, time: Option<Duration>) -> Result<Vec<u32>, Trap> {
    let module = load(&kernel(1, body));
    let mut buffers = Buffers::new();
    let data = buffers.add_words(words);
    let (stop, pool) = (Stop::default(), Pool::default());
    let launch = Launch {
        params: &data.to_le_bytes(),
        resident: alive.resident,
        is_cooperative: alive.is_cooperative,
        threads: NonZeroUsize::new(alive.cores).unwrap(),
        ..Launch::new([alive.blocks, 1, 1], [alive.threads, 1, 1], &buffers, &stop, &pool)
    };
    std::thread::scope(|scope| {
        if let Some(time) = time {
            let stop = &stop;
            scope.spawn(move || {
                std::thread::sleep(time);
                stop.request();
            });
        }
        module.kernel("k").unwrap().launch(&launch)
    })?;
    Ok(buffers.words(data)[..words.len()].to_vec())
}

const COOPERATIVE: Alive = Alive { blocks: 40, threads: 64, resident: 1, is_cooperative: true, cores: 1 };

/// A barrier of all blocks: the first thread of each counts in the first word, and polls it.
fn grid_barrier(poll: &str) -> String {
    format!(
        "bar.sync 0; setp.ne.u32 %p10, %r0, 0; @%p10 bra W; membar.gl; atom.global.add.u32 %r50, [%rd0], 1;\n\
         P: {poll} %r51, [%rd0]; setp.lt.u32 %p11, %r51, %r60; @%p11 bra P; membar.gl;\n\
         W: bar.sync 0;"
    )
}

#[test]
fn blocks_meet_at_barriers_of_the_grid() {
    // In each of six iterations a block adds the word of the next block to its own, and all wait before and after.
    let blocks = COOPERATIVE.blocks;
    for poll in ["ld.volatile.global.u32", "ld.acquire.gpu.global.u32", "ld.relaxed.gpu.global.u32"] {
        let barrier = |label: &str| {
            let text = grid_barrier(poll).replace("P:", &format!("P{label}:")).replace("W:", &format!("W{label}:"));
            text.replace("bra P;", &format!("bra P{label};")).replace("bra W;", &format!("bra W{label};"))
        };
        let body = format!(
            "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mov.u32 %r60, %r2; mov.u32 %r3, 0;\n\
             add.u32 %r4, %r1, 1; rem.u32 %r4, %r4, %r2; mul.wide.u32 %rd1, %r1, 4; mul.wide.u32 %rd2, %r4, 4;\n\
             add.s64 %rd1, %rd1, %rd0; add.s64 %rd2, %rd2, %rd0; setp.eq.u32 %p1, %r0, 0;\n\
             L: ld.volatile.global.u32 %r5, [%rd2+4]; ld.volatile.global.u32 %r6, [%rd1+4]; add.u32 %r5, %r5, %r6;\n\
             {}\n add.u32 %r60, %r60, %r2; @%p1 st.global.u32 [%rd1+4], %r5;\n{}\n add.u32 %r60, %r60, %r2;\n\
             add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 6; @%p2 bra L;",
            barrier("1"),
            barrier("2"),
        );
        let mut words: Vec<u32> = (0..=blocks).map(|word| word * word % 17).collect();
        words[0] = 0;
        let mut expected = words[1..].to_vec();
        for _ in 0..6 {
            let last = expected.clone();
            (0..blocks as usize).for_each(|at| expected[at] += last[(at + 1) % blocks as usize]);
        }
        for cores in [1, 3] {
            let found =
                launch(&body, &words, Alive { cores, ..COOPERATIVE }, None).unwrap_or_else(|trap| panic!("{trap}"));
            assert_eq!(found[1..], expected, "{poll} with {cores} threads");
            assert_eq!(found[0], blocks * 12);
        }
    }
}

/// Each block waits for the word of another one, which is `other`, and then sets its own.
fn chain(first: &str, other: &str) -> String {
    format!(
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %rd1, %rd0;\n\
         mov.u32 %r5, 0; {first} @%p1 bra D; setp.ne.u32 %p2, %r0, 0; @%p2 bra D;\n\
         P: ld.volatile.global.u32 %r5, [{other}]; setp.eq.u32 %p2, %r5, 0; @%p2 bra P;\n\
         D: bar.sync 0; setp.ne.u32 %p2, %r0, 0; @%p2 bra E; add.u32 %r5, %r5, 1; st.volatile.global.u32 [%rd1], %r5; E:"
    )
}

#[test]
fn a_block_waits_for_an_earlier_one() {
    // The chain of a decoupled look-back: a block of any number of those before it may be alive.
    let body = chain("setp.eq.u32 %p1, %r1, 0;", "%rd1+-4");
    for (resident, cores) in [(1, 1), (1, 3), (8, 2)] {
        let alive = Alive { resident, cores, is_cooperative: false, ..COOPERATIVE };
        assert_eq!(launch(&body, &[0; 40], alive, None), Ok((1..=40).collect::<Vec<u32>>()), "{resident} {cores}");
    }
}

#[test]
fn a_block_waits_for_a_later_one_that_can_be_alive() {
    let body = chain("sub.u32 %r3, %r2, 1; setp.eq.u32 %p1, %r1, %r3;", "%rd1+4");
    let alive = Alive { resident: 40, is_cooperative: false, ..COOPERATIVE };
    let expected = (1..=40).rev().collect::<Vec<u32>>();
    for cores in [1, 3] {
        assert_eq!(launch(&body, &[0; 40], Alive { cores, ..alive }, None), Ok(expected.clone()));
    }
    // Hardware with room for 39 blocks would hang as well.
    let stopped = launch(&body, &[0; 40], Alive { resident: 39, ..alive }, Some(Duration::from_millis(100)));
    assert_eq!(stopped.map_err(|trap| trap.kind), Err(TrapKind::Stopped));
}

#[test]
fn a_kernel_that_never_ends_is_stopped() {
    let bodies = [
        "L: bra L;",
        // Lanes part and meet.
        "and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0;\nL: @%p1 bra A; add.u32 %r2, %r2, 1; bra B; A: add.u32 %r2, %r2, 2; B: bra L;",
        "L: bar.sync 0; bra L;",
        "and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 %r3, 1; L: redux.sync.add.u32 %r2, %r0, -1; @%p1 bra L; bra L;",
        // No lane ever frees the lock.
        "L: atom.global.cas.b32 %r2, [%rd0], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L; M: bra M;",
        "L: ld.volatile.global.u32 %r2, [%rd0]; bar.warp.sync -1; bra L;",
    ];
    for body in bodies {
        for alive in [COOPERATIVE, Alive { resident: 3, is_cooperative: false, cores: 2, ..COOPERATIVE }] {
            let stopped = launch(body, &[0; 2], alive, Some(Duration::from_millis(20)));
            assert_eq!(stopped.map_err(|trap| trap.kind), Err(TrapKind::Stopped), "{body}");
        }
    }
}

#[test]
fn blocks_that_need_too_much_memory_together_are_refused() {
    let body = ".shared .b8 s[40000]; mov.u32 %r1, s; st.shared.u32 [%r1], %r0;";
    let module = load(&kernel(1, body));
    let bytes = module.kernel("k").unwrap().block_bytes(64, 0);
    assert!((40_000..80_000).contains(&bytes), "{bytes}");
    let blocks = u32::try_from(MOST_RESIDENT / bytes).unwrap() + 1;
    let trap = launch(body, &[0; 2], Alive { blocks, ..COOPERATIVE }, None).unwrap_err();
    let expected = format!("{blocks} blocks of {bytes} bytes: expected {MOST_RESIDENT} together at most");
    assert!(matches!(&trap.kind, TrapKind::InvalidDispatch(why) if *why == expected), "{trap}");
}
