//! Files over storage of the host, its memory or file descriptors, which drivers import for `Device::import_file`.
//!
//! Both are read and written on the thread that runs the operation.

use std::any::Any;
use std::sync::Arc;

use crate::hal::transfer::unwatched::buffer_copy;
use crate::hal::{Buffer, BufferUsage, ExternalFile, ExternalFileType, File, HeapBuffer, MemoryAccess, MemoryType};
use crate::status::{Result, Status};

/// Makes a file over storage that the caller owns.
///
/// # Errors
/// `INVALID_ARGUMENT` for storage that is not there, `PERMISSION_DENIED` for access that a descriptor does not allow,
/// and those of the system.
///
/// # Safety
/// As `Device::import_file` requires.
pub unsafe fn import(access: MemoryAccess, external: &ExternalFile) -> Result<Arc<dyn File>> {
    match external.r#type {
        // SAFETY: the caller guarantees that the memory is there, and may be accessed so, as long as its owner.
        ExternalFileType::HostAllocation => unsafe { memory(access, external) },
        // SAFETY: the caller guarantees that the descriptor is open.
        ExternalFileType::Fd => unsafe { descriptor::import(access, external) },
    }
}

/// Checks that the file may be accessed so.
fn require(allowed: MemoryAccess, access: MemoryAccess) -> Result<()> {
    if allowed.contains(access) {
        return Ok(());
    }
    Err(Status::permission_denied(format!("the file does not allow {access:?}: it allows {allowed:?}")))
}

/// Memory as a file. The buffer over it does the work.
#[derive(Debug)]
struct MemoryFile {
    storage: Arc<dyn Buffer>,
    access: MemoryAccess,
}

/// # Safety
/// As `Device::import_file` requires of a host allocation.
unsafe fn memory(access: MemoryAccess, external: &ExternalFile) -> Result<Arc<dyn File>> {
    let data = external.data.ok_or_else(|| Status::invalid_argument("the memory of a file is null"))?;
    let owner = external.owner.clone().unwrap_or_else(|| Arc::new(()) as Arc<dyn Any + Send + Sync>);
    let memory_type = MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE;
    let usage = BufferUsage::TRANSFER | BufferUsage::MAPPING | BufferUsage::MAPPING_PERSISTENT;
    // SAFETY: the caller guarantees that the memory is there, and may be accessed so, as long as its owner.
    let storage = unsafe { HeapBuffer::wrap(owner, data, external.length, memory_type, access, usage) };
    Ok(Arc::new(MemoryFile { storage: Arc::new(storage), access }))
}

impl File for MemoryFile {
    fn allowed_access(&self) -> MemoryAccess {
        self.access
    }

    fn length(&self) -> u64 {
        self.storage.byte_length()
    }

    fn storage_buffer(&self) -> Option<Arc<dyn Buffer>> {
        Some(self.storage.clone())
    }

    fn async_handle(&self) -> Result<i32> {
        Ok(-1)
    }

    fn supports_synchronous_io(&self) -> bool {
        true
    }

    fn read(&self, file_offset: u64, buffer: &Arc<dyn Buffer>, buffer_offset: u64, length: u64) -> Result<()> {
        require(self.access, MemoryAccess::READ)?;
        buffer_copy(&*self.storage, file_offset, &**buffer, buffer_offset, length)
    }

    fn write(&self, file_offset: u64, buffer: &Arc<dyn Buffer>, buffer_offset: u64, length: u64) -> Result<()> {
        require(self.access, MemoryAccess::WRITE)?;
        buffer_copy(&**buffer, buffer_offset, &*self.storage, file_offset, length)
    }
}

#[cfg(unix)]
mod descriptor {
    //! Files over file descriptors.

    use std::fs;
    use std::io::{self, ErrorKind};
    use std::os::fd::{AsRawFd, BorrowedFd};
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    use super::require;
    use crate::hal::transfer::unwatched::buffer_write;
    use crate::hal::{Buffer, ExternalFile, File, MemoryAccess, buffer_read, check_range};
    use crate::limits::scope;
    use crate::status::{Result, Status, StatusCode};

    /// Bytes that are copied at a time.
    const CHUNK: u64 = 1 << 18;

    /// A file over a duplicate of a descriptor, so the original may be closed.
    #[derive(Debug)]
    struct DescriptorFile {
        file: fs::File,
        access: MemoryAccess,
        length: u64,
    }

    /// # Safety
    /// As `Device::import_file` requires of a file descriptor.
    pub(super) unsafe fn import(access: MemoryAccess, external: &ExternalFile) -> Result<Arc<dyn File>> {
        if external.fd < 0 {
            return Err(Status::invalid_argument(format!("{} is no file descriptor", external.fd)));
        }
        // SAFETY: the caller guarantees that it is open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(external.fd) };
        let file = fs::File::from(borrowed.try_clone_to_owned().map_err(|error| refused("duplicate", error))?);
        let length = file.metadata().map_err(|error| refused("ask for the length of", error))?.len();
        Ok(Arc::new(DescriptorFile { file, access, length }))
    }

    fn refused(what: &str, error: io::Error) -> Status {
        let code = match error.kind() {
            ErrorKind::NotFound => StatusCode::NotFound,
            ErrorKind::PermissionDenied => StatusCode::PermissionDenied,
            ErrorKind::UnexpectedEof => StatusCode::OutOfRange,
            _ => StatusCode::Unknown,
        };
        Status::new(code, format!("cannot {what} the file")).with_source(error)
    }

    impl DescriptorFile {
        /// Calls `copy` for one chunk after the other, with its offset in the file, its offset in the buffer, and
        /// memory for its bytes.
        fn in_chunks(
            &self,
            (file_offset, buffer_offset): (u64, u64),
            length: u64,
            mut copy: impl FnMut(u64, u64, &mut [u8]) -> Result<()>,
        ) -> Result<()> {
            let mut bytes = vec![0; length.min(CHUNK) as usize];
            let mut done = 0;
            while done < length {
                scope::check()?;
                let part = &mut bytes[..(length - done).min(CHUNK) as usize];
                copy(file_offset + done, buffer_offset + done, part)?;
                done += part.len() as u64;
            }
            Ok(())
        }
    }

    impl File for DescriptorFile {
        fn allowed_access(&self) -> MemoryAccess {
            self.access
        }

        fn length(&self) -> u64 {
            self.length
        }

        fn async_handle(&self) -> Result<i32> {
            Ok(self.file.as_raw_fd())
        }

        fn supports_synchronous_io(&self) -> bool {
            true
        }

        fn read(&self, file_offset: u64, buffer: &Arc<dyn Buffer>, buffer_offset: u64, length: u64) -> Result<()> {
            require(self.access, MemoryAccess::READ)?;
            let length = check_range(buffer.byte_length(), buffer_offset, length)?;
            check_range(self.length, file_offset, length).map_err(|status| status.context("file"))?;
            self.in_chunks((file_offset, buffer_offset), length, |file_offset, buffer_offset, bytes| {
                self.file.read_exact_at(bytes, file_offset).map_err(|error| refused("read", error))?;
                buffer_write(&**buffer, buffer_offset, bytes)
            })
        }

        fn write(&self, file_offset: u64, buffer: &Arc<dyn Buffer>, buffer_offset: u64, length: u64) -> Result<()> {
            require(self.access, MemoryAccess::WRITE)?;
            let length = check_range(buffer.byte_length(), buffer_offset, length)?;
            check_range(self.length, file_offset, length).map_err(|status| status.context("file"))?;
            self.in_chunks((file_offset, buffer_offset), length, |file_offset, buffer_offset, bytes| {
                buffer_read(&**buffer, buffer_offset, bytes)?;
                self.file.write_all_at(bytes, file_offset).map_err(|error| refused("write", error))
            })
        }
    }
}

#[cfg(not(unix))]
mod descriptor {
    //! There are no file descriptors.

    use std::sync::Arc;

    use crate::hal::{ExternalFile, File, MemoryAccess};
    use crate::status::{Result, Status};

    /// # Safety
    /// There is nothing to guarantee.
    pub(super) unsafe fn import(_access: MemoryAccess, _external: &ExternalFile) -> Result<Arc<dyn File>> {
        Err(Status::unimplemented("`device.import_file` of a file descriptor is not supported on this platform"))
    }
}
