//! The target for PTX: a text is loaded, and its kernels run for a while on buffers.

use std::sync::atomic::AtomicU64;

use vireo_ptx::{Launch, Module, Options};
use vireo_simt::{Memory, Pool, Region, Stop};

use super::seeds::Seed;

/// The texts that mutants are made from.
const TEXTS: [(&str, &[u8]); 6] = [
    ("many_instructions.ptx", include_bytes!("../../runtime/gpu/nv/ptx/tests/seed.ptx")),
    ("indirect_and_tiles.ptx", include_bytes!("../../runtime/gpu/nv/ptx/tests/seed_indirect.ptx")),
    ("sum.ptx", include_bytes!("../../runtime/gpu/nv/ptx/tests/kernels/red_addf_f32.ptx")),
    ("exponential.ptx", include_bytes!("../../runtime/gpu/nv/ptx/tests/kernels/ew_exp_f32.ptx")),
    ("product.ptx", include_bytes!("../../runtime/gpu/nv/ptx/tests/kernels/mm_f32_odd.ptx")),
    ("transposition.ptx", include_bytes!("../../runtime/gpu/nv/ptx/tests/kernels/transpose.ptx")),
];

/// Where the buffers are, one after another.
const START: u64 = 1 << 32;
/// Bytes of a buffer.
const LENGTH: u64 = 4096;
/// Instructions that a warp executes at most.
const LIMIT: u64 = 20_000;
/// Kernels of a text that run.
const MOST_KERNELS: usize = 2;

/// Buffers of words.
struct Buffers(Box<[AtomicU64]>);

// SAFETY: The words are atomics, and live as long as the value.
unsafe impl Memory for Buffers {
    fn region(&self, address: u64) -> Option<Region> {
        let length = self.0.len() as u64 * 8;
        let region =
            Region { start: START, length, host: self.0.as_ptr().cast::<u8>().cast_mut(), writable: true, padding: 0 };
        (address.wrapping_sub(START) < length).then_some(region)
    }
}

/// The texts.
pub(super) fn texts() -> Vec<Seed> {
    TEXTS.iter().map(|(name, bytes)| Seed { name: (*name).to_string(), bytes: bytes.to_vec() }).collect()
}

/// Loads a text, and runs its first kernels.
pub(super) fn text(bytes: &[u8]) {
    let Ok(module) = Module::load(bytes, &Options::default()) else { return };
    let instructions: usize = module.kernels().iter().map(|kernel| kernel.instructions()).sum();
    assert!(instructions <= bytes.len().saturating_mul(64), "{instructions} instructions of {} bytes", bytes.len());
    for kernel in module.kernels().iter().take(MOST_KERNELS) {
        let buffers = Buffers((0..8 * LENGTH / 8).map(AtomicU64::new).collect());
        let globals: Vec<u64> = (0..module.globals().len() as u64).map(|index| START + index % 8 * LENGTH).collect();
        let mut params: Vec<u8> = (0..8u64).flat_map(|index| (START + index * LENGTH).to_le_bytes()).collect();
        params.resize(params.len().max(kernel.parameter_bytes() as usize), 0);
        // Traps are what most mutants end with.
        let (stop, pool) = (Stop::default(), Pool::default());
        let block = kernel.required_threads().unwrap_or([40, 1, 1]);
        let _ = kernel.launch(&Launch {
            shared_bytes: 4096,
            params: &params,
            globals: &globals,
            resident: 2,
            print: Some(&|_| ()),
            limit: LIMIT,
            ..Launch::new([2, 1, 1], block, &buffers, &stop, &pool)
        });
    }
}
