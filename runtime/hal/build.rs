//! Generates what follows from `spec/` for this crate; `src/generated.rs` includes it.

fn main() {
    vireo_codegen::build::generate(
        vireo_spec::FILES,
        &[
            "hal/types",
            "hal/arguments",
            "names/executable_formats",
            "names/queries",
            "hal/traits",
            "hal/operations",
            "hal/owned_operations",
            "hal/forward",
            "hal/executable_library",
            "hal/executable_plugin",
            "hal/cpu_features",
            "hal/elf",
            "hal/vmvx",
        ],
    );
}
