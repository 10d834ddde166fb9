//! The fuzz target of parameter archives: the readers of all formats. Seeds: the archives of `fixtures/parameters`. The first byte chooses the
//! format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vireo::io::{ArchiveFormat, Contents, ParameterIndex, ParameterStorage};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let formats = [ArchiveFormat::Irpa, ArchiveFormat::Gguf, ArchiveFormat::Safetensors];
    let format = formats[usize::from(*choice) % formats.len()];
    let contents = Contents::from_bytes("input", bytes).expect("inputs are small");
    let Ok(index) = ParameterIndex::read(format, &contents) else { return };
    for parameter in &index {
        // What is listed can be read, its ends at least.
        let ParameterStorage::Stored { offset, .. } = parameter.storage else { continue };
        for at in [0, parameter.length.saturating_sub(1)].into_iter().filter(|at| *at < parameter.length) {
            contents.read_at(offset + at, &mut [0]).expect("is inside of the file");
        }
    }
});
