//! References that programs pass to native functions: lent where the register keeps them, moved where it does not,
//! under both dispatchers. Whatever the function does with them, no count is lost and none is left over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits};
use vireo::vm::{Buffer, Context, Module, Obj, Object, Ref, Value};
use vireo::{Result, StatusCode, vm_module};

struct Token(Arc<()>);

impl Object for Token {
    const TYPE_NAME: &'static str = "test.token";
}

struct Host;

#[vm_module(name = "host")]
impl Host {
    #[vm_export("look")]
    fn look(&self, a: &Obj<Token>, b: Option<&Obj<Token>>) -> Result<i32> {
        let same = b.is_some_and(|b| Arc::ptr_eq(&a.0, &b.0));
        Ok(i32::from(same) + 2 * i32::from(b.is_none()))
    }

    #[vm_export("keep")]
    fn keep(&self, a: Obj<Token>, b: &Ref) -> Result<(Obj<Token>, Ref)> {
        Ok((a, b.clone()))
    }

    #[vm_export("all")]
    fn all(&self, refs: Vec<(Option<Obj<Token>>, i32)>) -> Result<i32> {
        Ok(refs.iter().map(|(token, factor)| i32::from(token.is_some()) * factor).sum())
    }

    #[vm_export("panic")]
    fn panic(&self, _a: &Ref, _b: &Obj<Token>, value: i32) -> Result<i32> {
        assert_ne!(value, 3, "it is three");
        Ok(value)
    }

    /// The lengths of two buffers, zero for other objects.
    #[vm_export("lengths")]
    fn lengths(&self, a: &Ref, b: &Ref) -> Result<i32> {
        let [a, b] = [a, b].map(|reference| reference.get::<Buffer>().map_or(0, Buffer::len));
        Ok((a * 10 + b) as i32)
    }

    #[vm_export("pass")]
    fn pass(&self, a: Ref) -> Result<Ref> {
        Ok(a)
    }
}

/// Each function says what it expects by what it returns.
const PROGRAM: &str = r#"
vm.module @m version 0
vm.type i32
vm.type !vm.opaque
vm.import @host.look cconv "0rr_i"
vm.import @host.keep cconv "0rr_rr"
vm.import @host.all cconv "0CriD_i"
vm.import @host.panic cconv "0rri_i"
vm.import @host.lengths cconv "0rr_i"
vm.import @host.pass cconv "0r_r"
vm.rodata[0] = 01
vm.rodata[1] = 0102

vm.export @look
vm.func @look(%r0: !vm.opaque) -> (i32, i32, i32, !vm.opaque) {
^bb0:
  %i0 = vm.call @host.look(%r0, %r0)
  %r1 = vm.call @again(%r0)
  %i1 = vm.call @host.look(%r0, %R1)
  %i2 = vm.call @host.look(%r0, %r1)
  vm.return %i0, %i1, %i2, %r0
}

vm.func @again(%r0: !vm.opaque) -> (!vm.opaque) {
^bb0:
  vm.return %r0
}

vm.export @keep
vm.func @keep(%r0: !vm.opaque) -> (!vm.opaque, !vm.opaque, i32, i32) {
^bb0:
  %r0, %r1 = vm.call @host.keep(%r0, %r0)
  %r1, %r2 = vm.call @host.keep(%r1, %R0)
  %i0 = vm.cmp.eq.ref %r1, %r2
  %i1 = vm.cmp.nz.ref %r0
  vm.return %R1, %r2, %i0, %i1
}

vm.export @all
vm.func @all(%r0: !vm.opaque) -> (i32, i32) {
^bb0:
  %i2 = vm.const.i32 1
  %i3 = vm.const.i32 10
  %i4 = vm.const.i32 100
  %i0 = vm.call.variadic @host.all segments[3](%r0, %i2, %r1, %i3, %r0, %i4)
  %i1 = vm.call.variadic @host.all segments[2](%R0, %i2, %r0, %i3)
  vm.return %i0, %i1
}

vm.export @rodata
vm.func @rodata(%r0: !vm.opaque) -> (i32, i32, i32, i32) {
^bb0:
  %r1 = vm.const.ref.rodata 0
  %r2 = vm.const.ref.rodata 1
  %i0 = vm.call @host.lengths(%R1, %R2)
  %r1 = vm.const.ref.rodata 1
  %r1 = vm.call @host.pass(%R1)
  %r2 = vm.const.ref.rodata 0
  %i1 = vm.call @host.lengths(%R1, %r2)
  %r1 = vm.const.ref.rodata 0
  %r2 = vm.const.ref.rodata 0
  %i2 = vm.call @host.lengths(%R1, %R2)
  %r1 = vm.const.ref.rodata 1
  %r2 = vm.const.ref.rodata 1
  %r1 = vm.assign.ref %r0
  %i3 = vm.call @host.lengths(%R2, %R1)
  vm.return %i0, %i1, %i2, %i3
}

vm.export @panics
vm.func @panics(%r0: !vm.opaque, %i0: i32) -> (i32) {
^bb0:
  %r1 = vm.const.ref.rodata 0
  %i0 = vm.call @host.panic(%R1, %r0, %i0)
  vm.return %i0
}

vm.export @fails
vm.func @fails(%r0: !vm.opaque) -> (i32) {
^bb0:
  %i0 = vm.call @host.look(%r1, %r0)
  vm.return %i0
}
"#;

fn call(name: &str) -> Result<(Vec<Value>, Arc<()>)> {
    let context = Context::new([Module::native(Host)?, Module::from_bytes(&assemble(PROGRAM).unwrap())?])?;
    let function = context.function(name)?;
    let mut outcome = None;
    for dispatch in [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled] {
        let count = Arc::new(());
        let token = Value::Ref(Some(Obj::new(Token(count.clone())).into_ref()));
        let result = function.call_with(&[token], Limits { dispatch, ..Limits::default() });
        let held = matches!(&result, Ok(values) if values.iter().any(|value| matches!(value, Value::Ref(Some(_)))));
        assert_eq!(Arc::strong_count(&count), 1 + usize::from(held), "{name} under {dispatch:?}");
        outcome = Some(result.map(|values| (values, count)));
    }
    outcome.unwrap()
}

fn numbers(values: &[Value]) -> Vec<i32> {
    values.iter().filter_map(|value| if let Value::I32(value) = value { Some(*value) } else { None }).collect()
}

#[test]
fn a_register_that_is_passed_keeps_its_reference() {
    let (values, count) = call("look").unwrap();
    assert_eq!(numbers(&values), [1, 1, 2]);
    drop(values);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn what_is_lent_can_be_counted_and_results_may_take_its_place() {
    let (values, count) = call("keep").unwrap();
    assert_eq!(numbers(&values), [1, 0]);
    drop(values);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn spans_take_a_register_as_often_as_it_is_named() {
    // The second call moves the register away before it passes it once more.
    assert_eq!(numbers(&call("all").unwrap().0), [101, 1]);
}

#[test]
fn a_failed_call_loses_nothing() {
    let status = call("fails").unwrap_err();
    assert_eq!(status.code(), StatusCode::InvalidArgument);
    assert!(status.to_string().contains("argument `a` is null"), "{status}");
}

#[test]
fn segments_are_loaded_again_and_again() {
    assert_eq!(numbers(&call("rodata").unwrap().0), [12, 21, 11, 20]);
}

#[test]
fn a_panic_leaves_nothing_to_the_next_call() {
    let context =
        Context::new([Module::native(Host).unwrap(), Module::from_bytes(&assemble(PROGRAM).unwrap()).unwrap()]);
    let function = context.unwrap().function("m.panics").unwrap();
    for dispatch in [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled] {
        let count = Arc::new(());
        let call = |value| {
            let token = Value::Ref(Some(Obj::new(Token(count.clone())).into_ref()));
            function.call_with(&[token, Value::I32(value)], Limits { dispatch, ..Limits::default() })
        };
        catch_unwind(AssertUnwindSafe(|| call(3))).unwrap_err();
        assert_eq!(Arc::strong_count(&count), 1, "{dispatch:?}");
        assert_eq!(numbers(&call(4).unwrap()), [4]);
        assert_eq!(Arc::strong_count(&count), 1, "{dispatch:?}");
    }
}

/// `load` says that its global is a buffer, and `store` stores anything.
const GLOBAL: &str = r#"
vm.module @m version 0
vm.type !vm.buffer
vm.type !vm.opaque

vm.export @store
vm.func @store(%r0: !vm.opaque) -> () {
^bb0:
  vm.global.store.ref %r0, .refs[0] : !vm.opaque
  vm.return
}

vm.export @load
vm.func @load() -> (!vm.opaque) {
^bb0:
  %r0 = vm.global.load.ref .refs[0] : !vm.buffer
  %r1 = vm.global.load.ref .refs[0] : !vm.buffer
  vm.return %R1
}
"#;

#[test]
fn globals_are_checked_at_each_load() {
    let context = Context::new([Module::from_bytes(&assemble(GLOBAL).unwrap()).unwrap()]).unwrap();
    let [load, store] = ["m.load", "m.store"].map(|name| context.function(name).unwrap());
    let buffer = Value::from(Obj::new(Buffer::copy_of(&[1; 8]).unwrap()));
    let token = Value::Ref(Some(Obj::new(Token(Arc::default())).into_ref()));
    for dispatch in [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled] {
        for value in [&Value::Ref(None), &token, &buffer, &buffer, &token, &Value::Ref(None), &buffer] {
            store.call_with(std::slice::from_ref(value), Limits { dispatch, ..Limits::default() }).unwrap();
            let loaded = load.call_with(&[], Limits { dispatch, ..Limits::default() });
            match loaded {
                Err(status) => {
                    assert_eq!((value, status.code()), (&token, StatusCode::InvalidArgument), "{status}");
                    assert!(
                        status.message().contains("expected a reference of type !vm.buffer, got !test.token"),
                        "{status}"
                    );
                }
                Ok(loaded) => assert_eq!((&loaded[..], value != &token), (std::slice::from_ref(value), true)),
            }
        }
    }
}
