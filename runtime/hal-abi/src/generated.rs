//! The fence: everything that the build script generates from `spec/` enters the crate here, and only here.

/// Generated from `spec/hal`.
pub mod hal {
    // Generated code refers to types and traits as sibling modules.
    use vireo_hal::{executable_library, traits, types};

    /// The objects as vtables for other libraries, and the structs they exchange.
    #[expect(clippy::type_complexity, reason = "slots have the arguments of their methods")]
    pub mod vtables {
        include!(concat!(env!("OUT_DIR"), "/hal/vtables.rs"));
    }

    /// Objects of this library for others.
    mod exports {
        include!(concat!(env!("OUT_DIR"), "/hal/exports.rs"));
    }

    /// Objects of other libraries.
    mod imports {
        include!(concat!(env!("OUT_DIR"), "/hal/imports.rs"));
    }
}
