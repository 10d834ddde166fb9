//! The code that the build script generates from `spec/`, included here and only here.

/// Generated from `spec/schema`.
pub mod schema {
    /// The tables by which programs name parameters.
    pub mod parameter_tables {
        include!(concat!(env!("OUT_DIR"), "/schema/parameter_tables.rs"));
    }
}
