//! The build script: generates the code that `src/generated.rs` includes from `spec/`.

fn main() {
    let prefixes = [
        "vm/opcode",
        "vm/decode",
        "vm/verify",
        "vm/disasm",
        "vm/asm",
        "abi/letters",
        "hal/element_texts",
        "names/assembly",
        "names/reflection",
        "schema/bytecode_module_def",
        "schema/executable_debug_info",
        "schema/module_file",
    ];
    vireo_codegen::build::generate(vireo_spec::FILES, &prefixes);
}
