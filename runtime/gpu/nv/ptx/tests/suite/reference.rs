//! The reference of forms: the result that a form has for some values.

use std::cmp::Ordering;

use super::soft::{self, Format, Mode, Number};
use vireo_ptx::suffixes::{Type, TypeKind};

pub fn format(ty: Type) -> Option<Format> {
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
pub enum Expected {
    Bits(u64),
    /// A float, with a relative tolerance.
    Near(f64),
}

pub struct Case<'a> {
    /// The suffixes, and the opcode.
    pub parts: Vec<&'a str>,
    pub to: Type,
    pub from: Type,
    pub values: [u64; 4],
    pub carry: bool,
    /// How many values there are.
    pub sources: usize,
}

fn magnitude(number: Number) -> Number {
    match number {
        Number::Nan => number,
        Number::Infinity(_) => Number::Infinity(false),
        Number::Finite(_, significand, exponent) => Number::Finite(false, significand, exponent),
    }
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
    pub fn expected(&self) -> Option<(Expected, Option<bool>)> {
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
        let result = super::reference::format(self.to)?;
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
            "min" | "max" if self.has("xorsign") => {
                let result = self.extreme(magnitude(a), magnitude(b));
                // The signs are bits, so those of values that are no numbers count, too.
                let [first, second] = [0, 1].map(|index| self.values[index] >> (format.bits - 1) & 1);
                if first == second { result } else { soft::negate(result) }
            }
            "min" | "max" if self.sources == 3 => {
                let [a, b, c] = [a, b, c].map(|number| if self.has("abs") { magnitude(number) } else { number });
                self.extreme(self.extreme(a, b), c)
            }
            "min" | "max" => self.extreme(a, b),
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

    /// The smaller or the larger number.
    fn extreme(&self, a: Number, b: Number) -> Number {
        let is_min = self.parts[0] == "min";
        let picks_a = match soft::compare(a, b) {
            None if self.has("NaN") => return Number::Nan,
            None => b == Number::Nan,
            Some(Ordering::Equal) => matches!(a, Number::Finite(true, ..) | Number::Infinity(true)) == is_min,
            Some(order) => (order == Ordering::Less) == is_min,
        };
        if picks_a { a } else { b }
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

    /// Floats of eight bits, two in a value, looked for among all of them.
    fn convert_bytes(&self) -> u64 {
        let is_wide = |ty: Type| matches!(ty, Type::E5m2x2);
        let relu = |value: f64| if self.has("relu") && value <= 0.0 { 0.0 } else { value };
        let decode = |bits: u64, is_e5m2: bool| {
            let (digits, bias) = if is_e5m2 { (2, 15) } else { (3, 7) };
            let (power, fraction) = ((bits & 0x7F) >> digits, bits & ((1 << digits) - 1));
            let unit = 2f64.powi(-digits);
            let value = match power {
                31 if is_e5m2 => {
                    if fraction == 0 {
                        f64::INFINITY
                    } else {
                        f64::NAN
                    }
                }
                15 if !is_e5m2 && fraction == 7 => f64::NAN,
                0 => fraction as f64 * unit * 2f64.powi(1 - bias),
                power => (1.0 + fraction as f64 * unit) * 2f64.powi(power as i32 - bias),
            };
            if bits & 0x80 != 0 { -value } else { value }
        };
        if is_wide(self.from) || self.from == Type::E4m3x2 {
            let half = |bits: u64| {
                let value = relu(decode(bits & 0xFF, is_wide(self.from)));
                let number = if value.is_nan() { Number::Nan } else { soft::decode(soft::F64, value.to_bits()) };
                soft::round(soft::F16, number, Mode::Even)
            };
            return half(self.values[0]) | half(self.values[0] >> 8) << 16;
        }
        let encode = |value: f64| {
            let value = relu(value);
            if value.is_nan() {
                return 0x7F;
            }
            let finite = (0..0x7F).filter(|bits| decode(*bits, is_wide(self.to)).is_finite());
            // All are as far from a number that is much larger.
            let magnitude = value.abs().min(1e6);
            let far = |bits: &u64| (decode(*bits, is_wide(self.to)) - magnitude).abs();
            // Of two that are as near the even one.
            let order = |a: &u64, b: &u64| far(a).total_cmp(&far(b)).then((a & 1).cmp(&(b & 1)));
            let limited = finite.min_by(order).unwrap_or(0);
            limited | if value.is_sign_negative() { 0x80 } else { 0 }
        };
        let value = |format: Format, bits: u64| soft::value(soft::decode(format, bits));
        match self.from {
            Type::F16x2 => {
                let [low, high] = [0, 16].map(|shift| value(soft::F16, self.values[0] >> shift & 0xFFFF));
                encode(low) | encode(high) << 8
            }
            _ => {
                let [high, low] = [0, 1].map(|index| value(soft::F32, self.values[index]));
                encode(low) | encode(high) << 8
            }
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
        let is_bytes = |ty: Type| matches!(ty, Type::E4m3x2 | Type::E5m2x2);
        if is_bytes(self.to) || is_bytes(self.from) {
            return Some(Expected::Bits(self.convert_bytes()));
        }
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
