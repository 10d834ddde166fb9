//! Expected outputs: what the host read while a capture was made, in records that other readers skip, and whether a
//! replay reads the same.

use std::collections::HashMap;
use std::io::{Seek, Write};

use vireo_core::status::{Result, Status, StatusCode};

use crate::digest::fnv1a;
use crate::executor::{HostRead, Watch};
use crate::generated::format::{FNV1A_OFFSET_BASIS, PRIVATE_PAYLOAD, PRIVATE_VERSION, PrivateKind, RecordType};
use crate::generated::payloads::{ExpectedRead, ExpectedReadParts, RecordHeader};
use crate::plan::damaged;
use crate::reader::Reader;
use crate::writer::CaptureWriter;

/// Bytes of the longest output that is kept as it is: of longer ones there is a digest.
pub(crate) const LONGEST_OUTPUT: usize = 64 << 10;

/// A read of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Output {
    buffer: u64,
    offset: u64,
    length: u64,
    digest: u64,
    /// The bytes; empty if there are too many.
    bytes: Vec<u8>,
}

impl Output {
    fn of(read: &HostRead<'_>) -> Output {
        let HostRead { buffer, offset, bytes, .. } = *read;
        let kept = if bytes.len() <= LONGEST_OUTPUT { bytes } else { &[] };
        let digest = fnv1a(FNV1A_OFFSET_BASIS, bytes);
        Output { buffer, offset, length: bytes.len() as u64, digest, bytes: kept.to_vec() }
    }
}

/// A read that differs from what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the record.
    pub record: u64,
    /// The number of the buffer.
    pub buffer: u64,
    /// The first byte of the range in the buffer.
    pub offset: u64,
    /// Bytes of the range.
    pub length: u64,
    /// The first byte that differs, counted from that of the range, with what was expected and what was read; none if
    /// only a digest is known.
    pub first: Option<(u64, u8, u8)>,
}

/// The expected outputs of a capture, by the numbers of the records that read them, and how a replay differs.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    outputs: HashMap<u64, Output>,
    found: u64,
    differences: Vec<Difference>,
}

impl Expected {
    /// Reads the expected outputs of a capture.
    ///
    /// # Errors
    /// Those of records; DATA_LOSS for payloads that are damaged, UNIMPLEMENTED for those of another version.
    pub fn read(reader: &mut Reader) -> Result<Expected> {
        let mut expected = Expected::default();
        reader.rewind();
        while let Some(record) = reader.next_record().map_err(|error| error.status())? {
            let RecordHeader { record_type, payload_type, sequence_ordinal: ordinal, .. } = record.header;
            if RecordType(record_type) != RecordType::SESSION || payload_type != PRIVATE_PAYLOAD {
                continue;
            }
            let bytes = reader.payload(&record, u64::MAX).map_err(|error| error.status())?;
            let output = output(&bytes).map_err(|status| {
                status.context(format!("{}: byte {}", reader.source().name(), record.payload_offset()))
            })?;
            if let (Some(output), Some(before)) = (output, ordinal.checked_sub(1)) {
                expected.outputs.insert(before, output);
            }
        }
        reader.rewind();
        Ok(expected)
    }

    /// How many outputs are expected.
    pub fn count(&self) -> u64 {
        self.outputs.len() as u64
    }

    /// How many of them were read.
    pub fn found(&self) -> u64 {
        self.found
    }

    /// The reads that differ.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }
}

/// The output that a payload describes; none if it is of another kind.
fn output(bytes: &[u8]) -> Result<Option<Output>> {
    let parts = ExpectedReadParts::read(bytes);
    let version = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if version != PRIVATE_VERSION {
        return Err(Status::unimplemented(format!(
            "a payload of Vireo's has version {version}: expected {PRIVATE_VERSION}"
        )));
    }
    let kind = bytes.get(4..8).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if PrivateKind(kind) != PrivateKind::EXPECTED_READ {
        return Ok(None);
    }
    let ExpectedReadParts { head, data } = parts.map_err(damaged)?;
    let ExpectedRead { buffer_id: buffer, byte_offset: offset, byte_length: length, digest, .. } = head;
    if !data.is_empty() && data.len() as u64 != length {
        let message = format!("{} bytes are there of an output of {length}: expected all or none", data.len());
        return Err(Status::new(StatusCode::DataLoss, message));
    }
    Ok(Some(Output { buffer, offset, length, digest, bytes: data.to_vec() }))
}

impl Watch for Expected {
    fn wants_reads(&self) -> bool {
        true
    }

    fn read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let Some(expected) = self.outputs.get(&read.record) else { return Ok(()) };
        self.found += 1;
        let found = Output::of(read);
        let is_same = |one: &Output, other: &Output| {
            (one.buffer, one.offset, one.length, one.digest) == (other.buffer, other.offset, other.length, other.digest)
        };
        if !is_same(expected, &found) {
            let mut pairs = expected.bytes.iter().zip(read.bytes).enumerate();
            let first = pairs.find(|(_, (expected, found))| expected != found);
            let first = first.map(|(place, (expected, found))| (place as u64, *expected, *found));
            let HostRead { record, buffer, offset, bytes } = *read;
            self.differences.push(Difference { record, buffer, offset, length: bytes.len() as u64, first });
        }
        Ok(())
    }
}

/// The reads of a replay, to become the expected outputs of a copy of its capture.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    outputs: HashMap<u64, Output>,
}

impl Watch for Outputs {
    fn wants_reads(&self) -> bool {
        true
    }

    fn read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.outputs.insert(read.record, Output::of(read));
        Ok(())
    }
}

impl Outputs {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.outputs.len() as u64
    }

    /// Writes a copy of a capture with these outputs instead of those that it expects.
    ///
    /// # Errors
    /// Those of records; UNAVAILABLE if `out` cannot be written.
    pub fn write(&self, reader: &mut Reader, out: impl Write + Seek) -> Result<()> {
        let unwritable = |error: std::io::Error| Status::new(StatusCode::Unavailable, error.to_string());
        let mut writer = CaptureWriter::new(out).map_err(unwritable)?;
        reader.rewind();
        while let Some(record) = reader.next_record().map_err(|error| error.status())? {
            let RecordHeader { record_type, payload_type, sequence_ordinal, .. } = record.header;
            if RecordType(record_type) == RecordType::SESSION && payload_type == PRIVATE_PAYLOAD {
                continue;
            }
            let payload = reader.payload(&record, u64::MAX).map_err(|error| error.status())?;
            writer.record(&record.header, &payload).map_err(unwritable)?;
            let Some(Output { buffer, offset, length, digest, bytes }) = self.outputs.get(&sequence_ordinal) else {
                continue;
            };
            let (header, payload) = expected_read(*buffer, *offset, *length, *digest, bytes)?;
            writer.record(&header, &payload).map_err(unwritable)?;
        }
        reader.rewind();
        writer.finish().map_err(unwritable).map(drop)
    }
}

/// The record that follows that of a read, whose bytes are expected to have this digest. `bytes` has them, or nothing
/// if there are too many.
pub(crate) fn expected_read(
    buffer_id: u64,
    byte_offset: u64,
    byte_length: u64,
    digest: u64,
    bytes: &[u8],
) -> Result<(RecordHeader, Vec<u8>)> {
    let (version, kind) = (PRIVATE_VERSION, PrivateKind::EXPECTED_READ);
    let head = ExpectedRead { version, kind, buffer_id, byte_offset, byte_length, digest, data_length: 0 };
    let mut payload = Vec::new();
    head.write(&mut payload, bytes).map_err(damaged)?;
    let record_type = RecordType::SESSION.0;
    Ok((RecordHeader { record_type, payload_type: PRIVATE_PAYLOAD, ..RecordHeader::default() }, payload))
}
