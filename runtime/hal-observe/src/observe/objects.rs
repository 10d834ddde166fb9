//! The numbers and wrappers of objects that occurred in observed calls. The generated `observe` has a table for each
//! kind of object.

use std::collections::hash_map;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vireo_core::address_map::AddressMap;

pub(crate) use crate::generated::hal::observe::Tables;

/// The name of an object: its kind and a number that no other of the kind has, counted from 1 in the order in which
/// they were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// As in `spec/hal`.
    pub kind: &'static str,
    /// Its number.
    pub number: u64,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.kind, self.number)
    }
}

/// The holder of an object: the host or the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The host, or a program.
    Host,
    /// The device, or what it made.
    Device,
}

impl Side {
    /// The other one.
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Host => Side::Device,
            Side::Device => Side::Host,
        }
    }
}

/// Numbers and wrappers of the objects of one kind.
///
/// Objects are not kept alive, but for their memory, so that no other object has the address while an entry is there.
pub struct Table<T: ?Sized>(Mutex<Entries<T>>);

struct Entries<T: ?Sized> {
    by_address: AddressMap<Entry<T>>,
    last: u64,
    /// Entries of objects that are gone are removed when there are so many.
    limit: usize,
}

struct Entry<T: ?Sized> {
    object: Weak<T>,
    wrapper: Option<Weak<T>>,
    number: u64,
}

impl<T: ?Sized> Default for Table<T> {
    fn default() -> Self {
        Table(Mutex::new(Entries { by_address: AddressMap::default(), last: 0, limit: 64 }))
    }
}

impl<T: ?Sized> Table<T> {
    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        // Nothing runs under the lock that could leave entries half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of an object; a new one if it has none.
    pub(crate) fn number(&self, object: &Arc<T>) -> u64 {
        self.lock().entry(object).number
    }

    /// Whether the object has a number.
    pub(crate) fn knows(&self, object: &Arc<T>) -> bool {
        self.lock().by_address.contains_key(&address(object))
    }

    /// The wrapper of an object, made with its number if there is none.
    pub(super) fn wrapper(&self, object: &Arc<T>, make: impl FnOnce(u64) -> Arc<T>) -> Arc<T> {
        let mut entries = self.lock();
        let entry = entries.entry(object);
        if let Some(wrapper) = entry.wrapper.as_ref().and_then(Weak::upgrade) {
            return wrapper;
        }
        let wrapper = make(entry.number);
        entry.wrapper = Some(Arc::downgrade(&wrapper));
        wrapper
    }

    /// Forgets an object whose wrapper goes, if there is no other reference to it: then it can be something else soon.
    pub(super) fn forget(&self, object: &Arc<T>) {
        if Arc::strong_count(object) > 1 {
            return;
        }
        let mut entries = self.lock();
        let has_wrapper = |entry: &Entry<T>| entry.wrapper.as_ref().is_some_and(|wrapper| wrapper.strong_count() > 0);
        if let hash_map::Entry::Occupied(entry) = entries.by_address.entry(address(object))
            && !has_wrapper(entry.get())
        {
            entry.remove();
        }
    }
}

impl<T: ?Sized> Entries<T> {
    fn entry(&mut self, object: &Arc<T>) -> &mut Entry<T> {
        if self.by_address.len() >= self.limit {
            self.by_address.retain(|_, entry| entry.object.strong_count() > 0);
            self.limit = 64.max(2 * self.by_address.len());
        }
        let last = &mut self.last;
        self.by_address.entry(address(object)).or_insert_with(|| {
            *last += 1;
            Entry { object: Arc::downgrade(object), wrapper: None, number: *last }
        })
    }
}

fn address<T: ?Sized>(object: &Arc<T>) -> usize {
    Arc::as_ptr(object).cast::<()>().addr()
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;

    #[test]
    fn an_object_is_forgotten_with_its_wrapper_unless_somebody_has_it() {
        let table = Table::<dyn Any>::default();
        let object: Arc<dyn Any> = Arc::new(1);
        let wrap = |object| table.wrapper(object, |number| Arc::new(number));
        let number = |wrapper: Arc<dyn Any>| wrapper.downcast_ref::<u64>().copied();
        let wrapper = wrap(&object);
        table.forget(&object);
        assert!(table.knows(&object), "its wrapper is there");
        let other = object.clone();
        drop(wrapper);
        table.forget(&object);
        assert!(table.knows(&object), "somebody has it");
        drop(other);
        assert_eq!(number(wrap(&object)), Some(1), "the wrapper is another one, of the same object");
        table.forget(&object);
        assert!(!table.knows(&object));
        assert!(Arc::weak_count(&object) == 0, "its memory can be used again");
        assert_eq!(number(wrap(&object)), Some(2));
    }
}
