//! Device memory of tests, and launches.

use std::sync::atomic::{AtomicU64, Ordering};

use vireo_ptx::{Kernel, Launch, Module, Options, Print, Trap};
use vireo_simt::{AccessHook, Memory, Pool, Region, Stop};

/// Buffers at addresses of their own, 1 MiB apart.
pub struct Buffers(Vec<Box<[AtomicU64]>>);

const FIRST: u64 = 0x10_0000_0000;
const STEP: u64 = 1 << 20;

// SAFETY: The words are atomics, and live as long as the value.
unsafe impl Memory for Buffers {
    fn region(&self, address: u64) -> Option<Region> {
        let index = address.checked_sub(FIRST)? / STEP;
        let words = self.0.get(index as usize)?;
        let start = FIRST + index * STEP;
        let (length, host) = (words.len() as u64 * 8, words.as_ptr().cast::<u8>().cast_mut());
        (address - start < length).then_some(Region { start, length, host, writable: true, padding: 0 })
    }
}

impl Buffers {
    pub fn new() -> Self {
        Buffers(Vec::new())
    }

    /// Adds a buffer of bytes, which becomes a multiple of eight, and returns its address.
    pub fn add(&mut self, bytes: &[u8]) -> u64 {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            AtomicU64::new(u64::from_le_bytes(word))
        });
        self.0.push(words.collect());
        FIRST + (self.0.len() as u64 - 1) * STEP
    }

    pub fn add_words(&mut self, words: &[u32]) -> u64 {
        self.add(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
    }

    pub fn bytes(&self, address: u64) -> Vec<u8> {
        let words = &self.0[((address - FIRST) / STEP) as usize];
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
    }

    pub fn words(&self, address: u64) -> Vec<u32> {
        self.bytes(address).chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }
}

pub fn load(text: &str) -> Module {
    Module::load(text.as_bytes(), &Options::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A text of kernels.
pub fn text(body: &str) -> String {
    format!(".version 9.0\n.target sm_120\n.address_size 64\n{body}")
}

/// A kernel `k` whose parameters are the addresses of buffers, which are in `%rd0`, `%rd1`, ...; the number of the
/// thread is in `%r0`.
pub fn kernel(buffers: usize, body: &str) -> String {
    let parameters: Vec<String> = (0..buffers).map(|index| format!(".param .u64 p{index}")).collect();
    let loads: Vec<String> = (0..buffers).map(|index| format!("ld.param.u64 %rd{index}, [p{index}];")).collect();
    text(&format!(
        ".visible .entry k({}) {{\n.reg .pred %p<20>; .reg .b16 %h<40>; .reg .b32 %r<100>; .reg .b32 %f<40>;\n\
         .reg .b64 %rd<60>; .reg .b64 %d<40>;\n{}\nmov.u32 %r0, %tid.x;\n{body}\nret;\n}}\n",
        parameters.join(", "),
        loads.join("\n")
    ))
}

pub fn run(kernel: &Kernel, buffers: &Buffers, grid: [u32; 3], block: [u32; 3], params: &[u64]) -> Result<u64, Trap> {
    run_with(kernel, buffers, grid, block, params, &[], 1 << 24)
}

pub fn run_with(
    kernel: &Kernel,
    buffers: &Buffers,
    grid: [u32; 3],
    block: [u32; 3],
    params: &[u64],
    globals: &[u64],
    limit: u64,
) -> Result<u64, Trap> {
    run_watched(kernel, buffers, (grid, block), params, globals, limit, None)
}

pub fn run_watched(
    kernel: &Kernel,
    buffers: &Buffers,
    (grid, block): ([u32; 3], [u32; 3]),
    params: &[u64],
    globals: &[u64],
    limit: u64,
    hook: Option<&dyn AccessHook>,
) -> Result<u64, Trap> {
    run_all(kernel, buffers, (grid, block), params, globals, limit, (hook, None))
}

/// Runs one block and takes what it prints.
pub fn run_printing(
    kernel: &Kernel,
    buffers: &Buffers,
    threads: u32,
    params: &[u64],
    globals: &[u64],
    print: Print<'_>,
) -> Result<u64, Trap> {
    run_all(kernel, buffers, ([1, 1, 1], [threads, 1, 1]), params, globals, 1 << 24, (None, Some(print)))
}

fn run_all(
    kernel: &Kernel,
    buffers: &Buffers,
    (grid, block): ([u32; 3], [u32; 3]),
    params: &[u64],
    globals: &[u64],
    limit: u64,
    (hook, print): (Option<&dyn AccessHook>, Option<Print<'_>>),
) -> Result<u64, Trap> {
    let params: Vec<u8> = params.iter().flat_map(|param| param.to_le_bytes()).collect();
    let (stop, pool) = (Stop::default(), Pool::default());
    kernel.launch(&Launch {
        shared_bytes: 48 << 10,
        params: &params,
        globals,
        hook,
        print,
        limit,
        ..Launch::new(grid, block, buffers, &stop, &pool)
    })
}

/// Runs the body of a kernel in one block with one buffer of inputs, and one of as many outputs.
pub fn compute(threads: u32, input: &[u32], outputs: usize, body: &str) -> Result<Vec<u32>, Trap> {
    let module = load(&kernel(2, body));
    let mut buffers = Buffers::new();
    let (from, to) = (buffers.add_words(input), buffers.add_words(&vec![0; outputs]));
    run(module.kernel("k").unwrap(), &buffers, [1, 1, 1], [threads, 1, 1], &[from, to])?;
    Ok(buffers.words(to)[..outputs].to_vec())
}
