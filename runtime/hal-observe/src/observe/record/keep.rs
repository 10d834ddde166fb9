//! How arguments and results are kept: numbers and bytes as they are, objects as their numbers.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use super::object::RecordedObject;
use crate::hal::{Buffer, BufferUsage, MemoryType};
use crate::observe::Known;
use crate::observe::{Called, ObjectId};
use crate::status::Status;

/// A value that a recording cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// A function that is called once.
    Callback,
    /// A point in time, which is another one when the call is made again.
    Deadline,
    /// Memory of the host, or what keeps it alive.
    HostMemory,
}

/// A buffer: a range of an allocation that a call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedBuffer {
    /// The buffer whose memory it is part of.
    pub allocation: ObjectId,
    /// Where it begins there.
    pub offset: u64,
    /// Its bytes.
    pub length: u64,
}

/// A value of a call that can be kept.
pub trait Keep {
    /// The form in which it is kept.
    type Kept;

    /// Keeps it.
    fn keep(&self, keeper: &mut Keeper<'_>) -> Self::Kept;
}

/// Knows the objects of a call by their numbers.
pub struct Keeper<'a> {
    called: &'a Called<'a>,
    made_by: Option<u64>,
    noted: Vec<(ObjectId, RecordedObject)>,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(called: &'a Called<'a>) -> Keeper<'a> {
        Keeper { called, made_by: None, noted: Vec::new() }
    }

    /// Objects that are kept from here on were made by the call, if they were not there before.
    pub(super) fn is_reply(&mut self) {
        self.made_by = Some(self.called.number());
    }

    pub(super) fn note(&mut self, id: ObjectId) {
        self.noted.push((id, RecordedObject { made_by: self.made_by, is_mappable: false }));
    }

    /// The objects in the order in which they occurred.
    pub(super) fn into_noted(self) -> Vec<(ObjectId, RecordedObject)> {
        self.noted
    }

    /// The number of an object.
    pub(crate) fn object<T: Known + ?Sized>(&mut self, object: &Arc<T>) -> ObjectId {
        let id = self.called.id(object);
        self.note(id);
        id
    }
}

impl Keep for Arc<dyn Buffer> {
    type Kept = RecordedBuffer;

    fn keep(&self, keeper: &mut Keeper<'_>) -> RecordedBuffer {
        let (whole, offset) = match self.allocation() {
            Some(allocation) => (allocation, self.byte_offset()),
            None => (self.clone(), 0),
        };
        let allocation = keeper.called.id(&whole);
        let mapping = BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_PERSISTENT;
        let is_mappable =
            whole.memory_type().contains(MemoryType::HOST_VISIBLE) && whole.allowed_usage().intersects(mapping);
        keeper.noted.push((allocation, RecordedObject { made_by: keeper.made_by, is_mappable }));
        RecordedBuffer { allocation, offset, length: self.byte_length() }
    }
}

macro_rules! copies {
    ($($number:ident),*) => {
        $(impl Keep for $number {
            type Kept = $number;

            fn keep(&self, _keeper: &mut Keeper<'_>) -> $number {
                *self
            }
        })*
    };
}

copies!(bool, u8, u16, u32, u64, i32, i64);

macro_rules! unseen {
    ($($ty:ty: $unseen:ident),*) => {
        $(impl Keep for $ty {
            type Kept = Unseen;

            fn keep(&self, _keeper: &mut Keeper<'_>) -> Unseen {
                Unseen::$unseen
            }
        })*
    };
}

unseen!(Instant: Deadline, NonNull<u8>: HostMemory, Arc<dyn Any + Send + Sync>: HostMemory);

impl Keep for str {
    type Kept = String;

    fn keep(&self, _keeper: &mut Keeper<'_>) -> String {
        self.to_string()
    }
}

impl Keep for String {
    type Kept = String;

    fn keep(&self, _keeper: &mut Keeper<'_>) -> String {
        self.clone()
    }
}

impl Keep for Status {
    type Kept = Status;

    fn keep(&self, _keeper: &mut Keeper<'_>) -> Status {
        self.clone()
    }
}

impl<K: Keep + ?Sized> Keep for &K {
    type Kept = K::Kept;

    fn keep(&self, keeper: &mut Keeper<'_>) -> K::Kept {
        K::keep(self, keeper)
    }
}

impl<K: Keep> Keep for Option<K> {
    type Kept = Option<K::Kept>;

    fn keep(&self, keeper: &mut Keeper<'_>) -> Option<K::Kept> {
        self.as_ref().map(|value| value.keep(keeper))
    }
}

impl<K: Keep> Keep for [K] {
    type Kept = Vec<K::Kept>;

    fn keep(&self, keeper: &mut Keeper<'_>) -> Vec<K::Kept> {
        self.iter().map(|value| value.keep(keeper)).collect()
    }
}

impl<K: Keep> Keep for Vec<K> {
    type Kept = Vec<K::Kept>;

    fn keep(&self, keeper: &mut Keeper<'_>) -> Vec<K::Kept> {
        self.as_slice().keep(keeper)
    }
}

impl<K: Keep, const COUNT: usize> Keep for [K; COUNT] {
    type Kept = [K::Kept; COUNT];

    fn keep(&self, keeper: &mut Keeper<'_>) -> [K::Kept; COUNT] {
        self.each_ref().map(|value| value.keep(keeper))
    }
}
