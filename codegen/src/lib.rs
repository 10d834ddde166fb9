//! The code generator: it turns Vireo's specs into Rust, a C header and reference documentation.
//!
//! [`load`] makes a checked [`Spec`] of the texts below `spec/`, [`generate`] makes source files of it. Nothing here
//! prints, reads the environment or writes files except [`build`], the entry point of build scripts.
//!
//! The rooms, lowest first: [`entry`] splits files into entries and reports malformed ones, [`sem`] parses and types
//! the `semantics` of VM ops, [`model`] gives entries types, [`check`] holds the rules that need more than one entry,
//! `load` runs these stages, [`emit`] has one module for each generated artifact. A room uses those before it, and not
//! what this module re-exports for other crates.
//!
//! It uses no other crate of the workspace, not even `vireo-spec`: callers pass the texts. Build scripts of the
//! runtime's crates call [`build`], `vireo-macros` looks modules up in the model, `snapshots` records what is
//! generated, and `xtask` renders the reference documentation.
#![forbid(unsafe_code)]

pub mod build;
pub mod camel_case;
pub mod check;
pub mod diag;
pub mod emit;
pub mod entry;
mod load;
pub mod model;
pub mod sem;

pub use diag::{Diagnostic, Diagnostics, Origin};
pub use emit::file::GeneratedFile;
pub use emit::{generate, generate_below};
pub use load::{Spec, load};
