//! No code. Cargo compiles a dependency with the features that the packages it was asked for need, so each choice of
//! `-p` used to build its own variants of the same dependencies, and of everything above them. Members depend on this
//! package for their tests, which makes the features of all of them the same; `cargo xtask features` tells where they
//! are not.
