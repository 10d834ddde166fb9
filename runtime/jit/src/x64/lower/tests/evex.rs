//! Instructions of AVX-512 are encoded as the assembler of GNU binutils 2.40 encodes them, byte by byte.

use super::super::evex::{self, Memory, Operand};
use super::{Asm, Features};

fn memory(base: u8, index: Option<(u8, u8)>, offset: i32) -> Memory {
    Memory { base, index, offset }
}

fn at(base: u8, index: Option<(u8, u8)>, offset: i32) -> Operand {
    Operand::Memory(memory(base, index, offset))
}

/// A function that encodes an instruction.
type Encode = fn(&mut Asm);

/// Bytes, what they are, and what encodes it.
const ENCODINGS: &[(&str, &str, Encode)] = &[
    ("62d17c4828dc", "vmovaps zmm3, zmm12", |asm| evex::VMOVAPS.unary(asm, 3, 12)),
    ("62f17c481008", "vmovups zmm1, [rax]", |asm| evex::VMOVUPS.on(asm, 1, at(0, None, 0))),
    ("62717c48104c2401", "vmovups zmm9, [rsp + 64]", |asm| evex::VMOVUPS.on(asm, 9, at(4, None, 64))),
    ("62d17c4810542480", "vmovups zmm2, [r12 - 8192]", |asm| evex::VMOVUPS.on(asm, 2, at(12, None, -8192))),
    ("62d17c48105500", "vmovups zmm2, [r13]", |asm| evex::VMOVUPS.on(asm, 2, at(13, None, 0))),
    ("62f17c4810548d03", "vmovups zmm2, [rbp + rcx*4 + 192]", |asm| evex::VMOVUPS.on(asm, 2, at(5, Some((1, 2)), 192))),
    ("62117c4810bca564000000", "vmovups zmm15, [r13 + r12*4 + 100]", |asm| {
        evex::VMOVUPS.on(asm, 15, at(13, Some((12, 2)), 100))
    }),
    ("62317c48115c8f01", "vmovups [rdi + r9*4 + 64], zmm11", |asm| {
        evex::VMOVUPS_STORE.on(asm, 11, at(7, Some((9, 2)), 64))
    }),
    ("62f27d48316c1603", "vpmovzxbd zmm5, [rsi + rdx*1 + 48]", |asm| {
        evex::VPMOVZXBD.on(asm, 5, at(6, Some((2, 0)), 48))
    }),
    ("62d27d4831ef", "vpmovzxbd zmm5, xmm15", |asm| evex::VPMOVZXBD.unary(asm, 5, 15)),
    ("62f27d4821ac1608000000", "vpmovsxbd zmm5, [rsi + rdx*1 + 8]", |asm| {
        evex::VPMOVSXBD.on(asm, 5, at(6, Some((2, 0)), 8))
    }),
    ("62927d48336c5001", "vpmovzxwd zmm5, [r8 + r10*2 + 32]", |asm| {
        evex::VPMOVZXWD.on(asm, 5, at(8, Some((10, 1)), 32))
    }),
    ("62d27d4823a800100000", "vpmovsxwd zmm5, [r8 + 4096]", |asm| evex::VPMOVSXWD.on(asm, 5, at(8, None, 4096))),
    ("62127d49926cb37f", "vgatherdps zmm13{k1}, [r11 + zmm14*4 + 508]", |asm| {
        evex::VGATHERDPS.masked(asm, 13, 1, memory(11, Some((14, 2)), 508))
    }),
    ("62d27d4992949b00100000", "vgatherdps zmm2{k1}, [r11 + zmm3*4 + 4096]", |asm| {
        evex::VGATHERDPS.masked(asm, 2, 1, memory(11, Some((3, 2)), 4096))
    }),
    ("62727d4818c2", "vbroadcastss zmm8, xmm2", |asm| evex::VBROADCASTSS.unary(asm, 8, 2)),
    ("62327d48185c9709", "vbroadcastss zmm11, [rdi + r10*4 + 36]", |asm| {
        evex::VBROADCASTSS.on(asm, 11, at(7, Some((10, 2)), 36))
    }),
    ("62f27d48189c8e00100000", "vbroadcastss zmm3, [rsi + rcx*4 + 4096]", |asm| {
        evex::VBROADCASTSS.on(asm, 3, at(6, Some((1, 2)), 4096))
    }),
    ("62d27d487ce1", "vpbroadcastd zmm4, r9d", |asm| evex::VPBROADCASTD.unary(asm, 4, 9)),
    ("62727d487ce6", "vpbroadcastd zmm12, esi", |asm| evex::VPBROADCASTD.unary(asm, 12, 6)),
    ("62d37d4839ff03", "vextracti32x4 xmm15, zmm7, 3", |asm| evex::VEXTRACTI32X4.part(asm, 15, 7, 3)),
    ("62537d483bc701", "vextracti32x8 ymm15, zmm8, 1", |asm| evex::VEXTRACTI32X8.part(asm, 15, 8, 1)),
    ("62333548184c970302", "vinsertf32x4 zmm9, zmm9, [rdi + r10*4 + 48], 2", |asm| {
        evex::VINSERTF32X4.binary_on(asm, 9, 9, at(7, Some((10, 2)), 48), 2)
    }),
    ("62d31d48189d0410000003", "vinsertf32x4 zmm3, zmm12, [r13 + 4100], 3", |asm| {
        evex::VINSERTF32X4.binary_on(asm, 3, 12, at(13, None, 4100), 3)
    }),
    ("62f12c4814cb", "vunpcklps zmm1, zmm10, zmm3", |asm| evex::VUNPCKLPS.binary(asm, 1, 10, 3)),
    ("62516c4815cb", "vunpckhps zmm9, zmm2, zmm11", |asm| evex::VUNPCKHPS.binary(asm, 9, 2, 11)),
    ("62f10c48c6eeee", "vshufps zmm5, zmm14, zmm6, 0xee", |asm| evex::VSHUFPS.binary_by(asm, 5, 14, 6, 0xee)),
    ("62f16c4858cb", "vaddps zmm1, zmm2, zmm3", |asm| evex::VADDPS.binary(asm, 1, 2, 3)),
    ("62512c4859cb", "vmulps zmm9, zmm10, zmm11", |asm| evex::VMULPS.binary(asm, 9, 10, 11)),
    ("62f104485cc7", "vsubps zmm0, zmm15, zmm7", |asm| evex::VSUBPS.binary(asm, 0, 15, 7)),
    ("625144485dc7", "vminps zmm8, zmm7, zmm15", |asm| evex::VMINPS.binary(asm, 8, 7, 15)),
    ("62f10c485ef5", "vdivps zmm6, zmm14, zmm5", |asm| evex::VDIVPS.binary(asm, 6, 14, 5)),
    ("62d15c485fed", "vmaxps zmm5, zmm4, zmm13", |asm| evex::VMAXPS.binary(asm, 5, 4, 13)),
    ("62717c4851e3", "vsqrtps zmm12, zmm3", |asm| evex::VSQRTPS.unary(asm, 12, 3)),
    ("62d17c485bdc", "vcvtdq2ps zmm3, zmm12", |asm| evex::VCVTDQ2PS.unary(asm, 3, 12)),
    ("62f16d48fecb", "vpaddd zmm1, zmm2, zmm3", |asm| evex::VPADDD.binary(asm, 1, 2, 3)),
    ("62716d48facb", "vpsubd zmm9, zmm2, zmm3", |asm| evex::VPSUBD.binary(asm, 9, 2, 3)),
    ("62f22d4840cb", "vpmulld zmm1, zmm10, zmm3", |asm| evex::VPMULLD.binary(asm, 1, 10, 3)),
    ("62d26d4839cb", "vpminsd zmm1, zmm2, zmm11", |asm| evex::VPMINSD.binary(asm, 1, 2, 11)),
    ("62522d483bcb", "vpminud zmm9, zmm10, zmm11", |asm| evex::VPMINUD.binary(asm, 9, 10, 11)),
    ("62f26d483dcb", "vpmaxsd zmm1, zmm2, zmm3", |asm| evex::VPMAXSD.binary(asm, 1, 2, 3)),
    ("62f26d483fcb", "vpmaxud zmm1, zmm2, zmm3", |asm| evex::VPMAXUD.binary(asm, 1, 2, 3)),
    ("62727d481ef1", "vpabsd zmm14, zmm1", |asm| evex::VPABSD.unary(asm, 14, 1)),
    ("62f16d48dbcb", "vpandd zmm1, zmm2, zmm3", |asm| evex::VPANDD.binary(asm, 1, 2, 3)),
    ("62f16d48ebcb", "vpord zmm1, zmm2, zmm3", |asm| evex::VPORD.binary(asm, 1, 2, 3)),
    ("62f16d48efcb", "vpxord zmm1, zmm2, zmm3", |asm| evex::VPXORD.binary(asm, 1, 2, 3)),
    ("62d3354825f4ca", "vpternlogd zmm6, zmm9, zmm12, 0xca", |asm| evex::VPTERNLOGD.binary_by(asm, 6, 9, 12, 0xca)),
    ("62f12d4872d31f", "vpsrld zmm10, zmm3, 31", |asm| evex::VPSRLD.by_constant(asm, 10, 3, 31)),
    ("62d16d4872e518", "vpsrad zmm2, zmm13, 24", |asm| evex::VPSRAD.by_constant(asm, 2, 13, 24)),
    ("62d1054872f71f", "vpslld zmm15, zmm15, 31", |asm| evex::VPSLLD.by_constant(asm, 15, 15, 31)),
    ("62f26d4845cb", "vpsrlvd zmm1, zmm2, zmm3", |asm| evex::VPSRLVD.binary(asm, 1, 2, 3)),
    ("62f26d4846cb", "vpsravd zmm1, zmm2, zmm3", |asm| evex::VPSRAVD.binary(asm, 1, 2, 3)),
    ("62f26d4847cb", "vpsllvd zmm1, zmm2, zmm3", |asm| evex::VPSLLVD.binary(asm, 1, 2, 3)),
    ("62d13c48c2c919", "vcmpps k1, zmm8, zmm9, 0x19", |asm| evex::VCMPPS.binary_by(asm, 1, 8, 9, 0x19)),
    ("62d36d481fcd04", "vpcmpd k1, zmm2, zmm13, 4", |asm| evex::VPCMPD.binary_by(asm, 1, 2, 13, 4)),
    ("62f31d481ecb01", "vpcmpud k1, zmm12, zmm3, 1", |asm| evex::VPCMPUD.binary_by(asm, 1, 12, 3, 1)),
    ("62d2354827c8", "vptestmd k1, zmm9, zmm8", |asm| evex::VPTESTMD.binary(asm, 1, 9, 8)),
    ("62727e4838d9", "vpmovm2d zmm11, k1", |asm| evex::VPMOVM2D.unary(asm, 11, 1)),
    // Registers beyond the sixteenth.
    ("62817c4828dc", "vmovaps zmm19, zmm28", |asm| evex::VMOVAPS.unary(asm, 19, 28)),
    ("62e10c4058cb", "vaddps zmm17, zmm30, zmm3", |asm| evex::VADDPS.binary(asm, 17, 30, 3)),
    ("62916c4858c9", "vaddps zmm1, zmm2, zmm25", |asm| evex::VADDPS.binary(asm, 1, 2, 25)),
    ("62017c4059f8", "vmulps zmm31, zmm16, zmm24", |asm| evex::VMULPS.binary(asm, 31, 16, 24)),
    ("62817c4810a4a564000000", "vmovups zmm20, [r13 + r12*4 + 100]", |asm| {
        evex::VMOVUPS.on(asm, 20, at(13, Some((12, 2)), 100))
    }),
    ("62217c48116c8f01", "vmovups [rdi + r9*4 + 64], zmm29", |asm| {
        evex::VMOVUPS_STORE.on(asm, 29, at(7, Some((9, 2)), 64))
    }),
    ("62127d41926cb37f", "vgatherdps zmm13{k1}, [r11 + zmm30*4 + 508]", |asm| {
        evex::VGATHERDPS.masked(asm, 13, 1, memory(11, Some((30, 2)), 508))
    }),
    ("62d27d4192949b00100000", "vgatherdps zmm2{k1}, [r11 + zmm19*4 + 4096]", |asm| {
        evex::VGATHERDPS.masked(asm, 2, 1, memory(11, Some((19, 2)), 4096))
    }),
    ("62627d4818c2", "vbroadcastss zmm24, xmm2", |asm| evex::VBROADCASTSS.unary(asm, 24, 2)),
    ("62c27d487cc9", "vpbroadcastd zmm17, r9d", |asm| evex::VPBROADCASTD.unary(asm, 17, 9)),
    ("62c37d4839ff03", "vextracti32x4 xmm15, zmm23, 3", |asm| evex::VEXTRACTI32X4.part(asm, 15, 23, 3)),
    ("62c37d483bd701", "vextracti32x8 ymm15, zmm18, 1", |asm| evex::VEXTRACTI32X8.part(asm, 15, 18, 1)),
    ("62230548184c970302", "vinsertf32x4 zmm25, zmm15, [rdi + r10*4 + 48], 2", |asm| {
        evex::VINSERTF32X4.binary_on(asm, 25, 15, at(7, Some((10, 2)), 48), 2)
    }),
    ("62916c40c2cf19", "vcmpps k1, zmm18, zmm31, 0x19", |asm| evex::VCMPPS.binary_by(asm, 1, 18, 31, 0x19)),
    ("62b24d4027ce", "vptestmd k1, zmm22, zmm22", |asm| evex::VPTESTMD.binary(asm, 1, 22, 22)),
    ("62627e4838d9", "vpmovm2d zmm27, k1", |asm| evex::VPMOVM2D.unary(asm, 27, 1)),
    ("62b12d4072d31f", "vpsrld zmm26, zmm19, 31", |asm| evex::VPSRLD.by_constant(asm, 26, 19, 31)),
    ("6291054872f608", "vpslld zmm15, zmm30, 8", |asm| evex::VPSLLD.by_constant(asm, 15, 30, 8)),
    ("6283754025f4ca", "vpternlogd zmm22, zmm17, zmm28, 0xca", |asm| evex::VPTERNLOGD.binary_by(asm, 22, 17, 28, 0xca)),
    ("62c27d4831ef", "vpmovzxbd zmm21, xmm15", |asm| evex::VPMOVZXBD.unary(asm, 21, 15)),
    ("62227d4818749709", "vbroadcastss zmm30, [rdi + r10*4 + 36]", |asm| {
        evex::VBROADCASTSS.on(asm, 30, at(7, Some((10, 2)), 36))
    }),
];

#[test]
fn instructions_are_encoded_as_an_assembler_does() {
    for (expected, text, emit) in ENCODINGS {
        let mut asm = Asm::new(Features::default());
        emit(&mut asm);
        let code = asm.ops.finalize().unwrap();
        let actual: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(actual, *expected, "{text}");
    }
}
