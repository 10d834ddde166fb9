//! The text of random loops whose iterations have more values at once than there are vector registers, so that results
//! of all kinds of nodes are spilled.

use std::fmt::Write;

use super::program::{Random, SIGNATURE};

/// Operations on two values, and whether the second is a constant of a shift.
const OPS: [(&str, bool); 14] = [
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
