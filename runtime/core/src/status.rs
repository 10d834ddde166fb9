//! The error of every operation: a code, a message, its cause, and where in which VM frames it happened.

use std::fmt;
use std::sync::Arc;

/// `Result` with a [`Status`] as its error.
pub type Result<T, E = Status> = std::result::Result<T, E>;

/// The canonical status codes, with the numbers that modules and kernels use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum StatusCode {
    /// The operation was cancelled, typically by its caller.
    Cancelled = 1,
    /// An error without a better code, or one that carried an unknown code.
    Unknown = 2,
    /// An argument is invalid whatever the state of the system.
    InvalidArgument = 3,
    /// A deadline passed before the operation completed.
    DeadlineExceeded = 4,
    /// Something that was asked for does not exist.
    NotFound = 5,
    /// Something that was to be created exists already.
    AlreadyExists = 6,
    /// The caller may not do this, such as writing to a read-only buffer.
    PermissionDenied = 7,
    /// A resource ran out: memory, stack, fuel.
    ResourceExhausted = 8,
    /// The system is not in the state that the operation needs.
    FailedPrecondition = 9,
    /// The operation was aborted by the system.
    Aborted = 10,
    /// An offset, index or range is outside what it applies to.
    OutOfRange = 11,
    /// The operation is not supported here.
    Unimplemented = 12,
    /// An invariant is broken; a bug in the program or in the runtime.
    Internal = 13,
    /// Temporarily not available; trying again may help.
    Unavailable = 14,
    /// Data is lost or corrupt.
    DataLoss = 15,
    /// The caller is not authenticated.
    Unauthenticated = 16,
    /// The operation has not completed and will be resumed.
    Deferred = 17,
    /// The two parts are incompatible, such as versions.
    Incompatible = 18,
}

impl StatusCode {
    const ALL: [(StatusCode, &'static str); 18] = [
        (StatusCode::Cancelled, "CANCELLED"),
        (StatusCode::Unknown, "UNKNOWN"),
        (StatusCode::InvalidArgument, "INVALID_ARGUMENT"),
        (StatusCode::DeadlineExceeded, "DEADLINE_EXCEEDED"),
        (StatusCode::NotFound, "NOT_FOUND"),
        (StatusCode::AlreadyExists, "ALREADY_EXISTS"),
        (StatusCode::PermissionDenied, "PERMISSION_DENIED"),
        (StatusCode::ResourceExhausted, "RESOURCE_EXHAUSTED"),
        (StatusCode::FailedPrecondition, "FAILED_PRECONDITION"),
        (StatusCode::Aborted, "ABORTED"),
        (StatusCode::OutOfRange, "OUT_OF_RANGE"),
        (StatusCode::Unimplemented, "UNIMPLEMENTED"),
        (StatusCode::Internal, "INTERNAL"),
        (StatusCode::Unavailable, "UNAVAILABLE"),
        (StatusCode::DataLoss, "DATA_LOSS"),
        (StatusCode::Unauthenticated, "UNAUTHENTICATED"),
        (StatusCode::Deferred, "DEFERRED"),
        (StatusCode::Incompatible, "INCOMPATIBLE"),
    ];

    /// The code with number `value`, if there is one. Zero, "ok", is not an error and has no code.
    pub fn from_number(value: u32) -> Option<StatusCode> {
        Self::ALL.iter().map(|(code, _)| *code).find(|code| *code as u32 == value)
    }

    /// The name as other tools print it, such as `OUT_OF_RANGE`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(code, _)| *code == self).map_or("UNKNOWN", |(_, name)| name)
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A VM frame that was active when an error occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacktraceFrame {
    /// The module's name.
    pub module: String,
    /// The function's name, or its ordinal if the module names none.
    pub function: String,
    /// Byte offset of the op from the start of the function; none in native functions.
    pub offset: Option<u32>,
    /// Mnemonic of the op; empty in native functions.
    pub op: &'static str,
    /// Source location from the module's debug database, such as `model.mlir:3:10`.
    pub location: Option<String>,
}

impl fmt::Display for BacktraceFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}.{}", self.module, self.function)?;
        if let Some(offset) = self.offset {
            write!(f, "+{offset:#x}")?;
        }
        if !self.op.is_empty() {
            write!(f, " ({})", self.op)?;
        }
        if let Some(location) = &self.location {
            write!(f, " {location}")?;
        }
        Ok(())
    }
}

/// An error. Cheap to clone: a failed semaphore hands the same status to every waiter.
#[derive(Clone)]
pub struct Status(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    code: StatusCode,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    backtrace: Vec<BacktraceFrame>,
}

impl Status {
    /// A status with `code` and `message`.
    #[cold]
    pub fn new(code: StatusCode, message: impl Into<String>) -> Status {
        Status(Arc::new(Inner { code, message: message.into(), source: None, backtrace: Vec::new() }))
    }

    /// The same status with `source` as its cause.
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Status {
        Arc::make_mut(&mut self.0).source = Some(Arc::new(source));
        self
    }

    /// The same status with `context` in front of its message: `context: message`.
    pub fn context(mut self, context: impl fmt::Display) -> Status {
        let inner = Arc::make_mut(&mut self.0);
        inner.message = match inner.message.as_str() {
            "" => context.to_string(),
            message => format!("{context}: {message}"),
        };
        self
    }

    /// The same status with one more (outer) frame at the end of its backtrace.
    pub fn with_frame(mut self, frame: BacktraceFrame) -> Status {
        Arc::make_mut(&mut self.0).backtrace.push(frame);
        self
    }

    /// The code.
    pub fn code(&self) -> StatusCode {
        self.0.code
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The active VM frames, innermost first.
    pub fn backtrace(&self) -> &[BacktraceFrame] {
        &self.0.backtrace
    }
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $code:ident,)*) => {
        impl Status {
            $($(#[$doc])* #[cold] pub fn $name(message: impl Into<String>) -> Status {
                Status::new(StatusCode::$code, message)
            })*
        }
    };
}

constructors! {
    /// An `INVALID_ARGUMENT` status.
    invalid_argument => InvalidArgument,
    /// An `OUT_OF_RANGE` status.
    out_of_range => OutOfRange,
    /// A `NOT_FOUND` status.
    not_found => NotFound,
    /// A `PERMISSION_DENIED` status.
    permission_denied => PermissionDenied,
    /// A `RESOURCE_EXHAUSTED` status.
    resource_exhausted => ResourceExhausted,
    /// A `FAILED_PRECONDITION` status.
    failed_precondition => FailedPrecondition,
    /// An `UNIMPLEMENTED` status.
    unimplemented => Unimplemented,
    /// An `INTERNAL` status.
    internal => Internal,
    /// An `INCOMPATIBLE` status.
    incompatible => Incompatible,
    /// A `DATA_LOSS` status.
    data_loss => DataLoss,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.message.as_str() {
            "" => self.0.code.fmt(f),
            message => write!(f, "{}: {message}", self.0.code),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        for frame in self.backtrace() {
            write!(f, "\n  {frame}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Status {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_without_a_message_ends_with_its_code_or_context() {
        let status = Status::internal("");
        assert_eq!(status.to_string(), "INTERNAL");
        assert_eq!(status.context("while testing").to_string(), "INTERNAL: while testing");
        assert_eq!(Status::internal("why").context("where").to_string(), "INTERNAL: where: why");
    }
}
