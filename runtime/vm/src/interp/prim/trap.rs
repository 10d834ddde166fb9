//! [`Trap`]: why a primitive trapped. It is small and needs no allocation; it becomes a [`Status`] only where the trap
//! is reported.

use crate::limits::scope;
use crate::status::{Status, StatusCode};

/// The trap of a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// An integer was divided by zero.
    DivisionByZero,
    /// The least integer was divided by -1.
    DivisionOverflow,
    /// A buffer operand is null.
    NullBuffer,
    /// An operand is a reference to something else than a buffer, namely this type.
    NotABuffer(&'static str),
    /// A write to a read-only buffer.
    ReadOnly,
    /// A range of elements that is not inside a buffer.
    Elements {
        /// First element.
        index: u64,
        /// Number of elements.
        count: u64,
        /// Bytes of one element.
        size: u32,
        /// Bytes of the buffer.
        length: u64,
    },
    /// The time or the memory of the call is used up: [`Status`] says which.
    Limits,
    /// An access to the value globals that is not inside them.
    Globals {
        /// First byte.
        offset: u32,
        /// Bytes of the access.
        size: u32,
        /// Bytes of all value globals.
        length: u64,
    },
}

impl Trap {
    /// The status code.
    pub fn code(self) -> StatusCode {
        match self {
            Trap::DivisionByZero | Trap::NullBuffer | Trap::NotABuffer(_) => StatusCode::InvalidArgument,
            Trap::ReadOnly => StatusCode::PermissionDenied,
            Trap::Limits => StatusCode::ResourceExhausted,
            Trap::DivisionOverflow | Trap::Elements { .. } | Trap::Globals { .. } => StatusCode::OutOfRange,
        }
    }

    fn message(self) -> String {
        match self {
            Trap::DivisionByZero => "division by zero".to_string(),
            Trap::DivisionOverflow => "division overflow: the least integer divided by -1".to_string(),
            Trap::NullBuffer => "the buffer is null".to_string(),
            Trap::NotABuffer(name) => format!("expected a reference to !vm.buffer, got !{name}"),
            Trap::ReadOnly => "the buffer is read-only".to_string(),
            Trap::Limits => "a limit of the call is reached".to_string(),
            Trap::Elements { index, count, size, length } => {
                // As the program has them, in which they are signed.
                let (index, count) = (index.cast_signed(), count.cast_signed());
                format!("elements {index} to {index}+{count} of {size} bytes are outside the buffer's {length} bytes")
            }
            Trap::Globals { offset, size, length } => {
                let offset = offset.cast_signed();
                format!("an access of {size} bytes at {offset} is outside the {length} bytes of globals")
            }
        }
    }
}

impl From<Trap> for Status {
    #[cold]
    fn from(trap: Trap) -> Status {
        match trap {
            // Checking the limits again gives the status that names the one that is reached.
            Trap::Limits => scope::check().err(),
            _ => None,
        }
        .unwrap_or_else(|| Status::new(trap.code(), trap.message()))
    }
}
