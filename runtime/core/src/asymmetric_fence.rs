//! Asymmetric fences: a thread that often passes one side pays nothing for it ([`light`]), and the thread that seldom
//! needs the other side pays for both ([`heavy`]). Locks that mostly one thread takes use them.
//!
//! Of two threads, one stores `a`, passes `light` and loads `b`; the other stores `b`, passes `heavy` and loads `a`.
//! Then at least one of them loads what the other has stored, as if both had passed a sequentially consistent fence.
//! The system makes it so: `heavy` lets each running thread of the process pass a full barrier (`membarrier` of Linux,
//! since 4.14).

use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Once, OnceLock};

use crate::background::{self, Urgency};

/// Whether the system has what `heavy` needs, once it was asked.
static IS_SUPPORTED: OnceLock<bool> = OnceLock::new();

/// Keeps the compiler from moving loads and stores across. The processor may, until a thread passes `heavy`.
#[inline(always)]
pub fn light() {
    compiler_fence(Ordering::SeqCst);
}

/// Whether the system is known to have what `heavy` needs. If it was not asked yet, a background job does that: the
/// answer takes some milliseconds where other threads run.
pub fn is_ready() -> bool {
    static ASK: Once = Once::new();
    if let Some(is_supported) = IS_SUPPORTED.get() {
        return *is_supported;
    }
    ASK.call_once(|| {
        let ask = || {
            is_supported();
        };
        // Without a thread for it there are no requests, and the fences are not used.
        let _ = background::submit(Urgency::Ahead, Box::new(ask));
    });
    false
}

/// Whether the system has what `heavy` needs. It is asked once.
pub fn is_supported() -> bool {
    *IS_SUPPORTED.get_or_init(ask)
}

#[cfg(target_os = "linux")]
fn ask() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    // A system may know the command and refuse it to this process, so it is tried.
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
        && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

/// Only Linux is known to have it.
#[cfg(not(target_os = "linux"))]
fn ask() -> bool {
    false
}

/// Lets each thread of the process pass a full barrier before it returns.
///
/// # Panics
/// If the system does not support it, or has withdrawn it since it was asked: a filter of system calls, for instance,
/// which was installed later.
#[cold]
pub fn heavy() {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{MembarrierCommand, membarrier};
        // The registration is that of the address space, which a process may have copied.
        let passed = membarrier(MembarrierCommand::PrivateExpedited).or_else(|_| {
            membarrier(MembarrierCommand::RegisterPrivateExpedited)?;
            membarrier(MembarrierCommand::PrivateExpedited)
        });
        passed.unwrap_or_else(|error| panic!("`membarrier` worked before and does not any more: {error}"));
    }
    #[cfg(not(target_os = "linux"))]
    panic!("there is no barrier of all threads on this system");
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn one_of_two_threads_sees_what_the_other_has_stored() {
        if !is_supported() {
            println!("skipped: this system has no barrier of all threads");
            return;
        }
        let (a, b, round) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let (seen_a, seen_b) = (AtomicU32::new(0), AtomicU32::new(0));
        let wait_for = |value: u32| {
            while round.load(Ordering::SeqCst) < value {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=2000 {
                    wait_for(2 * number - 1);
                    a.store(number, Ordering::Relaxed);
                    light();
                    seen_b.store(b.load(Ordering::Relaxed), Ordering::Relaxed);
                    round.fetch_add(1, Ordering::SeqCst);
                }
            });
            for number in 1..=2000 {
                round.fetch_add(1, Ordering::SeqCst);
                b.store(number, Ordering::Relaxed);
                heavy();
                seen_a.store(a.load(Ordering::Relaxed), Ordering::Relaxed);
                wait_for(2 * number);
                let seen = (seen_a.load(Ordering::Relaxed), seen_b.load(Ordering::Relaxed));
                assert!(seen.0 == number || seen.1 == number, "round {number}: {seen:?}");
            }
        });
    }
}
