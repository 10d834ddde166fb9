//! The floating-point modes of a kernel: subnormal numbers that are zero, and NaN that is limited.

mod common;

use common::{Bare, Buffer, Buffers, push, words_of_bytes};
use vireo_gfx::Encoding;
use vireo_gfx::isa::Field;
use vireo_gfx::isa::operands::LITERAL;
use vireo_hsa::kernel_descriptor::{FloatDenormMode, KernelDescriptor};

const FLUSH: FloatDenormMode = FloatDenormMode::FLUSH_SOURCE_OUTPUT;
const KEEP: FloatDenormMode = FloatDenormMode::NO_FLUSH;

/// Fields of an instruction with their values.
type Fields = [(Field, u32)];

/// The value of v6 after an instruction with these values in v2 to v5, and zero in v6 before.
fn result(
    (name, encoding, fields): (&str, Encoding, &Fields),
    values: [u32; 4],
    mode: FloatDenormMode,
    change: impl Fn(&mut KernelDescriptor),
) -> u32 {
    let mut code = Vec::new();
    push(&mut code, "v_lshlrev_b32", Encoding::Vop2, &[(Field::Vdst, 1), (Field::Src0, 130), (Field::Vsrc1, 0)], None);
    for (register, value) in (2..).zip(values) {
        let fields = [(Field::Vdst, register), (Field::Src0, LITERAL)];
        push(&mut code, "v_mov_b32", Encoding::Vop1, &fields, Some(value));
    }
    push(&mut code, name, encoding, &[&[(Field::Vdst, 6)], fields].concat(), None);
    let fields = [(Field::Addr, 1), (Field::Data0, 6), (Field::Saddr, 0)];
    push(&mut code, "global_store_b32", Encoding::Global, &fields, None);
    push(&mut code, "s_endpgm", Encoding::Sopp, &[], None);
    let memory = Buffers(vec![Buffer::new(&[0; 128], true)]);
    let kernel = Bare { denormals: mode, ..Bare::new(&code, &memory) };
    let mut descriptor = kernel.descriptor();
    change(&mut descriptor);
    kernel.run_as(&descriptor).unwrap_or_else(|trap| panic!("{trap}"));
    words_of_bytes(&memory.0[0].bytes())[31]
}

const SOURCES: [(Field, u32); 3] = [(Field::Src0, 258), (Field::Src1, 259), (Field::Src2, 260)];
const ONE: u32 = 0x3F80_0000;

#[test]
fn mixed_precision_flushes_subnormal_numbers_of_each_format() {
    let run = |name: &str, high: u32, values: [u32; 4], mode| {
        let fields = [&SOURCES[..], &[(Field::OpSelHi, high & 3), (Field::OpSelHi2, high >> 2)]].concat();
        result((name, Encoding::Vop3p, &fields), values, mode, |_| ())
    };
    // A subnormal f32 times one, and a subnormal f16 times one.
    assert_eq!(run("v_fma_mix_f32", 0, [0x0000_0100, ONE, 0, 0], KEEP), 0x100);
    assert_eq!(run("v_fma_mix_f32", 0, [0x0000_0100, ONE, 0, 0], FLUSH), 0);
    assert_eq!(run("v_fma_mix_f32", 1, [0x0000_0001, ONE, 0, 0], KEEP), 0x3380_0000);
    assert_eq!(run("v_fma_mix_f32", 1, [0x0000_0001, ONE, 0, 0], FLUSH), 0);
    // Sources that are normal with a result that is not: 2^-126 / 2, and 2^-14 / 2.
    assert_eq!(run("v_fma_mix_f32", 0, [0x8080_0000, 0x3F00_0000, 0x8000_0000, 0], KEEP), 0x8040_0000);
    assert_eq!(run("v_fma_mix_f32", 0, [0x8080_0000, 0x3F00_0000, 0x8000_0000, 0], FLUSH), 0x8000_0000);
    assert_eq!(run("v_fma_mixlo_f16", 0, [0x3880_0000, 0x3F00_0000, 0, 0], KEEP), 0x0200);
    assert_eq!(run("v_fma_mixlo_f16", 0, [0x3880_0000, 0x3F00_0000, 0, 0], FLUSH), 0);
    assert_eq!(run("v_fma_mixhi_f16", 0, [0x3880_0000, 0x3F00_0000, 0, 0], KEEP), 0x0200_0000);
    assert_eq!(run("v_fma_mixhi_f16", 0, [0x3880_0000, 0x3F00_0000, 0, 0], FLUSH), 0);
}

#[test]
fn packed_values_and_dot_products_flush_subnormal_numbers() {
    let packed: &Fields = &[SOURCES[0], SOURCES[1], SOURCES[2], (Field::OpSelHi, 3), (Field::OpSelHi2, 1)];
    let short: &Fields = &[SOURCES[0], (Field::Vsrc1, 3)];
    // The instruction, its sources, and its result if subnormal numbers stay, or are zero.
    let sources: &Fields = &SOURCES;
    let cases = [
        // Sources, of which one is subnormal, and a normal one whose half is not.
        ("v_pk_mul_f16", Encoding::Vop3p, packed, [0x0400_0001, 0x3800_3C00, 0], 0x0200_0001, 0),
        ("v_pk_fma_f16", Encoding::Vop3p, packed, [0x3C00_3C00, 0x0001_8001, 0x8000_3C00], 0x0001_3C00, 0x0000_3C00),
        ("v_pk_add_u16", Encoding::Vop3p, packed, [0x0001_0001, 0x0002_0003, 0], 0x0003_0004, 0x0003_0004),
        ("v_pk_fmac_f16", Encoding::Vop2, short, [0x0400_0001, 0x3800_3C00, 0], 0x0200_0001, 0),
        ("v_dot2_f32_f16", Encoding::Vop3p, packed, [0x0000_0001, 0x0000_3C00, 0], 0x3380_0000, 0),
        ("v_dot2_f32_bf16", Encoding::Vop3p, packed, [0x0000_0200, 0x0000_3F80, 0], 0x0200_0000, 0x0200_0000),
        ("v_dot2_f16_f16", Encoding::Vop3, sources, [0x0000_0400, 0x0000_3800, 0], 0x0200, 0),
        ("v_dot2_bf16_bf16", Encoding::Vop3, sources, [0x0000_0040, 0x0000_3F80, 0], 0x0040, 0),
    ];
    for (name, encoding, fields, [a, b, c], kept, flushed) in cases {
        let run = |mode| result((name, encoding, fields), [a, b, c, 0], mode, |_| ());
        assert_eq!((run(KEEP), run(FLUSH)), (kept, flushed), "{name}");
    }
}

#[test]
fn clamping_makes_nan_zero_if_the_kernel_says_so() {
    let clamp = (Field::Clamp, 1);
    let forms: [(&str, Encoding, &Fields, u32); 3] = [
        ("v_add_f32", Encoding::Vop3, &[SOURCES[0], SOURCES[1], clamp], 0x7FC0_0000),
        ("v_fma_mix_f32", Encoding::Vop3p, &[SOURCES[0], SOURCES[1], SOURCES[2], clamp], 0x7FC0_0000),
        ("v_pk_add_f16", Encoding::Vop3p, &[SOURCES[0], SOURCES[1], clamp, (Field::OpSelHi, 3)], 0x7E00_7E00),
    ];
    for (name, encoding, fields, nan) in forms {
        let run = |dx10: bool| {
            result((name, encoding, fields), [nan, 0, 0, 0], KEEP, |kernel| {
                kernel.compute_pgm_rsrc1 = kernel.compute_pgm_rsrc1.with_enable_dx10_clamp(dx10);
            })
        };
        assert_eq!((run(true), run(false)), (0, nan), "{name}");
    }
}

/// Results are scaled where neither subnormal results nor IEEE forbid it, and their zeros have no sign.
#[test]
fn results_are_scaled_if_the_modes_of_the_kernel_allow_it() {
    let single = [SOURCES[0], SOURCES[1], (Field::Omod, 1)];
    let forms: [(&str, &Fields, [u32; 4], u32, u32); 3] = [
        ("v_add_f32", &single, [ONE, ONE, 0, 0], 0x4000_0000, 0x4080_0000),
        ("v_add_f32", &single, [0x8000_0000, 0x8000_0000, 0, 0], 0x8000_0000, 0),
        ("v_add_f16", &single, [0x3C00, 0x3C00, 0, 0], 0x4000, 0x4400),
    ];
    for (name, fields, values, plain, scaled) in forms {
        let run = |mode, ieee: bool| {
            result((name, Encoding::Vop3, fields), values, mode, |kernel| {
                kernel.compute_pgm_rsrc1 = kernel.compute_pgm_rsrc1.with_enable_ieee_mode(ieee);
            })
        };
        assert_eq!((run(KEEP, false), run(FLUSH, true), run(FLUSH, false)), (plain, plain, scaled), "{name}");
    }
}
