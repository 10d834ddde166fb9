//! Parameters that live outside of programs: archives of them, and providers that hand them to programs.
//!
//! [`ParameterIndex`] lists what is in archives (`.irpa`, `.gguf`, `.safetensors`; their headers are in `spec/schema/`), and
//! [`IndexProvider`] gives programs access to an index. Own sources of parameters implement [`ParameterSource`], or, to schedule the
//! work on queues themselves, [`ParameterProvider`](crate::hal::ParameterProvider). The module that programs import from is
//! `io_parameters`, in `vireo-modules`.
//!
//! Archives are untrusted: every offset is checked before it is used, and no more memory is taken than the file is long.

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
pub use index_provider::{IndexProvider, Progress};
pub use source_provider::{ParameterSource, SourceProvider};
