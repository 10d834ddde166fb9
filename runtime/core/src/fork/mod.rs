//! Forks: the child of a process has one thread, the one that forked. What others were doing is lost there, and locks
//! that they held are never released.
//!
//! So whatever has threads of its own registers a [`Crew`]. A fork waits until all of them are idle, for a second at
//! most, and the thread that forks holds their locks meanwhile. The crews of the child begin anew: what waits to be
//! done is done in both processes.

mod crew;
#[cfg(unix)]
mod handlers;

use std::sync::atomic::Ordering;
use std::sync::{Once, PoisonError, Weak};

pub(crate) use self::crew::ThreadCrew;
use self::crew::{CREWS, PROCESS};
pub use self::crew::{Crew, Held, Side};

static REGISTERED: Once = Once::new();

/// How many forks lie between the first process that asked and this one. The threads of another process than this one
/// are not here.
pub fn process() -> u32 {
    register_handlers();
    PROCESS.load(Ordering::Relaxed)
}

/// Lets each fork of the process wait for a crew, as long as that lives. Without effect for one that is registered.
pub fn register(crew: Weak<dyn Crew>) {
    register_handlers();
    let mut crews = CREWS.lock().unwrap_or_else(PoisonError::into_inner);
    crews.retain(|crew| crew.strong_count() > 0);
    if !crews.iter().any(|other| std::ptr::addr_eq(other.as_ptr(), crew.as_ptr())) {
        crews.push(crew);
    }
}

/// Registers the handlers, on systems where processes fork.
fn register_handlers() {
    #[cfg(unix)]
    REGISTERED.call_once(handlers::register);
    #[cfg(not(unix))]
    REGISTERED.call_once(|| ());
}
