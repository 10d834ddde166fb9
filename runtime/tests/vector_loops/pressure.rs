//! The text of random loops whose iterations have more values at once than there are vector registers, so that results
//! of all kinds of nodes are spilled.

use std::fmt::Write;

use super::program::{Random, SIGNATURE};

/// Operations on two values, and whether the second is a constant of a shift.
const OPS: [(&str, bool); 17] = [
    ("add.i32", false),
    ("sub.i32", false),
    ("mul.i32", false),
    ("and.i32", false),
    ("or.i32", false),
    ("xor.i32", false),
    ("min.i32.s", false),
    ("max.i32.u", false),
    ("shl.i32", true),
    ("shr.i32.s", true),
    ("shr.i32.u", true),
    ("shr.i32.s", false),
    ("shl.i32", false),
    ("div.i32.s", true),
    ("div.i32.u", true),
    ("rem.i32.s", true),
    ("rem.i32.u", true),
];

/// `for i { r2[i] = v1 - v2 ^ v3 - ..., where each v is of r0[i], r1[i] and those before }`.
pub fn pressure(random: &mut Random) -> String {
    let mut text = format!(
        "{SIGNATURE}\n^bb0:\n  %i10:11 = vm.const.i64.zero\n  %i12:13 = vm.const.i64 1\n  %i19 = vm.const.f32.zero\n  \
         %i18 = vm.const.i32 -7\n  %i20:21 = vm.const.i64.zero\n  vm.br ^bb1()\n^bb1:\n  \
         %i16 = vm.cmp.lt.i64.s %i20:21, %i0:1\n  vm.cond_br %i16, ^bb2(), ^bb3()\n^bb2:\n  \
         %i30 = vm.buffer.load.i32 %r0, %i20:21\n  %i31 = vm.buffer.load.i32 %r1, %i20:21\n  \
         %i32 = vm.buffer.load.i8.u %r0, %i20:21\n"
    );
    let mut line = |line: String| writeln!(text, "  {line}").expect("a string takes it");
    let (first, mut next) = (33, 33);
    for _ in 0..14 + random.below(20) {
        let mut operand = || 30 + random.below(next - 30);
        let (a, b) = (operand(), operand());
        let (op, is_constant) = OPS[random.below(OPS.len() as u64) as usize];
        let b = if is_constant {
            // Powers of two, other divisors and amounts of more bits than there are.
            line(format!("%i17 = vm.const.i32 {}", [1, 2, 3, 4, 7, 8, 16, 31, 32, 33][random.below(10) as usize]));
            17
        } else {
            b
        };
        line(format!("%i{next} = vm.{op} %i{a}, %i{b}"));
        next += 1;
    }
    line(format!("%i29 = vm.add.i32 %i{}, %i31", next - 1));
    for value in first..next {
        let op = ["sub.i32", "xor.i32", "add.i32"][(value % 3) as usize];
        line(format!("%i29 = vm.{op} %i29, %i{value}"));
    }
    text.push_str(
        "  vm.buffer.store.i32 %i29, %r2, %i20:21\n  %i20:21 = vm.add.i64 %i20:21, %i12:13\n  vm.br ^bb1()\n^bb3:\n  \
         vm.return %i18, %i19\n}\n",
    );
    text
}

/// As `pressure`, of `i64`. Constants are amounts of shifts and divisors of up to 64 bits, by which no division traps.
pub fn wide_pressure(random: &mut Random) -> String {
    let mut text = format!(
        "{SIGNATURE}\n^bb0:\n  %i10:11 = vm.const.i64.zero\n  %i12:13 = vm.const.i64 1\n  %i19 = vm.const.f32.zero\n  \
         %i18 = vm.const.i32 -7\n  %i20:21 = vm.const.i64.zero\n  vm.br ^bb1()\n^bb1:\n  \
         %i16 = vm.cmp.lt.i64.s %i20:21, %i0:1\n  vm.cond_br %i16, ^bb2(), ^bb3()\n^bb2:\n  \
         %i30:31 = vm.buffer.load.i64 %r0, %i20:21\n  %i32:33 = vm.buffer.load.i64 %r1, %i20:21\n  \
         %i28 = vm.buffer.load.i32 %r0, %i20:21\n  %i34:35 = vm.ext.i32.i64.s %i28\n"
    );
    let mut line = |line: String| writeln!(text, "  {line}").expect("a string takes it");
    let pair = |value: u64| format!("%i{}:{}", 30 + 2 * value, 31 + 2 * value);
    let (first, mut next) = (3, 3);
    for _ in 0..4 + random.below(20) {
        let mut operand = || random.below(next);
        let (a, b) = (pair(operand()), pair(operand()));
        let second = match random.below(3) {
            0 => {
                let amount = [0, 1, 5, 31, 32, 33, 62, 63, 64, 95][random.below(10) as usize];
                line(format!("%i17 = vm.const.i32 {amount}"));
                let op = ["shl.i64", "shr.i64.s", "shr.i64.u"][random.below(3) as usize];
                format!("vm.{op} {a}, %i17")
            }
            1 => {
                let bits = (random.below(1 << 31) << 32 | random.below(1 << 31) << 1) as i64;
                let divisor = match random.below(8) {
                    0 => 1 << (1 + random.below(62)),
                    1 => [1, 3, 5, 6, 7, 10, 641, 0xFFFF_FFFF, 1 << 32, 0x1_0000_0001][random.below(10) as usize],
                    2 => [i64::MAX, i64::MIN, -1, -2, -3, -10][random.below(6) as usize],
                    3 => -(bits >> random.below(60)) | 1,
                    _ => bits >> random.below(60) | 1,
                };
                line(format!("%i26:27 = vm.const.i64 {divisor}"));
                // The least number has no quotient by -1.
                let op = ["div.i64.s", "rem.i64.s", "div.i64.u", "rem.i64.u"][random.below(4) as usize];
                let op = if divisor == -1 { "rem.i64.s" } else { op };
                format!("vm.{op} {a}, %i26:27")
            }
            _ => {
                let ops = ["add.i64", "sub.i64", "mul.i64", "xor.i64", "min.i64.s", "max.i64.u"];
                format!("vm.{} {a}, {b}", ops[random.below(6) as usize])
            }
        };
        line(format!("{} = {second}", pair(next)));
        next += 1;
    }
    line(format!("%i24:25 = vm.add.i64 {}, {}", pair(next - 1), pair(1)));
    for value in first..next {
        let op = ["sub.i64", "xor.i64", "add.i64"][(value % 3) as usize];
        line(format!("%i24:25 = vm.{op} %i24:25, {}", pair(value)));
    }
    text.push_str(
        "  vm.buffer.store.i64 %i24:25, %r2, %i20:21\n  %i20:21 = vm.add.i64 %i20:21, %i12:13\n  vm.br ^bb1()\n^bb3:\n  \
         vm.return %i18, %i19\n}\n",
    );
    text
}
