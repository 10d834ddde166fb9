//! Libraries that the system's loader opens.

use std::sync::Arc;

use vireo::hal::local::{NoImports, SystemLibraryLoader};
use vireo::hal::*;
use vireo::{Result, StatusCode};

use crate::machine::{MACHINE, OTHER, library};

const FORMAT: &str = if cfg!(target_arch = "aarch64") { "system-elf-arm_64" } else { "system-elf-x86_64" };

fn fixture() -> Vec<u8> {
    std::fs::read(library("system")).expect("a fixture")
}

fn load(bytes: &[u8]) -> Result<Arc<dyn Executable>> {
    SystemLibraryLoader::new(Arc::new(NoImports)).load(ExecutableCachingMode::empty(), FORMAT, bytes, &[])
}

#[test]
fn a_library_is_loaded_and_runs() {
    let executable = load(&fixture()).unwrap();
    let names: Vec<String> = (0..executable.function_count())
        .map(|index| executable.function_info(ExecutableFunction(index.into())).unwrap().name)
        .collect();
    assert_eq!(names, ["add_dispatch_0_elementwise_64_f32"]);
    let device = create_device("local-sync").unwrap();
    let buffer = |value: f32| {
        let bytes: Vec<u8> = std::iter::repeat_n(value.to_le_bytes(), 64).flatten().collect();
        buffer_from_bytes(&*device, &bytes).unwrap()
    };
    let buffers = [buffer(1.5), buffer(2.0), buffer(0.0)];
    let bindings = buffers.each_ref().map(|buffer| BufferRef {
        buffer: Some(buffer.clone()),
        slot: 0,
        offset: 0,
        length: WHOLE_BUFFER,
    });
    let config = DispatchConfig {
        workgroup_size: [1; 3],
        workgroup_count: [1; 3],
        workgroup_count_ref: BufferRef { buffer: None, slot: 0, offset: 0, length: 0 },
        dynamic_workgroup_local_memory: 0,
    };
    let function = executable.lookup_function(&names[0]).unwrap();
    device
        .queue_dispatch(
            QueueAffinity::ANY,
            &[],
            &[],
            &executable,
            function,
            &config,
            &[],
            &bindings,
            DispatchFlags::empty(),
        )
        .unwrap();
    assert_eq!(buffer_to_vec(&*buffers[2], 256).unwrap(), buffer_to_vec(&*buffer(3.5), 256).unwrap());
}

#[test]
fn files_are_gone_whatever_happens() {
    let folder = tempfile::tempdir().unwrap();
    let loader = SystemLibraryLoader::new(Arc::new(NoImports)).with_folder(folder.path());
    let load = |bytes: &[u8]| loader.load(ExecutableCachingMode::empty(), FORMAT, bytes, &[]);
    let _executable = load(&fixture()).unwrap();
    // A library without the function to ask: the string table has no such name any more.
    let mut bytes = fixture();
    let name = b"iree_hal_executable_library_query\0";
    let places: Vec<usize> = (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
    for at in places {
        bytes[at] = b'x';
    }
    let error = load(&bytes).unwrap_err();
    assert_eq!(error.code(), StatusCode::FailedPrecondition);
    assert!(error.to_string().contains("does not export `iree_hal_executable_library_query`"), "{error}");
    // One that the system refuses: its table of symbols is nowhere.
    let mut bytes = fixture();
    let (segments, count) = (64, usize::from(bytes[56]));
    let dynamic = (0..count).map(|index| segments + 56 * index).find(|at| bytes[*at] == 2).unwrap();
    bytes[dynamic] = 0x6E;
    assert_eq!(load(&bytes).unwrap_err().code(), StatusCode::FailedPrecondition);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let nowhere = SystemLibraryLoader::new(Arc::new(NoImports)).with_folder(&folder.path().join("missing"));
    let error = nowhere.load(ExecutableCachingMode::empty(), FORMAT, &fixture(), &[]).unwrap_err();
    assert!(error.code() == StatusCode::Unavailable && error.to_string().contains("cannot create"), "{error}");
}

#[test]
fn files_are_checked_before_they_are_opened() {
    let bytes = fixture();
    for (length, message) in
        [(0, "the magic number"), (10, "the file header"), (100, "a program header"), (0x2000, "a segment")]
    {
        let error = load(&bytes[..length]).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    let mut wrong = bytes.clone();
    wrong[18] = OTHER.1;
    assert!(load(&wrong).unwrap_err().to_string().contains(&format!("machine {}", OTHER.0)));
    let mut executable = bytes.clone();
    executable[16] = 2;
    assert!(load(&executable).unwrap_err().to_string().contains("3 (shared object)"));
}

#[test]
fn a_debug_database_may_follow() {
    let with_footer = |size: u64| {
        let mut bytes = fixture();
        let length = bytes.len() as u64;
        bytes.extend(*b"database");
        bytes.extend(*b"IREEDBG\0");
        bytes.extend([0; 8]);
        [0, size, length, 8].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    };
    load(&with_footer(fixture().len() as u64)).unwrap();
    for size in [1 << 40, u64::MAX] {
        assert_eq!(load(&with_footer(size)).unwrap_err().code(), StatusCode::OutOfRange);
    }
}

#[test]
fn formats_are_told_apart() {
    let loader = SystemLibraryLoader::new(Arc::new(NoImports));
    let mode = ExecutableCachingMode::empty();
    assert!(loader.supports(mode, FORMAT));
    let [embedded, other] = [format!("embedded-elf-{MACHINE}"), format!("system-elf-{}", OTHER.0)];
    assert!(!loader.supports(mode, &embedded) && !loader.supports(mode, &other));
    assert_eq!(loader.infer_format(mode, &fixture()).unwrap(), FORMAT);
}
