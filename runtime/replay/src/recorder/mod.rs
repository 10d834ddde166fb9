//! The recorder of captures: an observer of devices ([`Recorder`]) that writes each call to a file as it is made.
//!
//! Records of what queues are asked for are written before the device gets the operation, since others may see its
//! effects before the call returns; all others when the call returns. What the host writes through mappings is recorded
//! when a mapping ends ([`vireo_hal::MappingWatcher`]). The memory that it takes does not depend on what is recorded.
//!
//! The operations and the fields of their payloads are generated from `spec/replay`.

mod bytes;
mod convert;
mod encoder;
mod file;
mod hooks;
mod objects;
mod observer;
mod options;
mod state;
mod stream;
mod watching;
mod writes;

/// The record of each operation.
#[expect(clippy::field_reassign_with_default, reason = "an argument fills fields of nested layouts")]
mod arms {
    use vireo_core::status::Result;
    use vireo_hal::Timepoint;
    use vireo_hal_observe::observe::{Call, Reply};

    use super::convert::ToField;
    use super::encoder::Encoder;
    use super::stream::{PartSource, elements};
    use crate::generated::payloads;

    include!(concat!(env!("OUT_DIR"), "/replay/recorder.rs"));
}

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{Buffer, Device};
use vireo_hal_observe::observe::Observation;

pub use self::file::{FilePolicy, FileValidation};
use self::observer::RecordingObserver;
pub use self::options::RecorderOptions;
use self::state::Recording;
pub use self::stream::CaptureFile;

/// A recording of devices. The devices that it hands out can be used as the devices they wrap.
///
/// ```
/// use std::io::Cursor;
///
/// use vireo::hal::{QueueAffinity, SemaphoreFlags, create_device};
/// use vireo::replay::{Recorder, RecorderOptions};
///
/// # fn main() -> vireo::Result<()> {
/// let device = create_device("local-sync")?;
/// let path = std::env::temp_dir().join(format!("vireo-recorder-{}.ireereplay", std::process::id()));
/// let recorder = Recorder::create(&path, RecorderOptions::default())?;
/// let devices = recorder.devices(&[device])?;
/// let semaphore = devices[0].create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::DEFAULT)?;
/// recorder.finish()?;
/// assert_eq!(std::fs::metadata(&path).unwrap().len(), 24 + 4 * 96 + 32);
/// # std::fs::remove_file(&path).unwrap();
/// # let _ = Cursor::new(semaphore);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    recording: Arc<Recording>,
    observation: Arc<Observation>,
}

impl Recorder {
    /// Begins a capture in a new file, or in place of one.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE if the file cannot be written.
    pub fn create(path: &Path, options: RecorderOptions) -> Result<Recorder> {
        let file = File::create(path).map_err(|error| {
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => StatusCode::NotFound,
                std::io::ErrorKind::PermissionDenied => StatusCode::PermissionDenied,
                _ => StatusCode::Unavailable,
            };
            Status::new(code, format!("cannot write {}", path.display())).with_source(error)
        })?;
        Recorder::new(file, options)
    }

    /// Begins a capture in `file`, which is empty.
    ///
    /// # Errors
    /// UNAVAILABLE if it cannot be written.
    pub fn new(file: impl CaptureFile, options: RecorderOptions) -> Result<Recorder> {
        let recording = Recording::new(Box::new(file), options)?;
        let observation = Observation::new(RecordingObserver(recording.clone()));
        Ok(Recorder { recording, observation })
    }

    /// The devices with their calls recorded. A replay has to have as many, in this order.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if the recording is over.
    pub fn devices(&self, devices: &[Arc<dyn Device>]) -> Result<Vec<Arc<dyn Device>>> {
        devices.iter().map(|device| self.recording.add_device(&self.observation, device)).collect()
    }

    /// Begins a part of the capture, such as a call, that a replay can measure.
    pub fn begin_scope(&self, name: &str) {
        self.recording.scope(name, true);
    }

    /// Ends the part that began last.
    pub fn end_scope(&self, name: &str) {
        self.recording.scope(name, false);
    }

    /// Notes that the host reads a range of a buffer, and what it has now: a replay is to have the same there
    /// ([`Expected`](crate::Expected)). Tools that do not know of it only map the range. A buffer that no device of
    /// this recording made is in no capture.
    pub fn expect(&self, buffer: &Arc<dyn Buffer>, offset: u64, length: u64) {
        self.recording.expect(buffer, offset, length);
    }

    /// Writes to the file what was recorded so far.
    pub fn flush(&self) {
        self.recording.flush();
    }

    /// Ends the capture. What devices do from here on is not recorded.
    ///
    /// # Errors
    /// The first failure of recording: UNIMPLEMENTED for objects that a capture cannot have, DATA_LOSS for a write that
    /// was missed, and those of the file. The file then ends before what failed.
    pub fn finish(&self) -> Result<()> {
        self.recording.finish()
    }
}
