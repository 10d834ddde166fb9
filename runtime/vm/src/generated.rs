//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Generated from `spec/isa/vm`.
pub mod vm {
    /// The handlers of the interpreter and their dispatch.
    pub mod interp {
        use crate::bytecode::*;
        use crate::status::Result;

        /// The names that handlers use. They are not imported above, because a family of ops is called `control`, too.
        mod prelude {
            pub(super) use super::Helpers;
            pub(super) use crate::bytecode::*;
            pub(super) use crate::interp::frame::{Frame, Operand};
            pub(super) use crate::interp::machine::Machine;
            pub(super) use crate::interp::ops::control::{self, Flow};
            pub(super) use crate::interp::prim::{self, Float, Int};
            pub(super) use crate::status::Result;
        }

        /// The names that the bodies of threaded instructions use: handlers, and what they are instantiated from.
        mod threaded_prelude {
            pub(super) use super::prelude::*;
            pub(super) use crate::interp::frame::carried_register::{narrow, wide};
            pub(super) use crate::interp::threaded::body::{HelperBody, HelperVisitor, OpBody, OpVisitor, TestBody};
            pub(super) use crate::interp::threaded::handler::{BranchHandlers, Handler};
            pub(super) use crate::interp::threaded::handlers::{branch_handlers, op};
            pub(super) use crate::interp::threaded::sequences::{EmittedOp, Step, steps, steps_and_branch_handlers};
        }

        include!(concat!(env!("OUT_DIR"), "/vm/interp.rs"));
    }

    /// The examples of primitives.
    #[cfg(test)]
    #[expect(clippy::approx_constant, reason = "the result of an example may be a mathematical constant")]
    mod primitive_tests {
        use crate::interp::prim::tests::{is, traps};
        use crate::interp::prim::{self, Float, Int};
        use crate::status::StatusCode;

        include!(concat!(env!("OUT_DIR"), "/vm/tests/primitives.rs"));
    }
}

/// Generated from `spec/abi`.
pub mod abi {
    /// Names of the types of references.
    pub mod refs {
        include!(concat!(env!("OUT_DIR"), "/abi/refs.rs"));
    }

    /// Arguments of the functions of programs that the runtime calls itself.
    pub mod callees {
        use crate::{Buffer, List, Obj};

        include!(concat!(env!("OUT_DIR"), "/abi/callees.rs"));
    }

    /// Export tables of the modules that a spec lists.
    pub mod modules {
        use crate::NativeExport;

        include!(concat!(env!("OUT_DIR"), "/abi/modules.rs"));
    }

    /// One typed shim for each calling convention of those modules.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a call does not match the convention, else the failure of the function.
    #[expect(non_snake_case, reason = "shims are named after their calling conventions")]
    #[expect(clippy::missing_errors_doc, reason = "all shims fail alike, as the documentation of the module says")]
    pub mod shims {
        // Paths of shims are those of the crate `vireo`, for which the macros emit shims as well.
        use crate::{self as vm, Result, abi};

        include!(concat!(env!("OUT_DIR"), "/abi/shims.rs"));
    }
}

/// Generated from `spec/names`.
pub mod names {
    /// Types of the elements of lists.
    pub mod list_elements {
        include!(concat!(env!("OUT_DIR"), "/names/list_elements.rs"));
    }
}
