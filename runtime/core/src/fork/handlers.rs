//! The functions that the C library calls before and after a fork.

use std::cell::RefCell;
use std::mem::transmute;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::crew::{CREWS, Crew, Held, PROCESS, Side};

/// How long a fork waits. A process that forks to start a program must not be held up by long work.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A crew whose lock this thread holds. The lock is released before its owner may go.
struct HeldCrew {
    held: Box<dyn Held>,
    _crew: Arc<dyn Crew>,
}

impl HeldCrew {
    fn new(crew: Arc<dyn Crew>) -> HeldCrew {
        // SAFETY: what is held borrows from the crew, which is kept at its address until after that is dropped.
        let held = unsafe { transmute::<Box<dyn Held + '_>, Box<dyn Held>>(crew.hold()) };
        HeldCrew { held, _crew: crew }
    }
}

thread_local! {
    static HELD: RefCell<Vec<HeldCrew>> = const { RefCell::new(Vec::new()) };
}

/// Has the C library call them.
pub(super) fn register() {
    // SAFETY: the functions do not unwind. They free memory in the child, which the allocators of systems allow:
    // their own handlers come before these there.
    unsafe {
        // Without memory for it, a fork in the middle of work is the one of other programs with threads.
        libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child));
    }
}

extern "C" fn prepare() {
    // In a thread that ends, whose locals are gone, nothing is held.
    let _ = HELD.try_with(|held| *held.borrow_mut() = idle_crews());
}

extern "C" fn in_parent() {
    resume(Side::Parent);
}

extern "C" fn in_child() {
    PROCESS.fetch_add(1, Ordering::Relaxed);
    resume(Side::Child);
}

/// Locks all crews, between two pieces of work if there is such a time.
fn idle_crews() -> Vec<HeldCrew> {
    let end = Instant::now() + LONGEST_WAIT;
    loop {
        let crews = CREWS.lock().unwrap_or_else(PoisonError::into_inner);
        let crews: Vec<_> = crews.iter().filter_map(Weak::upgrade).collect();
        // One crew may give work to another, and wait for its lock, so none is locked meanwhile.
        crews.iter().for_each(|crew| crew.wait(end));
        let held: Vec<_> = crews.into_iter().map(HeldCrew::new).collect();
        if held.iter().all(|crew| crew.held.is_idle()) || Instant::now() >= end {
            return held;
        }
    }
}

fn resume(side: Side) {
    let held = HELD.try_with(|held| held.take()).unwrap_or_default();
    for mut crew in held {
        crew.held.resume(side);
    }
}
