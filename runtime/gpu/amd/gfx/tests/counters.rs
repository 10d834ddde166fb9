//! Counters, against kernels that are drawn with the counts of their instructions: instructions of each kind, loops of
//! drawn lengths, and branches around hints and other code.

mod common;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use common::{Bare, Buffer, Buffers, push};
use vireo_gfx::isa::{COUNTERS, Field};
use vireo_gfx::{
    Counts, Encoding, GridDispatch, HalfSums, KernelRegisters, Program, run, run_counted, vector_registers,
};
use vireo_simt::{Pool, Stop};

/// The counters of an instruction of each kind, as the vendor's profiler describes them.
const VALU: &[&str] = &["SQ_INSTS_VALU", "SQ_INSTS_WAVE32", "SQ_INSTS_WAVE32_VALU"];
const SALU: &[&str] = &["SQ_INSTS_SALU"];
const SMEM: &[&str] = &["SQ_INSTS_SMEM"];
const LDS: &[&str] = &["SQ_INSTS_LDS", "SQ_INSTS_WAVE32", "SQ_INSTS_WAVE32_LDS"];
const FLAT: &[&str] = &["SQ_INSTS_LDS", "SQ_INSTS_FLAT", "SQ_INSTS_WAVE32"];
const LOAD: &[&str] = &["SQ_INSTS_TEX_LOAD", "SQ_INSTS_WAVE32"];
const STORE: &[&str] = &["SQ_INSTS_TEX_STORE", "SQ_INSTS_WAVE32"];
const CONTROL: &[&str] = &[];

type Fields = &'static [(Field, u32)];

const NONE: Fields = &[];
/// `v1`, in a field of sources.
const V1: u32 = 256 + 1;
/// 0 and 1 in a field of sources.
const ZERO: u32 = 128;
const ONE: u32 = 129;
const LITERAL: u32 = 255;

/// Name, encoding, fields, literal, counters.
type Instruction = (&'static str, Encoding, Fields, Option<u32>, &'static [&'static str]);

/// Instructions that may be anywhere. The buffer is at `s[0:1]`; v20 is 0,
/// and v[22:23] are the address of the buffer.
#[rustfmt::skip]
const INSTRUCTIONS: &[Instruction] = &[
    ("v_mov_b32", Encoding::Vop1, &[(Field::Vdst, 1), (Field::Src0, ONE)], None, VALU),
    ("v_mov_b32", Encoding::Vop1, &[(Field::Vdst, 2), (Field::Src0, LITERAL)], Some(77), VALU),
    ("v_add_f32", Encoding::Vop2, &[(Field::Vdst, 3), (Field::Src0, V1), (Field::Vsrc1, 2)], None, VALU),
    ("v_add_f32", Encoding::Vop3, &[(Field::Vdst, 3), (Field::Src0, V1), (Field::Src1, V1)], None, VALU),
    ("v_cmp_eq_u32", Encoding::Vopc, &[(Field::Src0, V1), (Field::Vsrc1, 2)], None, VALU),
    ("v_add_co_u32", Encoding::Vop3sd, &[(Field::Vdst, 4), (Field::Sdst, 106), (Field::Src0, V1), (Field::Src1, V1)], None, VALU),
    ("v_pk_add_u16", Encoding::Vop3p, &[(Field::Vdst, 5), (Field::Src0, V1), (Field::Src1, V1)], None, VALU),
    ("v_readfirstlane_b32", Encoding::Vop1, &[(Field::Vdst, 30), (Field::Src0, V1)], None, VALU),
    ("v_nop", Encoding::Vop1, NONE, None, VALU),
    // Two instructions that are one, whose second reads what the first writes.
    ("v_add_f32", Encoding::Vopd, &[(Field::Vdst, 6), (Field::Src0, V1), (Field::Vsrc1, 2), (Field::OpY, 4), (Field::VdstY, 4), (Field::Src0Y, 256 + 6), (Field::Vsrc1Y, 3)], None, VALU),
    ("v_add_f32", Encoding::Vopd, &[(Field::Vdst, 6), (Field::Src0, V1), (Field::Vsrc1, 2), (Field::OpY, 4), (Field::VdstY, 4), (Field::Src0Y, V1), (Field::Vsrc1Y, 3)], None, VALU),
    ("s_mov_b32", Encoding::Sop1, &[(Field::Sdst, 40), (Field::Ssrc0, ONE)], None, SALU),
    ("s_add_u32", Encoding::Sop2, &[(Field::Sdst, 41), (Field::Ssrc0, 40), (Field::Ssrc1, LITERAL)], Some(5), SALU),
    ("s_cmp_eq_u32", Encoding::Sopc, &[(Field::Ssrc0, 40), (Field::Ssrc1, ONE)], None, SALU),
    ("s_movk_i32", Encoding::Sopk, &[(Field::Sdst, 42), (Field::Simm16, 9)], None, SALU),
    ("s_load_b32", Encoding::Smem, &[(Field::Sbase, 0), (Field::Sdata, 43), (Field::Soffset, 124)], None, SMEM),
    ("s_dcache_inv", Encoding::Smem, NONE, None, SMEM),
    ("ds_load_b32", Encoding::Ds, &[(Field::Addr, 20), (Field::Vdst, 8)], None, LDS),
    ("ds_store_b32", Encoding::Ds, &[(Field::Addr, 20), (Field::Data0, 1)], None, LDS),
    ("ds_bpermute_b32", Encoding::Ds, &[(Field::Addr, 20), (Field::Data0, 1), (Field::Vdst, 9)], None, LDS),
    ("global_load_b32", Encoding::Global, &[(Field::Addr, 20), (Field::Saddr, 0), (Field::Vdst, 10)], None, LOAD),
    ("global_store_b32", Encoding::Global, &[(Field::Addr, 20), (Field::Saddr, 0), (Field::Data0, 1)], None, STORE),
    ("global_atomic_add_u32", Encoding::Global, &[(Field::Addr, 20), (Field::Saddr, 0), (Field::Data0, 1)], None, STORE),
    ("global_atomic_add_u32", Encoding::Global, &[(Field::Addr, 20), (Field::Saddr, 0), (Field::Data0, 1), (Field::Vdst, 11), (Field::Glc, 1)], None, LOAD),
    ("scratch_load_b32", Encoding::Scratch, &[(Field::Saddr, 124), (Field::Vdst, 12)], None, LOAD),
    ("scratch_store_b32", Encoding::Scratch, &[(Field::Saddr, 124), (Field::Data0, 1)], None, STORE),
    ("flat_load_b32", Encoding::Flat, &[(Field::Addr, 22), (Field::Vdst, 13)], None, FLAT),
    ("flat_store_b32", Encoding::Flat, &[(Field::Addr, 22), (Field::Data0, 1)], None, FLAT),
    ("buffer_gl0_inv", Encoding::Mubuf, NONE, None, CONTROL),
    ("s_nop", Encoding::Sopp, NONE, None, CONTROL),
    ("s_waitcnt", Encoding::Sopp, NONE, None, CONTROL),
    ("s_waitcnt_vscnt", Encoding::Sopk, &[(Field::Sdst, 124)], None, CONTROL),
    ("s_delay_alu", Encoding::Sopp, NONE, None, CONTROL),
    ("s_barrier", Encoding::Sopp, NONE, None, CONTROL),
];

/// A kernel that is drawn, and how often each counter counts in a wave.
struct Drawn {
    state: u64,
    code: Vec<u32>,
    expected: BTreeMap<&'static str, u64>,
}

impl Drawn {
    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % limit
    }

    /// Appends an instruction that is executed `times`.
    fn push(&mut self, name: &str, encoding: Encoding, fields: &[(Field, u32)], literal: Option<u32>) {
        push(&mut self.code, name, encoding, fields, literal);
    }

    fn count(&mut self, counters: &[&'static str], times: u64) {
        for counter in counters.iter().chain(&["SQ_WAVE32_INSTS"]) {
            *self.expected.entry(counter).or_default() += times;
        }
    }

    fn one(&mut self, times: u64) {
        let (name, encoding, fields, literal, counters) = INSTRUCTIONS[self.below(INSTRUCTIONS.len() as u64) as usize];
        self.push(name, encoding, fields, literal);
        self.count(counters, times);
    }

    /// Patches a branch to go to the end of the code so far, or to a word before.
    fn patch(&mut self, branch: usize, target: usize) {
        let words = target as i64 - branch as i64 - 1;
        self.code[branch] |= u32::from(words as i16 as u16);
    }

    fn branch(&mut self, name: &str, times: u64) -> usize {
        self.push(name, Encoding::Sopp, NONE, None);
        self.count(CONTROL, times);
        self.code.len() - 1
    }

    fn block(&mut self, times: u64, depth: u32) {
        for _ in 0..self.below(8) {
            match self.below(8) {
                0 if depth < 3 => self.repeat(times, depth),
                1 if depth < 3 => self.skip(times, depth),
                _ => self.one(times),
            }
        }
    }

    /// A loop of 1 to 5 iterations, whose first instruction may be a hint.
    fn repeat(&mut self, times: u64, depth: u32) {
        let (counter, iterations) = (50 + depth, 1 + self.below(5));
        let fields = [(Field::Sdst, counter), (Field::Simm16, iterations as u32)];
        self.push("s_movk_i32", Encoding::Sopk, &fields, None);
        self.count(SALU, times);
        let (start, inside) = (self.code.len(), times * iterations);
        self.block(inside, depth + 1);
        let fields = [(Field::Sdst, counter), (Field::Ssrc0, counter), (Field::Ssrc1, ONE)];
        self.push("s_sub_u32", Encoding::Sop2, &fields, None);
        self.count(SALU, inside);
        self.push("s_cmp_lg_u32", Encoding::Sopc, &[(Field::Ssrc0, counter), (Field::Ssrc1, ZERO)], None);
        self.count(SALU, inside);
        let branch = self.branch("s_cbranch_scc1", inside);
        self.patch(branch, start);
    }

    /// A branch around a block that is taken, or one that is not.
    fn skip(&mut self, times: u64, depth: u32) {
        let is_taken = self.below(2) == 1;
        self.push("s_cmp_eq_u32", Encoding::Sopc, &[(Field::Ssrc0, ONE), (Field::Ssrc1, ONE)], None);
        self.count(SALU, times);
        let branch = self.branch(if is_taken { "s_cbranch_scc1" } else { "s_cbranch_scc0" }, times);
        self.block(if is_taken { 0 } else { times }, depth + 1);
        self.patch(branch, self.code.len());
    }

    fn kernel(seed: u64) -> Drawn {
        let mut drawn = Drawn { state: seed, code: Vec::new(), expected: BTreeMap::new() };
        for (register, source) in [(20, ZERO), (22, 0), (23, 1)] {
            drawn.push("v_mov_b32", Encoding::Vop1, &[(Field::Vdst, register), (Field::Src0, source)], None);
            drawn.count(VALU, 1);
        }
        drawn.block(1, 0);
        drawn.block(1, 0);
        drawn.push("s_endpgm", Encoding::Sopp, NONE, None);
        drawn.count(CONTROL, 1);
        drawn
    }
}

/// Runs a kernel with and without counters; returns what was counted.
fn counted(code: &[u32], (groups, items): (u32, u16), threads: usize) -> Counts {
    let memory = Buffers(vec![Buffer::new(&[1; 256], true)]);
    let bare = Bare::new(code, &memory);
    let (descriptor, stop, pool) = (bare.descriptor(), Stop::default(), Pool::default());
    let vectors = vector_registers(&descriptor);
    let programs = [Program::decode_from(code, 0x1000, 0, vectors), Program::decode_counted(code, 0x1000, 0, vectors)];
    let [plain, with_counters] = programs.each_ref().map(|program| GridDispatch {
        program,
        descriptor: &descriptor,
        registers: KernelRegisters { kernarg: memory.0[0].address(), ..KernelRegisters::default() },
        grid: [groups * u32::from(items), 1, 1],
        work_group: [items, 1, 1],
        local_bytes: 256,
        scratch_bytes: 16,
        memory: &memory,
        half_sums: HalfSums::default(),
        hook: None,
        stop: &stop,
        limit: 1 << 20,
        threads: NonZeroUsize::new(threads).expect("a thread"),
        pool: &pool,
    });
    run(&plain).unwrap_or_else(|trap| panic!("{trap}"));
    assert!(run_counted(&plain).is_err(), "it was not decoded for counters");
    run_counted(&with_counters).unwrap_or_else(|trap| panic!("{trap}"))
}

#[test]
fn counters_count_what_drawn_kernels_execute() {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..400 {
        let mut drawn = Drawn::kernel(seed);
        let (groups, items) = (1 + drawn.below(5), 1 + drawn.below(200));
        let waves = groups * items.div_ceil(32);
        let threads = 1 + drawn.below(3) as usize;
        let counts = counted(&drawn.code, (groups as u32, items as u16), threads);
        for (counter, value) in COUNTERS.iter().zip(counts.0) {
            let expected = match counter.name {
                "SQ_WAVES" => waves,
                name => waves * drawn.expected.get(name).copied().unwrap_or(0),
            };
            assert_eq!(value, expected, "{} of the kernel of seed {seed}", counter.name);
            *seen.entry(counter.name).or_default() += value;
        }
    }
    assert!(seen.len() == COUNTERS.len() && seen.values().all(|value| *value > 0), "{seen:?}");
}

#[test]
fn the_guide_names_each_counter() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../docs/profiles.md");
    let guide = std::fs::read_to_string(guide).expect("the guide exists");
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `SQ_")?.split(" |").next());
    let mut named: Vec<String> = rows
        .flat_map(|names| names.split(", "))
        .map(|name| format!("SQ_{}", name.trim_matches('`').trim_start_matches("SQ_")))
        .collect();
    let mut known: Vec<&str> = COUNTERS.iter().map(|counter| counter.name).collect();
    named.sort();
    known.sort_unstable();
    assert_eq!(named, known);
}
