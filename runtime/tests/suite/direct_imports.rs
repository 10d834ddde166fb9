//! Imports that machine code calls directly, with numbers in registers of the processor: arguments and results of all
//! kinds, more of them than there are registers, the state of the module, failures, and limits. Every dispatcher does
//! the same.

use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits};
use vireo::vm::{Context, Module, Value};
use vireo::{Fuel, Result, Status, StatusCode, vm_module};

struct Host;

/// The arguments of the functions, in order.
#[derive(Default)]
struct Sum {
    of: i64,
}

#[vm_module(name = "host")]
impl Host {
    #[vm_state]
    fn create(&self) -> Result<Sum> {
        Ok(Sum::default())
    }

    #[vm_export("nothing")]
    fn nothing(&self) -> Result<()> {
        Ok(())
    }

    #[vm_export("add")]
    fn add(&self, state: &mut Sum, value: i64) -> Result<()> {
        state.of = state.of.wrapping_add(value);
        Ok(())
    }

    #[vm_export("sum")]
    fn sum(&self, state: &mut Sum) -> Result<i64> {
        Ok(std::mem::take(&mut state.of))
    }

    #[vm_export("registers")]
    #[expect(clippy::too_many_arguments, reason = "as many as there are registers")]
    fn registers(&self, a: i32, b: f64, c: i64, d: f32, e: u32, f: f32, g: u64, h: f64) -> Result<f64> {
        assert_eq!(g as i64, c.wrapping_mul(3));
        Ok(f64::from(a) + b * 2.0 + c as f64 * 3.0 + f64::from(d) * 4.0 + f64::from(e) * 5.0 + f64::from(f) * 6.0 + h)
    }

    #[vm_export("many")]
    fn many(&self, a: i32, b: i32, c: i32, d: i32, e: i32) -> Result<i32> {
        Ok(((a * 10 + b) * 10 + c) * 10 + d * 2 + e)
    }

    #[vm_export("single")]
    fn single(&self, value: f32) -> Result<f32> {
        Ok(value * 0.5)
    }

    #[vm_export("is_odd")]
    fn is_odd(&self, value: u64) -> Result<bool> {
        Ok(value % 2 == 1)
    }

    #[vm_export("fail")]
    fn fail(&self, state: &mut Sum, value: i32) -> Result<i32> {
        state.of += 1;
        if value == 0 { Err(Status::new(StatusCode::DataLoss, "it is lost")) } else { Ok(value - 1) }
    }
}

/// Loops of calls. What lives across them is a constant, a value in a slot, and a reference.
const PROGRAM: &str = "
vm.module @m version 0
vm.type i32
vm.type !vm.buffer
vm.import @host.nothing cconv \"0v_v\"
vm.import @host.add cconv \"0I_v\"
vm.import @host.sum cconv \"0v_I\"
vm.import @host.registers cconv \"0iFIfifIF_F\"
vm.import @host.many cconv \"0iiiii_i\"
vm.import @host.single cconv \"0f_f\"
vm.import @host.is_odd cconv \"0I_i\"
vm.import @host.fail cconv \"0i_i\"

vm.export @state
vm.func @state(%i0: i32) -> (i64) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i4:5 = vm.ext.i32.i64.s %i1
  vm.call @host.nothing()
  vm.call @host.add(%i4:5)
  %i1 = vm.add.i32 %i1, %i2
  %i3 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i3, ^bb1(), ^bb2()
^bb2:
  %i4:5 = vm.call @host.sum()
  vm.return %i4:5
}

vm.export @registers
vm.func @registers(%i0: i32) -> (f64) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 -1
  %i4:5 = vm.const.f64 0.5
  %i6:7 = vm.const.i64 3
  vm.br ^bb1()
^bb1:
  %i8:9 = vm.ext.i32.i64.s %i1
  %i10:11 = vm.mul.i64 %i8:9, %i6:7
  %i12 = vm.const.f32 1.25
  %i13 = vm.cast.si32.f32 %i1
  %i4:5 = vm.call @host.registers(%i1, %i4:5, %i8:9, %i12, %i2, %i13, %i10:11, %i4:5)
  %i3 = vm.const.i32 1
  %i1 = vm.add.i32 %i1, %i3
  %i3 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i3, ^bb1(), ^bb2()
^bb2:
  vm.return %i4:5
}

vm.export @many
vm.func @many(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  %i2 = vm.const.i32 2
  %i1 = vm.call @host.many(%i0, %i1, %i2, %i1, %i0)
  vm.return %i1
}

vm.export @single
vm.func @single(%i0: i32) -> (f32) {
^bb0:
  %i1 = vm.cast.si32.f32 %i0
  %i1 = vm.call @host.single(%i1)
  %i2 = vm.call @host.single(%i1)
  %i1 = vm.add.f32 %i1, %i2
  vm.return %i1
}

vm.export @is_odd
vm.func @is_odd(%i0: i32) -> (i32) {
^bb0:
  %i2:3 = vm.ext.i32.i64.u %i0
  %i1 = vm.call @host.is_odd(%i2:3)
  vm.return %i1
}

vm.export @fail
vm.func @fail(%i0: i32) -> (i32) {
^bb0:
  %i2:3 = vm.const.i64 8
  %i4 = vm.const.i32 16
  %r0 = vm.buffer.alloc %i2:3, %i4
  %i1 = vm.call @m:6(%i0)
  %i2:3 = vm.const.i64 1
  %i2 = vm.buffer.load.i32 %r0, %i2:3
  %i1 = vm.add.i32 %i1, %i2
  vm.return %i1
}

vm.func @inner(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 2
  vm.br ^bb1()
^bb1:
  %i0 = vm.call @host.fail(%i0)
  %i2 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i2, ^bb1(), ^bb2()
^bb2:
  %i0 = vm.call @host.fail(%i0)
  %i0 = vm.call @host.fail(%i0)
  vm.return %i0
}
";

const DISPATCHERS: [DispatchMode; 3] = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled];

fn context() -> Context {
    let program = Module::from_bytes(&assemble(PROGRAM).unwrap()).unwrap();
    Context::new([Module::native(Host).unwrap(), program]).unwrap()
}

/// The result of a function, or its status with the backtrace, and the state that the calls leave: the same under all
/// dispatchers, with and without limits.
fn call(name: &str, argument: i32) -> Result<Value> {
    let call = |dispatch, fuel: Option<u64>| {
        let context = context();
        let limits = Limits { dispatch, fuel: fuel.map(Fuel::new), ..Limits::default() };
        let call = |name: &str, args: &[Value]| context.function(name)?.call_with(args, limits.clone());
        let results: Vec<_> = (0..2).map(|_| call(name, &[Value::I32(argument)])).collect();
        (results, context.function("host.sum").and_then(|sum| sum.call(&[])))
    };
    let expected = call(DispatchMode::Loop, None);
    for dispatch in DISPATCHERS {
        for fuel in [None, Some(1 << 20)] {
            let found = call(dispatch, fuel);
            assert_eq!(
                format!("{found:?}"),
                format!("{expected:?}"),
                "{name}({argument}), {dispatch:?}, fuel {fuel:?}"
            );
        }
    }
    expected.0.into_iter().next().unwrap().map(|mut values| values.remove(0))
}

#[test]
fn the_state_is_that_of_the_context() {
    assert_eq!(call("m.state", 10).unwrap(), Value::I64(45));
}

#[test]
fn arguments_have_their_registers() {
    let expected = (0..5_i32).fold(0.5, |last, i| {
        let wide = f64::from(i);
        wide + last * 2.0 + wide * 3.0 + 1.25 * 4.0 + f64::from(u32::MAX) * 5.0 + wide * 6.0 + last
    });
    assert_eq!(call("m.registers", 5).unwrap(), Value::F64(expected));
}

#[test]
fn there_may_be_more_arguments_than_registers() {
    assert_eq!(call("m.many", 7).unwrap(), Value::I32(7120 + 2 + 7));
}

#[test]
fn results_are_of_each_kind() {
    assert_eq!(call("m.single", 8).unwrap(), Value::F32(6.0));
    assert_eq!(call("m.is_odd", 7).unwrap(), Value::I32(1));
    assert_eq!(call("m.is_odd", 8).unwrap(), Value::I32(0));
}

#[test]
fn failures_end_the_call_where_they_are() {
    assert_eq!(call("m.fail", 9).unwrap(), Value::I32(0));
    let status = call("m.fail", 1).unwrap_err();
    assert_eq!((status.code(), status.message()), (StatusCode::DataLoss, "it is lost"));
    let frames: Vec<_> = status.backtrace().iter().map(|frame| frame.function.as_str()).collect();
    assert_eq!(frames, ["fail", "@6", "fail"]);
}

#[test]
fn the_fuel_ends_at_the_same_step() {
    for fuel in 0..40 {
        let outcomes = DISPATCHERS.map(|dispatch| {
            let context = context();
            let limits = Limits { dispatch, fuel: Some(Fuel::new(fuel)), ..Limits::default() };
            let result = context.function("m.fail").unwrap().call_with(&[Value::I32(9)], limits);
            let calls = context.function("host.sum").unwrap().call(&[]);
            format!("{result:?} after {calls:?}")
        });
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{fuel}: {outcomes:#?}");
    }
}
