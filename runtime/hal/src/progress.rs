//! Progress of what can take long while a program is loaded: reading parameters, verifying and compiling kernels. Tools show it.

use std::fmt;

/// Progress of what can take long, reported on the threads that do it.
pub trait Progress: fmt::Debug + Send + Sync {
    /// `bytes` more bytes are going to be worked on.
    fn scheduled(&self, bytes: u64);
    /// `bytes` of them are done.
    fn done(&self, bytes: u64);
}
