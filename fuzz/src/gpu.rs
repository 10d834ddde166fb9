//! The targets for GPUs: readers of the driver `amdgpu`, the loader and the packet processors of the software agent,
//! and the interpreter of gfx11 code.
//!
//! Addresses differ from run to run, so inputs of `gpu_packets` name them: a number whose high 16 bits are [`PLACE`] is
//! one of memory, of a signal or of a kernel, as the next 16 bits say.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vireo_amdgpu::executable::Container;
use vireo_gfx::{GridDispatch, Instruction, KernelRegisters, Program, run, vector_registers};
use vireo_hsa::blocks::Block;
use vireo_hsa::kernel_descriptor::KernelDescriptor;
use vireo_hsa::object::CodeObject;
use vireo_hsa::packet::{PACKET_SIZE, Packet};
use vireo_hsa::pm4::Pm4Command;
use vireo_hsa::signal::AmdSignal;
use vireo_hsa::target::TargetId;
use vireo_simt::{Memory, Pool, Region, Stop};
use vireo_softhsa::listing::Listing;

#[macro_use]
#[path = "../../runtime/gpu/amd/softhsa/tests/suite/support.rs"]
#[expect(dead_code, reason = "the tests of the software agent use more of it")]
mod agent;

/// The high bits of a number that names an address.
pub(super) const PLACE: u64 = 0xa11c;
/// Bytes at the start of an input of `gpu_packets` that are memory; packets follow.
pub(super) const MEMORY: usize = 512;

/// Bytes of a signal; a place in one is named as well.
const SIGNAL_BYTES: usize = AmdSignal::SIZE;
/// Signals of `gpu_packets`.
const SIGNALS: usize = 4;
/// Packets of one input at most.
const MAX_PACKETS: usize = 8;
/// How long packets may wait for an event that never comes.
const PATIENCE: Duration = Duration::from_millis(3);

/// The kind of a location that an input names.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Memory, from an offset on.
    Memory(u16),
    /// A signal.
    Signal(u16),
    /// The kernel that stores numbers.
    Kernel,
}

impl Place {
    /// The number that names it.
    pub(super) fn number(self) -> u64 {
        let (kind, index) = match self {
            Place::Memory(offset) => (0, offset),
            Place::Signal(index) => (1, index * SIGNAL_BYTES as u16),
            Place::Kernel => (2, 0),
        };
        PLACE << 48 | kind << 32 | u64::from(index)
    }
}

/// Executables as the driver reads them: whatever is accepted is consistent.
pub(super) fn executable(bytes: &[u8]) {
    let Ok(container) = Container::read(bytes) else { return };
    for export in &container.exports {
        assert!(export.module < container.modules.len(), "{export:?} is of a module that is not there");
        assert!(export.explicit_size() <= export.kernel.kernarg_size, "{export:?}: its arguments do not fit");
    }
    let name = container.target.to_string();
    assert_eq!(TargetId::parse(&name).map(|target| target.to_string()), Ok(name));
}

/// Code objects as the reader has them, and as the software agent loads them.
pub(super) fn object(bytes: &[u8]) {
    // All that the reader has, of which the agent does not use everything.
    if let Ok(object) = CodeObject::parse(bytes) {
        let _ = (object.metadata(), object.kernels(), object.all_symbols(), Listing::of(bytes));
        for symbol in &object.symbols {
            let found = object.descriptor(symbol);
            assert!(found.is_err() || object.loaded_from(symbol.address).is_some(), "{symbol:?} is not in the file");
        }
    }
    // A reader of no bytes is refused before any code is looked at.
    if bytes.is_empty() {
        return;
    }
    let session = agent::Session::new("");
    if let Ok(executable) = agent::load(session.gpu(), bytes) {
        assert_eq!(hsa!(hsa_executable_destroy(executable)), agent::OK);
    }
}

/// Code of kernels: what is decoded is encoded to the same words and has a text, and a short run of it ends with a trap
/// or in order.
pub(super) fn code(bytes: &[u8]) {
    let Some((descriptor, code)) = bytes.split_first_chunk() else { return };
    let descriptor = KernelDescriptor::read(descriptor);
    let code: Vec<u32> = code.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let mut rest = code.as_slice();
    while !rest.is_empty() {
        let length = match Instruction::decode(rest) {
            Ok(instruction) => {
                let length = instruction.length as usize;
                assert_eq!(instruction.encode(), &rest[..length]);
                assert!(!instruction.to_string().is_empty());
                length
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                1
            }
        };
        rest = &rest[length..];
    }
    interpret(&descriptor, &code);
}

/// Allocations of words.
struct Buffers(Vec<Box<[AtomicU64]>>);

impl Buffers {
    fn add(&mut self, words: impl IntoIterator<Item = u64>) -> u64 {
        let buffer: Box<[AtomicU64]> = words.into_iter().map(AtomicU64::new).collect();
        let address = buffer.as_ptr().addr() as u64;
        self.0.push(buffer);
        address
    }
}

// SAFETY: the words are atomics, and live as long as the value.
unsafe impl Memory for Buffers {
    fn region(&self, address: u64) -> Option<Region> {
        self.0.iter().find_map(|buffer| {
            let (start, length) = (buffer.as_ptr().addr() as u64, size_of_val(&**buffer) as u64);
            let host = buffer.as_ptr().cast::<u8>().cast_mut();
            (address.wrapping_sub(start) < length).then_some(Region { start, length, host, writable: true, padding: 0 })
        })
    }
}

/// Runs code on two buffers.
fn interpret(descriptor: &KernelDescriptor, code: &[u32]) {
    let mut memory = Buffers(Vec::new());
    let bindings = [memory.add((0..512).map(|index| index * 0x3f80_0001)), memory.add([0; 512])];
    let arguments = bindings.iter().chain(&bindings).copied().chain([0; 28]);
    let kernarg = memory.add(arguments);
    let words = code.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&0)) << 32);
    let address = memory.add(words);
    let program = Program::decode(code, address, vector_registers(descriptor));
    let _ = run(&GridDispatch {
        program: &program,
        descriptor,
        registers: KernelRegisters { kernarg, ..KernelRegisters::default() },
        grid: [64, 1, 1],
        work_group: [64, 1, 1],
        local_bytes: descriptor.group_segment_fixed_size,
        scratch_bytes: descriptor.private_segment_fixed_size,
        memory: &memory,
        half_sums: Default::default(),
        hook: None,
        stop: &Stop::default(),
        limit: 2000,
        threads: NonZeroUsize::MIN,
        pool: &Pool::default(),
    });
}

/// Packets to a queue of the software agent, whose processor completes them, waits, or stops with an error; and their
/// decoders.
pub(super) fn packets(bytes: &[u8]) {
    decode(bytes);
    let Some((memory, packets)) = bytes.split_at_checked(MEMORY) else { return };
    let session = agent::Session::new("");
    let (_, kernel) = session.load(session.gpu());
    let buffer = session.kernarg_memory(4096);
    let signals: [u64; SIGNALS] = std::array::from_fn(|_| session.signal(0).0);
    let resolved = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        for at in (0..bytes.len().saturating_sub(7)).step_by(4) {
            let Some(word) = bytes[at..].first_chunk_mut() else { continue };
            let number = u64::from_le_bytes(*word);
            let index = (number & 0xffff) as usize;
            let address = match (number >> 48 == PLACE).then_some(number >> 32 & 0xffff) {
                Some(0) => buffer.address.wrapping_add(index as u64),
                Some(1) => signals[index / SIGNAL_BYTES % SIGNALS] + (index % SIGNAL_BYTES) as u64,
                Some(2) => kernel,
                _ => continue,
            };
            *word = address.to_le_bytes();
        }
        bytes
    };
    for (index, word) in resolved(memory).as_chunks().0.iter().enumerate() {
        buffer.store(index, u64::from_le_bytes(*word));
    }
    let packets: Vec<[u8; PACKET_SIZE as usize]> =
        resolved(packets).as_chunks().0.iter().take(MAX_PACKETS).copied().collect();
    if packets.is_empty() {
        return;
    }
    let queue = agent::Queue::new(session.gpu(), 16);
    queue.submit(&packets);
    // A queue whose packets wait is destroyed as any other.
    let start = Instant::now();
    let is_done = || {
        let read = optional!(hsa_queue_load_read_index_scacquire(queue.pointer));
        read >= packets.len() as u64 || queue.error.0.load(Ordering::Acquire) != 0
    };
    while !is_done() && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
}

/// Decodes bytes as everything that has a decoder. Whatever is decoded has a text, and the same bytes.
fn decode(bytes: &[u8]) {
    for chunk in bytes.chunks(PACKET_SIZE as usize) {
        let mut again = Vec::new();
        if let Ok(packet) = Packet::read(chunk) {
            packet.write(&mut again);
            assert!(!packet.to_string().is_empty());
        }
        assert!(chunk.starts_with(&again), "{chunk:02x?} became {again:02x?}");
        again.clear();
        if let Ok(command) = Pm4Command::read(chunk) {
            command.write(&mut again);
            assert!(!command.to_string().is_empty());
        }
        assert!(chunk.starts_with(&again), "{chunk:02x?} became {again:02x?}");
    }
    if let Ok(block) = Block::read(bytes) {
        assert!(block.commands.iter().all(|(command, _)| !command.to_string().is_empty()));
    }
}
