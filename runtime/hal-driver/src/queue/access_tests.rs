//! Random operations over buffers and files that tell what is touched, compared with what the operations say of
//! themselves: nothing else is touched, and what succeeds touches all of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::tests::Host;
use super::*;
use crate::deferred::tests::{NoExecutable, Nothing};
use crate::deferred::{DeferredCommandBuffer, ProgramRecorder};
use crate::hal::forward::ForwardBuffer;
use crate::hal::{
    Access, Accessed, Allocator as _, Buffer, BufferBinding, BufferParams, BufferRef, BufferUsage, CommandBuffer,
    CommandBufferMode, CommandCategory, CopyFlags, DeallocaFlags, DispatchConfig, DispatchFlags, Executable,
    ExecutableFunction, ExecuteFlags, File, FillFlags, Forward, HeapAllocator, HostCall, HostCallContext,
    HostCallFlags, HostSemaphore, Mapping, MappingMode, MemoryAccess, QueueAffinity, QueueOperation, ReadFlags,
    Semaphore, Timepoint, UpdateFlags, WHOLE_BUFFER, WriteFlags, buffer_copy, subspan,
};
use crate::status::{Result, Status};

/// Bytes of each buffer and file.
const LENGTH: u64 = 64;

/// The kinds of access that are compared.
const KINDS: [MemoryAccess; 2] = [MemoryAccess::READ, MemoryAccess::WRITE];

/// Which bytes of which object are accessed, by the kind of access.
type Touched = BTreeMap<(usize, u16), [bool; LENGTH as usize]>;

thread_local! {
    static TOUCHED: RefCell<Touched> = const { RefCell::new(BTreeMap::new()) };
}

fn add(touched: &mut Touched, object: usize, (offset, length): (u64, u64), access: MemoryAccess) {
    for kind in KINDS.into_iter().filter(|kind| access.contains(*kind)) {
        let bytes = touched.entry((object, kind.bits())).or_insert([false; LENGTH as usize]);
        let end = offset.saturating_add(length).min(LENGTH);
        (offset.min(end)..end).for_each(|byte| bytes[byte as usize] = true);
    }
}

fn touch(object: usize, range: (u64, u64), access: MemoryAccess) {
    TOUCHED.with_borrow_mut(|touched| add(touched, object, range, access));
}

/// A buffer that tells what is mapped.
#[derive(Debug)]
struct Watched(usize, Arc<dyn Buffer>);

impl ForwardBuffer for Watched {
    fn inner(&self) -> &Arc<dyn Buffer> {
        &self.1
    }

    fn map_range(&self, mode: MappingMode, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
        let mapping = self.1.map_range(mode, access, offset, length)?;
        touch(self.0, (offset, mapping.length), access);
        Ok(mapping)
    }
}

/// A file in memory that tells what is read and written.
#[derive(Debug)]
struct WatchedFile(usize, Arc<dyn Buffer>);

impl WatchedFile {
    fn both_lengths(&self, offset: u64, buffer: &Arc<dyn Buffer>, start: u64, length: u64) -> Result<u64> {
        let left = |available: u64, offset: u64| {
            available.checked_sub(offset).ok_or_else(|| Status::out_of_range("past the end"))
        };
        let left = left(LENGTH, offset)?.min(left(buffer.byte_length(), start)?);
        if length == WHOLE_BUFFER || length <= left { Ok(length.min(left)) } else { Err(Status::out_of_range("end")) }
    }
}

impl File for WatchedFile {
    fn allowed_access(&self) -> MemoryAccess {
        MemoryAccess::ALL
    }

    fn length(&self) -> u64 {
        LENGTH
    }

    fn async_handle(&self) -> Result<i32> {
        Ok(-1)
    }

    fn supports_synchronous_io(&self) -> bool {
        true
    }

    fn read(&self, offset: u64, buffer: &Arc<dyn Buffer>, start: u64, length: u64) -> Result<()> {
        let length = self.both_lengths(offset, buffer, start, length)?;
        touch(self.0, (offset, length), MemoryAccess::READ);
        buffer_copy(&*self.1, offset, &**buffer, start, length)
    }

    fn write(&self, offset: u64, buffer: &Arc<dyn Buffer>, start: u64, length: u64) -> Result<()> {
        let length = self.both_lengths(offset, buffer, start, length)?;
        touch(self.0, (offset, length), MemoryAccess::WRITE);
        buffer_copy(&**buffer, start, &*self.1, offset, length)
    }
}

#[derive(Debug)]
struct NoCall;

impl HostCall for NoCall {
    fn call(&self, _context: HostCallContext, _signal: &[Timepoint]) -> Result<()> {
        Ok(())
    }
}

/// Numbers that a seed determines (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % limit
    }

    /// An offset, and a length that mostly fits, or that of all there is.
    fn range(&mut self, available: u64) -> (u64, u64) {
        let offset = self.below(available / 8) * 8;
        let length = match self.below(8) {
            0 => WHOLE_BUFFER,
            1 => available,
            _ => self.below((available - offset) / 8 + 1) * 8,
        };
        (offset, length)
    }
}

/// The objects that operations use.
struct World {
    buffers: Vec<Arc<dyn Buffer>>,
    files: Vec<Arc<dyn File>>,
    executable: Arc<dyn Executable>,
    call: Arc<dyn HostCall>,
}

impl World {
    fn new() -> World {
        let params = BufferParams { usage: BufferUsage::all(), ..BufferParams::default() };
        let allocate = || HeapAllocator::new().allocate_buffer(params, LENGTH).expect("allocates");
        let watched = |number| -> Arc<dyn Buffer> { Arc::new(Forward(Watched(number, allocate()))) };
        let mut buffers: Vec<_> = (0..3).map(watched).collect();
        buffers.push(subspan(&buffers[0], 16, 32).expect("within"));
        let file = |number| -> Arc<dyn File> { Arc::new(WatchedFile(number, allocate())) };
        let (executable, call) = (Arc::new(NoExecutable), Arc::new(NoCall));
        World { buffers, files: (10..12).map(file).collect(), executable, call }
    }

    fn buffer(&self, draw: &mut Draw) -> &Arc<dyn Buffer> {
        &self.buffers[draw.below(self.buffers.len() as u64) as usize]
    }

    fn reference(&self, draw: &mut Draw) -> BufferRef {
        let buffer = self.buffer(draw);
        let (offset, length) = draw.range(buffer.byte_length());
        BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length }
    }

    /// The bytes that accesses are to, and whether they say that there may be more.
    fn declared(&self, accesses: &[Access<'_>]) -> (Touched, bool) {
        let (mut touched, mut is_open) = (Touched::new(), false);
        for Access { object, offset, length, access } in accesses {
            match object {
                Accessed::Buffer(buffer) => {
                    let allocation = buffer.allocation();
                    let whole = allocation.as_ref().unwrap_or(buffer);
                    let number = self.buffers.iter().position(|known| Arc::ptr_eq(known, whole)).expect("is known");
                    add(&mut touched, number, (buffer.byte_offset() + offset, *length), *access);
                }
                Accessed::File(file) => {
                    let number = self.files.iter().position(|known| Arc::ptr_eq(known, file)).expect("is known");
                    add(&mut touched, 10 + number, (*offset, *length), *access);
                }
                Accessed::CommandBuffer(_) | Accessed::HostCall(_) => is_open = true,
            }
        }
        (touched, is_open)
    }
}

/// Commands that fill the first of two slots, copy it to the second one, and dispatch with both.
fn commands(draw: &mut Draw, executable: &Arc<dyn Executable>) -> Arc<dyn CommandBuffer> {
    let mode = CommandBufferMode::empty();
    let commands = DeferredCommandBuffer::<ProgramRecorder<Nothing>>::new(
        Nothing,
        mode,
        CommandCategory::ANY,
        QueueAffinity::ANY,
        2,
    );
    let commands = commands.expect("the mode allows slots");
    let slot = |slot, offset| BufferRef { buffer: None, slot, offset, length: 8 };
    let slots = [slot(0, draw.below(3) * 8), slot(1, draw.below(3) * 8)];
    commands.begin().expect("was not begun");
    commands.fill_buffer(&slots[0], &[7], FillFlags::empty()).expect("is recorded");
    commands.copy_buffer(&slots[0], &slots[1], CopyFlags::empty()).expect("is recorded");
    let config = DispatchConfig::default();
    let function = ExecutableFunction(0);
    commands.dispatch(executable, function, &config, &[], &slots, DispatchFlags::empty()).expect("is recorded");
    commands.end().expect("is recording");
    commands
}

/// Submits an operation and compares what it touched with what it says. Returns whether it succeeded.
fn check(world: &World, draw: &mut Draw, operation: QueueOperation<'_>) -> bool {
    let owned = operation.into_owned();
    assert_eq!(format!("{owned:?}"), format!("{operation:?}"));
    let (declared, is_open) = world.declared(&operation.accesses());
    assert_eq!(declared, world.declared(&owned.get().accesses()).0);
    let queue = Arc::new(Queue::<Host>::default());
    let at = |semaphore: &Arc<dyn Semaphore>| [Timepoint { semaphore: semaphore.clone(), value: 1 }];
    let [begin, end] = [(); 2].map(|()| -> Arc<dyn Semaphore> { Arc::new(HostSemaphore::new(0)) });
    TOUCHED.take();
    let submitted = match draw.below(3) {
        0 => queue.operate(QueueAffinity::ANY, (&[], &at(&end)), operation, Nothing),
        1 => queue.operate(QueueAffinity::ANY, (&[], &at(&end)), owned.get(), Nothing),
        // It waits, so the queue keeps it.
        _ => {
            let submitted = queue.operate(QueueAffinity::ANY, (&at(&begin), &at(&end)), operation, Nothing);
            assert_eq!(TOUCHED.with_borrow(BTreeMap::len), 0, "before it is ready");
            begin.signal(1).expect("advances");
            submitted
        }
    };
    let touched = TOUCHED.take();
    let succeeded = submitted.is_ok() && end.query().is_ok();
    // One that fails may have mapped more of its source than fits its target, and has read nothing of it.
    let is_known = |(_, kind): &(usize, u16)| succeeded || *kind == MemoryAccess::WRITE.bits();
    for (key, bytes) in touched.iter().filter(|(key, _)| is_known(key)) {
        let allowed = declared.get(key).copied().unwrap_or([false; LENGTH as usize]);
        let is_within = bytes.iter().zip(allowed).all(|(touched, allowed)| allowed || !touched);
        assert!(is_within, "{operation:?} touched {key:?} {bytes:?}, {declared:?} was said");
    }
    if succeeded && !is_open {
        let some = |touched: Touched| -> Touched {
            touched.into_iter().filter(|(_, bytes)| bytes.iter().any(|byte| *byte)).collect()
        };
        assert_eq!(some(touched), some(declared), "{operation:?}");
    }
    succeeded
}

#[test]
fn operations_touch_what_they_say() {
    const KINDS_OF_OPERATIONS: u64 = 10;
    let world = World::new();
    let mut succeeded = [0; KINDS_OF_OPERATIONS as usize];
    for seed in 0..4000 {
        let draw = &mut Draw(seed);
        let kind = draw.below(KINDS_OF_OPERATIONS);
        let (buffer, other) = (world.buffer(draw), world.buffer(draw));
        let ((offset, length), (other_offset, _)) = (draw.range(buffer.byte_length()), draw.range(other.byte_length()));
        let file = &world.files[draw.below(2) as usize];
        let bytes = vec![3; draw.below(40) as usize];
        let [first, second, counts] = [(); 3].map(|()| world.reference(draw));
        let config = DispatchConfig { workgroup_count_ref: BufferRef { length: 12, ..counts }, ..Default::default() };
        let is_indirect = draw.below(2) == 0;
        let config = if is_indirect { config } else { DispatchConfig::default() };
        let flags = if is_indirect { DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS } else { DispatchFlags::empty() };
        let bindings = [first, second];
        let binding = |reference: &BufferRef| BufferBinding {
            buffer: reference.buffer.clone(),
            offset: reference.offset,
            length: reference.length,
        };
        let table = [binding(&bindings[0]), binding(&bindings[1])];
        let commands = commands(draw, &world.executable);
        let operation = match kind {
            0 => QueueOperation::Barrier { flags: ExecuteFlags::empty() },
            1 => QueueOperation::Fill {
                target_buffer: buffer,
                target_offset: offset,
                length,
                pattern: &[1, 2, 3, 4],
                flags: FillFlags::empty(),
            },
            2 => QueueOperation::Update {
                source: &bytes,
                target_buffer: buffer,
                target_offset: offset,
                flags: UpdateFlags::empty(),
            },
            3 => QueueOperation::Copy {
                source_buffer: buffer,
                source_offset: offset,
                target_buffer: other,
                target_offset: other_offset,
                length,
                flags: CopyFlags::empty(),
            },
            4 => QueueOperation::Read {
                source_file: file,
                source_offset: other_offset,
                target_buffer: buffer,
                target_offset: offset,
                length,
                flags: ReadFlags::empty(),
            },
            5 => QueueOperation::Write {
                source_buffer: buffer,
                source_offset: offset,
                target_file: file,
                target_offset: other_offset,
                length,
                flags: WriteFlags::empty(),
            },
            6 => QueueOperation::HostCall { call: &world.call, args: &[1, 2], flags: HostCallFlags::empty() },
            7 => QueueOperation::Dispatch {
                executable: &world.executable,
                function: ExecutableFunction(0),
                config: &config,
                constants: &[1, 2, 3],
                bindings: &bindings,
                flags,
            },
            8 => QueueOperation::Execute {
                command_buffer: &commands,
                binding_table: &table,
                flags: ExecuteFlags::empty(),
            },
            _ => QueueOperation::Dealloca { buffer, flags: DeallocaFlags::empty() },
        };
        succeeded[kind as usize] += u32::from(check(&world, draw, operation));
    }
    assert!(succeeded.iter().all(|count| *count > 50), "too few succeeded: {succeeded:?}");
}

#[test]
fn an_operation_in_the_place_of_another_holds_nothing_of_it() {
    let world = World::new();
    let [first, second] = [&world.buffers[1], &world.buffers[2]];
    let update = |target_buffer, source| QueueOperation::Update {
        source,
        target_buffer,
        target_offset: 0,
        flags: UpdateFlags::empty(),
    };
    let mut owned = update(first, &[1; 40]).into_owned();
    let (references, capacity) = (Arc::strong_count(first), owned.list_capacity());
    owned.assign(update(second, &[2; 8]));
    assert_eq!((Arc::strong_count(first), owned.list_capacity(), owned.list_bytes()), (references - 1, capacity, 8));
    assert_eq!(format!("{owned:?}"), format!("{:?}", update(second, &[2; 8])));
    let reference = BufferRef { buffer: Some(first.clone()), ..BufferRef::default() };
    let bindings = [reference];
    owned.assign(QueueOperation::Dispatch {
        executable: &world.executable,
        function: ExecutableFunction(0),
        config: &DispatchConfig::default(),
        constants: &[],
        bindings: &bindings,
        flags: DispatchFlags::empty(),
    });
    drop(bindings);
    assert_eq!(Arc::strong_count(first), references);
    owned.assign(QueueOperation::Barrier { flags: ExecuteFlags::empty() });
    assert_eq!((Arc::strong_count(first), owned.list_bytes()), (references - 1, 0));
}
