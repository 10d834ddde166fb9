//! The functions of the software CUDA driver under their C names. `cargo xtask soft DIR` links this to `libcuda.so.1`,
//! which programs load in the place of the library of the GPUs' vendor.

mod generated;
