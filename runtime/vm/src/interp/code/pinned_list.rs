//! A list whose items never move: instructions and frame headers hold their addresses. Threaded code and machine code
//! keep their items in it.

use std::ptr::NonNull;

/// A slice on the heap; pointers into it stay valid when its owner moves.
pub struct PinnedList<T>(NonNull<[T]>);

impl<T> PinnedList<T> {
    /// A slice of these items.
    pub fn new(items: Vec<T>) -> PinnedList<T> {
        PinnedList(NonNull::from(Box::leak(items.into_boxed_slice())))
    }

    /// The address of item `index`; of the end, if that is the length.
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
