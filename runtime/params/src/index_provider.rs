//! Hands parameters to programs: resolves keys, and schedules transfers.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::contents::Contents;
use super::index::{ParameterIndex, ParameterStorage, Splat};
use super::source_provider::SourceProvider;
use super::transfers::Transfers;
use crate::hal::{
    Buffer, BufferParams, BufferUsage, Device, ExternalBuffer, ExternalBufferType, File, MemoryAccess,
    ParameterProvider, ParameterProviderSignal, ParameterSpan, QueueAffinity, Timepoint,
};
use crate::status::{Result, Status};

/// Learns how far transfers from files are. It is called on the threads that do them.
pub trait Progress: fmt::Debug + Send + Sync {
    /// So many more bytes are to be read.
    fn scheduled(&self, bytes: u64);
    /// So many of them have been read.
    fn done(&self, bytes: u64);
}

/// Where a parameter is for a device.
pub(super) enum Location {
    /// Nowhere: a pattern is repeated.
    Splat(Splat),
    /// In an archive.
    Stored(Contents, u64),
    /// In a file from its beginning on.
    File(Arc<dyn File>),
}

/// What knows where parameters are.
pub(super) trait Locator {
    /// The length of a parameter, and where it is.
    fn locate(&self, key: &str) -> Result<(u64, Location)>;

    /// The contents of an archive as a file of `device`.
    fn file(&self, device: &Arc<dyn Device>, affinity: QueueAffinity, contents: &Contents) -> Result<Arc<dyn File>>;

    /// The scope that programs name.
    fn scope(&self) -> &str;

    /// Learns what the host asks of all providers, which only one that keeps something has to do.
    fn notify(&self, _signal: ParameterProviderSignal) {}

    /// Locates a part of a parameter.
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

/// Makes buffers of spans.
fn load(
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

/// A buffer over contents where they are in memory, if what the buffer is for and the device allow it.
fn import(
    device: &Arc<dyn Device>,
    mut params: BufferParams,
    contents: &Contents,
    offset: u64,
    length: u64,
) -> Option<Arc<dyn Buffer>> {
    // What programs may write has to be a copy: others use the archive too.
    if !params.usage.contains(BufferUsage::SHARING_IMMUTABLE) {
        return None;
    }
    params.access = MemoryAccess::READ;
    let (data, owner) = contents.in_place(offset, length)?;
    let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: length, owner };
    // SAFETY: the owner keeps the bytes in place, and only reads are asked for. Should the device refuse, there is the other way.
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

/// Schedules the transfers of ranges of a buffer to spans.
fn scatter(
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

/// Gives programs the parameters of an index as one scope.
pub struct IndexProvider {
    scope: String,
    index: ParameterIndex,
    progress: Option<Arc<dyn Progress>>,
    /// Files of devices that were made so far.
    files: Mutex<Vec<ImportedFile>>,
}

/// An archive as a file of a device.
struct ImportedFile {
    device: Weak<dyn Device>,
    contents: Contents,
    file: Arc<dyn File>,
}

impl IndexProvider {
    /// A provider of the scope called `scope`, which is empty for parameters without one.
    pub fn new(scope: impl Into<String>, index: ParameterIndex) -> IndexProvider {
        IndexProvider { scope: scope.into(), index, progress: None, files: Mutex::default() }
    }

    /// The same provider with `progress` told about transfers.
    pub fn with_progress(mut self, progress: Arc<dyn Progress>) -> IndexProvider {
        self.progress = Some(progress);
        self
    }

    /// What it provides.
    pub fn index(&self) -> &ParameterIndex {
        &self.index
    }
}

impl fmt::Debug for IndexProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexProvider(scope `{}`, {} parameters)", self.scope, self.index.len())
    }
}

impl Locator for IndexProvider {
    fn scope(&self) -> &str {
        &self.scope
    }

    fn notify(&self, signal: ParameterProviderSignal) {
        match signal {
            ParameterProviderSignal::Resume => {}
            ParameterProviderSignal::Suspend | ParameterProviderSignal::LowMemory => {
                self.files.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
        }
    }

    fn locate(&self, key: &str) -> Result<(u64, Location)> {
        let found = self.index.get(key).ok_or_else(|| {
            let (key, scope) = (key.escape_debug(), self.scope.escape_debug());
            let count = self.index.len();
            Status::not_found(format!("scope `{scope}` has no parameter `{key}` among its {count}"))
        })?;
        let location = match &found.storage {
            ParameterStorage::Splat(splat) => Location::Splat(*splat),
            ParameterStorage::Stored { contents, offset } => Location::Stored(contents.clone(), *offset),
        };
        Ok((found.length, location))
    }

    fn file(&self, device: &Arc<dyn Device>, affinity: QueueAffinity, contents: &Contents) -> Result<Arc<dyn File>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let this = Arc::downgrade(device);
        let known = files.iter().find(|known| known.device.ptr_eq(&this) && known.contents.is_same(contents));
        if let Some(known) = known {
            return Ok(known.file.clone());
        }
        let mut file = contents.import(&**device, affinity)?;
        if let Some(progress) = &self.progress {
            file = Arc::new(ProgressFile { file, progress: progress.clone() });
        }
        files.retain(|known| known.device.strong_count() > 0);
        files.push(ImportedFile { device: this, contents: contents.clone(), file: file.clone() });
        Ok(file)
    }
}

/// Implements [`ParameterProvider`] for types that know where their parameters are. The trait is of another crate, so there can be no
/// implementation for all of them at once.
macro_rules! provide_by_location {
    ($($provider:ty),*) => {$(
        impl ParameterProvider for $provider {
            fn notify(&self, signal: ParameterProviderSignal) -> Result<()> {
                Locator::notify(self, signal);
                Ok(())
            }

            fn query_support(&self, scope: &str) -> bool {
                scope == Locator::scope(self)
            }

            fn load(
                &self,
                device: &Arc<dyn Device>,
                queue_affinity: QueueAffinity,
                wait: &[Timepoint],
                signal: &[Timepoint],
                _source_scope: &str,
                target_params: BufferParams,
                spans: &[ParameterSpan],
            ) -> Result<Vec<Arc<dyn Buffer>>> {
                Transfers::run(device, queue_affinity, wait, signal, |transfers| {
                    load(self, transfers, device, queue_affinity, target_params, spans)
                })
            }

            fn gather(
                &self,
                device: &Arc<dyn Device>,
                queue_affinity: QueueAffinity,
                wait: &[Timepoint],
                signal: &[Timepoint],
                _source_scope: &str,
                target_buffer: &Arc<dyn Buffer>,
                spans: &[ParameterSpan],
            ) -> Result<()> {
                Transfers::run(device, queue_affinity, wait, signal, |transfers| {
                    gather(self, transfers, (device, queue_affinity), target_buffer, spans)
                })
            }

            fn scatter(
                &self,
                device: &Arc<dyn Device>,
                queue_affinity: QueueAffinity,
                wait: &[Timepoint],
                signal: &[Timepoint],
                source_buffer: &Arc<dyn Buffer>,
                _target_scope: &str,
                spans: &[ParameterSpan],
            ) -> Result<()> {
                Transfers::run(device, queue_affinity, wait, signal, |transfers| {
                    scatter(self, transfers, (device, queue_affinity), source_buffer, spans)
                })
            }
        }
    )*};
}

provide_by_location!(IndexProvider, SourceProvider);

/// Schedules the transfers of spans to ranges of a buffer.
fn gather(
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

/// A file whose reads are reported.
#[derive(Debug)]
struct ProgressFile {
    file: Arc<dyn File>,
    progress: Arc<dyn Progress>,
}

/// Bytes between two reports.
const REPORTED: u64 = 16 << 20;

impl File for ProgressFile {
    fn allowed_access(&self) -> MemoryAccess {
        self.file.allowed_access()
    }

    fn length(&self) -> u64 {
        self.file.length()
    }

    fn storage_buffer(&self) -> Option<Arc<dyn Buffer>> {
        self.file.storage_buffer()
    }

    fn async_handle(&self) -> Result<i32> {
        self.file.async_handle()
    }

    fn supports_synchronous_io(&self) -> bool {
        self.file.supports_synchronous_io()
    }

    fn read(&self, file_offset: u64, buffer: &Arc<dyn Buffer>, buffer_offset: u64, length: u64) -> Result<()> {
        self.progress.scheduled(length);
        let mut done = 0;
        while done < length {
            let part = REPORTED.min(length - done);
            let at = |offset: u64| {
                offset.checked_add(done).ok_or_else(|| Status::out_of_range(format!("offset {offset} of a transfer")))
            };
            self.file.read(at(file_offset)?, buffer, at(buffer_offset)?, part)?;
            self.progress.done(part);
            done += part;
        }
        Ok(())
    }

    fn write(&self, file_offset: u64, buffer: &Arc<dyn Buffer>, buffer_offset: u64, length: u64) -> Result<()> {
        self.file.write(file_offset, buffer, buffer_offset, length)
    }
}
