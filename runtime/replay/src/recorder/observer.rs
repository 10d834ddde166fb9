//! The observer of recorded devices ([`RecordingObserver`]): when a call becomes a record.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vireo_core::status::{Result, Status};
use vireo_hal::{Executable, File};
use vireo_hal_observe::observe::{Call, Called, Known as _, ObjectId, Observer, Reply};

use super::arms;
use super::encoder::{Encoder, unknown};
use super::file::{self, FilePolicy};
use super::objects::{Recorded, object_type};
use super::state::Recording;
use crate::generated::format::ObjectType;

/// The observer of the devices of a recording.
#[derive(Debug)]
pub(super) struct RecordingObserver(pub(super) Arc<Recording>);

impl RecordingObserver {
    /// Records a call, and returns the object that it makes.
    fn record(&self, called: &Called<'_>, outcome: Option<Result<Reply<'_>, &Status>>) {
        let recording = &self.0;
        let Some(object) = Recorded::of(called.note().load(Ordering::Relaxed)) else {
            if is_recorded(called.object()) {
                recording.lock().stream.fail(unknown(called.object()).context(called.name()));
            }
            return;
        };
        let mut state = recording.lock();
        let recorded = (|| {
            let mut encoder = Encoder::new(recording, &mut state, called, object, outcome);
            if arms::makes(called.call()) {
                encoder.makes();
            }
            match called.call() {
                Call::DeviceQueueBarrier { queue_affinity, wait, signal, flags } => {
                    encoder.barrier(*queue_affinity, wait, signal, *flags)?;
                }
                Call::SemaphoreSignal { value } => encoder.host_signal(*value)?,
                Call::SemaphoreFail { .. } | Call::FileRead { .. } | Call::FileWrite { .. } => {
                    return Err(Status::unimplemented("the format has no record of it, and a replay would miss it"));
                }
                call => arms::record(call, &mut encoder)?,
            }
            if let Some(Ok(reply)) = outcome {
                arms::made(&reply, &mut encoder)?;
            }
            Ok((encoder.place, encoder.made))
        })();
        match recorded {
            Ok((Some(place), made)) => called.kept().set([place, made]),
            Ok((None, _)) => {}
            Err(status) => state.stream.fail(status.context(called.name())),
        }
    }

    /// A call that was recorded before has returned.
    fn ended(&self, called: &Called<'_>, outcome: Result<Reply<'_>, &Status>) {
        let recording = &self.0;
        // A record begins after the header of the file.
        let [place, made] = called.kept().get();
        if place == 0 {
            return;
        }
        match outcome {
            Err(status) => recording.lock().stream.set_status(place, status.code()),
            Ok(Reply::DeviceQueueAlloca(buffer)) => {
                let device = Recorded::of(called.note().load(Ordering::Relaxed)).map_or(0, |device| device.id);
                if let Err(status) = recording.watch(buffer, Recorded::buffer(made, device)) {
                    recording.lock().stream.fail(status.context(called.name()));
                }
            }
            Ok(_) => {}
        }
    }
}

/// Whether a call is recorded before the device gets it: others may see its effects before it returns.
fn is_seen_early(call: &Call<'_>) -> bool {
    arms::signal(call).is_some() || matches!(call, Call::SemaphoreSignal { .. })
}

/// Whether calls of an object are recorded. Devices call the others.
fn is_recorded(id: ObjectId) -> bool {
    !matches!(object_type(id.kind), ObjectType::NONE | ObjectType::HOST_CALL | ObjectType::CHANNEL | ObjectType::POOL)
}

/// Whether a call has no record, and asks for nothing that one needs.
fn is_unrecorded(call: &Call<'_>) -> bool {
    matches!(
        call,
        Call::DeviceAllocator
            | Call::DeviceId
            | Call::SemaphoreQuery
            | Call::SemaphoreWait { .. }
            | Call::SemaphoreNotify { .. }
            | Call::CommandBufferMode
    )
}

impl Observer for RecordingObserver {
    fn before(&self, called: &Called<'_>) -> Result<()> {
        let call = called.call();
        match call {
            Call::DeviceImportFile { external_file, .. } if self.0.options.files == FilePolicy::Fail => {
                file::check_policy(external_file)?;
            }
            Call::AllocatorImportBuffer { params, external_buffer } => file::check_import(params, external_buffer)?,
            _ => {}
        }
        if is_seen_early(call) {
            self.0.record_persistent();
            self.0.check_writes(called)?;
            self.record(called, None);
        }
        Ok(())
    }

    fn after(&self, called: &Called<'_>, outcome: Result<Reply<'_>, &Status>) {
        let call = called.call();
        if is_unrecorded(call) {
            if let Ok(Reply::DeviceAllocator(allocator)) = outcome {
                self.0.note_allocator(called, allocator);
            }
            return;
        }
        if is_seen_early(call) {
            self.ended(called, outcome);
            self.0.note_operation(called);
            return;
        }
        self.record(called, Some(outcome));
    }

    fn dropped(&self, object: ObjectId) {
        // Of others there is no more than what their wrapper notes.
        if [<dyn Executable>::NAME, <dyn File>::NAME].contains(&object.kind) {
            self.0.lock().objects.remove(object);
        }
    }
}

impl Recording {
    /// Gives an allocator of a device the number of the one that was recorded with it.
    fn note_allocator(&self, called: &Called<'_>, allocator: &Arc<dyn vireo_hal::Allocator>) {
        let number = called.note().load(Ordering::Relaxed);
        if let (Some(note), Some(device)) = (called.note_of(allocator), Recorded::of(number)) {
            // The allocator of a device follows it in the capture.
            let object_type = ObjectType::ALLOCATOR;
            let allocator = Recorded { id: device.id + 1, device: device.id, object_type };
            note.store(allocator.number(), Ordering::Relaxed);
        }
    }
}
