//! Vectorised loops on both tiers: random nests of them (`nests`, `program`, `products`, `moves`, `short_rows`,
//! `wide`), which loops become vectors (`shape`), what several iterations share (`rows`), loops that divide what they
//! count with (`strips`, `parts`), loops of bytes (`bytes`), their fuel (`fuel`), and nests that are drawn to leave
//! their buffers, over memory with inaccessible pages around it (`hostile`).

mod bytes;
mod fuel;
#[cfg(all(target_os = "linux", target_arch = "x86_64", feature = "jit"))]
mod hostile;
mod moves;
mod nests;
mod parts;
mod pressure;
mod products;
mod program;
mod rows;
mod shape;
mod short_rows;
#[path = "../support/skip.rs"]
mod skip;
mod strips;
mod wide;

fn has_lanes(lanes: u8) -> bool {
    #[cfg(target_arch = "x86_64")]
    return match lanes {
        16 => std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512dq"),
        _ => std::is_x86_feature_detected!("avx2"),
    };
    #[cfg(not(target_arch = "x86_64"))]
    return lanes == 0;
}
