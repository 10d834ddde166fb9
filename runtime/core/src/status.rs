//! [`Status`]: the error type of all crates, with a code, a message, a cause, and a backtrace of VM frames.

use crate::visible_text::{visible, visible_lines};
use std::fmt;
use std::sync::Arc;

pub use crate::generated::status::StatusCode;

/// `Result` with a [`Status`] as its error.
pub type Result<T, E = Status> = std::result::Result<T, E>;

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
        write!(f, "at {}.{}", visible(&self.module), visible(&self.function))?;
        if let Some(offset) = self.offset {
            write!(f, "+{offset:#x}")?;
        }
        if !self.op.is_empty() {
            write!(f, " ({})", self.op)?;
        }
        if let Some(location) = &self.location {
            write!(f, " {}", visible(location))?;
        }
        Ok(())
    }
}

/// An error. Cheap to clone: a failed semaphore passes the same status to all its subscribers.
#[derive(Clone)]
pub struct Status(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    code: StatusCode,
    message: String,
    trace: Backtrace,
}

/// The VM frames of a [`Status`], innermost first, as a link of its chain of sources: between the status and its cause.
/// So reports that print the chain, such as those of `anyhow` and `eyre`, have them, although the text of the status is
/// one line. It displays a frame a line.
#[derive(Clone)]
pub struct Backtrace {
    frames: Vec<BacktraceFrame>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Backtrace {
    /// The frames, innermost first.
    pub fn frames(&self) -> &[BacktraceFrame] {
        &self.frames
    }
}

impl fmt::Display for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, frame) in self.frames.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            frame.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Backtrace {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl Status {
    /// A status with `code` and `message`.
    #[cold]
    pub fn new(code: StatusCode, message: impl Into<String>) -> Status {
        let trace = Backtrace { frames: Vec::new(), source: None };
        Status(Arc::new(Inner { code, message: message.into(), trace }))
    }

    /// The same status with `source` as its cause.
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Status {
        Arc::make_mut(&mut self.0).trace.source = Some(Arc::new(source));
        self
    }

    /// The same status with another message.
    pub fn with_message(mut self, message: impl Into<String>) -> Status {
        Arc::make_mut(&mut self.0).message = message.into();
        self
    }

    /// The same status with `context` before its message: `context: message`.
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
        Arc::make_mut(&mut self.0).trace.frames.push(frame);
        self
    }

    /// The code.
    pub fn code(&self) -> StatusCode {
        self.0.code
    }

    /// The description of the failure.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The active VM frames, innermost first.
    pub fn backtrace(&self) -> &[BacktraceFrame] {
        &self.0.trace.frames
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

/// The code and the message. Characters of the message that change how others are shown are escaped, but for line ends
/// and tabs.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.message.as_str() {
            "" => self.0.code.fmt(f),
            message => write!(f, "{}: {}", self.0.code, visible_lines(message)),
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

/// The source is the [`Backtrace`], whose source is the cause; the cause itself if no frame was active.
impl std::error::Error for Status {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let trace = &self.0.trace;
        if trace.frames.is_empty() { trace.source() } else { Some(trace) }
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

    #[test]
    fn the_chain_of_sources_has_the_frames_before_the_cause() {
        let frame = |function: &str, offset| BacktraceFrame {
            module: "module".into(),
            function: function.into(),
            offset: Some(offset),
            op: "call",
            location: None,
        };
        let chain = |status: &Status| {
            let mut texts = Vec::new();
            let mut next: Option<&dyn std::error::Error> = Some(status);
            while let Some(error) = next {
                texts.push(error.to_string());
                next = error.source();
            }
            texts
        };
        let status = Status::internal("why").with_source(Status::data_loss("bits"));
        assert_eq!(chain(&status), ["INTERNAL: why", "DATA_LOSS: bits"]);
        let status = status.with_frame(frame("inner", 1)).with_frame(frame("outer", 26));
        let frames = "at module.inner+0x1 (call)\nat module.outer+0x1a (call)";
        assert_eq!(chain(&status), ["INTERNAL: why", frames, "DATA_LOSS: bits"]);
        assert_eq!(status.backtrace().len(), 2);
        let trace = std::error::Error::source(&status).and_then(|source| source.downcast_ref::<Backtrace>());
        assert_eq!(trace.map(Backtrace::frames), Some(status.backtrace()));
    }
}
