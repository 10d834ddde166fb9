//! The work of the targets on an input. None of them runs machine code that comes from a file.

use std::cell::RefCell;
use std::io::{Cursor, Seek, SeekFrom, Write};
use std::sync::LazyLock;
use std::time::Duration;

use tempfile::NamedTempFile;
use vireo::asm::assemble;
use vireo::hal::BuiltinOptions;
use vireo::hal::local::{EmbeddedElfLoader, elf};
use vireo::inference::files::{CollectionFormat, TensorCollection, read_npy, write_npy};
use vireo::interp::Limits;
use vireo::io::{ArchiveFormat, Contents, ParameterIndex, ParameterStorage};
use vireo::profile::{self, OutputError, ReportFilter, ReportFormat, Summary};
use vireo::replay::{self, Examined, Expected, FileAccess, Plan, ReplayOptions, extract, salvage};
use vireo::vm::Module;
use vireo::vmfb::Archive;
use vireo::{MemoryBudget, SecurityPolicy};

use super::hosts::HOSTS;
use super::seeds;

#[path = "../../runtime/tests/support/exercise.rs"]
mod exercise;
#[path = "../../runtime/tests/support/programs.rs"]
mod programs;
#[path = "../../runtime/tests/support/texts.rs"]
mod texts;
#[path = "../../runtime/tests/support/ways.rs"]
mod ways;

/// Most bytes of a tensor in an input.
const MAX_TENSOR: u64 = 1 << 20;

static HELPERS: LazyLock<Vec<Module>> = LazyLock::new(|| {
    exercise::helpers(
        include_bytes!("../../fixtures/context/app.vmfb"),
        include_bytes!("../../fixtures/golden/provider.vmfb"),
    )
});

/// Parameter archives: the readers of all formats. The first byte chooses the format.
pub(super) fn archive(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let format: ArchiveFormat = seeds::ARCHIVES[usize::from(*choice) % seeds::ARCHIVES.len()].0;
    let contents = Contents::from_bytes("input", bytes).expect("inputs are small");
    let Ok(index) = ParameterIndex::read(format, &contents) else { return };
    let mut names = 0;
    for parameter in &index {
        names += parameter.key.len() + parameter.metadata.len();
        // A parameter that is listed can be read, its ends at least.
        let ParameterStorage::Stored { offset, .. } = parameter.storage else { continue };
        for at in [0, parameter.length.saturating_sub(1)].into_iter().filter(|at| *at < parameter.length) {
            contents.read_at(offset + at, &mut [0]).expect("is inside of the file");
        }
    }
    assert!(names <= (bytes.len() * 16).max(1 << 16), "{names} bytes of names in {} bytes", bytes.len());
}

/// Captures: they are read in every way, and replayed within limits, without files and with kernels in bytecode alone.
pub(super) fn replay(bytes: &[u8]) {
    let limits = Limits {
        timeout: Some(Duration::from_millis(200)),
        memory: Some(MemoryBudget::new(32 << 20)),
        ..Limits::default()
    };
    let open = || replay::Reader::new("input", Box::new(Cursor::new(bytes.to_vec())));
    let _ = salvage("input", Box::new(Cursor::new(bytes.to_vec())), Cursor::new(Vec::new()));
    let Ok(mut reader) = open() else { return };
    let _ = extract(&mut reader, &mut |_| Ok(()));
    let _ = Examined::read(&mut reader, limits.memory.as_ref());
    let Ok(mut expected) = Expected::read(&mut reader) else { return };
    let Ok(plan) = Plan::read(&mut reader, limits.memory.as_ref()) else { return };
    let policy = SecurityPolicy { limits: limits.clone(), ..SecurityPolicy::untrusted() };
    let registry = BuiltinOptions { policy, ..BuiltinOptions::default() }.registry();
    let devices = (0..plan.device_count().min(4)).map(|_| registry.create_device("local-sync").expect("there is one"));
    let devices: Vec<_> = devices.collect();
    let options = ReplayOptions { limits, files: FileAccess::None, ..ReplayOptions::default() };
    let _ = plan.run(&devices, &options, &mut expected);
}

/// The assembler: it refuses a text or writes a well-formed file, and a module that verifies is the same after a round
/// trip through text.
pub(super) fn assembler(bytes: &[u8]) {
    texts::round_trip(&String::from_utf8_lossy(bytes));
}

/// Files with several tensors: `.npz` and `.safetensors`. The first byte chooses the format.
pub(super) fn collection(bytes: &[u8]) {
    thread_local! {
        // They are read from files; each thread has one, which it writes again.
        static FILE: RefCell<NamedTempFile> = RefCell::new(NamedTempFile::new().expect("there is a folder for them"));
    }
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let (format, _) = CollectionFormat::ALL[usize::from(*choice) % CollectionFormat::ALL.len()];
    FILE.with_borrow_mut(|file| {
        let written = file.as_file().set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
        written.and_then(|_| file.write_all(bytes)).expect("there is space for inputs");
        let Ok(mut collection) = TensorCollection::open(format, file.path()) else { return };
        for name in collection.names().to_vec().iter().take(64) {
            let _ = collection.read(name, MAX_TENSOR);
        }
    });
}

/// Libraries of kernels: parsing and relocating them, on any host for each machine that the loader knows, and on x86-64
/// what is done with one for the host before any code of it runs.
pub(super) fn elf(bytes: &[u8]) {
    let anywhere = elf::relocated(bytes).map(drop);
    assert!(anywhere.is_err() || elf::infer_format(bytes).is_ok(), "what is relocated has a format");
    let loaded = EmbeddedElfLoader::check(bytes);
    assert!(loaded.is_err() || anywhere.is_ok(), "what is loaded can be relocated anywhere");
}

/// Function bodies: the input replaces the code of a module that has globals, rodata, types and imports of every kind,
/// so that every mutation reaches the reader, the verifier and, where they accept it, the interpreter. The first byte
/// chooses the module.
pub(super) fn function(bytes: &[u8]) {
    let Some((host, code)) = bytes.split_first() else { return };
    let mut file = HOSTS[usize::from(*host) % HOSTS.len()].clone();
    let archive = Archive::from_bytes(&file).expect("fixtures are modules");
    let start = archive.bytecode().as_ptr() as usize - archive.bytes().as_ptr() as usize;
    let length = archive.bytecode().len().min(code.len());
    drop(archive);
    file[start..start + length].copy_from_slice(&code[..length]);
    exercise::exercise(&file, &HELPERS);
}

/// Executables in portable bytecode: reader, verifier, sessions, microkernels, and kernels on memory of their own.
pub(super) fn kernel(bytes: &[u8]) {
    exercise::exercise_kernels(bytes);
}

/// Module files: reader, verifier, contexts, interpreter, `hal` module.
pub(super) fn module(bytes: &[u8]) {
    exercise::exercise(bytes, &HELPERS);
}

/// NumPy's arrays. One that is read and written is the same when it is read again.
pub(super) fn npy(bytes: &[u8]) {
    let Ok(tensor) = read_npy(&mut &bytes[..], MAX_TENSOR) else { return };
    let written = write_npy(&tensor).expect("what has been read can be written");
    let again = read_npy(&mut &written[..], MAX_TENSOR).expect("what has been written can be read");
    let parts = [&tensor, &again].map(|tensor| (tensor.shape(), tensor.element_type(), tensor.bytes()));
    assert!(parts[0] == parts[1], "{:?} {} is not {:?} {}", parts[0].0, parts[0].1, parts[1].0, parts[1].1);
}

/// Profiles: every report refuses a file or writes it out.
pub(super) fn profile(bytes: &[u8]) {
    type Filtered = fn(&mut profile::Reader, &ReportFilter, ReportFormat, &mut dyn Write) -> Result<(), OutputError>;
    let filtered: [Filtered; 6] =
        [profile::dispatch, profile::executable, profile::command, profile::queue, profile::counter, profile::memory];
    let Ok(mut reader) = profile::Reader::new("input", Box::new(Cursor::new(bytes.to_vec()))) else { return };
    let mut out = Vec::new();
    for format in [ReportFormat::Text, ReportFormat::Jsonl] {
        for report in filtered {
            for dispatch_events in [false, true] {
                let filter = ReportFilter { dispatch_events, ..ReportFilter::default() };
                let _ = report(&mut reader, &filter, format, &mut out);
                out.clear();
            }
        }
        for report in [profile::statistics, profile::cat] {
            reader.rewind();
            let _ = report(&mut reader, format, &mut out);
            out.clear();
        }
        reader.rewind();
        if let Ok(summary) = Summary::read(&mut reader) {
            summary.write(format, &mut out).expect("memory can be written");
        }
    }
    reader.rewind();
    let _ = profile::export(&mut reader, &mut out);
}

/// The JIT: the input is the sequence of decisions of the generator of random programs, so every input is a valid
/// program, and mutations change its behaviour. Both dispatchers of the interpreter and machine code must do the same.
pub(super) fn program(bytes: &[u8]) {
    let text = programs::program(&mut programs::Bytes(bytes), None);
    let module = assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    match ways::run_all_ways(&module) {
        Ok(Ok(_)) => {}
        Ok(Err(difference)) => panic!("{difference}\n{text}"),
        Err(status) => panic!("{status}\n{text}"),
    }
}
