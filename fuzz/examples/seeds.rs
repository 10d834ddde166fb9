//! Seeds the corpora of the fuzz targets from `fixtures/`: module files for `module`, their code for `function`, texts for `assembler`, parameter
//! archives for `archive`, executables in portable bytecode for `kernel`; and pseudorandom bytes for `program`.

use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};

use vireo::asm::disassemble;
use vireo::vm::Module;
use vireo::vmfb::Archive;

#[path = "../hosts.rs"]
mod hosts;

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for path in files(&root.join("../fixtures"))? {
        let name = path.iter().rev().take(2).map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("-");
        let mut save = |target: &str, name: &str, bytes: &[u8]| {
            let folder = root.join("corpus").join(target);
            fs::create_dir_all(&folder)?;
            count += 1;
            fs::write(folder.join(name), bytes)
        };
        let bytes = fs::read(&path)?;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("vmfb") => {
                save("module", &name, &bytes)?;
                let Ok(module) = Module::from_bytes(&bytes) else { continue };
                let Some(archive) = module.archive() else { continue };
                for segment in archive.rodata() {
                    let bytes =
                        archive.bytes().get(segment.range.clone()).filter(|bytes| Archive::from_bytes(bytes).is_ok());
                    if let Some(bytes) = bytes {
                        save("kernel", &format!("{name}-{}", segment.range.start), bytes)?;
                    }
                }
                save("assembler", &name, disassemble(archive, module.functions()).as_bytes())?;
            }
            // The first byte is the number of the format in the target's list.
            Some("irpa") => save("archive", &name, &[&[0], &bytes[..]].concat())?,
            Some("gguf") => save("archive", &name, &[&[1], &bytes[..]].concat())?,
            Some("safetensors") => save("archive", &name, &[&[2], &bytes[..]].concat())?,
            Some("vmasm") => save("assembler", &name, &bytes)?,
            _ => {}
        }
    }
    for (index, host) in hosts::HOSTS.iter().enumerate() {
        let archive = Archive::from_bytes(host).expect("the assembler writes modules");
        let folder = root.join("corpus/function");
        fs::create_dir_all(&folder)?;
        count += 1;
        fs::write(folder.join(index.to_string()), [&[index as u8], archive.bytecode()].concat())?;
    }
    let folder = root.join("corpus/program");
    fs::create_dir_all(&folder)?;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for length in (64..=4096).step_by(64) {
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        let bytes: Vec<u8> = (0..length).map(|_| byte()).collect();
        count += 1;
        fs::write(folder.join(length.to_string()), bytes)?;
    }
    println!("{count} seeds in {}", root.join("corpus").display());
    Ok(())
}

/// The files of a folder and of those inside it.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
