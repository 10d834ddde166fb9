//! The functions of NCCL in software under their C names. `cargo xtask soft DIR` links this to `libnccl.so.2`, which
//! programs load in the place of the library of the GPUs' vendor. It finds the functions of `libcuda.so.1` when it is
//! used first.

mod generated;
