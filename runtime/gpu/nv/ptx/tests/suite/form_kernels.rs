//! Kernels that run one form of an instruction on edge values and drawn ones: for the tests of the interpreter, and for
//! those of GPUs.

use vireo_ptx::suffixes::{Type, TypeKind};

/// Values drawn from a seed.
pub struct Draw(pub u64);

impl Draw {
    /// Drawn bits, of which the higher ones are better.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    /// A value of a type: half of them edges.
    pub fn value(&mut self, ty: Type) -> u64 {
        let bits = ty.bits();
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let edges: &[u64] = match ty {
            Type::F16 => &[0, 0x8000, 0x3C00, 0xBC00, 1, 0x3FF, 0x400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x3555, 0x6400],
            Type::Bf16 => &[0, 0x8000, 0x3F80, 0xBF80, 1, 0x7F, 0x80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x3EAA],
            Type::F32 => &[
                0,
                1 << 31,
                0x3F80_0000,
                0xBF80_0000,
                1,
                0x7F_FFFF,
                0x80_0000,
                0x7F7F_FFFF,
                0x7F80_0000,
                0xFF80_0000,
                0x7FC0_0000,
                0x3EAA_AAAB,
                0x4B80_0001,
                0x3F00_0000,
                0x4F00_0000,
                0xCF00_0000,
                0x4F80_0000,
                0x5F00_0000,
            ],
            Type::F64 => &[
                0,
                1 << 63,
                0x3FF0 << 48,
                0xBFF0 << 48,
                1,
                0xF_FFFF_FFFF_FFFF,
                0x10 << 48,
                0x7FEF_FFFF_FFFF_FFFF,
                0x7FF0 << 48,
                0xFFF0 << 48,
                0x7FF8 << 48,
                0x3FD5_5555_5555_5555,
                0x41E0 << 48,
                0x43E0 << 48,
                0x41DF_FFFF_FFC0_0000,
            ],
            _ => &[0, 1, 2, u64::MAX, u64::MAX >> 1, 1 << 63, 0x7FFF, 0x8000, 0xFF, 0x80, 31, 32, 33, 63, 64, 1 << 31],
        };
        let value = match self.bits() >> 40 & 7 {
            0..=2 => edges[(self.bits() >> 20) as usize % edges.len()],
            // Floats near to one, and small integers.
            3 | 4 if ty.kind() == TypeKind::Float => match ty {
                Type::F16 => 0x3000 + (self.bits() >> 30) % 0x1800,
                Type::Bf16 => 0x3E00 + (self.bits() >> 30) % 0x200,
                Type::F32 => (0x3D00_0000 + (self.bits() >> 20) % 0x600_0000) | ((self.bits() >> 40 & 1) << 31),
                _ => 0x3F90 << 48 | self.bits() >> 6 & !(0xFFF << 52) | (((self.bits() >> 30) % 16) << 52),
            },
            3 => (self.bits() >> 50) & 0x3F,
            4 => edges[(self.bits() >> 20) as usize % edges.len()].wrapping_add(self.bits() >> 60),
            _ => self.bits() ^ self.bits() << 32,
        };
        match ty {
            Type::F16x2 | Type::Bf16x2 => {
                let part = if ty == Type::F16x2 { Type::F16 } else { Type::Bf16 };
                self.value(part) | self.value(part) << 16
            }
            Type::E4m3x2 | Type::E5m2x2 => self.bits() >> 20 & 0xFFFF,
            Type::F32x2 => self.value(Type::F32) | self.value(Type::F32) << 32,
            _ => value & mask,
        }
    }
}

/// A register for a type, by its number.
fn register(ty: Type, number: usize) -> String {
    match ty.bits() {
        1 => format!("%p{number}"),
        8 | 32 => format!("%r{number}"),
        16 => format!("%h{number}"),
        _ => format!("%rd{number}"),
    }
}

/// A kernel `k`, without the lines before it, that runs a form on inputs of five values for each thread, with results
/// of two values.
pub fn kernel_of(form: &str, types: &[Type], results: usize, carry: (bool, bool)) -> String {
    let mut body = String::from(
        "ld.param.u64 %rd40, [p0]; ld.param.u64 %rd41, [p1]; mov.u32 %r60, %ctaid.x; mov.u32 %r61, %ntid.x;\n\
         mov.u32 %r62, %tid.x; mad.lo.u32 %r60, %r60, %r61, %r62; mul.wide.u32 %rd42, %r60, 40;\n\
         add.s64 %rd43, %rd40, %rd42; mul.wide.u32 %rd44, %r60, 16; add.s64 %rd45, %rd41, %rd44;\n",
    );
    let mut operands = Vec::new();
    for (index, ty) in types.iter().enumerate() {
        let name = register(*ty, index);
        if index >= results {
            let at = 8 * (index - results);
            body += &match ty.bits() {
                1 => format!("ld.global.b32 %r70, [%rd43+{at}]; setp.ne.b32 {name}, %r70, 0;\n"),
                8 | 32 => format!("ld.global.b32 {name}, [%rd43+{at}];\n"),
                16 => format!("ld.global.b16 {name}, [%rd43+{at}];\n"),
                _ => format!("ld.global.b64 {name}, [%rd43+{at}];\n"),
            };
        }
        operands.push(name);
    }
    if carry.0 {
        body += "ld.global.b32 %r71, [%rd43+32]; add.cc.u32 %r72, %r71, 0xFFFFFFFF;\n";
    }
    body += &format!("{form} {};\n", operands.join(", "));
    if carry.1 {
        body += "addc.u32 %r73, 0, 0; st.global.b32 [%rd45+8], %r73;\n";
    }
    let name = &operands[0];
    body += &match types[0].bits() {
        1 => format!("selp.b32 %r74, 1, 0, {name}; cvt.u64.u32 %rd46, %r74; st.global.b64 [%rd45], %rd46;\n"),
        8 | 32 => format!("cvt.u64.u32 %rd46, {name}; st.global.b64 [%rd45], %rd46;\n"),
        16 => format!("cvt.u64.u16 %rd46, {name}; st.global.b64 [%rd45], %rd46;\n"),
        _ => format!("st.global.b64 [%rd45], {name};\n"),
    };
    format!(
        ".visible .entry k(.param .u64 p0, .param .u64 p1) {{\n.reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<80>;\n\
         .reg .b64 %rd<60>;\n{body}ret;\n}}\n"
    )
}
