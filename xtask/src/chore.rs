//! The folders of the workspace, and the reasons for which chores fail.

use std::env;
use std::path::{Path, PathBuf};

/// Why a chore was not done.
pub enum Failure {
    /// Something is not as it should be. Exit code 1.
    Wrong(String),
    /// The arguments are wrong. Exit code 2.
    Usage(String),
}

/// The folder of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The folder that cargo builds into.
pub fn target() -> PathBuf {
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    std::path::absolute(&folder).unwrap_or(folder)
}
