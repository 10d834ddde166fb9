//! Races of drawn programs: warps of two blocks load and store words, and wait for each other in all ways that there
//! are. A reference with a clock for each thread knows which accesses nothing orders; each report has to be one of
//! these, and each word that has a race has to be reported. Shadow memory keeps two reads of a word, so a race with a
//! third one can be missed where warps have barriers of their own: seed 1,893 is one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use vireo_ptx::Kernel;
use vireo_simt::sanitize::{BlockInfo, Code, Finding, Limits, NewDispatch, Place, Report, Sanitizer, Site};

use crate::support::{Buffers, kernel, load, run_watched};

const WARPS: usize = 3;
/// The last warp has few lanes.
const THREADS: usize = 72;
const BLOCKS: usize = 2;
const WORDS: u32 = 6;
const PROGRAMS: u64 = 800;

struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % limit
    }

    /// Lanes of a warp: all, few, or one.
    fn lanes(&mut self) -> u32 {
        match self.below(4) {
            0 => u32::MAX,
            1 => 1 << self.below(32),
            _ => self.0.rotate_left(17) as u32 & (self.0 >> 5) as u32 | 1 << self.below(8),
        }
    }
}

/// The lanes of each warp that run a step.
type Masks = [u32; WARPS];

#[derive(Clone, Copy, Debug)]
enum Step {
    Access {
        word: u32,
        is_store: bool,
        is_shared: bool,
        masks: Masks,
    },
    Barrier,
    /// Two warps meet at a barrier of their own; the first one does not wait if the last value is false.
    Meet(usize, usize, bool),
    /// Lanes of each warp meet, by a barrier or by a vote.
    Lanes(Masks, bool),
}

/// The lanes that a block has in a warp.
fn present(warp: usize) -> u32 {
    if warp + 1 < WARPS { u32::MAX } else { (1 << (THREADS % 32)) - 1 }
}

fn threads(masks: Masks) -> impl Iterator<Item = usize> {
    (0..THREADS).filter(move |thread| masks[thread / 32] >> (thread % 32) & 1 == 1)
}

/// A step of a program. A careful one has many barriers, and nothing in global memory.
fn step(draw: &mut Draw, is_careful: bool) -> Step {
    match draw.below(16) {
        0 => Step::Barrier,
        4..11 if is_careful => Step::Barrier,
        1 => {
            let first = draw.below(WARPS as u32) as usize;
            Step::Meet(first, (first + 1 + draw.below(2) as usize) % WARPS, draw.below(2) == 0)
        }
        2 | 3 => {
            let masks =
                std::array::from_fn(
                    |warp| if draw.below(2) == 0 { present(warp) } else { draw.lanes() & present(warp) },
                );
            Step::Lanes(masks, draw.below(2) == 0)
        }
        kind => {
            let is_store = kind % 3 == 0;
            let mut masks = [0; WARPS];
            // A store to one word by two lanes of an instruction is a bug of another kind.
            for (warp, mask) in masks.iter_mut().enumerate() {
                let lane = 1 << draw.below(8);
                let lanes = if is_store { lane } else { draw.lanes() };
                *mask = if draw.below(2) == 0 { lanes & present(warp) } else { 0 };
            }
            Step::Access { word: draw.below(WORDS), is_store, is_shared: is_careful || draw.below(3) != 0, masks }
        }
    }
}

/// The kernel, and for each step the line of its access.
fn write_kernel(steps: &[Step]) -> String {
    let mut body = ".shared .align 4 .b8 s[64]; mov.u32 %r1, %laneid; shr.u32 %r2, %r0, 5; mov.u32 %r9, %ctaid.x;\n\
                    mov.u32 %r3, 1; shl.b32 %r3, %r3, %r1; mul.lo.u32 %r8, %r9, 1000; add.u32 %r8, %r8, %r0;\n"
        .to_string();
    // Each meeting of two warps has a barrier of its own, as a third one may be ahead.
    let mut barrier = 0;
    for (index, step) in steps.iter().enumerate() {
        let mut guard = |masks: Masks| {
            for (warp, mask) in masks.iter().enumerate() {
                let first = if warp == 0 { "mov.u32 %r4, 0; " } else { "" };
                write!(body, "{first}setp.eq.u32 %p1, %r2, {warp}; selp.b32 %r4, {}, %r4, %p1; ", *mask as i32)
                    .unwrap();
            }
            body += "and.b32 %r5, %r4, %r3; setp.ne.u32 %p2, %r5, 0;\n";
        };
        match *step {
            Step::Access { word, is_store, is_shared, masks } => {
                guard(masks);
                let (space, place) = if is_shared { ("shared", "s") } else { ("global", "%rd0") };
                writeln!(body, "add.u32 %r6, %r8, {};", (index + 1) * 10_000).unwrap();
                match is_store {
                    true => writeln!(body, "@%p2 st.{space}.u32 [{place}+{}], %r6; // {index}", 4 * word).unwrap(),
                    false => writeln!(body, "@%p2 ld.{space}.u32 %r7, [{place}+{}]; // {index}", 4 * word).unwrap(),
                }
            }
            Step::Barrier => body += "bar.sync 0;\n",
            Step::Meet(first, second, waits) => {
                barrier += 1;
                let kind = if waits { "sync" } else { "arrive" };
                writeln!(
                    body,
                    "setp.ne.u32 %p1, %r2, {first}; @%p1 bra $a{index}; bar.{kind} {barrier}, 64;\n$a{index}:\n\
                     setp.ne.u32 %p1, %r2, {second}; @%p1 bra $b{index}; bar.sync {barrier}, 64;\n$b{index}:"
                )
                .unwrap();
            }
            Step::Lanes(masks, is_vote) => {
                guard(masks);
                match is_vote {
                    true => body += "@%p2 vote.sync.any.pred %p3, %p1, %r4;\n",
                    false => body += "@%p2 bar.warp.sync %r4;\n",
                }
            }
        }
    }
    kernel(1, &body)
}

/// An access of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Access {
    step: usize,
    block: usize,
    thread: usize,
    is_store: bool,
    clock: u32,
}

/// The words with races, and the pairs of accesses that nothing orders, the later one first.
type Races = (BTreeSet<(bool, usize, u32)>, BTreeSet<[(usize, usize, usize); 2]>);

/// For each thread, how much of each other one it knows.
fn reference(steps: &[Step]) -> Races {
    let mut accesses: BTreeMap<(bool, usize, u32), Vec<Access>> = BTreeMap::new();
    let (mut words, mut pairs) = (BTreeSet::new(), BTreeSet::new());
    for block in 0..BLOCKS {
        let mut clocks = vec![[0u32; THREADS]; THREADS];
        (0..THREADS).for_each(|thread| clocks[thread][thread] = 1);
        let join = |clocks: &mut Vec<[u32; THREADS]>, from: &[usize], to: &[usize]| {
            let mut all = [0; THREADS];
            for thread in from {
                all.iter_mut().zip(&clocks[*thread]).for_each(|(all, one)| *all = (*all).max(*one));
            }
            for thread in to {
                clocks[*thread].iter_mut().zip(&all).for_each(|(one, all)| *one = (*one).max(*all));
            }
            from.iter().for_each(|thread| clocks[*thread][*thread] += 1);
        };
        for (index, step) in steps.iter().enumerate() {
            match *step {
                Step::Barrier => {
                    let all: Vec<usize> = (0..THREADS).collect();
                    join(&mut clocks, &all, &all);
                }
                Step::Meet(first, second, waits) => {
                    let of = |warp: usize| (0..THREADS).filter(move |thread| thread / 32 == warp);
                    let both: Vec<usize> = of(first).chain(of(second)).collect();
                    let to: Vec<usize> = if waits { both.clone() } else { of(second).collect() };
                    join(&mut clocks, &both, &to);
                }
                Step::Lanes(masks, _) => {
                    for warp in 0..WARPS {
                        let mut of_warp = [0; WARPS];
                        of_warp[warp] = masks[warp];
                        let members: Vec<usize> = threads(of_warp).collect();
                        join(&mut clocks, &members, &members);
                    }
                }
                Step::Access { word, is_store, is_shared, masks } => {
                    let key = (is_shared, if is_shared { block } else { 0 }, word);
                    let before = accesses.entry(key).or_default();
                    for thread in threads(masks) {
                        let mine = Access { step: index, block, thread, is_store, clock: clocks[thread][thread] };
                        for other in before.iter() {
                            let is_ordered = other.block == block
                                && (other.thread == thread || clocks[thread][other.thread] >= other.clock);
                            if !is_ordered && (is_store || other.is_store) {
                                words.insert(key);
                                let place = |access: &Access| (access.step, access.block, access.thread);
                                pairs.insert([place(&mine), place(other)]);
                                pairs.insert([place(other), place(&mine)]);
                            }
                        }
                        before.push(mine);
                    }
                }
            }
        }
    }
    (words, pairs)
}

struct Drawn(Kernel);

impl Code for Drawn {
    fn kernel(&self) -> &str {
        self.0.name()
    }

    fn place(&self, instruction: u64) -> Place {
        Place { address: self.0.line(instruction).map_or(0, |found| found.line.into()), ..Place::default() }
    }

    fn has_free_lanes(&self) -> bool {
        true
    }
}

/// The findings of a program.
pub fn findings(text: &str, buffers: &Buffers, data: u64) -> Vec<Report> {
    let module = load(text);
    let kernel = module.kernel("k").expect("the kernel");
    let sanitizer = Sanitizer::new("race".parse().expect("a check"), Limits::default(), None);
    let what = "memory".to_string();
    sanitizer.allocated(BlockInfo { start: data, length: 64, padding: 0, reserved: 64, poisoned: false, what });
    let (code, groups) = (Arc::new(Drawn(kernel.clone())), [BLOCKS as u32, 1, 1]);
    let dispatch = NewDispatch { code, queue: 1, packet: 0, groups, waves: WARPS as u32 };
    let dispatch = sanitizer.begin_after(dispatch, &vireo_simt::sanitize::Known::default());
    let hook = sanitizer.hook(&dispatch, buffers);
    let shape = (groups, [THREADS as u32, 1, 1]);
    run_watched(kernel, buffers, shape, &[data], &[], 1 << 20, Some(&hook))
        .unwrap_or_else(|trap| panic!("{trap}\n{text}"));
    sanitizer.take_reports()
}

#[test]
fn races_of_drawn_programs_are_those_that_a_reference_knows() {
    let (mut racy, mut reported) = (0, 0);
    for seed in 0..PROGRAMS {
        let mut draw = Draw(seed * 2 + 1);
        let count = 4 + draw.below(28) as usize;
        let mut steps: Vec<Step> = (0..count).map(|_| step(&mut draw, seed % 2 == 0)).collect();
        let meetings = steps.iter_mut().filter(|step| matches!(step, Step::Meet(..)));
        meetings.skip(15).for_each(|step| *step = Step::Barrier);
        let text = write_kernel(&steps);
        let (words, pairs) = reference(&steps);
        racy += usize::from(!words.is_empty());
        let mut buffers = Buffers::new();
        let data = buffers.add_words(&[0; 16]);
        let reports = findings(&text, &buffers, data);
        let step_of = |site: &Site| {
            let line = text.lines().nth(site.place.address as usize - 1).expect("a line");
            line.rsplit_once("// ").expect("a number").1.parse::<usize>().expect("a number")
        };
        let place = |site: &Site| {
            let thread = site.wave as usize * 32 + site.lane.expect("a lane") as usize;
            (step_of(site), site.group[0] as usize, thread)
        };
        let mut found = BTreeSet::new();
        for report in &reports {
            assert!(matches!(report.finding, Finding::Race | Finding::GroupRace), "seed {seed}: {report}\n{text}");
            let (site, other) = (report.site.as_ref().expect("a site"), report.other.as_ref().expect("another"));
            let pair = [place(site), place(&other.site)];
            assert!(pairs.contains(&pair), "seed {seed}: no race: {report}\n{text}");
            found.insert(step_of(site));
        }
        reported += reports.len();
        for (is_shared, block, word) in words {
            let is_found = found.iter().any(|index| {
                matches!(steps[*index], Step::Access { word: other, is_shared: space, .. } if (space, other) == (is_shared, word))
            });
            assert!(
                is_found,
                "seed {seed}: the race at word {word} of block {block} is missing, shared: {is_shared}\n{text}"
            );
        }
    }
    assert!((PROGRAMS as usize / 3..PROGRAMS as usize * 4 / 5).contains(&racy), "{racy} programs have races");
    println!("{racy} of {PROGRAMS} programs have races, with {reported} findings");
}

/// Two threads of each warp of two blocks count in one word, in global or shared memory, with a lock or without one.
fn counting(space: &str, is_locked: bool) -> (u32, Vec<Report>) {
    let place = |offset: u32| match space {
        "shared" => format!("[s+{offset}]"),
        _ => format!("[%rd0+{offset}]"),
    };
    let (lock, count) = (place(0), place(4));
    let (take, give) = match is_locked {
        true => (
            format!("$take: atom.{space}.cas.b32 %r1, {lock}, 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra $take;\n"),
            format!("membar.gl; atom.{space}.exch.b32 %r1, {lock}, 0;\n"),
        ),
        false => (String::new(), String::new()),
    };
    let body = format!(
        ".shared .align 4 .b8 s[64]; setp.ne.u32 %p2, %r0, 0; @%p2 bra $go; st.shared.u32 [s], 0; st.shared.u32 [s+4], 0;\n\
         $go: bar.sync 0;\nand.b32 %r5, %r0, 31; setp.ge.u32 %p3, %r5, 2; @%p3 bra $skip;\n{take}ld.{space}.u32 %r2, {count}; add.u32 %r2, %r2, 1; st.{space}.u32 {count}, %r2;\n{give}\
         $skip: bar.sync 0; @%p2 bra $end; ld.{space}.u32 %r3, {count}; atom.global.add.u32 %r4, [%rd0+8], %r3;\n$end:"
    );
    let mut buffers = Buffers::new();
    let data = buffers.add_words(&[0; 16]);
    let reports = findings(&kernel(1, &body), &buffers, data);
    (buffers.words(data)[2], reports)
}

#[test]
fn a_lock_orders_lanes_warps_and_blocks() {
    let (count, reports) = counting("shared", true);
    assert_eq!((count as usize, reports.len()), (BLOCKS * WARPS * 2, 0), "{reports:?}");
    let (_, reports) = counting("global", true);
    // The last load of the first block is not under the lock.
    let only = reports.iter().all(|report| report.count == 1 && report.finding == Finding::Race);
    assert!(reports.len() <= 1 && only, "{reports:?}");
    for space in ["shared", "global"] {
        let (_, reports) = counting(space, false);
        assert!(!reports.is_empty(), "{space}");
    }
}

/// A lane that polls what another lane of its warp stores knows what that one did before.
#[test]
fn a_flag_orders_lanes_of_a_warp() {
    for (kind, is_found) in [("volatile", false), ("release", false), ("weak", true)] {
        let (store, load) = match kind {
            "volatile" => ("st.volatile.global.u32", "ld.volatile.global.u32"),
            "release" => ("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32"),
            _ => ("st.global.u32", "ld.global.u32"),
        };
        let body = format!(
            ".shared .align 4 .b8 s[64]; setp.ne.u32 %p1, %r0, 0; @%p1 bra $wait;\n\
             st.shared.u32 [s], 5; {store} [%rd0], 1; bra $end;\n\
             $wait: setp.ne.u32 %p2, %r0, 1; @%p2 bra $end;\n\
             $again: {load} %r1, [%rd0]; setp.eq.u32 %p2, %r1, 0; @%p2 bra $again;\n\
             ld.shared.u32 %r2, [s]; st.global.u32 [%rd0+4], %r2;\n$end:"
        );
        let mut buffers = Buffers::new();
        let data = buffers.add_words(&[0; 16]);
        let reports = findings(&kernel(1, &body), &buffers, data);
        let of_data = reports.iter().any(|report| report.finding == Finding::GroupRace);
        assert_eq!(of_data, is_found, "{kind}: {reports:?}");
    }
}

/// Lanes that return before a barrier, or come to it later, are not elsewhere; those that go on without it are.
#[test]
fn lanes_that_skip_a_barrier_are_found() {
    let later = "$more: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r0; @%p1 bra $more;\nbar.sync 0;";
    let cases = [
        ("setp.ge.u32 %p1, %r0, 16; @%p1 bra $end;\nbar.sync 0;\n$end:", false),
        ("setp.ge.u32 %p1, %r0, 16; @%p1 ret;\nbar.sync 0;", false),
        (later, false),
        ("setp.ge.u32 %p1, %r0, 16; @%p1 bra $end;\nbar.sync 0;\n$end: st.global.u32 [%rd0], 1;", true),
        ("setp.ge.u32 %p1, %r0, 16; @%p1 bra $end;\nbarrier.sync 0;\n$end: st.global.u32 [%rd0], 1;", false),
    ];
    for (body, is_found) in cases {
        let mut buffers = Buffers::new();
        let data = buffers.add_words(&[0; 16]);
        let reports = findings(&kernel(1, &format!("mov.u32 %r1, 0; {body}")), &buffers, data);
        let found = reports.iter().any(|report| report.finding == Finding::DivergentBarrier);
        assert_eq!(found, is_found, "{body}: {reports:?}");
    }
}
