//! Tests of recording and of the block processor, in plain memory: what a device would have, at addresses of the host.

use std::ptr::NonNull;
use std::sync::Arc;

use vireo_hsa::blocks::Block;
use vireo_hsa::command_buffer::{BranchCommand, Command, CommandOpcode, CondBranchCommand, KernargStrategy};
use vireo_hsa::packet::{FenceScope, KernelDispatchPacket, PACKET_SIZE, Packet, PacketType};
use vireo_hsa::signal::Signal;

use super::block::MAX_PACKETS;
use super::{
    ArgumentMemory, DispatchTarget, KernelSource, Processor, Program, PublishedArguments, Recorder, Resolved,
    RingPlace, TransferKernels,
};
use crate::executable::{Container, LoadedKernel};
use crate::hal::deferred::{DispatchRequest, Recorder as _};
use crate::hal::{
    Allocator, Buffer, BufferBinding, BufferParams, BufferRef, BufferUsage, DispatchConfig, DispatchFlags, Executable,
    ExecutableFunction, ExecutableFunctionInfo, HeapAllocator, MemoryAccess, MemoryType, WHOLE_BUFFER,
};
use crate::memory::{AgentMask, DeviceBuffer, DeviceMemory, Publication};
use crate::status::{Result, Status, StatusCode};

const KERNELS: &[u8] = include_bytes!("../../../../fixtures/amdgpu/kernels_gfx1100.amd1");

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
        Ok(DispatchTarget { kernel, export, executable_id: 7 })
    }

    fn transfers(&self) -> Result<TransferKernels> {
        Ok(TRANSFERS)
    }

    fn publish_arguments(&self, contents: &[u8]) -> Result<PublishedArguments> {
        let DeviceMemory { address, host, owner, .. } = memory(contents.len());
        let host = host.expect("it is the host's");
        // SAFETY: the memory has that many bytes, and nothing else uses it.
        unsafe { host.copy_from_nonoverlapping(NonNull::from(contents).cast(), contents.len()) };
        Ok(PublishedArguments { address, owner })
    }
}

fn source() -> Arc<dyn KernelSource> {
    Arc::new(Source)
}

fn recorder_of(capacity: u32, reusable: bool) -> Recorder {
    Recorder::new(&source(), capacity, reusable)
}

fn executable() -> Arc<dyn Executable> {
    Arc::new(TestExecutable(Container::read(KERNELS).expect("it is well-formed")))
}

fn at(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length }
}

fn in_slot(slot: u32, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: None, slot, offset, length }
}

/// Records a dispatch with so many work-groups.
fn dispatch(recorder: &mut Recorder, function: u64, count: u32, bindings: &[BufferRef]) -> Result<()> {
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
    for (block, template) in program.blocks().iter().zip(program.templates()) {
        let header = Block::read(block).expect("recorded blocks are well-formed").header;
        assert_eq!(template.packet_count(), header.aql_packet_count as usize);
        let length = template.argument_bytes() as usize;
        assert_eq!(length, header.kernarg_length as usize);
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

fn strategies(program: &Program) -> Vec<KernargStrategy> {
    let blocks = program.blocks().iter().map(|bytes| Block::read(bytes).expect("well-formed"));
    let of_block = |block: Block<'_>| {
        let dispatches = block.commands.iter().filter_map(|(command, _)| match command {
            Command::Dispatch(dispatch) => Some(dispatch.kernarg_strategy),
            _ => None,
        });
        dispatches.collect::<Vec<_>>()
    };
    blocks.flat_map(of_block).collect()
}

fn code(result: Result<impl Sized>) -> StatusCode {
    result.err().expect("it fails").code()
}

#[test]
fn arguments_are_the_same_by_every_strategy() {
    let buffers: Vec<Arc<dyn Buffer>> = (0..3).map(|_| buffer(256)).collect();
    let addresses: Vec<u64> = buffers.iter().map(|buffer| address_of(buffer) + 64).collect();
    let fixed: Vec<BufferRef> = buffers.iter().map(|buffer| at(buffer, 64, 128)).collect();
    let slots: Vec<BufferRef> = (0..3).map(|slot| in_slot(slot, 32, 128)).collect();
    let mixed = [fixed[0].clone(), slots[1].clone(), fixed[2].clone()];
    let binding =
        |buffer: &Arc<dyn Buffer>| BufferBinding { buffer: Some(buffer.clone()), offset: 32, length: WHOLE_BUFFER };
    let table: Vec<BufferBinding> = buffers.iter().map(binding).collect();
    let cases = [
        (true, &fixed[..], KernargStrategy::PREPUBLISHED),
        (true, &slots[..], KernargStrategy::DYNAMIC_BINDINGS),
        (true, &mixed[..], KernargStrategy::PATCHED_TEMPLATE),
        (false, &fixed[..], KernargStrategy::HAL),
        (false, &mixed[..], KernargStrategy::HAL),
    ];
    for (reusable, bindings, strategy) in cases {
        let mut recorder = recorder_of(3, reusable);
        dispatch(&mut recorder, ADD, 5, bindings).expect("records");
        let program = recorder.finish(&source()).expect("records");
        assert_eq!(strategies(&program), [strategy]);
        // A program may be executed again.
        for _ in 0..2 {
            let executed = execute(&program, &table).expect("executes");
            let [packet] = executed.packets.as_slice() else { panic!("{:?}", executed.packets) };
            assert_eq!((packet.kernel_object, packet.setup.dimensions()), (0x1000, 3));
            assert_eq!((packet.workgroup_size, packet.grid_size), ([32, 1, 1], [160, 2, 1]));
            assert_eq!((packet.private_segment_size, packet.group_segment_size), (16, 32));
            assert_eq!(packet.kernarg_address % 64, 0);
            let arguments = read_u64s(packet.kernarg_address, 37);
            assert_eq!(arguments[..3], addresses, "{strategy:?}");
            assert_eq!(arguments[3..5], [12 << 32 | 11, 14 << 32 | 13], "{strategy:?}");
            // Implicit arguments: work-groups, the size of each, no remainder, and three dimensions.
            assert_eq!(arguments[5..8], [2 << 32 | 5, (1 << 48 | 32 << 32) | 1, 1], "{strategy:?}");
            assert_eq!(arguments[5 + 8], 3, "{strategy:?}");
            assert!(arguments[14..].iter().all(|word| *word == 0), "{strategy:?}");
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
    let block = Block::read(&program.blocks()[0]).expect("well-formed");
    let header = block.header;
    assert_eq!((header.command_count, header.aql_packet_count, header.initial_barrier_packet_count), (5, 4, 3));
    assert_eq!((header.terminator_opcode, header.dispatch_count), (CommandOpcode::RETURN, 0));
    assert_eq!(header.kernarg_length, 5 * 64);
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
    let config = DispatchConfig { workgroup_count_ref: at(&counts, 16, 12), ..DispatchConfig::default() };
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
    assert_eq!(strategies(&program), [KernargStrategy::INDIRECT]);
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
    assert_eq!((header >> 8 & 1, header >> 16), (1, 3), "it waits for the patch, and has three dimensions");
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
    for index in 0..u64::from(MAX_PACKETS) * 2 + 1 {
        recorder.fill(&at(&memory, index * 16, 16), &[1]).expect("records");
        if index % 2 == 0 {
            recorder.barrier().expect("records");
        }
    }
    for _ in 0..5 {
        recorder.update(&[7; 1 << 16], &at(&memory, 0, 1 << 16)).expect("records");
    }
    let program = recorder.finish(&source()).expect("records");
    let headers: Vec<_> =
        program.blocks().iter().map(|bytes| Block::read(bytes).expect("well-formed").header).collect();
    assert_eq!(headers.len(), 4, "{headers:?}");
    for (index, header) in headers.iter().enumerate() {
        assert!(header.aql_packet_count <= MAX_PACKETS && header.kernarg_length <= 256 << 10);
        let last = index + 1 == headers.len();
        assert_eq!(header.terminator_opcode, if last { CommandOpcode::RETURN } else { CommandOpcode::BRANCH });
        assert_eq!(
            (header.block_ordinal, header.terminator_target_block_ordinal),
            (index as u32, if last { 0 } else { index as u32 + 1 })
        );
    }
    let executed = execute(&program, &[]).expect("executes");
    assert_eq!(executed.packets.len(), 2 * MAX_PACKETS as usize + 6);
    // Barriers hold across the ends of blocks.
    let barriers = executed.packets[..2 * MAX_PACKETS as usize + 1].iter().map(|packet| packet.header.barrier());
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
    // What only the execution knows.
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
fn blocks_that_the_processor_does_not_execute_are_refused() {
    let program = recorder_of(0, true).finish(&source()).expect("records");
    assert!(execute(&program, &[]).expect("executes").packets.is_empty());
    let run = |bytes: &[u8]| Processor { buffers: &[], transfers: None, published: 0 }.run(bytes);
    assert_eq!(run(&program.blocks()[0]).expect("well-formed").packet_count(), 0);
    let ending_with = |terminator: Command, opcode: CommandOpcode| {
        let mut bytes = program.blocks()[0].clone();
        bytes.truncate(64);
        terminator.write(&mut bytes);
        let mut header = vireo_hsa::command_buffer::CommandBlockHeader::read(bytes.first_chunk().expect("a header"));
        let end = bytes.len() as u32;
        (header.terminator_opcode, header.command_length) = (opcode, end - 64);
        (header.block_length, header.binding_source_offset, header.rodata_offset) = (end, end, end);
        bytes[..64].copy_from_slice(&header.to_bytes());
        bytes
    };
    let conditional = ending_with(Command::CondBranch(CondBranchCommand::tagged()), CommandOpcode::COND_BRANCH);
    assert_eq!(code(run(&conditional)), StatusCode::Unimplemented);
    let itself = ending_with(Command::Branch(BranchCommand::tagged()), CommandOpcode::BRANCH);
    assert_eq!(code(run(&itself)), StatusCode::Unimplemented);
    for at in 0..64 {
        let mut damaged = program.blocks()[0].clone();
        damaged[at] ^= 0x41;
        // An error or the same meaning, never a panic.
        let _ = run(&damaged);
    }
    const { assert!(PACKET_SIZE == 64) };
}

#[test]
fn damaged_records_are_refused_or_mean_something_and_never_panic() {
    let memory = buffer(256);
    let mut recorder = recorder_of(3, true);
    let mixed = [at(&memory, 0, 64), in_slot(1, 0, 64), at(&memory, 128, 64)];
    dispatch(&mut recorder, ADD, 5, &mixed).expect("records");
    dispatch(&mut recorder, ADD, 5, &[0, 1, 2].map(|slot| in_slot(slot, 0, 64))).expect("records");
    recorder.barrier().expect("records");
    recorder.copy(&in_slot(0, 0, WHOLE_BUFFER), &at(&memory, 0, 16)).expect_err("of another length");
    recorder.update(b"some bytes", &at(&memory, 3, 10)).expect("records");
    recorder.fill(&in_slot(2, 0, 32), &[1]).expect("records");
    let program = recorder.finish(&source()).expect("records");
    let processor = Processor { buffers: &program.buffers, transfers: program.kernels(), published: 0 };
    let block = &program.blocks()[0];
    let mut accepted = 0;
    for at in 64..block.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = block.clone();
            damaged[at] ^= change;
            accepted += u32::from(processor.run(&damaged).is_ok());
        }
    }
    assert!(accepted > 0, "data and constants may be anything");
}
