//! Tests of recording and of what executions write, in plain memory: what a device would have, at addresses of the
//! host.

use std::ptr::NonNull;
use std::sync::{Arc, LazyLock};

use vireo_hsa::packet::{FenceScope, KernelDispatchPacket, Packet, PacketHeader, PacketType};
use vireo_hsa::signal::Signal;

use super::template::{MAX_ARGUMENTS, MAX_PACKETS};
use super::{
    ArgumentMemory, DispatchTarget, KernelSource, PacketRecorder, Program, PublishedMemory, Resolved, RingPlace,
    Template, TransferKernels,
};
use crate::agent::DispatchLimits;
use crate::executable::{Container, LoadedKernel};
use crate::hal::transient::{Memory, TransientBuffer};
use crate::hal::{
    Allocator, Buffer, BufferBinding, BufferParams, BufferRef, BufferUsage, DispatchConfig, DispatchFlags, Executable,
    ExecutableFunction, ExecutableFunctionInfo, HeapAllocator, MemoryAccess, MemoryType, WHOLE_BUFFER,
};
use crate::hal_driver::deferred::{DispatchRequest, Recorder as _};
use crate::limits::scope::Scope;
use crate::limits::{Limits, MemoryBudget};
use crate::memory::{AgentMask, DeviceBuffer, DeviceMemory, Publication};
use crate::status::{Result, Status, StatusCode};

const KERNELS: &[u8] = include_bytes!("../../../../../../fixtures/amdgpu/kernels_gfx1100.amd1");

/// Ordinals in that executable.
const ADD: u64 = 0;
const ABS: u64 = 1;

#[derive(Debug)]
struct TestExecutable(Container<'static>);

impl Executable for TestExecutable {
    fn function_count(&self) -> u32 {
        self.0.exports.len() as u32
    }

    fn function_info(&self, _function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        Ok(ExecutableFunctionInfo::default())
    }

    fn lookup_function(&self, name: &str) -> Result<ExecutableFunction> {
        Err(Status::not_found(name))
    }
}

/// Memory aligned as that of devices.
#[derive(Clone)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "accessed by address")] [u64; 8]);

fn memory(length: usize) -> DeviceMemory {
    let mut lines = vec![Line([0; 8]); length.div_ceil(64)].into_boxed_slice();
    let host = NonNull::new(lines.as_mut_ptr().cast::<u8>()).expect("an address");
    let owner = Arc::new(lines);
    let address = host.as_ptr() as u64;
    DeviceMemory {
        address,
        length: length as u64,
        host: Some(host),
        publication: Publication::Coherent,
        reached_by: AgentMask::ALL,
        owner,
    }
}

fn read_u64s(address: u64, count: usize) -> Vec<u64> {
    // SAFETY: tests read memory that they made, and hold meanwhile.
    (0..count).map(|index| unsafe { (address as *const u64).add(index).read_unaligned() }).collect()
}

fn buffer(length: u64) -> Arc<dyn Buffer> {
    let usage = BufferUsage::DEFAULT | BufferUsage::MAPPING | BufferUsage::DISPATCH_INDIRECT_PARAMETERS;
    let memory_type = MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE;
    // SAFETY: the memory has that many bytes, and only tests use it.
    Arc::new(unsafe { DeviceBuffer::new(memory(length as usize), length, memory_type, MemoryAccess::ALL, usage) })
}

/// A transient buffer that has no memory.
fn transient() -> Arc<dyn Buffer> {
    let params = BufferParams { usage: BufferUsage::DEFAULT, access: MemoryAccess::ALL, ..BufferParams::default() };
    TransientBuffer::new(params, 64, Memory::None)
}

fn address_of(buffer: &Arc<dyn Buffer>) -> u64 {
    crate::memory::device_range(&**buffer).expect("it has memory").address
}

/// A device with the kernels of the fixture at made-up addresses.
#[derive(Debug)]
struct Source;

impl KernelSource for Source {
    fn target<'a>(
        &self,
        executable: &'a Arc<dyn Executable>,
        function: ExecutableFunction,
    ) -> Result<DispatchTarget<'a>> {
        let any: &dyn std::any::Any = &**executable;
        let executable: &TestExecutable = any.downcast_ref().expect("of the tests");
        let export = &executable.0.exports[function.0 as usize];
        let kernel = LoadedKernel { object: 0x1000 + function.0 * 64, private_size: 16, group_size: 32 };
        Ok(DispatchTarget { kernel, export })
    }

    fn limits(&self) -> DispatchLimits {
        DispatchLimits {
            group_memory: 1 << 16,
            workgroup_items: 1024,
            workgroup_size: [1024; 3],
            grid_size: [u32::MAX, u32::MAX, 1 << 20],
        }
    }

    fn transfers(&self) -> Result<TransferKernels> {
        Ok(TRANSFERS)
    }

    fn argument_memory(&self, length: usize) -> Result<PublishedMemory> {
        let DeviceMemory { address, host, owner, publication, .. } = memory(length);
        // SAFETY: the memory has that many bytes, which the owner keeps, and nothing else uses it.
        let range = unsafe { ArgumentMemory::new(host.expect("it is the host's"), address, length).range(0, length) };
        Ok(PublishedMemory { range: range.expect("all of it"), publication, owner })
    }
}

fn source() -> Arc<dyn KernelSource> {
    Arc::new(Source)
}

fn recorder_of(capacity: u32, reusable: bool) -> PacketRecorder {
    PacketRecorder::new(&source(), capacity, reusable)
}

fn executable() -> Arc<dyn Executable> {
    static EXECUTABLE: LazyLock<Arc<TestExecutable>> =
        LazyLock::new(|| Arc::new(TestExecutable(Container::read(KERNELS).expect("it is well-formed"))));
    EXECUTABLE.clone()
}

fn at(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length }
}

fn in_slot(slot: u32, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: None, slot, offset, length }
}

/// Records a dispatch with so many work-groups.
fn dispatch(recorder: &mut PacketRecorder, function: u64, count: u32, bindings: &[BufferRef]) -> Result<()> {
    let constants: &[u32] = if function == ADD { &[11, 12, 13, 14] } else { &[] };
    let config = DispatchConfig { workgroup_count: [count, 2, 1], ..DispatchConfig::default() };
    let request = DispatchRequest {
        executable: &executable(),
        function: ExecutableFunction(function),
        config: &config,
        constants,
        bindings,
        flags: DispatchFlags::empty(),
    };
    recorder.dispatch(&source(), request)
}

const TRANSFERS: TransferKernels = TransferKernels {
    fill: [kernel(0xf16), kernel(0xf04), kernel(0xf01)],
    copy: [kernel(0xc16), kernel(0xc04), kernel(0xc01)],
    r#move: [kernel(0xe16), kernel(0xe04), kernel(0xe01)],
    patch: kernel(0xa),
};

const fn kernel(object: u64) -> LoadedKernel {
    LoadedKernel { object, private_size: 0, group_size: 0 }
}

/// The packets of an execution, and what holds their arguments.
struct Executed {
    packets: Vec<KernelDispatchPacket>,
    /// The packets whose header another packet writes.
    unpublished: Vec<usize>,
    _arguments: DeviceMemory,
    _resolved: Resolved,
}

const RING: u64 = 0x10_0000;

fn execute(program: &Program, table: &[BufferBinding]) -> Result<Executed> {
    let mut resolved = Resolved::default();
    program.resolve(table, &mut resolved)?;
    let arguments = memory(1 << 20);
    // SAFETY: the memory is there as long as the result.
    let all = unsafe { ArgumentMemory::new(arguments.host.expect("the host's"), arguments.address, 1 << 20) };
    let (mut bytes, mut used) = (Vec::new(), 0);
    for template in program.templates() {
        assert!(template.packet_count() <= MAX_PACKETS);
        let length = template.argument_bytes() as usize;
        assert!(length <= MAX_ARGUMENTS);
        // SAFETY: nothing else uses it.
        let mut range = unsafe { all.range(used, length) }.expect("there is room");
        used += length;
        let place = RingPlace { ring: RING, slots: 256, first: 250 + bytes.len() as u64 };
        template.write(&resolved, program.kernels(), place, &mut range, &mut bytes)?;
    }
    let (mut packets, mut unpublished) = (Vec::new(), Vec::new());
    for (index, bytes) in bytes.iter().enumerate() {
        let packet = KernelDispatchPacket::read(bytes);
        match packet.header.r#type() {
            PacketType::INVALID => unpublished.push(index),
            _ => assert!(matches!(Packet::read(bytes), Ok(Packet::KernelDispatch(_)))),
        }
        assert_eq!(packet.completion_signal, Signal::default(), "the queue completes packets");
        packets.push(packet);
    }
    Ok(Executed { packets, unpublished, _arguments: arguments, _resolved: resolved })
}

fn code(result: Result<impl Sized>) -> StatusCode {
    result.err().expect("it fails").code()
}

#[test]
fn arguments_are_the_same_wherever_they_are() {
    let buffers: Vec<Arc<dyn Buffer>> = (0..3).map(|_| buffer(256)).collect();
    let addresses: Vec<u64> = buffers.iter().map(|buffer| address_of(buffer) + 64).collect();
    let fixed: Vec<BufferRef> = buffers.iter().map(|buffer| at(buffer, 64, 128)).collect();
    let slots: Vec<BufferRef> = (0..3).map(|slot| in_slot(slot, 32, 128)).collect();
    let mixed = [fixed[0].clone(), slots[1].clone(), fixed[2].clone()];
    let binding =
        |buffer: &Arc<dyn Buffer>| BufferBinding { buffer: Some(buffer.clone()), offset: 32, length: WHOLE_BUFFER };
    let table: Vec<BufferBinding> = buffers.iter().map(binding).collect();
    let cases = [
        (true, &fixed[..], true),
        (true, &slots[..], false),
        (true, &mixed[..], false),
        (false, &fixed[..], false),
        (false, &mixed[..], false),
    ];
    for (reusable, bindings, is_published) in cases {
        let mut recorder = recorder_of(3, reusable);
        dispatch(&mut recorder, ADD, 5, bindings).expect("records");
        let program = recorder.finish(&source()).expect("records");
        // 296 bytes, at multiples of 64.
        assert_eq!(program.templates()[0].argument_bytes(), if is_published { 0 } else { 320 });
        // A program may be executed again.
        for _ in 0..2 {
            let executed = execute(&program, &table).expect("executes");
            let [packet] = executed.packets.as_slice() else { panic!("{:?}", executed.packets) };
            assert_eq!((packet.kernel_object, packet.setup.dimensions()), (0x1000, 3));
            assert_eq!((packet.workgroup_size, packet.grid_size), ([32, 1, 1], [160, 2, 1]));
            assert_eq!((packet.private_segment_size, packet.group_segment_size), (16, 32));
            assert_eq!(packet.kernarg_address % 64, 0);
            let arguments = read_u64s(packet.kernarg_address, 37);
            assert_eq!(arguments[..3], addresses, "{reusable}, {bindings:?}");
            assert_eq!(arguments[3..5], [12 << 32 | 11, 14 << 32 | 13], "{reusable}, {bindings:?}");
            // Implicit arguments: work-groups, the size of each, no remainder, and three dimensions.
            assert_eq!(arguments[5..8], [2 << 32 | 5, (1 << 48 | 32 << 32) | 1, 1], "{reusable}, {bindings:?}");
            assert_eq!(arguments[5 + 8], 3, "{reusable}, {bindings:?}");
            assert!(arguments[14..].iter().all(|word| *word == 0), "{reusable}, {bindings:?}");
        }
    }
}

#[test]
fn commands_after_a_barrier_wait_and_those_before_release() {
    let memory = buffer(1024);
    let mut recorder = recorder_of(0, true);
    recorder.barrier().expect("nothing is before it");
    recorder.fill(&at(&memory, 0, 64), &[1, 2]).expect("records");
    recorder.fill(&at(&memory, 64, 64), &[3]).expect("records");
    recorder.barrier().expect("records");
    recorder.barrier().expect("a second one changes nothing");
    recorder.copy(&at(&memory, 0, 128), &at(&memory, 128, 128)).expect("records");
    recorder.update(&[9; 7], &at(&memory, 301, 7)).expect("records");
    let program = recorder.finish(&source()).expect("records");
    assert_eq!((program.templates().len(), program.commands()), (1, 4));
    assert_eq!(program.templates()[0].argument_bytes(), 5 * 64);
    let executed = execute(&program, &[]).expect("executes");
    let order = |packet: &KernelDispatchPacket| {
        let header = packet.header;
        (header.barrier(), header.acquire_fence_scope(), header.release_fence_scope())
    };
    let orders: Vec<_> = executed.packets.iter().map(order).collect();
    let agent = FenceScope::AGENT;
    let first = (false, FenceScope::NONE, agent);
    assert_eq!(orders, [first, first, (true, agent, agent), (false, FenceScope::NONE, agent)]);
}

#[test]
fn transfers_use_the_largest_unit_that_fits() {
    let (memory, other) = (buffer(4096), buffer(4096));
    let base = address_of(&memory);
    let shift = |bytes: u64| (16 - base % 16) % 16 + bytes;
    let mut recorder = recorder_of(1, true);
    recorder.fill(&at(&memory, shift(0), 1024), &[1, 2, 3, 4]).expect("records");
    recorder.fill(&at(&memory, shift(4), 1024), &[7; 4]).expect("records");
    recorder.fill(&at(&memory, shift(1), 7), &[5]).expect("records");
    recorder.fill(&in_slot(0, 8, WHOLE_BUFFER), &[1, 2, 3, 4, 5, 6, 7, 8]).expect("records");
    recorder.copy(&at(&memory, shift(2), 6), &at(&other, 3, 6)).expect("records");
    recorder.fill(&at(&memory, 0, 0), &[1]).expect("of nothing");
    let program = recorder.finish(&source()).expect("records");
    let table = [BufferBinding { buffer: Some(other.clone()), offset: 8, length: 32 }];
    let executed = execute(&program, &table).expect("executes");
    let kernels: Vec<u64> = executed.packets.iter().map(|packet| packet.kernel_object).collect();
    // The slot's fill has 24 bytes.
    assert_eq!(kernels, [0xf16, 0xf04, 0xf01, 0xf04, 0xc01]);
    let arguments = |index: usize| read_u64s(executed.packets[index].kernarg_address, 4);
    assert_eq!(arguments(0), [base + shift(0), 0x0403_0201_0403_0201, 64, 256]);
    assert_eq!(arguments(1)[2..], [256, 256]);
    assert_eq!(arguments(3), [address_of(&other) + 16, 0x0807_0605_0403_0201, 6, 256]);
    assert_eq!(arguments(4), [address_of(&other) + 3, base + shift(2), 6, 256]);
    assert!(executed.packets.iter().all(|packet| packet.workgroup_size == [256, 1, 1]));
}

#[test]
fn the_bytes_of_updates_are_in_the_arguments_of_each_execution() {
    let memory = buffer(64);
    let mut recorder = recorder_of(0, true);
    recorder.update(b"some bytes.", &at(&memory, 5, 11)).expect("records");
    let program = recorder.finish(&source()).expect("records");
    let executed = execute(&program, &[]).expect("executes");
    let arguments = read_u64s(executed.packets[0].kernarg_address, 4);
    assert_eq!((arguments[0], arguments[2]), (address_of(&memory) + 5, 11));
    // SAFETY: the update's bytes are in the memory of the arguments.
    let bytes = unsafe { std::slice::from_raw_parts(arguments[1] as *const u8, 11) };
    assert_eq!(bytes, b"some bytes.");
}

#[test]
fn a_grid_whose_size_is_in_memory_is_patched_by_a_kernel() {
    let (memory, counts) = (buffer(256), buffer(64));
    // Counts that are not in memory mean nothing then.
    let workgroup_count = [u32::MAX; 3];
    let config = DispatchConfig { workgroup_count_ref: at(&counts, 16, 12), workgroup_count, ..Default::default() };
    let bindings: Vec<BufferRef> = (0..3).map(|index| at(&memory, index * 64, 64)).collect();
    let mut recorder = recorder_of(0, true);
    let request = DispatchRequest {
        executable: &executable(),
        function: ExecutableFunction(ADD),
        config: &config,
        constants: &[1, 2, 3, 4],
        bindings: &bindings,
        flags: DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS,
    };
    recorder.dispatch(&source(), request).expect("records");
    let program = recorder.finish(&source()).expect("records");
    let executed = execute(&program, &[]).expect("executes");
    assert_eq!((executed.packets.len(), executed.unpublished.as_slice()), (2, &[1][..]));
    let [patch, target] = [executed.packets[0], executed.packets[1]];
    assert_eq!((patch.kernel_object, patch.grid_size), (0xa, [1, 1, 1]));
    let arguments = read_u64s(patch.kernarg_address, 5);
    // The slot after that of the patch, which has the index 250.
    assert_eq!(arguments[..3], [address_of(&counts) + 16, RING + 251 * 64, target.kernarg_address + 40]);
    let header = arguments[4] >> 32;
    assert_eq!((arguments[3], arguments[4] & 0xffff_ffff), (1 << 32 | 32, 1));
    assert_eq!(header & 0xff, u64::from(PacketType::KERNEL_DISPATCH.0));
    assert_eq!(header >> 16, 3, "it has three dimensions");
    let header = PacketHeader(header as u16);
    let order = (header.barrier(), header.acquire_fence_scope(), header.release_fence_scope());
    assert_eq!(order, (true, FenceScope::AGENT, FenceScope::AGENT), "it waits for the patch, and sees its writes");
    assert_eq!((target.grid_size, target.workgroup_size), ([0; 3], [32, 1, 1]));
    let short = DispatchConfig { workgroup_count_ref: at(&counts, 16, 8), ..DispatchConfig::default() };
    assert_eq!(
        code(recorder_of(0, true).dispatch(&source(), DispatchRequest { config: &short, ..request })),
        StatusCode::OutOfRange
    );
}

#[test]
fn programs_are_split_into_blocks_that_a_queue_has_room_for() {
    let memory = buffer(1 << 16);
    let mut recorder = recorder_of(0, true);
    for index in 0..MAX_PACKETS as u64 * 2 + 1 {
        recorder.fill(&at(&memory, index * 16, 16), &[1]).expect("records");
        if index % 2 == 0 {
            recorder.barrier().expect("records");
        }
    }
    for _ in 0..5 {
        recorder.update(&[7; 1 << 16], &at(&memory, 0, 1 << 16)).expect("records");
    }
    let program = recorder.finish(&source()).expect("records");
    let lengths: Vec<usize> = program.templates().iter().map(Template::packet_count).collect();
    // Updates of 64 KiB, of which three have room with what is in the third block.
    assert_eq!(lengths, [MAX_PACKETS, MAX_PACKETS, 4, 2]);
    let executed = execute(&program, &[]).expect("executes");
    assert_eq!(executed.packets.len(), 2 * MAX_PACKETS + 6);
    // Barriers hold across the ends of blocks.
    let barriers = executed.packets[..2 * MAX_PACKETS + 1].iter().map(|packet| packet.header.barrier());
    assert!(barriers.enumerate().all(|(index, barrier)| barrier == (index % 2 == 1)));
}

#[test]
fn what_is_out_of_range_or_of_another_kind_is_refused() {
    let memory = buffer(64);
    let mut recorder = recorder_of(1, true);
    assert_eq!(code(recorder.fill(&at(&memory, 0, 65), &[1])), StatusCode::OutOfRange);
    assert_eq!(code(recorder.fill(&at(&memory, 1, 4), &[1, 2])), StatusCode::InvalidArgument);
    assert_eq!(code(recorder.fill(&at(&memory, 0, 3), &[1, 2, 3])), StatusCode::InvalidArgument);
    assert_eq!(code(recorder.fill(&in_slot(1, 0, 4), &[1])), StatusCode::OutOfRange);
    assert_eq!(code(recorder.copy(&at(&memory, 0, 4), &at(&memory, 8, 8))), StatusCode::InvalidArgument);
    assert_eq!(code(recorder.update(&[1; 4], &at(&memory, 0, 8))), StatusCode::InvalidArgument);
    assert_eq!(code(dispatch(&mut recorder, ABS, 1, &[])), StatusCode::InvalidArgument);
    let both = [at(&memory, 0, 64), at(&memory, 0, 64)];
    assert_eq!(code(dispatch(&mut recorder, ABS, u32::MAX, &both)), StatusCode::OutOfRange);
    dispatch(&mut recorder, ABS, 0, &both).expect("no work-groups");
    assert_eq!(recorder.command_count(), 0, "nothing of that was recorded");
    // These errors only the execution can find.
    recorder.copy(&in_slot(0, 0, 32), &at(&memory, 16, 32)).expect("records");
    let program = recorder.finish(&source()).expect("records");
    let bound = |buffer: &Arc<dyn Buffer>, length| [BufferBinding { buffer: Some(buffer.clone()), offset: 0, length }];
    assert_eq!(code(execute(&program, &[])), StatusCode::InvalidArgument, "there are too few bindings");
    assert_eq!(code(execute(&program, &[BufferBinding::default()])), StatusCode::FailedPrecondition);
    assert_eq!(code(execute(&program, &bound(&memory, 31))), StatusCode::OutOfRange);
    let host = HeapAllocator::new().allocate_buffer(BufferParams::default(), 64).expect("allocates");
    assert_eq!(code(execute(&program, &bound(&host, 64))), StatusCode::InvalidArgument, "memory of another device");
    execute(&program, &bound(&buffer(64), 64)).map(drop).expect("executes");
}

#[test]
fn ranges_that_overlap_are_moved_by_one_wave_in_order() {
    let memory = buffer(256);
    let base = address_of(&memory);
    let mut recorder = recorder_of(1, true);
    recorder.copy(&at(&memory, 0, 64), &at(&memory, 16, 64)).expect("records");
    recorder.copy(&at(&memory, 16, 64), &at(&memory, 12, 64)).expect("records");
    recorder.copy(&in_slot(0, 0, 32), &at(&memory, 16, 32)).expect("records");
    let program = recorder.finish(&source()).expect("records");
    let table = [BufferBinding { buffer: Some(memory.clone()), offset: 15, length: WHOLE_BUFFER }];
    let executed = execute(&program, &table).expect("executes");
    let backwards = 32u64.wrapping_neg();
    let expected = [
        (0xe16, [base + 16, base, 4, backwards]),
        (0xe04, [base + 12, base + 16, 16, 32]),
        (0xe01, [base + 16, base + 15, 32, backwards]),
    ];
    for (packet, (kernel, arguments)) in executed.packets.iter().zip(expected) {
        assert_eq!((packet.kernel_object, packet.grid_size, packet.workgroup_size), (kernel, [32, 1, 1], [32, 1, 1]));
        assert_eq!(read_u64s(packet.kernarg_address, 4), arguments);
    }
}

#[test]
fn an_empty_program_has_one_block_without_packets() {
    let program = recorder_of(0, true).finish(&source()).expect("records");
    assert_eq!(program.templates().len(), 1);
    assert!(execute(&program, &[]).expect("executes").packets.is_empty());
}

#[test]
fn a_command_that_is_refused_leaves_nothing_behind() {
    let (memory, transient) = (buffer(256), transient());
    let mut recorder = recorder_of(3, true);
    // The first two bindings are in order, and the last one is not.
    let too_long = [in_slot(2, 0, 64), at(&transient, 0, 64), at(&memory, 0, 257)];
    assert_eq!(code(dispatch(&mut recorder, ADD, 1, &too_long)), StatusCode::OutOfRange);
    let longer = recorder.copy(&in_slot(1, 0, 32), &at(&transient, 0, 64));
    assert_eq!(code(longer), StatusCode::InvalidArgument);
    let bindings: [BufferRef; 3] = std::array::from_fn(|_| at(&memory, 0, 64));
    dispatch(&mut recorder, ADD, 1, &bindings).expect("records");
    assert_eq!(code(recorder.fill(&at(&transient, 1, 4), &[1, 2])), StatusCode::InvalidArgument);
    recorder.copy(&at(&memory, 0, 16), &at(&memory, 64, 16)).expect("records");
    let program = recorder.finish(&source()).expect("records");
    // No slot is needed, and memory only of what is used: the transient buffer has none.
    assert_eq!(execute(&program, &[]).expect("executes").packets.len(), 2);
    assert_eq!(program.held.buffers().len(), 1);
}

#[test]
fn published_arguments_stay_where_they_were_written() {
    let memory = buffer(1 << 16);
    let mut recorder = recorder_of(0, true);
    const COUNT: u64 = 400;
    for index in 0..COUNT {
        let bindings: [BufferRef; 3] = std::array::from_fn(|binding| at(&memory, index * 64 + binding as u64 * 4, 16));
        dispatch(&mut recorder, ADD, 1 + index as u32, &bindings).expect("records");
    }
    let program = recorder.finish(&source()).expect("records");
    assert!(program.templates().iter().all(|template| template.argument_bytes() == 0));
    let executed = execute(&program, &[]).expect("executes");
    for (index, packet) in (0..COUNT).zip(&executed.packets) {
        let address = address_of(&memory) + index * 64;
        let arguments = read_u64s(packet.kernarg_address, 6);
        assert_eq!(arguments[..3], [address, address + 4, address + 8]);
        assert_eq!(arguments[5], 2 << 32 | (1 + index));
    }
}

#[test]
fn programs_of_many_buffers_slots_and_functions_name_the_right_ones() {
    const COUNT: usize = 300;
    let buffers: Vec<Arc<dyn Buffer>> = (0..COUNT).map(|_| buffer(64)).collect();
    let table: Vec<BufferBinding> = buffers
        .iter()
        .map(|buffer| BufferBinding { buffer: Some(buffer.clone()), offset: 0, length: WHOLE_BUFFER })
        .collect();
    let mut recorder = recorder_of(COUNT as u32, true);
    for round in 0..2 {
        for index in 0..COUNT {
            let other = (index * 7 + round) % COUNT;
            let part = crate::hal::subspan(&buffers[other], 32, 32).expect("in range");
            let bindings = [at(&part, 4, 16), in_slot(index as u32, 8, 16)];
            dispatch(&mut recorder, ABS, 1, &bindings).expect("records");
        }
    }
    let program = recorder.finish(&source()).expect("records");
    assert_eq!(program.held.buffers().len(), COUNT, "parts of a buffer are of one allocation");
    let executed = execute(&program, &table).expect("executes");
    for (place, packet) in executed.packets.iter().enumerate() {
        let (round, index) = (place / COUNT, place % COUNT);
        let other = (index * 7 + round) % COUNT;
        let expected = [address_of(&buffers[other]) + 36, address_of(&buffers[index]) + 8];
        assert_eq!(read_u64s(packet.kernarg_address, 2), expected);
        assert_eq!(packet.kernel_object, 0x1000 + ABS * 64);
    }
}

#[test]
fn a_program_is_charged_to_the_call_that_records_it() {
    let memory = buffer(64);
    let limits = Limits { memory: Some(MemoryBudget::new(1 << 20)), ..Limits::default() };
    let budget = limits.memory.clone().expect("there is one");
    let _entered = Scope::of(&limits).enter();
    let bindings: [BufferRef; 3] = std::array::from_fn(|_| at(&memory, 0, 64));
    for reusable in [true, false] {
        let mut recorder = recorder_of(0, reusable);
        let refused = (0..100_000).find_map(|_| dispatch(&mut recorder, ADD, 1, &bindings).err());
        assert_eq!(refused.expect("it is too large").code(), StatusCode::ResourceExhausted);
        // The recorded commands are a program, which holds its memory as long as it lives.
        assert!(budget.used() > 1 << 18);
        drop(recorder);
        assert_eq!(budget.used(), 0);
    }
    let mut recorder = recorder_of(0, true);
    (0..1000).for_each(|_| dispatch(&mut recorder, ADD, 1, &bindings).expect("there is memory"));
    let program = recorder.finish(&source()).expect("records");
    assert!(budget.used() >= 1000 * (64 + 320), "{}", budget.used());
    drop(program);
    assert_eq!(budget.used(), 0);
}

#[test]
fn the_range_of_a_flush_is_checked_by_executions() {
    let mut recorder = recorder_of(1, true);
    recorder.synchronise(&in_slot(0, 16, 32)).expect("records");
    let program = recorder.finish(&source()).expect("records");
    let bound = |length| [BufferBinding { buffer: Some(buffer(length)), offset: 0, length: WHOLE_BUFFER }];
    assert_eq!(code(execute(&program, &bound(47))), StatusCode::OutOfRange);
    assert!(execute(&program, &bound(48)).expect("executes").packets.is_empty());
}
