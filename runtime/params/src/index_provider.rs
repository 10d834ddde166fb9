//! The provider of an index ([`IndexProvider`]): gives programs the parameters of archives. Hosts and tools make it
//! from an index.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::contents::Contents;
use super::index::{ParameterIndex, ParameterStorage};
use super::locator::{Location, Locator, provide_by_location};
use crate::hal::{Buffer, Device, File, MemoryAccess, ParameterProviderSignal, Progress, QueueAffinity};
use crate::status::{Result, Status};

/// Provides the parameters of an index as one scope.
pub struct IndexProvider {
    scope: String,
    index: ParameterIndex,
    progress: Option<Arc<dyn Progress>>,
    /// Archives that were imported as files of devices.
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

    /// The same provider, which reports transfers to `progress`.
    pub fn with_progress(mut self, progress: Arc<dyn Progress>) -> IndexProvider {
        self.progress = Some(progress);
        self
    }

    /// The index.
    pub fn index(&self) -> &ParameterIndex {
        &self.index
    }
}

impl fmt::Debug for IndexProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexProvider(scope `{}`, {} parameters)", self.scope, self.index.len())
    }
}

provide_by_location!(IndexProvider);

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
