//! Helpers that compilers write seldom, against loops that are written down from the manual of the instruction set:
//! exchange of registers, registers by a number, differences of bytes, dot products, and accesses by the number of the
//! lane.

mod common;

use common::{Bare, Buffer, Buffers, push, words_of_bytes};
use vireo_gfx::isa::Field;
use vireo_gfx::isa::operands::{LITERAL, M0};
use vireo_gfx::{Encoding, HalfSums};

const EXEC: u32 = 0xFFFF_0FF7;

type Lanes = [u32; 32];

fn value(register: u32, lane: u32) -> u32 {
    let mixed = (lane + 1).wrapping_mul(0x9E37_79B9).wrapping_add(register.wrapping_mul(0x85EB_CA6B));
    (mixed ^ mixed >> 13).wrapping_mul(0xC2B2_AE35)
}

/// Runs code on v0 to v15, whose lanes have `input`, with some lanes active and 128 bytes of work-group memory that
/// hold 0, 1, 2 and so on; returns these registers after it, and the words of the second buffer, which begins with 0,
/// 1, 2 and so on.
fn run(input: impl Fn(u32, u32) -> u32, body: impl Fn(&mut Vec<u32>)) -> Result<(Vec<Lanes>, Vec<u32>), String> {
    run_with(HalfSums::default(), input, body)
}

fn run_with(
    half_sums: HalfSums,
    input: impl Fn(u32, u32) -> u32,
    body: impl Fn(&mut Vec<u32>),
) -> Result<(Vec<Lanes>, Vec<u32>), String> {
    let mut code = Vec::new();
    let vop2 = |code: &mut Vec<u32>, name, d, source, second| {
        push(code, name, Encoding::Vop2, &[(Field::Vdst, d), (Field::Src0, source), (Field::Vsrc1, second)], None);
    };
    push(&mut code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, 20), (Field::Src0, 256)], None);
    vop2(&mut code, "v_lshlrev_b32", 21, 130, 20);
    push(&mut code, "ds_store_b32", Encoding::Ds, &[(Field::Addr, 21), (Field::Data0, 20)], None);
    for register in 0..16 {
        let fields = [(Field::Offset, 128 * register), (Field::Addr, 21), (Field::Vdst, register), (Field::Saddr, 0)];
        push(&mut code, "global_load_b32", Encoding::Global, &fields, None);
    }
    scalar(&mut code, 126, EXEC);
    body(&mut code);
    push(&mut code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, 126), (Field::Ssrc0, 193)], None);
    for register in 0..16 {
        let fields = [(Field::Offset, 128 * register), (Field::Addr, 21), (Field::Data0, register), (Field::Saddr, 0)];
        push(&mut code, "global_store_b32", Encoding::Global, &fields, None);
    }
    push(&mut code, "ds_load_b32", Encoding::Ds, &[(Field::Addr, 21), (Field::Vdst, 0)], None);
    let fields = [(Field::Offset, 256), (Field::Addr, 21), (Field::Data0, 0), (Field::Saddr, 2)];
    push(&mut code, "global_store_b32", Encoding::Global, &fields, None);
    push(&mut code, "s_endpgm", Encoding::Sopp, &[], None);
    let bytes = |words: Vec<u32>| words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let registers = (0..16).flat_map(|register| (0..32).map(move |lane| (register, lane)));
    let registers = bytes(registers.map(|(register, lane)| input(register, lane)).collect());
    let memory = Buffers(vec![Buffer::new(&registers, true), Buffer::new(&bytes((0..96).collect()), true)]);
    let bare = Bare { local_bytes: 128, half_sums, ..Bare::new(&code, &memory) };
    bare.run().map_err(|trap| trap.to_string())?;
    let words = words_of_bytes(&memory.0[0].bytes());
    let lanes = words.chunks(32).map(|words| words.try_into().expect("32 words")).collect();
    Ok((lanes, words_of_bytes(&memory.0[1].bytes())))
}

fn scalar(code: &mut Vec<u32>, register: u32, value: u32) {
    push(code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, register), (Field::Ssrc0, LITERAL)], Some(value));
}

/// Asserts what each active lane of registers is, and that nothing else has changed.
fn assert_lanes(found: &[Lanes], input: impl Fn(u32, u32) -> u32, expected: impl Fn(u32, u32) -> Option<u32>) {
    for (register, lanes) in (0..).zip(found) {
        for (lane, found) in (0..).zip(lanes) {
            let active = EXEC >> lane & 1 == 1;
            let wanted = expected(register, lane).filter(|_| active).unwrap_or(input(register, lane));
            assert_eq!(*found, wanted, "v{register} of lane {lane}: 0x{found:x}, not 0x{wanted:x}");
        }
    }
}

#[test]
fn registers_are_exchanged_and_found_by_a_number() {
    let vop1 = |code: &mut Vec<u32>, name: &str, d, source| {
        push(code, name, Encoding::Vop1, &[(Field::Vdst, d), (Field::Src0, source)], None);
    };
    /// An instruction, M0, and which registers become which in two lanes.
    type Case = (&'static str, u32, [(u32, u32); 2]);
    let cases: [Case; 6] = [
        ("v_swap_b32", 0, [(2, 4), (4, 2)]),
        ("v_movreld_b32", 3, [(5, 4), (5, 4)]),
        ("v_movrels_b32", 3, [(2, 7), (2, 7)]),
        ("v_movrelsd_b32", 3, [(5, 7), (5, 7)]),
        ("v_movrelsd_2_b32", 6 | 9 << 16, [(11, 10), (11, 10)]),
        ("v_swaprel_b32", 6 | 9 << 16, [(11, 10), (10, 11)]),
    ];
    for (name, m0, changes) in cases {
        let (lanes, _) = run(value, |code| {
            scalar(code, M0, m0);
            vop1(code, name, 2, 256 + 4);
        })
        .unwrap();
        let change = |register| changes.iter().find(|(result, _)| *result == register).map(|(_, source)| *source);
        assert_lanes(&lanes, value, |register, lane| change(register).map(|source| value(source, lane)));
        // M0 may be anything.
        let trap = run(value, |code| {
            scalar(code, M0, 0x3FF_03FF);
            vop1(code, name, 2, 256 + 4);
        });
        assert_eq!(trap.is_err(), name != "v_swap_b32", "{name}");
        assert!(trap.err().is_none_or(|trap| trap.contains("a vector register that the kernel has not, in v_")));
    }
    // In a wave of 32 lanes there is nothing to exchange.
    let (lanes, _) = run(value, |code| vop1(code, "v_permlane64_b32", 2, 256 + 4)).unwrap();
    assert_lanes(&lanes, value, |_, _| None);
}

#[test]
fn differences_of_bytes_at_four_places() {
    // Some bytes of the reference are zero, and sums are near their limits.
    let input = |register: u32, lane: u32| match register {
        4 => value(4, lane) & [u32::MAX, 0xFF00_FFFF, 0x00FF_00FF, 0][lane as usize % 4],
        6..10 => value(register, lane) | 0xFE00_FE00 | ((lane & 1) * 0x00F0_00F0),
        _ => value(register, lane),
    };
    let bytes = |lane: u32, place: u32| {
        let wide = u64::from(input(2, lane)) | u64::from(input(3, lane)) << 32;
        ((wide >> (8 * place)) as u32).to_le_bytes().into_iter().zip(input(4, lane).to_le_bytes())
    };
    let sum = |lane, place, masked: bool| -> u32 {
        bytes(lane, place).filter(|(_, b)| !masked || *b != 0).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
    };
    for clamp in [0, 1] {
        for (name, masked) in [("v_qsad_pk_u16_u8", false), ("v_mqsad_pk_u16_u8", true)] {
            let fields =
                [(Field::Vdst, 12), (Field::Src0, 258), (Field::Src1, 260), (Field::Src2, 262), (Field::Clamp, clamp)];
            let (lanes, _) = run(input, |code| push(code, name, Encoding::Vop3, &fields, None)).unwrap();
            assert_lanes(&lanes, input, |register, lane| {
                let word = register.checked_sub(12).filter(|word| *word < 2)?;
                let half = |at: u32| {
                    let total = (input(6 + word, lane) >> (16 * at) & 0xFFFF) + sum(lane, 2 * word + at, masked);
                    if clamp == 1 { total.min(0xFFFF) } else { total & 0xFFFF }
                };
                Some(half(0) | half(1) << 16)
            });
        }
        let fields =
            [(Field::Vdst, 12), (Field::Src0, 258), (Field::Src1, 260), (Field::Src2, 262), (Field::Clamp, clamp)];
        let (lanes, _) = run(input, |code| push(code, "v_mqsad_u32_u8", Encoding::Vop3, &fields, None)).unwrap();
        assert_lanes(&lanes, input, |register, lane| {
            let place = register.checked_sub(12)?;
            let (start, sum) = (input(6 + place, lane), sum(lane, place, true));
            Some(if clamp == 1 { start.saturating_add(sum) } else { start.wrapping_add(sum) })
        });
    }
}

/// A dot product of integers of so many bits; the bits of `signs` say which sources are signed.
fn dot(a: u32, b: u32, c: u32, bits: u32, signs: Option<u32>, clamp: bool) -> u32 {
    let part = |word: u32, at: u32, signed: bool| {
        let part = i64::from(word >> (bits * at) & ((1 << bits) - 1));
        if signed && part >> (bits - 1) == 1 { part - (1 << bits) } else { part }
    };
    let neg = signs.unwrap_or(0);
    let products = (0..32 / bits).map(|at| part(a, at, neg & 1 == 1) * part(b, at, neg & 2 == 2)).sum::<i64>();
    match (signs, clamp) {
        (Some(_), true) => (products + i64::from(c as i32)).clamp(i32::MIN.into(), i32::MAX.into()) as u32,
        (None, true) => (products + i64::from(c)).clamp(0, u32::MAX.into()) as u32,
        _ => (products + i64::from(c)) as u32,
    }
}

#[test]
fn dot_products_of_integers() {
    let input = |register: u32, lane: u32| match register {
        4 if lane < 16 => [0x7FFF_FFF0, 0x8000_0010, 0xFFFF_FFF0, 5][lane as usize % 4],
        _ => value(register, lane),
    };
    let kinds = [
        ("v_dot4_i32_iu8", 8, true),
        ("v_dot4_u32_u8", 8, false),
        ("v_dot8_i32_iu4", 4, true),
        ("v_dot8_u32_u4", 4, false),
    ];
    for (name, bits, signed) in kinds {
        for modifiers in 0..if signed { 8 } else { 2 } {
            let (clamp, neg) = (modifiers & 1, modifiers >> 1);
            let fields = [
                (Field::Vdst, 12),
                (Field::Src0, 258),
                (Field::Src1, 259),
                (Field::Src2, 260),
                (Field::Clamp, clamp),
                (Field::Neg, neg),
            ];
            let (lanes, _) = run(input, |code| push(code, name, Encoding::Vop3p, &fields, None)).unwrap();
            assert_lanes(&lanes, input, |register, lane| {
                let [a, b, c] = [2, 3, 4].map(|register| input(register, lane));
                (register == 12).then(|| dot(a, b, c, bits, signed.then_some(neg), clamp == 1))
            });
        }
    }
}

fn half(value: f32) -> u32 {
    half::f16::from_f32(value).to_bits().into()
}

fn brain(value: f32) -> u32 {
    half::bf16::from_f32(value).to_bits().into()
}

/// Numbers whose sums are exact, and a sum that is not: 2048 + 1 + 1 is 2048 in f16 if each sum is rounded.
#[test]
fn dot_products_of_floats() {
    let numbers = |lane: u32| match lane {
        0 => [1.0, 1.0, 1.0, 1.0, 2048.0],
        1 => [0.0, 1.0, 1.0, 256.0, 0.0],
        _ => [lane as f32 * 0.5, 2.0, -0.25, lane as f32, -3.0],
    };
    let product = |lane: u32| {
        let [a, b, c, d, e] = numbers(lane);
        e + a * b + c * d
    };
    for (name, encoding, pack, wide) in [
        ("v_dot2_f32_f16", Encoding::Vop3p, half as fn(f32) -> u32, true),
        ("v_dot2_f32_bf16", Encoding::Vop3p, brain, true),
        ("v_dot2_f16_f16", Encoding::Vop3, half, false),
        ("v_dot2_bf16_bf16", Encoding::Vop3, brain, false),
    ] {
        let input = |register: u32, lane: u32| {
            let [a, b, c, d, e] = numbers(lane);
            match register {
                2 => pack(a) | pack(c) << 16,
                3 => pack(b) | pack(d) << 16,
                4 if wide => e.to_bits(),
                4 => pack(e),
                _ => 0xA5A5_5A5A,
            }
        };
        let fields = [(Field::Vdst, 12), (Field::Src0, 258), (Field::Src1, 259), (Field::Src2, 260)];
        let packed = [(Field::OpSelHi, 3)];
        let fields = if wide { [&fields[..], &packed[..]].concat() } else { fields.to_vec() };
        let (lanes, _) = run(input, |code| push(code, name, encoding, &fields, None)).unwrap();
        assert_lanes(&lanes, input, |register, lane| {
            let result = match (name, lane) {
                // Rounded after each product: of 2049 and 257 in formats that have no such numbers.
                ("v_dot2_f16_f16" | "v_dot2_bf16_bf16", 0) => pack(2048.0),
                _ if wide => product(lane).to_bits(),
                _ => pack(product(lane)),
            };
            (register == 12).then_some(if wide { result } else { result | 0xA5A5_0000 })
        });
    }
    // The short form adds to its result, and packed products and sums add to both halves of theirs.
    let input = |register: u32, lane: u32| {
        let [a, b, c, d, e] = numbers(lane);
        match register {
            2 => half(a) | half(c) << 16,
            3 => half(b) | half(d) << 16,
            12 => e.to_bits(),
            13 => half(e) | half(-e) << 16,
            _ => 0,
        }
    };
    let (lanes, _) = run(input, |code| {
        for (name, d) in [("v_dot2acc_f32_f16", 12), ("v_pk_fmac_f16", 13)] {
            push(code, name, Encoding::Vop2, &[(Field::Vdst, d), (Field::Src0, 258), (Field::Vsrc1, 3)], None);
        }
    })
    .unwrap();
    assert_lanes(&lanes, input, |register, lane| {
        let [a, b, c, d, e] = numbers(lane);
        match register {
            12 => Some(product(lane).to_bits()),
            13 => Some(half(e + a * b) | half(-e + c * d) << 16),
            _ => None,
        }
    });
}

#[test]
fn a_product_of_matrices_of_four_bits() {
    for modifiers in 0..8 {
        let (clamp, neg) = (modifiers & 1, modifiers >> 1);
        let input =
            |register: u32, lane: u32| if register == 4 && clamp == 1 { 0x7FFF_FFF0 } else { value(register, lane) };
        let (lanes, _) = run(input, |code| {
            push(code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, 126), (Field::Ssrc0, 193)], None);
            let fields = [
                (Field::Vdst, 4),
                (Field::Src0, 256),
                (Field::Src1, 258),
                (Field::Src2, 260),
                (Field::Clamp, clamp),
                (Field::Neg, neg),
            ];
            push(code, "v_wmma_i32_16x16x16_iu4", Encoding::Vop3p, &fields, None);
        })
        .unwrap();
        for register in 0..8 {
            for lane in 0..32 {
                let (row, column) = (2 * register + lane / 16, lane % 16);
                let c = input(4 + register, lane);
                let first = dot(input(0, row), input(2, column), 0, 4, Some(neg), false);
                let second = dot(input(1, row), input(3, column), first, 4, Some(neg), false);
                let sum = i64::from(second as i32) + i64::from(c as i32);
                let wanted = if clamp == 1 { sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32 } else { sum as u32 };
                assert_eq!(lanes[4 + register as usize][lane as usize], wanted, "v{register} of lane {lane}");
            }
        }
    }
}

/// Products of 16 bits, whose sums are those of pairs that are rounded, or the sum of all that is rounded once. The
/// difference is seen: to 2048 in f16, and to 256 in bf16, a sum of two products of 1/2 adds nothing in each pair, and
/// all of them together do.
#[test]
fn sums_of_16_bits_are_rounded_in_pairs_or_once() {
    for (name, pack, large) in
        [("v_wmma_f16_16x16x16_f16", half as fn(f32) -> u32, 2048.0), ("v_wmma_bf16_16x16x16_bf16", brain, 256.0)]
    {
        let input = |register: u32, _: u32| match register {
            // C, in the low halves, and A and B, of which each product is 1/2.
            0..8 => pack(large) | 0x1234_0000,
            8..=11 => pack(0.5) | pack(0.5) << 16,
            _ => pack(1.0) | pack(1.0) << 16,
        };
        for (half_sums, expected) in [(HalfSums::Pairs, large), (HalfSums::Once, large + 4.0)] {
            // Only k below 8 has products that are not zero.
            let (lanes, _) = run_with(half_sums, input, |code| {
                push(code, "s_mov_b32", Encoding::Sop1, &[(Field::Sdst, 126), (Field::Ssrc0, 193)], None);
                for register in 24..32 {
                    push(code, "v_mov_b32", Encoding::Vop1, &[(Field::Vdst, register), (Field::Src0, 128)], None);
                }
                for register in 0..4 {
                    let fields = [(Field::Vdst, 24 + register), (Field::Src0, 256 + 8 + register)];
                    push(code, "v_mov_b32", Encoding::Vop1, &fields, None);
                    let fields = [(Field::Vdst, 8 + register), (Field::Src0, 256 + 12 + register)];
                    push(code, "v_mov_b32", Encoding::Vop1, &fields, None);
                }
                let fields = [(Field::Vdst, 0), (Field::Src0, 256 + 24), (Field::Src1, 256 + 8), (Field::Src2, 256)];
                push(code, name, Encoding::Vop3p, &fields, None);
            })
            .unwrap();
            for (register, lanes) in lanes.iter().take(8).enumerate() {
                assert_eq!(lanes[5], pack(expected) | 0x1234_0000, "{name}, v{register}, {half_sums:?}");
            }
        }
    }
}

#[test]
fn a_word_counts_active_lanes() {
    let (lanes, words) = run(value, |code| {
        scalar(code, M0, 8);
        for (name, d) in [("ds_append", 2), ("ds_append", 3), ("ds_consume", 4)] {
            push(code, name, Encoding::Ds, &[(Field::Offset0, 4), (Field::Vdst, d)], None);
        }
        // Outside of the memory there is nothing.
        scalar(code, M0, 0x1000);
        push(code, "ds_append", Encoding::Ds, &[(Field::Vdst, 5)], None);
    })
    .unwrap();
    let count = EXEC.count_ones();
    assert_lanes(&lanes, value, |register, _| {
        [None, None, Some(3), Some(3 + count), Some(3 + 2 * count), Some(0)].get(register as usize).copied().flatten()
    });
    assert_eq!(words[64 + 2..64 + 5], [2, 3 + count, 4]);
    let trap = run(value, |code| push(code, "ds_append", Encoding::Ds, &[(Field::Offset0, 2)], None));
    assert!(trap.unwrap_err().contains("in ds_append"));
}

#[test]
fn accesses_by_the_number_of_the_lane() {
    let (lanes, words) = run(value, |code| {
        scalar(code, M0, 4);
        push(code, "ds_load_addtid_b32", Encoding::Ds, &[(Field::Offset0, 4), (Field::Vdst, 2)], None);
        push(code, "ds_store_addtid_b32", Encoding::Ds, &[(Field::Offset0, 8), (Field::Data0, 8)], None);
        push(
            code,
            "global_load_addtid_b32",
            Encoding::Global,
            &[(Field::Offset, 4), (Field::Saddr, 2), (Field::Vdst, 3)],
            None,
        );
        push(
            code,
            "global_store_addtid_b32",
            Encoding::Global,
            &[(Field::Offset, 128), (Field::Saddr, 2), (Field::Data0, 9)],
            None,
        );
    })
    .unwrap();
    assert_lanes(&lanes, value, |register, lane| match register {
        // The last two lanes are outside of the memory of the work-group.
        2 => Some(if lane < 30 { lane + 2 } else { 0 }),
        3 => Some(lane + 1),
        _ => None,
    });
    for lane in 0..32 {
        let active = EXEC >> lane & 1 == 1;
        assert_eq!(
            words[32 + lane as usize],
            if active { value(9, lane) } else { 32 + lane },
            "device memory of lane {lane}"
        );
        let at = lane + 3;
        if at < 32 {
            assert_eq!(
                words[64 + at as usize],
                if active { value(8, lane) } else { at },
                "memory of the work-group of lane {lane}"
            );
        }
    }
}

#[test]
fn two_values_are_exchanged_at_once() {
    let input = |register: u32, lane: u32| match register {
        2 => 8 * (lane % 4),
        _ => value(register, lane),
    };
    // The results are in the registers of the second data and the address.
    let fields = [
        (Field::Addr, 2),
        (Field::Data0, 4),
        (Field::Data1, 1),
        (Field::Vdst, 1),
        (Field::Offset0, 1),
        (Field::Offset1, 2),
    ];
    let (lanes, words) =
        run(input, |code| push(code, "ds_storexchg_2addr_rtn_b32", Encoding::Ds, &fields, None)).unwrap();
    let mut memory: Vec<u32> = (0..32).collect();
    let mut results = [[0; 32]; 2];
    for (which, data) in [4, 1].into_iter().enumerate() {
        for lane in (0..32).filter(|lane| EXEC >> lane & 1 == 1) {
            let at = (input(2, lane) / 4) as usize + which + 1;
            results[which][lane as usize] = std::mem::replace(&mut memory[at], input(data, lane));
        }
    }
    assert_lanes(&lanes, input, |register, lane| {
        register.checked_sub(1).and_then(|which| results.get(which as usize)).map(|row| row[lane as usize])
    });
    assert_eq!(words[64..], memory);
}
