//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of this crate without their
//! paths; each module imports them before its `include!`.

/// Encodings.
pub mod encodings {
    use crate::isa::{EncodingInfo, FieldInfo};

    include!(concat!(env!("OUT_DIR"), "/gfx/encodings.rs"));
}

/// Instructions.
pub mod instructions {
    use super::encodings::{Encoding, Slot};
    use crate::isa::{InstructionInfo, OperandType};

    include!(concat!(env!("OUT_DIR"), "/gfx/instructions.rs"));
}

/// Handlers.
pub mod interp {
    use crate::interp::lanes::{self, Exec};
    use crate::interp::memory::{self, Part, Space, Value};
    use crate::interp::prim::{self, F16};
    use crate::interp::wave::{Group, Wave};
    use crate::interp::{Handler, Next, control, helpers, scalar};
    use crate::program::Inst;

    include!(concat!(env!("OUT_DIR"), "/gfx/interp.rs"));

    /// The handlers that suit this processor, at the numbers of their instructions, and that of instructions with DPP.
    pub(crate) fn handlers() -> (&'static [Handler], Handler) {
        #[cfg(target_arch = "x86_64")]
        if is_fast() {
            return (&FAST, FAST_DPP);
        }
        (&ANY, lanes::with_dpp)
    }
}
