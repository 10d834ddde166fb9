//! Objects that are made again at each call: the thread that lets go of the last reference to one keeps it for the next call.
//!
//! Only what nobody else refers to is kept, so a kept object is as good as a new one, and who holds a reference of his own loses nothing.

use std::any::Any;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::local::TransientBuffer;
use super::{HostSemaphore, Semaphore, Subspan};

/// Most timelines that a thread keeps.
const MAX_TIMELINES: usize = 32;

/// Most subspans whose memory a thread keeps.
const MAX_SUBSPANS: usize = 32;

thread_local! {
    static TIMELINES: RefCell<Vec<Arc<HostSemaphore>>> = const { RefCell::new(Vec::new()) };
    static SUBSPANS: RefCell<Vec<Arc<MaybeUninit<Subspan>>>> = const { RefCell::new(Vec::new()) };
}

/// Lets go of a reference to an object of the HAL.
pub(crate) fn retire(object: Arc<dyn Any + Send + Sync>) {
    let object = match object.downcast() {
        Ok(transient) => return TransientBuffer::retire(transient),
        Err(other) => other,
    };
    let object = match object.downcast() {
        Ok(timeline) => return retire_timeline(timeline),
        Err(other) => other,
    };
    if let Ok(subspan) = object.downcast() {
        retire_subspan(subspan);
    }
}

fn retire_timeline(mut timeline: Arc<HostSemaphore>) {
    let Some(unused) = Arc::get_mut(&mut timeline) else { return };
    // Runs code of whoever waits, so nothing is borrowed meanwhile.
    unused.renew();
    // At the end of a thread nothing is kept.
    let _ = TIMELINES.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut()
            && kept.len() < MAX_TIMELINES
        {
            kept.push(timeline);
        }
    });
}

fn retire_subspan(mut subspan: Arc<Subspan>) {
    let Some(value) = Arc::get_mut(&mut subspan) else { return };
    // SAFETY: nobody else refers to the object. It is moved out, and what is left counts as memory that is not initialised, of the same
    // layout; so it is neither read nor dropped again.
    let (value, memory) = unsafe {
        let value = std::ptr::from_mut(value).read();
        (value, Arc::from_raw(Arc::into_raw(subspan).cast::<MaybeUninit<Subspan>>()))
    };
    let _ = SUBSPANS.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut()
            && kept.len() < MAX_SUBSPANS
        {
            kept.push(memory);
        }
    });
    retire(value.into_allocation());
}

/// An object that is `subspan`.
pub(crate) fn subspan(subspan: Subspan) -> Arc<Subspan> {
    let kept = SUBSPANS.try_with(|kept| kept.try_borrow_mut().ok()?.pop());
    if let Ok(Some(mut memory)) = kept
        && let Some(place) = Arc::get_mut(&mut memory)
    {
        place.write(subspan);
        // SAFETY: it was just written.
        return unsafe { memory.assume_init() };
    }
    Arc::new(subspan)
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
