//! Background jobs: work that one thread of the process does, at a low priority, while the threads that submit it go
//! on. The JIT compiles functions in it, and asymmetric fences ask the system whether it supports them.
//!
//! The thread is started by a job that finds none, and ends when there has been none for a while. Jobs keep nothing
//! alive and hold no lock of others, so no thread has to wait for them. A fork waits for the job that runs, so that the
//! child finds no lock that a thread holds which it does not have; what is queued is done in both processes.

#[cfg(all(test, unix))]
#[path = "../../../tests/support/in_child.rs"]
mod in_child;
mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

pub use self::queue::Job;
use self::queue::{DONE, SUBMITTED, lock, wait_for_running};
use crate::fork;

/// How long the thread waits for another job before it ends.
const IDLE: Duration = Duration::from_secs(1);

/// Which jobs are done first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Something runs slowly until the job is done.
    Needed,
    /// It may be needed.
    Ahead,
}

static IS_ALWAYS_AVAILABLE: AtomicBool = AtomicBool::new(false);

/// Whether jobs are worthwhile: there are threads, and more than one processor. Otherwise the caller does the work
/// itself.
pub fn is_available() -> bool {
    static HAS_PROCESSORS: OnceLock<bool> = OnceLock::new();
    let has_processors =
        || cfg!(not(target_family = "wasm")) && thread::available_parallelism().is_ok_and(|count| count.get() > 1);
    IS_ALWAYS_AVAILABLE.load(Ordering::Relaxed) || *HAS_PROCESSORS.get_or_init(has_processors)
}

/// Makes jobs available where there is one processor only, for tests.
pub fn always_available() {
    IS_ALWAYS_AVAILABLE.store(true, Ordering::Relaxed);
}

/// Submits a job. It is given back if no thread can be started for it.
///
/// # Errors
/// The job.
pub fn submit(urgency: Urgency, job: Job) -> Result<(), Job> {
    let mut queue = lock();
    if !queue.has_thread {
        fork::register(queue::crew());
        if thread::Builder::new().name("vireo-background".into()).spawn(run).is_err() {
            return Err(job);
        }
        queue.has_thread = true;
    }
    match urgency {
        Urgency::Needed => queue.needed.push_back(job),
        Urgency::Ahead => queue.ahead.push_back(job),
    }
    drop(queue);
    SUBMITTED.notify_one();
    Ok(())
}

/// Waits until no job is queued or runs.
pub fn wait() {
    let mut queue = lock();
    while queue.has_thread && (queue.is_running || !queue.is_empty()) {
        queue = DONE.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Keeps jobs from being begun as long as it lives, for tests.
#[derive(Debug)]
pub struct Hold(());

impl Hold {
    /// Returns once no job runs.
    pub fn new() -> Hold {
        let mut queue = lock();
        queue.holds += 1;
        drop(wait_for_running(queue));
        Hold(())
    }
}

impl Default for Hold {
    fn default() -> Hold {
        Hold::new()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        lock().holds -= 1;
        SUBMITTED.notify_one();
    }
}

/// The thread.
fn run() {
    lower_priority();
    let mut queue = lock();
    loop {
        let Some(job) = queue.take() else {
            let (next, timeout) = SUBMITTED.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = next;
            if timeout.timed_out() && queue.is_empty() {
                queue.has_thread = false;
                return;
            }
            continue;
        };
        queue.is_running = true;
        drop(queue);
        // The panic hook has reported it. What submits jobs that may panic notices that itself; the thread has others
        // to do.
        let _ = catch_unwind(AssertUnwindSafe(job));
        queue = lock();
        queue.is_running = false;
        DONE.notify_all();
    }
}

/// Lets threads that run programs take precedence, where a priority can be that of a thread. It is low enough that
/// these lose little if there is no idle processor, and high enough that jobs come to an end then: until they do,
/// programs run more slowly.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        const NICE: i32 = 5;
        // Without it the thread has the priority of the others.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    #[cfg(unix)]
    use super::in_child::in_child;
    use super::*;

    /// The tests hold jobs, so there is one at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn needed_jobs_come_first_and_a_panic_ends_only_its_own() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, receiver) = mpsc::channel();
        let hold = Hold::new();
        let numbered = |number: u32| -> Job {
            let sender = sender.clone();
            Box::new(move || sender.send(number).expect("the test waits"))
        };
        assert!(submit(Urgency::Ahead, numbered(3)).is_ok());
        assert!(submit(Urgency::Needed, numbered(1)).is_ok());
        // Without its hook, which would write to the log of the tests, a panic that is resumed unwinds all the same.
        assert!(submit(Urgency::Needed, Box::new(|| std::panic::resume_unwind(Box::new(())))).is_ok());
        assert!(submit(Urgency::Needed, numbered(2)).is_ok());
        assert!(submit(Urgency::Ahead, numbered(4)).is_ok());
        assert!(receiver.try_recv().is_err(), "jobs are held");
        drop(hold);
        wait();
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[cfg(unix)]
    #[test]
    fn the_child_of_a_fork_does_the_jobs_too() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, receiver) = mpsc::channel();
        let done = move |number: u32| -> Job {
            let sender = sender.clone();
            Box::new(move || sender.send(number).expect("the test waits"))
        };
        // The thread exists, and a job is queued.
        assert!(submit(Urgency::Needed, done(0)).is_ok());
        wait();
        let hold = Hold::new();
        assert!(submit(Urgency::Needed, done(1)).is_ok());
        let mut hold = Some(hold);
        let all = in_child(|| {
            drop(hold.take());
            submit(Urgency::Needed, done(2)).is_ok() && {
                wait();
                receiver.try_iter().eq([0, 1, 2])
            }
        });
        assert_eq!(all, 0);
        drop(hold);
        wait();
        assert!(receiver.try_iter().eq([0, 1]));
    }
}
