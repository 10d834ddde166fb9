//! Benchmarks of the VM; see the `benches` targets.
