//! Code that cannot be executed: each wrong instruction traps with its name and address when a wave gets there, and no code makes the interpreter
//! panic.

mod common;

use std::num::NonZeroUsize;

use common::{Buffer, Buffers};
use vireo_gfx::{Dispatch, KernelRegisters, Program, run, vector_registers};
use vireo_hsa::kernel_descriptor::KernelDescriptor;
use vireo_simt::{Pool, Stop, Trap};

const CORPUS: &str = include_str!("corpus/instructions.txt");
const S_ENDPGM: u32 = 0xBFB0_0000;

fn descriptor() -> KernelDescriptor {
    let mut descriptor = KernelDescriptor::default();
    let registers = descriptor.compute_pgm_rsrc1.with_granulated_workitem_vgpr_count(7).expect("it fits");
    descriptor.compute_pgm_rsrc1 = registers;
    descriptor.compute_pgm_rsrc2 = descriptor.compute_pgm_rsrc2.with_user_sgpr_count(2).expect("it fits");
    let properties = descriptor.kernel_code_properties.with_enable_sgpr_kernarg_segment_ptr(true);
    descriptor.kernel_code_properties = properties.with_enable_wavefront_size32(true);
    descriptor
}

fn execute(code: &[u32], items: u16) -> Result<u64, Trap> {
    let descriptor = descriptor();
    let memory = Buffers(vec![Buffer::new(&[0; 4096], true)]);
    let program = Program::decode(code, 0x1000, vector_registers(&descriptor));
    let stop = Stop::default();
    run(&Dispatch {
        program: &program,
        descriptor: &descriptor,
        registers: KernelRegisters { kernarg: memory.0[0].address(), ..KernelRegisters::default() },
        grid: [items.into(), 1, 1],
        work_group: [items, 1, 1],
        local_bytes: 256,
        scratch_bytes: 64,
        memory: &memory,
        hook: None,
        stop: &stop,
        limit: 10_000,
        threads: NonZeroUsize::MIN,
        pool: &Pool::default(),
    })
}

fn trap_of(code: &[u32]) -> String {
    execute(code, 32).expect_err("a trap").to_string()
}

#[test]
fn traps_name_instruction_and_address() {
    // v_mov_b32 v63, v0; v_mov_b32 v64, v0
    let text = trap_of(&[0x7E7E_0300, 0x7E80_0300, S_ENDPGM]);
    assert_eq!(
        text,
        "invalid operand: the kernel has no v64, in v_mov_b32_e32 at 0x1004, work-group (0, 0, 0), wave 0"
    );
    let text = trap_of(&[0xBF80_0000, 0xFFFF_FFFF]);
    assert_eq!(text, "unknown instruction, in 0xffffffff at 0x1004, work-group (0, 0, 0), wave 0");
    // s_trap 2
    assert!(trap_of(&[0xBF90_0002]).starts_with("the kernel raised trap 2, in s_trap at 0x1000"));
    // global_load_b32 v0, v0, s[0:1] offset:4095, of which lane 0 ends outside.
    let text = trap_of(&[0xDC52_0FFF, 0x0000_0000, S_ENDPGM]);
    assert!(text.contains("no allocation, in global_load_b32 at 0x1000") && text.ends_with("lane 0"), "{text}");
    // s_mov_b32 s0, src_shared_base, and a number of source fields that stands for nothing.
    assert!(trap_of(&[0xBE80_00EB]).contains("not implemented: the source src_shared_base, in s_mov_b32"));
    assert!(trap_of(&[0xBE80_00D1]).starts_with("invalid operand: the source 209, in s_mov_b32"));
    // ds_swizzle_b32 v0, v0 in a mode that is neither a bit mask nor a permutation of four lanes.
    for mode in [0x8100, 0xC020, 0xE001] {
        let text = trap_of(&[0xD8D4_0000 | mode, 0, S_ENDPGM]);
        assert!(text.contains(&format!("not implemented: the swizzle 0x{mode:x}, in ds_swizzle_b32")), "{text}");
    }
    // s_sendmsg of another message than the release of registers.
    assert!(trap_of(&[0xBFB6_0001]).contains("not implemented: the message 1, in s_sendmsg"));
    // scratch_load_b32 v0, off, off offset:64
    let text = trap_of(&[0xDC51_0040, 0x007C_0000, S_ENDPGM]);
    assert!(text.contains("outside of private memory, in scratch_load_b32"), "{text}");
}

#[test]
fn code_that_no_wave_reaches_does_no_harm() {
    // s_branch over an unknown instruction.
    assert_eq!(execute(&[0xBFA0_0001, 0xFFFF_FFFF, S_ENDPGM], 32), Ok(2));
}

#[test]
fn code_that_does_not_end_traps() {
    assert!(trap_of(&[0xBF80_0000]).starts_with("there is no instruction at this address"));
    assert!(trap_of(&[]).starts_with("there is no instruction at this address"));
    // s_branch to itself
    assert!(trap_of(&[0xBFA0_FFFF]).starts_with("stopped, in s_branch at 0x1000"));
    // s_branch into a literal
    assert!(trap_of(&[0xBFA0_0001, 0xBE80_00FF, 0x1234_5678, S_ENDPGM]).starts_with("there is no instruction"));
}

#[test]
fn waves_meet_at_barriers() {
    // Each wave stores its first work-item to its place in local memory, and reads that of the other wave after a barrier.
    let code = [
        0x3002_0082, // v_lshlrev_b32_e32 v1, 2, v0
        0xD834_0000,
        0x0000_0001, // ds_store_b32 v1, v0
        0xBFBD_0000, // s_barrier
        0x3A04_02FF,
        0x0000_0080, // v_xor_b32_e32 v2, 0x80, v1
        0xD8D8_0000,
        0x0300_0002, // ds_load_b32 v3, v2
        0x3A06_06A0, // v_xor_b32_e32 v3, 32, v3
        0x7D9A_0700, // v_cmpx_ne_u32_e32 v0, v3
        0xBFA5_0001, // s_cbranch_execz 1
        0xBF90_0007, // s_trap 7
        S_ENDPGM,
    ];
    assert_eq!(execute(&code, 64), Ok(18));
}

#[test]
fn dispatches_that_cannot_be_are_refused() {
    for items in [0, 1025] {
        assert!(execute(&[S_ENDPGM], items).expect_err("too many").to_string().starts_with("invalid dispatch"));
    }
}

/// Instructions of the corpus in random order and with random bits changed.
#[test]
fn no_code_makes_the_interpreter_panic() {
    let words: Vec<Vec<u32>> = CORPUS
        .lines()
        .filter_map(|line| line.split_once(" | "))
        .map(|(words, _)| words.split(' ').map(|word| u32::from_str_radix(word, 16).expect("a word")).collect())
        .collect();
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut ended = 0;
    for _ in 0..20_000 {
        let mut code = Vec::new();
        for _ in 0..1 + next() % 6 {
            let mut instruction = words[next() % words.len()].clone();
            if next() % 2 == 0 {
                let at = next() % instruction.len();
                instruction[at] ^= 1 << (next() % 32);
            }
            code.extend(instruction);
        }
        code.push(S_ENDPGM);
        ended += usize::from(execute(&code, 1 + (next() % 64) as u16).is_ok());
    }
    assert!(ended > 500, "{ended} programs ended");
}
