//! Loops that machine code changes most: sums whose element is promoted to a register, indices whose checks are
//! hoisted. Whatever the buffers are, and wherever the loop ends, memory is afterwards as the interpreter leaves it.

use std::sync::Arc;

use vireo::Fuel;
use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits};
use vireo::vm::{Buffer, Context, Function, Module, Obj, Value};

use crate::skip::{Need, skipped};

/// `for i in first..last { c[at] += a[i + shift] * b[i * stride] }`, with the test first as compilers have it, and with
/// the test last.
const PROGRAM: &str = r#"
vm.module @m version 0
vm.type i32
vm.type i64
vm.type !vm.buffer

vm.export @test_first
vm.func @test_first(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64, %i6:7: i64, %i8:9: i64) -> () {
^bb0:
  %i10:11 = vm.const.i64 1
  vm.br ^bb1()
^bb1:
  %i12 = vm.cmp.lt.i64.s %i6:7, %i8:9
  vm.cond_br %i12, ^bb2(), ^bb3()
^bb2:
  %i14:15 = vm.add.i64 %i6:7, %i2:3
  %i16 = vm.buffer.load.f32 %r1, %i14:15
  %i14:15 = vm.mul.i64 %i6:7, %i4:5
  %i17 = vm.buffer.load.f32 %r2, %i14:15
  %i18 = vm.buffer.load.f32 %r0, %i0:1
  %i18 = vm.fma.f32 %i16, %i17, %i18
  vm.buffer.store.f32 %i18, %r0, %i0:1
  %i6:7 = vm.add.i64 %i6:7, %i10:11
  vm.br ^bb1()
^bb3:
  vm.return
}

vm.export @test_last
vm.func @test_last(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64, %i6:7: i64, %i8:9: i64) -> () {
^bb0:
  %i10:11 = vm.const.i64 1
  vm.br ^bb1()
^bb1:
  %i14:15 = vm.add.i64 %i6:7, %i2:3
  %i16 = vm.buffer.load.f32 %r1, %i14:15
  %i14:15 = vm.mul.i64 %i6:7, %i4:5
  %i17 = vm.buffer.load.f32 %r2, %i14:15
  %i18 = vm.buffer.load.f32 %r0, %i0:1
  %i18 = vm.fma.f32 %i16, %i17, %i18
  vm.buffer.store.f32 %i18, %r0, %i0:1
  %i6:7 = vm.add.i64 %i6:7, %i10:11
  %i12 = vm.cmp.lt.i64.s %i6:7, %i8:9
  vm.cond_br %i12, ^bb1(), ^bb2()
^bb2:
  vm.return
}
"#;

/// Loops that stay scalar: products of induction variables, which are reduced, and an inner loop that seldom runs.
const SCALAR: &str = r#"
vm.module @m version 0
vm.type i32
vm.type i64
vm.type !vm.buffer

vm.export @products
vm.func @products(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64, %i6:7: i64, %i8:9: i64) -> () {
^bb0:
  %i10:11 = vm.const.i64 1
  %i12:13 = vm.const.i64.zero
  %i22:23 = vm.const.i64 3
  %i24:25 = vm.const.i64.zero
  %i26:27 = vm.const.i64 20
  vm.br ^bb1()
^bb1:
  %i16 = vm.cmp.lt.i64.s %i6:7, %i26:27
  vm.cond_br %i16, ^bb2(), ^bb5()
^bb2:
  %i14:15 = vm.add.i64 %i6:7, %i2:3
  %i18:19 = vm.fma.i64 %i14:15, %i4:5, %i0:1
  %i14:15 = vm.mul.i64 %i6:7, %i4:5
  %i12:13 = vm.xor.i64 %i12:13, %i14:15
  %i20:21 = vm.and.i64 %i6:7, %i22:23
  %i16 = vm.cmp.nz.i64 %i20:21
  vm.cond_br %i16, ^bb3(), ^bb4()
^bb3:
  %i17 = vm.trunc.i64.i32 %i18:19
  vm.buffer.store.i32 %i17, %r0, %i6:7
  vm.br ^bb4()
^bb4:
  %i6:7 = vm.add.i64 %i6:7, %i10:11
  vm.br ^bb1()
^bb5:
  vm.buffer.store.i64 %i12:13, %r1, %i24:25
  vm.return
}

vm.export @narrow_products
vm.func @narrow_products(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64, %i6:7: i64, %i8:9: i64) -> () {
^bb0:
  %i10:11 = vm.const.i64 1
  %i12 = vm.trunc.i64.i32 %i4:5
  %i13 = vm.trunc.i64.i32 %i2:3
  %i14 = vm.trunc.i64.i32 %i0:1
  %i15 = vm.const.i32 -7
  vm.br ^bb1()
^bb1:
  %i16 = vm.cmp.lt.i64.s %i6:7, %i8:9
  vm.cond_br %i16, ^bb2(), ^bb3()
^bb2:
  %i17 = vm.mul.i32 %i14, %i12
  %i18 = vm.sub.i32 %i14, %i13
  %i18 = vm.fma.i32 %i15, %i18, %i13
  %i17 = vm.xor.i32 %i17, %i18
  vm.buffer.store.i32 %i17, %r0, %i6:7
  %i14 = vm.add.i32 %i14, %i13
  %i6:7 = vm.add.i64 %i6:7, %i10:11
  vm.br ^bb1()
^bb3:
  vm.return
}

vm.export @marks
vm.func @marks(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64, %i6:7: i64, %i8:9: i64) -> () {
^bb0:
  %i10:11 = vm.const.i64 1
  %i16 = vm.const.i32.zero
  %i17 = vm.const.i32 1
  %i24:25 = vm.const.i64.zero
  vm.br ^bb1()
^bb1:
  %i18 = vm.cmp.lt.i64.s %i6:7, %i8:9
  vm.cond_br %i18, ^bb2(), ^bb7()
^bb2:
  %i18 = vm.buffer.load.i8.u %r1, %i6:7
  %i18 = vm.cmp.nz.i32 %i18
  vm.cond_br %i18, ^bb6(), ^bb3()
^bb3:
  %i16 = vm.add.i32 %i16, %i17
  %i12:13 = vm.fma.i64 %i6:7, %i4:5, %i2:3
  %i14:15 = vm.add.i64 %i6:7, %i10:11
  vm.br ^bb4()
^bb4:
  %i18 = vm.cmp.lt.i64.s %i12:13, %i8:9
  vm.cond_br %i18, ^bb5(), ^bb6()
^bb5:
  vm.buffer.store.i8 %i17, %r1, %i12:13
  %i12:13 = vm.add.i64 %i12:13, %i14:15
  vm.br ^bb4()
^bb6:
  %i6:7 = vm.add.i64 %i6:7, %i10:11
  vm.br ^bb1()
^bb7:
  vm.buffer.store.i32 %i16, %r0, %i24:25
  vm.return
}
"#;

/// Elements of a buffer.
const LENGTH: i64 = 3000;

/// Which buffer each of the three is, the element, and the numbers of the loop.
#[derive(Clone, Copy, Debug)]
struct Case {
    buffers: [usize; 3],
    at: i64,
    shift: i64,
    stride: i64,
    first: i64,
    last: i64,
    steps: Option<u64>,
}

const PLAIN: Case = Case { buffers: [0, 1, 2], at: 5, shift: 2, stride: 1, first: 0, last: 900, steps: None };

fn cases() -> Vec<Case> {
    let mut cases = vec![
        PLAIN,
        // Nothing, once, and what does not count up.
        Case { last: 0, ..PLAIN },
        Case { last: 1, ..PLAIN },
        Case { first: 900, last: 3, ..PLAIN },
        Case { first: i64::MIN, last: i64::MIN + 2, ..PLAIN },
        Case { first: -3, last: 40, ..PLAIN },
        Case { first: i64::MAX - 1, last: i64::MAX, ..PLAIN },
        // Strides.
        Case { stride: 0, ..PLAIN },
        Case { stride: 3, ..PLAIN },
        Case { stride: -1, ..PLAIN },
        Case { stride: 1 << 40, ..PLAIN },
        Case { stride: 1 << 62, last: 5, ..PLAIN },
        Case { shift: i64::MAX - 3, ..PLAIN },
        Case { shift: -1, first: 1, ..PLAIN },
        // Ends of the buffers, and beyond them.
        Case { last: LENGTH - 2, ..PLAIN },
        Case { last: LENGTH - 1, ..PLAIN },
        Case { last: LENGTH + 5, shift: 0, ..PLAIN },
        Case { at: LENGTH - 1, ..PLAIN },
        Case { at: LENGTH, ..PLAIN },
        Case { at: -1, ..PLAIN },
        Case { stride: 4, last: LENGTH / 4 + 1, ..PLAIN },
    ];
    // One buffer for several things, the element among what is read or beside it.
    for buffers in [[0, 0, 1], [0, 1, 0], [0, 0, 0], [0, 1, 1]] {
        for at in [0, 1, 2, 3, 500, 901, 902, 903, 2999] {
            cases.push(Case { buffers, at, ..PLAIN });
            cases.push(Case { buffers, at, stride: 2, last: 450, ..PLAIN });
        }
    }
    // Views of one buffer that begin in the middle of an element of another.
    for view in [3, 4] {
        for at in [10, 99, 100, 101, 700] {
            cases.push(Case { buffers: [0, view, 1], at, last: 300, ..PLAIN });
            cases.push(Case { buffers: [view, 0, 1], at, last: 300, ..PLAIN });
        }
    }
    // Limits that are reached in the middle.
    for steps in [1, 1024, 2048] {
        cases.push(Case { steps: Some(steps), last: 2900, ..PLAIN });
        cases.push(Case { steps: Some(steps), last: 2900, buffers: [0, 0, 1], at: 1500, ..PLAIN });
    }
    cases
}

/// Three buffers, and two views into the first one.
fn buffers() -> Vec<Obj<Buffer>> {
    let fill = |seed: i64| {
        let bytes: Vec<u8> = (0..LENGTH).flat_map(|index| (((index * seed) % 7 - 3) as f32).to_le_bytes()).collect();
        Obj::new(Buffer::copy_of(&bytes).expect("there is memory"))
    };
    let mut all: Vec<Obj<Buffer>> = [3, 5, 11].map(fill).into();
    for offset in [400, 402] {
        let (data, whole) = (all[0].as_ptr(), Arc::new(all[0].clone()));
        // SAFETY: the view holds the buffer, and ends where that does.
        let view = unsafe {
            let data = std::ptr::NonNull::new(data.add(offset)).expect("it is inside");
            Buffer::from_shared(whole, data, LENGTH as usize * 4 - offset, true)
        };
        all.push(Obj::new(view));
    }
    all
}

/// The outcome of a call, and memory after it.
fn outcome(function: &Function, case: Case, dispatch: DispatchMode) -> (String, Vec<Vec<u8>>) {
    let buffers = buffers();
    let mut args: Vec<Value> =
        case.buffers.iter().map(|index| Value::Ref(Some(buffers[*index].clone().into_ref()))).collect();
    args.extend([case.at, case.shift, case.stride, case.first, case.last].map(Value::I64));
    let fuel = case.steps.map(Fuel::new);
    let result = function.call_with(&args, Limits { fuel, dispatch, ..Limits::default() });
    let result = result.map(|values| format!("{values:?}")).unwrap_or_else(|status| status.to_string());
    (result, buffers[..3].iter().map(|buffer| buffer.to_vec()).collect())
}

#[test]
fn sums_leave_memory_as_the_interpreter_does() {
    check_all(PROGRAM, &["test_first", "test_last"]);
}

#[test]
fn scalar_loops_leave_memory_as_the_interpreter_does() {
    check_all(SCALAR, &["products", "narrow_products", "marks"]);
}

/// Calls functions with all cases.
fn check_all(program: &str, names: &[&str]) {
    let bytes = assemble(program).expect("it is a program");
    let [interpreted, compiled] = [DispatchMode::Loop, DispatchMode::Compiled].map(|dispatch| {
        (Context::new([Module::from_bytes(&bytes).expect("it is a module")]).expect("it imports nothing"), dispatch)
    });
    for name in names {
        let mut returned = 0;
        for case in cases() {
            let [expected, actual] = [&interpreted, &compiled]
                .map(|(context, dispatch)| outcome(&context.function(name).expect("it is exported"), case, *dispatch));
            assert_eq!(actual.0, expected.0, "{name} with {case:?}");
            assert!(actual.1 == expected.1, "{name} with {case:?} leaves other bytes");
            returned += usize::from(expected.0 == "[]");
        }
        assert!(returned > 40, "only {returned} calls returned");
    }
}

/// The texts of the parts of a function's code that are in loops, and how many loops each is in. None in builds without
/// machine code.
fn loops(program: &str, name: &str) -> Option<Vec<(u32, String)>> {
    let module = Module::from_bytes(&assemble(program).expect("it is a program")).expect("it is a module");
    let ordinal = program.lines().filter(|line| line.starts_with("vm.func")).position(|line| line.contains(name))?;
    let compiled = module.compiled(ordinal).ok()??;
    let mut depth = 0;
    let mut all = Vec::new();
    for part in compiled.parts {
        if part.begins_block {
            depth = part.text.rsplit(' ').next().and_then(|depth| depth.parse().ok()).unwrap_or(0);
        }
        all.push((depth, part.text));
    }
    // Code that is rarely run comes after the blocks.
    let end = all.iter().position(|(_, text)| text.starts_with("side exit at op")).unwrap_or(all.len());
    all.truncate(end);
    Some(all)
}

#[test]
fn loops_add_up_products_and_count_in_place() {
    let Some(parts) = loops(SCALAR, "@products") else {
        skipped(Need::Platform("x86_64"), "there is no machine code in this build");
        return;
    };
    let inside: Vec<&str> = parts.iter().filter(|(depth, _)| *depth > 0).map(|(_, text)| text.as_str()).collect();
    assert!(!inside.iter().any(|text| text.contains("Mul")), "{inside:#?}");
    // The induction variable shares its register with its next value, and so do the products.
    let sums: Vec<(&str, &str)> = inside
        .iter()
        .filter_map(|text| text.split_once(" = WrappingAdd.I64 "))
        .filter_map(|(_, operands)| Some((operands.split_once(',')?.0, operands.rsplit_once(' ')?.1)))
        .collect();
    let header = inside.iter().find(|text| text.starts_with('b')).expect("there is a loop");
    let in_place = sums.iter().filter(|(operand, register)| header.contains(&format!("{operand} in {register}")));
    assert_eq!(in_place.count(), 3, "{inside:#?}");
}

#[test]
fn a_loop_that_seldom_runs_stands_aside_and_its_guards_wait() {
    let Some(parts) = loops(SCALAR, "@marks") else {
        skipped(Need::Platform("x86_64"), "there is no machine code in this build");
        return;
    };
    let find = |what: &str| parts.iter().position(|(_, text)| text.contains(what));
    let inner = parts.iter().position(|(depth, text)| *depth == 2 && text.contains("StoreI8")).expect("it marks");
    let back_edge = parts.iter().position(|(depth, text)| *depth == 1 && text.contains("counted")).expect("it counts");
    assert!(back_edge < inner, "{parts:#?}");
    let guard = (back_edge..inner).find(|at| parts[*at].1.starts_with("InRange")).expect("there are guards");
    let runs = (back_edge..guard).find(|at| parts[*at].1.starts_with("if LtS"));
    assert!(runs.is_some(), "{parts:#?}");
    assert!(find("Select").is_none_or(|at| parts[at].0 == 0), "{parts:#?}");
}
