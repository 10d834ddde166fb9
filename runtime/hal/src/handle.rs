//! References of programs to objects of the HAL ([`Handle`]): the heap objects that ref registers point to.
//!
//! A [`Handle`] shares its object with the host. Two handles of one object are the same reference to a program, because
//! identity is the address of the shared object. Fences and buffer views are values, which the heap object holds
//! itself.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Allocator, Buffer, Channel, CommandBuffer, Device, Executable, ExecutableCache, Fence, File, Semaphore};
use crate::limits::OBJECT_BYTES;
use crate::vm::{Object, Ref};

/// A HAL object that programs can refer to. Generated from `vm_type` in `spec/hal/`.
pub trait VmType: Send + Sync + 'static {
    /// Name of the reference type, such as `hal.device`.
    const TYPE_NAME: &'static str;

    /// Drops a reference; objects with a `recycle` method recycle themselves with the last one.
    fn recycle(_object: Arc<Self>) {}
}

/// A program's reference to a HAL object.
pub struct Handle<T: ?Sized>(pub Arc<T>);

/// `hal.allocator`
pub type AllocatorRef = Handle<dyn Allocator>;
/// `hal.buffer`
pub type BufferRefObject = Handle<dyn Buffer>;
/// `hal.channel`
pub type ChannelRef = Handle<dyn Channel>;
/// `hal.command_buffer`
pub type CommandBufferRef = Handle<dyn CommandBuffer>;
/// `hal.device`
pub type DeviceRef = Handle<dyn Device>;
/// `hal.executable`
pub type ExecutableRef = Handle<dyn Executable>;
/// `hal.executable_cache`
pub type ExecutableCacheRef = Handle<dyn ExecutableCache>;
/// `hal.fence`. Programs make several at each call, and a copy shares the timelines, so the heap object holds the fence
/// itself.
pub type FenceRef = Fence;
/// `hal.file`
pub type FileRef = Handle<dyn File>;
/// `hal.semaphore`
pub type SemaphoreRef = Handle<dyn Semaphore>;

impl<T: ?Sized + VmType> Handle<T> {
    /// A new reference for a program.
    pub fn to_ref(object: Arc<T>) -> Ref {
        Ref::new(Handle(object))
    }
}

impl<T: ?Sized + VmType> Object for Handle<T> {
    const TYPE_NAME: &'static str = T::TYPE_NAME;

    fn identity(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }

    fn footprint(&self) -> u64 {
        OBJECT_BYTES
    }

    fn recycle(self) {
        T::recycle(self.0);
    }
}

impl Object for Fence {
    const TYPE_NAME: &'static str = <Fence as VmType>::TYPE_NAME;

    fn footprint(&self) -> u64 {
        // For each point its semaphore, and the status that this has if it fails.
        size_of_val(self) as u64 + self.timepoints().len() as u64 * 2 * OBJECT_BYTES
    }

    fn recycle(mut self) {
        // An iterator over the values would be a copy of all of it, and most fences have one point.
        while let Some(point) = self.pop_timepoint() {
            point.semaphore.recycle();
        }
    }
}

impl<T: ?Sized> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Handle(self.0.clone())
    }
}

impl<T: ?Sized> Deref for Handle<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
