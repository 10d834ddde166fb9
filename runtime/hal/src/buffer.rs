//! Buffers in host memory ([`HeapBuffer`]), and subspans of any buffer ([`Subspan`]). Allocators and pools make the
//! former, programs the latter.

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use super::accounting::Accounted;
use super::allocation_state::{AllocationState, allocation_methods};
use super::recycle::{self, MAX_FREE, Uninit, free_list};
use super::transfer::{check_range, require_access, require_usage};
use super::{Buffer, BufferUsage, Mapping, MappingMode, MemoryAccess, MemoryType, WatchSlot};
use crate::release::SharedOwner;
use crate::status::Result;
use crate::vm::{Buffer as VmBuffer, Obj};

free_list! { static SUBSPANS: Uninit<Subspan>, MAX_FREE }

/// A few zeroed bytes stored in their owner itself, which must not move once their address is known.
pub(super) struct InlineBytes(UnsafeCell<[u8; InlineBytes::SIZE as usize + InlineBytes::PADDING]>);

// SAFETY: the bytes are reached only through raw pointers.
unsafe impl Sync for InlineBytes {}

impl InlineBytes {
    /// How many there are.
    pub(super) const SIZE: u64 = 64;

    /// Their alignment.
    pub(super) const ALIGNMENT: u64 = 64;

    /// Enough that an aligned range of the size fits, whatever the owner's alignment.
    const PADDING: usize = InlineBytes::ALIGNMENT as usize - 1;

    pub(super) fn new() -> InlineBytes {
        InlineBytes(UnsafeCell::new([0; InlineBytes::SIZE as usize + InlineBytes::PADDING]))
    }

    /// The address of the first byte, valid as long as this is not moved.
    pub(super) fn data(&self) -> NonNull<u8> {
        let start = NonNull::from(&self.0).cast::<u8>();
        // SAFETY: aligning adds at most the padding.
        unsafe { start.add(start.align_offset(InlineBytes::ALIGNMENT as usize)) }
    }
}

/// The owner of memory of a program.
enum KeptMemory {
    Object { _buffer: Obj<VmBuffer> },
    Mapping { _mapping: SharedOwner },
}

/// An owner of memory that kernels may write to, even if a program imports it for reading only: the program has it to
/// itself. Compilers let kernels write their results over constants that nothing reads afterwards.
pub struct KernelMemory {
    _memory: KeptMemory,
    is_copy: bool,
    accounted: OnceLock<Accounted>,
}

impl KernelMemory {
    /// Memory that the program may write to as well.
    pub fn of_program(memory: Obj<VmBuffer>) -> KernelMemory {
        KernelMemory { _memory: KeptMemory::Object { _buffer: memory }, is_copy: false, accounted: OnceLock::new() }
    }

    /// The same, kept by a mapping.
    pub fn of_mapping(mapping: Arc<dyn Any + Send + Sync>) -> KernelMemory {
        KernelMemory {
            _memory: KeptMemory::Mapping { _mapping: mapping.into() },
            is_copy: false,
            accounted: OnceLock::new(),
        }
    }

    /// A copy made for the import, which counts as memory of the allocator that imports it.
    pub fn copied(memory: VmBuffer) -> KernelMemory {
        KernelMemory {
            _memory: KeptMemory::Object { _buffer: Obj::new(memory) },
            is_copy: true,
            accounted: OnceLock::new(),
        }
    }

    /// Counts a copy by `account`, which may refuse to, unless it is counted already.
    pub(super) fn account_once(&self, account: impl FnOnce() -> Result<Accounted>) -> Result<()> {
        if self.is_copy && self.accounted.get().is_none() {
            // Should another thread be faster, this count is dropped.
            let _ = self.accounted.set(account()?);
        }
        Ok(())
    }
}

/// A buffer in memory that the host reaches by plain loads and stores.
pub struct HeapBuffer {
    data: NonNull<u8>,
    state: AllocationState,
    owner: SharedOwner,
}

// SAFETY: the bytes are reached only through raw pointers, and `owner` keeps them alive.
unsafe impl Send for HeapBuffer {}
// SAFETY: the bytes are reached only through raw pointers, and `owner` keeps them alive; no Rust reference to the bytes
// exists.
unsafe impl Sync for HeapBuffer {}

impl HeapBuffer {
    /// A buffer over bytes that `owner` keeps alive.
    ///
    /// # Safety
    /// `data` must stay valid for reads of `length` bytes, and for writes if `access` allows them, as long as `owner`
    /// lives; no Rust reference to bytes that may be written may exist meanwhile.
    pub unsafe fn wrap(
        owner: Arc<dyn Any + Send + Sync>,
        data: NonNull<u8>,
        length: u64,
        memory_type: MemoryType,
        access: MemoryAccess,
        usage: BufferUsage,
    ) -> HeapBuffer {
        HeapBuffer { data, state: AllocationState::new(length, memory_type, access, usage), owner: owner.into() }
    }
}

impl HeapBuffer {
    /// Turns it into a new buffer over the first `length` of its bytes.
    ///
    /// # Safety
    /// Its memory must have that many bytes.
    pub(super) unsafe fn reset(
        &mut self,
        length: u64,
        memory_type: MemoryType,
        access: MemoryAccess,
        usage: BufferUsage,
    ) {
        self.state = AllocationState::new(length, memory_type, access, usage);
    }

    /// Fills it with zeros.
    ///
    /// # Safety
    /// Nothing else may use its memory meanwhile, and it must be memory that may be written, whatever the buffer's
    /// access says.
    pub(super) unsafe fn zero(&self) {
        // SAFETY: the buffer has that many bytes; the caller guarantees the rest.
        unsafe { self.data.write_bytes(0, self.state.length as usize) };
    }

    /// Whether kernels may write to its memory, which can be true where the program may only read ([`KernelMemory`]).
    pub(super) fn is_writable_by_kernels(&self) -> bool {
        self.state.access.contains(MemoryAccess::WRITE) || self.owner.is::<KernelMemory>()
    }

    /// The owner of its memory.
    pub(super) fn into_owner(self) -> Arc<dyn Any + Send + Sync> {
        self.owner.into_inner()
    }

    /// The owner of its memory.
    pub(super) fn owner_mut(&mut self) -> &mut Arc<dyn Any + Send + Sync> {
        self.owner.get_mut()
    }

    /// The address and length of a range, after the checks of [`Buffer::map_range`]. They are valid as long as the
    /// buffer lives: unlike a mapping this takes no reference to the owner.
    pub(super) fn range(
        &self,
        mode: MappingMode,
        access: MemoryAccess,
        offset: u64,
        length: u64,
    ) -> Result<(NonNull<u8>, u64)> {
        require_usage(self, mapping_usage(mode))?;
        require_access(self, access)?;
        let length = check_range(self.state.length, offset, length)?;
        // SAFETY: `offset <= self.state.length`, which is the size of an allocation and hence fits `usize`.
        Ok((unsafe { self.data.add(offset as usize) }, length))
    }
}

impl fmt::Debug for HeapBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer({} bytes, {:?})", self.state.length, self.state.memory_type)
    }
}

/// The usage that a mapping of `mode` needs.
fn mapping_usage(mode: MappingMode) -> BufferUsage {
    if mode.contains(MappingMode::PERSISTENT) { BufferUsage::MAPPING_PERSISTENT } else { BufferUsage::MAPPING_SCOPED }
}

impl Buffer for HeapBuffer {
    allocation_methods!();

    fn map_range(&self, mode: MappingMode, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
        let (data, length) = self.range(mode, access, offset, length)?;
        let mapping = Mapping { data, length, owner: Arc::clone(&self.owner) };
        Ok(self.state.watched(mode, access, offset, mapping))
    }
}

/// A range of another buffer.
pub struct Subspan {
    allocation: Arc<dyn Buffer>,
    offset: u64,
    length: u64,
}

/// A buffer that covers a range of `buffer` and shares its memory; `buffer` itself if the range is all of it.
///
/// # Errors
/// `OUT_OF_RANGE` if the range is not inside.
pub fn subspan(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> Result<Arc<dyn Buffer>> {
    let length = check_range(buffer.byte_length(), offset, length)?;
    if offset == 0 && length == buffer.byte_length() {
        return Ok(buffer.clone());
    }
    let allocation = buffer.allocation().unwrap_or_else(|| buffer.clone());
    // The sum is within the allocation, whose size is a number of bytes.
    let subspan: Arc<Subspan> =
        recycle::new_arc(&SUBSPANS, Subspan { allocation, offset: buffer.byte_offset() + offset, length });
    Ok(subspan)
}

impl Subspan {
    /// The buffer that it is a range of, and the offset of its first byte there.
    pub(super) fn allocation_and_offset(&self) -> (&dyn Buffer, u64) {
        (&*self.allocation, self.offset)
    }

    /// The same, mutably.
    pub(super) fn allocation_mut(&mut self) -> (&mut Arc<dyn Buffer>, u64) {
        (&mut self.allocation, self.offset)
    }

    /// The buffer that it is a range of.
    pub(super) fn into_allocation(self) -> Arc<dyn Buffer> {
        self.allocation
    }
}

impl fmt::Debug for Subspan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} of {:?}", self.length, self.offset, self.allocation)
    }
}

impl Buffer for Subspan {
    fn allocation(&self) -> Option<Arc<dyn Buffer>> {
        Some(self.allocation.clone())
    }

    fn allocation_size(&self) -> u64 {
        self.allocation.allocation_size()
    }

    fn byte_offset(&self) -> u64 {
        self.offset
    }

    fn byte_length(&self) -> u64 {
        self.length
    }

    fn memory_type(&self) -> MemoryType {
        self.allocation.memory_type()
    }

    fn allowed_access(&self) -> MemoryAccess {
        self.allocation.allowed_access()
    }

    fn allowed_usage(&self) -> BufferUsage {
        self.allocation.allowed_usage()
    }

    fn preserve(&self) {
        self.allocation.preserve();
    }

    fn discard(&self) -> bool {
        self.allocation.discard()
    }

    fn is_terminal(&self) -> bool {
        self.allocation.is_terminal()
    }

    fn watch_slot(&self) -> Option<&WatchSlot> {
        self.allocation.watch_slot()
    }

    fn map_range(&self, mode: MappingMode, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
        let length = check_range(self.length, offset, length)?;
        self.allocation.map_range(mode, access, self.offset + offset, length)
    }

    fn invalidate_range(&self, offset: u64, length: u64) -> Result<()> {
        let length = check_range(self.length, offset, length)?;
        self.allocation.invalidate_range(self.offset + offset, length)
    }

    fn flush_range(&self, offset: u64, length: u64) -> Result<()> {
        let length = check_range(self.length, offset, length)?;
        self.allocation.flush_range(self.offset + offset, length)
    }

    fn recycle(self: Arc<Self>) {
        if let Some(subspan) = recycle::into_inner(&SUBSPANS, self) {
            subspan.into_allocation().recycle();
        }
    }
}
