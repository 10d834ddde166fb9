//! Objects by their handles ([`Handles`]). A handle is a number that is never used again, so a wrong or old one is an
//! error and nothing worse.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The objects of one kind.
#[derive(Debug)]
pub struct Handles<T>(RwLock<(u64, BTreeMap<u64, Arc<T>>)>);

impl<T> Handles<T> {
    /// No objects; handles begin after `first`, so that those of different kinds differ.
    pub fn new(first: u64) -> Self {
        Handles(RwLock::new((first, BTreeMap::new())))
    }

    /// Adds an object.
    pub fn insert(&self, object: Arc<T>) -> u64 {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.0 += 1;
        let handle = all.0;
        all.1.insert(handle, object);
        handle
    }

    /// The object with this handle.
    pub fn get(&self, handle: u64) -> Option<Arc<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).1.get(&handle).cloned()
    }

    /// Removes an object.
    pub fn remove(&self, handle: u64) -> Option<Arc<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).1.remove(&handle)
    }

    /// All objects with their handles.
    pub fn all(&self) -> Vec<(u64, Arc<T>)> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.1.iter().map(|(handle, object)| (*handle, object.clone())).collect()
    }
}
