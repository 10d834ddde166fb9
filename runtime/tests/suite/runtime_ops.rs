//! Ops that the runtime executes for compiled code, which continues after them: imports that return, wait, fail and
//! panic, lists, and functions of other modules. Constants that only the interpreter looks for in the slots are there
//! when it goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use vireo::abi::Step;
use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits};

use vireo::vm::{BoxedWaitSource, Context, Module, Value};
use vireo::{Result, Status, StatusCode, vm_module};

#[path = "../support/soon.rs"]
mod soon;
use soon::Soon;

#[derive(Default)]
struct Host {
    waits: AtomicI32,
}

#[vm_module(name = "host")]
impl Host {
    #[vm_export("add")]
    fn add(&self, a: i32, b: i64) -> Result<(i64, i32)> {
        Ok((i64::from(a).wrapping_add(b), a.wrapping_mul(2)))
    }

    /// Waits each second time.
    #[vm_export("wait")]
    fn wait(&self, value: i32) -> Result<Step<i32>> {
        let waited = self.waits.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        Ok(if waited { Step::Return(value + 1) } else { Step::Wait(BoxedWaitSource::new(Soon)) })
    }

    #[vm_export("fail")]
    fn fail(&self, value: i32) -> Result<i32> {
        if value == 3 { Err(Status::new(StatusCode::DataLoss, "it is lost")) } else { Ok(value) }
    }

    #[vm_export("panic")]
    fn panic(&self, value: i32) -> Result<i32> {
        assert_ne!(value, 3, "it is three");
        Ok(value)
    }
}

/// Loops in which each op of interest is executed again and again. The constants 7 and 1000 live across it.
const PROGRAM: &str = "
vm.module @m version 0
vm.type i32
vm.type !vm.list<i32>
vm.import @host.add cconv \"0iI_Ii\"
vm.import @host.wait cconv \"0i_i\"
vm.import @host.fail cconv \"0i_i\"
vm.import @host.panic cconv \"0i_i\"
vm.import @other.twice cconv \"0i_i\"

vm.export @add
vm.func @add(%i0: i32) -> (i64) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  %i3 = vm.const.i32 7
  %i4:5 = vm.const.i64 1000
  %i6:7 = vm.const.i64.zero
  vm.br ^bb1()
^bb1:
  %i6:7, %i8 = vm.call @host.add(%i3, %i6:7)
  %i10:11 = vm.ext.i32.i64.s %i8
  %i6:7 = vm.add.i64 %i6:7, %i10:11
  %i6:7 = vm.add.i64 %i6:7, %i4:5
  %i1 = vm.add.i32 %i1, %i2
  %i9 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i9, ^bb1(), ^bb2()
^bb2:
  vm.return %i6:7
}

vm.export @wait
vm.func @wait(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  %i3 = vm.const.i32 7
  %i4 = vm.const.i32 1000
  vm.br ^bb1()
^bb1:
  %i5 = vm.call @host.wait(%i1)
  %i4 = vm.mul.i32 %i4, %i3
  %i4 = vm.add.i32 %i4, %i5
  %i1 = vm.add.i32 %i1, %i2
  %i6 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i6, ^bb1(), ^bb2()
^bb2:
  vm.return %i4
}

vm.export @fail
vm.func @fail(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 7
  %i2 = vm.call @host.fail(%i0)
  %i2 = vm.add.i32 %i2, %i1
  vm.return %i2
}

vm.export @panic
vm.func @panic(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 7
  %i2 = vm.call @host.panic(%i0)
  %i2 = vm.add.i32 %i2, %i1
  vm.return %i2
}

vm.export @list
vm.func @list(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 7
  %r0 = vm.list.alloc %i1 : !vm.list<i32>
  vm.list.resize %r0, %i1
  vm.list.set.i32 %r0, %i0, %i1
  %i2 = vm.list.get.i32 %r0, %i0
  %i1 = vm.add.i32 %i1, %i2
  vm.return %i1
}

vm.export @other
vm.func @other(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 7
  %i2 = vm.call @other.twice(%i0)
  %i2 = vm.call @other.twice(%i2)
  %i2 = vm.add.i32 %i2, %i1
  vm.return %i2
}
";

const OTHER: &str = "
vm.module @other version 0

vm.export @twice
vm.func @twice(%i0: i32) -> (i32) {
^bb0:
  %i0 = vm.add.i32 %i0, %i0
  vm.return %i0
}
";

fn context() -> Context {
    let module = |text: &str| Module::from_bytes(&assemble(text).unwrap()).unwrap();
    Context::new([Module::native(Host::default()).unwrap(), module(OTHER), module(PROGRAM)]).unwrap()
}

const DISPATCHERS: [DispatchMode; 3] = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled];

/// The results of a function, or its status with the backtrace: the same under all dispatchers, and again in the same
/// context.
fn call(context: &Context, name: &str, argument: i32) -> Result<Vec<Value>> {
    let function = context.function(name)?;
    let mut results = DISPATCHERS.iter().cycle().take(6).map(|dispatch| {
        function.call_with(&[Value::I32(argument)], Limits { dispatch: *dispatch, ..Limits::default() })
    });
    let first = results.next().unwrap();
    for (index, result) in results.enumerate() {
        assert_eq!(format!("{result:?}"), format!("{first:?}"), "{name}({argument}), call {}", index + 1);
    }
    first
}

#[test]
fn results_of_imports_come_back() {
    assert_eq!(call(&context(), "m.add", 5).unwrap(), [Value::I64(5 * 1021)]);
}

#[test]
fn an_import_may_wait_in_a_loop() {
    let expected = (0..5).fold(1000_i32, |value, iteration| value.wrapping_mul(7).wrapping_add(iteration + 1));
    assert_eq!(call(&context(), "m.wait", 5).unwrap(), [Value::I32(expected)]);
}

#[test]
fn a_failed_import_has_a_backtrace() {
    let context = context();
    assert_eq!(call(&context, "m.fail", 4).unwrap(), [Value::I32(11)]);
    let status = call(&context, "m.fail", 3).unwrap_err();
    assert_eq!(status.code(), StatusCode::DataLoss);
    assert_eq!(call(&context, "m.fail", 5).unwrap(), [Value::I32(12)]);
}

#[test]
fn a_panic_of_an_import_passes() {
    let context = Arc::new(context());
    let function = context.function("m.panic").unwrap();
    for dispatch in DISPATCHERS {
        let call = |value| function.call_with(&[Value::I32(value)], Limits { dispatch, ..Limits::default() });
        assert_eq!(call(4).unwrap(), [Value::I32(11)]);
        let panic = catch_unwind(AssertUnwindSafe(|| call(3))).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("it is three"), "{message}");
    }
}

#[test]
fn lists_are_those_of_the_interpreter() {
    let context = context();
    assert_eq!(call(&context, "m.list", 2).unwrap(), [Value::I32(14)]);
    assert_eq!(call(&context, "m.list", 9).unwrap_err().code(), StatusCode::OutOfRange);
}

#[test]
fn imports_may_be_functions_of_other_modules() {
    assert_eq!(call(&context(), "m.other", 5).unwrap(), [Value::I32(27)]);
}
