//! The life of a packet processor ([`Lifecycle`]): it runs packets, is quiet once it runs none any more, and is done
//! once the program was told of a failure. No thread waits for one that waits for it:
//!
//! | thread | waits for | its wait ends by |
//! |---|---|---|
//! | processor | its doorbell; signals and memory that packets wait for | being rung; the request to stop |
//! | ends a queue in a function that the library called | the processor to be quiet | the end of its packet, which is asked to stop |
//! | ends a queue, elsewhere | the processor to be done | the same; the end of a function of the program |

use vireo_simt::Stop;

use crate::rules::{Rule, keeps};
use crate::sync::{AtomicBool, Bell, Ordering, thread_local};

thread_local! {
    static IN_CALLBACK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Calls a function of the program.
pub(crate) fn call_back<T>(function: impl FnOnce() -> T) -> T {
    let outer = IN_CALLBACK.with(|inside| inside.replace(true));
    let result = function();
    IN_CALLBACK.with(|inside| inside.set(outer));
    result
}

/// Whether the thread is in a function of the program that the library called.
pub(crate) fn is_in_callback() -> bool {
    IN_CALLBACK.with(std::cell::Cell::get)
}

/// The state of a packet processor.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    /// Asks the kernel that runs, or the packet that waits, to stop. A kernel that traps sets it for its other
    /// work-groups, too.
    pub(crate) stop: Stop,
    /// True once no packet may begin.
    inactive: AtomicBool,
    /// True while no packet runs or will run.
    quiet: AtomicBool,
    /// True while no function of the program is called or will be.
    done: AtomicBool,
}

impl Lifecycle {
    /// That of a queue without a packet processor.
    pub(crate) fn new() -> Self {
        let (inactive, [quiet, done]) = (AtomicBool::new(false), [true, true].map(AtomicBool::new));
        Lifecycle { stop: Stop::default(), inactive, quiet, done }
    }

    /// Notes that a packet processor starts.
    pub(crate) fn start(&self) {
        self.quiet.store(false, Ordering::Release);
        self.done.store(false, Ordering::Release);
    }

    /// Notes that the packet processor runs no packet any more.
    pub(crate) fn set_quiet(&self, bell: &Bell) {
        self.quiet.store(true, Ordering::Release);
        bell.ring();
    }

    /// Notes that the packet processor has ended.
    pub(crate) fn set_done(&self, bell: &Bell) {
        self.done.store(true, Ordering::Release);
        self.set_quiet(bell);
    }

    /// Whether no packet may begin.
    pub(crate) fn is_inactive(&self) -> bool {
        self.inactive.load(Ordering::Acquire)
    }

    /// Notes that a packet failed; true if the queue was ended before.
    pub(crate) fn fail(&self) -> bool {
        self.inactive.swap(true, Ordering::AcqRel)
    }

    /// Ends the packet processor. When this returns it runs nothing, and calls no function of the program unless this
    /// thread is in one. `own` says that this is the thread of the processor.
    pub(crate) fn end(&self, doorbell: &Bell, signals: &Bell, own: bool) {
        let first = !self.inactive.swap(true, Ordering::AcqRel);
        self.stop.request();
        if keeps(Rule::EndsRingTheDoorbell) {
            doorbell.ring();
        }
        if keeps(Rule::EndsRingSignals) {
            signals.ring();
        }
        if own || (!first && !keeps(Rule::AllEndsWait)) {
            return;
        }
        let ends =
            if is_in_callback() && keeps(Rule::CallbacksDoNotWaitForCallbacks) || !keeps(Rule::EndsWaitForCallbacks) {
                &self.quiet
            } else {
                &self.done
            };
        doorbell.wait(None, || ends.load(Ordering::Acquire).then_some(()));
    }

    /// Waits until `ready` returns a value; none if the queue is ended first.
    pub(crate) fn wait<T>(&self, signals: &Bell, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        signals.wait(None, || if self.stop.requested() { Some(None) } else { ready().map(Some) }).flatten()
    }
}
