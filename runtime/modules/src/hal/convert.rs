//! Conversions of arguments of programs to types of the HAL, which refuse meaningless values. Exports call them.

use std::any::Any;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::abi::Span;
use crate::vm::{Buffer as VmBuffer, Obj};
use crate::{Result, Status};
use vireo_hal::buffer::KernelMemory;
use vireo_hal::{
    Allocator, Buffer, BufferBinding, BufferParams, BufferRef, BufferRefObject, BufferUsage, CollectiveElementType,
    CollectiveKind, CollectiveOp, CollectiveReduction, Device, ExternalBuffer, ExternalBufferType, ExternalFile,
    ExternalFileFlags, ExternalFileType, File, Handle, MemoryAccess, MemoryType, QueueAffinity, VmType, WHOLE_BUFFER,
};
use vireo_vm::Constant;

/// A reference for the program.
pub fn object<T: ?Sized + VmType>(object: Arc<T>) -> Obj<Handle<T>> {
    Obj::new(Handle(object))
}

/// A range of a buffer, or of a slot of the binding table. It borrows the buffer of a program's reference without
/// incrementing its reference count; a callee that keeps it clones it, which does.
#[repr(transparent)]
pub struct BorrowedRange<'a> {
    range: ManuallyDrop<BufferRef>,
    reference: PhantomData<&'a Obj<BufferRefObject>>,
}

impl Deref for BorrowedRange<'_> {
    type Target = BufferRef;

    fn deref(&self) -> &BufferRef {
        &self.range
    }
}

/// A range for a call.
#[inline]
pub fn range(buffer: Option<&Obj<BufferRefObject>>, slot: u32, offset: u64, length: u64) -> BorrowedRange<'_> {
    // SAFETY: the copy is never dropped, so it does not decrement the count of the original, and the lifetime of the
    // range guarantees that the original holds the buffer meanwhile.
    let buffer = buffer.map(|reference| unsafe { std::ptr::read(&raw const reference.0) });
    BorrowedRange { range: ManuallyDrop::new(BufferRef { buffer, slot, offset, length }), reference: PhantomData }
}

/// The bindings of a dispatch.
pub struct BorrowedRanges<'a>(SmallVec<[BorrowedRange<'a>; 8]>);

impl<'a> BorrowedRanges<'a> {
    /// The first field of each is reserved.
    #[inline]
    pub fn new(bindings: Span<'a, Binding<'a>>) -> BorrowedRanges<'a> {
        BorrowedRanges(
            bindings.iter().map(|(_, slot, buffer, offset, length)| range(buffer, slot, offset, length)).collect(),
        )
    }
}

impl Deref for BorrowedRanges<'_> {
    type Target = [BufferRef];

    fn deref(&self) -> &[BufferRef] {
        let (data, length) = (self.0.as_ptr(), self.0.len());
        // SAFETY: a `BorrowedRange` has the layout of its `BufferRef`, and the slice borrows all of them.
        unsafe { std::slice::from_raw_parts(data.cast(), length) }
    }
}

type Binding<'call> = (u32, u32, Option<&'call Obj<BufferRefObject>>, u64, u64);

/// The constants of a dispatch.
pub fn constant_words(constants: Span<'_, u32>) -> SmallVec<[u32; 16]> {
    constants.iter().collect()
}

/// True if a range is all of `buffer`.
pub fn covers(buffer: &dyn Buffer, offset: u64, length: u64) -> bool {
    offset == 0 && (length == WHOLE_BUFFER || length == buffer.byte_length())
}

/// The buffer, offset and length of a slot.
type TableEntry<'call> = (Option<&'call Obj<BufferRefObject>>, u64, u64);

/// Calls `run` with the binding table of an execution. It borrows the buffers of a program's references without
/// incrementing their reference counts; a callee that keeps one clones it, which does. The table stays where it is
/// made, since copying it takes longer than to fill it.
#[inline]
pub fn with_binding_table<'a, R>(references: Span<'a, TableEntry<'a>>, run: impl FnOnce(&[BufferBinding]) -> R) -> R {
    let mut table: SmallVec<[ManuallyDrop<BufferBinding>; 8]> = SmallVec::new();
    for (reference, offset, length) in references {
        // SAFETY: the copy is never dropped, so it does not decrement the count of the original, and the lifetime of
        // the references guarantees that the original holds the buffer meanwhile.
        let buffer = reference.map(|reference| unsafe { std::ptr::read(&raw const reference.0) });
        table.push(ManuallyDrop::new(BufferBinding { buffer, offset, length }));
    }
    let (data, length) = (table.as_ptr(), table.len());
    // SAFETY: `ManuallyDrop` has the layout of its value, and the table lives until `run` has returned.
    run(unsafe { std::slice::from_raw_parts(data.cast(), length) })
}

/// The parameters of a new buffer.
pub fn params(queue_affinity: QueueAffinity, memory_type: MemoryType, usage: BufferUsage) -> BufferParams {
    BufferParams { usage, memory_type, queue_affinity, ..BufferParams::default() }
}

/// The first `length` bytes of a fill pattern.
pub fn pattern_bytes(pattern: &[u8; 8], length: u32) -> Result<&[u8]> {
    let too_long = || Status::invalid_argument(format!("a fill pattern has at most 8 bytes, not {length}"));
    pattern.get(..length as usize).ok_or_else(too_long)
}

/// The owner of the mapping that a VM buffer over a device buffer has.
pub struct MappedStorage(pub Arc<dyn Any + Send + Sync>);

/// A buffer over `length` bytes at `offset` of a VM buffer: in place, or over a copy if they are constants of a module,
/// because kernels may write to the buffer. If the VM buffer is the storage of another device buffer, the new one
/// refers to the same mapping, so there are no chains.
///
/// # Safety
/// `params` must not allow writes if the VM buffer is read-only.
pub unsafe fn import(
    allocator: &dyn Allocator,
    params: BufferParams,
    source: &Obj<VmBuffer>,
    offset: u64,
    length: u64,
) -> Result<Arc<dyn Buffer>> {
    let (data, owner): (_, Arc<dyn Any + Send + Sync>) = match source.owner::<Constant>() {
        Some(constant) => {
            let own = constant.writable_copy(offset, length)?;
            (own.as_ptr(), Arc::new(KernelMemory::copied(own)))
        }
        // Memory that the program may write to, its kernels may write to as well.
        None => {
            let data = source.range(offset, length)?;
            let owner: Arc<dyn Any + Send + Sync> = match source.owner::<MappedStorage>() {
                Some(MappedStorage(mapping)) if source.is_mutable() && !mapping.is::<KernelMemory>() => {
                    Arc::new(KernelMemory::of_mapping(mapping.clone()))
                }
                Some(MappedStorage(mapping)) => mapping.clone(),
                None if source.is_mutable() => Arc::new(KernelMemory::of_program(source.clone())),
                None => Arc::new(source.clone()),
            };
            (data, owner)
        }
    };
    let data = NonNull::new(data).ok_or_else(|| Status::internal("the address of a VM buffer is null"))?;
    let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: length, owner };
    // SAFETY: a VM buffer keeps its bytes in place while the owner holds it, and they are reached only through raw
    // pointers. That writes are allowed only if it is mutable is the caller's promise; the copy of a constant is new
    // memory, which may be written.
    unsafe { allocator.import_buffer(params, &external) }
}

/// Fails unless `access` is reading, writing or both, which are the accesses of files.
pub fn check_file_access(access: MemoryAccess) -> Result<()> {
    let allowed = MemoryAccess::READ | MemoryAccess::WRITE;
    if allowed.contains(access) {
        return Ok(());
    }
    let message = format!("a file can be used as {allowed:?}, not as {:?}", access - allowed);
    Err(Status::permission_denied(message))
}

/// A file over `length` bytes at `offset` of a VM buffer, in place.
///
/// # Safety
/// `access` must not allow writes if the VM buffer is read-only.
pub unsafe fn import_file(
    device: &dyn Device,
    queue_affinity: QueueAffinity,
    access: MemoryAccess,
    source: &Obj<VmBuffer>,
    offset: u64,
    length: u64,
    flags: ExternalFileFlags,
) -> Result<Arc<dyn File>> {
    let data = NonNull::new(source.range(offset, length)?);
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(source.clone());
    let external = ExternalFile { r#type: ExternalFileType::HostAllocation, data, length, fd: -1, owner: Some(owner) };
    // SAFETY: the owner keeps the bytes, and the caller vouches for the access.
    unsafe { device.import_file(queue_affinity, access, &external, flags) }
}

/// A collective operation, from the number in which programs pack it.
pub fn collective_op(packed: u32) -> Result<CollectiveOp> {
    let [kind, reduction, element_type, reserved] = packed.to_le_bytes();
    if reserved != 0 {
        return Err(Status::invalid_argument(format!("there is no collective operation {packed:#010x}")));
    }
    Ok(CollectiveOp {
        kind: CollectiveKind(kind),
        reduction: CollectiveReduction(reduction),
        element_type: CollectiveElementType(element_type),
    })
}

/// A copy of a range of a VM buffer. The range is checked before the copy is allocated.
pub fn bytes(buffer: &VmBuffer, offset: u64, length: u64) -> Result<Vec<u8>> {
    buffer.range(offset, length)?;
    let mut bytes = vec![0; length as usize];
    buffer.read(offset, &mut bytes)?;
    Ok(bytes)
}

/// The text in a VM buffer; errors call it `name`.
pub fn text(name: &str, buffer: &VmBuffer) -> Result<String> {
    String::from_utf8(buffer.to_vec()).map_err(|_| Status::invalid_argument(format!("{name} is not UTF-8")))
}

/// The 32-bit little-endian words of a VM buffer.
pub fn words(name: &str, buffer: &VmBuffer) -> Result<Vec<u32>> {
    let bytes = buffer.to_vec();
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        let message = format!("{name} has {} bytes: expected a multiple of 4", bytes.len());
        return Err(Status::invalid_argument(message));
    }
    Ok(words.iter().copied().map(u32::from_le_bytes).collect())
}

/// The error for a load or store of more bytes than a value has.
pub fn scalar_length(length: u32) -> Status {
    Status::invalid_argument(format!("a value of {length} bytes: expected at most 4"))
}

/// The size of a buffer that a program asks for. Programs have signed numbers, and a negative one is a mistake rather
/// than a want of memory.
pub fn buffer_size(size: u64) -> Result<u64> {
    match i64::try_from(size) {
        Ok(_) => Ok(size),
        Err(_) => {
            let size = size.cast_signed();
            Err(Status::invalid_argument(format!("the size of a buffer is {size}, a negative number")))
        }
    }
}
