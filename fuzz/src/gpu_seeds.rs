//! The seeds of the targets for GPUs: executables of `fixtures/`, what is in them, and packets that are made here.

use vireo_amdgpu::executable::Container;
use vireo_hsa::blocks::Block;
use vireo_hsa::code_object::KERNEL_DESCRIPTOR_SUFFIX;
use vireo_hsa::command_buffer::{
    COMMAND_BLOCK_MAGIC, COMMAND_BLOCK_VERSION, CommandBlockHeader, CommandOpcode, FillCommand, ReturnCommand,
};
use vireo_hsa::object::CodeObject;
use vireo_hsa::packet::*;
use vireo_hsa::packets::Order;
use vireo_hsa::pm4::{Pm4IndirectBuffer, Pm4WaitRegMem64};
use vireo_hsa::signal::{Signal, SignalCondition};

use super::Seed;
use super::gpu::{MEMORY, Place};
use super::seeds::{fixtures, inside};

/// Executables: of files, and of modules.
pub(super) fn executables() -> Vec<Seed> {
    let mut seeds = fixtures("amd1");
    seeds.extend(fixtures("hsaco"));
    seeds.extend(inside(|bytes| Container::read(bytes).is_ok()));
    seeds
}

/// The code objects of executables.
pub(super) fn objects() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for Seed { name, bytes } in executables() {
        let container = Container::read(&bytes).expect("fixtures are executables");
        for (index, module) in container.modules.iter().enumerate() {
            seeds.push(Seed { name: format!("{name}-{index}"), bytes: module.to_vec() });
        }
    }
    seeds
}

/// The descriptor and the code of a kernel of each code object.
pub(super) fn codes() -> Vec<Seed> {
    let first = |seed: Seed| Some(Seed { bytes: kernel(&seed.bytes)?, name: seed.name });
    objects().into_iter().filter(|seed| !seed.name.contains("gfx942")).filter_map(first).collect()
}

/// The descriptor of the first kernel of a code object, and the code from its entry on.
fn kernel(object: &[u8]) -> Option<Vec<u8>> {
    let object = CodeObject::parse(object).ok()?;
    let symbol = object.symbols.iter().find(|symbol| symbol.name.ends_with(KERNEL_DESCRIPTOR_SUFFIX))?;
    let (descriptor, entry) = object.descriptor(symbol).ok()?;
    Some([&descriptor.to_bytes(), object.loaded_from(entry)?].concat())
}

/// Memory with the commands that packets run, a block of recorded commands, and packets of each kind.
pub(super) fn packets() -> Vec<Seed> {
    let signal = |index| Signal(Place::Signal(index).number());
    let [one, two, three] = [signal(0), signal(1), signal(2)];
    let none = Signal(0);
    let wait = Pm4WaitRegMem64::until_less(one, u64::MAX, 1).expect("a comparison with a name");
    let jump = Pm4IndirectBuffer::new(Place::Memory(64).number(), 9).expect("few dwords");
    let padding = [0xffff_1000u32, 0xc001_1000, 1, 2].map(u32::to_le_bytes).concat();
    let mut memory = vec![0; MEMORY];
    for (at, bytes) in
        [(0, padding.as_slice()), (16, &jump.to_bytes()), (64, &wait.to_bytes()), (128, &arguments()), (256, &block())]
    {
        memory[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let dispatch = |order, arguments| {
        let (kernel, arguments) = (Place::Kernel.number(), Place::Memory(arguments).number());
        let packet = KernelDispatchPacket::new(order, kernel, arguments, [32, 1, 1], [64, 1, 1]);
        KernelDispatchPacket { completion_signal: one, ..packet.expect("scopes with names") }.to_bytes()
    };
    let and = BarrierAndPacket::new(Order::SYSTEM, [one, two, three, none, none]).expect("scopes with names");
    let and = BarrierAndPacket { completion_signal: two, ..and }.to_bytes();
    let or = BarrierOrPacket::new(Order::NONE, [three, two, none, none, none]).expect("scopes with names").to_bytes();
    let value = BarrierValuePacket::new(Order::NONE, three, i64::MAX, SignalCondition::LT, 1);
    let value = value.expect("scopes with names").to_bytes();
    let call = AgentDispatchPacket::new(Order::NONE, 3, [1, 2, 3, 4], Place::Memory(0).number());
    let call = call.expect("scopes with names").to_bytes();
    let commands = Pm4IbPacket::new(Order::SYSTEM, Place::Memory(0).number(), 8).expect("few dwords");
    let commands = Pm4IbPacket { completion_signal: three, ..commands }.to_bytes();
    let seed = |name: &str, packets: &[[u8; PACKET_SIZE as usize]]| Seed {
        name: name.into(),
        bytes: [&memory[..], &packets.concat()].concat(),
    };
    vec![
        seed("dispatch", &[dispatch(Order::SYSTEM, 128), dispatch(Order::NONE, 144)]),
        seed("barriers", &[and, or, value]),
        seed("commands", &[commands, commands]),
        seed("call", &[call]),
        seed("all", &[dispatch(Order::SYSTEM, 128), or, value, commands, dispatch(Order::NONE, 144), call]),
        Seed { name: "block".into(), bytes: block() },
    ]
}

/// The arguments of the kernel for two dispatches.
fn arguments() -> Vec<u8> {
    [Place::Memory(1024).number(), 7, Place::Memory(2048).number(), 9].map(u64::to_le_bytes).concat()
}

/// A block with two commands.
fn block() -> Vec<u8> {
    let records = [&FillCommand::tagged().to_bytes()[..], &ReturnCommand::tagged().to_bytes()].concat();
    let offset = CommandBlockHeader::SIZE as u32;
    let header = CommandBlockHeader {
        magic: COMMAND_BLOCK_MAGIC,
        version: COMMAND_BLOCK_VERSION,
        header_length: CommandBlockHeader::SIZE as u16,
        block_length: offset + records.len() as u32,
        command_offset: offset,
        command_length: records.len() as u32,
        command_count: 2,
        terminator_opcode: CommandOpcode::RETURN,
        ..CommandBlockHeader::default()
    };
    let bytes = [&header.to_bytes()[..], &records].concat();
    assert!(Block::read(&bytes).is_ok(), "the block is in order");
    bytes
}
