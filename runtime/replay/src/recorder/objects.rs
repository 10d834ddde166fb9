//! The numbers of objects in a capture ([`Objects`]). Wrappers note those of the objects that they wrap, and buffers
//! have theirs in the slots of their watches.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use vireo_hal_observe::observe::{Called, Known, ObjectId};

use super::file::FileBytes;
use crate::generated::format::ObjectType;

/// An object of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Its number.
    pub(crate) id: u64,
    /// That of its device.
    pub(crate) device: u64,
    /// Its type.
    pub(crate) object_type: ObjectType,
}

impl Recorded {
    /// Bits of the number of an object. No recording lasts until there are so many.
    const ID_BITS: u32 = 48;
    /// Bits of its type. The others are those of its device, which is one of the first objects.
    const TYPE_BITS: u32 = 4;

    /// A buffer.
    pub(crate) fn buffer(id: u64, device: u64) -> Recorded {
        Recorded { id, device, object_type: ObjectType::BUFFER }
    }

    /// All of it as a number, which is not 0: what the wrapper of an object notes, and the watch of a buffer.
    pub(crate) fn number(self) -> u64 {
        (self.device << Self::TYPE_BITS | u64::from(self.object_type.0)) << Self::ID_BITS | self.id
    }

    /// The object with this number.
    pub(crate) fn of(number: u64) -> Option<Recorded> {
        let rest = number >> Self::ID_BITS;
        let object_type = ObjectType((rest & ((1 << Self::TYPE_BITS) - 1)) as u32);
        let (id, device) = (number & ((1 << Self::ID_BITS) - 1), rest >> Self::TYPE_BITS);
        (number != 0).then_some(Recorded { id, device, object_type })
    }
}

/// The objects of a capture. Wrappers of objects note theirs; this has the others, and what is more than a number.
#[derive(Default)]
pub(crate) struct Objects {
    last: u64,
    others: HashMap<ObjectId, Other>,
    /// The length at which others that are gone are removed.
    limit: usize,
    /// The numbers that drivers give to the functions of an executable, in the order of its metadata.
    functions: HashMap<ObjectId, Vec<u64>>,
    /// Files whose bytes are in their reads.
    files: HashMap<ObjectId, Arc<FileBytes>>,
}

/// An object without a wrapper.
struct Other {
    recorded: Recorded,
    is_there: Box<dyn Fn() -> bool + Send>,
}

/// Others that are there before any is looked at again.
const FEW: usize = 64;

impl Objects {
    /// The number of a new object.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Notes what an object is in the capture.
    pub(crate) fn add<T: Known + ?Sized>(&mut self, called: &Called<'_>, object: &Arc<T>, recorded: Recorded)
    where
        Weak<T>: Send,
    {
        if let Some(note) = called.note_of(object) {
            return note.store(recorded.number(), Ordering::Relaxed);
        }
        if self.others.len() >= self.limit.max(FEW) {
            self.others.retain(|_, other| (other.is_there)());
            self.limit = 2 * self.others.len();
        }
        let object_there = Arc::downgrade(object);
        let is_there = Box::new(move || object_there.strong_count() > 0);
        self.others.insert(called.id(object), Other { recorded, is_there });
    }

    /// The object in the capture, if it is there.
    pub(crate) fn find<T: Known + ?Sized>(&self, called: &Called<'_>, object: &Arc<T>) -> Option<Recorded> {
        match called.note_of(object) {
            Some(note) => Recorded::of(note.load(Ordering::Relaxed)),
            None => self.others.get(&called.id(object)).map(|other| other.recorded),
        }
    }

    /// Forgets what there is of an object that is not called any more.
    pub(crate) fn remove(&mut self, id: ObjectId) {
        self.functions.remove(&id);
        self.files.remove(&id);
    }

    /// Notes the functions of an executable.
    pub(crate) fn add_functions(&mut self, executable: ObjectId, functions: Vec<u64>) {
        self.functions.insert(executable, functions);
    }

    /// The ordinal of a function of an executable.
    pub(crate) fn function(&self, executable: ObjectId, function: u64) -> Option<u32> {
        let functions = self.functions.get(&executable)?;
        // Most drivers count them in this order.
        let first = usize::try_from(function).ok().filter(|index| functions.get(*index) == Some(&function));
        let index = first.or_else(|| functions.iter().position(|other| *other == function))?;
        u32::try_from(index).ok()
    }

    /// Notes a file whose bytes are in its reads.
    pub(crate) fn add_file(&mut self, file: ObjectId, bytes: Arc<FileBytes>) {
        self.files.insert(file, bytes);
    }

    /// The bytes of such a file.
    pub(crate) fn file(&self, file: ObjectId) -> Option<&Arc<FileBytes>> {
        self.files.get(&file)
    }
}

/// The type of an object of the HAL, which has the same name there.
pub(crate) const fn object_type(kind: &str) -> ObjectType {
    let mut index = 0;
    while index < ObjectType::NAMED.len() {
        let (object_type, name) = ObjectType::NAMED[index];
        if is_same(name.as_bytes(), kind.as_bytes()) {
            return object_type;
        }
        index += 1;
    }
    ObjectType::NONE
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}
