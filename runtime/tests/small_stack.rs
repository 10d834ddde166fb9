//! Programs use the stack of the virtual machine, not that of the host: long loops, deep recursions, their failures,
//! and long chains of references run on threads whose native stack has 64 KiB, under both dispatchers and in every kind
//! of build.

use std::thread;

use vireo::asm::assemble;
use vireo::hal::BuiltinOptions;
use vireo::interp::{DispatchMode, Limits};
use vireo::modules::hal::HalModule;
use vireo::modules::hal_inline::HalInlineModule;
use vireo::status::StatusCode;
use vireo::vm::{Context, Module, Value};
use vireo::{Result, Status};

/// All that a thread has for creating a context and running a program in it.
const NATIVE_STACK: usize = 64 << 10;
const LOOP: i32 = 1_000_000;
const DEPTH: i32 = 10_000;

/// `sum` counts in a loop; `depth` calls itself; `keep` calls itself and holds a reference in each frame; `fails` fails
/// at the bottom of a recursion; `nest` puts a list into a list into a list and so on, and drops it.
const BELOW: &str = "
vm.module @below version 0
vm.type i32
vm.type !vm.opaque

vm.export @sum
vm.func @sum(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i1 = vm.add.i32 %i1, %i2
  %i3 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i3, ^bb1(), ^bb2()
^bb2:
  vm.return %i1
}

vm.export @depth
vm.func @depth(%i0: i32) -> (i32) {
^bb0:
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %i1 = vm.const.i32 1
  %i2 = vm.sub.i32 %i0, %i1
  %i2 = vm.call @depth(%i2)
  %i1 = vm.add.i32 %i1, %i2
  vm.return %i1
^bb2:
  vm.return %i0
}

vm.export @keep
vm.func @keep(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  %r0 = vm.list.alloc %i1 : !vm.list<!vm.opaque>
  %r0, %i0 = vm.call @keep_all(%r0, %i0)
  vm.return %i0
}

vm.func @keep_all(%r0: !vm.opaque, %i0: i32) -> (!vm.opaque, i32) {
^bb0:
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %i1 = vm.const.i32 1
  %i2 = vm.sub.i32 %i0, %i1
  %r1, %i2 = vm.call @keep_all(%r0, %i2)
  %i1 = vm.add.i32 %i1, %i2
  vm.return %R1, %i1
^bb2:
  vm.return %R0, %i0
}

vm.export @fails
vm.func @fails(%i0: i32) -> (i32) {
^bb0:
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %i1 = vm.const.i32 1
  %i1 = vm.sub.i32 %i0, %i1
  %i1 = vm.call @fails(%i1)
  vm.return %i1
^bb2:
  %i1 = vm.div.i32.s %i0, %i0
  vm.return %i1
}

vm.export @nest
vm.func @nest(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %r1 = vm.list.alloc %i2 : !vm.list<!vm.opaque>
  vm.list.resize %r1, %i2
  vm.list.set.ref %r1, %i1, %R0
  vm.br ^bb2(%R1->%r0)
^bb2:
  %i3 = vm.add.i32 %i3, %i2
  %i4 = vm.cmp.lt.i32.s %i3, %i0
  vm.cond_br %i4, ^bb1(), ^bb3()
^bb3:
  %r0 = vm.const.ref.zero
  vm.return %i3
}
";

/// `depth` calls itself and, at the bottom, `below.depth`.
const ABOVE: &str = "
vm.module @above version 0
vm.type i32
vm.import @below.depth cconv \"0i_i\"

vm.export @depth
vm.func @depth(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %i2 = vm.const.i32 1
  %i3 = vm.sub.i32 %i0, %i2
  %i3 = vm.call @depth(%i3, %i1)
  %i2 = vm.add.i32 %i2, %i3
  vm.return %i2
^bb2:
  %i2 = vm.call @below.depth(%i1)
  vm.return %i2
}
";

/// Calls `function` with numbers on a thread that has little native stack, with each dispatcher.
fn call(function: &'static str, arguments: &[i32], stack_bytes: usize) -> Vec<Result<Vec<Value>>> {
    let files = [BELOW, ABOVE].map(|text| assemble(text).unwrap_or_else(|error| panic!("{error}")));
    let arguments: Vec<_> = arguments.iter().copied().map(Value::I32).collect();
    let run = |dispatch| {
        let (files, arguments) = (files.clone(), arguments.clone());
        let body = move || {
            let modules = files.iter().map(|file| Module::from_bytes(file)).collect::<Result<Vec<_>>>()?;
            let limits = Limits { dispatch, stack_bytes, ..Limits::default() };
            Context::new(modules)?.function(function)?.call_with(&arguments, limits)
        };
        thread::Builder::new().stack_size(NATIVE_STACK).spawn(body).unwrap().join().unwrap()
    };
    [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled, DispatchMode::Auto].map(run).into()
}

fn assert_returns(function: &'static str, arguments: &[i32], expected: i32) {
    for results in call(function, arguments, 64 << 20) {
        assert_eq!(results.as_deref().map_err(Status::to_string), Ok(&[Value::I32(expected)][..]), "{function}");
    }
}

#[test]
fn a_long_loop() {
    assert_returns("below.sum", &[LOOP], LOOP);
}

#[test]
fn a_deep_recursion() {
    assert_returns("below.depth", &[DEPTH], DEPTH);
    assert_returns("below.keep", &[DEPTH], DEPTH);
}

#[test]
fn a_deep_recursion_in_two_modules() {
    assert_returns("above.depth", &[DEPTH, DEPTH], 2 * DEPTH);
}

#[test]
fn a_list_in_a_list_and_so_on() {
    assert_returns("below.nest", &[links()], links());
}

/// `storages` wraps the storage of what it has wrapped before, again and again; `barriers` lets each of many barriers
/// wait for the one before it, and `kept` puts each fence and each buffer into a list with what was before. All drop it
/// at the end, and `signals` lets the barriers run first.
const OWNERS: &str = "
vm.module @owners version 0
vm.type !vm.buffer
vm.type !vm.list<!vm.opaque>
vm.import @hal.devices.get cconv \"0i_r\"
vm.import @hal.fence.create cconv \"0rI_r\"
vm.import @hal.fence.signal cconv \"0r_v\"
vm.import @hal.device.queue.barrier cconv \"0rIrrI_v\"
vm.import @hal_inline.buffer.wrap cconv \"0rII_r\"
vm.import @hal_inline.buffer.storage cconv \"0r_r\"

vm.export @storages
vm.func @storages(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  %i4:5 = vm.const.i64.zero
  %i6:7 = vm.const.i64 64
  %r0 = vm.buffer.alloc %i6:7, %i1
  vm.br ^bb1
^bb1:
  %r1 = vm.call @hal_inline.buffer.wrap(%R0, %i4:5, %i6:7)
  %r0 = vm.call @hal_inline.buffer.storage(%R1)
  %i1 = vm.add.i32 %i1, %i2
  %i3 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i3, ^bb1, ^bb2
^bb2:
  %r0 = vm.const.ref.zero
  vm.return %i1
}

vm.export @barriers
vm.func @barriers(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  %r0, %r1, %i1 = vm.call @chain(%i0, %i1)
  %r1 = vm.const.ref.zero
  %r0 = vm.const.ref.zero
  vm.return %i1
}

vm.export @signals
vm.func @signals(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  %r0, %r1, %i1 = vm.call @chain(%i0, %i1)
  vm.call @hal.fence.signal(%r0)
  vm.return %i1
}

vm.export @kept
vm.func @kept(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  %r0, %r1, %i1 = vm.call @chain(%i0, %i1)
  %r1 = vm.const.ref.zero
  %r0 = vm.const.ref.zero
  vm.return %i1
}

vm.func @chain(%i0: i32, %i1: i32) -> (!vm.opaque, !vm.opaque, i32) {
^bb0:
  %i2 = vm.const.i32 1
  %i9 = vm.mul.i32 %i1, %i2
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  %i4:5 = vm.const.i64.zero
  %i6:7 = vm.const.i64 -1
  %i10:11 = vm.const.i64 1
  %i12 = vm.const.i32 2
  %i13 = vm.const.i32 4
  %r4 = vm.call @hal.devices.get(%i1)
  %r0 = vm.call @hal.fence.create(%r4, %i4:5)
  %r1 = vm.assign.ref %r0
  vm.br ^bb1
^bb1:
  %r2 = vm.call @hal.fence.create(%r4, %i4:5)
  vm.call @hal.device.queue.barrier(%r4, %i6:7, %r1, %r2, %i4:5)
  %r1 = vm.assign.ref %R2
  vm.cond_br %i9, ^bb2, ^bb3
^bb2:
  %r5 = vm.list.alloc %i13 : !vm.list<!vm.opaque>
  vm.list.resize %r5, %i13
  %i14 = vm.const.i32.zero
  vm.list.set.ref %r5, %i14, %R3
  vm.list.set.ref %r5, %i2, %r1
  %r6 = vm.buffer.alloc %i10:11, %i13
  vm.list.set.ref %r5, %i12, %r6
  %r3 = vm.assign.ref %R5
  vm.br ^bb3
^bb3:
  %i1 = vm.add.i32 %i1, %i2
  %i3 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i3, ^bb1, ^bb4
^bb4:
  vm.return %R0, %R3, %i1
}
";

/// How many links chains of owners have: `VIREO_CHAIN` sets it.
fn links() -> i32 {
    let number = std::env::var("VIREO_CHAIN").ok().map(|text| text.parse().expect("a number of links"));
    number.unwrap_or(if cfg!(debug_assertions) { 100_000 } else { 300_000 })
}

#[test]
fn chains_of_owners() {
    let file = assemble(OWNERS).unwrap_or_else(|error| panic!("{error}"));
    for uri in ["local-sync", "local-task"] {
        for function in ["storages", "barriers", "signals", "kept"] {
            let file = file.clone();
            let body = move || {
                let device = BuiltinOptions::default().registry().create_device(uri)?;
                let modules = [
                    Module::native(HalInlineModule::new(device.allocator()))?,
                    Module::native(HalModule::new(vec![device]))?,
                    Module::from_bytes(&file)?,
                ];
                Context::new(modules)?.function(&format!("owners.{function}"))?.call(&[Value::I32(links())])
            };
            let results = thread::Builder::new().stack_size(4 * NATIVE_STACK).spawn(body).unwrap().join().unwrap();
            assert_eq!(results.as_deref().map_err(Status::to_string), Ok(&[Value::I32(links())][..]), "{function}");
        }
    }
}

#[test]
fn failures_at_the_bottom() {
    for results in call("below.fails", &[DEPTH], 64 << 20) {
        let status = results.unwrap_err();
        assert_eq!(status.code(), StatusCode::InvalidArgument, "{status}");
        assert!(status.backtrace().len() > 10, "{status}");
    }
    for results in call("below.keep", &[i32::MAX], 1 << 20) {
        let status = results.unwrap_err();
        assert_eq!(status.code(), StatusCode::ResourceExhausted, "{status}");
        assert!(status.message().contains("stack overflow"), "{status}");
    }
}
