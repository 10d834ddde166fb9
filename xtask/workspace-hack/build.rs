//! Does nothing; packages need a build script for Cargo to look at their build dependencies.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
