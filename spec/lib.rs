//! The specifications, embedded so that every package builds from anywhere.
//!
//! This crate holds data only: each `.yaml` file below `spec/` as `(path, text)`. `vireo-codegen` reads it; build
//! scripts, macros and tests hand [`FILES`] to `vireo_codegen::load`.
#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/files.rs"));
