//! Flat accesses, whose addresses may be in any memory, scalar loads from buffers, calls, and registers of the wave.

mod common;

use common::{Bare, Buffer, Buffers, push, words_of_bytes};
use vireo_gfx::isa::operands::{LITERAL, M0, SRC_PRIVATE_BASE, SRC_SCC, SRC_SHARED_BASE, VCC};
use vireo_gfx::{Encoding, isa::Field};

const END: &[(Field, u32)] = &[];

/// Runs code with the first words of the first buffer 1, 2, 3 and so on; v1 is four times the lane, and v8 to v11 are
/// the result.
fn run(body: impl Fn(&mut Vec<u32>)) -> Result<(Vec<u32>, Vec<Vec<u32>>), String> {
    let mut code = Vec::new();
    vop2(&mut code, "v_lshlrev_b32", 1, 130, 0);
    body(&mut code);
    for register in 0..4 {
        let fields =
            [(Field::Offset, 128 * register), (Field::Addr, 1), (Field::Data0, 8 + register), (Field::Saddr, 2)];
        push(&mut code, "global_store_b32", Encoding::Global, &fields, None);
    }
    push(&mut code, "s_endpgm", Encoding::Sopp, END, None);
    let words: Vec<u8> = (1..=64u32).flat_map(u32::to_le_bytes).collect();
    let memory = Buffers(vec![Buffer::new(&words, true), Buffer::new(&[0xEE; 512], true)]);
    let bare = Bare { local_bytes: 256, scratch_bytes: 16, ..Bare::new(&code, &memory) };
    bare.run().map_err(|trap| trap.to_string())?;
    let rows = words_of_bytes(&memory.0[1].bytes()).chunks(32).map(<[u32]>::to_vec).collect();
    Ok((words_of_bytes(&memory.0[0].bytes()), rows))
}

fn vop2(code: &mut Vec<u32>, name: &str, d: u32, source: u32, second: u32) {
    push(code, name, Encoding::Vop2, &[(Field::Vdst, d), (Field::Src0, source), (Field::Vsrc1, second)], None);
}

fn vmov(code: &mut Vec<u32>, d: u32, source: u32) {
    push(code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, d), (Field::Src0, source)], None);
}

fn smov(code: &mut Vec<u32>, d: u32, source: u32, literal: Option<u32>) {
    push(code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, d), (Field::Ssrc0, source)], literal);
}

fn flat(code: &mut Vec<u32>, name: &str, offset: u32) {
    let fields = [(Field::Addr, 2), (Field::Data0, 4), (Field::Vdst, 8), (Field::Offset, offset), (Field::Glc, 1)];
    push(code, name, Encoding::Flat, &fields, None);
}

/// Makes `v[2:3]` four times the lane after the start of device memory in lanes 0 to 7, of the memory of the work-group
/// in lanes 8 to 15, and of private memory in the others, where it is byte 4.
fn addresses(code: &mut Vec<u32>) {
    let base = |code: &mut Vec<u32>, register, source| {
        push(code, "s_mov_b64", Encoding::Sop1, &[(Field::Sdst, register), (Field::Ssrc0, source)], None);
    };
    base(code, 10, SRC_SHARED_BASE);
    base(code, 12, SRC_PRIVATE_BASE);
    vmov(code, 5, 128);
    let fields = [(Field::Vdst, 2), (Field::Sdst, VCC), (Field::Src0, 0), (Field::Src1, 257)];
    push(code, "v_add_co_u32", Encoding::Vop3sd, &fields, None);
    vop2(code, "v_add_co_ci_u32", 3, 1, 5);
    smov(code, 126, LITERAL, Some(0xFF00));
    vop2(code, "v_add_nc_u32", 2, 10, 1);
    vmov(code, 3, 11);
    smov(code, 126, LITERAL, Some(0xFFFF_0000));
    vmov(code, 2, 132);
    vmov(code, 3, 13);
    smov(code, 126, 193, None);
}

#[test]
fn a_flat_access_finds_each_lane_in_its_memory() {
    let (words, rows) = run(|code| {
        addresses(code);
        vop2(code, "v_or_b32", 4, LITERAL_IS_1000, 0);
        // Lane 6 is off, and keeps what it has.
        vmov(code, 8, 137);
        smov(code, 126, LITERAL, Some(!(1 << 6)));
        flat(code, "flat_store_b32", 0);
        flat(code, "flat_load_b32", 0);
        smov(code, 126, 193, None);
        vmov(code, 9, 264);
        // The word after the one in the memory of the work-group, which lane 15 wrote last.
        flat(code, "flat_atomic_add_u32", 0);
        vmov(code, 10, 264);
        flat(code, "flat_load_u16", 2);
        vmov(code, 11, 264);
        vmov(code, 8, 265);
    })
    .unwrap();
    for lane in 0..32u32 {
        let at = lane as usize;
        let (stored, off) = (64 | lane, lane == 6);
        let old = if off { 7 } else { stored };
        assert_eq!(rows[0][at], if off { 9 } else { stored }, "load of lane {lane}");
        assert_eq!(rows[2][at], old, "atomic access of lane {lane}");
        assert_eq!(rows[3][at], 0, "high half of lane {lane}");
    }
    for lane in 0..8u32 {
        let old = if lane == 6 { 7 } else { 64 | lane };
        assert_eq!(words[lane as usize], old + (64 | lane), "word {lane} of device memory");
    }
}

/// The number 64 among sources.
const LITERAL_IS_1000: u32 = 192;

#[test]
fn flat_values_may_be_wide_and_halves() {
    let (words, rows) = run(|code| {
        addresses(code);
        for word in 0..4 {
            push(
                code,
                "v_add_nc_u32",
                Encoding::Vop3,
                &[(Field::Vdst, 4 + word), (Field::Src0, 129 + word), (Field::Src1, 257)],
                None,
            );
        }
        smov(code, 126, LITERAL, Some(0x0001_0101));
        flat(code, "flat_store_b96", 0);
        flat(code, "flat_load_b96", 0);
        // The high half of v8 becomes that of the second word.
        flat(code, "flat_load_d16_hi_b16", 4);
        smov(code, 126, 193, None);
    })
    .unwrap();
    assert_eq!(words[..3], [1, 2, 3], "device memory");
    for (lane, first) in [(0, 1), (8, 33), (16, 65)] {
        assert_eq!(rows[0][lane], first | (first + 1) << 16, "lane {lane}");
        assert_eq!([rows[1][lane], rows[2][lane]], [first + 1, first + 2], "lane {lane}");
    }
}

#[test]
fn private_memory_that_is_not_there_traps() {
    let trap = run(|code| {
        addresses(code);
        flat(code, "flat_load_b64", 8);
    });
    assert!(trap.unwrap_err().contains("an offset outside of private memory, in flat_load_b64"));
}

#[test]
fn scalar_loads_of_buffers_stay_inside() {
    let (_, rows) = run(|code| {
        smov(code, 4, 0, None);
        smov(code, 5, 1, None);
        // Nineteen bytes, so that the fifth word is outside.
        smov(code, 6, 128 + 19, None);
        smov(code, 7, 128, None);
        smov(code, 9, 132, None);
        let fields = [(Field::Sbase, 2), (Field::Sdata, 16), (Field::Soffset, 9), (Field::Offset, 4)];
        push(code, "s_buffer_load_b128", Encoding::Smem, &fields, None);
        for register in 0..4 {
            vmov(code, 8 + register, 16 + register);
        }
    })
    .unwrap();
    let first: Vec<u32> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(first, [3, 4, 0, 0]);
}

#[test]
fn calls_come_back() {
    let (_, rows) = run(|code| {
        smov(code, 4, 129, None);
        // Over the function, which is two instructions, and to it.
        push(code, "s_branch", Encoding::Sopp, &[(Field::Simm16, 2)], None);
        push(code, "s_add_u32", Encoding::Sop2, &[(Field::Sdst, 4), (Field::Ssrc0, 4), (Field::Ssrc1, 130)], None);
        push(code, "s_setpc_b64", Encoding::Sop1, &[(Field::Ssrc0, 20)], None);
        push(code, "s_call_b64", Encoding::Sopk, &[(Field::Sdst, 20), (Field::Simm16, 0xFFFD)], None);
        push(code, "s_call_b64", Encoding::Sopk, &[(Field::Sdst, 20), (Field::Simm16, 0xFFFC)], None);
        vmov(code, 8, 4);
    })
    .unwrap();
    assert_eq!(rows[0][0], 5);
}

#[test]
fn functions_may_follow_or_precede_the_kernel() {
    let memory = Buffers(vec![Buffer::new(&[0; 128], true), Buffer::new(&[0; 128], true)]);
    let mut code = Vec::new();
    let function = |code: &mut Vec<u32>, amount: u32| {
        push(
            code,
            "s_add_u32",
            Encoding::Sop2,
            &[(Field::Sdst, 4), (Field::Ssrc0, 4), (Field::Ssrc1, 128 + amount)],
            None,
        );
        push(code, "s_setpc_b64", Encoding::Sop1, &[(Field::Ssrc0, 20)], None);
    };
    function(&mut code, 3);
    let entry = code.len();
    // Where the function before the kernel is, and the one after it.
    for words in [-4i32, 4] {
        push(&mut code, "s_getpc_b64", Encoding::Sop1, &[(Field::Sdst, 22)], None);
        let fields = [(Field::Sdst, 22), (Field::Ssrc0, 22), (Field::Ssrc1, LITERAL)];
        push(&mut code, "s_add_u32", Encoding::Sop2, &fields, Some((4 * words) as u32));
        let high = if words < 0 { 193 } else { 128 };
        push(
            &mut code,
            "s_addc_u32",
            Encoding::Sop2,
            &[(Field::Sdst, 23), (Field::Ssrc0, 23), (Field::Ssrc1, high)],
            None,
        );
        push(&mut code, "s_swappc_b64", Encoding::Sop1, &[(Field::Sdst, 20), (Field::Ssrc0, 22)], None);
    }
    vmov(&mut code, 8, 4);
    vop2(&mut code, "v_lshlrev_b32", 1, 130, 0);
    let fields = [(Field::Addr, 1), (Field::Data0, 8), (Field::Saddr, 2)];
    push(&mut code, "global_store_b32", Encoding::Global, &fields, None);
    push(&mut code, "s_endpgm", Encoding::Sopp, END, None);
    let after = code.len();
    function(&mut code, 4);
    // The second address: from after its s_getpc to the function.
    let second = entry + 5 + 1;
    assert_eq!(code[second + 1], 16, "the literal of the second address");
    code[second + 1] = 4 * (after - second) as u32;
    code[entry + 2] = (4 * -(entry as i32 + 1)) as u32;
    Bare { entry, ..Bare::new(&code, &memory) }.run().unwrap_or_else(|trap| panic!("{trap}"));
    assert_eq!(words_of_bytes(&memory.0[1].bytes())[..2], [7, 7]);
}

#[test]
fn registers_of_the_wave_are_read_and_written() {
    let getreg = |code: &mut Vec<u32>, d, immediate| {
        push(code, "s_getreg_b32", Encoding::Sopk, &[(Field::Sdst, d), (Field::Simm16, immediate)], None);
    };
    let (_, rows) = run(|code| {
        // Bits 7:4 of the modes are set at first, and 5:4 are cleared: results of f32 that are subnormal become zero.
        getreg(code, 4, 1 | 31 << 11);
        push(code, "s_setreg_imm32_b32", Encoding::Sopk, &[(Field::Simm16, 1 | 4 << 6 | 1 << 11)], Some(0xFFFF_FFFC));
        getreg(code, 5, 1 | 4 << 6 | 3 << 11);
        vmov(code, 8, 4);
        vmov(code, 9, 5);
        // 2^-149 as a source is zero now.
        vop2(code, "v_add_f32", 10, 128, 1);
        // SCC is bit 0 of the state.
        push(code, "s_cmp_eq_u32", Encoding::Sopc, &[(Field::Ssrc0, 128), (Field::Ssrc1, 128)], None);
        getreg(code, 6, 2);
        push(code, "s_add_u32", Encoding::Sop2, &[(Field::Sdst, 7), (Field::Ssrc0, SRC_SCC), (Field::Ssrc1, 6)], None);
        vmov(code, 11, 7);
    })
    .unwrap();
    assert_eq!([rows[0][0], rows[1][0], rows[2][1], rows[3][0]], [0xF0, 0xC, 0, 2]);
    // Rounding other than to nearest, and a register that there is not.
    let trap = run(|code| {
        push(code, "s_setreg_imm32_b32", Encoding::Sopk, &[(Field::Simm16, 1 | 3 << 11)], Some(1));
    });
    assert!(trap.unwrap_err().starts_with("not implemented: the modes 0xf1, in s_setreg_imm32_b32"));
    let trap = run(|code| getreg(code, 4, 23));
    assert!(trap.unwrap_err().starts_with("not implemented: the register HW_REG_HW_ID1, in s_getreg_b32"));
}

#[test]
fn scalar_registers_are_found_by_a_number() {
    let (_, rows) = run(|code| {
        for register in 0..4 {
            smov(code, 10 + register, 140 + register, None);
        }
        let relative = |code: &mut Vec<u32>, name: &str, d, source| {
            push(code, name, Encoding::Sop1, &[(Field::Sdst, d), (Field::Ssrc0, source)], None);
        };
        smov(code, M0, 130, None);
        relative(code, "s_movrels_b64", 20, 10);
        relative(code, "s_movreld_b32", 20, 11);
        smov(code, M0, LITERAL, Some(3 | 2 << 16));
        relative(code, "s_movrelsd_2_b32", 21, 10);
        for (index, register) in [20, 21, 22, 23].into_iter().enumerate() {
            vmov(code, 8 + index as u32, register);
        }
    })
    .unwrap();
    assert_eq!([rows[0][0], rows[1][0], rows[2][0], rows[3][0]], [14, 15, 13, 15]);
    let trap = run(|code| {
        smov(code, M0, 193, None);
        push(code, "s_movreld_b32", Encoding::Sop1, &[(Field::Sdst, 4), (Field::Ssrc0, 128)], None);
    });
    assert!(trap.unwrap_err().contains("beyond the last one, in s_movreld_b32"));
}

#[test]
fn the_clock_goes_on() {
    let (_, rows) = run(|code| {
        for register in [4, 6] {
            let fields = [(Field::Sdst, register), (Field::Ssrc0, 131)];
            push(code, "s_sendmsg_rtn_b64", Encoding::Sop1, &fields, None);
        }
        for register in 0..4 {
            vmov(code, 8 + register, 4 + register);
        }
    })
    .unwrap();
    let time = |row: usize| u64::from(rows[row][0]) | u64::from(rows[row + 1][0]) << 32;
    assert!(time(2) >= time(0));
    let trap = run(|code| {
        push(code, "s_sendmsg_rtn_b32", Encoding::Sop1, &[(Field::Sdst, 4), (Field::Ssrc0, 128)], None);
    });
    assert!(trap.unwrap_err().starts_with("not implemented: the message MSG_RTN_GET_DOORBELL, in s_sendmsg_rtn_b32"));
}
