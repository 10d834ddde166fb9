//! The API of a library over a software GPU, as far as this crate has to know it ([`Api`]).

use std::fmt;

/// Why something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An argument is null, or has a value that it cannot have.
    InvalidArgument,
    /// An address is in no allocation, or in one that it may not be in.
    InvalidAllocation,
    /// There is not enough memory, or of something else.
    OutOfResources,
    /// It is in use still.
    InUse,
}

/// An API.
pub trait Api: fmt::Debug + Default + 'static {
    /// The type that its functions return.
    type Status: Copy + PartialEq + fmt::Debug;

    /// The status of a refusal.
    fn status(refusal: Refusal) -> Self::Status;
}
