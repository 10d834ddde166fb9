//! The interpreter from threads that do not hold it.
//!
//! No thread of a device, and none that runs a program, ever waits for the interpreter: a thread that holds it may wait
//! for those, as when it drops the last owner of a device, whose workers it joins. What such threads want of Python is
//! handed to one thread of this module ([`later`]), which holds nothing of the runtime while it waits. Event loops are
//! woken so, and memory that programs have borrowed is given back.

use std::cell::Cell;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use pyo3::{ffi, intern, prelude::*};
use vireo_core::fork::{self, Crew, Held, Side};

use crate::interrupts::Watch;

type Job = Box<dyn FnOnce(Python<'_>) + Send>;

/// Where jobs are sent; no thread before the first one, and after a fork, which has none for them.
static JOBS: Mutex<Jobs> = Mutex::new(Jobs { worker: None, is_over: false });

/// The thread that runs jobs.
struct Jobs {
    worker: Option<(Sender<Job>, Option<JoinHandle<()>>)>,
    /// True once the interpreter ends: jobs are dropped from then on.
    is_over: bool,
}

thread_local! {
    /// Whether this thread is in the runtime, without the interpreter.
    static IS_DETACHED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` while other threads have the interpreter.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_DETACHED.set(self.0);
        }
    }
    py.detach(|| {
        let _restore = Restore(IS_DETACHED.replace(true));
        work()
    })
}

/// Runs `work` with the interpreter, for a program that calls a function in Python; none where the interpreter is at
/// its end. The thread runs a program, so what holds the interpreter must not wait for one.
pub fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_DETACHED.set(self.0);
        }
    }
    Python::try_attach(|py| {
        let _restore = Restore(IS_DETACHED.replace(false));
        work(py)
    })
}

/// Runs `job` with the interpreter: now, if this thread has it, else on a thread that may wait for it. Without an
/// interpreter, as at its end, it does not run.
pub fn with_interpreter(job: impl FnOnce(Python<'_>) + Send + 'static) {
    // SAFETY: the function may be called on any thread; threads without a state have no interpreter.
    let has_state = unsafe { !ffi::PyGILState_GetThisThreadState().is_null() };
    if has_state && !IS_DETACHED.get() {
        Python::try_attach(job);
    } else {
        later(job);
    }
}

/// Runs `job` with the interpreter, on another thread.
pub fn later(job: impl FnOnce(Python<'_>) + Send + 'static) {
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    if jobs.is_over {
        // Dropped without the lock, since what a job owns may want a job, too.
        drop(jobs);
        return;
    }
    let (sender, _) = jobs.worker.get_or_insert_with(|| {
        let (sender, receiver) = channel::<Job>();
        let run = move || {
            for job in receiver {
                Python::try_attach(job);
            }
        };
        // Without a thread the jobs are dropped, and with them the tasks that nothing would wake.
        let thread = thread::Builder::new().name("vireo-python".into()).spawn(run);
        (sender, thread.ok())
    });
    // The thread ends with the interpreter, unless the system had none.
    let _ = sender.send(Box::new(job));
}

/// Runs the jobs that are left, and ends their thread. A thread that wants the interpreter while that ends is ended by
/// it, which aborts the process if the thread is in Rust.
fn end(py: Python<'_>) {
    detached(py, || {
        let worker = {
            let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.is_over = true;
            jobs.worker.take()
        };
        if let Some((sender, Some(thread))) = worker {
            drop(sender);
            // A panic in a job has been reported.
            let _ = thread.join();
        }
    });
}

/// Lets processes fork, and the interpreter end, for callers of [`later`].
pub fn allow_forks(py: Python<'_>) -> PyResult<()> {
    static REGISTERED: PyOnceLock<()> = PyOnceLock::new();
    REGISTERED
        .get_or_try_init(py, || {
            static CREW: LazyLock<Arc<dyn Crew>> = LazyLock::new(|| Arc::new(Threads));
            fork::register(Arc::downgrade(&CREW));
            let at_exit = PyCFunction::new_closure(
                py,
                Some(c"at_exit"),
                None,
                |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| end(arguments.py()),
            )?;
            py.import(intern!(py, "atexit"))?.call_method1(intern!(py, "register"), (at_exit,))?;
            Ok(())
        })
        .copied()
}

/// The threads of this library, for forks. The thread that forks has the interpreter, so both wait for that, or for
/// work.
struct Threads;

impl Crew for Threads {
    fn wait(&self, _end: Instant) {}

    fn hold(&self) -> Box<dyn Held + '_> {
        Box::new(HeldThreads { jobs: JOBS.lock().unwrap_or_else(PoisonError::into_inner), watch: Watch::lock() })
    }
}

struct HeldThreads {
    jobs: MutexGuard<'static, Jobs>,
    watch: MutexGuard<'static, Watch>,
}

impl Held for HeldThreads {
    fn is_idle(&self) -> bool {
        true
    }

    fn resume(&mut self, side: Side) {
        if side == Side::Child {
            // The thread is one of the parent.
            std::mem::forget(self.jobs.worker.take());
            self.watch.forget_thread();
        }
    }
}
