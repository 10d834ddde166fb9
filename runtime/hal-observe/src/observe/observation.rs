//! An observation: the observer, the wrappers of objects whose calls it is shown, and what such a call is. Wrappers are
//! exchanged for what they wrap; the generated `observe` says how structs are exchanged that hold some.

use std::any::Any;
use std::cell::Cell;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::objects::{ObjectId, Side, Table, Tables};
use crate::generated::hal::calls::{Call, Reply};
use crate::hal::forward::Forward;
use crate::hal::{Device, QueueOperation};
use crate::status::{Result, Status};

/// Is shown calls. Any thread may call it, also from within another call: a queue that calls the host does.
pub trait Observer: Debug + Send + Sync + 'static {
    /// Called before the object is.
    ///
    /// # Errors
    /// A failure is that of the call, and the object is not called. Methods that cannot fail have none.
    fn before(&self, call: &Called<'_>) -> Result<()> {
        let _ = call;
        Ok(())
    }

    /// Called after [`Observer::before`] for an operation of a queue.
    ///
    /// # Errors
    /// A failure is that of the operation, which the device does not get: it goes to the points that the operation
    /// signals, once those it waits for are reached.
    fn submitting(&self, call: &Called<'_>, operation: QueueOperation<'_>) -> Result<()> {
        let _ = (call, operation);
        Ok(())
    }

    /// Called with what came of a call that the object got.
    fn after(&self, call: &Called<'_>, outcome: Result<Reply<'_>, &Status>) {
        let _ = (call, outcome);
    }

    /// Called when the last reference to the wrapper of an object is gone.
    fn dropped(&self, object: ObjectId) {
        let _ = object;
    }
}

/// An observer, and the objects that it was shown.
pub struct Observation {
    pub(super) observer: Box<dyn Observer>,
    pub(super) tables: Tables,
    /// Calls that have begun.
    begun: AtomicU64,
}

impl Observation {
    /// Begins without any objects.
    pub fn new(observer: impl Observer) -> Arc<Observation> {
        Arc::new(Observation { observer: Box::new(observer), tables: Tables::default(), begun: AtomicU64::new(0) })
    }

    /// The device with its calls shown to the observer.
    pub fn device(self: &Arc<Self>, device: &Arc<dyn Device>) -> Arc<dyn Device> {
        self.exchanged(device, Side::Host)
    }

    /// The name of an object here. It gets a number if it has none.
    pub fn id<T: Known + ?Sized>(&self, object: &Arc<T>) -> ObjectId {
        let wrapper = object.of_wrapper(self);
        let number = wrapper.map_or_else(|| T::table(&self.tables).number(object), |(number, _)| number);
        ObjectId { kind: T::NAME, number }
    }

    /// A number that the observer may keep with an object, 0 at first; none if the object is no wrapper.
    pub fn note<'a, T: Known + ?Sized>(&self, object: &'a Arc<T>) -> Option<&'a AtomicU64> {
        Some(object.of_wrapper(self)?.1)
    }
}

impl Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observation").field(&self.observer).finish()
    }
}

/// The wrapper of an object.
pub struct Observed<T: Wrapped + ?Sized> {
    inner: Arc<T>,
    number: u64,
    /// A note of the observer about the object.
    note: AtomicU64,
    observation: Arc<Observation>,
}

impl<T: Wrapped + ?Sized> Observed<T> {
    pub(crate) fn wrapped(&self) -> &Arc<T> {
        &self.inner
    }

    pub(crate) fn known(&self) -> (u64, &AtomicU64) {
        (self.number, &self.note)
    }

    fn id(&self) -> ObjectId {
        ObjectId { kind: T::NAME, number: self.number }
    }

    pub(crate) fn called<'a>(&'a self, call: Call<'a>) -> Called<'a> {
        let number = self.observation.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let (callee, note, kept) = (&self.inner, &self.note, Cell::default());
        Called { number, object: self.id(), call, callee, note, kept, observation: &self.observation }
    }

    /// The object, whose wrapper goes.
    pub(crate) fn release(self) -> Arc<T> {
        // Before there is another reference.
        T::table(&self.observation.tables).forget(&self.inner);
        self.inner.clone()
    }

    /// An argument for the object.
    pub(crate) fn passed_on<E: Exchange>(&self, value: &E) -> E {
        value.exchanged(&self.observation, T::SIDE.other())
    }

    /// The same for each of a list.
    pub(crate) fn all_passed_on<E: Exchange>(&self, values: &[E]) -> SmallVec<[E; 4]> {
        values.iter().map(|value| self.passed_on(value)).collect()
    }

    /// A result for the caller.
    pub(crate) fn returned<E: Exchange>(&self, value: &E) -> E {
        value.exchanged(&self.observation, T::SIDE)
    }
}

impl<T: Wrapped + ?Sized> Debug for Observed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observed({})", self.id())
    }
}

impl<T: Wrapped + ?Sized> Drop for Observed<T> {
    fn drop(&mut self) {
        self.observation.observer.dropped(self.id());
        T::table(&self.observation.tables).forget(&self.inner);
    }
}

/// A call of an object. Its text is `semaphore#1.signal(value=5)`.
pub struct Called<'a> {
    pub(super) number: u64,
    pub(super) object: ObjectId,
    pub(super) call: Call<'a>,
    /// The `Arc` of the object.
    pub(super) callee: &'a dyn Any,
    pub(super) note: &'a AtomicU64,
    pub(super) kept: Cell<[u64; 2]>,
    pub(super) observation: &'a Arc<Observation>,
}

/// An object that can occur in calls. The objects of `spec/hal` are.
pub trait Known: 'static {
    /// The name of its kind.
    const NAME: &'static str;

    #[doc(hidden)]
    fn table(tables: &Tables) -> &Table<Self>;

    #[doc(hidden)]
    fn as_any(&self) -> &dyn Any;

    /// The number of the object, and what the observer notes of it, if it is a wrapper of this observation.
    #[doc(hidden)]
    fn of_wrapper<'a>(&'a self, observation: &Observation) -> Option<(u64, &'a AtomicU64)> {
        let _ = observation;
        None
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
                let (inner, note) = (object.clone(), AtomicU64::new(0));
                T::wrapper(Observed { inner, number, note, observation: self.clone() })
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
