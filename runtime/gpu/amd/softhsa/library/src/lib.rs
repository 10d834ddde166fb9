//! The functions of the software HSA agent under their C names. `cargo xtask soft DIR` links this to
//! `libhsa-runtime64.so.1`, which programs load in the place of the library of the GPUs' vendor.

mod generated;
