//! A list whose items stay where they are: instructions and handlers have their addresses.

use std::ptr::NonNull;

/// A slice that stays where it is, with pointers into it that outlive moves of its owner.
pub struct PinnedList<T>(NonNull<[T]>);

impl<T> PinnedList<T> {
    /// A slice of these items.
    pub fn new(items: Vec<T>) -> PinnedList<T> {
        PinnedList(NonNull::from(Box::leak(items.into_boxed_slice())))
    }

    /// The address of item `index`, or the end.
    pub fn at(&self, index: usize) -> *const T {
        self.0.as_ptr().cast::<T>().wrapping_add(index)
    }

    /// The items.
    pub fn items(&self) -> &[T] {
        // SAFETY: the items are owned by this value.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for PinnedList<T> {
    fn drop(&mut self) {
        // SAFETY: `new` leaked a box of exactly this.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
