//! An empty library, which cargo needs; the benchmarks are the targets in `benches/`.
