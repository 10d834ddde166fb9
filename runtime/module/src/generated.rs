//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Generated from `spec/isa/vm`.
pub mod vm {
    /// Opcode numbers, mnemonics and sets.
    pub mod opcode {
        include!(concat!(env!("OUT_DIR"), "/vm/opcode.rs"));
    }

    /// The decoded op and its decoder.
    pub mod decode {
        use crate::bytecode::*;

        include!(concat!(env!("OUT_DIR"), "/vm/decode.rs"));
    }

    /// The visitor of the operands of a decoded op.
    pub mod verify {
        use crate::bytecode::*;
        use crate::convention::Kind;

        include!(concat!(env!("OUT_DIR"), "/vm/verify.rs"));
    }

    /// Printing of decoded ops.
    pub mod disasm {
        use crate::bytecode::*;

        include!(concat!(env!("OUT_DIR"), "/vm/disasm.rs"));
    }

    /// Parsing of the text of ops.
    pub mod asm {
        use crate::asm::{AsmError, AsmOp, CodeWriter, ListKind, Statement};
        use crate::bytecode::opcode;

        include!(concat!(env!("OUT_DIR"), "/vm/asm.rs"));
    }
}

/// Generated from `spec/abi`.
pub mod abi {
    /// The letters of calling conventions.
    pub mod letters {
        include!(concat!(env!("OUT_DIR"), "/abi/letters.rs"));
    }
}

/// Generated from `spec/schema`.
pub mod schema {
    /// The FlatBuffer of a module.
    pub mod bytecode_module_def {
        use crate::vmfb::flatbuffer::visit_union_vector;

        include!(concat!(env!("OUT_DIR"), "/schema/bytecode_module_def.rs"));
    }

    /// Tables that executables of the GPU targets share.
    pub mod executable_debug_info {
        include!(concat!(env!("OUT_DIR"), "/schema/executable_debug_info.rs"));
    }

    /// The headers around the FlatBuffer in a module file.
    pub mod module_file {
        include!(concat!(env!("OUT_DIR"), "/schema/module_file.rs"));
    }
}

/// Generated from `spec/hal`.
pub mod hal {
    /// The texts of element types.
    pub mod element_texts {
        include!(concat!(env!("OUT_DIR"), "/hal/element_texts.rs"));
    }
}

/// Generated from `spec/names`.
pub mod names {
    /// Words of the assembler.
    pub mod assembly {
        include!(concat!(env!("OUT_DIR"), "/names/assembly.rs"));
    }

    /// Reflection attributes, which compilers attach to functions.
    pub mod reflection {
        include!(concat!(env!("OUT_DIR"), "/names/reflection.rs"));
    }
}
