//! Calls that compiled code makes without the interpreter: what they return, where they fail, and what is said of that,
//! is what the interpreter does, wherever the frames have to be made after all.

use vireo::Fuel;
use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits};
use vireo::status::StatusCode;
use vireo::vm::{Context, Module, Value};

use crate::skip::{Need, skipped};

/// `fib` calls itself twice. `sink` divides at the bottom of a recursion. `many` passes more values than there are
/// registers to pass them in. `sum` calls in a loop and holds constants across the calls. `pair` returns several
/// values. `even` and `odd` call each other. `held` holds a reference. `short` calls what mostly returns at once.
/// `chain` calls `link`, which calls `last`, which divides.
const PROGRAM: &str = "
vm.module @m version 0
vm.type i32
vm.type !vm.buffer

vm.export @fib
vm.func @fib(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 2
  %i2 = vm.cmp.lt.i32.s %i0, %i1
  vm.cond_br %i2, ^bb2(), ^bb1()
^bb1:
  %i2 = vm.const.i32 1
  %i3 = vm.sub.i32 %i0, %i2
  %i4 = vm.call @fib(%i3)
  %i3 = vm.sub.i32 %i0, %i1
  %i5 = vm.call @fib(%i3)
  %i4 = vm.add.i32 %i4, %i5
  vm.return %i4
^bb2:
  vm.return %i0
}

vm.export @sink
vm.func @sink(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 1
  %i4 = vm.const.i32 1000
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %i3 = vm.sub.i32 %i0, %i2
  %i3 = vm.call @sink(%i3, %i1)
  %i3 = vm.add.i32 %i3, %i2
  %i3 = vm.add.i32 %i3, %i4
  vm.return %i3
^bb2:
  %i3 = vm.div.i32.s %i4, %i1
  vm.return %i3
}

vm.export @many
vm.func @many(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2:3 = vm.ext.i32.i64.s %i0
  %i4:5 = vm.ext.i32.i64.s %i1
  %i6 = vm.cast.si32.f32 %i0
  %i8:9 = vm.cast.si32.f64 %i1
  %i10, %i12:13, %i14, %i16:17, %i18 = vm.call @mixed(%i0, %i2:3, %i6, %i8:9, %i1, %i4:5, %i6, %i8:9, %i6, %i8:9, %i0, %i4:5)
  %i11 = vm.trunc.i64.i32 %i12:13
  %i10 = vm.add.i32 %i10, %i11
  %i11 = vm.cast.f32.si32 %i14
  %i10 = vm.mul.i32 %i10, %i11
  %i11 = vm.cast.f64.si32 %i16:17
  %i10 = vm.sub.i32 %i10, %i11
  %i10 = vm.xor.i32 %i10, %i18
  vm.return %i10
}

vm.func @mixed(%i0: i32, %i2:3: i64, %i4: f32, %i6:7: f64, %i8: i32, %i10:11: i64, %i12: f32, %i14:15: f64, %i16: f32, %i18:19: f64, %i20: i32, %i22:23: i64) -> (i32, i64, f32, f64, i32) {
^bb0:
  %i0 = vm.sub.i32 %i0, %i8
  %i8 = vm.sub.i32 %i8, %i20
  %i2:3 = vm.sub.i64 %i2:3, %i10:11
  %i10:11 = vm.mul.i64 %i10:11, %i22:23
  %i2:3 = vm.add.i64 %i2:3, %i10:11
  %i4 = vm.sub.f32 %i4, %i12
  %i4 = vm.add.f32 %i4, %i16
  %i6:7 = vm.add.f64 %i6:7, %i14:15
  %i6:7 = vm.sub.f64 %i6:7, %i18:19
  vm.return %i0, %i2:3, %i4, %i6:7, %i8
}

vm.export @sum
vm.func @sum(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32.zero
  %i3 = vm.const.i32 3
  %i4 = vm.const.i32.zero
  %i5 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i6 = vm.cmp.lt.i32.s %i4, %i0
  vm.cond_br %i6, ^bb2(), ^bb3()
^bb2:
  %i7 = vm.sub.i32 %i1, %i4
  %i8:9, %i10 = vm.call @pair(%i4, %i7)
  %i7 = vm.trunc.i64.i32 %i8:9
  %i2 = vm.add.i32 %i2, %i7
  %i2 = vm.mul.i32 %i2, %i3
  %i2 = vm.add.i32 %i2, %i10
  %i4 = vm.add.i32 %i4, %i5
  vm.br ^bb1()
^bb3:
  vm.return %i2
}

vm.func @pair(%i0: i32, %i1: i32) -> (i64, i32) {
^bb0:
  %i2:3 = vm.ext.i32.i64.s %i0
  %i4 = vm.rem.i32.s %i0, %i1
  vm.return %i2:3, %i4
}

vm.export @even
vm.func @even(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %i2 = vm.sub.i32 %i0, %i1
  %i3 = vm.call @odd(%i2)
  vm.return %i3
^bb2:
  vm.return %i1
}

vm.func @odd(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %i2 = vm.sub.i32 %i0, %i1
  %i3 = vm.call @even(%i2)
  vm.return %i3
^bb2:
  vm.return %i0
}

vm.export @held
vm.func @held(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2:3 = vm.const.i64 8
  %i4 = vm.const.i32 8
  %r0 = vm.buffer.alloc %i2:3, %i4
  %i2:3 = vm.const.i64.zero
  vm.buffer.store.i32 %i0, %r0, %i2:3
  %i4 = vm.call @sink(%i0, %i1)
  %i5 = vm.buffer.load.i32 %r0, %i2:3
  %i4 = vm.add.i32 %i4, %i5
  vm.return %i4
}

vm.export @chain
vm.func @chain(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 7
  %i3 = vm.call @link(%i1, %i0)
  %i3 = vm.add.i32 %i3, %i2
  vm.return %i3
}

vm.func @link(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 9
  %i3 = vm.sub.i32 %i0, %i2
  %i4 = vm.call @last(%i3, %i1)
  %i5 = vm.call @last(%i4, %i0)
  %i5 = vm.add.i32 %i5, %i2
  vm.return %i5
}

vm.func @last(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i0 = vm.div.i32.s %i0, %i1
  vm.return %i0
}

vm.export @short
vm.func @short(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32.zero
  %i3 = vm.const.i32 5
  vm.br ^bb1()
^bb1:
  %i4:5, %i6 = vm.call @either(%i0, %i1)
  %i7 = vm.trunc.i64.i32 %i4:5
  %i2 = vm.add.i32 %i2, %i7
  %i2 = vm.mul.i32 %i2, %i3
  %i2 = vm.add.i32 %i2, %i6
  %i8 = vm.call @always(%i2, %i1)
  %i2 = vm.xor.i32 %i2, %i8
  %i8 = vm.call @first(%i2, %i1)
  %i2 = vm.xor.i32 %i2, %i8
  %i8 = vm.const.i32 1
  %i0 = vm.sub.i32 %i0, %i8
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb2:
  vm.return %i2
}

vm.func @either(%i0: i32, %i1: i32) -> (i64, i32) {
^bb0:
  %i2:3 = vm.ext.i32.i64.s %i0
  %i4 = vm.and.i32 %i0, %i1
  vm.cond_br %i4, ^bb1(%i1->%i0), ^bb2()
^bb1:
  vm.return %i2:3, %i0
^bb2:
  %i2:3 = vm.add.i64 %i2:3, %i2:3
  vm.return %i2:3, %i1
}

vm.func @always(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i0 = vm.mul.i32 %i0, %i1
  vm.return %i0
}

vm.func @first(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 3
  %i2 = vm.and.i32 %i2, %i0
  vm.cond_br %i2, ^bb2(), ^bb1()
^bb1:
  %i0 = vm.sub.i32 %i0, %i1
  vm.return %i0
^bb2:
  %i2 = vm.div.i32.s %i0, %i1
  vm.return %i2
}

vm.export @nothing
vm.func @nothing(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  vm.call @leaf()
  %i0 = vm.sub.i32 %i0, %i1
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb2:
  vm.return %i0
}

vm.func @leaf() -> () {
^bb0:
  vm.return
}
";

const DISPATCHES: [DispatchMode; 3] = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled];

fn context() -> Context {
    let bytes = assemble(PROGRAM).unwrap_or_else(|error| panic!("{error}"));
    Context::new([Module::from_bytes(&bytes).unwrap()]).unwrap()
}

fn numbers(values: &[i32]) -> Vec<Value> {
    values.iter().copied().map(Value::I32).collect()
}

/// Results or status of a call, and the steps that were left.
fn outcome(
    context: &Context,
    name: &str,
    args: &[i32],
    dispatch: DispatchMode,
    steps: u64,
    stack_bytes: usize,
) -> String {
    let fuel = Fuel::new(steps);
    let limits = Limits { dispatch, fuel: Some(fuel.clone()), stack_bytes, ..Limits::default() };
    let outcome = match context.function(name).unwrap().call_with(&numbers(args), limits) {
        Ok(values) => format!("{values:?}"),
        Err(status) => format!("{status}"),
    };
    format!("{outcome}, {} steps left", fuel.left())
}

/// All dispatchers agree on a call, several times over one context each. Returns what they agree on.
fn agree(name: &str, args: &[i32], steps: u64, stack_bytes: usize) -> String {
    let all = DISPATCHES.map(|dispatch| {
        let context = context();
        let first = outcome(&context, name, args, dispatch, steps, stack_bytes);
        for _ in 0..2 {
            assert_eq!(outcome(&context, name, args, dispatch, steps, stack_bytes), first, "{name} {args:?}");
        }
        first
    });
    for (index, dispatch) in DISPATCHES.iter().enumerate() {
        assert_eq!(all[index], all[0], "{dispatch:?}: {name} {args:?}");
    }
    let [first, ..] = all;
    first
}

const STEPS: u64 = 1 << 30;
const STACK: usize = 1 << 20;

#[test]
fn results() {
    assert!(agree("fib", &[20], STEPS, STACK).contains("6765"));
    assert!(agree("even", &[101], STEPS, STACK).contains("I32(0)"));
    assert!(agree("nothing", &[3000], STEPS, STACK).contains("I32(0)"));
    for args in [[3, 9], [-5, 8], [i32::MAX, i32::MIN], [0, 0]] {
        agree("many", &args, STEPS, STACK);
        agree("chain", &args, STEPS, STACK);
    }
    for args in [[1, 1], [10, 3], [1000, -7], [3000, 0], [3, i32::MIN]] {
        agree("short", &args, STEPS, STACK);
    }
    // One of them divides by zero in the middle of the loop.
    for args in [[5, 100], [100, 50], [2000, 4000]] {
        agree("sum", &args, STEPS, STACK);
    }
}

#[test]
fn traps_below_many_frames() {
    for depth in [0, 1, 2, 30, 63, 64, 65, 100, 500, 3000] {
        assert!(agree("sink", &[depth, 0], STEPS, STACK).contains("division"), "{depth}");
        agree("held", &[depth, 0], STEPS, STACK);
        agree("sink", &[depth, 3], STEPS, STACK);
        agree("held", &[depth, 3], STEPS, STACK);
    }
}

#[test]
fn stacks_that_are_too_small() {
    // Every size at which one more frame fits, and those between them.
    // Builds without optimisation take each fourth size.
    let sample = if cfg!(debug_assertions) { 4 } else { 1 };
    for stack_bytes in (64..6000).step_by(24 * sample) {
        agree("sink", &[i32::MAX, 1], STEPS, stack_bytes);
        agree("fib", &[8], STEPS, stack_bytes);
        agree("held", &[40, 1], STEPS, stack_bytes);
        agree("short", &[9, 5], STEPS, stack_bytes);
    }
    assert!(agree("sink", &[i32::MAX, 1], STEPS, 8 << 20).contains("stack overflow"));
}

#[test]
fn steps_are_counted_as_ever() {
    // Builds without optimisation take each fourth number.
    let sample = if cfg!(debug_assertions) { 4 } else { 1 };
    for steps in (0..40).step_by(sample).map(|index| index << 10) {
        agree("fib", &[17], steps, STACK);
        agree("sink", &[20_000, 2], steps, 8 << 20);
        agree("sum", &[5000, 9999], steps, STACK);
        agree("nothing", &[9000], steps, STACK);
        agree("short", &[5000, 12], steps, STACK);
    }
}

#[test]
fn cancelled_in_the_middle() {
    let context = context();
    // On a machine that is busy elsewhere a short time may pass before the calls are deep; `fib` of 60 takes hours.
    let deep = [20, 200, 2_000, 20_000].map(std::time::Duration::from_millis).into_iter().any(|timeout| {
        let deadline = Some(std::time::Instant::now() + timeout);
        let limits = Limits { dispatch: DispatchMode::Compiled, deadline, ..Limits::default() };
        let status = context.function("fib").unwrap().call_with(&numbers(&[60]), limits).unwrap_err();
        assert_eq!(status.code(), StatusCode::DeadlineExceeded, "{status}");
        status.backtrace().len() > 5
    });
    assert!(deep, "the calls that were cancelled are in no backtrace");
}

#[test]
fn threads_compile_what_they_call_at_the_same_time() {
    let bytes = assemble(PROGRAM).unwrap();
    for _ in 0..8 {
        let module = Module::from_bytes(&bytes).unwrap();
        std::thread::scope(|scope| {
            for name in ["chain", "held", "sink", "fib"] {
                let module = module.clone();
                scope.spawn(move || {
                    let context = Context::new([module]).unwrap();
                    let args = if name == "fib" { vec![12] } else { vec![12, 5] };
                    let expected = outcome(&context, name, &args, DispatchMode::Loop, STEPS, STACK);
                    assert_eq!(outcome(&context, name, &args, DispatchMode::Compiled, STEPS, STACK), expected);
                });
            }
        });
    }
}

#[test]
fn threads_share_the_functions_of_a_module() {
    // Each function calls another one, so several threads need the same ones.
    let count = 300;
    let mut text = "vm.module @m version 0\nvm.type i32\nvm.export @f0\n".to_string();
    for own in 0..count {
        let other = (own * 7 + 11) % count;
        text += &format!(
            "vm.func @f{own}(%i0: i32) -> (i32) {{
^bb0:
  %i1 = vm.const.i32 {own}
  vm.cond_br %i0, ^bb1(), ^bb2(%i1->%i0)
^bb1:
  %i2 = vm.const.i32 1
  %i0 = vm.sub.i32 %i0, %i2
  %i0 = vm.call @f{other}(%i0)
  %i0 = vm.add.i32 %i0, %i1
  %i0 = vm.mul.i32 %i0, %i1
  %i0 = vm.xor.i32 %i0, %i1
  vm.br ^bb2()
^bb2:
  vm.return %i0
}}
"
        );
    }
    let bytes = assemble(&text).unwrap();
    for _ in 0..4 {
        let context = Context::new([Module::from_bytes(&bytes).unwrap()]).unwrap();
        let mut reports = Vec::new();
        context.compile_with(0, |done, all| reports.push((done, all)));
        let Some((done, all)) = reports.last() else {
            return skipped(Need::Platform("x86_64"), "there is no machine code in this build");
        };
        assert!(done == all && reports.is_sorted(), "{reports:?}");
        assert_eq!(context.machine_code(0).functions, count);
        let [expected, compiled] = [DispatchMode::Loop, DispatchMode::Compiled]
            .map(|dispatch| outcome(&context, "f0", &[200], dispatch, STEPS, STACK));
        assert_eq!(compiled, expected);
    }
}

#[test]
fn listings_show_native_calls() {
    let module = Module::from_bytes(&assemble(PROGRAM).unwrap()).unwrap();
    let calls = (0..module.functions().len()).filter(|ordinal| {
        let Ok(Some(compiled)) = module.compiled(*ordinal) else { return false };
        compiled.parts.iter().any(|part| part.text.contains("call function"))
    });
    let calls = calls.count();
    // Those that only compute are done by who calls them.
    assert!(calls == 9 || module.compiled(0).is_err(), "{calls}");
}
