//! The encoding of arguments that become a part of a payload together with fields, and of objects that calls make. The
//! arms that are generated from `spec/replay` call it, by the names of the operation and the argument.

use std::sync::{Arc, Weak};

use vireo_core::record_file::TrailingError;
use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{
    Buffer, Executable, ExecutableFunction, ExecuteFlags, ExternalBuffer, ExternalBufferType, ExternalFile,
    ExternalFileType, File, QueueAffinity, Timepoint,
};
use vireo_hal_observe::observe::{Call, Known, Reply};

use super::bytes::BufferBytes;
use super::convert::ToField;
use super::encoder::Encoder;
use super::file::{Descriptor, FileBytes, FilePolicy, FileRange, FileReference};
use super::objects::{Recorded, object_type};
use super::stream::{PartSource, Parts};
use crate::generated::format::FileReferenceType;
use crate::generated::operations::operation;
use crate::generated::payloads;
use crate::payload_type;

/// Bytes of the memory of a call, or none.
pub(crate) struct MaybeBytes(Option<BufferBytes>);

impl PartSource for MaybeBytes {
    fn byte_length(&self) -> u64 {
        self.0.as_ref().map_or(0, PartSource::byte_length)
    }

    fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |bytes| bytes.append_to(out))
    }

    fn write(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |bytes| bytes.write(sink))
    }
}

impl Encoder<'_> {
    /// Notes an object that the call made.
    pub(crate) fn made_object<T: Known + ?Sized>(&mut self, object: &Arc<T>) -> Result<()>
    where
        Weak<T>: Send,
    {
        let recorded = Recorded { id: self.made, device: self.device(), object_type: const { object_type(T::NAME) } };
        self.state.objects.add(self.called, object, recorded);
        Ok(())
    }

    /// Notes a buffer that the call made.
    pub(crate) fn made_buffer(&mut self, buffer: &Arc<dyn Buffer>) -> Result<()> {
        self.recording.watch(buffer, Recorded::buffer(self.made, self.device()))
    }

    /// `source` of an update.
    pub(crate) fn device_queue_update_source<'b>(
        &mut self,
        source: &'b [u8],
        head: &mut payloads::DeviceQueueUpdate,
    ) -> Result<&'b [u8]> {
        head.target_ref.length = source.len() as u64;
        Ok(source)
    }

    /// `source` of the command that updates a buffer.
    pub(crate) fn command_buffer_update_buffer_source<'b>(
        &mut self,
        source: &'b [u8],
        _: &mut payloads::CommandBufferUpdateBuffer,
    ) -> Result<&'b [u8]> {
        Ok(source)
    }

    /// The memory that a buffer is imported from, which is that of the buffer.
    pub(crate) fn allocator_import_buffer_external_buffer(
        &mut self,
        external: &ExternalBuffer,
        head: &mut payloads::AllocatorImportBuffer,
    ) -> Result<MaybeBytes> {
        match external.r#type {
            ExternalBufferType::HostAllocation => {}
            ExternalBufferType::DeviceAllocation => {
                return Err(Status::unimplemented("memory of a device that is imported cannot be recorded"));
            }
        }
        head.allocation.allocation_size = external.size;
        head.external_type = external.r#type as u32;
        Ok(MaybeBytes(match self.outcome {
            Some(Ok(Reply::AllocatorImportBuffer(buffer))) => {
                Some(BufferBytes { buffer: buffer.clone(), offset: 0, length: external.size })
            }
            _ => None,
        }))
    }

    /// The storage of a file.
    pub(crate) fn device_import_file_external_file(
        &mut self,
        external: &ExternalFile,
        head: &mut payloads::FileObject,
    ) -> Result<FileReference> {
        head.handle_type = external.r#type as u32;
        let Some(Ok(Reply::DeviceImportFile(file))) = self.outcome else { return Ok(FileReference::Nothing) };
        match external.r#type {
            ExternalFileType::HostAllocation => {
                head.file_length = external.length;
                head.reference_type = FileReferenceType::INLINE_BYTES;
                let storage = self.called.unwrapped(file).storage_buffer().ok_or_else(|| {
                    Status::unimplemented("a file in memory that the device does not show cannot be recorded")
                })?;
                Ok(FileReference::Memory(BufferBytes { buffer: storage, offset: 0, length: external.length }))
            }
            ExternalFileType::Fd => {
                let policy = self.recording.options.files;
                head.reference_type = policy.reference();
                let descriptor = Descriptor::open(external.fd, head)?;
                match policy {
                    FilePolicy::CaptureAll => Ok(FileReference::Bytes(descriptor.bytes)),
                    FilePolicy::CaptureRanges => {
                        let file = self.called.id(file);
                        self.objects().add_file(file, descriptor.bytes);
                        Ok(FileReference::Path(descriptor.path))
                    }
                    FilePolicy::Reference | FilePolicy::Fail => {
                        descriptor.validate(self.recording.options.validation, head)?;
                        Ok(FileReference::Path(descriptor.path))
                    }
                }
            }
        }
    }

    /// The file of a read, and what is read of it if the capture has that.
    pub(crate) fn device_queue_read_source_file(
        &mut self,
        file: &Arc<dyn File>,
        head: &mut payloads::DeviceQueueRead,
    ) -> Result<FileRange> {
        head.source_file_id = self.id(file)?;
        let Call::DeviceQueueRead { source_offset, target_buffer, target_offset, length, .. } = self.called.call()
        else {
            return Ok(FileRange::default());
        };
        let left = target_buffer.byte_length().saturating_sub(*target_offset);
        let (offset, length) = (*source_offset, (*length).min(left));
        let bytes = self.state.objects.file(self.called.id(file));
        Ok(bytes.map_or_else(FileRange::default, |bytes| FileBytes::range(bytes, offset, length)))
    }

    /// The metadata of an executable, as its loader says.
    pub(crate) fn executable_cache_prepare_executable_result(
        &mut self,
        _: &mut payloads::ExecutablePrepare,
    ) -> Result<Vec<u8>> {
        let Some(Ok(Reply::ExecutableCachePrepareExecutable(executable))) = self.outcome else { return Ok(Vec::new()) };
        let (metadata, functions) = metadata(&self.called.unwrapped(executable))?;
        let executable = self.called.id(executable);
        self.objects().add_functions(executable, functions);
        Ok(metadata)
    }

    /// A barrier of a queue, which the format has as the execution of nothing.
    pub(super) fn barrier(
        &mut self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        flags: ExecuteFlags,
    ) -> Result<()> {
        let wait: Parts<payloads::Timepoint> = self.parts(wait)?;
        let signal: Parts<payloads::Timepoint> = self.parts(signal)?;
        let head = payloads::DeviceQueueExecute {
            queue_affinity: queue_affinity.to_field(),
            flags: flags.to_field(),
            wait_semaphore_count: wait.len() as u64,
            signal_semaphore_count: signal.len() as u64,
            ..payloads::DeviceQueueExecute::default()
        };
        let (code, payload) = (operation::DEVICE_QUEUE_EXECUTE, payload_type::DEVICE_QUEUE_EXECUTE);
        self.append(code, payload, &head.to_bytes(), &[&wait, &signal])
    }

    /// A signal of the host, as a barrier that waits for nothing.
    pub(super) fn host_signal(&mut self, value: u64) -> Result<()> {
        let mut signal = Parts::<payloads::Timepoint>::new();
        signal.push(payloads::Timepoint { semaphore_id: self.object_id(), value });
        self.calls_device();
        let head = payloads::DeviceQueueExecute {
            queue_affinity: QueueAffinity::ANY.to_field(),
            signal_semaphore_count: 1,
            ..payloads::DeviceQueueExecute::default()
        };
        let (code, payload) = (operation::DEVICE_QUEUE_EXECUTE, payload_type::DEVICE_QUEUE_EXECUTE);
        self.append(code, payload, &head.to_bytes(), &[&signal])
    }
}

/// The metadata of an executable, whose calls are not observed, and the numbers that its driver gives to its functions.
fn metadata(executable: &Arc<dyn Executable>) -> Result<(Vec<u8>, Vec<u64>)> {
    let (mut functions, mut parameters) = (Vec::new(), Vec::new());
    let (mut names, mut numbers) = (Vec::new(), Vec::new());
    for ordinal in 0..executable.function_count() {
        let ordinal = ExecutableFunction(u64::from(ordinal));
        let info = executable.function_info(ordinal)?;
        numbers.push(executable.lookup_function(&info.name).map_or(ordinal.0, |function| function.0));
        if info.parameter_count != 0 {
            for parameter in executable.function_parameters(ordinal)? {
                parameters.push(payloads::ExecutableParameter {
                    offset: parameter.offset,
                    flags: parameter.flags.bits(),
                    r#type: parameter.r#type.0,
                    size: parameter.size,
                    reserved0: 0,
                });
            }
        }
        functions.push(payloads::ExecutableFunction {
            flags: info.flags.bits(),
            workgroup_size: info.workgroup_size,
            constant_count: info.constant_count,
            binding_count: info.binding_count,
            parameter_count: info.parameter_count,
            name_length: u16::try_from(info.name.len())
                .map_err(|_| Status::out_of_range("the name of a function is too long for a capture"))?,
            ..payloads::ExecutableFunction::default()
        });
        names.extend_from_slice(info.name.as_bytes());
    }
    let mut bytes = Vec::new();
    let head = payloads::ExecutableMetadata::default();
    head.write(&mut bytes, &functions, &parameters, &names)
        .map_err(|error: TrailingError| Status::new(StatusCode::OutOfRange, error.to_string()))?;
    Ok((bytes, numbers))
}
