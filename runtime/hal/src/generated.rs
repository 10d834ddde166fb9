//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Generated from `spec/hal`.
pub mod hal {
    /// Numbers and structs that HAL objects exchange.
    pub mod types {
        use crate::bit_set::bit_set;
        use crate::narrow_float::{NarrowFloat, Specials};
        use crate::{Result, Status};

        include!(concat!(env!("OUT_DIR"), "/hal/types.rs"));
    }

    /// Numbers of the HAL as arguments and results of programs.
    mod arguments {
        use crate::vm::abi::{FromNumber, IntoNumber};
        use crate::{Result, Status};

        include!(concat!(env!("OUT_DIR"), "/hal/arguments.rs"));
    }

    /// The objects as traits.
    pub mod traits {
        use crate::{BufferView, DeviceTimes, Fence, HostKernels, Result, Status, VmType, WatchSlot, unimplemented};

        include!(concat!(env!("OUT_DIR"), "/hal/traits.rs"));
    }

    /// Operations of queues as values.
    pub mod operations {
        use crate::Result;
        use crate::accesses::{Access, Accessed, known_length};

        include!(concat!(env!("OUT_DIR"), "/hal/operations.rs"));
    }

    /// Operations of queues that own what they need.
    pub mod owned_operations {
        include!(concat!(env!("OUT_DIR"), "/hal/owned_operations.rs"));
    }

    /// Wrappers of objects.
    pub mod forward {
        use crate::{DeviceTimes, Forward, HostKernels, Result, Status, WatchSlot};

        include!(concat!(env!("OUT_DIR"), "/hal/forward.rs"));
    }

    /// The interface between kernel libraries and the runtime.
    pub mod executable_library {
        use crate::bit_set::bit_set;

        include!(concat!(env!("OUT_DIR"), "/hal/executable_library.rs"));
    }

    /// The interface between executable plugins and the runtime.
    pub mod executable_plugin {
        use crate::bit_set::bit_set;

        include!(concat!(env!("OUT_DIR"), "/hal/executable_plugin.rs"));
    }

    /// Processor features.
    pub mod cpu_features {
        include!(concat!(env!("OUT_DIR"), "/hal/cpu_features.rs"));
    }

    /// Executables in portable bytecode.
    pub mod vmvx {
        use crate::bit_set::bit_set;

        include!(concat!(env!("OUT_DIR"), "/hal/vmvx.rs"));
    }

    /// The parts of ELF that the loader reads.
    pub mod elf {
        use crate::bit_set::bit_set;

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
