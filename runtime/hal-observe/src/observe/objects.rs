//! Objects that occurred in observed calls: their numbers, and the exchange of wrappers for what they wrap. The
//! generated `observe` has a table for each kind of object, and says how structs are exchanged that hold some.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{Observation, Observed};
pub(crate) use crate::generated::hal::observe::Tables;
use crate::hal::forward::Forward;

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

/// An object that can occur in calls. The objects of `spec/hal` are.
pub trait Known: 'static {
    /// The name of its kind.
    const NAME: &'static str;

    #[doc(hidden)]
    fn table(tables: &Tables) -> &Table<Self>;

    #[doc(hidden)]
    fn as_any(&self) -> &dyn Any;

    /// The number of the object if it is a wrapper of this observation.
    #[doc(hidden)]
    fn wrapper_number(&self, observation: &Observation) -> Option<u64> {
        let _ = observation;
        None
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

/// An object whose calls are shown.
pub trait Wrapped: Known {
    /// The caller of its methods, which hence has the wrapper.
    const SIDE: Side;

    #[doc(hidden)]
    fn wrapper(observed: Observed<Self>) -> Arc<Self>;
}

/// An argument or a result that is or holds objects with wrappers.
pub(crate) trait Exchange {
    /// The value with what that side has of each object: the wrapper or what it wraps.
    fn exchanged(&self, observation: &Arc<Observation>, to: Side) -> Self;
}

impl Observation {
    /// The wrapper of an object, or what the wrapper wraps, for one side.
    pub(crate) fn exchanged<T: Wrapped + ?Sized>(self: &Arc<Self>, object: &Arc<T>, to: Side) -> Arc<T> {
        match self.as_wrapper(&**object) {
            Some(_) if to == T::SIDE => object.clone(),
            Some(observed) => observed.wrapped().clone(),
            None if to == T::SIDE => T::table(&self.tables).wrapper(object, |number| {
                T::wrapper(Observed { inner: object.clone(), number, observation: self.clone() })
            }),
            None => object.clone(),
        }
    }

    /// The wrapper that `object` is, if it is one of this observation.
    pub(crate) fn as_wrapper<'a, T: Wrapped + ?Sized>(&self, object: &'a T) -> Option<&'a Observed<T>> {
        let observed = &object.as_any().downcast_ref::<Forward<Observed<T>>>()?.0;
        std::ptr::eq(&*observed.observation, self).then_some(observed)
    }
}

/// Numbers and wrappers of the objects of one kind.
///
/// Objects are not kept alive, but for their memory, so that no other object has the address while an entry is there.
pub struct Table<T: ?Sized>(Mutex<Entries<T>>);

struct Entries<T: ?Sized> {
    by_address: HashMap<usize, Entry<T>>,
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
        Table(Mutex::new(Entries { by_address: HashMap::new(), last: 0, limit: 64 }))
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
    fn wrapper(&self, object: &Arc<T>, make: impl FnOnce(u64) -> Arc<T>) -> Arc<T> {
        let mut entries = self.lock();
        let entry = entries.entry(object);
        if let Some(wrapper) = entry.wrapper.as_ref().and_then(Weak::upgrade) {
            return wrapper;
        }
        let wrapper = make(entry.number);
        entry.wrapper = Some(Arc::downgrade(&wrapper));
        wrapper
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
