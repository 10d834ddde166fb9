//! Contexts: imports are bound by name, version and convention, modules are initialised, functions are called from any
//! thread.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use vireo::abi::Step;
use vireo::interp::{Limits, Poll};
use vireo::vm::{BoxedWaitSource, Buffer, Context, Module, Ref, Value, WaitSource};
use vireo::{Cancellation, Fuel, Result, StatusCode, vm_module};

fn fixture(name: &str) -> Module {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name);
    Module::from_file(path).unwrap()
}

/// The arguments of `custom.note`, in order.
type Notes = Arc<Mutex<Vec<i32>>>;

struct Custom {
    notes: Notes,
}

struct Sleep(Instant);

impl WaitSource for Sleep {
    fn is_ready(&self) -> bool {
        Instant::now() >= self.0
    }

    fn block(&self, deadline: Option<Instant>) {
        let until = deadline.map_or(self.0, |deadline| deadline.min(self.0));
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    fn wake(&self, waker: &Waker) -> Result<()> {
        let (until, waker) = (self.0, waker.clone());
        std::thread::spawn(move || {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            waker.wake();
        });
        Ok(())
    }
}

#[derive(Default)]
struct State {
    since: Option<Instant>,
}

#[vm_module(name = "custom", version = 1)]
impl Custom {
    #[vm_state]
    fn state(&self) -> Result<State> {
        Ok(State::default())
    }

    #[vm_export("add")]
    fn add(&self, a: i32, b: i32) -> Result<i32> {
        Ok(a.wrapping_add(b))
    }

    #[vm_export("note")]
    fn note(&self, value: i32) -> Result<()> {
        self.notes.lock().unwrap().push(value);
        Ok(())
    }

    /// Waits for so many milliseconds and returns twice the number.
    #[vm_export("wait")]
    fn wait(&self, state: &mut State, milliseconds: i32) -> Result<Step<i32>> {
        let since = *state.since.get_or_insert_with(Instant::now);
        let until = since + Duration::from_millis(milliseconds as u64);
        if Instant::now() < until {
            return Ok(Step::Wait(BoxedWaitSource::new(Sleep(until))));
        }
        state.since = None;
        Ok(Step::Return(milliseconds * 2))
    }
}

fn custom(notes: &Notes) -> Module {
    Module::native(Custom { notes: Arc::clone(notes) }).unwrap()
}

fn context() -> Context {
    Context::new([custom(&Notes::default()), fixture("context/app.vmfb"), fixture("context/user.vmfb")]).unwrap()
}

#[test]
fn imports_reach_native_and_bytecode_modules() {
    let context = context();
    let sum = context.function("app.sum").unwrap();
    assert_eq!(sum.convention().to_string(), "0ii_i");
    assert_eq!(sum.call(&[Value::I32(3), Value::I32(4)]).unwrap(), [Value::I32(7)]);
    // A name without a module is looked for in the last bytecode module first.
    assert_eq!(context.function("triple").unwrap().call(&[Value::I32(5)]).unwrap(), [Value::I32(15)]);
    assert_eq!(context.function("count").unwrap().module().name(), "app");
    // Native functions can be called as well.
    let add = context.function("custom.add").unwrap();
    assert_eq!(add.call(&[Value::I32(1), Value::I32(2)]).unwrap(), [Value::I32(3)]);
    let status = context.function("nothing").unwrap_err();
    assert_eq!(status.code(), StatusCode::NotFound);
    assert!(status.message().contains("app.sum") && !status.message().contains("__init"), "{status}");
}

#[test]
fn optional_imports_may_be_missing() {
    assert_eq!(context().function("app.has_missing").unwrap().call(&[]).unwrap(), [Value::I32(0)]);
}

#[test]
fn initialisers_run_in_order_and_deinitialisers_when_the_last_user_is_gone() {
    let notes = Notes::default();
    let context = Context::new([custom(&notes), fixture("context/app.vmfb")]).unwrap();
    assert_eq!(*notes.lock().unwrap(), [40]);
    let count = context.function("count").unwrap();
    drop(context);
    assert_eq!(count.call(&[]).unwrap(), [Value::I32(40)]);
    assert_eq!(count.call(&[]).unwrap(), [Value::I32(41)]);
    assert_eq!(*notes.lock().unwrap(), [40]);
    drop(count);
    assert_eq!(*notes.lock().unwrap(), [40, 41]);
}

#[test]
fn contexts_of_one_module_have_their_own_state() {
    let app = fixture("context/app.vmfb");
    let [first, second] = [(); 2].map(|()| Context::new([custom(&Notes::default()), app.clone()]).unwrap());
    let count = |context: &Context| context.function("count").unwrap().call(&[]).unwrap();
    assert_eq!(count(&first), [Value::I32(40)]);
    assert_eq!(count(&first), [Value::I32(41)]);
    assert_eq!(count(&second), [Value::I32(40)]);
}

#[test]
fn modules_are_added_to_a_context_whose_state_stays() {
    let notes = Notes::default();
    let mut context = Context::new([]).unwrap();
    context.add_modules([custom(&notes)]).unwrap();
    context.add_modules([fixture("context/app.vmfb")]).unwrap();
    assert_eq!(*notes.lock().unwrap(), [40]);
    let count = context.function("count").unwrap();
    assert_eq!(count.call(&[]).unwrap(), [Value::I32(40)]);
    let status = context.add_modules([fixture("context/user.vmfb")]).unwrap_err();
    assert_eq!(status.code(), StatusCode::FailedPrecondition, "there is a function");
    drop(count);
    // A module that does not link changes nothing.
    let status = context.add_modules([fixture("context/user.vmfb"), fixture("models/abs.vmfb")]).unwrap_err();
    assert_eq!((status.code(), context.modules().len()), (StatusCode::NotFound, 2));
    // Nor does one whose initialiser fails: the one before it is deinitialised.
    let broken = vireo::asm::assemble(
        "vm.module @broken version 0\n\nvm.export @__init\nvm.func @__init() -> () {\n\
         ^bb0:\n  %i0 = vm.const.i32 9\n  vm.fail %i0, \"broken\"\n}\n",
    )
    .unwrap();
    let broken = Module::from_bytes(&broken).unwrap();
    let again = fixture("context/app.vmfb");
    let status = context.add_modules([again, broken]).unwrap_err();
    assert!(status.message().contains("broken"), "{status}");
    assert_eq!((context.modules().len(), notes.lock().unwrap().as_slice()), (2, &[40, 40, 41][..]));
    context.add_modules([fixture("context/user.vmfb")]).unwrap();
    assert_eq!(context.function("triple").unwrap().call(&[Value::I32(5)]).unwrap(), [Value::I32(15)]);
    assert_eq!(context.function("count").unwrap().call(&[]).unwrap(), [Value::I32(41)]);
    drop(context);
    assert_eq!(*notes.lock().unwrap(), [40, 40, 41, 41]);
}

#[test]
fn arguments_are_checked_against_the_convention() {
    let context = context();
    let mixed = context.function("mixed").unwrap();
    assert_eq!(mixed.convention().to_string(), "0IifFr_FIr");
    let buffer = Ref::new(Buffer::copy_of(b"abc").unwrap());
    let args = [Value::I64(-2), Value::I32(1), Value::F32(0.5), Value::F64(1.25), Value::from(buffer.clone())];
    assert_eq!(mixed.call(&args).unwrap(), [Value::F64(1.25), Value::I64(-2), Value::from(buffer)]);
    let status = mixed.call(&args[..4]).unwrap_err();
    assert_eq!(status.code(), StatusCode::InvalidArgument);
    let mut wrong = args.clone();
    wrong[1] = Value::F32(1.0);
    let status = mixed.call(&wrong).unwrap_err();
    assert!(status.message().contains("argument 1 is f32"), "{status}");
}

#[test]
fn failures_have_a_backtrace() {
    let status = context().function("app.fails").unwrap().call(&[]).unwrap_err();
    assert_eq!((status.code(), status.message()), (StatusCode::FailedPrecondition, "out of luck"));
    let frames: Vec<_> = status.backtrace().iter().map(|frame| (frame.module.as_str(), frame.op)).collect();
    assert_eq!(frames, [("app", "fail"), ("app", "call")], "{status:?}");
    assert_eq!(status.backtrace()[1].function, "fails");
}

#[test]
fn waiting_calls_do_not_keep_others_out() {
    let context = context();
    let (wait, count) = (context.function("app.wait").unwrap(), context.function("app.count").unwrap());
    assert_eq!(wait.call(&[Value::I32(1)]).unwrap(), [Value::I32(2)]);
    let cancellation = Cancellation::new();
    let limits = Limits { cancellation: Some(cancellation.clone()), ..Limits::default() };
    let waiter = std::thread::spawn(move || wait.call_with(&[Value::I32(3_600_000)], limits).unwrap_err().code());
    std::thread::sleep(Duration::from_millis(50));
    // This would not return if the state were not free while the other call waits.
    count.call(&[]).unwrap();
    assert!(!waiter.is_finished());
    cancellation.cancel();
    assert_eq!(waiter.join().unwrap(), StatusCode::Cancelled);
    let limits = Limits { deadline: Some(Instant::now() + Duration::from_millis(20)), ..Limits::default() };
    let status = context.function("app.wait").unwrap().call_with(&[Value::I32(5000)], limits).unwrap_err();
    assert_eq!(status.code(), StatusCode::DeadlineExceeded);
}

#[test]
fn a_call_can_be_polled_and_dropped() {
    let context = context();
    let (wait, count) = (context.function("app.wait").unwrap(), context.function("app.count").unwrap());
    let mut pending = wait.start(&[Value::I32(20)], Limits::default()).unwrap();
    let Poll::Waiting(source) = pending.poll().unwrap() else { panic!("expected to wait") };
    assert!(!source.is_ready());
    assert_eq!(count.call(&[]).unwrap(), [Value::I32(40)]);
    while !source.is_ready() {
        source.block(None);
    }
    let Poll::Done(values) = pending.poll().unwrap() else { panic!("expected a result") };
    assert_eq!(values, [Value::I32(40)]);
    let mut dropped = wait.start(&[Value::I32(60_000)], Limits::default()).unwrap();
    assert!(matches!(dropped.poll().unwrap(), Poll::Waiting(_)));
    drop(dropped);
    assert_eq!(count.call(&[]).unwrap(), [Value::I32(41)]);
}

#[test]
fn calls_from_many_threads_take_turns() {
    let context = context();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let count = context.function("count").unwrap();
            scope.spawn(move || (0..100).for_each(|_| drop(count.call(&[]).unwrap())));
        }
    });
    assert_eq!(context.function("count").unwrap().call(&[]).unwrap(), [Value::I32(440)]);
}

#[test]
fn fuel_ends_a_loop() {
    let fuel = Fuel::new(100_000);
    let limits = Limits { fuel: Some(fuel.clone()), ..Limits::default() };
    let status = context().function("spin").unwrap().call_with(&[], limits).unwrap_err();
    assert_eq!(status.code(), StatusCode::ResourceExhausted);
    assert_eq!(status.message(), "ran out of fuel: 100,000 of 100,000 units used");
    assert_eq!((fuel.used(), fuel.left()), (100_000, 0));
}

#[test]
fn modules_that_are_missing_or_behind_are_named() {
    let app = fixture("context/app.vmfb");
    let status = Context::new([app.clone()]).unwrap_err();
    assert_eq!(
        status.to_string(),
        "NOT_FOUND: module `app` needs `custom.add`: no module `custom` is before it in the context"
    );
    let status = Context::new([app, custom(&Notes::default())]).unwrap_err();
    assert_eq!(status.code(), StatusCode::NotFound, "modules import only from those before them: {status}");
}

struct Other;

#[vm_module(name = "custom", version = 1)]
impl Other {
    #[vm_export("add")]
    fn add(&self, a: i64, b: i64) -> Result<i64> {
        Ok(a + b)
    }
}

struct Empty;

#[vm_module(name = "custom")]
impl Empty {}

struct OldHal;

#[vm_module(name = "hal", version = 6)]
impl OldHal {}

#[test]
fn exports_that_do_not_fit_are_refused() {
    let status = Context::new([Module::native(Other).unwrap(), fixture("context/app.vmfb")]).unwrap_err();
    assert_eq!(
        status.to_string(),
        "INCOMPATIBLE: module `app` needs `custom.add` and is of IREE 3.11 and later (bytecode 17.0): it is imported as `0ii_i`, but \
         version 1 of module `custom` exports it as `0II_I`"
    );
    let status = Context::new([Module::native(Empty).unwrap(), fixture("context/app.vmfb")]).unwrap_err();
    assert_eq!(status.to_string(), "NOT_FOUND: module `app` needs `custom.add`: module `custom` does not export it");
}

#[test]
fn minimum_versions_are_checked_before_functions() {
    let status = Context::new([Module::native(OldHal).unwrap(), fixture("models/abs.vmfb")]).unwrap_err();
    assert_eq!(
        status.to_string(),
        "INCOMPATIBLE: module `module` needs version 7 of module `hal`, but the one there has version 6"
    );
    let status = Context::new([fixture("models/abs.vmfb")]).unwrap_err();
    assert_eq!(
        status.to_string(),
        "NOT_FOUND: module `module` needs a module `hal` of version 7, but none is before it in the context"
    );
}
