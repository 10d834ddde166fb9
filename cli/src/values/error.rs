//! The errors of values on the command line and in files. The other modules of `values` return them, and commands print
//! them.

use std::io;

use vireo::inference::{NumberError, TensorTextError};
use vireo::vm::Kind;
use vireo::{Status, StatusCode};

/// Why a value was refused.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// Nothing was given.
    #[error(
        "the value is empty; expected `(null)`, a scalar, a tensor like `2x2xf32=1,2,3,4`, or a file like `@input.npy`"
    )]
    Empty,
    /// More values than the function takes or returns.
    #[error("expected no more than {expected} of them")]
    TooMany {
        /// How many there are.
        expected: usize,
    },
    /// A scalar that is not one.
    #[error("`{text}` is not of type {expected}: {reason}")]
    Scalar {
        /// The text that was given.
        text: String,
        /// `i32`, `f64`, ...
        expected: &'static str,
        /// Why not.
        reason: NumberError,
    },
    /// A tensor or a file for a scalar.
    #[error("expected {}, got {got}", scalar_or_reference(*.kind))]
    Kind {
        /// The kind that the function takes.
        kind: Kind,
        /// The kind of value that was given.
        got: &'static str,
    },
    /// A text that is not a tensor.
    #[error("{0}{hint}", hint = limit_hint(.0))]
    Text(TensorTextError),
    /// The array in a file is another one than was asked for.
    #[error("the array in `{path}` is {found}; expected {expected}, or bytes without a type of that shape and width")]
    Array {
        /// As given.
        path: String,
        /// The type of the array.
        found: String,
        /// The type that was given.
        expected: String,
    },
    /// A file operation failed.
    #[error("cannot {action} `{path}`")]
    File {
        /// `open`, `read`, `write`.
        action: &'static str,
        /// As given.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A file ends early.
    #[error("`{path}` ends at byte {offset} after {found} of {needed} bytes of {what}")]
    ShortFile {
        /// As given.
        path: String,
        /// Where the file ends.
        offset: u64,
        /// Bytes that were there.
        found: u64,
        /// Bytes that were needed.
        needed: u64,
        /// Their purpose.
        what: String,
    },
    /// A file without a header that has more than its values.
    #[error("{left} bytes of `{path}` are left; expected values that take all of it, or `+{path}` for the next value")]
    Unread {
        /// As given.
        path: String,
        /// Bytes that no value has read.
        left: u64,
    },
    /// An argument that is not given.
    #[error("`(ignored)` is for expected results; expected a value, or `(null)` for none")]
    IgnoredInput,
    /// A file without a type that is not `.npy`.
    #[error("`{0}` has no type; expected a .npy, .npz or .safetensors file, or a type before it, like `4xf32=@{0}`")]
    UntypedFile(String),
    /// An array in a `.npy` file is not supported or malformed.
    #[error("`{path}`, array at byte {offset}")]
    Npy {
        /// As given.
        path: String,
        /// Where the array begins.
        offset: u64,
        /// The error in it.
        source: Status,
    },
    /// A file with several tensors that is damaged or cannot be read.
    #[error("cannot use `{path}`")]
    Archive {
        /// As given.
        path: String,
        /// The error in it.
        source: Status,
    },
    /// A tensor in a file is too large.
    #[error("a tensor in `{path}` is too large; --max-tensor-bytes raises the limit")]
    LargeFile {
        /// As given.
        path: String,
        /// How large it is.
        source: Status,
    },
    /// A file with several tensors cannot be appended to.
    #[error("`{0}` cannot be appended to; expected `@{0}` once for each result that belongs in it")]
    Append(String),
    /// Bytes that do not make a tensor.
    #[error("cannot make a tensor")]
    Tensor(#[source] Status),
    /// A result that cannot be printed.
    #[error("cannot print a result")]
    Print(#[from] Status),
    /// A wrong `--output` value.
    #[error("`{0}` is not an output; expected nothing, `-`, `@file` to overwrite or `+file` to append")]
    Output(String),
    /// A result without a file form.
    #[error("results of type !{0} have no file form; expected a number, !hal.buffer_view, !hal.buffer or !vm.buffer")]
    NotWritable(String),
    /// The wrong number of `--output` flags.
    #[error("{given} outputs are given, but the function returns {returned}; expected one --output for each result")]
    OutputCount {
        /// Number of flags.
        given: usize,
        /// Number of results.
        returned: usize,
    },
}

impl ValueError {
    /// Whether it is about a file, and would be the same whatever the function takes and returns.
    pub fn is_about_file(&self) -> bool {
        matches!(
            self,
            ValueError::File { .. }
                | ValueError::ShortFile { .. }
                | ValueError::Npy { .. }
                | ValueError::Archive { .. }
                | ValueError::LargeFile { .. }
                | ValueError::Append(_)
                | ValueError::Output(_)
        )
    }

    /// The failure of the library to read a tensor from a file: `other`, unless the tensor is larger than the flag
    /// allows.
    pub fn of_file(path: String, source: Status, other: impl FnOnce(String, Status) -> ValueError) -> ValueError {
        match source.code() {
            StatusCode::ResourceExhausted => ValueError::LargeFile { path, source },
            _ => other(path, source),
        }
    }
}

fn scalar_or_reference(kind: Kind) -> String {
    match kind {
        Kind::Ref => "a tensor or `(null)`".into(),
        kind => format!("an {} like `1`", kind.name()),
    }
}

/// Its text is part of that of the value, so it is no further cause.
impl From<TensorTextError> for ValueError {
    fn from(error: TensorTextError) -> ValueError {
        ValueError::Text(error)
    }
}

/// A hint for a tensor that is larger than a flag allows.
fn limit_hint(error: &TensorTextError) -> &'static str {
    match error {
        TensorTextError::TooLarge { .. } => "; --max-tensor-bytes raises it",
        _ => "",
    }
}
