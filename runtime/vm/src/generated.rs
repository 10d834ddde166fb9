//! The generated code of this crate: everything that the build script makes from `spec/` is included here, and only here.

/// Generated from `spec/vm`.
pub mod vm {
    /// The handlers of the interpreter and their dispatch.
    pub mod interp {
        include!(concat!(env!("OUT_DIR"), "/vm/interp.rs"));
    }

    /// The examples of primitives.
    #[cfg(test)]
    #[expect(clippy::approx_constant, reason = "what comes of an example may be a constant of mathematics")]
    mod primitive_tests {
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
        include!(concat!(env!("OUT_DIR"), "/abi/callees.rs"));
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

/// Generated from `spec/names`.
pub mod names {
    /// Types of the elements of lists.
    pub mod list_elements {
        include!(concat!(env!("OUT_DIR"), "/names/list_elements.rs"));
    }
}
