//! Runs kernels on buffers of the test: those of code objects, by a loader that is just good enough for what
//! `iree-compile` writes ([`Kernel`]), and words of code ([`Bare`]).

#![allow(dead_code, reason = "each test uses a part of it")]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use vireo_gfx::isa::Field;
use vireo_gfx::{
    Encoding, GridDispatch, HalfSums, Instruction, KernelRegisters, Opcode, Program, run, vector_registers,
};
use vireo_hsa::kernel_descriptor::{FloatDenormMode, KernelDescriptor};
use vireo_hsa::object::CodeObject;
use vireo_simt::{AccessHook, Memory, Pool, Region, Stop, Trap};

/// An allocation.
pub struct Buffer {
    words: Box<[AtomicU64]>,
    length: usize,
    writable: bool,
}

impl Buffer {
    /// An allocation with these bytes.
    pub fn new(bytes: &[u8], writable: bool) -> Self {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            AtomicU64::new(u64::from_le_bytes(word))
        });
        Buffer { words: words.collect(), length: bytes.len(), writable }
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            self.words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        bytes.truncate(self.length);
        bytes
    }

    pub fn address(&self) -> u64 {
        self.words.as_ptr().addr() as u64
    }
}

/// Allocations.
pub struct Buffers(pub Vec<Buffer>);

// SAFETY: The words are atomics, and live as long as the value.
unsafe impl Memory for Buffers {
    fn region(&self, address: u64) -> Option<Region> {
        self.0.iter().find_map(|buffer| {
            let (start, length) = (buffer.address(), buffer.length as u64);
            let host = buffer.words.as_ptr().cast::<u8>().cast_mut();
            let region = Region { start, length, host, writable: buffer.writable, padding: 0 };
            (address.wrapping_sub(start) < length).then_some(region)
        })
    }
}

/// A kernel in memory; its image is the first allocation.
pub struct Kernel {
    pub descriptor: KernelDescriptor,
    pub program: Program,
    pub memory: Buffers,
    pub pool: Pool,
}

impl Kernel {
    /// Loads the only kernel of a code object.
    pub fn load(object: &[u8]) -> Self {
        let object = CodeObject::parse(object).expect("a code object");
        let end = object.segments.iter().map(|segment| segment.address + segment.length).max().expect("segments");
        let mut image = vec![0; end as usize];
        let mut code_end = 0;
        for segment in &object.segments {
            let at = segment.address as usize;
            image[at..at + segment.bytes.len()].copy_from_slice(segment.bytes);
            if segment.execute {
                code_end = at + segment.bytes.len();
            }
        }
        let symbol = object.symbols.iter().find(|symbol| symbol.name.ends_with(".kd")).expect("a kernel");
        let (descriptor, entry) = object.descriptor(symbol).expect("a descriptor");
        let entry = entry as usize;
        let code: Vec<u32> =
            image[entry..code_end].as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let memory = Buffers(vec![Buffer::new(&image, false)]);
        let address = memory.0[0].address() + entry as u64;
        let program = Program::decode(&code, address, vector_registers(&descriptor));
        Kernel { descriptor, program, memory, pool: Pool::default() }
    }

    /// Runs it with bindings; returns how many instructions were executed.
    pub fn run(&mut self, bindings: Vec<Buffer>, groups: u32, size: [u16; 3], threads: usize) -> Result<u64, Trap> {
        self.bind(bindings);
        self.launch(groups, size, threads)
    }

    /// Makes these the bindings.
    pub fn bind(&mut self, bindings: Vec<Buffer>) {
        self.memory.0.truncate(1);
        let mut arguments: Vec<u8> = bindings.iter().flat_map(|buffer| buffer.address().to_le_bytes()).collect();
        arguments.resize(arguments.len() + 128, 0);
        self.memory.0.push(Buffer::new(&arguments, false));
        self.memory.0.extend(bindings);
    }

    /// Runs it with its bindings; returns how many instructions were executed.
    pub fn launch(&self, groups: u32, size: [u16; 3], threads: usize) -> Result<u64, Trap> {
        let registers = KernelRegisters { kernarg: self.memory.0[1].address(), ..KernelRegisters::default() };
        let stop = Stop::default();
        run(&GridDispatch {
            program: &self.program,
            descriptor: &self.descriptor,
            registers,
            grid: [groups * u32::from(size[0]), size[1].into(), size[2].into()],
            work_group: size,
            local_bytes: self.descriptor.group_segment_fixed_size,
            scratch_bytes: self.descriptor.private_segment_fixed_size,
            memory: &self.memory,
            half_sums: HalfSums::default(),
            hook: None,
            stop: &stop,
            limit: 50_000_000,
            threads: NonZeroUsize::new(threads).expect("a thread"),
            pool: &self.pool,
        })
    }

    /// The bytes of a binding.
    pub fn binding(&self, index: usize) -> Vec<u8> {
        self.memory.0[2 + index].bytes()
    }
}

pub fn bytes_of_f32(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn f32_of_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Small numbers that repeat after long.
pub fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as i32 % 17 - 8) as f32 * 0.25
    };
    (0..count).map(|_| next()).collect()
}

/// A kernel that is only code: its arguments are in the first scalar registers, and it has one work-group.
pub struct Bare<'a> {
    pub code: &'a [u32],
    pub memory: &'a Buffers,
    pub registers: KernelRegisters,
    pub items: u16,
    pub local_bytes: u32,
    pub scratch_bytes: u32,
    pub denormals: FloatDenormMode,
    /// The word of the code where the kernel begins.
    pub entry: usize,
    /// Vector registers, in granules.
    pub granules: u8,
    pub half_sums: HalfSums,
    pub hook: Option<&'a dyn AccessHook>,
    /// Instructions that a wave may execute.
    pub limit: u64,
}

impl<'a> Bare<'a> {
    /// Code of one full wave with 32 vector registers, where subnormal numbers stay. The first two scalar registers
    /// have the address of the first buffer, and the next two that of the second one, if there is one.
    pub fn new(code: &'a [u32], memory: &'a Buffers) -> Self {
        let address = |index: usize| memory.0.get(index).map_or(0, Buffer::address);
        let registers = KernelRegisters { kernarg: address(0), dispatch_id: address(1), ..KernelRegisters::default() };
        let denormals = FloatDenormMode::NO_FLUSH;
        Bare {
            code,
            memory,
            registers,
            items: 32,
            local_bytes: 0,
            scratch_bytes: 0,
            denormals,
            entry: 0,
            granules: 4,
            half_sums: HalfSums::default(),
            hook: None,
            limit: 10_000,
        }
    }

    pub fn descriptor(&self) -> KernelDescriptor {
        let mut descriptor = KernelDescriptor::default();
        let count = self.granules - 1;
        let rsrc1 = descriptor.compute_pgm_rsrc1.with_granulated_workitem_vgpr_count(count).expect("it fits");
        let rsrc1 = rsrc1.with_float_denorm_mode_32(self.denormals).expect("it fits");
        descriptor.compute_pgm_rsrc1 = rsrc1.with_float_denorm_mode_16_64(self.denormals).expect("it fits");
        descriptor.compute_pgm_rsrc2 = descriptor.compute_pgm_rsrc2.with_user_sgpr_count(4).expect("it fits");
        let properties = descriptor.kernel_code_properties.with_enable_sgpr_kernarg_segment_ptr(true);
        let properties = properties.with_enable_sgpr_dispatch_id(true);
        descriptor.kernel_code_properties = properties.with_enable_wavefront_size32(true);
        descriptor
    }

    /// Runs it; returns how many instructions were executed.
    pub fn run(&self) -> Result<u64, Trap> {
        self.run_as(&self.descriptor())
    }

    /// Runs it with this descriptor.
    pub fn run_as(&self, descriptor: &KernelDescriptor) -> Result<u64, Trap> {
        let program = Program::decode_from(self.code, 0x1000, self.entry, vector_registers(descriptor));
        run(&GridDispatch {
            program: &program,
            descriptor,
            registers: self.registers,
            grid: [self.items.into(), 1, 1],
            work_group: [self.items, 1, 1],
            local_bytes: self.local_bytes,
            scratch_bytes: self.scratch_bytes,
            memory: self.memory,
            half_sums: self.half_sums,
            hook: self.hook,
            stop: &Stop::default(),
            limit: self.limit,
            threads: NonZeroUsize::MIN,
            pool: &Pool::default(),
        })
    }
}

/// Appends an instruction with these fields, and the literal or word of DPP after it.
pub fn push(code: &mut Vec<u32>, name: &str, encoding: Encoding, fields: &[(Field, u32)], extra: Option<u32>) {
    let mut instruction = Instruction::new(Opcode::of_name(name).expect(name), encoding).expect(name);
    fields.iter().for_each(|(field, value)| instruction.set(*field, *value));
    extra.into_iter().for_each(|extra| instruction.set_extra_word(extra));
    code.extend_from_slice(instruction.encode());
}

pub fn words_of_bytes(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}
