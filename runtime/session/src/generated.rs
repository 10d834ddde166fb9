//! The fence: everything that the build script generates from `spec/` enters the crate here, and only here.

/// The examples of every op as tests.
#[cfg(test)]
mod op_tests {
    include!(concat!(env!("OUT_DIR"), "/vm/op_tests.rs"));
}

/// Generated from `spec/names`.
pub mod names {
    /// What compilers say of functions.
    pub mod reflection {
        include!(concat!(env!("OUT_DIR"), "/names/reflection.rs"));
    }
}
