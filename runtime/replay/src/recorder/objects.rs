//! The numbers of objects in a capture ([`Objects`]). Buffers have theirs in the slots of their watches.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use vireo_hal_observe::observe::ObjectId;

use super::file::FileBytes;
use crate::generated::format::ObjectType;

/// An object of a capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    /// Its number.
    pub(crate) id: u64,
    /// That of its device.
    pub(crate) device: u64,
}

/// A buffer of a capture, as the number by which its watch knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    /// Its number.
    pub(crate) id: u64,
    /// That of its device.
    pub(crate) device: u64,
}

impl Allocation {
    /// Bits of the number of a buffer. No recording lasts until there are so many.
    const ID_BITS: u32 = 48;

    /// The number in its watch.
    pub(crate) fn number(self) -> u64 {
        self.device << Self::ID_BITS | self.id
    }

    /// The buffer with this number in its watch.
    pub(crate) fn of(number: u64) -> Allocation {
        Allocation { id: number & ((1 << Self::ID_BITS) - 1), device: number >> Self::ID_BITS }
    }
}

/// The objects of a capture that may still be called.
#[derive(Debug)]
pub(crate) struct Objects {
    last: u64,
    recorded: HashMap<Key, Recorded, BuildHasherDefault<Mix>>,
    /// The numbers that drivers give to the functions of an executable, in the order of its metadata.
    functions: HashMap<u64, Vec<u64>, BuildHasherDefault<Mix>>,
    /// Files whose bytes are in their reads.
    files: HashMap<u64, Arc<FileBytes>, BuildHasherDefault<Mix>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key(u64);

impl Key {
    fn of(id: ObjectId) -> Key {
        // There are a dozen kinds, and never that many objects.
        Key(u64::from(object_type(id.kind).0) << 56 ^ id.number)
    }
}

/// Numbers count from one, so they need no better hash.
#[derive(Debug, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        // An odd number without a pattern, so that high bits, which tables look at, differ as well.
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Objects {
    pub(crate) fn new() -> Objects {
        Objects { last: 0, recorded: HashMap::default(), functions: HashMap::default(), files: HashMap::default() }
    }

    /// The number of a new object.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Notes the number of an object.
    pub(crate) fn add(&mut self, id: ObjectId, recorded: Recorded) {
        self.recorded.insert(Key::of(id), recorded);
    }

    /// The number of an object.
    pub(crate) fn find(&self, id: ObjectId) -> Option<Recorded> {
        self.recorded.get(&Key::of(id)).copied()
    }

    /// Forgets an object that is not called any more.
    pub(crate) fn remove(&mut self, id: ObjectId) {
        if let Some(recorded) = self.recorded.remove(&Key::of(id)) {
            self.functions.remove(&recorded.id);
            self.files.remove(&recorded.id);
        }
    }

    /// Notes the functions of an executable.
    pub(crate) fn add_functions(&mut self, executable: u64, functions: Vec<u64>) {
        self.functions.insert(executable, functions);
    }

    /// The ordinal of a function of an executable.
    pub(crate) fn function(&self, executable: ObjectId, function: u64) -> Option<u32> {
        let functions = self.functions.get(&self.find(executable)?.id)?;
        // Most drivers count them in this order.
        let first = usize::try_from(function).ok().filter(|index| functions.get(*index) == Some(&function));
        let index = first.or_else(|| functions.iter().position(|other| *other == function))?;
        u32::try_from(index).ok()
    }

    /// Notes a file whose bytes are in its reads.
    pub(crate) fn add_file(&mut self, file: u64, bytes: Arc<FileBytes>) {
        self.files.insert(file, bytes);
    }

    /// The bytes of such a file.
    pub(crate) fn file(&self, file: u64) -> Option<&Arc<FileBytes>> {
        self.files.get(&file)
    }
}

/// The type of an object of the HAL, which has the same name there.
pub(crate) fn object_type(kind: &str) -> ObjectType {
    ObjectType::NAMED.iter().find(|(_, name)| *name == kind).map_or(ObjectType::NONE, |(object_type, _)| *object_type)
}
