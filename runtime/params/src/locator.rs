//! Locators ([`Locator`]), which resolve keys to locations of parameters, and the transfers from and to these:
//! `provide_by_location` implements [`ParameterProvider`](crate::hal::ParameterProvider) for a locator. Both providers
//! of this crate use it.

use std::sync::Arc;

use super::contents::Contents;
use super::index::Splat;
use super::transfers::Transfers;
use crate::hal::{
    Buffer, BufferParams, BufferUsage, Device, ExternalBuffer, ExternalBufferType, File, MemoryAccess,
    ParameterProviderSignal, ParameterSpan, QueueAffinity,
};
use crate::status::{Result, Status};

/// The location of a parameter for a device.
pub(super) enum Location {
    /// None: its bytes are a repeated pattern.
    Splat(Splat),
    /// In an archive, from an offset on.
    Stored(Contents, u64),
    /// In a file, from its beginning on.
    File(Arc<dyn File>),
}

/// Finds parameters by their keys.
pub(super) trait Locator {
    /// The length of a parameter, and its location.
    fn locate(&self, key: &str) -> Result<(u64, Location)>;

    /// The contents of an archive as a file of `device`.
    fn file(&self, device: &Arc<dyn Device>, affinity: QueueAffinity, contents: &Contents) -> Result<Arc<dyn File>>;

    /// The scope that programs name.
    fn scope(&self) -> &str;

    /// Handles a signal of the host to all providers; only a locator with caches has to.
    fn notify(&self, _signal: ParameterProviderSignal) {}

    /// Locates the parameter of a span, and checks the range.
    fn part(&self, span: &ParameterSpan) -> Result<Location> {
        let (available, location) = self.locate(&span.key)?;
        let (offset, length) = (span.parameter_offset, span.length);
        if offset.checked_add(length).is_none_or(|end| end > available) {
            let key = span.key.escape_debug();
            let message = format!("{length} bytes at {offset} of parameter `{key}`, which has {available} bytes");
            return Err(Status::out_of_range(message));
        }
        Ok(location)
    }
}

/// Makes a buffer for each span: in place if possible, or with a scheduled transfer.
pub(super) fn load(
    source: &dyn Locator,
    transfers: &mut Transfers<'_>,
    device: &Arc<dyn Device>,
    affinity: QueueAffinity,
    params: BufferParams,
    spans: &[ParameterSpan],
) -> Result<Vec<Arc<dyn Buffer>>> {
    let one = |span: &ParameterSpan| {
        let location = source.part(span)?;
        if let Location::Stored(contents, offset) = &location
            && let Some(buffer) = import(device, params, contents, offset + span.parameter_offset, span.length)
        {
            return Ok(buffer);
        }
        let lane = transfers.lane(span.length)?;
        let buffer = transfers.allocate(lane, params, span.length)?;
        fill(source, transfers, (device, affinity), location, span, (lane, &buffer, 0))?;
        Ok(buffer)
    };
    spans.iter().map(one).collect()
}

/// A buffer over contents in place, if its usage and the device allow that.
fn import(
    device: &Arc<dyn Device>,
    mut params: BufferParams,
    contents: &Contents,
    offset: u64,
    length: u64,
) -> Option<Arc<dyn Buffer>> {
    // A buffer that programs may write has to be a copy, since others use the archive too.
    if !params.usage.contains(BufferUsage::SHARING_IMMUTABLE) {
        return None;
    }
    params.access = MemoryAccess::READ;
    let (data, owner) = contents.in_place(offset, length)?;
    let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: length, owner };
    // SAFETY: the owner keeps the bytes in place, and only reads are asked for. If the device refuses, the caller
    // transfers the bytes.
    unsafe { device.allocator().import_buffer(params, &external) }.ok()
}

/// Schedules the transfer of a span into a buffer.
fn fill(
    source: &dyn Locator,
    transfers: &mut Transfers<'_>,
    (device, affinity): (&Arc<dyn Device>, QueueAffinity),
    location: Location,
    span: &ParameterSpan,
    (lane, buffer, offset): (usize, &Arc<dyn Buffer>, u64),
) -> Result<()> {
    let (file, start) = match location {
        Location::Splat(splat) => {
            return transfers.fill(lane, splat.rotated(span.parameter_offset), (buffer, offset), span.length);
        }
        Location::Stored(contents, start) => (source.file(device, affinity, &contents)?, start),
        Location::File(file) => (file, 0),
    };
    transfers.read(lane, (&file, start + span.parameter_offset), (buffer, offset), span.length)
}

/// Schedules the transfers of spans to ranges of a buffer.
pub(super) fn gather(
    source: &dyn Locator,
    transfers: &mut Transfers<'_>,
    place: (&Arc<dyn Device>, QueueAffinity),
    buffer: &Arc<dyn Buffer>,
    spans: &[ParameterSpan],
) -> Result<()> {
    for span in spans {
        let location = source.part(span)?;
        let lane = transfers.lane(span.length)?;
        fill(source, transfers, place, location, span, (lane, buffer, span.buffer_offset))?;
    }
    Ok(())
}

/// Schedules the transfers of ranges of a buffer to spans.
pub(super) fn scatter(
    source: &dyn Locator,
    transfers: &mut Transfers<'_>,
    (device, affinity): (&Arc<dyn Device>, QueueAffinity),
    buffer: &Arc<dyn Buffer>,
    spans: &[ParameterSpan],
) -> Result<()> {
    for span in spans {
        let read_only = |what: &str| {
            let key = span.key.escape_debug();
            Err(Status::permission_denied(format!("parameter `{key}` cannot be written: {what}")))
        };
        let (file, start) = match source.part(span)? {
            Location::Splat(_) => return read_only("it is a repeated pattern"),
            Location::Stored(contents, _) if !contents.access().contains(MemoryAccess::WRITE) => {
                return read_only(&format!("`{}` was opened for reading", contents.name()));
            }
            Location::Stored(contents, start) => (source.file(device, affinity, &contents)?, start),
            Location::File(file) => (file, 0),
        };
        let lane = transfers.lane(span.length)?;
        let target = start + span.parameter_offset;
        transfers.write(lane, (buffer, span.buffer_offset), (&file, target), span.length)?;
    }
    Ok(())
}

/// Implements [`ParameterProvider`](crate::hal::ParameterProvider) for a [`Locator`]. It is a macro, because the trait
/// is of another crate and cannot be implemented for all locators at once.
macro_rules! provide_by_location {
    ($provider:ty) => {
        impl $crate::hal::ParameterProvider for $provider {
            fn notify(&self, signal: $crate::hal::ParameterProviderSignal) -> $crate::status::Result<()> {
                $crate::locator::Locator::notify(self, signal);
                Ok(())
            }

            fn query_support(&self, scope: &str) -> bool {
                scope == $crate::locator::Locator::scope(self)
            }

            fn load(
                &self,
                device: &std::sync::Arc<dyn $crate::hal::Device>,
                queue_affinity: $crate::hal::QueueAffinity,
                wait: &[$crate::hal::Timepoint],
                signal: &[$crate::hal::Timepoint],
                _source_scope: &str,
                target_params: $crate::hal::BufferParams,
                spans: &[$crate::hal::ParameterSpan],
            ) -> $crate::status::Result<Vec<std::sync::Arc<dyn $crate::hal::Buffer>>> {
                $crate::transfers::Transfers::run(device, queue_affinity, wait, signal, |transfers| {
                    $crate::locator::load(self, transfers, device, queue_affinity, target_params, spans)
                })
            }

            fn gather(
                &self,
                device: &std::sync::Arc<dyn $crate::hal::Device>,
                queue_affinity: $crate::hal::QueueAffinity,
                wait: &[$crate::hal::Timepoint],
                signal: &[$crate::hal::Timepoint],
                _source_scope: &str,
                target_buffer: &std::sync::Arc<dyn $crate::hal::Buffer>,
                spans: &[$crate::hal::ParameterSpan],
            ) -> $crate::status::Result<()> {
                $crate::transfers::Transfers::run(device, queue_affinity, wait, signal, |transfers| {
                    $crate::locator::gather(self, transfers, (device, queue_affinity), target_buffer, spans)
                })
            }

            fn scatter(
                &self,
                device: &std::sync::Arc<dyn $crate::hal::Device>,
                queue_affinity: $crate::hal::QueueAffinity,
                wait: &[$crate::hal::Timepoint],
                signal: &[$crate::hal::Timepoint],
                source_buffer: &std::sync::Arc<dyn $crate::hal::Buffer>,
                _target_scope: &str,
                spans: &[$crate::hal::ParameterSpan],
            ) -> $crate::status::Result<()> {
                $crate::transfers::Transfers::run(device, queue_affinity, wait, signal, |transfers| {
                    $crate::locator::scatter(self, transfers, (device, queue_affinity), source_buffer, spans)
                })
            }
        }
    };
}

pub(super) use provide_by_location;
