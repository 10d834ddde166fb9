//! The EVEX encoder: AVX-512 instructions on vectors of 512 bits, which the assembler does not have. `lanes/sixteen.rs`
//! uses it.
//!
//! An instruction is a prefix of four bytes, an opcode, a ModRM operand, and maybe an immediate byte. The prefix
//! extends the register fields, and has one more register, a vector. Vector registers are those from 0 to 31.

use dynasmrt::DynasmApi;

use super::Asm;

/// The field `pp`: the mandatory prefix that older encodings have as a byte of its own.
#[derive(Clone, Copy)]
enum MandatoryPrefix {
    None = 0,
    P66 = 1,
    PF3 = 2,
}

/// The opcode map: the escape bytes that older encodings have before the opcode.
#[derive(Clone, Copy)]
enum Map {
    M0F = 1,
    M0F38 = 2,
    M0F3A = 3,
}

/// An instruction: what manuals write as `EVEX.512.66.0F38.W0 40 /r`, say.
#[derive(Clone, Copy)]
pub(super) struct Op {
    mandatory_prefix: MandatoryPrefix,
    map: Map,
    opcode: u8,
    /// The opcode extension in the register field of ModRM.
    digit: Option<u8>,
    /// Bytes of an operand in memory, by which short displacements are scaled.
    memory: i32,
    /// The field `W`: lanes of 64 bits.
    wide: bool,
}

macro_rules! instructions {
    ($($name:ident $prefix:ident $map:ident $opcode:literal $(/ $digit:literal)? $(memory $memory:literal)? $(wide $wide:literal)?;)*) => {$(
        pub(super) const $name: Op = Op {
            mandatory_prefix: MandatoryPrefix::$prefix,
            map: Map::$map,
            opcode: $opcode,
            digit: [$(Some($digit),)? None][0],
            memory: [$($memory,)? 64][0],
            wide: [$($wide,)? false][0],
        };
    )*};
}

instructions! {
    // Moves.
    VMOVAPS       None M0F   0x28;
    VMOVUPS       None M0F   0x10 memory 64;
    VMOVUPS_STORE None M0F   0x11 memory 64;
    VPMOVZXBD     P66  M0F38 0x31 memory 16;
    VPMOVSXBD     P66  M0F38 0x21 memory 16;
    VPMOVZXWD     P66  M0F38 0x33 memory 32;
    VPMOVSXWD     P66  M0F38 0x23 memory 32;
    // To narrower elements in memory.
    VPMOVDB       PF3  M0F38 0x31 memory 16;
    VPMOVDW       PF3  M0F38 0x33 memory 32;
    VGATHERDPS    P66  M0F38 0x92 memory 4;
    VBROADCASTSS  P66  M0F38 0x18 memory 4;
    // From a general register.
    VPBROADCASTD  P66  M0F38 0x7C;
    // To a smaller vector: the source is the register field, and the destination may be memory.
    VEXTRACTI32X4 P66  M0F3A 0x39 memory 16;
    VEXTRACTI32X8 P66  M0F3A 0x3B memory 32;
    // From one, to a part of a larger vector.
    VINSERTF32X4  P66  M0F3A 0x18 memory 16;
    VINSERTI32X8  P66  M0F3A 0x3A memory 32;
    // Lanes of two vectors, in each group of four.
    // Of two vectors, by the numbers in the second operand.
    VPERMT2PS     P66  M0F38 0x7F;
    VUNPCKLPS     None M0F   0x14;
    VUNPCKHPS     None M0F   0x15;
    VSHUFPS       None M0F   0xC6;
    // Floats.
    VADDPS        None M0F   0x58;
    VMULPS        None M0F   0x59;
    VSUBPS        None M0F   0x5C;
    VMINPS        None M0F   0x5D;
    VDIVPS        None M0F   0x5E;
    VMAXPS        None M0F   0x5F;
    VSQRTPS       None M0F   0x51;
    VCVTDQ2PS     None M0F   0x5B;
    VMULPD        P66  M0F   0x59 wide true;
    VBROADCASTSD  P66  M0F38 0x19 memory 8 wide true;
    // Between 32-bit lanes in a half and 64-bit ones, with signs and without.
    VCVTDQ2PD     PF3  M0F   0xE6 memory 32;
    VCVTTPD2DQ    P66  M0F   0xE6 wide true;
    VCVTUDQ2PD    PF3  M0F   0x7A memory 32;
    VCVTTPD2UDQ   None M0F   0x78 wide true;
    VRNDSCALEPS   P66  M0F3A 0x08;
    // From the lower half of a register to 64-bit lanes, and back to a half.
    VCVTTPS2QQ    P66  M0F   0x7A;
    VPMOVQD       PF3  M0F38 0x35;
    // Integers.
    VPADDD        P66  M0F   0xFE;
    VPSUBD        P66  M0F   0xFA;
    VPMULLD       P66  M0F38 0x40;
    VPMINSD       P66  M0F38 0x39;
    VPMINUD       P66  M0F38 0x3B;
    VPMAXSD       P66  M0F38 0x3D;
    VPMAXUD       P66  M0F38 0x3F;
    VPABSD        P66  M0F38 0x1E;
    // Bits.
    VPANDD        P66  M0F   0xDB;
    VPORD         P66  M0F   0xEB;
    VPXORD        P66  M0F   0xEF;
    VPTERNLOGD    P66  M0F3A 0x25;
    VPSRLD        P66  M0F   0x72 /2;
    VPSRAD        P66  M0F   0x72 /4;
    VPSLLD        P66  M0F   0x72 /6;
    VPSRLVD       P66  M0F38 0x45;
    VPSRAVD       P66  M0F38 0x46;
    VPSLLVD       P66  M0F38 0x47;
    // Tests, whose results are masks, and lanes of ones or zeros from a mask.
    VCMPPS        None M0F   0xC2;
    VPCMPD        P66  M0F3A 0x1F;
    VPCMPUD       P66  M0F3A 0x1E;
    VPTESTMD      P66  M0F38 0x27;
    VPMOVM2D      PF3  M0F38 0x38;
    // A mask from the signs of lanes.
    VPMOVD2M      PF3  M0F38 0x39;
}

/// Set next to a mask register: lanes that it leaves out become zero, and do not stay as they are.
const ZEROING: u8 = 1 << 7;

/// An operand that a general or a vector register holds, or memory.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    Register(u8),
    Memory(Memory),
}

/// A memory operand: the sum of a base register, maybe an index register shifted left, and a displacement.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub base: u8,
    /// A general register, or a vector of as many as there are lanes; and the shift.
    pub index: Option<(u8, u8)>,
    pub offset: i32,
}

/// The operands of an instruction.
struct Fields {
    register: u8,
    vector: u8,
    operand: Operand,
    /// The mask register of the lanes that are written; 0 is none.
    mask: u8,
    constant: Option<u8>,
}

impl Op {
    /// `dst = op src`.
    pub fn unary(self, asm: &mut Asm, dst: u8, src: u8) {
        self.on(asm, dst, Operand::Register(src));
    }

    /// `dst = op src`, or a store of `dst`.
    pub fn on(self, asm: &mut Asm, dst: u8, src: Operand) {
        self.emit(asm, Fields { register: dst, vector: 0, operand: src, mask: 0, constant: None });
    }

    /// `dst = a op b`.
    pub fn binary(self, asm: &mut Asm, dst: u8, a: u8, b: u8) {
        self.emit(asm, Fields { register: dst, vector: a, operand: Operand::Register(b), mask: 0, constant: None });
    }

    /// `dst = a op b`, where the operation depends on the constant.
    pub fn binary_by(self, asm: &mut Asm, dst: u8, a: u8, b: u8, constant: u8) {
        self.binary_on(asm, dst, a, Operand::Register(b), constant);
    }

    /// The same, where the second operand may be in memory.
    pub fn binary_on(self, asm: &mut Asm, dst: u8, a: u8, operand: Operand, constant: u8) {
        self.emit(asm, Fields { register: dst, vector: a, operand, mask: 0, constant: Some(constant) });
    }

    /// `dst = src op constant`.
    pub fn by_constant(self, asm: &mut Asm, dst: u8, src: u8, constant: u8) {
        // The digit takes the register field.
        let (operand, constant) = (Operand::Register(src), Some(constant));
        self.emit(asm, Fields { register: 0, vector: dst, operand, mask: 0, constant });
    }

    /// Part number `constant` of `src`.
    pub fn part(self, asm: &mut Asm, dst: u8, src: u8, constant: u8) {
        let (operand, constant) = (Operand::Register(dst), Some(constant));
        self.emit(asm, Fields { register: src, vector: 0, operand, mask: 0, constant });
    }

    /// `dst = op src` for the lanes of the mask.
    pub fn masked(self, asm: &mut Asm, dst: u8, mask: u8, src: Memory) {
        let operand = Operand::Memory(src);
        self.emit(asm, Fields { register: dst, vector: 0, operand, mask, constant: None });
    }

    /// `dst = a op b` for the lanes of the mask.
    pub fn register_masked(self, asm: &mut Asm, dst: u8, a: u8, b: u8, mask: u8) {
        self.emit(asm, Fields { register: dst, vector: a, operand: Operand::Register(b), mask, constant: None });
    }

    /// `dst = op src` for the lanes of the mask, where lanes that the mask leaves out become zero.
    pub fn masked_or_zero(self, asm: &mut Asm, dst: u8, mask: u8, src: Memory) {
        self.masked(asm, dst, ZEROING | mask, src);
    }

    /// `dst = op src`, where the operation depends on the constant.
    pub fn unary_by(self, asm: &mut Asm, dst: u8, src: u8, constant: u8) {
        self.binary_by(asm, dst, 0, src, constant);
    }

    fn emit(self, asm: &mut Asm, fields: Fields) {
        let register = self.digit.unwrap_or(fields.register);
        let (index, base) = match fields.operand {
            Operand::Register(register) => (0, register),
            Operand::Memory(memory) => (memory.index.map_or(0, |(index, _)| index), memory.base),
        };
        debug_assert!([register, fields.vector, index, base].iter().all(|number| *number < 32));
        // Bits of registers, the lowest of which is number 0, are inverted.
        let bit = |number: u8, bit: u8, at: u8| (!number >> bit & 1) << at;
        // An operand in a register has its last bit where an index has its fourth one.
        let index_or_base = match fields.operand {
            Operand::Register(register) => bit(register, 4, 6),
            Operand::Memory(_) => bit(index, 3, 6),
        };
        let (fixed, length_512) = (1 << 2, 2 << 5);
        let bytes = [
            0x62,
            bit(register, 3, 7) | index_or_base | bit(base, 3, 5) | bit(register, 4, 4) | self.map as u8,
            u8::from(self.wide) << 7 | (!fields.vector & 15) << 3 | fixed | self.mandatory_prefix as u8,
            // An instruction has a vector as its second operand or as its index.
            length_512 | bit(fields.vector | index, 4, 3) | fields.mask,
            self.opcode,
        ];
        bytes.into_iter().for_each(|byte| asm.ops.push(byte));
        match fields.operand {
            Operand::Register(number) => asm.ops.push(3 << 6 | (register & 7) << 3 | number & 7),
            Operand::Memory(memory) => self.memory(asm, register, memory),
        }
        if let Some(constant) = fields.constant {
            asm.ops.push(constant);
        }
    }

    fn memory(self, asm: &mut Asm, register: u8, memory: Memory) {
        let Memory { base, index, offset } = memory;
        let short = i8::try_from(offset / self.memory).ok().filter(|_| offset % self.memory == 0);
        let mode = match (offset, short) {
            // Without a displacement this base would mean none.
            (0, _) if base & 7 != 5 => 0,
            (_, Some(_)) => 1,
            (_, None) => 2,
        };
        // As a base: a SIB byte follows. As an index: there is none.
        let both = 4;
        let needs_both = index.is_some() || base & 7 == both;
        let rm = if needs_both { both } else { base & 7 };
        asm.ops.push(mode << 6 | (register & 7) << 3 | rm);
        if needs_both {
            let (index, shift) = index.unwrap_or((both, 0));
            asm.ops.push(shift << 6 | (index & 7) << 3 | base & 7);
        }
        match (mode, short) {
            (1, Some(short)) => asm.ops.push_i8(short),
            (2, _) => asm.ops.push_i32(offset),
            _ => {}
        }
    }
}
