//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// The examples of every op as tests.
#[cfg(test)]
mod op_tests {
    use crate::op_tests::*;

    include!(concat!(env!("OUT_DIR"), "/vm/op_tests.rs"));
}
