//! Objects that are made again at each call: the thread that lets go of the last reference to one keeps it for the next call.
//!
//! Only what nobody else refers to is kept, so a kept object is as good as a new one, and who holds a reference of his own loses nothing.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::thread::LocalKey;

use super::local::{LocalCommandBuffer, TransientBuffer};
use super::{HostSemaphore, Semaphore, Subspan};

/// Most objects of one kind that a thread keeps.
const MAX_KEPT: usize = 32;

thread_local! {
    static TIMELINES: RefCell<Vec<Arc<HostSemaphore>>> = const { RefCell::new(Vec::new()) };
    static SUBSPANS: Hollow<Subspan> = const { Hollow::new() };
}

/// Memory of objects that are gone, which a thread keeps for the next ones.
pub(crate) struct Hollow<T>(RefCell<Vec<Arc<MaybeUninit<T>>>>);

impl<T> Hollow<T> {
    /// None.
    pub(crate) const fn new() -> Hollow<T> {
        Hollow(RefCell::new(Vec::new()))
    }
}

/// Moves `value` to memory that the thread keeps, or to new memory.
pub(crate) fn make<T>(kept: &'static LocalKey<Hollow<T>>, value: T) -> Arc<T> {
    let memory = kept.try_with(|kept| kept.0.try_borrow_mut().ok()?.pop());
    if let Ok(Some(mut memory)) = memory
        && let Some(place) = Arc::get_mut(&mut memory)
    {
        place.write(value);
        // SAFETY: it was just written.
        return unsafe { memory.assume_init() };
    }
    Arc::new(value)
}

/// Moves an object out that nobody else refers to, and keeps its memory.
pub(crate) fn unmake<T>(kept: &'static LocalKey<Hollow<T>>, mut object: Arc<T>) -> Option<T> {
    let value = std::ptr::from_mut(Arc::get_mut(&mut object)?);
    // SAFETY: nobody else refers to the object. It is moved out, and what is left counts as memory that is not initialised, of the same
    // layout; so it is neither read nor dropped again.
    let (value, memory) = unsafe {
        let value = value.read();
        (value, Arc::from_raw(Arc::into_raw(object).cast::<MaybeUninit<T>>()))
    };
    // At the end of a thread nothing is kept.
    let _ = kept.try_with(|kept| {
        if let Ok(mut kept) = kept.0.try_borrow_mut()
            && kept.len() < MAX_KEPT
        {
            kept.push(memory);
        }
    });
    Some(value)
}

/// Lets go of a reference to an object of the HAL.
pub(crate) fn retire(object: Arc<dyn Any + Send + Sync>) {
    let id = (*object).type_id();
    if id == TypeId::of::<TransientBuffer>() {
        let _ = object.downcast().map(TransientBuffer::retire);
    } else if id == TypeId::of::<HostSemaphore>() {
        let _ = object.downcast().map(retire_timeline);
    } else if id == TypeId::of::<Subspan>() {
        let subspan = object.downcast().ok().and_then(|subspan| unmake(&SUBSPANS, subspan));
        if let Some(subspan) = subspan {
            retire(subspan.into_allocation());
        }
    } else if id == TypeId::of::<LocalCommandBuffer>() {
        let _ = object.downcast().map(LocalCommandBuffer::retire);
    }
}

fn retire_timeline(mut timeline: Arc<HostSemaphore>) {
    let Some(unused) = Arc::get_mut(&mut timeline) else { return };
    // Runs code of whoever waits, so nothing is borrowed meanwhile.
    unused.renew();
    let _ = TIMELINES.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut()
            && kept.len() < MAX_KEPT
        {
            kept.push(timeline);
        }
    });
}

/// An object that is `subspan`.
pub(crate) fn subspan(subspan: Subspan) -> Arc<Subspan> {
    make(&SUBSPANS, subspan)
}

/// A timeline that starts at `initial_value`.
pub(crate) fn timeline(initial_value: u64) -> Arc<dyn Semaphore> {
    let kept = TIMELINES.try_with(|kept| kept.try_borrow_mut().ok()?.pop());
    if let Ok(Some(mut timeline)) = kept
        && let Some(unused) = Arc::get_mut(&mut timeline)
    {
        unused.start(initial_value);
        return timeline;
    }
    Arc::new(HostSemaphore::new(initial_value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::{Allocator, Fence, Handle};
    use crate::status::{Status, StatusCode};
    use crate::vm::Ref;

    #[test]
    fn a_timeline_that_is_made_again_remembers_nothing() {
        let first = timeline(7);
        let address = Arc::as_ptr(&first).cast::<()>();
        first.fail(Status::data_loss("the cause"));
        let told = Arc::new(std::sync::Mutex::new(None));
        let second = timeline(0);
        let listener = told.clone();
        second.notify(5, Box::new(move |outcome| *listener.lock().expect("no panic") = Some(outcome)));
        drop(Ref::new(Fence::join(&[
            crate::hal::Timepoint { semaphore: first, value: 8 },
            crate::hal::Timepoint { semaphore: second, value: 5 },
        ])));
        let outcome = told.lock().expect("no panic").take().expect("nobody can reach the point");
        assert_eq!(outcome.expect_err("nobody did").code(), StatusCode::Aborted);
        let again = [timeline(3), timeline(4)];
        assert!(again.iter().any(|timeline| Arc::as_ptr(timeline).cast::<()>() == address));
        assert_eq!(again.map(|timeline| timeline.query().expect("did not fail")), [3, 4]);
    }

    #[test]
    fn subspans_are_made_in_the_same_memory_and_let_go_what_they_are_of() {
        let allocator = crate::hal::HeapAllocator::new();
        let whole = allocator.allocate_buffer(crate::hal::BufferParams::default(), 100).expect("allocates");
        let first = crate::hal::subspan(&whole, 1, 50).expect("within");
        let address = Arc::as_ptr(&first).cast::<()>();
        drop(Ref::new(Handle(first)));
        assert_eq!(Arc::strong_count(&whole), 1);
        let second = crate::hal::subspan(&whole, 2, 60).expect("within");
        assert_eq!((Arc::as_ptr(&second).cast::<()>(), second.byte_offset(), second.byte_length()), (address, 2, 60));
        let third = crate::hal::subspan(&second, 1, 59).expect("within");
        drop((second, third));
        assert_eq!(Arc::strong_count(&whole), 1);
    }

    #[test]
    fn a_timeline_that_others_hold_stays_theirs() {
        let held = timeline(1);
        drop(Ref::new(Fence::at(held.clone(), 2)));
        held.signal(2).expect("advances");
        let other = timeline(0);
        assert!(!Arc::ptr_eq(&held, &other));
        assert_eq!(held.query().expect("did not fail"), 2);
    }
}
