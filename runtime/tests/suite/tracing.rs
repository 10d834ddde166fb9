//! Traced runs: every op that is executed is reported with the values of its operands, and the program does what it
//! does without.

use std::sync::Arc;

use vireo::asm::assemble;
use vireo::interp::{Limits, Tier, TraceRecorder};
use vireo::vm::{Buffer, Context, Module, Ref, Value};

const PROGRAM: &str = r#"vm.module @traced

vm.export @sum
vm.func @sum(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i1 = vm.add.i32 %i1, %i0
  %i0 = vm.sub.i32 %i0, %i2
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb2:
  vm.return %i1
}

vm.export @kinds
vm.func @kinds(%i0: f32, %i2:3: i64, %r0: !vm.buffer, %r1: !vm.buffer) -> (i64, !vm.buffer) {
^bb0:
  %i1 = vm.add.f32 %i0, %i0
  %i4:5 = vm.mul.i64 %i2:3, %i2:3
  %i6 = vm.cmp.nz.ref %r1
  %r2 = vm.call @pass(%R0)
  vm.br ^bb1(%i4->%i8, %i5->%i9)
^bb1:
  vm.return %i8, %R2
}

vm.func @pass(%r0: !vm.buffer) -> (!vm.buffer) {
^bb0:
  vm.return %R0
}

vm.export @divide
vm.func @divide(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.div.i32.s %i0, %i1
  vm.return %i2
}
"#;

/// The program with a sink, on a tier.
fn context(tier: Tier) -> (Context, Arc<TraceRecorder>) {
    let recorder = Arc::new(TraceRecorder::default());
    let module = Module::from_bytes(&assemble(PROGRAM).unwrap()).unwrap();
    let limits = Limits { tier, ..Limits::default() };
    (Context::with_sink([module], limits, recorder.clone()).unwrap(), recorder)
}

#[test]
fn each_op_is_reported_with_its_operands() {
    let (context, recorder) = context(Tier::Traced);
    let results = context.function("sum").unwrap().call(&[Value::I32(2)]).unwrap();
    assert_eq!(results, [Value::I32(3)]);
    assert_eq!(
        recorder.take(),
        [
            "[traced.sum+00000000]    <block>",
            "[traced.sum+00000001]    %i1 = vm.const.i32.zero",
            "[traced.sum+00000004]    %i2 = vm.const.i32 1  // 0x00000001",
            "[traced.sum+0000000B]    vm.br ^bb1()",
            "[traced.sum+00000012]    <block>",
            "[traced.sum+00000013]    %i1 = vm.add.i32 %i1(0), %i0(2)",
            "[traced.sum+0000001A]    %i0 = vm.sub.i32 %i0(2), %i2(1)",
            "[traced.sum+00000021]    vm.cond_br %i0(1), ^bb1(), ^bb2()",
            "[traced.sum+00000012]    <block>",
            "[traced.sum+00000013]    %i1 = vm.add.i32 %i1(2), %i0(1)",
            "[traced.sum+0000001A]    %i0 = vm.sub.i32 %i0(1), %i2(1)",
            "[traced.sum+00000021]    vm.cond_br %i0(0), ^bb1(), ^bb2()",
            "[traced.sum+00000030]    <block>",
            "[traced.sum+00000031]    vm.return %i1(3)",
        ]
    );
}

#[test]
fn values_are_written_by_their_types() {
    let (context, recorder) = context(Tier::Traced);
    let buffer = Ref::new(Buffer::copy_of(&[0; 4]).unwrap());
    let args = [Value::F32(-0.75), Value::I64(-3), Value::Ref(Some(buffer)), Value::NULL];
    let results = context.function("kinds").unwrap().call(&args).unwrap();
    assert_eq!(results[0], Value::I64(9));
    let lines = recorder.take();
    let texts: Vec<&str> = lines.iter().map(|line| line.split_once("]    ").unwrap().1).collect();
    assert_eq!(
        texts,
        [
            "<block>",
            "%i1 = vm.add.f32 %i0(-0.750000), %i0(-0.750000)",
            "%i4:5 = vm.mul.i64 %i2:3(-3), %i2:3(-3)",
            "%i6 = vm.cmp.nz.ref %r1(null)",
            "%r2 = vm.call @traced:2(%R0(!vm.buffer))",
            "<block>",
            "vm.return %R0(!vm.buffer)",
            "vm.br ^bb1(%i4(9)->%i8, %i5(0)->%i9)",
            "<block>",
            "vm.return %i8(9), %R2(!vm.buffer)",
        ]
    );
    // A function without a name is called by its ordinal.
    assert!(lines[6].starts_with("[traced@2+"), "{}", lines[6]);
}

#[test]
fn an_op_that_fails_is_the_last_one() {
    let call = |tier| {
        let (context, recorder) = context(tier);
        let failure = context.function("divide").unwrap().call(&[Value::I32(1), Value::I32(0)]).unwrap_err();
        let frames: Vec<String> = failure.backtrace().iter().map(ToString::to_string).collect();
        ((failure.to_string(), frames), recorder.take())
    };
    let (expected, silent) = call(Tier::Interpreter);
    let (failure, lines) = call(Tier::Traced);
    assert_eq!(failure, expected);
    assert_eq!(silent, [""; 0]);
    assert_eq!(lines.last().unwrap(), "[traced.divide+00000001]    %i2 = vm.div.i32.s %i0(1), %i1(0)");
}
