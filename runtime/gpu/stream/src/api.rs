//! The failures of the functions of a library ([`ApiError`]), and the observer of its calls ([`Tracer`]).

use std::fmt;
use std::time::Instant;

use crate::status::{Status, StatusCode};

/// The meaning of a status of the library for a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Work that was asked about has not ended.
    Pending,
    /// The context is of no use any more, and neither is what was submitted to it.
    Lost,
    /// A failure of the call alone.
    Status(StatusCode),
}

/// A failure of a function of the library.
#[derive(Clone, Debug)]
pub struct ApiError {
    /// The function.
    pub function: &'static str,
    /// The status that it returned.
    pub code: u32,
    /// The meaning of that status.
    pub kind: FailureKind,
    /// The text that the library has for it; none for work that has not ended.
    pub text: Option<Box<str>>,
}

impl ApiError {
    /// The library lacks the function.
    #[cold]
    pub fn missing(function: &'static str) -> ApiError {
        let text = Some("the library has no such function".into());
        ApiError { function, code: 0, kind: FailureKind::Status(StatusCode::Unimplemented), text }
    }

    /// Whether work has not ended.
    pub fn is_pending(&self) -> bool {
        self.kind == FailureKind::Pending
    }

    /// Whether the context is lost.
    pub fn is_lost(&self) -> bool {
        self.kind == FailureKind::Lost
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.as_deref().unwrap_or("work has not ended");
        write!(f, "{} returned {}: {text}", self.function, self.code)
    }
}

impl From<ApiError> for Status {
    #[cold]
    fn from(error: ApiError) -> Status {
        let code = match error.kind {
            FailureKind::Pending => StatusCode::Unavailable,
            FailureKind::Lost => StatusCode::Internal,
            FailureKind::Status(code) => code,
        };
        Status::new(code, error.to_string())
    }
}

/// The result of a function of the library.
pub type ApiResult<T = ()> = Result<T, ApiError>;

/// An observer of the calls of a library.
pub trait Tracer: Send + Sync + 'static {
    /// A failure with which a call ends instead of reaching the library, for tests of what follows. It is told of that
    /// call as of others.
    fn refuses(&self, _function: &'static str) -> Option<ApiError> {
        None
    }

    /// A call that has returned: its function, when it began, its arguments as text, and its failure.
    fn call(&self, function: &'static str, began: Instant, arguments: fmt::Arguments<'_>, failure: Option<&ApiError>);
}

/// A library whose calls are observed.
#[derive(Debug)]
pub struct Traced<A> {
    pub(crate) api: A,
    pub(crate) tracer: Box<dyn Tracer>,
}

impl<A> Traced<A> {
    /// The library, with an observer of its calls.
    pub fn new(api: A, tracer: Box<dyn Tracer>) -> Traced<A> {
        Traced { api, tracer }
    }
}

impl fmt::Debug for dyn Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tracer")
    }
}
