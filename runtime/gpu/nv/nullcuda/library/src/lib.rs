//! The functions of the null CUDA driver under their C names. `cargo xtask null DIR` links this to `libcuda.so.1`, so
//! that the cost of the host in any program can be measured.

mod generated;
