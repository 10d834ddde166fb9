//! Code that cannot be executed: each wrong instruction traps with its name and address when a wave gets there, and no
//! code makes the interpreter panic.

mod common;

use common::{Bare, Buffer, Buffers};
use vireo_hsa::kernel_descriptor::{FloatDenormMode, KernelDescriptor};
use vireo_simt::Trap;

const CORPUS: &str = include_str!("corpus/instructions.txt");
const S_ENDPGM: u32 = 0xBFB0_0000;

fn execute(code: &[u32], items: u16) -> Result<u64, Trap> {
    let memory = Buffers(vec![Buffer::new(&[0; 4096], true)]);
    let denormals = FloatDenormMode::FLUSH_SOURCE_OUTPUT;
    Bare { items, local_bytes: 256, scratch_bytes: 64, denormals, granules: 8, ..Bare::new(code, &memory) }.run()
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
    // s_mov_b32 s0 of a number of source fields that stands for nothing.
    assert!(trap_of(&[0xBE80_00D1]).starts_with("invalid operand: the source 209, in s_mov_b32"));
    // ds_swizzle_b32 v0, v0 in a mode that is neither a bit mask nor a permutation of four lanes.
    for mode in [0x8100, 0xC020, 0xE001] {
        let text = trap_of(&[0xD8D4_0000 | mode, 0, S_ENDPGM]);
        assert!(text.contains(&format!("not implemented: the swizzle 0x{mode:x}, in ds_swizzle_b32")), "{text}");
    }
    // s_sendmsg of another message than the release of registers.
    assert!(trap_of(&[0xBFB6_0001]).contains("not implemented: the message MSG_INTERRUPT, in s_sendmsg"));
    assert!(trap_of(&[0xBFB6_0011]).contains("not implemented: the message 17, in s_sendmsg"));
    // scratch_load_b32 v0, off, off offset:64
    let text = trap_of(&[0xDC51_0040, 0x007C_0000, S_ENDPGM]);
    assert!(text.contains("outside of private memory, in scratch_load_b32"), "{text}");
}

#[test]
fn what_is_left_out_is_named() {
    // ds_gws_init v0 gds; image_load with three words; s_rfe_b64 s[0:1]; lds_direct_load v1.
    for (code, name) in [
        (&[0xD866_0000, 0][..], "ds_gws_init (0xd8660000)"),
        (&[0xF000_0F05, 0, 0][..], "image_* (0xf0000f05)"),
        (&[0xBE80_4A00][..], "s_rfe_b64 (0xbe804a00)"),
        (&[0xCE10_0001][..], "lds_direct_load (0xce100001)"),
    ] {
        let text = trap_of(code);
        assert!(text.starts_with(&format!("unknown instruction, in {name} at 0x1000")), "{text}");
    }
}

#[test]
fn code_that_no_wave_reaches_does_no_harm() {
    // s_branch over an unknown instruction.
    assert_eq!(execute(&[0xBFA0_0001, 0xFFFF_FFFF, S_ENDPGM], 32), Ok(2));
}

#[test]
fn code_that_does_not_end_traps() {
    assert_eq!(trap_of(&[0xBF80_0000]), "there is no instruction at 0x1004, work-group (0, 0, 0), wave 0");
    assert_eq!(trap_of(&[]), "there is no instruction at 0x1000, work-group (0, 0, 0), wave 0");
    // s_branch to itself
    assert!(trap_of(&[0xBFA0_FFFF]).starts_with("stopped, in s_branch at 0x1000"));
}

#[test]
fn a_wave_that_polls_gets_what_a_later_wave_stores() {
    let code = [
        0x7C98_00A0, // v_cmp_gt_u32 vcc_lo, 32, v0
        0xBFA3_0006, // s_cbranch_vccz to the store of the second wave
        0x7E02_0280, // v_mov_b32 v1, 0
        0xD8D8_0000, // ds_load_b32 v2, v1
        0x0200_0001,
        0x7C94_0480, // v_cmp_eq_u32 vcc_lo, 0, v2
        0xBFA4_FFFB, // s_cbranch_vccnz to the load
        S_ENDPGM,
        0x7E02_0280, // v_mov_b32 v1, 0
        0x7E04_0281, // v_mov_b32 v2, 1
        0xD834_0000, // ds_store_b32 v1, v2
        0x0000_0201,
        S_ENDPGM,
    ];
    let memory = Buffers(vec![Buffer::new(&[0; 4096], true)]);
    let execute = |items| Bare { items, local_bytes: 256, limit: 1 << 17, ..Bare::new(&code, &memory) }.run();
    let executed = execute(64).expect("both waves end");
    assert!((1 << 16..1 << 17).contains(&executed), "{executed}");
    // Without the second wave no store comes.
    assert!(execute(32).expect_err("it never ends").to_string().starts_with("stopped, in s_cbranch_vccnz"));
}

#[test]
fn jumps_to_no_instruction_name_both_addresses() {
    // s_branch into a literal, over the end, and before the code.
    let text = trap_of(&[0xBFA0_0001, 0xBE80_00FF, 0x1234_5678, S_ENDPGM]);
    assert_eq!(text, "a jump to 0x1008, where no instruction is, in s_branch at 0x1000, work-group (0, 0, 0), wave 0");
    assert!(trap_of(&[0xBF80_0000, 0xBFA0_0100, S_ENDPGM]).starts_with("a jump to 0x1408, where no instruction is"));
    assert!(trap_of(&[0xBFA0_8000, S_ENDPGM]).starts_with("a jump to 0xfffffffffffe1004, where no instruction is"));
    // s_mov_b32 s4, 0x1002; s_mov_b32 s5, 0; s_setpc_b64 s[4:5]
    let text = trap_of(&[0xBE84_00FF, 0x1002, 0xBE85_0080, 0xBE80_4804, S_ENDPGM]);
    assert!(text.starts_with("a jump to 0x1002, where no instruction is, in s_setpc_b64 at 0x100c"), "{text}");
    // A branch that is not taken does no harm: s_cbranch_execz.
    assert_eq!(execute(&[0xBFA5_0100, S_ENDPGM], 32), Ok(2));
}

#[test]
fn what_helpers_do_not_know_is_refused() {
    // v_mbcnt_lo_u32_b32_e64_dpp v1, v2, v3 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf
    let text = trap_of(&[0xD71F_0001, 0x0002_06FA, 0xFF00_E402, S_ENDPGM]);
    assert!(text.starts_with("not implemented: DPP, in v_mbcnt_lo_u32_b32_e64_dpp at 0x1000"), "{text}");
    // v_cvt_f32_f64_dpp v1, v[2:3] quad_perm:[0,1,2,3], which assemblers refuse.
    let text = trap_of(&[0x7E02_1EFA, 0xFF00_E402, S_ENDPGM]);
    assert!(text.starts_with("not implemented: DPP, in v_cvt_f32_f64_dpp at 0x1000"), "{text}");
    // v_mov_b32_dpp v1, v2 with the control of a shift of the whole wave, which gfx11 does not have.
    let text = trap_of(&[0x7E02_02FA, 0xFF01_3002, S_ENDPGM]);
    assert!(text.starts_with("invalid operand: the DPP control 0x130, in v_mov_b32_dpp at 0x1000"), "{text}");
    // v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7] with a sign of the first matrix.
    let text = trap_of(&[0xCC40_4000, 0x3C02_2108, S_ENDPGM]);
    assert!(text.contains("signs of matrices, in v_wmma_f32_16x16x16_f16"), "{text}");
}

#[test]
fn code_with_too_many_constants_traps() {
    // s_movk_i32 s4 with each number, and s_movk_i32 s5, 7 once more.
    let mut code: Vec<u32> = (0..0x1_0000).map(|number| 0xB004_0000 | number).collect();
    code.extend([0xB005_0007, S_ENDPGM]);
    assert!(trap_of(&code).starts_with("not implemented: more than"));
}

#[test]
fn descriptors_that_ask_for_what_is_not_there_are_refused() {
    let memory = Buffers(Vec::new());
    let kernel = Bare::new(&[S_ENDPGM], &memory);
    let refused = |change: fn(&mut KernelDescriptor)| {
        let mut descriptor = kernel.descriptor();
        change(&mut descriptor);
        kernel.run_as(&descriptor).expect_err("refused").to_string()
    };
    assert_eq!(kernel.run(), Ok(1));
    let text = refused(|kernel| kernel.compute_pgm_rsrc1 = kernel.compute_pgm_rsrc1.with_fp16_overflow(true));
    assert!(text.starts_with("invalid dispatch: 16-bit results that are limited"), "{text}");
    let text =
        refused(|kernel| kernel.compute_pgm_rsrc2 = kernel.compute_pgm_rsrc2.with_enable_sgpr_workgroup_info(true));
    assert!(text.starts_with("invalid dispatch: a scalar register for the waves"), "{text}");
}

#[test]
fn waves_meet_at_barriers() {
    // Each wave stores its first work-item to its place in local memory, and reads that of the other wave after a
    // barrier.
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
