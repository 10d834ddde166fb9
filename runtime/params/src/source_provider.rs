//! The provider of a source ([`SourceProvider`]): parameters from the host's own code, such as a database, a network,
//! or computed values.

use std::fmt;
use std::sync::Arc;

use super::contents::Contents;
use super::locator::{Location, Locator, provide_by_location};
use crate::hal::{
    Buffer, Device, File, MemoryAccess, ParameterProvider, QueueAffinity, buffer_read, buffer_write, check_range,
};
use crate::status::{Result, Status};

/// Bytes that are read or written at a time.
const CHUNK: u64 = 1 << 20;

/// A source of parameters. Its methods are called on the threads that run queues.
///
/// ```
/// use vireo::io::{ParameterSource, SourceProvider};
/// use vireo::modules::io_parameters::IoParameters;
/// use vireo::vm::Module;
///
/// /// Parameters that are all ones.
/// #[derive(Debug)]
/// struct Ones;
///
/// impl ParameterSource for Ones {
///     fn length(&self, key: &str) -> Option<u64> {
///         (key == "bias").then_some(16)
///     }
///
///     fn read(&self, _key: &str, _offset: u64, out: &mut [u8]) -> vireo::Result<()> {
///         out.fill(1);
///         Ok(())
///     }
/// }
///
/// # fn main() -> vireo::Result<()> {
/// let provider = SourceProvider::new("model", Ones);
/// let module = Module::native(IoParameters::new([provider.into()]))?;
/// # Ok(())
/// # }
/// ```
pub trait ParameterSource: fmt::Debug + Send + Sync + 'static {
    /// The length of a parameter in bytes; none if there is no parameter `key`.
    fn length(&self, key: &str) -> Option<u64>;

    /// Copies the bytes at `offset` to `out`. The range is within the parameter.
    ///
    /// # Errors
    /// Any failure; the program gets it where it waits for the parameter.
    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Replaces the bytes at `offset`. The range is within the parameter.
    ///
    /// # Errors
    /// As [`ParameterSource::read`]; `PERMISSION_DENIED` unless it is overridden.
    fn write(&self, key: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let _ = (offset, bytes);
        Err(Status::permission_denied(format!("parameter `{}` cannot be written", key.escape_debug())))
    }
}

/// Provides the parameters of a source as one scope.
#[derive(Debug)]
pub struct SourceProvider {
    scope: String,
    source: Arc<dyn ParameterSource>,
}

impl SourceProvider {
    /// A provider of the scope called `scope`, which is empty for parameters without one.
    pub fn new(scope: impl Into<String>, source: impl ParameterSource) -> SourceProvider {
        SourceProvider { scope: scope.into(), source: Arc::new(source) }
    }
}

impl From<SourceProvider> for Arc<dyn ParameterProvider> {
    fn from(provider: SourceProvider) -> Self {
        Arc::new(provider)
    }
}

provide_by_location!(SourceProvider);

impl Locator for SourceProvider {
    fn scope(&self) -> &str {
        &self.scope
    }

    fn locate(&self, key: &str) -> Result<(u64, Location)> {
        let length = self.source.length(key).ok_or_else(|| {
            let (key, scope) = (key.escape_debug(), self.scope.escape_debug());
            Status::not_found(format!("scope `{scope}` has no parameter `{key}`"))
        })?;
        let file = SourceFile { source: self.source.clone(), key: key.into(), length };
        Ok((length, Location::File(Arc::new(file))))
    }

    fn file(&self, device: &Arc<dyn Device>, affinity: QueueAffinity, contents: &Contents) -> Result<Arc<dyn File>> {
        contents.import(&**device, affinity)
    }
}

/// A parameter of a source as a file that queues read and write.
#[derive(Debug)]
struct SourceFile {
    source: Arc<dyn ParameterSource>,
    key: String,
    length: u64,
}

impl SourceFile {
    /// Calls `copy` for one chunk of a range after the other, with its offset from the start and memory of its size.
    fn in_chunks(&self, offset: u64, length: u64, mut copy: impl FnMut(u64, &mut [u8]) -> Result<()>) -> Result<()> {
        check_range(self.length, offset, length)?;
        let mut chunk = vec![0; length.min(CHUNK) as usize];
        let mut done = 0;
        while done < length {
            let part = &mut chunk[..(length - done).min(CHUNK) as usize];
            copy(done, part)?;
            done += part.len() as u64;
        }
        Ok(())
    }
}

impl File for SourceFile {
    fn allowed_access(&self) -> MemoryAccess {
        MemoryAccess::READ | MemoryAccess::WRITE
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn async_handle(&self) -> Result<i32> {
        Ok(-1)
    }

    fn supports_synchronous_io(&self) -> bool {
        true
    }

    fn read(&self, file_offset: u64, buffer: &Arc<dyn Buffer>, buffer_offset: u64, length: u64) -> Result<()> {
        let length = check_range(buffer.byte_length(), buffer_offset, length)?;
        self.in_chunks(file_offset, length, |at, bytes| {
            self.source.read(&self.key, file_offset + at, bytes)?;
            buffer_write(&**buffer, buffer_offset + at, bytes)
        })
    }

    fn write(&self, file_offset: u64, buffer: &Arc<dyn Buffer>, buffer_offset: u64, length: u64) -> Result<()> {
        let length = check_range(buffer.byte_length(), buffer_offset, length)?;
        self.in_chunks(file_offset, length, |at, bytes| {
            buffer_read(&**buffer, buffer_offset + at, bytes)?;
            self.source.write(&self.key, file_offset + at, bytes)
        })
    }
}
