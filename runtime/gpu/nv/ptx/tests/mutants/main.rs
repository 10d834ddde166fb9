//! Texts that are not right: loading any of them ends within memory that their length bounds, the ones that are parsed
//! are printed and parsed again, and the kernels that are loaded run until their limit.
//!
//! The test runs the first mutants. `VIREO_MUTANTS=100000 cargo test --release -p vireo-ptx --test mutants` runs more:
//! a number always means the same mutant.

#[path = "../suite/support.rs"]
#[expect(dead_code, reason = "it has more than is wanted here")]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{Buffers, run_with};
use vireo_ptx::syntax::{parse, print};
use vireo_ptx::{Module, Options};

/// Counts the bytes that are allocated.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: All memory is that of the system's allocator; only numbers are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: The caller keeps the contract of this function, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: The pointer is from `alloc`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bytes that a function allocates at most at once.
fn peak<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = run();
    (result, MOST.load(Ordering::Relaxed) - before)
}

/// Bytes that loading takes at most for each byte of a text, and for a text without any.
const BYTES_PER_BYTE: usize = 64;
const BYTES_AT_LEAST: usize = 1 << 18;

struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound.max(1)
    }
}

const SEEDS: [&str; 8] = [
    include_str!("../seed.ptx"),
    include_str!("../seed_indirect.ptx"),
    include_str!("../kernels/red_addf_f32.ptx"),
    include_str!("../kernels/ew_exp_f32.ptx"),
    include_str!("../kernels/ew_pow_bf16.ptx"),
    include_str!("../kernels/mm_f32_odd.ptx"),
    include_str!("../kernels/transpose.ptx"),
    include_str!("../kernels/mm_f16_f16.ptx"),
];

/// Replacements of parts of a text.
const PIECES: [&str; 24] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ":",
    "<",
    ">",
    "@",
    "!",
    "|",
    "\"",
    "/*",
    "//",
    "-",
    "+",
    "99999999999999999999",
    "0f",
    ".reg .b32 %q<4294967295>;",
    ".shared .b8 x[18446744073709551615];",
    "%r1",
];

/// The mutant of a number. Those of the first two seeds, which have most instructions, are half of all.
fn mutant(number: u64) -> Vec<u8> {
    let draw = &mut Draw(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5EED_0003);
    draw.below(1);
    let pick = draw.below(12);
    let seed = SEEDS[if pick < 8 { pick } else { pick % 2 }];
    let mut text = seed.as_bytes().to_vec();
    for _ in 0..=draw.below(4) {
        let at = draw.below(text.len());
        match draw.below(8) {
            0 => text.truncate(at),
            1 => text[at] = draw.below(256) as u8,
            2 => {
                let length = draw.below(40).min(text.len() - at);
                text.drain(at..at + length);
            }
            3 => {
                let piece = PIECES[draw.below(PIECES.len())];
                text.splice(at..at, piece.bytes());
            }
            4 => {
                // A line is there twice, or in another place.
                let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
                let (line, place) = (lines[draw.below(lines.len())].to_vec(), draw.below(lines.len()));
                let mut lines: Vec<Vec<u8>> = lines.into_iter().map(<[u8]>::to_vec).collect();
                lines.insert(place, line);
                text = lines.join(&b'\n');
            }
            5 => {
                // A line of another seed.
                let lines: Vec<&str> = SEEDS[draw.below(2)].lines().collect();
                let line = lines[draw.below(lines.len())];
                let place = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |next| at + next + 1);
                text.splice(place..place, line.bytes().chain([b'\n']));
            }
            6 => {
                // One word instead of another one.
                let words: Vec<&[u8]> = text.split(|byte| !byte.is_ascii_alphanumeric()).collect();
                let word = words[draw.below(words.len())].to_vec();
                let length = draw.below(8).min(text.len() - at);
                text.splice(at..at + length, word);
            }
            _ => {
                let digits: Vec<usize> = (0..text.len()).filter(|at| text[*at].is_ascii_digit()).collect();
                if !digits.is_empty() {
                    text[digits[draw.below(digits.len())]] = b'0' + draw.below(10) as u8;
                }
            }
        }
        if text.is_empty() {
            break;
        }
    }
    text
}

/// Runs the kernels of a module, and returns how many ended.
fn run(module: &Module) -> usize {
    let mut ended = 0;
    for kernel in module.kernels().iter().take(2) {
        let mut buffers = Buffers::new();
        let addresses: Vec<u64> = (0..4).map(|_| buffers.add_words(&[7; 256])).collect();
        let globals: Vec<u64> = module.globals().iter().map(|_| buffers.add(&[0; 4096])).collect();
        let mut params = addresses.repeat(8);
        params.resize(params.len().max(kernel.parameter_bytes() as usize / 8 + 1), 0);
        let block = kernel.required_threads().unwrap_or([32, 2, 1]);
        let result = run_with(kernel, &buffers, [2, 1, 1], block, &params, &globals, 20_000);
        ended += usize::from(result.is_ok());
    }
    ended
}

#[test]
fn mutants_are_refused_or_run() {
    let count = std::env::var("VIREO_MUTANTS").ok().and_then(|count| count.parse().ok()).unwrap_or(2000);
    for seed in SEEDS {
        Module::load(seed.as_bytes(), &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    }
    let (mut parsed, mut loaded, mut ended) = (0, 0, 0);
    let (mut slowest, mut hungriest) = ((Duration::ZERO, 0), (0, 0));
    for number in 0..count {
        let text = mutant(number);
        let started = Instant::now();
        let (module, bytes) = peak(|| Module::load(&text, &Options::default()));
        let most = BYTES_PER_BYTE * text.len() + BYTES_AT_LEAST;
        assert!(bytes <= most, "mutant {number}: {bytes} bytes to load a text of {}", text.len());
        hungriest = hungriest.max((bytes * 10 / text.len().max(1), number));
        if let Ok(text) = str::from_utf8(&text)
            && let Ok(tree) = parse(text)
        {
            parsed += 1;
            let printed = print(&tree);
            let again = parse(&printed).unwrap_or_else(|error| panic!("mutant {number}: {error}\n{printed}"));
            assert_eq!(print(&again), printed, "mutant {number}");
        }
        if let Ok(module) = module {
            loaded += 1;
            ended += run(&module);
        }
        slowest = slowest.max((started.elapsed(), number));
    }
    println!(
        "{count} mutants: {parsed} are parsed, {loaded} loaded, {ended} kernels end; the slowest, {}, takes {:?}, and \
         mutant {} {:.1} bytes for each byte",
        slowest.1,
        slowest.0,
        hungriest.1,
        hungriest.0 as f64 / 10.0
    );
    // Most mutants are wrong, but not all of them.
    assert!(loaded * 20 > count && ended as u64 * 100 > count, "{loaded} {ended}");
}
