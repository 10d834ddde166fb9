//! The drivers of this build and the loaders of executables that their devices have, which sessions start from.

#[cfg(feature = "local")]
mod builtin;

#[cfg(feature = "local")]
pub use builtin::{
    BuiltinOptions, create_device, default_loaders, global_drivers, list_devices, load_executable_plugin, loaders_for,
};
