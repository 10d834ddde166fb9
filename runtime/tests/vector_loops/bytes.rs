//! Loops of bytes: the text of random ones, which `nests` runs, and which loops have vectors of bytes and which have
//! not.

use std::fmt::Write;

use vireo::asm::assemble;
use vireo::interp::{CodeShape, DispatchMode, Limits, verify_between_passes};
use vireo::vm::{Buffer, Context, Module, Obj, Value};

use super::has_lanes;
use super::nests::view;
use super::program::{Random, SIGNATURE};
use super::skip::{Need, skipped};

/// Writes one program.
struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    /// Registers of `i32` that hold something.
    values: Vec<u32>,
    next: u32,
    /// How bytes are extended, if it is the same everywhere.
    sign: Option<&'static str>,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        writeln!(self.text, "  {line}").expect("a string takes it");
    }

    fn some<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn value(&mut self) -> u32 {
        let values = self.values.clone();
        self.some(&values)
    }

    fn fresh(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    fn sign(&mut self) -> &'static str {
        self.sign.unwrap_or(["s", "u"][self.random.below(2) as usize])
    }

    /// `first + counter * factor`.
    fn index(&mut self, first: &str, counter: &str, factor: &str) -> String {
        let into = self.fresh();
        let pair = format!("%i{into}:{}", into + 1);
        self.line(&format!("{pair} = vm.fma.i64 {counter}, {factor}, {first}"));
        pair
    }

    fn load(&mut self, buffer: u64, index: &str) -> u32 {
        let (into, sign) = (self.fresh(), self.sign());
        self.line(&format!("%i{into} = vm.buffer.load.i8.{sign} %r{buffer}, {index}"));
        into
    }

    fn compute(&mut self) {
        let (a, b, c) = (self.value(), self.value(), self.value());
        let into = self.fresh();
        match self.random.below(12) {
            0 => self.line(&format!("%i{into} = vm.fma.i32 %i{a}, %i{b}, %i{c}")),
            1 | 2 => {
                let (test, compare) = (self.fresh(), self.some(&["lt.i32.s", "lt.i32.u", "eq.i32", "ne.i32"]));
                self.line(&format!("%i{test} = vm.cmp.{compare} %i{a}, %i{b}"));
                self.line(&format!("%i{into} = vm.select.i32 %i{test} ? %i{c} : %i{a}"));
                self.values.push(test);
            }
            3 => {
                let op = self.some(&["not.i32", "abs.i32", "ext.i16.i32.s", "ext.i16.i32.u", "cmp.nz.i32"]);
                self.line(&format!("%i{into} = vm.{op} %i{a}"));
            }
            4 | 5 => {
                let sign = self.sign();
                self.line(&format!("%i{into} = vm.ext.i8.i32.{sign} %i{a}"));
            }
            6..9 => {
                let op = self.some(&["add.i32", "sub.i32", "mul.i32", "and.i32", "or.i32", "xor.i32"]);
                self.line(&format!("%i{into} = vm.{op} %i{a}, %i{b}"));
            }
            _ => {
                let op = self.some(&["min.i32.s", "min.i32.u", "max.i32.s", "max.i32.u"]);
                self.line(&format!("%i{into} = vm.{op} %i{a}, %i{b}"));
            }
        }
        self.values.push(into);
    }

    fn begin(&mut self, block: u32, counter: &str, bound: &str) {
        self.line(&format!("{counter} = vm.const.i64.zero"));
        self.line(&format!("vm.br ^bb{block}()"));
        writeln!(self.text, "^bb{block}:").expect("a string takes it");
        self.line(&format!("%i16 = vm.cmp.lt.i64.s {counter}, {bound}"));
        self.line(&format!("vm.cond_br %i16, ^bb{}(), ^bb{}()", block + 1, block + 2));
        writeln!(self.text, "^bb{}:", block + 1).expect("a string takes it");
    }

    fn end(&mut self, block: u32, counter: &str) {
        self.line(&format!("{counter} = vm.add.i64 {counter}, %i12:13"));
        self.line(&format!("vm.br ^bb{block}()"));
        writeln!(self.text, "^bb{}:", block + 2).expect("a string takes it");
    }
}

/// `for i in .. { for j in .. { for k in .. { a[i*stride + j] op= b[..] .. } } }`, with or without the loop around and
/// that inside.
pub fn program(random: &mut Random) -> String {
    let sign = [Some("s"), Some("u"), None][random.below(3) as usize];
    let (is_inside, is_around) = (random.below(2) == 0, random.below(2) == 0);
    let mut text = format!(
        "{SIGNATURE}\n^bb0:\n  %i10:11 = vm.const.i64.zero\n  %i12:13 = vm.const.i64 1\n  %i14:15 = vm.const.i64 2\n  \
         %i18 = vm.trunc.i64.i32 %i6:7\n  %i19 = vm.const.f32.zero\n"
    );
    for bound in [0, 2, 4] {
        if random.below(3) == 0 {
            let iterations = [1, 3, 8, 15, 16, 17, 33, 46, 48, 64, 95, 111, 140][random.below(13) as usize];
            writeln!(text, "  %i{bound}:{} = vm.const.i64 {iterations}", bound + 1).expect("a string takes it");
        }
    }
    let mut writer = Writer { random, text, values: Vec::new(), next: 32, sign };
    for _ in 0..2 {
        let into = writer.fresh();
        // Those that have a lowest byte alone, and others.
        let constant = writer.some(&[-128, -1, 0, 1, 100, 127, -7, 128, 200, 255, 256, -129, 0x1234_5678]);
        writer.line(&format!("%i{into} = vm.const.i32 {constant}"));
        writer.values.push(into);
    }
    if writer.random.below(4) == 0 {
        writer.values.push(18);
    }
    if writer.random.below(3) == 0 {
        let value = writer.load(2, "%i10:11");
        writer.values.push(value);
    }
    let (i, j, k) = ("%i20:21", "%i22:23", "%i24:25");
    let mut row = "%i10:11".to_string();
    if is_around {
        writer.begin(1, i, "%i0:1");
        row = writer.index("%i10:11", i, "%i6:7");
    }
    writer.begin(4, j, "%i2:3");
    let own = writer.index(&row, j, "%i12:13");
    let by = writer.some(&["%i12:13", "%i12:13", "%i14:15", "%i14:15", "%i6:7"]);
    let shift = writer.some(&["%i10:11", "%i8:9"]);
    let mut other = writer.index(shift, j, by);
    if writer.random.below(3) == 0 {
        // Of the iteration around, too.
        other = writer.index(&other, "%i14:15", &row);
    }
    if is_inside {
        writer.begin(7, k, "%i4:5");
        let factor = writer.some(&["%i12:13", "%i6:7", "%i14:15"]);
        other = writer.index(&other, k, factor);
    }
    let outside = writer.values.len();
    for _ in 0..1 + writer.random.below(2) {
        let buffer = writer.random.below(3);
        let value = writer.load(buffer, &other);
        writer.values.push(value);
    }
    if is_inside || writer.random.below(2) == 0 {
        let value = writer.load(0, &own);
        writer.values.push(value);
    }
    for _ in 0..1 + writer.random.below(4) {
        writer.compute();
    }
    let value = *writer.values.last().expect("there is one");
    writer.line(&format!("vm.buffer.store.i8 %i{value}, %r0, {own}"));
    if !is_inside && writer.random.below(3) == 0 {
        let value = writer.value();
        writer.line(&format!("vm.buffer.store.i8 %i{value}, %r1, {own}"));
    }
    writer.values.truncate(outside);
    if is_inside {
        writer.end(7, k);
    }
    writer.end(4, j);
    if is_around {
        writer.end(1, i);
    }
    writer.line("vm.return %i18, %i19");
    writer.text.push_str("}\n");
    writer.text
}

/// Whether some vectors of a program have lanes of bytes.
pub fn has_byte_lanes(text: &str, max_lanes: u8) -> bool {
    let mut module = Module::from_bytes(&assemble(text).expect("it is a program")).expect("it is a module");
    module.set_code_shape(CodeShape { max_lanes, ..CodeShape::default() });
    let Ok(Some(compiled)) = module.compiled(0) else { return false };
    compiled.parts.iter().any(|part| part.text.contains("32 bytes of ymm"))
}

/// `for i in 0..n { out[i] = .. }`, where `body` computes `%i20` from the elements `%i21` and `%i22` of two buffers,
/// and a number in `%i23`.
fn elementwise(signs: [&str; 2], body: &str) -> String {
    let [a, b] = signs;
    format!(
        "{SIGNATURE}
^bb0:
  %i12:13 = vm.const.i64 1
  %i14:15 = vm.const.i64.zero
  %i19 = vm.const.f32.zero
  %i23 = vm.trunc.i64.i32 %i2:3
  %i24 = vm.const.i32 100
  %i25 = vm.const.i32 200
  vm.br ^bb1()
^bb1:
  %i16 = vm.cmp.lt.i64.s %i14:15, %i0:1
  vm.cond_br %i16, ^bb2(), ^bb3()
^bb2:
  %i21 = vm.buffer.load.i8.{a} %r1, %i14:15
  %i22 = vm.buffer.load.i8.{b} %r2, %i14:15
  {body}
  vm.buffer.store.i8 %i20, %r0, %i14:15
  %i14:15 = vm.add.i64 %i14:15, %i12:13
  vm.br ^bb1()
^bb3:
  vm.return %i23, %i19
}}
"
    )
}

const BYTES: usize = 0x1_0000;

/// Calls a program with three buffers and a length. Gives what it says, and the bytes of the first buffer.
fn outcome(context: &Context, buffers: [&Value; 3], length: i64, dispatch: DispatchMode) -> String {
    let mut args: Vec<Value> = buffers.into_iter().cloned().collect();
    args.extend([length, 0x1_2345_6780, 0, 0, 0, 0, 0].map(Value::I64));
    let function = context.function("f").expect("it is exported");
    match function.call_with(&args, Limits { dispatch, ..Limits::default() }) {
        Ok(values) => format!("{values:?}"),
        Err(status) => status.to_string(),
    }
}

fn buffer(bytes: &[u8]) -> Obj<Buffer> {
    Obj::new(Buffer::copy_of(bytes).expect("there is memory"))
}

fn reference(buffer: &Obj<Buffer>) -> Value {
    Value::Ref(Some(buffer.clone().into_ref()))
}

/// Bodies of loops, how elements are extended, and whether bytes suffice.
const CASES: [([&str; 2], &str, bool); 27] = [
    (["s", "s"], "%i20 = vm.max.i32.s %i21, %i22", true),
    (["s", "s"], "%i20 = vm.min.i32.s %i21, %i22", true),
    (["s", "s"], "%i20 = vm.max.i32.u %i21, %i22", true),
    (["s", "s"], "%i20 = vm.min.i32.u %i21, %i22", true),
    (["u", "u"], "%i20 = vm.max.i32.s %i21, %i22", true),
    (["u", "u"], "%i20 = vm.min.i32.s %i21, %i22", true),
    (["u", "u"], "%i20 = vm.max.i32.u %i21, %i22", true),
    (["u", "u"], "%i20 = vm.min.i32.u %i21, %i22", true),
    // Bytes of two kinds have no order, but their sums, products and bits have lowest bytes.
    (["s", "u"], "%i20 = vm.max.i32.s %i21, %i22", false),
    (["u", "s"], "%i20 = vm.min.i32.u %i21, %i22", false),
    (["s", "u"], "%i20 = vm.mul.i32 %i21, %i22", true),
    (["s", "u"], "%i20 = vm.fma.i32 %i21, %i22, %i23", true),
    (["s", "u"], "%i20 = vm.xor.i32 %i21, %i22", true),
    // A sum has wrapped in 8 bits where it has not in 32, and is extended then, or not.
    (["s", "s"], "%i26 = vm.add.i32 %i21, %i22\n  %i20 = vm.max.i32.s %i26, %i22", false),
    (["s", "s"], "%i26 = vm.sub.i32 %i21, %i22\n  %i20 = vm.cmp.nz.i32 %i26", false),
    (["s", "s"], "%i26 = vm.add.i32 %i21, %i22\n  %i26 = vm.ext.i8.i32.s %i26\n  %i20 = vm.max.i32.s %i26, %i22", true),
    (
        ["s", "s"],
        "%i26 = vm.add.i32 %i21, %i22\n  %i26 = vm.ext.i8.i32.u %i26\n  %i20 = vm.max.i32.s %i26, %i22",
        false,
    ),
    // 100 is the same byte with a sign and without, and 200 is no byte with a sign.
    (["s", "s"], "%i20 = vm.min.i32.s %i21, %i24", true),
    (["u", "u"], "%i20 = vm.min.i32.s %i21, %i24", true),
    (["s", "s"], "%i20 = vm.min.i32.s %i21, %i25", false),
    (["u", "u"], "%i20 = vm.min.i32.s %i21, %i25", true),
    // Of a number that is not known there is nothing to compare.
    (["s", "s"], "%i20 = vm.max.i32.s %i21, %i23", false),
    (["s", "s"], "%i26 = vm.and.i32 %i23, %i24\n  %i20 = vm.max.i32.s %i21, %i26", true),
    (["u", "u"], "%i26 = vm.cmp.lt.i32.s %i21, %i22\n  %i20 = vm.select.i32 %i26 ? %i22 : %i24", true),
    (["u", "s"], "%i26 = vm.cmp.lt.i32.s %i21, %i22\n  %i20 = vm.select.i32 %i26 ? %i22 : %i24", false),
    (["s", "s"], "%i26 = vm.abs.i32 %i21\n  %i20 = vm.max.i32.s %i26, %i24", true),
    (["s", "s"], "%i26 = vm.const.i32 3\n  %i20 = vm.shr.i32.s %i21, %i26", false),
];

#[test]
fn bytes_become_lanes_where_they_determine_the_results() {
    verify_between_passes();
    // All pairs of bytes.
    let operands = [0, 8].map(|shift| (0..BYTES).map(|pair| (pair >> shift) as u8).collect::<Vec<u8>>());
    for lanes in [8, 16] {
        if !has_lanes(lanes) {
            let needed = if lanes == 16 { "avx512dq" } else { "avx2" };
            skipped(Need::Processor(needed), format_args!("there are no vectors of {lanes} lanes"));
            continue;
        }
        for (signs, body, suffice) in CASES {
            let text = elementwise(signs, body);
            assert_eq!(has_byte_lanes(&text, lanes), suffice, "{signs:?} {body}");
            let mut module = Module::from_bytes(&assemble(&text).expect("it is a program")).expect("it is a module");
            module.set_code_shape(CodeShape { max_lanes: lanes, ..CodeShape::default() });
            let context = Context::new([module]).expect("it needs nothing");
            for length in (1..=130).chain([BYTES]) {
                // From the last pairs on, too, as the loop counts from zero.
                let first = if length % 2 == 0 { BYTES - length } else { 0 };
                let [a, b] = [&operands[0][first..], &operands[1][first..]].map(|bytes| reference(&buffer(bytes)));
                let [expected, actual] = [DispatchMode::Loop, DispatchMode::Compiled].map(|dispatch| {
                    let out = buffer(&vec![0x55; length + 40]);
                    let result = outcome(&context, [&reference(&out), &a, &b], length as i64, dispatch);
                    (result, out.to_vec())
                });
                assert_eq!(actual.0, expected.0, "{signs:?} {body}");
                let differs = actual.1.iter().zip(&expected.1).position(|(a, b)| a != b);
                assert_eq!(differs, None, "{signs:?} {body}, {length} bytes, {lanes} lanes");
            }
        }
    }
}

#[test]
fn bytes_that_overlap_or_cannot_be_accessed_are_left_to_the_interpreter() {
    verify_between_passes();
    let text = elementwise(["s", "s"], "%i20 = vm.max.i32.s %i21, %i22");
    let module = Module::from_bytes(&assemble(&text).expect("it is a program")).expect("it is a module");
    let context = Context::new([module]).expect("it needs nothing");
    let bytes: Vec<u8> = (0..300_u32).map(|at| ((at * at * 31) >> 3) as u8).collect();
    type Arguments = fn(&Obj<Buffer>) -> [Value; 3];
    let cases: [Arguments; 10] = [
        // In place, and from bytes that are stored later or have been stored before.
        |all| [reference(all), reference(all), reference(all)],
        |all| [reference(all), reference(&view(all, 1, true)), reference(all)],
        |all| [reference(&view(all, 1, true)), reference(all), reference(all)],
        |all| [reference(&view(all, 31, true)), reference(all), reference(&view(all, 32, true))],
        |all| [reference(&view(all, 150, true)), reference(all), reference(&view(all, 1, false))],
        |all| [reference(&view(all, 0, false)), reference(all), reference(all)],
        |all| [Value::Ref(None), reference(all), reference(all)],
        |all| [reference(all), Value::Ref(None), reference(all)],
        |all| [reference(&view(all, 250, true)), reference(all), reference(all)],
        |all| [reference(all), reference(all), reference(&view(all, 270, true))],
    ];
    for (number, arguments) in cases.into_iter().enumerate() {
        for length in 1..=150 {
            let [expected, actual] = [DispatchMode::Loop, DispatchMode::Compiled].map(|dispatch| {
                let all = buffer(&bytes);
                let [out, a, b] = arguments(&all);
                let result = outcome(&context, [&out, &a, &b], length, dispatch);
                drop((out, a, b));
                (result, all.to_vec())
            });
            assert!(actual == expected, "case {number}, {length} bytes: {} and {}", actual.0, expected.0);
        }
    }
}
