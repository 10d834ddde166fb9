//! Typed calls: types are checked against the convention when the typed function is made, and a call does what an
//! untyped one does: results, failures with their backtraces, limits, waits, and the release of references, on every
//! dispatcher.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use vireo::abi::Step;
use vireo::asm::assemble;
use vireo::interp::{DispatchMode, Limits};
use vireo::vm::{BoxedWaitSource, Context, Module, Obj, Object, PassedList, Ref, TypedFunction, Value, WaitSource};
use vireo::{Cancellation, Fuel, MemoryBudget, Result, Status, StatusCode, vm_module};

/// Counts who holds it.
#[derive(Debug)]
struct Token(#[expect(dead_code, reason = "held to be counted")] Arc<()>);

impl Object for Token {
    const TYPE_NAME: &'static str = "test.token";
}

struct Other;

impl Object for Other {
    const TYPE_NAME: &'static str = "test.other";
}

/// The gate for which `host.wait` waits.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl WaitSource for Gate {
    fn is_ready(&self) -> bool {
        self.is_open()
    }

    fn block(&self, deadline: Option<Instant>) {
        while !self.is_open() && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            thread::yield_now();
        }
    }

    fn wake(&self, _: &Waker) -> Result<()> {
        unreachable!("no task waits")
    }
}

#[derive(Default)]
struct Host {
    gate: Gate,
    /// The function that `host.inner` calls, in another context.
    inner: Arc<OnceLock<TypedFunction<i32, i32>>>,
}

#[vm_module(name = "host")]
impl Host {
    /// Fails or panics if it is told to.
    #[vm_export("check")]
    fn check(&self, how: i32) -> Result<i32> {
        match how {
            2 => Err(Status::new(StatusCode::DataLoss, "it is lost")),
            3 => panic!("it is three"),
            _ => Ok(how + 1),
        }
    }

    #[vm_export("wait")]
    fn wait(&self) -> Result<Step<i32>> {
        Ok(if self.gate.is_open() { Step::Return(7) } else { Step::Wait(BoxedWaitSource::new(self.gate.clone())) })
    }

    #[vm_export("inner")]
    fn inner(&self, value: i32) -> Result<i32> {
        self.inner.get().expect("the test has set it").call(value)
    }
}

const PROGRAM: &str = "
vm.module @m version 0
vm.type i32
vm.type !test.token
vm.type !vm.list<i32>
vm.import @host.check cconv \"0i_i\"
vm.import @host.wait cconv \"0v_i\"
vm.import @host.inner cconv \"0i_i\"

vm.export @empty
vm.func @empty() -> () {
^bb0:
  vm.return
}

vm.export @add
vm.func @add(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i0 = vm.add.i32 %i0, %i1
  vm.return %i0
}

vm.export @reverse
vm.func @reverse(%i0: i32, %i2:3: i64, %i4: f32, %r0: !test.token, %i6:7: f64, %i8: i32, %r1: !test.token) -> (!test.token, i32, f64, !test.token, f32, i64, i32) {
^bb0:
  vm.return %R1, %i8, %i6:7, %r0, %i4, %i2:3, %i0
}

vm.export @same
vm.func @same(%r0: !test.token) -> (!test.token) {
^bb0:
  vm.return %r0
}

vm.export @twice
vm.func @twice(%r0: !test.token, %i0: i32) -> (!test.token, !test.token) {
^bb0:
  %i0 = vm.call @host.check(%i0)
  vm.return %r0, %r0
}

vm.export @check
vm.func @check(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 1
  vm.cond_br %i0, ^bb1(), ^bb2()
^bb1:
  %i0 = vm.sub.i32 %i0, %i2
  %i0 = vm.call @check(%i0, %i1)
  %i0 = vm.add.i32 %i0, %i2
  vm.return %i0
^bb2:
  %i0 = vm.call @host.check(%i1)
  vm.return %i0
}

vm.export @divide
vm.func @divide(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i0 = vm.div.i32.s %i0, %i1
  vm.return %i0
}

vm.export @spin
vm.func @spin(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i1 = vm.add.i32 %i1, %i2
  %i3 = vm.cmp.ne.i32 %i1, %i0
  vm.cond_br %i3, ^bb1(), ^bb2()
^bb2:
  vm.return %i1
}

vm.export @grow
vm.func @grow(%i0: i32) -> (i32) {
^bb0:
  %r0 = vm.list.alloc %i0 : !vm.list<i32>
  vm.list.resize %r0, %i0
  %i1 = vm.list.size %r0
  vm.return %i1
}

vm.export @yields
vm.func @yields(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  vm.yield ^bb1()
^bb1:
  %i0 = vm.sub.i32 %i0, %i1
  vm.cond_br %i0, ^bb0(), ^bb2()
^bb2:
  vm.return %i1
}

vm.export @waits
vm.func @waits(%i0: i32, %r0: !test.token) -> (i32, !test.token) {
^bb0:
  %i1 = vm.call @host.wait()
  %i0 = vm.add.i32 %i0, %i1
  vm.return %i0, %R0
}

vm.export @nested
vm.func @nested(%i0: i32) -> (i32) {
^bb0:
  %i0 = vm.call @host.inner(%i0)
  %i1 = vm.const.i32 1
  %i0 = vm.add.i32 %i0, %i1
  vm.return %i0
}

vm.export @count
vm.func @count() -> (i32) {
^bb0:
  %i0 = vm.global.load.i32 .rwdata[0]
  %i1 = vm.const.i32 1
  %i0 = vm.add.i32 %i0, %i1
  vm.global.store.i32 %i0, .rwdata[0]
  vm.return %i0
}
";

const DISPATCHES: [DispatchMode; 3] = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled];

fn with_host(host: Host, limits: Limits) -> Context {
    let program = assemble(PROGRAM).unwrap_or_else(|error| panic!("{error}"));
    let modules = [Module::native(host).unwrap(), Module::from_bytes(&program).unwrap()];
    Context::with_limits(modules, limits).unwrap()
}

fn context(limits: Limits) -> Context {
    with_host(Host::default(), limits)
}

fn typed<P: PassedList, R: PassedList>(context: &Context, name: &str) -> TypedFunction<P, R> {
    context.function(&format!("m.{name}")).unwrap().typed().unwrap_or_else(|status| panic!("{name}: {status}"))
}

/// Runs a test on each dispatcher, in a context whose calls use it.
fn on_each(test: impl Fn(&Context)) {
    for dispatch in DISPATCHES {
        test(&context(Limits { dispatch, ..Limits::default() }));
    }
}

/// A token, and what counts who holds it.
fn token() -> (Obj<Token>, Arc<()>) {
    let count = Arc::new(());
    (Obj::new(Token(count.clone())), count)
}

#[test]
fn types_are_checked_once() {
    fn refused<P: PassedList, R: PassedList>(name: &str, message: &str) {
        let function = context(Limits::default()).function(name).unwrap();
        let status = function.typed::<P, R>().expect_err("the types differ");
        assert_eq!(status.code(), StatusCode::InvalidArgument, "{status}");
        assert_eq!(status.to_string(), format!("INVALID_ARGUMENT: typed calls of `{name}`: {message}"));
    }
    refused::<(i32, i64), i32>("m.add", "argument 1 is i64, expected `i` of `0ii_i`");
    refused::<(i32, Ref), i32>("m.add", "argument 1 is a reference, expected `i` of `0ii_i`");
    refused::<(f32, i32), i32>("m.add", "argument 0 is f32, expected `i` of `0ii_i`");
    refused::<i32, i32>("m.add", "the function has 2 arguments (`0ii_i`), 1 are given");
    refused::<(), ()>("m.same", "the function has 1 arguments (`0r_r`), 0 are given");
    refused::<Obj<Token>, f64>("m.same", "result 0 is f64, expected `r` of `0r_r`");
    refused::<(i32, i32), ()>("m.add", "the function has 1 results (`0ii_i`), 0 are given");
    refused::<Option<Obj<Token>>, i64>("host.check", "argument 0 is test.token, expected `i` of `0i_i`");
}

#[test]
fn all_kinds_are_passed_and_returned() {
    type Params = (i32, i64, f32, Obj<Token>, f64, i32, Option<Ref>);
    type Results = (Option<Obj<Token>>, i32, f64, Ref, f32, i64, i32);
    on_each(|context| {
        let reverse = typed::<Params, Results>(context, "reverse");
        let (first, count) = token();
        for round in 0..5 {
            let second = (round % 2 == 0).then(|| first.clone().into_ref());
            let params = (-1, i64::MIN + 3, 0.5, first.clone(), -1.25, i32::MAX, second);
            let results = reverse.call(params).unwrap();
            assert_eq!(results.0.is_some(), round % 2 == 0);
            assert_eq!(
                (results.1, results.2, results.4, results.5, results.6),
                (i32::MAX, -1.25, 0.5, i64::MIN + 3, -1)
            );
            assert!(results.3.get::<Token>().is_some());
            assert_eq!(Arc::strong_count(&count), 2);
        }
        drop(first);
        assert_eq!(Arc::strong_count(&count), 1);
        assert_eq!(typed::<(i32, i32), (i32,)>(context, "add").call((40, 2)).unwrap(), (42,));
        typed::<(), ()>(context, "empty").call(()).unwrap();
        // The function of a native module.
        let check = context.function("host.check").unwrap().typed::<i32, i32>().unwrap();
        assert_eq!(check.call(0).unwrap(), 1);
        assert_eq!(check.call(2).unwrap_err().code(), StatusCode::DataLoss);
    });
}

#[test]
fn references_of_other_types_and_null_are_refused_as_results() {
    on_each(|context| {
        let same = typed::<Option<Ref>, Obj<Token>>(context, "same");
        assert_eq!(
            same.call(None).unwrap_err().to_string(),
            "INVALID_ARGUMENT: result 0: expected test.token, found null"
        );
        let status = same.call(Some(Ref::new(Other))).unwrap_err();
        assert_eq!(status.code(), StatusCode::InvalidArgument, "{status}");
        assert!(status.to_string().contains("result 0") && status.to_string().contains("test.other"), "{status}");
        let status = typed::<Option<Ref>, Ref>(context, "same").call(None).unwrap_err();
        assert_eq!(status.to_string(), "INVALID_ARGUMENT: result 0: expected a reference, found null");
        assert!(typed::<Option<Ref>, Option<Obj<Token>>>(context, "same").call(None).unwrap().is_none());
        // References that are released when the second result is refused.
        let (token, count) = token();
        let twice = typed::<(Obj<Token>, i32), (Ref, Obj<Other>)>(context, "twice");
        assert!(twice.call((token, 0)).is_err());
        assert_eq!(Arc::strong_count(&count), 1);
    });
}

/// The outcome of a call, as text.
fn text<R: std::fmt::Debug>(call: impl FnOnce() -> Result<R>) -> String {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => format!("{result:?}"),
        Err(panic) => format!("panicked: {:?}", panic.downcast_ref::<&str>()),
    }
}

#[test]
fn failures_are_those_of_untyped_calls() {
    on_each(|context| {
        let agree = |name: &str, params: (i32, i32)| {
            let function = typed::<(i32, i32), i32>(context, name);
            let untyped = context.function(&format!("m.{name}")).unwrap();
            let arguments = [Value::I32(params.0), Value::I32(params.1)];
            let expected = text(|| untyped.call(&arguments).map(single));
            for _ in 0..4 {
                assert_eq!(text(|| function.call(params)), expected, "{name}{params:?}");
            }
            expected
        };
        assert_eq!(agree("check", (3, 0)), "Ok(4)");
        assert!(agree("check", (3, 2)).contains("it is lost"));
        assert!(agree("check", (0, 2)).contains("check"));
        assert!(agree("check", (3, 3)).contains("it is three"));
        assert_eq!(agree("divide", (6, 3)), "Ok(2)");
        assert!(agree("divide", (6, 0)).contains("divide"));
        assert!(agree("check", (i32::MAX, 0)).contains("stack overflow"));
        // References of frames that a failure ends are released.
        let twice = typed::<(Obj<Token>, i32), (Ref, Ref)>(context, "twice");
        for how in [2, 3] {
            let (token, count) = token();
            assert!(!text(|| twice.call((token, how)).map(drop)).starts_with("Ok"));
            assert_eq!(Arc::strong_count(&count), 1);
        }
    });
}

/// The result of an untyped call that returns an `i32`.
fn single(results: Vec<Value>) -> i32 {
    let [Value::I32(value)] = results[..] else { panic!("not an i32: {results:?}") };
    value
}

#[test]
fn limits_hold() {
    for dispatch in DISPATCHES {
        let context = context(Limits { dispatch, ..Limits::default() });
        let spin = typed::<i32, i32>(&context, "spin");
        let code = |limits: Limits| {
            let limits = Limits { dispatch, ..limits };
            let status = spin.call_with(-1, &limits).unwrap_err();
            assert!(status.backtrace().len() == 1, "{status:?}");
            status.code()
        };
        let fuel = Fuel::new(10_000);
        assert_eq!(code(Limits { fuel: Some(fuel), ..Limits::default() }), StatusCode::ResourceExhausted);
        let timeout = Some(Duration::from_millis(5));
        assert_eq!(code(Limits { timeout, ..Limits::default() }), StatusCode::DeadlineExceeded);
        let cancelled = Cancellation::new();
        cancelled.cancel();
        let limits = Limits { cancellation: Some(cancelled), ..Limits::default() };
        assert_eq!(code(limits), StatusCode::Cancelled);
        // Fuel is taken as by an untyped call.
        let spent = |typed: bool| {
            let fuel = Fuel::new(1 << 20);
            let limits = Limits { dispatch, fuel: Some(fuel.clone()), ..Limits::default() };
            for _ in 0..3 {
                if typed {
                    assert_eq!(spin.call_with(5000, &limits).unwrap(), 5000);
                } else {
                    context.function("m.spin").unwrap().call_with(&[Value::I32(5000)], limits.clone()).unwrap();
                }
            }
            fuel.left()
        };
        assert_eq!(spent(true), spent(false));
        // So is memory, which a call gives back.
        let grow = typed::<i32, i32>(&context, "grow");
        // The code of the function, which stays, is charged to the calls that build it.
        (0..4).for_each(|_| _ = grow.call(1).unwrap());
        let memory = MemoryBudget::new(1 << 20);
        let limits = Limits { dispatch, memory: Some(memory.clone()), stack_bytes: 1 << 16, ..Limits::default() };
        assert_eq!(grow.call_with(1000, &limits).unwrap(), 1000);
        assert!(memory.peak() >= (1 << 16) + 4000);
        assert_eq!(grow.call_with(1 << 20, &limits).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert_eq!(memory.used(), 0);
        let small = Limits { memory: Some(MemoryBudget::new(1 << 10)), ..limits };
        assert_eq!(grow.call_with(1, &small).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert_eq!(grow.call(1 << 18).unwrap(), 1 << 18);
        // A smaller stack, then one that is larger than the one before.
        let check = typed::<(i32, i32), i32>(&context, "check");
        for (stack_bytes, depth, fits) in [(1 << 12, 1000, false), (16 << 20, 1000, true), (1 << 12, 1000, false)] {
            let limits = Limits { dispatch, stack_bytes, ..Limits::default() };
            assert_eq!(check.call_with((depth, 0), &limits).is_ok(), fits, "{stack_bytes}");
        }
    }
}

#[test]
fn limits_of_the_context_hold() {
    let timeout = Some(Duration::from_millis(5));
    let context = context(Limits { timeout, ..Limits::default() });
    let spin = typed::<i32, i32>(&context, "spin");
    for _ in 0..3 {
        assert_eq!(spin.call(-1).unwrap_err().code(), StatusCode::DeadlineExceeded);
        assert_eq!(spin.call(10).unwrap(), 10);
    }
    let yields = typed::<i32, i32>(&context, "yields");
    assert_eq!(yields.call(-1).unwrap_err().code(), StatusCode::DeadlineExceeded);
    let (token, count) = token();
    let waits = typed::<(i32, Obj<Token>), (i32, Ref)>(&context, "waits");
    assert_eq!(waits.call((1, token)).unwrap_err().code(), StatusCode::DeadlineExceeded);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn calls_that_yield_or_wait_go_on() {
    for dispatch in DISPATCHES {
        let host = Host::default();
        let gate = host.gate.clone();
        let context = with_host(host, Limits { dispatch, ..Limits::default() });
        assert_eq!(typed::<i32, i32>(&context, "yields").call(5).unwrap(), 1);
        let waits = typed::<(i32, Obj<Token>), (i32, Ref)>(&context, "waits");
        let add = typed::<(i32, i32), i32>(&context, "add");
        let (token, count) = token();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waits.call((5, token)).unwrap());
            // Other calls run meanwhile, and end before the one that waits.
            for round in 0..100 {
                assert_eq!(add.call((round, 1)).unwrap(), round + 1);
            }
            assert!(!waiting.is_finished());
            gate.0.store(true, Ordering::SeqCst);
            assert_eq!(waiting.join().unwrap().0, 12);
        });
        assert_eq!(Arc::strong_count(&count), 1);
    }
}

#[test]
fn contexts_may_be_nested() {
    on_each(|inner| {
        let host = Host::default();
        let cell = host.inner.clone();
        let outer = with_host(host, Limits::default());
        assert!(cell.set(typed::<i32, i32>(inner, "yields")).is_ok());
        let nested = typed::<i32, i32>(&outer, "nested");
        for _ in 0..5 {
            assert_eq!(nested.call(3).unwrap(), 2);
        }
        // The inner call is held to the limits of the outer one.
        let limits = Limits { timeout: Some(Duration::from_millis(5)), ..Limits::default() };
        assert_eq!(nested.call_with(-1, &limits).unwrap_err().code(), StatusCode::DeadlineExceeded);
        assert_eq!(nested.call(3).unwrap(), 2);
    });
}

#[test]
fn calls_of_many_threads_run_one_at_a_time() {
    const CALLS: i32 = 1000;
    on_each(|context| {
        let count = typed::<(), i32>(context, "count");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..CALLS).for_each(|_| _ = count.clone().call(()).unwrap()));
            }
        });
        assert_eq!(count.call(()).unwrap(), 4 * CALLS + 1);
    });
}
