//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// The container: its header, the header of records, and the codes in them.
pub mod format {
    use vireo_core::record_file::Part;

    include!(concat!(env!("OUT_DIR"), "/profile/format.rs"));
}

/// Records of chunks.
pub mod records {
    use vireo_core::record_file::{Elements, Part, TrailingError, count_of, extent, within};

    include!(concat!(env!("OUT_DIR"), "/profile/records.rs"));
}

/// Fields of traces for Perfetto, and values of them.
pub mod perfetto {
    include!(concat!(env!("OUT_DIR"), "/profile/perfetto.rs"));
}

/// Types of chunks.
pub mod contents {
    include!(concat!(env!("OUT_DIR"), "/profile/contents.rs"));
}

/// A description of each layout.
pub mod dump {
    use vireo_core::record_file::{LayoutDescription, TrailingError};

    include!(concat!(env!("OUT_DIR"), "/profile/dump.rs"));
}

/// The rows of exports.
pub(crate) mod rows {
    use vireo_core::record_fields::Fields;
    use vireo_core::record_file::ReadError;

    use super::contents::Content;
    use crate::joins::Joins;
    use crate::reader::TypedRecord;

    include!(concat!(env!("OUT_DIR"), "/profile/rows.rs"));
}
