//! Loops of host programs whose branches depend on data: machine code computes what the interpreter does, chooses
//! without branches where they would be predicted wrongly, and does not leave its code.

use vireo::asm::assemble;
use vireo::interp::{Limits, Tier};
use vireo::vm::{Buffer, Context, Module, Obj, Value};

use crate::skip::{Need, skipped};

/// `search` finds a number among sorted ones: each step goes on in one of two halves. `sort` moves elements until one
/// is in its place, by a test that is negated (`>= 0` is not `< 0`) and another exit of the loop. `merge` takes the
/// smaller one of two elements. `parity` follows a sequence whose next element depends on a bit.
const PROGRAM: &str = r"
vm.module @m version 0
vm.type i32
vm.type i64
vm.type !vm.buffer

vm.export @search
vm.func @search(%r0: !vm.buffer, %i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32.zero
  %i3 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i4 = vm.cmp.lt.i32.s %i2, %i0
  vm.cond_br %i4, ^bb2(), ^bb6()
^bb2:
  %i5 = vm.add.i32 %i2, %i0
  %i5 = vm.shr.i32.u %i5, %i3
  %i6:7 = vm.ext.i32.i64.u %i5
  %i8 = vm.buffer.load.i32 %r0, %i6:7
  %i8 = vm.cmp.lt.i32.s %i8, %i1
  vm.cond_br %i8, ^bb3(), ^bb4()
^bb3:
  %i9 = vm.add.i32 %i5, %i3
  vm.br ^bb5(%i9->%i2)
^bb4:
  vm.br ^bb5(%i5->%i0)
^bb5:
  vm.br ^bb1()
^bb6:
  vm.return %i2
}

vm.export @sort
vm.func @sort(%r0: !vm.buffer, %i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 1
  %i3 = vm.const.i32 1
  %i4 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %i5 = vm.cmp.lt.i32.s %i2, %i0
  vm.cond_br %i5, ^bb2(), ^bb7()
^bb2:
  %i6:7 = vm.ext.i32.i64.u %i2
  %i8 = vm.buffer.load.i32 %r0, %i6:7
  %i9 = vm.sub.i32 %i2, %i3
  vm.br ^bb3(%R0->%r1)
^bb3:
  %i5 = vm.cmp.lt.i32.s %i9, %i4
  %i5 = vm.xor.i32 %i5, %i3
  vm.cond_br %i5, ^bb4(), ^bb6()
^bb4:
  %i6:7 = vm.ext.i32.i64.u %i9
  %i10 = vm.buffer.load.i32 %r1, %i6:7
  %i5 = vm.cmp.lt.i32.s %i8, %i10
  vm.cond_br %i5, ^bb5(), ^bb6()
^bb5:
  %i11 = vm.add.i32 %i9, %i3
  %i12:13 = vm.ext.i32.i64.u %i11
  %i10 = vm.buffer.load.i32 %r1, %i6:7
  vm.buffer.store.i32 %i10, %r1, %i12:13
  %i9 = vm.sub.i32 %i9, %i3
  vm.br ^bb3()
^bb6:
  %i11 = vm.add.i32 %i9, %i3
  %i12:13 = vm.ext.i32.i64.u %i11
  vm.buffer.store.i32 %i8, %r1, %i12:13
  %i2 = vm.add.i32 %i2, %i3
  vm.br ^bb1(%R1->%r0)
^bb7:
  %i12:13 = vm.ext.i32.i64.u %i1
  %i2 = vm.buffer.load.i32 %r0, %i12:13
  vm.return %i2
}

vm.export @merge
vm.func @merge(%r0: !vm.buffer, %i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32.zero
  %i3 = vm.const.i32 1
  %i4 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %i6:7 = vm.ext.i32.i64.u %i2
  %i8:9 = vm.ext.i32.i64.u %i1
  %i10 = vm.buffer.load.i32 %r0, %i6:7
  %i11 = vm.buffer.load.i32 %r0, %i8:9
  %i5 = vm.cmp.lt.i32.s %i10, %i11
  %i5 = vm.xor.i32 %i5, %i3
  %i12 = vm.select.i32 %i5 ? %i11 : %i10
  %i4 = vm.mul.i32 %i4, %i0
  %i4 = vm.add.i32 %i4, %i12
  vm.cond_br %i5, ^bb2(), ^bb3()
^bb2:
  %i1 = vm.add.i32 %i1, %i3
  vm.br ^bb4()
^bb3:
  %i2 = vm.add.i32 %i2, %i3
  vm.br ^bb4()
^bb4:
  %i5 = vm.add.i32 %i1, %i2
  %i5 = vm.cmp.lt.i32.s %i5, %i0
  vm.cond_br %i5, ^bb1(), ^bb5()
^bb5:
  vm.return %i4
}

vm.export @parity
vm.func @parity(%r0: !vm.buffer, %i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2:3 = vm.const.i64 1
  %i4:5 = vm.const.i64 3
  %i6 = vm.const.i32 1
  %i8:9 = vm.ext.i32.i64.u %i0
  vm.br ^bb1()
^bb1:
  %i10:11 = vm.and.i64 %i8:9, %i2:3
  %i7 = vm.cmp.nz.i64 %i10:11
  vm.cond_br %i7, ^bb2(), ^bb3()
^bb2:
  %i8:9 = vm.fma.i64 %i8:9, %i4:5, %i2:3
  vm.br ^bb4()
^bb3:
  %i8:9 = vm.shr.i64.u %i8:9, %i6
  vm.br ^bb4()
^bb4:
  %i1 = vm.add.i32 %i1, %i6
  %i7 = vm.cmp.ne.i64 %i8:9, %i2:3
  vm.cond_br %i7, ^bb1(), ^bb5()
^bb5:
  vm.return %i1
}
";

const FUNCTIONS: [&str; 4] = ["search", "sort", "merge", "parity"];

fn module() -> Module {
    Module::from_bytes(&assemble(PROGRAM).unwrap()).unwrap()
}

/// Sixteen numbers, sorted or not.
fn buffer(is_sorted: bool) -> Value {
    let number = |index: i32| if is_sorted { index * 3 } else { index * 7 % 16 };
    let bytes: Vec<u8> = (0..16).flat_map(|index| number(index).to_le_bytes()).collect();
    Value::Ref(Some(Obj::new(Buffer::copy_of(&bytes).unwrap()).into_ref()))
}

fn outcome(context: &Context, name: &str, first: i32, second: i32) -> String {
    let arguments = [buffer(name == "search"), Value::I32(first), Value::I32(second)];
    match context.function(name).unwrap().call(&arguments) {
        Ok(results) => format!("{results:?}"),
        Err(status) => format!("{status}"),
    }
}

#[test]
fn loops_compute_the_same_and_stay_in_their_code() {
    if !cfg!(all(target_arch = "x86_64", unix, feature = "jit")) {
        skipped(Need::Platform("x86_64"), "there is no machine code in this build");
        return;
    }
    let context = |tier| Context::with_limits([module()], Limits { tier, ..Limits::default() }).unwrap();
    let (expected, compiled) = (context(Tier::Interpreter), context(Tier::Compiled));
    for name in FUNCTIONS {
        for (first, second) in (1..16).flat_map(|first| (0..16).map(move |second| (first, second))) {
            let expected = outcome(&expected, name, first, second);
            assert_eq!(outcome(&compiled, name, first, second), expected, "{name} {first} {second}");
        }
    }
    assert_eq!(compiled.machine_code(0).side_exits, []);
    // Out of range, each by another access.
    for (name, first, second) in [("search", 40, 60), ("sort", 17, 0), ("sort", 16, 16), ("merge", 40, 9)] {
        let expected = outcome(&expected, name, first, second);
        assert!(expected.contains("OUT_OF_RANGE"), "{name}: {expected}");
        assert_eq!(outcome(&compiled, name, first, second), expected, "{name} {first} {second}");
    }
    assert_eq!(compiled.machine_code(0).side_exits.len(), 4);
}

#[test]
fn choices_by_data_have_no_branches() {
    let module = module();
    for (ordinal, (name, selections)) in FUNCTIONS.into_iter().zip([2, 0, 3, 1]).enumerate() {
        let Some(graph) = module.compiler_graph(ordinal).unwrap() else {
            skipped(Need::Platform("x86_64"), "there is no machine code in this build");
            return;
        };
        assert_eq!(graph.matches("= select.").count(), selections, "{name}: {graph}");
        assert!(!graph.contains("xor."), "{name}: {graph}");
    }
}
