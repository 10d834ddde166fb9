//! The fence: everything that the build script generates from `spec/` enters the crate here, and only here.

/// Generated from `spec/hal`.
pub mod hal {
    /// The options of `local-task` devices.
    pub mod local_task {
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
