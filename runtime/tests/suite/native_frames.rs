//! Calls that compiled code makes without the interpreter, of functions that hold and pass references, call imports,
//! and return more than fits into registers: what is returned, what is said of failures, and that no reference is lost
//! or kept.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use vireo::abi::Step;
use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits};
use vireo::vm::{BoxedWaitSource, Context, Module, Obj, Object, Value};
use vireo::{Result, Status, StatusCode, vm_module};

#[path = "../support/soon.rs"]
mod soon;
use soon::Soon;

/// Counts who holds it.
struct Token(#[expect(dead_code, reason = "held to be counted")] Arc<()>);

impl Object for Token {
    const TYPE_NAME: &'static str = "test.token";
}

#[derive(Default)]
struct Host {
    waits: AtomicI32,
}

#[vm_module(name = "host")]
impl Host {
    /// Returns, or waits, fails or panics.
    #[vm_export("end")]
    fn end(&self, how: i32, token: Option<Obj<Token>>) -> Result<Step<i32>> {
        match how {
            1 if self.waits.fetch_add(1, Ordering::Relaxed) % 2 == 0 => Ok(Step::Wait(BoxedWaitSource::new(Soon))),
            2 => Err(Status::new(StatusCode::DataLoss, "it is lost")),
            3 => panic!("it is three"),
            _ => Ok(Step::Return(how + i32::from(token.is_some()))),
        }
    }
}

/// `down` calls itself with a reference that it holds in two registers, and keeps constants and values across the call.
/// The import decides what it does at the bottom. `up` gives back its argument, moved or not. `wide` holds more
/// references than are looked at one by one; `many` returns more values than there are registers; `begins` reads slots
/// that were never written.
const PROGRAM: &str = "
vm.module @m version 0
vm.type i32
vm.type !test.token
vm.type !vm.list<i32>
vm.import @host.end cconv \"0ir_i\"

vm.export @down
vm.func @down(%i0: i32, %r0: !test.token, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 1
  %i3 = vm.const.i32 1000
  %r1 = vm.assign.ref %r0
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %r2 = vm.list.alloc %i2 : !vm.list<i32>
  vm.list.resize %r2, %i2
  %i4 = vm.const.i32.zero
  vm.list.set.i32 %r2, %i4, %i0
  %i5 = vm.sub.i32 %i0, %i2
  %i5 = vm.call @down(%i5, %R0, %i1)
  %i6 = vm.list.get.i32 %r2, %i4
  %i5 = vm.add.i32 %i5, %i6
  %i5 = vm.xor.i32 %i5, %i3
  vm.return %i5
^bb2:
  %i5 = vm.call @host.end(%i1, %r1)
  vm.return %i5
}

vm.export @up
vm.func @up(%i0: i32, %r0: !test.token, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 1
  %i3 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %r1, %i4 = vm.call @same(%r0, %i0)
  %r0, %i4 = vm.call @same(%R1, %i4)
  %i5 = vm.cmp.nz.ref %r1
  %i3 = vm.add.i32 %i3, %i5
  %i5 = vm.cmp.nz.ref %r0
  %i3 = vm.add.i32 %i3, %i5
  %i0 = vm.sub.i32 %i0, %i2
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb2:
  %i4 = vm.call @host.end(%i1, %R0)
  %i3 = vm.add.i32 %i3, %i4
  vm.return %i3
}

vm.func @same(%r0: !test.token, %i0: i32) -> (!test.token, i32) {
^bb0:
  %i1 = vm.const.i32 7
  %i0 = vm.rem.i32.s %i0, %i1
  vm.return %R0, %i0
}

vm.export @wide
vm.func @wide(%i0: i32, %r0: !test.token, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 1
  %i3 = vm.const.i32 5
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %r7 = vm.assign.ref %r0
  %r9 = vm.assign.ref %r0
  %r11 = vm.assign.ref %r0
  %i4 = vm.sub.i32 %i0, %i2
  %i4 = vm.call @wide(%i4, %r11, %i1)
  %i4 = vm.mul.i32 %i4, %i3
  vm.return %i4
^bb2:
  %i4 = vm.call @host.end(%i1, %r11)
  vm.return %i4
}

vm.export @many
vm.func @many(%i0: i32, %r0: !test.token, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 1
  %i3 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %i4, %i6:7, %i8, %r1, %i10:11, %i12 = vm.call @five(%i0, %r0, %i3)
  %i9 = vm.trunc.i64.i32 %i6:7
  %i3 = vm.add.i32 %i4, %i9
  %i9 = vm.trunc.i64.i32 %i10:11
  %i3 = vm.sub.i32 %i3, %i9
  %i3 = vm.xor.i32 %i3, %i8
  %i3 = vm.mul.i32 %i3, %i12
  %i5 = vm.cmp.nz.ref %r1
  %i3 = vm.add.i32 %i3, %i5
  %i0 = vm.sub.i32 %i0, %i2
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb2:
  %i4 = vm.call @host.end(%i1, %r1)
  %i3 = vm.add.i32 %i3, %i4
  vm.return %i3
}

vm.func @five(%i0: i32, %r0: !test.token, %i1: i32) -> (i32, i64, i32, !test.token, i64, i32) {
^bb0:
  %i2:3 = vm.ext.i32.i64.s %i1
  %i4:5 = vm.ext.i32.i64.s %i0
  %i4:5 = vm.mul.i64 %i4:5, %i2:3
  %i6 = vm.const.i32 3
  vm.return %i0, %i2:3, %i1, %r0, %i4:5, %i6
}

vm.export @begins
vm.func @begins(%i0: i32, %r0: !test.token, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 1
  %i3 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %i4 = vm.call @adds(%i0, %i3)
  %i3 = vm.xor.i32 %i4, %i0
  %i0 = vm.sub.i32 %i0, %i2
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb2:
  %i4 = vm.call @host.end(%i1, %r0)
  %i3 = vm.add.i32 %i3, %i4
  vm.return %i3
}

vm.func @adds(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  vm.br ^bb1()
^bb1:
  %i2 = vm.add.i32 %i2, %i1
  %i3 = vm.const.i32 1
  %i2 = vm.add.i32 %i2, %i3
  %i0 = vm.sub.i32 %i0, %i3
  %i4 = vm.cmp.lt.i32.s %i3, %i0
  vm.cond_br %i4, ^bb1(), ^bb2()
^bb2:
  vm.return %i2
}
";

const DISPATCHES: [DispatchMode; 3] = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled];
const NAMES: [&str; 6] = ["down", "up", "wide", "many", "begins", "heavy"];

/// A function that needs so many values at a time that its native frame is too large for calls of its own.
fn heavy() -> String {
    let mut text = String::from(
        "vm.export @heavy\nvm.func @heavy(%i0: i32, %r0: !test.token, %i1: i32) -> (i32) {\n^bb0:\n  %i2 = vm.const.i32 3\n  %i3 = vm.const.i32 1\n",
    );
    (10..90).for_each(|slot| {
        text.push_str(&format!(
            "  %i{slot} = vm.mul.i32 %i{}, %i2\n  %i2 = vm.xor.i32 %i2, %i{slot}\n",
            if slot == 10 { 0 } else { slot - 1 }
        ))
    });
    text.push_str(
        "  vm.cond_br %i0, ^bb1(), ^bb2()\n^bb1:\n  %i4 = vm.sub.i32 %i0, %i3\n  %i4 = vm.call @heavy(%i4, %r0, %i1)\n",
    );
    text.push_str("  vm.br ^bb3()\n^bb2:\n  %i4 = vm.call @host.end(%i1, %r0)\n  vm.br ^bb3()\n^bb3:\n");
    (10..90)
        .rev()
        .for_each(|slot| text.push_str(&format!("  %i4 = vm.xor.i32 %i4, %i{slot}\n  %i4 = vm.mul.i32 %i4, %i2\n")));
    text + "  vm.return %i4\n}\n"
}

fn context() -> Context {
    let program = assemble(&(PROGRAM.to_string() + &heavy())).unwrap_or_else(|error| panic!("{error}"));
    let program = Module::from_bytes(&program).unwrap();
    Context::new([Module::native(Host::default()).unwrap(), program]).unwrap()
}

/// The outcome of a call, typed or not, as text: values, a status with its backtrace, or a panic. The token has no
/// holder afterwards.
fn outcome(context: &Context, name: &str, steps: i32, how: i32, limits: Limits, typed: bool) -> String {
    let count = Arc::new(());
    let token = || Obj::new(Token(count.clone()));
    let function = context.function(&format!("m.{name}")).unwrap();
    let call = || {
        if typed {
            let function = function.typed::<(i32, Obj<Token>, i32), i32>()?;
            return Ok(vec![Value::I32(function.call_with((steps, token(), how), &limits)?)]);
        }
        function.call_with(&[Value::I32(steps), Value::from(token()), Value::I32(how)], limits)
    };
    let text = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(values)) => format!("{values:?}"),
        Ok(Err(status)) => format!("{status:?}"),
        Err(panic) => format!("panicked: {:?}", panic.downcast_ref::<&str>()),
    };
    assert_eq!(Arc::strong_count(&count), 1, "{name}({steps}, {how}): {text}");
    text
}

/// All dispatchers agree, each several times over in a context of its own. Returns what they agree on.
fn agree(name: &str, steps: i32, how: i32, stack_bytes: usize) -> String {
    let all = DISPATCHES.map(|dispatch| {
        let context = context();
        let limits = || Limits { dispatch, stack_bytes, ..Limits::default() };
        let first = outcome(&context, name, steps, how, limits(), false);
        for _ in 0..2 {
            let again = outcome(&context, name, steps, how, limits(), true);
            assert_eq!(again, first, "{dispatch:?}: {name}({steps}, {how})");
        }
        first
    });
    assert_eq!(all[1], all[0], "{name}({steps}, {how})");
    assert_eq!(all[2], all[0], "{name}({steps}, {how})");
    all[0].clone()
}

const STACK: usize = 1 << 20;

#[test]
fn results_and_references_come_back() {
    assert_eq!(agree("up", 9, 0, STACK), "[I32(10)]");
    for name in NAMES {
        // Builds without optimisation take long for many.
        for steps in [1, 2, 30, if cfg!(debug_assertions) { 500 } else { 2000 }] {
            for how in [0, 1] {
                agree(name, steps, how, STACK);
            }
        }
    }
}

#[test]
fn failures_have_the_same_backtraces() {
    for name in NAMES {
        for steps in [1, 2, 63, 300] {
            assert!(agree(name, steps, 2, STACK).contains("it is lost"));
            assert!(agree(name, steps, 3, STACK).contains("it is three"));
        }
    }
}

#[test]
fn stacks_that_are_too_small() {
    // Builds without optimisation take each third size.
    let sample = if cfg!(debug_assertions) { 3 } else { 1 };
    for stack_bytes in (64..5000).step_by(104 * sample) {
        for name in NAMES {
            agree(name, 40, 1, stack_bytes);
        }
    }
    assert!(agree("down", i32::MAX, 0, STACK).contains("stack overflow"));
}
