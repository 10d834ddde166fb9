//! Tests of the sequences of ops that one handler executes (`spec/isa/vm/sequences.yaml`): wherever fuel ends and
//! whichever op traps, they do what the same ops do one at a time.

use vireo_module::asm::assemble;
use vireo_vm::{Buffer, Obj, Value};

use crate::interp::{DispatchMode, Limits};
use crate::limits::Fuel;
use crate::{Context, Module};

/// Loops of sequences. Each gets a buffer, and the numbers at which it begins and ends.
const PROGRAM: &str = "
vm.module @sequences version 0
vm.type i32
vm.type !vm.buffer

vm.export @mark
vm.func @mark(%r0: !vm.buffer, %i0:1: i64, %i2:3: i64) -> (i32) {
^bb0:
  %i4:5 = vm.const.i64 3
  %i6 = vm.const.i32 7
  vm.br ^bb1()
^bb1:
  %i7 = vm.cmp.lt.i64.s %i0:1, %i2:3
  vm.cond_br %i7, ^bb2(), ^bb3()
^bb2:
  vm.buffer.store.i8 %i6, %r0, %i0:1
  %i0:1 = vm.add.i64 %i0:1, %i4:5
  vm.br ^bb1()
^bb3:
  vm.return %i6
}

vm.export @sum
vm.func @sum(%r0: !vm.buffer, %i0:1: i64, %i2:3: i64) -> (i32) {
^bb0:
  %i4:5 = vm.const.i64 1
  %i6 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %i7 = vm.buffer.load.i32 %r0, %i0:1
  %i6 = vm.add.i32 %i6, %i7
  %i0:1 = vm.add.i64 %i0:1, %i4:5
  %i7 = vm.cmp.lt.i64.s %i0:1, %i2:3
  vm.cond_br %i7, ^bb1(), ^bb2()
^bb2:
  vm.return %i6
}

vm.export @dot
vm.func @dot(%r0: !vm.buffer, %i0:1: i64, %i2:3: i64) -> (i32) {
^bb0:
  %i4:5 = vm.const.i64 1
  %i6 = vm.const.f32.zero
  vm.br ^bb1()
^bb1:
  %i8:9 = vm.add.i64 %i0:1, %i4:5
  %i10 = vm.buffer.load.f32 %r0, %i8:9
  %i8:9 = vm.fma.i64 %i0:1, %i4:5, %i4:5
  %i11 = vm.buffer.load.f32 %r0, %i8:9
  %i6 = vm.fma.f32 %i10, %i11, %i6
  %i0:1 = vm.add.i64 %i0:1, %i4:5
  %i7 = vm.cmp.lt.i64.s %i0:1, %i2:3
  vm.cond_br %i7, ^bb1(), ^bb2()
^bb2:
  %i6 = vm.bitcast.f32.i32 %i6
  vm.return %i6
}

vm.export @zeros
vm.func @zeros(%r0: !vm.buffer, %i0:1: i64, %i2:3: i64) -> (i32) {
^bb0:
  %i6 = vm.const.i32.zero
  %i4:5 = vm.const.i64 1
  vm.br ^bb1()
^bb1:
  %i7 = vm.buffer.load.i8.u %r0, %i0:1
  %i7 = vm.cmp.nz.i32 %i7
  vm.cond_br %i7, ^bb3(), ^bb2()
^bb2:
  %i7 = vm.const.i32 1
  %i6 = vm.add.i32 %i6, %i7
  vm.br ^bb3()
^bb3:
  %i0:1 = vm.add.i64 %i0:1, %i4:5
  %i7 = vm.cmp.lt.i64.s %i0:1, %i2:3
  vm.cond_br %i7, ^bb1(), ^bb4()
^bb4:
  vm.return %i6
}

vm.export @fib
vm.func @fib(%r0: !vm.buffer, %i0:1: i64, %i2:3: i64) -> (i32) {
^bb0:
  %i4 = vm.trunc.i64.i32 %i2:3
  %i5 = vm.call @sequences:5(%i4)
  vm.return %i5
}

vm.func @number(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 2
  %i2 = vm.cmp.lt.i32.s %i0, %i1
  vm.cond_br %i2, ^bb2(), ^bb1()
^bb1:
  %i2 = vm.const.i32 1
  %i3 = vm.sub.i32 %i0, %i2
  %i4 = vm.call @sequences:5(%i3)
  %i2 = vm.const.i32 2
  %i3 = vm.sub.i32 %i0, %i2
  %i5 = vm.call @sequences:5(%i3)
  %i4 = vm.add.i32 %i4, %i5
  vm.return %i4
^bb2:
  vm.return %i0
}

vm.export @count
vm.func @count(%r0: !vm.buffer, %i0:1: i64, %i2:3: i64) -> (i32) {
^bb0:
  %i4 = vm.trunc.i64.i32 %i2:3
  %i5 = vm.const.i32 1
  %i6 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %i6 = vm.add.i32 %i6, %i5
  %i7 = vm.cmp.lt.i32.s %i6, %i4
  vm.cond_br %i7, ^bb1(), ^bb2()
^bb2:
  vm.return %i6
}
";

/// Bytes of the buffer: ten elements of 32 bits and a rest, some of the bytes zero.
const BYTES: [u8; 43] = {
    let mut bytes = [0; 43];
    let mut index = 0;
    while index < bytes.len() {
        bytes[index] = if index % 3 == 0 { 0 } else { index as u8 };
        index += 1;
    }
    bytes
};

/// Calls a function on each dispatcher, which must agree on the result or the failure, on the fuel and on the buffer.
/// Gives the first two.
fn call(context: &Context, name: &str, range: (i64, i64), fuel: u64) -> (Result<i32, String>, u64) {
    let function = context.function(name).expect("it is exported");
    let outcomes = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled].map(|dispatch| {
        let (buffer, fuel) = (Obj::new(Buffer::copy_of(&BYTES).expect("there is memory")), Fuel::new(fuel));
        let args = [Value::Ref(Some(buffer.clone().into_ref())), Value::I64(range.0), Value::I64(range.1)];
        let limits = Limits { dispatch, fuel: Some(fuel.clone()), ..Limits::default() };
        let result = match function.call_with(&args, limits) {
            Ok(results) => match results[..] {
                [Value::I32(value)] => Ok(value),
                _ => panic!("{name} has one result"),
            },
            Err(status) => Err(status.to_string()),
        };
        ((result, fuel.used()), buffer.to_vec())
    });
    let [expected, threaded, compiled] = outcomes;
    assert_eq!(threaded, expected, "{name} {range:?}, fuel {}", expected.0.1);
    assert_eq!(compiled, expected, "{name} {range:?}, fuel {}", expected.0.1);
    expected.0
}

fn context() -> Context {
    let module = Module::from_bytes(&assemble(PROGRAM).expect("it assembles")).expect("it is sound");
    Context::new([module]).expect("it imports nothing")
}

#[test]
fn sequences_return_what_their_ops_return() {
    let context = context();
    let result = |name, range| call(&context, name, range, u64::MAX).0;
    assert_eq!(result("mark", (2, 43)), Ok(7));
    let sum = (0..10).map(|index| i32::from_le_bytes(BYTES[index * 4..][..4].try_into().expect("four bytes")));
    assert_eq!(result("sum", (0, 10)), Ok(sum.fold(0, i32::wrapping_add)));
    assert_eq!(result("zeros", (0, 43)), Ok(15));
    assert_eq!(result("fib", (0, 12)), Ok(144));
    assert_eq!(result("count", (0, 99)), Ok(99));
    assert!(result("dot", (0, 8)).is_ok());
}

#[test]
fn an_op_within_a_sequence_traps_as_it_does_alone() {
    let context = context();
    for (name, range) in [("mark", (2, 60)), ("sum", (0, 11)), ("dot", (0, 12)), ("zeros", (30, 60)), ("sum", (-1, 4))]
    {
        let (result, _) = call(&context, name, range, u64::MAX);
        let failure = result.expect_err("the buffer ends before the loop does");
        assert!(failure.contains("OUT_OF_RANGE"), "{name}: {failure}");
    }
}

#[test]
fn fuel_ends_anywhere_in_sequences() {
    let context = context();
    for (name, range) in [
        ("mark", (2, 43)),
        ("mark", (2, 60)),
        ("sum", (0, 10)),
        ("dot", (0, 8)),
        ("zeros", (0, 43)),
        ("fib", (0, 6)),
        ("count", (0, 30)),
    ] {
        let (_, all) = call(&context, name, range, u64::MAX);
        for fuel in 0..all {
            let (result, used) = call(&context, name, range, fuel);
            assert!(result.is_err() && used == fuel, "{name}: {used} of {fuel}");
        }
    }
}
