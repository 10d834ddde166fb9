//! The fence: everything that the build script generates from `spec/` enters the crate here, and only here.

/// The examples of every op as tests.
mod op_tests {
    include!(concat!(env!("OUT_DIR"), "/vm/op_tests.rs"));
}
