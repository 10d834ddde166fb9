//! Runs a model that an older release of the compiler wrote, and shows what is said of files that are too old or too
//! new.
//!
//! ```text
//! cargo run --package vireo-sessions --bin old_artifact -- fixtures/old/3.1/abs.vmvx.vmfb
//! ```

use vireo::vm::Module;
use vireo::{Result, Session, Status, StatusCode, inputs};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "fixtures/old/3.1/abs.vmvx.vmfb".into());
    let file = std::fs::read(&path).map_err(|error| Status::not_found(path.clone()).with_source(error))?;
    let module = Module::from_bytes(&file)?;
    let archive = module.archive().ok_or_else(|| Status::invalid_argument("not a module file"))?;
    let (major, minor) = archive.bytecode_version();
    println!("{path}: bytecode {major}.{minor}, written by {}", archive.compiler_releases());

    // It is called like any other.
    let session = Session::builder().device("local-sync").build(module.clone())?.session()?;
    let y: f32 = session.call("abs", inputs![-2.5f32])?.get()?;
    println!("abs(-2.5) = {y}");

    // Files of releases that came before and after those that are supported. The code tells a program that the model
    // has to be compiled again.
    for other in [major - 1, major + 3] {
        let error = Module::from_bytes(&of_version(&file, major, other)).expect_err("no release of it is supported");
        assert_eq!(error.code(), StatusCode::Incompatible);
        println!("bytecode {other}.0: {error}");
    }
    Ok(())
}

/// The file with another version of its bytecode: the one word that has the old version in its upper half, and zero in
/// the lower one.
fn of_version(file: &[u8], old: u32, new: u32) -> Vec<u8> {
    let is_version = |word: &&mut [u8]| **word == (old << 16).to_le_bytes();
    let mut file = file.to_vec();
    if let Some(word) = file.chunks_exact_mut(4).find(is_version) {
        word.copy_from_slice(&(new << 16).to_le_bytes());
    }
    file
}
