//! Conversions of the values of calls to those of records: numbers to fields, and structs to parts. The arms that are
//! generated from `spec/replay` call these.

use std::sync::Arc;

use vireo_core::status::Result;
use vireo_hal as hal;
use vireo_hal::types::*;

use super::encoder::{Encoder, ToPart};
use crate::generated::payloads;

/// A value that becomes a field.
pub(crate) trait ToField<T> {
    /// The field.
    fn to_field(&self) -> T;
}

macro_rules! bit_sets {
    ($($set:ty => $int:ty),* $(,)?) => {$(
        impl ToField<$int> for $set {
            fn to_field(&self) -> $int {
                self.bits().into()
            }
        }
    )*};
}

macro_rules! numbers {
    ($($number:ty => $int:ty),* $(,)?) => {$(
        impl ToField<$int> for $number {
            fn to_field(&self) -> $int {
                (*self).into()
            }
        }
    )*};
}

bit_sets! {
    AccessScope => u32,
    AllocaFlags => u64,
    BufferUsage => u32,
    CommandBufferMode => u32,
    CommandCategory => u32,
    DeallocaFlags => u64,
    ExecutableCachingMode => u32,
    ExecuteFlags => u64,
    ExecutionBarrierFlags => u64,
    ExecutionStage => u64,
    ExternalFileFlags => u32,
    MemoryAccess => u16,
    MemoryAccess => u32,
    MemoryType => u32,
    QueueAffinity => u64,
    CopyFlags => u64,
    EventFlags => u32,
    FillFlags => u64,
    ReadFlags => u64,
    SemaphoreFlags => u64,
    UpdateFlags => u64,
    WriteFlags => u64,
}

/// Flags of operations of queues that commands have in narrower fields. No flag that exists has a higher bit.
macro_rules! narrowed {
    ($($set:ty),*) => {$(
        impl ToField<u32> for $set {
            fn to_field(&self) -> u32 {
                u32::try_from(self.bits()).unwrap_or(u32::MAX)
            }
        }
    )*};
}

narrowed!(CopyFlags, DispatchFlags, FillFlags, UpdateFlags);

numbers! { u32 => u32, u32 => u64, u64 => u64, [u32; 3] => [u32; 3] }

impl ToPart<payloads::Timepoint> for Timepoint {
    fn to_part(&self, encoder: &mut Encoder<'_>) -> Result<payloads::Timepoint> {
        Ok(payloads::Timepoint { semaphore_id: encoder.semaphore(&self.semaphore)?, value: self.value })
    }
}

impl ToPart<payloads::BufferRef> for BufferRef {
    fn to_part(&self, encoder: &mut Encoder<'_>) -> Result<payloads::BufferRef> {
        let mut reference = payloads::BufferRef {
            offset: self.offset,
            length: self.length,
            buffer_slot: self.slot,
            ..payloads::BufferRef::default()
        };
        if let Some(buffer) = &self.buffer {
            reference.buffer_slot = 0;
            encoder.place(buffer, &mut reference)?;
        }
        Ok(reference)
    }
}

impl ToPart<payloads::BufferRef> for BufferBinding {
    fn to_part(&self, encoder: &mut Encoder<'_>) -> Result<payloads::BufferRef> {
        let mut reference =
            payloads::BufferRef { offset: self.offset, length: self.length, ..payloads::BufferRef::default() };
        if let Some(buffer) = &self.buffer {
            encoder.place(buffer, &mut reference)?;
        }
        Ok(reference)
    }
}

impl ToPart<payloads::MemoryBarrier> for MemoryBarrier {
    fn to_part(&self, _: &mut Encoder<'_>) -> Result<payloads::MemoryBarrier> {
        Ok(payloads::MemoryBarrier {
            source_scope: self.source_scope.to_field(),
            target_scope: self.target_scope.to_field(),
        })
    }
}

impl ToPart<payloads::BufferBarrier> for BufferBarrier {
    fn to_part(&self, encoder: &mut Encoder<'_>) -> Result<payloads::BufferBarrier> {
        Ok(payloads::BufferBarrier {
            source_scope: self.source_scope.to_field(),
            target_scope: self.target_scope.to_field(),
            buffer_ref: self.buffer_ref.to_part(encoder)?,
        })
    }
}

impl ToPart<u64> for Arc<dyn hal::Event> {
    fn to_part(&self, encoder: &mut Encoder<'_>) -> Result<u64> {
        encoder.id(self)
    }
}
