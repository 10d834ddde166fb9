//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// The container: its header, and the codes of records.
pub mod format {
    use vireo_core::record_file::Part;

    include!(concat!(env!("OUT_DIR"), "/replay/format.rs"));
}

/// Records, payloads and their parts.
pub mod payloads {
    use vireo_core::record_file::{Elements, Part, TrailingError, count_of, extent, within};

    include!(concat!(env!("OUT_DIR"), "/replay/payloads.rs"));
}

/// Operations, and the methods of the HAL that they stand for.
pub mod operations {
    use crate::operation::{Operation, Replay};

    include!(concat!(env!("OUT_DIR"), "/replay/operations.rs"));
}

/// The fields of dumps.
pub mod dump {
    use vireo_core::record_fields::{Fields, first_word};
    use vireo_core::record_file::{LayoutDescription, ReadError, TrailingError};

    use crate::payload::PayloadReader;

    include!(concat!(env!("OUT_DIR"), "/replay/dump.rs"));
}

/// The arms of replays.
pub mod executor {
    use vireo_core::status::{Result, Status};
    use vireo_hal::*;

    use crate::executor::{Run, number, text, words};
    use crate::generated::format::ObjectType;
    use crate::plan::{Points, Reference, Step, damaged, whole};

    include!(concat!(env!("OUT_DIR"), "/replay/executor.rs"));
}
