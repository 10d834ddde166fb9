//! The contents of a capture as files: executables, files, and the bytes that the host or files gave to buffers.

use vireo_core::status::{Result, Status};

use crate::generated::dump::payload;
use crate::generated::format::{FileReferenceType, RecordType};
use crate::generated::payloads::{
    AllocatorImportBufferParts, BufferRangeDataParts, DeviceQueueReadParts, DeviceQueueUpdateParts,
    ExecutablePrepareParts, FileObjectParts,
};
use crate::plan::damaged;
use crate::reader::Reader;

/// A part of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Extracted<'a> {
    /// A name for a file, of letters, digits, `-`, `_` and `.`, which no other part has.
    pub name: &'a str,
    /// The number of its record.
    pub record: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Calls `visit` for each part, in the order of records.
///
/// # Errors
/// Those of records and payloads, and of `visit`.
pub fn extract(reader: &mut Reader, visit: &mut dyn FnMut(Extracted<'_>) -> Result<()>) -> Result<()> {
    reader.rewind();
    while let Some(record) = reader.next_record().map_err(|error| error.status())? {
        let header = &record.header;
        if RecordType(header.record_type) != RecordType::OPERATION || header.status_code != 0 {
            continue;
        }
        let (number, object, made) = (header.sequence_ordinal, header.object_id, header.related_object_id);
        let has_bytes = [
            payload::EXECUTABLE_PREPARE,
            payload::FILE_OBJECT,
            payload::BUFFER_RANGE_DATA,
            payload::ALLOCATOR_IMPORT_BUFFER,
            payload::DEVICE_QUEUE_UPDATE,
            payload::DEVICE_QUEUE_READ,
        ];
        if !has_bytes.contains(&header.payload_type) {
            continue;
        }
        let bytes = reader.payload(&record, u64::MAX).map_err(|error| error.status())?;
        let of_buffer = |buffer: u64, offset: u64| format!("buffer-{buffer}.at-{offset}.record-{number}.bin");
        let found = (|| -> std::result::Result<Option<(String, &[u8])>, Status> {
            Ok(match header.payload_type {
                payload::EXECUTABLE_PREPARE => {
                    let parts = ExecutablePrepareParts::read(&bytes).map_err(damaged)?;
                    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || [b'-', b'_'].contains(byte);
                    let format = parts.format.iter().map(|byte| if is_plain(byte) { char::from(*byte) } else { '_' });
                    let format = format.take(64).collect::<String>();
                    Some((format!("executable-{made}.{format}.bin"), parts.data))
                }
                payload::FILE_OBJECT => {
                    let parts = FileObjectParts::read(&bytes).map_err(damaged)?;
                    let is_inline = parts.head.reference_type == FileReferenceType::INLINE_BYTES;
                    is_inline.then(|| (format!("file-{made}.bin"), parts.reference))
                }
                payload::BUFFER_RANGE_DATA => {
                    let parts = BufferRangeDataParts::read(&bytes).map_err(damaged)?;
                    Some((of_buffer(object, parts.head.byte_offset), parts.data))
                }
                payload::ALLOCATOR_IMPORT_BUFFER => {
                    let parts = AllocatorImportBufferParts::read(&bytes).map_err(damaged)?;
                    Some((of_buffer(made, 0), parts.data))
                }
                payload::DEVICE_QUEUE_UPDATE => {
                    let parts = DeviceQueueUpdateParts::read(&bytes).map_err(damaged)?;
                    let target = &parts.head.target_ref;
                    Some((of_buffer(target.buffer_id, target.offset), parts.data))
                }
                _ => {
                    let parts = DeviceQueueReadParts::read(&bytes).map_err(damaged)?;
                    let target = &parts.head.target_ref;
                    let name = of_buffer(target.buffer_id, target.offset);
                    (!parts.captured_data.is_empty()).then_some((name, parts.captured_data))
                }
            })
        })();
        let place = |status: Status| status.context(format!("record {number} (byte {})", record.offset));
        if let Some((name, bytes)) = found.map_err(place)? {
            visit(Extracted { name: &name, record: number, bytes })?;
        }
    }
    reader.rewind();
    Ok(())
}
