//! The code that the build script generates from `spec/`, included here and only here.

/// Generated from `spec/schema`.
pub mod schema {
    /// IREE parameter archives.
    pub mod irpa {
        include!(concat!(env!("OUT_DIR"), "/schema/irpa.rs"));
    }

    /// GGUF files.
    pub mod gguf {
        include!(concat!(env!("OUT_DIR"), "/schema/gguf.rs"));
    }

    /// Safetensors files.
    pub mod safetensors {
        include!(concat!(env!("OUT_DIR"), "/schema/safetensors.rs"));
    }
}
