//! Files over memory and descriptors of the host.

use std::ptr::NonNull;
use std::sync::Arc;

use vireo::hal::*;
use vireo::{Result, StatusCode};

use super::*;
#[cfg(not(unix))]
use crate::skip::{Need, skipped};

/// Memory of the test as a file.
pub fn memory_file(device: &dyn Device, bytes: &mut Arc<[u8]>, access: MemoryAccess) -> Arc<dyn File> {
    let external = ExternalFile {
        r#type: ExternalFileType::HostAllocation,
        data: NonNull::new(Arc::get_mut(bytes).unwrap().as_mut_ptr()),
        length: bytes.len() as u64,
        fd: -1,
        owner: Some(Arc::new(bytes.clone())),
    };
    // SAFETY: the owner keeps the bytes, and the test has no reference to them while queues use them.
    unsafe { device.import_file(ANY, access, &external, ExternalFileFlags::empty()) }.unwrap()
}

/// Reads bytes 2 to 6 of a file, and writes them to its beginning.
fn read_and_write_back(device: &dyn Device, file: &Arc<dyn File>) -> Result<Vec<u8>> {
    let (buffer, line) = (buffer_of(device, &[0; 8]), timeline(device));
    let first = [point(&line, 1)];
    device.queue_read(ANY, &[], &first, file, 2, &buffer, 1, 4, ReadFlags::empty())?;
    device.queue_write(ANY, &first, &[point(&line, 2)], &buffer, 1, file, 0, 4, WriteFlags::empty())?;
    line.wait(2, in_time())?;
    Ok(bytes_of(&*buffer))
}

fn refuses_what_is_not_there(device: &dyn Device, file: &Arc<dyn File>) {
    let buffer = buffer_of(device, &[0; 8]);
    for (file_offset, buffer_offset, length) in [(5, 0, 4), (u64::MAX, 0, 4), (0, 5, 4), (0, 0, u64::MAX - 1)] {
        let read = |signal: &[Timepoint]| {
            device.queue_read(ANY, &[], signal, file, file_offset, &buffer, buffer_offset, length, ReadFlags::empty())
        };
        assert_eq!(code(outcome(device, read)), StatusCode::OutOfRange);
        let write = |signal: &[Timepoint]| {
            device.queue_write(ANY, &[], signal, &buffer, buffer_offset, file, file_offset, length, WriteFlags::empty())
        };
        assert_eq!(code(outcome(device, write)), StatusCode::OutOfRange);
        if file.supports_synchronous_io() {
            assert_eq!(code(file.read(file_offset, &buffer, buffer_offset, length)), StatusCode::OutOfRange);
            assert_eq!(code(file.write(file_offset, &buffer, buffer_offset, length)), StatusCode::OutOfRange);
        }
    }
}

pub fn memory_is_a_file(backend: &Backend) {
    let device = backend.device();
    let mut bytes: Arc<[u8]> = Arc::new([0, 1, 2, 3, 4, 5, 6, 7]);
    let file = memory_file(&*device, &mut bytes, MemoryAccess::READ | MemoryAccess::WRITE);
    assert_eq!((file.length(), file.async_handle().unwrap()), (8, -1));
    assert_eq!(file.allowed_access(), MemoryAccess::READ | MemoryAccess::WRITE);
    if let Some(storage) = file.storage_buffer() {
        assert_eq!(bytes_of(&*storage), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
    assert_eq!(read_and_write_back(&*device, &file).unwrap(), [0, 2, 3, 4, 5, 0, 0, 0]);
    refuses_what_is_not_there(&*device, &file);
    drop(file);
    assert_eq!(*bytes, [2, 3, 4, 5, 4, 5, 6, 7]);
    // A queue may take a moment to give back what it used.
    while Arc::strong_count(&bytes) > 1 {
        std::thread::yield_now();
    }
}

pub fn files_allow_what_they_were_imported_for(backend: &Backend) {
    let device = backend.device();
    let mut bytes: Arc<[u8]> = Arc::new([0, 1, 2, 3, 4, 5, 6, 7]);
    let file = memory_file(&*device, &mut bytes, MemoryAccess::READ);
    assert_eq!(code(read_and_write_back(&*device, &file)), StatusCode::PermissionDenied);
    let mut bytes: Arc<[u8]> = Arc::new([0, 1, 2, 3, 4, 5, 6, 7]);
    let file = memory_file(&*device, &mut bytes, MemoryAccess::WRITE);
    assert_eq!(code(read_and_write_back(&*device, &file)), StatusCode::PermissionDenied);
    let nowhere = ExternalFile { r#type: ExternalFileType::HostAllocation, data: None, length: 4, fd: -1, owner: None };
    // SAFETY: there is no memory.
    let imported = unsafe { device.import_file(ANY, MemoryAccess::READ, &nowhere, ExternalFileFlags::empty()) };
    assert_eq!(code(imported), StatusCode::InvalidArgument);
}

#[cfg(not(unix))]
pub fn descriptors_are_files(backend: &Backend) {
    skipped(Need::Platform("unix"), format_args!("{}: there are no file descriptors", backend.name));
}

#[cfg(unix)]
pub fn descriptors_are_files(backend: &Backend) {
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;

    let device = backend.device();
    let mut host = tempfile::tempfile().unwrap();
    host.write_all(&[0, 1, 2, 3, 4, 5, 6, 7]).unwrap();
    let external =
        ExternalFile { r#type: ExternalFileType::Fd, data: None, length: 0, fd: host.as_raw_fd(), owner: None };
    let access = MemoryAccess::READ | MemoryAccess::WRITE;
    // SAFETY: the descriptor is open.
    let import =
        |external: &ExternalFile| unsafe { device.import_file(ANY, access, external, ExternalFileFlags::empty()) };
    let file = import(&external).unwrap();
    assert_eq!(file.length(), 8);
    assert_eq!(read_and_write_back(&*device, &file).unwrap(), [0, 2, 3, 4, 5, 0, 0, 0]);
    refuses_what_is_not_there(&*device, &file);
    let mut bytes = Vec::new();
    host.rewind().unwrap();
    host.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [2, 3, 4, 5, 4, 5, 6, 7]);
    assert_eq!(code(import(&ExternalFile { fd: -1, ..external })), StatusCode::InvalidArgument);
}
