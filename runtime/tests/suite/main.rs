//! The tests of the public interface, as one program: every program of its own would be linked again after each edit.
//!
//! `tests/mutants.rs` and `tests/small_stack.rs` stand apart, because what they look for may end the process.

#![expect(clippy::duplicate_mod, reason = "the tests of `hal` run on two devices")]

mod architecture;
mod archive;
mod asm;
mod assembler;
mod cancelling;
mod check;
mod compiled_share;
mod conformance;
mod constants;
mod context;
mod direct_imports;
mod disassembly;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), unix))]
mod elf;
#[cfg(all(target_arch = "x86_64", unix))]
mod elf_library;
#[cfg(feature = "tracing")]
mod events;
mod fills;
mod format;
mod forwarding;
mod golden;
mod hal;
mod hal_module;
mod hal_module_devices;
mod host_element;
mod host_loops;
mod imported;
mod imported_objects;
mod inference;
mod large_files;
#[cfg(all(target_arch = "x86_64", unix))]
mod large_functions;
mod lending;
mod lent_workgroups;
#[cfg(all(target_arch = "x86_64", unix))]
mod library;
mod local_task;
#[path = "../support/machine.rs"]
mod machine;
mod machine_code;
mod math;
mod models;
mod native_calls;
mod native_frames;
mod native_module;
mod negative_sizes;
mod null;
mod observing;
mod old;
mod parameters;
mod pools;
mod profiles;
mod queries;
#[cfg(feature = "ndarray")]
mod readme;
#[cfg(feature = "replay")]
mod recorder;
mod recording;
mod reference;
mod registry;
mod renamed_references;
mod runtime_ops;
#[path = "../support/skip.rs"]
mod skip;
mod static_library;
mod statistics;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod system_library;
#[cfg(feature = "trace")]
mod tracing;
mod typed_calls;
mod untrusted;
mod validating;
mod vmvx;

/// The device that the tests of `hal` use.
fn device() -> std::sync::Arc<dyn vireo::hal::Device> {
    vireo::hal::create_device("local-sync").expect("the synchronous device exists everywhere")
}
