//! Operations of captures: the records that stand for methods of the HAL.

use crate::generated::format::ObjectType;
use crate::generated::operations::OPERATIONS;

/// The way in which a replay treats a record whose status is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It calls the method.
    Call,
    /// It goes on with the next record.
    Skip,
    /// It cannot go on.
    Refuse,
    /// It tells who measures scopes.
    Scope,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// `device.queue_fill`
    pub name: &'static str,
    /// Its number.
    pub code: u32,
    /// The number of its payload; 0 if it has none.
    pub payload: u32,
    /// The number of another payload that it may have; 0 if there is none.
    pub or: u32,
    /// The method of the HAL that it stands for.
    pub method: Option<&'static str>,
    /// The way in which a replay treats it.
    pub replay: Replay,
    /// The type of the object that it makes.
    pub makes: Option<&'static str>,
}

impl Operation {
    /// The operation with this number.
    pub fn find(code: u32) -> Option<&'static Operation> {
        let index = OPERATIONS.binary_search_by_key(&code, |operation| operation.code).ok()?;
        OPERATIONS.get(index)
    }

    /// The type of the object that it is called on.
    pub(crate) fn receiver(&self) -> Option<ObjectType> {
        object_type(self.name.split('.').next()?)
    }

    /// The type of the object that it makes.
    pub(crate) fn made(&self) -> Option<ObjectType> {
        self.makes.and_then(object_type)
    }
}

fn object_type(name: &str) -> Option<ObjectType> {
    (1..=12).map(ObjectType).find(|object| object.name() == Some(name))
}
