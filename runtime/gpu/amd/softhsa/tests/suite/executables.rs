//! Code objects: what is loaded, what programs can ask, and files that are wrong.

use std::ffi::c_void;

use vireo_hsa::hsa::*;

use crate::support::*;

fn symbol(executable: Executable, name: &std::ffi::CStr) -> Result<ExecutableSymbol, HsaStatus> {
    let mut symbol = ExecutableSymbol(0);
    let (name, agent) = (name.as_ptr().cast(), std::ptr::null());
    match hsa!(hsa_executable_get_symbol_by_name(executable, name, agent, &raw mut symbol)) {
        OK => Ok(symbol),
        status => Err(status),
    }
}

fn info<T: Default>(symbol: ExecutableSymbol, attribute: ExecutableSymbolInfo) -> Result<T, HsaStatus> {
    let mut value = T::default();
    match hsa!(hsa_executable_symbol_get_info(symbol, attribute, (&raw mut value).cast())) {
        OK => Ok(value),
        status => Err(status),
    }
}

#[test]
fn symbols_tell_about_kernels_and_variables() {
    let session = Session::new("agents=2");
    let (executable, object) = session.load(session.gpu());
    let kernel = symbol(executable, STORE).expect("the kernel");
    type Info = ExecutableSymbolInfo;
    assert_eq!(info(kernel, Info::TYPE), Ok(SymbolKind::KERNEL.0));
    assert_eq!(info(kernel, Info::KERNEL_KERNARG_SEGMENT_SIZE), Ok(16u32));
    assert_eq!(info(kernel, Info::KERNEL_KERNARG_SEGMENT_ALIGNMENT), Ok(8u32));
    assert_eq!(info(kernel, Info::KERNEL_GROUP_SEGMENT_SIZE), Ok(0u32));
    assert_eq!(info(kernel, Info::KERNEL_DYNAMIC_CALLSTACK), Ok(0u8));
    assert_eq!(info(kernel, Info::AGENT), Ok(session.gpu().0));
    assert_eq!(info::<u32>(kernel, Info::NAME_LENGTH), Ok(8));
    assert_eq!(info(kernel, Info::NAME), Ok(*b"store.kd"));
    assert_eq!(info::<u64>(kernel, Info::VARIABLE_ADDRESS), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
    assert_eq!(object % 64, 0);
    let variable = symbol(executable, c"counter").expect("the variable");
    assert_eq!(info(variable, Info::TYPE), Ok(SymbolKind::VARIABLE.0));
    assert_eq!(info(variable, Info::VARIABLE_SIZE), Ok(8u32));
    let address = info::<u64>(variable, Info::VARIABLE_ADDRESS).expect("an address");
    let pointer: *const u64 = std::ptr::with_exposed_provenance(address as usize);
    // SAFETY: the executable has the variable.
    assert_eq!(unsafe { pointer.read() }, 42);
    assert_eq!(symbol(executable, c"store"), Err(HsaStatus::ERROR_INVALID_SYMBOL_NAME), "code is no symbol");
    let other = [session.gpus()[1]];
    let mut found = ExecutableSymbol(0);
    let name = STORE.as_ptr().cast();
    let status = hsa!(hsa_executable_get_symbol_by_name(executable, name, other.as_ptr(), &raw mut found));
    assert_eq!(status, HsaStatus::ERROR_INVALID_SYMBOL_NAME, "it is not loaded for this agent");
    assert_eq!(hsa!(hsa_executable_destroy(executable)), OK);
    assert_eq!(info::<u32>(kernel, Info::TYPE), Err(HsaStatus::ERROR_INVALID_EXECUTABLE_SYMBOL));
}

#[test]
fn executables_are_frozen_once() {
    let session = Session::new("");
    let (executable, _) = session.load(session.gpu());
    assert_eq!(hsa!(hsa_executable_freeze(executable, std::ptr::null())), HsaStatus::ERROR_FROZEN_EXECUTABLE);
    let mut reader = CodeObjectReader(0);
    let (pointer, length) = (KERNELS.as_ptr().cast(), KERNELS.len() as u64);
    assert_eq!(hsa!(hsa_code_object_reader_create_from_memory(pointer, length, &raw mut reader)), OK);
    let (agent, null) = (session.gpu(), std::ptr::null());
    let load =
        |agent| hsa!(hsa_executable_load_agent_code_object(executable, agent, reader, null, std::ptr::null_mut()));
    assert_eq!(load(agent), HsaStatus::ERROR_FROZEN_EXECUTABLE);
    assert_eq!(load(session.cpu()), HsaStatus::ERROR_INVALID_AGENT);
    let mut result = 9;
    assert_eq!(optional!(hsa_executable_validate_alt(executable, null, &raw mut result)), OK);
    assert_eq!(result, 0);
}

#[test]
fn the_loader_extension_finds_code_objects() {
    unsafe extern "C" fn collect(_: Executable, object: LoadedCodeObject, data: *mut c_void) -> HsaStatus {
        // SAFETY: `data` is the vector below.
        unsafe { (*data.cast::<Vec<LoadedCodeObject>>()).push(object) };
        OK
    }
    #[repr(C)]
    struct Table(
        Option<QueryHostAddress>,
        Option<QuerySegmentDescriptors>,
        Option<QueryExecutable>,
        Option<ExecutableIterateLoadedCodeObjects>,
        Option<LoadedCodeObjectGetInfo>,
    );
    let session = Session::new("");
    let (executable, object) = session.load(session.gpu());
    let mut table = Table(None, None, None, None, None);
    let (size, out) = (size_of::<Table>() as u64, (&raw mut table).cast());
    assert_eq!(hsa!(hsa_system_get_major_extension_table(Extension::AMD_LOADER.0, 1, size, out)), OK);
    let Table(Some(host), Some(segments), Some(query), Some(iterate), Some(get_info)) = table else {
        panic!("the table is full");
    };
    let mut objects: Vec<LoadedCodeObject> = Vec::new();
    let descriptor: *const c_void = std::ptr::with_exposed_provenance(object as usize);
    let (mut address, mut owner, mut count, mut base) = (std::ptr::null(), Executable(0), 0u64, 0u64);
    // SAFETY: the functions are those of the extension, and all pointers are to values here.
    unsafe {
        assert_eq!(iterate(executable, Some(collect), (&raw mut objects).cast()), OK);
        assert_eq!(get_info(objects[0], LoadedCodeObjectInfo::LOAD_BASE, (&raw mut base).cast()), OK);
        assert_eq!(query(descriptor, &raw mut owner), OK);
        assert_eq!(host(descriptor, &raw mut address), OK);
        assert_eq!(segments(std::ptr::null_mut(), &raw mut count), OK);
        assert_eq!(query(std::ptr::null(), &raw mut owner), HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    assert_eq!((objects.len(), owner, count), (1, executable, 4));
    assert_eq!(address.addr() - KERNELS.as_ptr().addr(), (object - base) as usize);
    let mut all = vec![SegmentDescriptor::default(); 4];
    // SAFETY: the functions are those of the extension, and all pointers are to values here; the array has as many
    // elements as the function says.
    assert_eq!(unsafe { segments(all.as_mut_ptr(), &raw mut count) }, OK);
    assert_eq!(all[0].code_object_storage_base, KERNELS.as_ptr().addr() as u64);
}

#[test]
fn wrong_code_objects_are_refused() {
    let session = Session::new("");
    let wrong = Err(HsaStatus::ERROR_INVALID_CODE_OBJECT);
    assert_eq!(load(session.gpu(), &KERNELS[..63]), wrong);
    let changed = |at: usize, byte: u8| {
        let mut bytes = KERNELS.to_vec();
        bytes[at] = byte;
        load(session.gpu(), &bytes).map(|_| ())
    };
    // Magic number, class, byte order, operating system, version of the ABI, machine, and processor.
    for (at, byte) in [(0, 0), (4, 1), (5, 2), (7, 0), (8, 9), (18, 62), (48, 0x4c)] {
        assert_eq!(changed(at, byte), Err(HsaStatus::ERROR_INVALID_CODE_OBJECT), "byte {at}");
    }
    for length in (0..KERNELS.len()).step_by(13) {
        // Sections follow what is loaded, so a file without them may be whole.
        let _ = if length == 0 { wrong } else { load(session.gpu(), &KERNELS[..length]) };
    }
}

#[test]
fn code_has_no_bytes_that_the_file_lacks() {
    let session = Session::new("");
    let word = |at: usize| u64::from_le_bytes(*KERNELS[at..].first_chunk().expect("a word"));
    // The offset of the program headers, of 56 bytes each, and their number.
    let (headers, count) = (word(32) as usize, usize::from(KERNELS[56]));
    let flags = |at: usize| KERNELS[at + 4];
    let code = (0..count).map(|index| headers + 56 * index).find(|at| KERNELS[*at] == 1 && flags(*at) & 1 != 0);
    let length = code.expect("there is code") + 40;
    let mut bytes = KERNELS.to_vec();
    bytes[length..length + 8].copy_from_slice(&(word(length) + 4).to_le_bytes());
    assert_eq!(load(session.gpu(), &bytes), Err(HsaStatus::ERROR_INVALID_CODE_OBJECT));
}

#[test]
fn no_changed_byte_of_a_code_object_is_a_crash() {
    let session = Session::new("");
    let mut refused = 0;
    let end = KERNELS.len().min(0x600);
    for at in 0..end {
        for byte in [0, 0xff, KERNELS[at] ^ 0x80] {
            let mut bytes = KERNELS.to_vec();
            bytes[at] = byte;
            match load(session.gpu(), &bytes) {
                Ok(executable) => assert_eq!(hsa!(hsa_executable_destroy(executable)), OK),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 300, "{refused} of {} are refused", 3 * end);
}

#[test]
fn code_is_for_one_processor() {
    let session = Session::new("isa=gfx1201");
    assert_eq!(load(session.gpu(), KERNELS), Err(HsaStatus::ERROR_INVALID_CODE_OBJECT));
}
