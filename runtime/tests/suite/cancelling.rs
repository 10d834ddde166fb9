//! Calls that wait for what never happens end when another thread cancels them, and at their deadlines: whatever they
//! wait for, and however they wait.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use vireo::abi::Step;
use vireo::asm::assemble;
use vireo::hal::{Fence, HostSemaphore, MultiWait, Semaphore, Timepoint, wait_any};
use vireo::interp::Limits;
use vireo::vm::{BoxedWaitSource, Context, Module, WaitSource};
use vireo::{Cancellation, Result, Session, Status, StatusCode, inputs, vm_module};

/// Functions that wait, each of which notifies the test first.
struct Host(Sender<()>);

/// A wait that is never over, and can only be woken.
struct Never;

impl WaitSource for Never {
    fn is_ready(&self) -> bool {
        false
    }

    fn block(&self, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { panic!("nothing would end this") };
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
    }

    fn wake(&self, _waker: &Waker) -> Result<()> {
        Ok(())
    }
}

fn never() -> Timepoint {
    Timepoint { semaphore: Arc::new(HostSemaphore::new(0)), value: 1 }
}

impl Host {
    fn notify(&self) -> Result<()> {
        self.0.send(()).map_err(|_| Status::internal("nobody listens"))
    }
}

#[vm_module(name = "host")]
impl Host {
    /// Suspends the program.
    #[vm_export("suspend")]
    fn suspend(&self) -> Result<Step<()>> {
        self.notify()?;
        Ok(Step::Wait(BoxedWaitSource::new(Never)))
    }

    /// Suspends the program until a fence is reached.
    #[vm_export("suspend_until")]
    fn suspend_until(&self) -> Result<Step<()>> {
        self.notify()?;
        // The timelines have to live as long as the test, which the sources do not see to.
        let points = [never(), never()];
        let wait = MultiWait::new(&points);
        std::mem::forget(points);
        Ok(Step::Wait(BoxedWaitSource::new(wait)))
    }

    /// Blocks the thread that runs the program.
    #[vm_export("timeline")]
    fn timeline(&self) -> Result<()> {
        self.notify()?;
        HostSemaphore::new(0).wait(1, None)
    }

    #[vm_export("fence")]
    fn fence(&self) -> Result<()> {
        self.notify()?;
        Fence::create().wait(None)
    }

    #[vm_export("fences")]
    fn fences(&self) -> Result<()> {
        self.notify()?;
        wait_any(&[never(), never()], None)
    }
}

const NAMES: [&str; 5] = ["suspend", "suspend_until", "timeline", "fence", "fences"];

/// A context whose functions call those of the host.
fn context() -> (Context, Receiver<()>) {
    let mut text = String::from("vm.module @m version 0\n\n");
    for name in NAMES {
        text.push_str(&format!("vm.import @host.{name} cconv \"0v_v\"\n"));
    }
    for name in NAMES {
        text.push_str(&format!(
            "\nvm.export @{name}\nvm.func @{name}() -> () {{\n^bb0:\n  vm.call @host.{name}()\n  vm.return\n}}\n"
        ));
    }
    let module = Module::from_bytes(&assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}")));
    let (sender, receiver) = mpsc::channel();
    let host = Module::native(Host(sender)).expect("it is a module");
    (Context::new([host, module.expect("it is a module")]).expect("the host has all imports"), receiver)
}

fn within(cancellation: &Cancellation) -> Limits {
    Limits { cancellation: Some(cancellation.clone()), ..Limits::default() }
}

#[test]
fn cancelling_ends_waits() {
    let (context, receiver) = context();
    for name in NAMES {
        let (function, cancellation) = (context.function(name).expect("it is exported"), Cancellation::new());
        let error = thread::scope(|scope| {
            let call = scope.spawn(|| function.call_with(&[], within(&cancellation)).expect_err("it never returns"));
            receiver.recv().expect("the function is called");
            cancellation.cancel();
            call.join().expect("it does not panic")
        });
        assert_eq!(error.code(), StatusCode::Cancelled, "{name}: {error}");
        assert_eq!(error.message(), "the invocation was cancelled", "{name}");
    }
}

#[test]
fn deadlines_end_waits_and_say_how_long_they_were() {
    let (context, receiver) = context();
    for name in NAMES {
        for cancellation in [None, Some(Cancellation::new())] {
            let function = context.function(name).expect("it is exported");
            // A slow machine may reach the deadline before it calls the function, so the time grows until it does not.
            for timeout in (1..).map(|doublings| Duration::from_millis(1 << doublings)) {
                let limits = Limits { timeout: Some(timeout), cancellation: cancellation.clone(), ..Limits::default() };
                let error = function.call_with(&[], limits).expect_err("it never returns");
                assert_eq!(error.code(), StatusCode::DeadlineExceeded, "{name}: {error}");
                let (message, end) = (error.message(), format!(" s (limit {} s)", timeout.as_secs_f64()));
                assert!(message.starts_with("deadline exceeded after "), "{name}: {message}");
                assert!(message.ends_with(&end), "{name}: {message}");
                if receiver.try_recv().is_ok() {
                    break;
                }
            }
        }
    }
}

#[test]
fn cancelling_ends_a_wait_for_the_turn_of_a_call() {
    let (context, receiver) = context();
    let (blocks, cancellation) = (context.function("fence").expect("it is exported"), Cancellation::new());
    let (first, second) = (Cancellation::new(), context.function("fences").expect("it is exported"));
    thread::scope(|scope| {
        let running = scope.spawn(|| blocks.call_with(&[], within(&first)).expect_err("it never returns").code());
        receiver.recv().expect("the function is called");
        // It blocks in a function of the host, so it keeps its turn.
        let waiting = scope.spawn(|| second.call_with(&[], within(&cancellation)).expect_err("it never runs").code());
        cancellation.cancel();
        assert_eq!(waiting.join().expect("it does not panic"), StatusCode::Cancelled);
        first.cancel();
        assert_eq!(running.join().expect("it does not panic"), StatusCode::Cancelled);
    });
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn cancelling_wakes_tasks() {
    let (context, _receiver) = context();
    for name in ["suspend", "suspend_until"] {
        let (cancellation, count) = (Cancellation::new(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let function = context.function(name).expect("it is exported");
        let call = function.start(&[], within(&cancellation)).expect("it takes no arguments");
        let mut call = pin!(call.into_future());
        for _ in 0..2 {
            assert!(call.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending(), "{name}");
        }
        assert_eq!(count.0.load(Ordering::SeqCst), 0, "{name}");
        cancellation.cancel();
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "{name}");
        let Poll::Ready(Err(error)) = call.as_mut().poll(&mut TaskContext::from_waker(&waker)) else {
            panic!("{name} was cancelled")
        };
        assert_eq!(error.code(), StatusCode::Cancelled, "{name}: {error}");
    }
}

/// A function with the calling convention of asynchronous models, which keeps the fence that it is passed and never
/// signals it.
const FORGETS: &str = r#"
vm.module @m version 0
vm.type !hal.fence

vm.global.ref mutable @kept : !hal.fence

vm.export @forgets
vm.func @forgets(%r0: !hal.fence, %r1: !hal.fence) -> () {
  vm.attr "iree.abi.model" = "coarse-fences"
^bb0:
  vm.global.store.ref %r1, .refs[0] : !hal.fence
  vm.return
}
"#;

/// A session of that model.
fn forgets(limits: Limits) -> Result<Session> {
    let module = Module::from_bytes(&assemble(FORGETS).expect("it is a program"))?;
    Session::builder().device("local-sync").limits(limits).build(module)?.session()
}

#[test]
fn sessions_stop_to_wait_for_results() -> Result<()> {
    // Whenever it comes, the call cannot end otherwise.
    let cancellation = Cancellation::new();
    let session = forgets(within(&cancellation))?;
    let error = thread::scope(|scope| {
        let call = scope.spawn(|| session.call("forgets", inputs![]).map(drop).expect_err("nobody signals"));
        cancellation.cancel();
        call.join().expect("it does not panic")
    });
    assert_eq!(error.code(), StatusCode::Cancelled, "{error}");
    cancellation.reset();

    let waker = Waker::from(Arc::new(Count::default()));
    let mut call = pin!(session.function("forgets")?.start(inputs![])?);
    assert!(call.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
    cancellation.cancel();
    let Poll::Ready(Err(error)) = call.as_mut().poll(&mut TaskContext::from_waker(&waker)) else {
        panic!("it was cancelled")
    };
    assert_eq!(error.code(), StatusCode::Cancelled, "{error}");
    assert!(error.to_string().contains("the results were not produced"), "{error}");

    let session = forgets(Limits { timeout: Some(Duration::from_millis(2)), ..Limits::default() })?;
    let error = session.call("forgets", inputs![]).map(drop).expect_err("nobody signals");
    assert_eq!(error.code(), StatusCode::DeadlineExceeded, "{error}");
    assert!(error.to_string().contains(" s (limit 0.002 s)"), "{error}");
    Ok(())
}
