//! Exclusive access of the host to the memory of a tensor ([`ExclusiveBytes`]). Nothing else can reach the memory then,
//! so it can be read as a Rust slice, without a copy.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::transient::TransientBuffer;
use super::{Buffer, BufferView, EncodingType, HeapBuffer, MappingMode, MemoryAccess, Subspan, buffer_write};
use crate::allocator::is_heap_memory;
use crate::status::Status;
use crate::vm::Obj;

/// The bytes of a tensor in memory of the host to which it holds the only reference.
///
/// Results of programs are often such tensors: the program has returned its only reference, and the operations that
/// wrote the tensor are over.
pub struct ExclusiveBytes {
    view: Obj<BufferView>,
    data: NonNull<u8>,
    length: usize,
}

// SAFETY: it has exclusive access to the bytes, which `view` keeps.
unsafe impl Send for ExclusiveBytes {}
// SAFETY: it has exclusive access to the bytes, which `view` keeps; `&ExclusiveBytes` gives only `&[u8]`.
unsafe impl Sync for ExclusiveBytes {}

impl ExclusiveBytes {
    /// The bytes of a dense tensor.
    ///
    /// # Errors
    /// The tensor itself, if something else may refer to it or to its memory, or if the memory is not the host's.
    pub fn of(mut view: Obj<BufferView>) -> Result<ExclusiveBytes, Obj<BufferView>> {
        let bytes = view.get_mut().filter(|view| view.encoding() == EncodingType::DENSE_ROW_MAJOR).and_then(|view| {
            let length = view.byte_length();
            let data = exclusive_range(view.buffer_mut()?, 0, length)?;
            Some((data, usize::try_from(length).ok()?))
        });
        match bytes {
            Some((data, length)) => Ok(ExclusiveBytes { view, data, length }),
            None => Err(view),
        }
    }

    /// The tensor again.
    pub fn into_view(self) -> Obj<BufferView> {
        self.view
    }
}

/// Overwrites the elements of a dense tensor with `bytes`, if there is no other reference to it and its buffer, so that
/// the change has no other observer. Returns whether it did.
///
/// # Errors
/// Failures of writing the buffer.
pub fn overwrite_exclusive(view: &mut Obj<BufferView>, bytes: &[u8]) -> Result<bool, Status> {
    let Some(view) = view.get_mut() else { return Ok(false) };
    if view.encoding() != EncodingType::DENSE_ROW_MAJOR || view.byte_length() != bytes.len() as u64 {
        return Ok(false);
    }
    // A range of another buffer shares its memory.
    let Some(buffer) = view.buffer_mut().and_then(Arc::get_mut).filter(|buffer| buffer.allocation().is_none()) else {
        return Ok(false);
    };
    buffer_write(buffer, 0, bytes).map(|()| true)
}

impl Deref for ExclusiveBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory has that many bytes, all of them initialised. Every reference on the way to it was found
        // to be the only one, and `view`, which holds them, is not given to anybody as long as this is borrowed.
        // Operations of queues hold references to what they use.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.length) }
    }
}

impl fmt::Debug for ExclusiveBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view.fmt(f)
    }
}

/// The address of a range of a buffer, if there is no other reference to the buffer and its memory.
fn exclusive_range(buffer: &mut Arc<dyn Buffer>, offset: u64, length: u64) -> Option<NonNull<u8>> {
    let any: &mut dyn Any = Arc::get_mut(buffer)?;
    if let Some(subspan) = any.downcast_mut::<Subspan>() {
        let (allocation, start) = subspan.allocation_mut();
        return exclusive_range(allocation, start.checked_add(offset)?, length);
    }
    if let Some(transient) = any.downcast_mut::<TransientBuffer>() {
        return heap_range(transient.exclusive_memory()?, offset, length);
    }
    heap_range(any.downcast_mut()?, offset, length)
}

/// The same of a buffer in memory of the heap. Memory of other owners may be reached in other ways.
fn heap_range(buffer: &mut HeapBuffer, offset: u64, length: u64) -> Option<NonNull<u8>> {
    if !is_heap_memory(Arc::get_mut(buffer.owner_mut())?) {
        return None;
    }
    buffer.range(MappingMode::SCOPED, MemoryAccess::READ, offset, length).ok().map(|(data, _)| data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BufferParams, BufferRefObject, ElementType, Handle, HeapAllocator, subspan};

    fn view(buffer: Arc<dyn Buffer>) -> Obj<BufferView> {
        let count = buffer.byte_length();
        let view = BufferView::new(buffer, &[count], ElementType::INT_8, EncodingType::DENSE_ROW_MAJOR);
        Obj::new(view.expect("it fits"))
    }

    fn buffers() -> [Arc<dyn Buffer>; 4] {
        let allocator = HeapAllocator::new();
        let params = BufferParams::default();
        let resolved = || allocator.resolve(params).expect("the default is fine");
        let large: Arc<dyn Buffer> = Arc::new(allocator.allocate(params, 200).expect("allocates"));
        [
            Arc::new(allocator.allocate(params, 5).expect("allocates")),
            subspan(&large, 64, 5).expect("in range"),
            TransientBuffer::of_heap(&allocator, resolved(), 5, true).expect("allocates"),
            TransientBuffer::of_heap(&allocator, resolved(), 1 << 20, true).expect("allocates"),
        ]
    }

    #[test]
    fn the_only_reference_gives_the_bytes() {
        for buffer in buffers() {
            buffer_write(&*buffer, 1, &[7, 8]).expect("in range");
            let bytes = ExclusiveBytes::of(view(buffer)).expect("there is no other reference");
            assert_eq!(bytes[..4], [0, 7, 8, 0]);
            assert_eq!(bytes.into_view().to_vec().expect("is mapped")[..4], [0, 7, 8, 0]);
        }
    }

    #[test]
    fn any_other_reference_prevents_it() {
        for buffer in buffers() {
            let same = buffer.clone();
            let refused = ExclusiveBytes::of(view(buffer)).expect_err("the buffer has another reference");
            drop(same);
            let again = refused.clone();
            let refused = ExclusiveBytes::of(refused).expect_err("the view has another reference");
            drop(again);
            let program = refused.buffer_reference().clone();
            let refused = ExclusiveBytes::of(refused).expect_err("a program has a reference to the buffer");
            drop(program);
            let mapping = refused.buffer().map_range(MappingMode::SCOPED, MemoryAccess::WRITE, 0, crate::WHOLE_BUFFER);
            let refused = ExclusiveBytes::of(refused).expect_err("the memory is mapped");
            drop(mapping.expect("is mapped"));
            assert!(ExclusiveBytes::of(refused).is_ok());
        }
    }

    #[test]
    fn a_tensor_is_overwritten_only_where_nobody_sees_it() {
        for (index, buffer) in buffers().into_iter().enumerate() {
            let mut view = view(buffer);
            let bytes = vec![9; view.byte_length() as usize];
            // The second is a range of a buffer, which may have others.
            let may_be_written = index != 1;
            assert_eq!(overwrite_exclusive(&mut view, &bytes).expect("is mapped"), may_be_written);
            assert_eq!(view.to_vec().expect("is mapped")[0], if may_be_written { 9 } else { 0 });
            assert!(!overwrite_exclusive(&mut view, &bytes[1..]).expect("is of another size"));
            let other = view.clone();
            assert!(!overwrite_exclusive(&mut view, &bytes).expect("is shared"));
            drop(other);
            let _buffer = view.buffer().clone();
            assert!(!overwrite_exclusive(&mut view, &bytes).expect("its buffer is shared"));
        }
    }

    #[test]
    fn what_shares_an_allocation_is_copied() {
        let buffer: Arc<dyn Buffer> =
            Arc::new(HeapAllocator::new().allocate(BufferParams::default(), 128).expect("allocates"));
        let parts = [0, 64].map(|offset| view(subspan(&buffer, offset, 64).expect("in range")));
        drop(buffer);
        let [first, second] = parts;
        let first = ExclusiveBytes::of(first).expect_err("the other part refers to the allocation");
        drop(second);
        assert!(ExclusiveBytes::of(first).is_ok());
    }

    #[test]
    fn imported_memory_is_copied() {
        let memory = crate::vm::Buffer::copy_of(&[1; 16]).expect("allocates");
        let owner: Arc<dyn Any + Send + Sync> = Arc::new(crate::buffer::KernelMemory::copied(memory));
        let mut bytes = [0u8; 16];
        let params = HeapAllocator::new().resolve(BufferParams::default()).expect("the default is fine");
        let data = NonNull::new(bytes.as_mut_ptr()).expect("not null");
        // SAFETY: the bytes outlive the buffer.
        let buffer = unsafe { HeapBuffer::wrap(owner, data, 16, params.memory_type, params.access, params.usage) };
        let reference = Obj::<BufferRefObject>::new(Handle(Arc::new(buffer)));
        let view = BufferView::of(reference, &[16], ElementType::INT_8, EncodingType::DENSE_ROW_MAJOR).expect("fits");
        assert!(ExclusiveBytes::of(Obj::new(view)).is_err());
    }
}
