//! Runs the first kernel of a text: `cargo run -p vireo-ptx --example run TEXT BLOCKS THREADS FILE ...`. BLOCKS and
//! THREADS are three numbers with commas. Each file is a buffer whose address is a parameter, and is written
//! afterwards.

use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use vireo_ptx::{Launch, Module, Options};
use vireo_simt::{Memory, Pool, Region, Stop};

/// Buffers at addresses that are far from each other.
struct Buffers(Vec<Box<[AtomicU64]>>);

const STEP: u64 = 1 << 36;

// SAFETY: The words are atomics, and live as long as the value.
unsafe impl Memory for Buffers {
    fn region(&self, address: u64) -> Option<Region> {
        let index = (address / STEP).checked_sub(1)?;
        let words = self.0.get(index as usize)?;
        let (length, host) = (words.len() as u64 * 8, words.as_ptr().cast::<u8>().cast_mut());
        Some(Region { start: (index + 1) * STEP, length, host, writable: true, padding: 0 })
    }
}

fn sizes(text: &str) -> Result<[u32; 3], Box<dyn Error>> {
    let sizes: Vec<u32> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    sizes.try_into().map_err(|_| "expected three numbers with commas".into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [text, grid, block, files @ ..] = arguments.as_slice() else {
        return Err("expected a text, blocks, threads and files".into());
    };
    let module = Module::load(&std::fs::read(text)?, &Options::default())?;
    let kernel = module.kernels().first().ok_or("there is no kernel")?;
    let mut buffers = Buffers(Vec::new());
    let mut lengths = Vec::new();
    for file in files {
        let bytes = std::fs::read(file)?;
        lengths.push(bytes.len());
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            AtomicU64::new(u64::from_le_bytes(word))
        });
        buffers.0.push(words.collect());
    }
    let params: Vec<u8> = (1..=files.len() as u64).flat_map(|index| (index * STEP).to_le_bytes()).collect();
    let started = Instant::now();
    let (stop, pool) = (Stop::default(), Pool::default());
    let print = |text: &[u8]| drop(std::io::stdout().write_all(text));
    let executed = kernel.launch(&Launch {
        shared_bytes: 48 << 10,
        params: &params,
        print: Some(&print),
        ..Launch::new(sizes(grid)?, sizes(block)?, &buffers, &stop, &pool)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    println!("{executed} warp instructions in {seconds:.4} s, {:.1} M/s", executed as f64 / seconds / 1e6);
    for ((file, words), length) in files.iter().zip(&buffers.0).zip(lengths) {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        bytes.truncate(length);
        std::fs::write(file, bytes)?;
    }
    Ok(())
}
