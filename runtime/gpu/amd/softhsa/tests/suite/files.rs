//! Code objects that are read from the descriptors of files.
#![cfg(unix)]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use vireo_hsa::hsa::*;

use crate::support::*;

/// A file that is removed when it is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, contents: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("softhsa-{}-{name}", std::process::id()));
        std::fs::write(&path, contents).expect("the file is written");
        Temporary(path)
    }

    fn open(&self) -> File {
        File::options().read(true).write(true).open(&self.0).expect("the file")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn reader(descriptor: i32) -> Result<CodeObjectReader, HsaStatus> {
    let mut reader = CodeObjectReader(0);
    match optional!(hsa_code_object_reader_create_from_file(descriptor, &raw mut reader)) {
        OK => Ok(reader),
        status => Err(status),
    }
}

/// Loads what a reader has read.
fn load(session: &Session, reader: CodeObjectReader) -> Result<(Executable, LoadedCodeObject), HsaStatus> {
    let (mut executable, mut loaded) = (Executable(0), LoadedCodeObject(0));
    let (profile, rounding, null) = (Profile::BASE, DefaultFloatRoundingMode::DEFAULT, std::ptr::null());
    assert_eq!(hsa!(hsa_executable_create_alt(profile, rounding, null, &raw mut executable)), OK);
    match hsa!(hsa_executable_load_agent_code_object(executable, session.gpu(), reader, null, &raw mut loaded)) {
        OK => Ok((executable, loaded)),
        status => Err(status),
    }
}

#[test]
fn a_file_is_read_from_its_beginning_and_stays_as_it_was() {
    let session = Session::new("");
    let temporary = Temporary::new("kernels with space.co", KERNELS);
    let mut file = temporary.open();
    file.seek(SeekFrom::Start(7)).expect("the file has a position");
    let reader = reader(file.as_raw_fd()).expect("a reader");
    assert_eq!(file.stream_position().expect("a position"), 7);
    // The reader has what the file was, and the descriptor is still that of the program.
    file.set_len(3).expect("the file shrinks");
    file.write_all(b"x").expect("the file is open");
    drop(file);
    let (executable, loaded) = load(&session, reader).expect("the code object is loaded");
    assert_eq!(hsa!(hsa_code_object_reader_destroy(reader)), OK);
    let mut symbol = ExecutableSymbol(0);
    let (name, any) = (STORE.as_ptr().cast(), std::ptr::null());
    assert_eq!(hsa!(hsa_executable_get_symbol_by_name(executable, name, any, &raw mut symbol)), OK);
    assert_ne!(loaded, LoadedCodeObject(0));
}

#[test]
fn what_is_no_file_with_a_code_object_is_an_error() {
    let session = Session::new("");
    let invalid = Err(HsaStatus::ERROR_INVALID_FILE);
    // Numbers that are no descriptors, an empty file, a folder, one end of a pipe, and a file that is far too long.
    for wrong in [-1, i32::MIN, i32::MAX, 1 << 20] {
        assert_eq!(reader(wrong), invalid, "{wrong}");
    }
    let empty = Temporary::new("empty", b"");
    assert_eq!(reader(empty.open().as_raw_fd()), invalid);
    let folder = File::open(std::env::temp_dir()).expect("a folder");
    assert_eq!(reader(folder.as_raw_fd()), invalid);
    let (end, _other) = std::io::pipe().expect("a pipe");
    assert_eq!(reader(end.as_raw_fd()), invalid);
    let sparse = empty.open();
    sparse.set_len(1 << 40).expect("a file without bytes");
    assert_eq!(reader(sparse.as_raw_fd()), invalid);
    let write_only = File::options().write(true).open(&empty.0).expect("a file");
    sparse.set_len(64).expect("the file is open");
    assert_eq!(reader(write_only.as_raw_fd()), invalid);
    // The contents of the file are looked at when it is loaded, as with memory.
    let text = Temporary::new("text", b"#!/bin/sh");
    let reader = reader(text.open().as_raw_fd()).expect("a reader");
    assert_eq!(load(&session, reader).map(|_| ()), Err(HsaStatus::ERROR_INVALID_CODE_OBJECT));
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error_or_what_it_was() {
    let _session = Session::new("");
    let temporary = Temporary::new("shrinks", b"");
    let file = temporary.open();
    let (stop, length) = (std::sync::atomic::AtomicBool::new(false), 4 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                file.set_len(length).expect("the file grows");
                file.set_len(1).expect("the file shrinks");
            }
        });
        for _ in 0..200 {
            match reader(file.as_raw_fd()) {
                Ok(reader) => assert_eq!(hsa!(hsa_code_object_reader_destroy(reader)), OK),
                Err(status) => assert_eq!(status, HsaStatus::ERROR_INVALID_FILE),
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn debuggers_find_the_file_by_its_uri() {
    let session = Session::new("");
    let temporary = Temporary::new("of uri\u{e9}.co", KERNELS);
    let (_, loaded) = load(&session, reader(temporary.open().as_raw_fd()).expect("a reader")).expect("it is loaded");
    let mut table: [Option<LoadedCodeObjectGetInfo>; 5] = [None; 5];
    let bytes = size_of_val(&table) as u64;
    let table_pointer = (&raw mut table).cast();
    let status = hsa!(hsa_system_get_major_extension_table(Extension::AMD_LOADER.0, 1, bytes, table_pointer));
    assert_eq!(status, OK);
    let get_info = table[4].expect("the last function of the table");
    let info = |attribute, value| {
        // SAFETY: the value is as long as the attribute.
        let status = unsafe { get_info(loaded, attribute, value) };
        assert_eq!(status, OK);
    };
    let mut length = 0u32;
    info(LoadedCodeObjectInfo::URI_LENGTH, (&raw mut length).cast());
    let mut uri = vec![0u8; length as usize];
    info(LoadedCodeObjectInfo::URI, uri.as_mut_ptr().cast());
    let uri = String::from_utf8(uri).expect("a URI is ASCII");
    let folder = std::env::temp_dir().canonicalize().expect("a folder");
    let expected = format!("file://{}/softhsa-{}-of%20uri%C3%A9.co", folder.display(), std::process::id());
    assert_eq!(uri, expected);
}
