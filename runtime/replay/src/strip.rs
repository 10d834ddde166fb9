//! Removal of the data of a program, and of the paths of the machine that it ran on, from the records of a capture.

use std::mem::offset_of;

use vireo_core::status::Result;

use crate::generated::dump::{PAYLOADS, payload};
use crate::generated::format::{FileReferenceType, FileValidationType, PRIVATE_PAYLOAD, RecordType};
use crate::generated::payloads::{
    AllocatorImportBufferParts, BufferObject, BufferRange, BufferRangeData, BufferRangeDataParts,
    CommandBufferUpdateBufferParts, DeviceQueueReadParts, DeviceQueueUpdateParts, ExecutableFunction,
    ExecutableMetadata, ExecutableMetadataParts, ExecutablePrepareParts, FileObject, FileObjectParts, RecordHeader,
};
use crate::plan::damaged;

/// Private parts that were removed from a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stripped {
    /// Bytes of data that are zero now.
    pub zeroed_bytes: u64,
    /// Expected outputs that are left out.
    pub expected: u64,
    /// Records that are left out, since their contents are not known.
    pub unknown: u64,
    /// Paths that are numbers now.
    pub paths: u64,
}

/// Clears the data of a record, and padding, which is what was in the memory of the program that was captured. False if
/// the record has to go.
pub(crate) fn strip_data(header: &RecordHeader, bytes: &mut [u8], stripped: &mut Stripped) -> Result<bool> {
    let kind = RecordType(header.record_type);
    if kind == RecordType::SESSION {
        // The payloads of other tools may hold anything.
        stripped.unknown += u64::from(!bytes.is_empty() && header.payload_type != PRIVATE_PAYLOAD);
        stripped.expected += u64::from(header.payload_type == PRIVATE_PAYLOAD);
        return Ok(bytes.is_empty());
    }
    let is_known = [RecordType::OBJECT, RecordType::OPERATION, RecordType::UNSUPPORTED].contains(&kind)
        && (bytes.is_empty() || PAYLOADS.iter().any(|(number, _)| *number == header.payload_type));
    if !is_known {
        stripped.unknown += 1;
        return Ok(false);
    }
    let length = bytes.len();
    // Data is the last part of a payload.
    let data = match header.payload_type {
        payload::BUFFER_RANGE_DATA => BufferRangeDataParts::read(bytes).map_err(damaged)?.data.len(),
        payload::ALLOCATOR_IMPORT_BUFFER => AllocatorImportBufferParts::read(bytes).map_err(damaged)?.data.len(),
        payload::DEVICE_QUEUE_UPDATE => DeviceQueueUpdateParts::read(bytes).map_err(damaged)?.data.len(),
        payload::COMMAND_BUFFER_UPDATE_BUFFER => {
            CommandBufferUpdateBufferParts::read(bytes).map_err(damaged)?.data.len()
        }
        payload::DEVICE_QUEUE_READ => DeviceQueueReadParts::read(bytes).map_err(damaged)?.captured_data.len(),
        payload::FILE_OBJECT => {
            let parts = FileObjectParts::read(bytes).map_err(damaged)?;
            let is_inline = parts.head.reference_type == FileReferenceType::INLINE_BYTES;
            if is_inline { parts.reference.len() } else { 0 }
        }
        _ => 0,
    };
    if let Some(data) = bytes.get_mut(length - data..) {
        data.fill(0);
    }
    stripped.zeroed_bytes += data as u64;
    clear_padding(header.payload_type, bytes)?;
    Ok(true)
}

/// Clears the bytes between the fields of a payload.
fn clear_padding(payload_type: u32, bytes: &mut [u8]) -> Result<()> {
    let place = match payload_type {
        payload::BUFFER_OBJECT => offset_of!(BufferObject, padding),
        payload::BUFFER_RANGE => offset_of!(BufferRange, padding),
        payload::BUFFER_RANGE_DATA => offset_of!(BufferRangeData, padding),
        payload::FILE_OBJECT => offset_of!(FileObject, padding),
        payload::EXECUTABLE_PREPARE => {
            let metadata = ExecutablePrepareParts::read(bytes).map_err(damaged)?.metadata;
            if metadata.is_empty() {
                return Ok(());
            }
            let functions = ExecutableMetadataParts::read(metadata).map_err(damaged)?.functions.len();
            // Metadata is the last part of the payload, and functions are after its fields.
            let start = bytes.len() - metadata.len() + ExecutableMetadata::SIZE;
            let functions = bytes
                .get_mut(start..)
                .into_iter()
                .flat_map(|all| all.chunks_exact_mut(ExecutableFunction::SIZE).take(functions));
            for function in functions {
                clear(function, offset_of!(ExecutableFunction, padding));
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    clear(bytes, place);
    Ok(())
}

/// Clears the four bytes of a padding.
fn clear(bytes: &mut [u8], place: usize) {
    if let Some(padding) = bytes.get_mut(place..place + 4) {
        padding.fill(0);
    }
}

/// Replaces the path of a file by `file-` and its number, and removes the identity of the file.
pub(crate) fn strip_path(header: &RecordHeader, bytes: &mut Vec<u8>, stripped: &mut Stripped) -> Result<()> {
    if header.payload_type != payload::FILE_OBJECT {
        return Ok(());
    }
    let parts = FileObjectParts::read(bytes).map_err(damaged)?;
    let mut head = parts.head;
    let is_object = RecordType(header.record_type) == RecordType::OBJECT;
    let id = if is_object { header.object_id } else { header.related_object_id };
    let name = format!("file-{id}");
    let is_path = head.reference_type != FileReferenceType::INLINE_BYTES;
    let reference = if is_path { name.as_bytes() } else { parts.reference };
    (head.file_device, head.file_inode, head.file_mtime_ns) = (0, 0, 0);
    if head.validation_type == FileValidationType::IDENTITY {
        head.validation_type = FileValidationType::NONE;
    }
    let mut replaced = Vec::new();
    head.write(&mut replaced, reference).map_err(damaged)?;
    *bytes = replaced;
    stripped.paths += u64::from(is_path && !is_object);
    Ok(())
}
