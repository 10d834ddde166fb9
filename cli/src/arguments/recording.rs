//! The flags that record devices, part of the command line of every command that runs programs.

use std::ffi::OsString;

use clap::Args;

/// Flags of all commands that run programs. Without an output the others mean nothing, whatever they say.
#[derive(Args, Debug)]
pub struct RecordingArguments {
    /// Write what devices are asked to do to a file, with all bytes that a replay needs: `vireo replay` shows and runs
    /// it, and so do the reference's tools.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    pub device_replay_output: OsString,
    /// Files such as parameters in a capture: `reference` keeps their paths, `capture-ranges` what is read of them,
    /// `capture-all` all of them, and `fail` refuses them.
    #[arg(long, value_name = "POLICY", default_value = "reference")]
    pub device_replay_file_policy: String,
    /// How a replay checks files that it finds by their paths: `identity` by length, device, inode and time, `digest`
    /// by their contents.
    #[arg(long, value_name = "KIND", default_value = "identity")]
    pub device_replay_file_validation: String,
}
