//! References that branches move, in loops that machine code runs: they are renamed, so no iteration leaves the code;
//! where the interpreter continues, and where two change places, each is in the register that the bytecode names; and
//! none is lost or kept. Side exits are counted by op and reason.

use std::sync::Arc;

use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits, SideExitReason, SideExits, Tier};
use vireo::vm::{Buffer, Context, Module, Obj, Object, Value};

use crate::skip::{Need, skipped};

/// Counts who holds it.
struct Token(#[expect(dead_code, reason = "held to be counted")] Arc<()>);

impl Object for Token {
    const TYPE_NAME: &'static str = "test.token";
}

/// `there_and_back` searches each prefix of a buffer, which has another register in the inner loop. `exchange` sums two
/// buffers that change places in each iteration of a loop. `choose` takes one of two buffers by data. `twice` has one
/// buffer in two registers, and stores by one of them. `left` moves a buffer away and reads the register that it was
/// in, `out` leaves the buffer at an index. `keep` moves a reference through a loop and returns it.
const PROGRAM: &str = r"
vm.module @m version 0
vm.type i32
vm.type i64
vm.type !vm.buffer
vm.type !test.token

vm.export @there_and_back
vm.func @there_and_back(%r0: !vm.buffer, %i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  %i2 = vm.const.i32.zero
  %i3 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %i4 = vm.cmp.lt.i32.s %i2, %i0
  vm.cond_br %i4, ^bb2(%i2->%i5, %R0->%r1), ^bb5()
^bb2:
  %i6:7 = vm.ext.i32.i64.u %i5
  %i8 = vm.buffer.load.i32 %r1, %i6:7
  %i3 = vm.add.i32 %i3, %i8
  %i4 = vm.cmp.eq.i32 %i8, %i2
  vm.cond_br %i4, ^bb4(), ^bb3()
^bb3:
  %i5 = vm.sub.i32 %i5, %i1
  %i4 = vm.cmp.lt.i32.s %i5, %i1
  vm.cond_br %i4, ^bb4(), ^bb2(%R1->%r2, %R2->%r1)
^bb4:
  %i2 = vm.add.i32 %i2, %i1
  vm.br ^bb1(%R1->%r0)
^bb5:
  vm.return %i3
}

vm.export @exchange
vm.func @exchange(%r0: !vm.buffer, %r1: !vm.buffer, %i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  %i2 = vm.const.i32.zero
  %i4:5 = vm.const.i64 2
  vm.br ^bb1()
^bb1:
  %i3 = vm.buffer.load.i32 %r0, %i4:5
  %i6 = vm.buffer.load.i32 %r1, %i4:5
  %i7 = vm.const.i32 10
  %i3 = vm.mul.i32 %i3, %i7
  %i2 = vm.add.i32 %i2, %i3
  %i2 = vm.xor.i32 %i2, %i6
  vm.buffer.store.i32 %i2, %r1, %i4:5
  %i0 = vm.sub.i32 %i0, %i1
  vm.cond_br %i0, ^bb1(%r0->%r2, %R1->%r0, %R2->%r1), ^bb2()
^bb2:
  vm.return %i2
}

vm.export @choose
vm.func @choose(%r0: !vm.buffer, %r1: !vm.buffer, %i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  %i2 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %i3 = vm.and.i32 %i0, %i1
  %i4:5 = vm.ext.i32.i64.u %i3
  vm.cond_br %i3, ^bb2(%r0->%r2), ^bb2(%r1->%r2)
^bb2:
  %i3 = vm.buffer.load.i32 %r2, %i4:5
  %i2 = vm.add.i32 %i2, %i3
  %i0 = vm.sub.i32 %i0, %i1
  vm.cond_br %i0, ^bb1(), ^bb3()
^bb3:
  vm.return %i2
}

vm.export @twice
vm.func @twice(%r0: !vm.buffer, %i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  %i2 = vm.const.i32.zero
  %i4:5 = vm.const.i64 1
  vm.br ^bb1(%r0->%r1)
^bb1:
  %i3 = vm.buffer.load.i32 %r0, %i4:5
  %i3 = vm.add.i32 %i3, %i0
  vm.buffer.store.i32 %i3, %r1, %i4:5
  %i2 = vm.add.i32 %i2, %i3
  %i0 = vm.sub.i32 %i0, %i1
  vm.cond_br %i0, ^bb1(%r1->%r0), ^bb2(%R1->%r0)
^bb2:
  %i3 = vm.cmp.nz.ref %r0
  %i2 = vm.add.i32 %i2, %i3
  %i3 = vm.cmp.nz.ref %r1
  %i2 = vm.sub.i32 %i2, %i3
  vm.return %i2
}

vm.export @left
vm.func @left(%r0: !vm.buffer, %i0: i32) -> (i32) {
^bb0:
  %i4:5 = vm.const.i64.zero
  vm.cond_br %i0, ^bb1(%R0->%r1), ^bb1()
^bb1:
  %i1 = vm.buffer.load.i32 %r0, %i4:5
  vm.return %i1
}

vm.export @out
vm.func @out(%r0: !vm.buffer, %i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  vm.br ^bb1(%R0->%r1)
^bb1:
  %i2:3 = vm.ext.i32.i64.u %i0
  %i4 = vm.buffer.load.i32 %r1, %i2:3
  %i0 = vm.add.i32 %i0, %i1
  vm.cond_br %i1, ^bb1(%R1->%r0, %R0->%r1), ^bb2()
^bb2:
  vm.return %i4
}

vm.export @keep
vm.func @keep(%r0: !test.token, %r1: !test.token, %i0: i32) -> (!test.token) {
^bb0:
  %i1 = vm.const.i32 1
  vm.br ^bb1(%R0->%r2)
^bb1:
  %i0 = vm.sub.i32 %i0, %i1
  vm.cond_br %i0, ^bb1(%R2->%r3, %R1->%r2, %R3->%r1), ^bb2(%R2->%r0)
^bb2:
  vm.return %R0
}

vm.export @calls
vm.func @calls(%r0: !vm.buffer, %i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  %i2 = vm.const.i32.zero
  vm.br ^bb1(%R0->%r1)
^bb1:
  %i3 = vm.call @there_and_back(%r1, %i0)
  %i2 = vm.add.i32 %i2, %i3
  %i0 = vm.sub.i32 %i0, %i1
  vm.cond_br %i0, ^bb2(%R1->%r0), ^bb3()
^bb2:
  %i4:5 = vm.buffer.length %r0
  %i3 = vm.trunc.i64.i32 %i4:5
  %i2 = vm.add.i32 %i2, %i3
  vm.br ^bb1(%R0->%r1)
^bb3:
  vm.return %i2
}
";

fn context(tier: Tier) -> Context {
    let module = Module::from_bytes(&assemble(PROGRAM).unwrap()).unwrap();
    Context::with_limits([module], Limits { tier, ..Limits::default() }).unwrap()
}

fn buffer(factor: i32) -> Value {
    let bytes: Vec<u8> = (0..16).flat_map(|number: i32| (number * factor).to_le_bytes()).collect();
    Value::Ref(Some(Obj::new(Buffer::copy_of(&bytes).unwrap()).into_ref()))
}

/// The result of a call, or the text of its failure, with that of the dispatcher that knows nothing of machine code.
fn outcome(context: &Context, name: &str, buffers: usize, number: i32) -> String {
    let mut arguments: Vec<Value> = (0..buffers).map(|index| buffer(index as i32 * 4 + 3)).collect();
    arguments.push(Value::I32(number));
    match context.function(name).unwrap().call(&arguments) {
        Ok(results) => format!("{results:?}"),
        Err(status) => format!("{status}"),
    }
}

const FUNCTIONS: [(&str, usize, &[i32]); 7] = [
    ("there_and_back", 1, &[1, 5, 16]),
    ("exchange", 2, &[1, 2, 9]),
    ("choose", 2, &[1, 2, 9]),
    ("twice", 1, &[1, 2, 9]),
    ("left", 1, &[0, 1]),
    ("out", 1, &[0, 15, 16]),
    ("calls", 1, &[1, 2, 9]),
];

#[test]
fn references_are_where_the_bytecode_has_them() {
    if !cfg!(all(target_arch = "x86_64", unix, feature = "jit")) {
        return skipped(Need::Platform("x86_64"), "there is no machine code in this build");
    }
    let loop_dispatcher = Limits { tier: Tier::Interpreter, dispatch: DispatchMode::Loop, ..Limits::default() };
    let module = Module::from_bytes(&assemble(PROGRAM).unwrap()).unwrap();
    let expected = Context::with_limits([module], loop_dispatcher).unwrap();
    let (threaded, compiled) = (context(Tier::Interpreter), context(Tier::Compiled));
    for (name, buffers, numbers) in FUNCTIONS {
        for number in numbers {
            let expected = outcome(&expected, name, buffers, *number);
            assert_eq!(outcome(&threaded, name, buffers, *number), expected, "{name} {number}");
            assert_eq!(outcome(&compiled, name, buffers, *number), expected, "{name} {number}, machine code");
        }
    }
}

fn side_exits(name: &str, buffers: usize, number: i32) -> Vec<SideExits> {
    let context = context(Tier::Compiled);
    outcome(&context, name, buffers, number);
    context.machine_code(0).side_exits
}

#[test]
fn loops_stay_in_machine_code() {
    if !cfg!(all(target_arch = "x86_64", unix, feature = "jit")) {
        return skipped(Need::Platform("x86_64"), "there is no machine code in this build");
    }
    for (name, buffers, number) in
        [("there_and_back", 1, 16), ("exchange", 2, 9), ("choose", 2, 9), ("twice", 1, 9), ("calls", 1, 9)]
    {
        assert_eq!(side_exits(name, buffers, number), [], "{name}");
    }
}

#[test]
fn side_exits_are_counted_by_op_and_reason() {
    if !cfg!(all(target_arch = "x86_64", unix, feature = "jit")) {
        return skipped(Need::Platform("x86_64"), "there is no machine code in this build");
    }
    let exits = side_exits("out", 1, 3);
    let [SideExits { function: 5, op: 3, reason: SideExitReason::FailedCheck, count: 1 }] = exits[..] else {
        panic!("{exits:?}")
    };
}

#[test]
fn no_reference_is_lost_or_kept() {
    for tier in [Tier::Interpreter, Tier::Auto, Tier::Compiled] {
        if tier == Tier::Compiled && !cfg!(all(target_arch = "x86_64", unix, feature = "jit")) {
            continue;
        }
        let context = context(tier);
        for number in 1..6 {
            let tokens = [Arc::new(()), Arc::new(())];
            let token = |index: usize| Value::Ref(Some(Obj::new(Token(Arc::clone(&tokens[index]))).into_ref()));
            let results = context.function("keep").unwrap().call(&[token(0), token(1), Value::I32(number)]).unwrap();
            let kept = (number as usize + 1) % 2;
            assert_eq!((Arc::strong_count(&tokens[kept]), Arc::strong_count(&tokens[1 - kept])), (2, 1), "{number}");
            drop(results);
            assert_eq!(Arc::strong_count(&tokens[kept]), 1);
        }
    }
}
