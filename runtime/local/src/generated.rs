//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Generated from `spec/hal`.
pub mod hal {
    /// The options of `local-task` devices.
    pub mod local_task {
        use crate::task::config::*;

        include!(concat!(env!("OUT_DIR"), "/hal/local_task.rs"));
    }
}

/// Generated from `spec/names`.
pub mod names {
    /// Values of these options.
    pub mod local_task {
        include!(concat!(env!("OUT_DIR"), "/names/local_task.rs"));
    }
}
