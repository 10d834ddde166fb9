//! The fence: everything that the build script generates from `spec/` enters the crate here, and only here.

/// Generated from `spec/hal`.
pub mod hal {
    /// Numbers and structs that HAL objects exchange.
    pub mod types {
        include!(concat!(env!("OUT_DIR"), "/hal/types.rs"));
    }

    /// Numbers of the HAL as arguments and results of programs.
    mod arguments {
        include!(concat!(env!("OUT_DIR"), "/hal/arguments.rs"));
    }

    /// The objects as traits.
    pub mod traits {
        include!(concat!(env!("OUT_DIR"), "/hal/traits.rs"));
    }

    /// Wrappers of objects.
    pub mod forward {
        include!(concat!(env!("OUT_DIR"), "/hal/forward.rs"));
    }

    /// Calls of objects as values.
    pub mod calls {
        include!(concat!(env!("OUT_DIR"), "/hal/calls.rs"));
    }

    /// Wrappers that report calls to an observer.
    pub mod observe {
        include!(concat!(env!("OUT_DIR"), "/hal/observe.rs"));
    }

    /// The interface between kernel libraries and the runtime.
    pub mod executable_library {
        include!(concat!(env!("OUT_DIR"), "/hal/executable_library.rs"));
    }

    /// The interface between executable plugins and the runtime.
    pub mod executable_plugin {
        include!(concat!(env!("OUT_DIR"), "/hal/executable_plugin.rs"));
    }

    /// Processor features.
    pub mod cpu_features {
        include!(concat!(env!("OUT_DIR"), "/hal/cpu_features.rs"));
    }

    /// Executables in portable bytecode.
    pub mod vmvx {
        include!(concat!(env!("OUT_DIR"), "/hal/vmvx.rs"));
    }

    /// The parts of ELF that the loader reads.
    pub mod elf {
        include!(concat!(env!("OUT_DIR"), "/hal/elf.rs"));
    }
}

/// Generated from `spec/names`.
pub mod names {
    /// Formats of executables.
    pub mod executable_formats {
        include!(concat!(env!("OUT_DIR"), "/names/executable_formats.rs"));
    }

    /// Categories and keys of device queries.
    pub mod queries {
        include!(concat!(env!("OUT_DIR"), "/names/queries.rs"));
    }
}
