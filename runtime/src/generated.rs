//! The fence: everything that the build script generates from `spec/` enters the crate here, and only here.

/// Generated from `spec/vm`.
pub mod vm {
    /// Opcode numbers, mnemonics and sets.
    pub mod opcode {
        include!(concat!(env!("OUT_DIR"), "/vm/opcode.rs"));
    }

    /// The decoded op and its decoder.
    pub mod decode {
        include!(concat!(env!("OUT_DIR"), "/vm/decode.rs"));
    }

    /// The walk over the operands of a decoded op.
    pub mod verify {
        include!(concat!(env!("OUT_DIR"), "/vm/verify.rs"));
    }

    /// The handlers of the interpreter and their dispatch.
    pub(crate) mod interp {
        include!(concat!(env!("OUT_DIR"), "/vm/interp.rs"));
    }

    /// The nodes that the JIT makes of a decoded op.
    #[cfg(jit)]
    pub(crate) mod jit {
        include!(concat!(env!("OUT_DIR"), "/vm/jit.rs"));
    }

    /// The primitives that the JIT has machine code for.
    #[cfg(jit)]
    pub(crate) mod primitive {
        include!(concat!(env!("OUT_DIR"), "/vm/primitive.rs"));
    }

    /// The examples of every op as tests.
    #[cfg(test)]
    mod op_tests {
        include!(concat!(env!("OUT_DIR"), "/vm/op_tests.rs"));
    }

    /// The text form of a decoded op.
    pub mod disasm {
        include!(concat!(env!("OUT_DIR"), "/vm/disasm.rs"));
    }

    /// The text form of an op, read.
    pub(crate) mod asm {
        include!(concat!(env!("OUT_DIR"), "/vm/asm.rs"));
    }
}

/// Generated from `spec/abi`.
pub mod abi {
    /// The codes of errors.
    pub mod status {
        include!(concat!(env!("OUT_DIR"), "/abi/status.rs"));
    }

    /// The letters of calling conventions.
    pub mod letters {
        include!(concat!(env!("OUT_DIR"), "/abi/letters.rs"));
    }

    /// The names of reference types.
    pub mod refs {
        include!(concat!(env!("OUT_DIR"), "/abi/refs.rs"));
    }

    /// Export tables of the modules that a spec lists.
    pub mod modules {
        include!(concat!(env!("OUT_DIR"), "/abi/modules.rs"));
    }

    /// One typed shim for each calling convention of those modules.
    #[expect(non_snake_case, reason = "shims are named after their calling conventions")]
    pub mod shims {
        include!(concat!(env!("OUT_DIR"), "/abi/shims.rs"));
    }
}

/// Generated from `spec/hal`.
pub mod hal {
    /// Numbers and structs that HAL objects exchange.
    pub mod types {
        include!(concat!(env!("OUT_DIR"), "/hal/types.rs"));
    }

    /// The objects as traits.
    pub mod traits {
        include!(concat!(env!("OUT_DIR"), "/hal/traits.rs"));
    }

    /// The objects as vtables for other libraries, and the structs they exchange.
    #[expect(clippy::type_complexity, reason = "slots have the arguments of their methods")]
    pub mod vtables {
        include!(concat!(env!("OUT_DIR"), "/hal/vtables.rs"));
    }

    /// Objects of this library for others.
    mod exports {
        include!(concat!(env!("OUT_DIR"), "/hal/exports.rs"));
    }

    /// Objects of other libraries.
    mod imports {
        include!(concat!(env!("OUT_DIR"), "/hal/imports.rs"));
    }

    /// The parts of ELF that the loader reads.
    pub mod elf {
        include!(concat!(env!("OUT_DIR"), "/hal/elf.rs"));
    }

    /// What kernels share with the runtime.
    pub mod executable_library {
        include!(concat!(env!("OUT_DIR"), "/hal/executable_library.rs"));
    }

    /// What libraries of functions for kernels share with the runtime.
    pub mod executable_plugin {
        include!(concat!(env!("OUT_DIR"), "/hal/executable_plugin.rs"));
    }

    /// Processor features.
    pub mod cpu_features {
        include!(concat!(env!("OUT_DIR"), "/hal/cpu_features.rs"));
    }

    /// Executables in portable bytecode.
    pub mod vmvx {
        include!(concat!(env!("OUT_DIR"), "/hal/vmvx.rs"));
    }
}

/// Generated from `spec/schema`.
pub mod schema {
    /// The FlatBuffer of a module.
    pub mod bytecode_module_def {
        include!(concat!(env!("OUT_DIR"), "/schema/bytecode_module_def.rs"));
    }

    /// Tables that executables of the GPU targets share.
    pub mod executable_debug_info {
        include!(concat!(env!("OUT_DIR"), "/schema/executable_debug_info.rs"));
    }

    /// What stands around the FlatBuffer in a module file.
    pub mod module_file {
        include!(concat!(env!("OUT_DIR"), "/schema/module_file.rs"));
    }

    /// IREE parameter archives.
    pub mod irpa {
        include!(concat!(env!("OUT_DIR"), "/schema/irpa.rs"));
    }

    /// GGUF files.
    pub mod gguf {
        include!(concat!(env!("OUT_DIR"), "/schema/gguf.rs"));
    }

    /// Safetensors files.
    pub mod safetensors {
        include!(concat!(env!("OUT_DIR"), "/schema/safetensors.rs"));
    }

    /// The tables by which programs name parameters.
    pub mod parameter_tables {
        include!(concat!(env!("OUT_DIR"), "/schema/parameter_tables.rs"));
    }
}

/// Generated from `spec/names`.
pub mod names {
    /// What devices are asked for.
    pub mod queries {
        include!(concat!(env!("OUT_DIR"), "/names/queries.rs"));
    }

    /// What compilers write about functions.
    pub mod reflection {
        include!(concat!(env!("OUT_DIR"), "/names/reflection.rs"));
    }

    /// The words of VM assembly.
    pub mod assembly {
        include!(concat!(env!("OUT_DIR"), "/names/assembly.rs"));
    }

    /// What lists hold.
    pub mod list_elements {
        include!(concat!(env!("OUT_DIR"), "/names/list_elements.rs"));
    }
}

/// Generated from `spec/amdgpu`.
pub mod amdgpu {
    /// Blocks and records of command buffers.
    pub mod command_buffer {
        include!(concat!(env!("OUT_DIR"), "/amdgpu/command_buffer.rs"));
    }

    /// Types of the HSA library.
    pub mod hsa {
        include!(concat!(env!("OUT_DIR"), "/amdgpu/hsa.rs"));
    }

    /// Functions of the HSA library.
    pub mod hsa_symbols {
        include!(concat!(env!("OUT_DIR"), "/amdgpu/hsa_symbols.rs"));
    }

    /// Implicit arguments of kernels.
    pub mod kernarg {
        include!(concat!(env!("OUT_DIR"), "/amdgpu/kernarg.rs"));
    }

    /// The descriptor of a kernel.
    pub mod kernel_descriptor {
        include!(concat!(env!("OUT_DIR"), "/amdgpu/kernel_descriptor.rs"));
    }

    /// Packets of queues.
    pub mod packet {
        include!(concat!(env!("OUT_DIR"), "/amdgpu/packet.rs"));
    }

    /// Commands of indirect buffers.
    pub mod pm4 {
        include!(concat!(env!("OUT_DIR"), "/amdgpu/pm4.rs"));
    }

    /// Queues.
    pub mod queue {
        include!(concat!(env!("OUT_DIR"), "/amdgpu/queue.rs"));
    }

    /// Signals.
    pub mod signal {
        include!(concat!(env!("OUT_DIR"), "/amdgpu/signal.rs"));
    }
}
