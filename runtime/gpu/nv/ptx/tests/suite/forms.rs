//! Each form of an instruction that computes on lanes, run on edge vectors and drawn ones, against a reference that
//! shares nothing with the interpreter: integers of 128 bits, and floats in integers.

use std::cmp::Ordering;

use super::soft::{self, Format, Mode, Number};
use crate::support::{Buffers, load, run, text};
use vireo_ptx::instructions::INSTRUCTIONS;
use vireo_ptx::isa::{BodyInfo, Form, InstructionInfo, VariantInfo};
use vireo_ptx::suffixes::{Type, TypeKind};

const THREADS: usize = 96;

struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    /// A value of a type: half of them edges.
    fn value(&mut self, ty: Type) -> u64 {
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
            Type::F32x2 => self.value(Type::F32) | self.value(Type::F32) << 32,
            _ => value & mask,
        }
    }
}

fn format(ty: Type) -> Option<Format> {
    Some(match ty {
        Type::F16 | Type::F16x2 => soft::F16,
        Type::Bf16 | Type::Bf16x2 => soft::BF16,
        Type::F32 | Type::F32x2 => soft::F32,
        Type::F64 => soft::F64,
        _ => return None,
    })
}

/// An expected result.
#[derive(Debug)]
enum Expected {
    Bits(u64),
    /// A float, with a relative tolerance.
    Near(f64),
}

struct Case<'a> {
    /// The suffixes, and the opcode.
    parts: Vec<&'a str>,
    to: Type,
    from: Type,
    values: [u64; 4],
    carry: bool,
}

fn extend(ty: Type, value: u64) -> i128 {
    let bits = ty.bits();
    let value = if bits == 64 { value } else { value & ((1 << bits) - 1) };
    if ty.kind() == TypeKind::Signed { i128::from((value << (64 - bits)) as i64 >> (64 - bits)) } else { value.into() }
}

fn cut(ty: Type, value: i128) -> u64 {
    let bits = ty.bits();
    if bits == 64 { value as u64 } else { value as u64 & ((1 << bits) - 1) }
}

fn limits(ty: Type) -> (i128, i128) {
    let bits = ty.bits();
    if ty.kind() == TypeKind::Signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

impl Case<'_> {
    fn has(&self, suffix: &str) -> bool {
        self.parts[1..].contains(&suffix)
    }

    fn mode(&self) -> Mode {
        match () {
            () if self.has("rz") => Mode::Zero,
            () if self.has("rm") => Mode::Down,
            () if self.has("rp") => Mode::Up,
            () => Mode::Even,
        }
    }

    fn flushed(&self, format: Format, number: Number) -> Number {
        // Of doubles only approximations flush.
        let digits = if format == soft::F64 { 52 } else { 23 };
        match number {
            Number::Finite(negative, significand, _)
                if self.has("ftz") && matches!(format.bits, 32 | 64) && significand >> digits == 0 =>
            {
                Number::Finite(negative, 0, 0)
            }
            number => number,
        }
    }

    /// The bits of a float result, after what suffixes do to it.
    fn float(&self, format: Format, number: Number) -> u64 {
        let mut bits = soft::round(format, number, self.mode());
        if self.has("ftz") && format == soft::F32 && bits & 0x7F80_0000 == 0 {
            bits &= 1 << 31;
        }
        if self.has("sat") {
            let number = soft::decode(format, bits);
            let value = soft::value(number);
            let limited = if value.is_nan() || value <= 0.0 { 0.0 } else { value.min(1.0) };
            bits = soft::round(format, soft::decode(soft::F64, limited.to_bits()), Mode::Even);
        }
        if self.has("relu") && (bits >> (format.bits - 1) & 1 == 1) && soft::decode(format, bits) != Number::Nan {
            bits = 0;
        }
        bits
    }

    fn compare(&self) -> Option<bool> {
        let name = self.parts.iter().find(|part| {
            [
                "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
                "num", "nan",
            ]
            .contains(part)
        })?;
        let order = match format(self.from) {
            Some(format) => {
                let [a, b] = [0, 1].map(|index| self.flushed(format, soft::decode(format, self.values[index])));
                soft::compare(a, b)
            }
            None => Some(extend(self.from, self.values[0]).cmp(&extend(self.from, self.values[1]))),
        };
        Some(match (*name, order) {
            ("num", order) => order.is_some(),
            ("nan", order) => order.is_none(),
            (name, None) => name.ends_with('u') && name.len() == 3,
            (name, Some(order)) => match name.trim_end_matches('u') {
                "eq" => order == Ordering::Equal,
                "ne" => order != Ordering::Equal,
                "lt" | "lo" => order == Ordering::Less,
                "le" | "ls" => order != Ordering::Greater,
                "gt" | "hi" => order == Ordering::Greater,
                _ => order != Ordering::Less,
            },
        })
    }

    /// The results: a value, and a carry.
    fn expected(&self) -> Option<(Expected, Option<bool>)> {
        let bits = |value: u64| Some((Expected::Bits(value), None));
        match self.parts[0] {
            "cvt" => return self.convert().map(|expected| (expected, None)),
            "setp" => return bits(self.compare()?.into()),
            "set" => {
                let is_true = self.compare()?;
                return bits(match (is_true, format(self.to)) {
                    (false, _) => 0,
                    (true, None) => cut(self.to, -1),
                    (true, Some(format)) => soft::round(format, Number::Finite(false, 1, 0), Mode::Even),
                });
            }
            "selp" => return bits(self.values[if self.values[2] & 1 == 1 { 0 } else { 1 }]),
            "slct" => {
                let first = match format(self.from) {
                    None => extend(Type::S32, self.values[2]) >= 0,
                    Some(format) => match self.flushed(format, soft::decode(format, self.values[2])) {
                        Number::Nan => false,
                        Number::Infinity(negative) => !negative,
                        Number::Finite(negative, significand, _) => !negative || significand == 0,
                    },
                };
                return bits(self.values[usize::from(!first)]);
            }
            _ => {}
        }
        match format(self.from) {
            Some(_) if self.parts[0] == "neg" || self.parts[0] == "abs" || self.parts[0] == "copysign" => self.sign(),
            Some(format) => self.on_floats(format).map(|expected| (expected, None)),
            None => self.on_integers(),
        }
    }

    fn sign(&self) -> Option<(Expected, Option<bool>)> {
        let format = format(self.from)?;
        let part = |value: u64, other: u64| {
            let mut value = value & !0 >> (64 - format.bits);
            if self.has("ftz") && format == soft::F32 && value & 0x7F80_0000 == 0 {
                value &= 1 << 31;
            }
            let sign = 1 << (format.bits - 1);
            match self.parts[0] {
                "neg" => value ^ sign,
                "abs" => value & !sign,
                _ => other & !sign | value & sign,
            }
        };
        let (a, b) = (self.values[0], self.values[1]);
        let result = if self.from.kind() == TypeKind::Packed {
            part(a, b) | part(a >> format.bits, b >> format.bits) << format.bits
        } else {
            part(a, b)
        };
        Some((Expected::Bits(result), None))
    }

    fn on_floats(&self, format: Format) -> Option<Expected> {
        if self.from.kind() == TypeKind::Packed {
            let mut result = 0;
            for shift in [0, format.bits] {
                let mask = !0 >> (64 - format.bits);
                let part =
                    Case { values: self.values.map(|value| value >> shift & mask), parts: self.parts.clone(), ..*self };
                let from = match self.from {
                    Type::F16x2 => Type::F16,
                    Type::Bf16x2 => Type::Bf16,
                    _ => Type::F32,
                };
                match (Case { from, to: from, ..part }).on_floats(format)? {
                    Expected::Bits(bits) => result |= bits << shift,
                    Expected::Near(_) => return None,
                }
            }
            return Some(Expected::Bits(result));
        }
        let result = super::forms::format(self.to)?;
        let third = if self.parts[0] == "fma" { result } else { format };
        let number = |index: usize, format: Format| self.flushed(format, soft::decode(format, self.values[index]));
        let (a, b, c, mode) = (number(0, format), number(1, format), number(2, third), self.mode());
        let value = soft::value(a);
        let exact = match self.parts[0] {
            "add" => soft::add(a, b, mode),
            "sub" => soft::add(a, soft::negate(b), mode),
            "mul" => soft::multiply(a, b),
            "fma" | "mad" => soft::add(soft::multiply(a, b), c, mode),
            "div" if !self.has("approx") && !self.has("full") => soft::divide(a, b),
            "rcp" if !self.has("approx") => soft::divide(Number::Finite(false, 1, 0), a),
            "sqrt" if !self.has("approx") => soft::root(a),
            "min" | "max" => {
                let is_nan = |number| number == Number::Nan;
                let picks_a = match soft::compare(a, b) {
                    None if self.has("NaN") => return Some(Expected::Bits(soft::round(format, Number::Nan, mode))),
                    None => is_nan(b),
                    Some(Ordering::Equal) => {
                        let negative = matches!(a, Number::Finite(true, ..) | Number::Infinity(true));
                        negative == (self.parts[0] == "min")
                    }
                    Some(order) => (order == Ordering::Less) == (self.parts[0] == "min"),
                };
                if picks_a { a } else { b }
            }
            "div" => return Some(Expected::Near(value / soft::value(b))),
            "rcp" => return Some(Expected::Near(1.0 / value)),
            "sqrt" => return Some(Expected::Near(value.sqrt())),
            "rsqrt" => return Some(Expected::Near(1.0 / value.sqrt())),
            "ex2" => return Some(Expected::Near(value.exp2())),
            "lg2" => return Some(Expected::Near(value.log2())),
            "sin" => return Some(Expected::Near(value.sin())),
            "cos" => return Some(Expected::Near(value.cos())),
            "tanh" => return Some(Expected::Near(value.tanh())),
            _ => return None,
        };
        Some(Expected::Bits(self.float(result, exact)))
    }

    fn on_integers(&self) -> Option<(Expected, Option<bool>)> {
        let (ty, width) = (self.from, self.from.bits());
        let [a, b, c, _] = self.values.map(|value| extend(ty, value));
        let [x, y, z, w] = self.values;
        let carry = i128::from(self.carry);
        let unsigned = |value: u64| extend(Type::U64, value) & ((1 << width) - 1);
        let (ux, uy) = (unsigned(x), unsigned(y));
        let product = a.wrapping_mul(b);
        let is_signed = ty.kind() == TypeKind::Signed;
        let high = if is_signed { product >> width } else { ((ux as u128 * uy as u128) >> width) as i128 };
        let part = |product: i128| cut(ty, if self.has("hi") { high } else { product });
        let low24 = |value: u64| {
            let value = i128::from(value & 0xFF_FFFF);
            if ty.kind() == TypeKind::Signed && value >= 1 << 23 { value - (1 << 24) } else { value }
        };
        let clamp = |value: i128| value.clamp(limits(ty).0, limits(ty).1);
        let amount = |value: u64| value & 0xFFFF_FFFF;
        let plain = |value: u64| Some((Expected::Bits(value), None));
        let field = |value: u64| (value & 0xFF) as u32;
        let bytes = |low: u64, high: u64| low & 0xFFFF_FFFF | high << 32;
        match self.parts[0] {
            "add" | "addc" => {
                let extra = if self.parts[0] == "addc" { carry } else { 0 };
                let sum = if self.has("sat") { clamp(a + b) } else { a + b + extra };
                Some((Expected::Bits(cut(ty, sum)), Some((ux + uy + extra) >> width != 0)))
            }
            "sub" | "subc" => {
                let extra = if self.parts[0] == "subc" { carry } else { 0 };
                let difference = if self.has("sat") { clamp(a - b) } else { a - b - extra };
                Some((Expected::Bits(cut(ty, difference)), Some(ux - uy - extra < 0)))
            }
            "mul" if self.has("wide") => plain(cut(self.to, product)),
            "mul" => plain(part(product)),
            "mad" if self.has("wide") => plain(cut(self.to, product + i128::from(z))),
            "mad" | "madc" => {
                let (extra, product) = (if self.parts[0] == "madc" { carry } else { 0 }, part(product));
                let sum = extend(ty, product) + c;
                let sum = if self.has("sat") { clamp(sum) } else { sum + extra };
                Some((Expected::Bits(cut(ty, sum)), Some((unsigned(product) + unsigned(z) + extra) >> width != 0)))
            }
            "mul24" | "mad24" => {
                let product = low24(x) * low24(y);
                let part = cut(ty, if self.has("hi") { product >> 16 } else { product });
                let sum = extend(ty, part) + if self.parts[0] == "mad24" { c } else { 0 };
                plain(cut(ty, if self.has("sat") { clamp(sum) } else { sum }))
            }
            "sad" => plain(cut(ty, (a - b).abs() + c)),
            "div" => plain(if b == 0 { cut(ty, -1) } else { cut(ty, a / b) }),
            "rem" => plain(if b == 0 { cut(ty, a) } else { cut(ty, a % b) }),
            "abs" => plain(cut(ty, a.abs())),
            "neg" => plain(cut(ty, -a)),
            "min" => plain(cut(ty, a.min(b))),
            "max" => plain(cut(ty, a.max(b))),
            "and" => plain(x & y),
            "or" => plain(x | y),
            "xor" => plain(x ^ y),
            "not" => plain(if ty == Type::Pred { !x & 1 } else { cut(ty, !a) }),
            "cnot" => plain(u64::from(a == 0)),
            "shl" => plain(if amount(y) >= width.into() { 0 } else { cut(ty, a << amount(y)) }),
            "shr" => plain(cut(ty, a >> amount(y).min(64))),
            "shf" => {
                let amount = if self.has("wrap") { z & 31 } else { amount(z).min(32) };
                let pair = u128::from(bytes(x, y));
                plain(if self.has("l") {
                    (pair << amount >> 32) as u64 & 0xFFFF_FFFF
                } else {
                    (pair >> amount) as u64 & 0xFFFF_FFFF
                })
            }
            "bfe" => {
                let (first, count) = (field(y), field(z));
                let bit = |at: u32| ux >> at.min(127) & i128::from(at < width);
                let highest = (first + count).wrapping_sub(1).min(width - 1);
                let fill = if count > 0 && ty.kind() == TypeKind::Signed { ux >> highest & 1 } else { 0 };
                let value = (0..width).map(|at| {
                    let is_in = at < count && first + at < width;
                    (if is_in { bit(first + at) } else { fill }) << at
                });
                plain(value.sum::<i128>() as u64)
            }
            "bfi" => {
                let (first, count) = (field(z), field(w));
                let value = (0..width).map(|at| {
                    let is_in = at >= first && at - first < count;
                    (if is_in { ux >> (at - first) & 1 } else { uy >> at & 1 }) << at
                });
                plain(value.sum::<i128>() as u64)
            }
            "bfind" => {
                let magnitude = if a < 0 { !a } else { a };
                let highest = (0..width).rev().find(|at| magnitude >> at & 1 == 1);
                plain(match highest {
                    None => 0xFFFF_FFFF,
                    Some(at) if self.has("shiftamt") => u64::from(width - 1 - at),
                    Some(at) => at.into(),
                })
            }
            "brev" => plain((0..width).map(|at| (ux >> at & 1) << (width - 1 - at)).sum::<i128>() as u64),
            "popc" => plain(ux.count_ones().into()),
            "clz" => plain((0..width).rev().take_while(|at| ux >> at & 1 == 0).count() as u64),
            "lop3" => {
                plain((0..32).map(|at| (w >> ((x >> at & 1) << 2 | (y >> at & 1) << 1 | z >> at & 1) & 1) << at).sum())
            }
            "prmt" => {
                let all = bytes(x, y).to_le_bytes();
                let at = |index: u64| u64::from(all[index as usize & 7]);
                let mode = *self.parts.last()?;
                let byte = |index: u64| match mode {
                    "f4e" => at((z & 3) + index),
                    "b4e" => at((z & 3).wrapping_sub(index)),
                    "rc8" => at(z & 3),
                    "ecl" => at((z & 3).max(index)),
                    "ecr" => at((z & 3).min(index)),
                    "rc16" => at((z & 1) * 2 + (index & 1)),
                    _ => {
                        let selector = z >> (4 * index) & 15;
                        let byte = at(selector & 7);
                        if selector & 8 == 0 {
                            byte
                        } else if byte & 0x80 != 0 {
                            0xFF
                        } else {
                            0
                        }
                    }
                };
                plain((0..4).map(|index| byte(index) << (8 * index)).sum())
            }
            "dp4a" => {
                let byte = |value: u64, at: u32, suffix: &str| {
                    let byte = (value >> (8 * at)) as u8;
                    if suffix == "s32" { i128::from(byte as i8) } else { i128::from(byte) }
                };
                let (first, second) = (self.parts[1], self.parts[2]);
                let sum: i128 = (0..4).map(|at| byte(x, at, first) * byte(y, at, second)).sum();
                plain(cut(Type::U32, sum + i128::from(z)))
            }
            _ => None,
        }
    }

    fn convert(&self) -> Option<Expected> {
        let (to, from) = (format(self.to), format(self.from));
        let value = self.values[0];
        let number = from.map(|from| self.flushed(from, soft::decode(from, value)));
        // A result of eight bits is extended to its register.
        let put = |value: i128| {
            let bits = cut(self.to, value);
            match (self.to.bits(), self.to.kind()) {
                (8, TypeKind::Signed) => extend(self.to, bits) as u32 as u64,
                _ => bits,
            }
        };
        if self.to.kind() == TypeKind::Packed {
            let part = |value: u64| self.float(to.unwrap(), self.flushed(soft::F32, soft::decode(soft::F32, value)));
            return Some(Expected::Bits(part(self.values[0]) << 16 | part(self.values[1])));
        }
        let integers = ["rni", "rzi", "rmi", "rpi"];
        let rounding = self.parts.iter().find(|part| integers.contains(part));
        Some(Expected::Bits(match (to, from) {
            (None, None) => {
                let value = extend(self.from, value);
                let (low, high) = limits(self.to);
                put(if self.has("sat") { value.clamp(low, high) } else { value })
            }
            (None, Some(_)) if self.to == Type::Tf32 => return None,
            (None, Some(_)) => match soft::integer(number?, rounding?) {
                Some(value) => put(value.clamp(limits(self.to).0, limits(self.to).1)),
                None if self.from == Type::F64 || self.to.bits() == 64 => put(1 << (self.to.bits() - 1)),
                None => 0,
            },
            (Some(to), None) => {
                let value = extend(self.from, value);
                self.float(to, Number::Finite(value < 0, value.unsigned_abs(), 0))
            }
            (Some(to), Some(_)) => match rounding {
                Some(rounding) => match (soft::integer(number?, rounding), number?) {
                    (None, _) | (_, Number::Infinity(_)) => self.float(to, number?),
                    // Beyond all digits every number is whole.
                    (Some(value), _) if value.abs() >= 1 << 90 => self.float(to, number?),
                    (Some(value), Number::Finite(negative, ..)) => {
                        self.float(to, Number::Finite(negative, value.unsigned_abs(), 0))
                    }
                    _ => return None,
                },
                None => self.float(to, number?),
            },
        }))
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

/// A kernel that runs a form on inputs of four values for each thread, with results of two values.
fn kernel_of(form: &str, types: &[Type], results: usize, carry: (bool, bool)) -> String {
    let mut body = String::from(
        "ld.param.u64 %rd40, [p0]; ld.param.u64 %rd41, [p1]; mov.u32 %r60, %tid.x; mul.wide.u32 %rd42, %r60, 40;\n\
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
    text(&format!(
        ".visible .entry k(.param .u64 p0, .param .u64 p1) {{\n.reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<80>;\n\
         .reg .b64 %rd<60>;\n{body}ret;\n}}\n"
    ))
}

fn forms_of(info: &'static InstructionInfo, variant: &'static VariantInfo) -> Vec<Form> {
    let BodyInfo::Lanes(handlers) = variant.body else { return Vec::new() };
    let mut forms = Vec::new();
    for number in 0..handlers.len() {
        let mut rest = number;
        let mut choices = vec![None; variant.positions.len()];
        for (choice, position) in choices.iter_mut().zip(variant.positions).rev() {
            let extra = usize::from(position.optional);
            let digit = rest % (position.values.len() + extra);
            rest /= position.values.len() + extra;
            *choice = digit.checked_sub(extra).map(|at| position.values[at]);
        }
        let form = Form { instruction: info, variant, choices };
        if form.handler().is_some() {
            forms.push(form);
        }
    }
    forms
}

fn check(form: &Form, draw: &mut Draw) -> Result<usize, String> {
    let count = form.variant.operands.len();
    let types: Vec<Type> = (0..count).map(|index| form.operand_type(index).unwrap()).collect();
    let (name, results) = (form.text(), form.variant.results);
    let module = load(&kernel_of(&name, &types, results, (form.variant.carry_in, form.variant.carry_out)));
    let mut inputs = Vec::new();
    for _ in 0..THREADS {
        let mut values = [0u64; 5];
        for (value, ty) in values.iter_mut().zip(&types[results..]) {
            *value = draw.value(*ty);
        }
        values[4] = draw.bits() >> 17 & 1;
        inputs.push(values);
    }
    let mut buffers = Buffers::new();
    let bytes: Vec<u8> = inputs.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    let (from, to) = (buffers.add(&bytes), buffers.add(&[0; 16 * THREADS]));
    run(module.kernel("k").unwrap(), &buffers, [1, 1, 1], [THREADS as u32, 1, 1], &[from, to])
        .unwrap_or_else(|trap| panic!("{name}: {trap}"));
    let outputs = buffers.bytes(to);
    let mut checked = 0;
    for (thread, values) in inputs.iter().enumerate() {
        let parts: Vec<&str> = name.split('.').collect();
        let from = match parts[0] {
            "slct" => types[3],
            "selp" => types[1],
            _ => types[results.min(count - 1)],
        };
        let inputs = [values[0], values[1], values[2], values[3]];
        let case = Case { parts, to: types[0], from, values: inputs, carry: values[4] != 0 };
        let Some((expected, carry)) = case.expected() else { continue };
        let word = |at: usize| u64::from_le_bytes(outputs[16 * thread + at..][..8].try_into().unwrap());
        let found = word(0);
        checked += 1;
        match expected {
            Expected::Bits(expected) => {
                let both_nan = float_nan(types[0], found) && float_nan(types[0], expected);
                let same = match types[0] {
                    Type::F16x2 | Type::Bf16x2 | Type::F32x2 => same_parts(types[0], found, expected),
                    _ => found == expected || both_nan,
                };
                if !same {
                    return Err(format!("{name} of {inputs:x?}: {found:#x}, not {expected:#x}"));
                }
            }
            Expected::Near(expected) => near(&name, types[0], &inputs, found, expected)?,
        }
        if let (true, Some(carry)) = (form.variant.carry_out, carry)
            && word(8) != u64::from(carry)
        {
            return Err(format!("the carry of {name} of {inputs:x?}"));
        }
    }
    Ok(checked)
}

fn float_nan(ty: Type, bits: u64) -> bool {
    format(ty).is_some_and(|format| soft::decode(format, bits) == Number::Nan)
}

fn same_parts(ty: Type, found: u64, expected: u64) -> bool {
    let Some(format) = format(ty) else { return false };
    let mask = !0 >> (64 - format.bits);
    [0, format.bits].into_iter().all(|shift| {
        let (found, expected) = (found >> shift & mask, expected >> shift & mask);
        let is_nan = |bits| soft::decode(format, bits) == Number::Nan;
        found == expected || is_nan(found) && is_nan(expected)
    })
}

/// Approximations: within a few units of the format, and zero where the result would be subnormal.
fn near(name: &str, ty: Type, inputs: &[u64; 4], found: u64, expected: f64) -> Result<(), String> {
    let Some(format) = format(ty) else { return Ok(()) };
    let value = soft::value(soft::decode(format, found));
    let unit = 2f64.powi(-(format.digits.min(22) as i32 - 2));
    let least = 2f64.powi(format.least);
    let largest = 2f64.powi((-format.least + 1).min(1023));
    let fits = expected.is_nan() && value.is_nan()
        || value == expected
        || (value - expected).abs() <= unit * expected.abs()
        || expected.abs() < least * 1.01 && value.abs() <= least * 1.01
        || expected.abs() >= largest && value.is_infinite();
    if fits { Ok(()) } else { Err(format!("{name} of {inputs:x?}: {value:e}, not {expected:e}")) }
}

#[test]
fn forms_compute_what_the_reference_does() {
    let mut draw = Draw(0x5EED_0005);
    let (mut forms, mut unchecked, mut wrong) = (0, Vec::new(), Vec::new());
    for info in INSTRUCTIONS {
        for variant in info.variants {
            for form in forms_of(info, variant) {
                forms += 1;
                match check(&form, &mut draw) {
                    Ok(0) => unchecked.push(form.text()),
                    Ok(_) => {}
                    Err(error) => wrong.push(error),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {forms} forms are wrong:\n{}", wrong.len(), wrong.join("\n"));
    println!("{forms} forms, {} without a reference: {unchecked:?}", unchecked.len());
    assert!(forms > 1500 && unchecked.len() < 12, "{forms} forms, without a reference: {unchecked:?}");
}
