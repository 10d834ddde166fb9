//! Kernels of drawn types, sizes, distances and flags look at the limits before much work has added up, whatever they
//! are. `VIREO_SEED` names the first of them.

use std::time::{Duration, Instant};

use super::super::elementwise::*;
use super::super::mmt4d::{Product, Scratch};
use super::super::pack::Tiling;
use super::super::simd_level::SimdLevel;
use super::audit;
use crate::Result;
use crate::hal::vmvx_format::{Mmt4dFlags, Mmt4dType, PackFlags, PackType};
use crate::limits::scope::{self, StartedLimits};
use crate::limits::{Cancellation, Limits};
use crate::matrix_view::MatrixView;
use crate::status::StatusCode;
use crate::vm::Buffer;

/// Most elements, or vectors of 16 products, that may be processed between two looks.
const MOST: u64 = 500_000;

/// The generator xorshift64*.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A number from 1 to `most`, log-uniform.
    fn size(&mut self, most: u64) -> u64 {
        let bits = self.below(most.ilog2() as usize + 1);
        ((1 << bits) + self.next() % (1 << bits)).min(most)
    }

    /// Sizes whose product is at most `most`.
    fn sizes<const N: usize>(&mut self, mut most: u64) -> [u64; N] {
        let mut sizes = [1; N];
        let first = self.below(N);
        for index in 0..N {
            let size = &mut sizes[(index + first) % N];
            *size = self.size(most);
            most /= *size;
        }
        sizes
    }
}

fn view<'a>(name: &'static str, buffer: &'a Buffer, strides: [u64; 2]) -> MatrixView<'a> {
    MatrixView { name, buffer, offset: 0, strides }
}

/// Distances of elements: rows without gaps, columns without gaps, or equal elements.
fn strides(random: &mut Random, [rows, columns]: [u64; 2], may_be_equal: bool) -> [u64; 2] {
    match random.below(if may_be_equal { 4 } else { 2 }) {
        0 => [columns, 1],
        1 => [1, rows],
        2 => [0, 1],
        _ => [0, 0],
    }
}

/// Runs a kernel with sizes that `random` draws: at most `most` elements, or steps of 16 products.
fn run(random: &mut Random, level: SimdLevel, most: u64) -> Result<()> {
    match random.below(5) {
        0 => {
            let sizes = random.sizes::<2>(most);
            let [from, to] = [true, false].map(|may_be_equal| strides(random, sizes, may_be_equal));
            let words = (sizes[0] * sizes[1]) as usize;
            let (a, b, out) =
                (Buffer::allocate(words * 8, 0)?, Buffer::allocate(words * 8, 0)?, Buffer::allocate(words * 8, 0)?);
            let width = if random.below(2) == 0 { 4 } else { 8 };
            let to = view("out", &out, to).writable(width, sizes)?;
            let (a, b) = (view("a", &a, from).readable(width, sizes)?, view("b", &b, from).readable(width, sizes)?);
            let sizes = sizes.map(|size| size as usize);
            // SAFETY: the views were checked with these sizes, or for wider elements, and the level was detected.
            unsafe {
                match (width, random.below(4)) {
                    (8, _) => copy::<8>(a, to, sizes),
                    (_, 0) => unary::<ExpF32>(level, a, to, sizes),
                    (_, 1) => binary::<AddF32>(level, a, b, to, sizes),
                    (_, 2) => copy::<2>(a, to, sizes),
                    _ => fill(7, to, sizes),
                }
            }
        }
        1 | 2 => {
            let tile_sizes = random.sizes::<4>(most);
            let [outer_rows, outer_columns, tile_rows, tile_columns] = tile_sizes;
            let types = [PackType::F32F32, PackType::F16F16, PackType::I32I32];
            let mut flags = types[random.below(3)].0;
            let all = [PackFlags::TRANSPOSE_INNER, PackFlags::TRANSPOSE_OUTER];
            let chosen = all.map(|flag| if random.below(2) == 0 { flag } else { PackFlags::empty() });
            chosen.iter().for_each(|flag| flags |= flag.bits());
            let swap = |[a, b]: [u64; 2], swap: PackFlags| if swap.is_empty() { [a, b] } else { [b, a] };
            let (outer, inner) =
                (swap([outer_rows, outer_columns], chosen[1]), swap([tile_rows, tile_columns], chosen[0]));
            // Some tiles are outside of the matrix, or all but an element.
            let matrix_sizes = [0, 1].map(|axis| (outer[axis] * inner[axis]).div_ceil(random.size(4)));
            let elements = tile_sizes.iter().product::<u64>() as usize;
            let (matrix, tiles) = (Buffer::allocate(elements * 4, 0)?, Buffer::allocate(elements * 4, 0)?);
            let tiling = Tiling {
                matrix: view("matrix", &matrix, strides(random, matrix_sizes, false)),
                matrix_sizes,
                tiles: view("tiles", &tiles, [outer_columns * tile_rows * tile_columns, 1]),
                tile_sizes,
                flags,
            };
            if random.below(2) == 0 { tiling.pack(5) } else { tiling.unpack() }
        }
        _ => {
            let types = [
                Mmt4dType::F32F32F32,
                Mmt4dType::S8S8S32,
                Mmt4dType::F16F16F32,
                Mmt4dType::BF16BF16F32,
                Mmt4dType::F16F16F16,
                Mmt4dType::BF16BF16BF16,
                Mmt4dType::S16S16S32,
                Mmt4dType::S16U4S32,
                Mmt4dType::S16S8S32,
                Mmt4dType::S8S4S32,
            ];
            let ty = types[random.below(types.len())];
            let [m, n, k, m0, n0, k0] = random.sizes::<6>(most);
            // Rows of nibbles are whole bytes.
            let k0 = if matches!(ty, Mmt4dType::S16U4S32 | Mmt4dType::S8S4S32) { k0.next_multiple_of(2) } else { k0 };
            // Factors whose rows of tiles are all the same have a product of any size.
            let [lhs_stride, rhs_stride] = [m0, n0].map(|rows| if random.below(2) == 0 { 0 } else { rows * k * k0 });
            let factor = |count: u64, rows: u64| Buffer::allocate((count * rows * k * k0 * 4) as usize, 0);
            let (lhs, rhs) = (factor(m, m0)?, factor(n, n0)?);
            let out = Buffer::allocate((m * n * m0 * n0 * 4) as usize, 0)?;
            let mut flags = ty.0;
            for flag in [Mmt4dFlags::ACCUMULATE, Mmt4dFlags::SKIP_INTERMEDIATE_ROUNDINGS] {
                flags |= if random.below(2) == 0 { flag.bits() } else { 0 };
            }
            let product = Product {
                lhs: view("lhs", &lhs, [lhs_stride, 1]),
                rhs: view("rhs", &rhs, [rhs_stride, 1]),
                out: view("out", &out, [n * m0 * n0, 1]),
                tiles: [m, n, k],
                tile: [m0, n0, k0],
                flags,
            };
            product.run(level, &mut Scratch::default())
        }
    }
}

fn first_seed() -> u64 {
    std::env::var("VIREO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

fn levels() -> [SimdLevel; SimdLevel::ALL.len()] {
    SimdLevel::ALL.map(|level| level.min(SimdLevel::detect()))
}

/// Limits that can be reached only by `cancellation`.
fn limited(cancellation: &Cancellation) -> Option<StartedLimits> {
    scope::start(&Limits { cancellation: Some(cancellation.clone()), ..Limits::default() })
}

#[test]
fn kernels_look_at_the_limits_before_work_adds_up() {
    let first = first_seed();
    let mut looked = 0;
    for seed in first..first + 200 {
        let mut random = Random::new(seed);
        let level = levels()[random.below(SimdLevel::ALL.len())];
        // A few have enough work for several looks.
        let most = if seed % 8 == 0 { 1 << 22 } else { 1 << 14 };
        audit::take();
        run(&mut random, level, most).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let audit = audit::take();
        assert!(audit.most <= MOST, "seed {seed}: {} elements between two looks", audit.most);
        assert!(audit.total > 0 && audit.total * 16 <= audit.added, "seed {seed}: {} elements", audit.total);
        looked += u32::from(audit.looks > 0);
    }
    assert!(looked > 5, "only {looked} of the kernels are long enough");
}

#[test]
fn a_limit_that_is_reached_stops_a_kernel_early() {
    let first = first_seed();
    let cancellation = Cancellation::default();
    cancellation.cancel();
    let mut stopped = 0;
    for seed in (first..first + 200).filter(|seed| seed % 8 == 0) {
        audit::take();
        let _limited = limited(&cancellation);
        let outcome = run(&mut Random::new(seed), SimdLevel::detect(), 1 << 22);
        let audit = audit::take();
        assert!(audit.total <= MOST, "seed {seed}: {} elements after the limit", audit.total);
        match outcome {
            Err(error) => {
                assert_eq!(error.code(), StatusCode::Cancelled, "seed {seed}: {error}");
                stopped += 1;
            }
            Ok(()) => assert_eq!(audit.looks, 0, "seed {seed}"),
        }
    }
    assert!(stopped > 5, "only {stopped} kernels were stopped");
}

/// Kernels on hundreds of megabytes return soon after their deadline, which is drawn. Prints the longest delay.
#[test]
#[ignore = "measures time: run it alone, in the release profile"]
fn kernels_end_within_50_ms_of_their_deadline() {
    let first = first_seed();
    let (mut longest, mut late) = ((Duration::ZERO, 0), 0);
    for seed in first..first + 300 {
        let mut random = Random::new(seed);
        let level = levels()[random.below(SimdLevel::ALL.len())];
        let timeout = Duration::from_micros(random.size(1 << 18));
        // The deadline is that of a call that begins here, so allocations of the test count as well.
        let deadline = Instant::now() + timeout;
        let _limited = scope::start(&Limits { deadline: Some(deadline), ..Limits::default() });
        if run(&mut random, level, 1 << 26).is_ok() {
            continue;
        }
        late += 1;
        longest = longest.max((deadline.elapsed(), seed));
    }
    println!("{late} kernels were stopped, at most {:?} after their deadline (seed {})", longest.0, longest.1);
    assert!(longest.0 < Duration::from_millis(50) && late > 0);
}
