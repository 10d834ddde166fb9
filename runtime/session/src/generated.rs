//! The generated code of this crate: everything that the build script makes from `spec/` is included here, and only here.

/// The examples of every op as tests.
#[cfg(test)]
mod op_tests {
    include!(concat!(env!("OUT_DIR"), "/vm/op_tests.rs"));
}

/// Generated from `spec/names`.
pub mod names {
    /// Reflection attributes, which compilers attach to functions.
    pub mod reflection {
        include!(concat!(env!("OUT_DIR"), "/names/reflection.rs"));
    }
}
