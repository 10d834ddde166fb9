//! Parameters that are stored outside of programs: readers and writers of archives, and providers that transfer
//! parameters to devices for programs.
//!
//! [`ParameterIndex`] lists the parameters of archives (`.irpa`, `.gguf`, `.safetensors`; their headers are in
//! `spec/schema/`), and [`IndexProvider`] gives programs access to an index. Hosts with sources of their own implement
//! [`ParameterSource`], or, to schedule transfers themselves, [`ParameterProvider`](crate::hal::ParameterProvider).
//! Programs import the module `io_parameters` of `vireo-modules`, which calls providers.
//!
//! Archives are untrusted: every offset is checked before it is used, and no more memory is allocated than the file is
//! long.
//!
//! It stands on `vireo-core`, on `vireo-vm` for objects that programs hold, and on `vireo-hal` for files and transfers;
//! it names no driver. Users depend on the crate `vireo`, which exports it as `io`.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod archive;
mod contents;
mod generated;
pub mod gguf;
mod index;
mod index_provider;
pub mod irpa;
mod layout;
mod locator;
pub mod safetensors;
mod source_provider;
mod transfers;

use vireo_core::status;
use vireo_hal as hal;
use vireo_vm as vm;

pub use generated::schema;

pub use contents::{Contents, ContentsMode};
pub use index::{ArchiveFormat, Parameter, ParameterIndex, ParameterStorage, Splat, TensorType};
pub use index_provider::IndexProvider;
// How far the transfers of a provider have come.
pub use hal::Progress;
pub use source_provider::{ParameterSource, SourceProvider};
