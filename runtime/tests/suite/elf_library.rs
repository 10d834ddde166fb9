//! Libraries that the compiler does not write, byte by byte: every relocation type, initialisers, imports, failing
//! kernels, and metadata that must be refused.
use std::ffi::c_void;
use std::sync::Arc;

use super::library::{Kernel, Library, SCRATCH, SCRATCH_SYMBOL, kind, lea};
use vireo::hal::local::{EmbeddedElfLoader, Import, ImportProvider, NoImports};
use vireo::hal::*;
use vireo::{Result, StatusCode};

use crate::skip::{Need, skipped};

fn load(library: &Library) -> Result<Arc<dyn Executable>> {
    load_with(library, Arc::new(NoImports), &[])
}

fn load_with(library: &Library, imports: Arc<dyn ImportProvider>, constants: &[u32]) -> Result<Arc<dyn Executable>> {
    let loader = EmbeddedElfLoader::new(imports);
    loader.load(ExecutableCachingMode::empty(), "embedded-elf-x86_64", &library.write(), constants)
}

/// Runs the first kernel over a grid with one binding of `words` words and returns them.
fn run(executable: &Arc<dyn Executable>, grid: [u32; 3], words: usize, extra_local_memory: u32) -> Result<Vec<u32>> {
    let device = create_device("local-sync")?;
    let buffer = device.allocator().allocate_buffer(BufferParams::default(), words as u64 * 4)?;
    let binding = BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER };
    let config = DispatchConfig {
        workgroup_size: [1; 3],
        workgroup_count: grid,
        workgroup_count_ref: BufferRef { buffer: None, slot: 0, offset: 0, length: 0 },
        dynamic_workgroup_local_memory: extra_local_memory,
    };
    let function = ExecutableFunction(0);
    let flags = DispatchFlags::empty();
    device.queue_dispatch(QueueAffinity::ANY, &[], &[], executable, function, &config, &[], &[binding], flags)?;
    let mut bytes = vec![0; words * 4];
    buffer_read(&*buffer, 0, &mut bytes)?;
    Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
}

/// Copies 64 bytes from the scratch words to the binding.
fn copy_scratch() -> Kernel {
    let address = Library::kernel_address(0);
    let mut code = vec![0x48, 0x8B, 0x7E, 0x20]; // mov rdi, [rsi + 32]
    code.extend([0x48, 0x8B, 0x3F]); // mov rdi, [rdi]
    code.extend(lea(address + code.len(), 0x35, SCRATCH)); // lea rsi, [scratch]
    code.extend([0xB9, 64, 0, 0, 0, 0xF3, 0xA4]); // mov ecx, 64; rep movsb
    code.extend([0x31, 0xC0, 0xC3]); // xor eax, eax; ret
    Kernel::new("copy_scratch", 1, &code)
}

fn scratch_words(library: &Library) -> Vec<u64> {
    let words = run(&load(library).unwrap(), [1, 1, 1], 16, 0).unwrap();
    words.chunks_exact(2).map(|pair| u64::from(pair[1]) << 32 | u64::from(pair[0])).collect()
}

#[test]
fn every_relocation_type_is_applied() {
    let at = |index: usize| SCRATCH + 8 * index;
    let library = Library {
        kernels: vec![copy_scratch()],
        relocations: vec![
            (at(0), kind::RELATIVE, 0, 0x1234),
            (at(1), kind::ABS64, SCRATCH_SYMBOL, -16),
            (at(2), kind::GLOB_DAT, SCRATCH_SYMBOL, 99),
            (at(3), kind::COPY, SCRATCH_SYMBOL, 99),
            (at(4), kind::PC32, SCRATCH_SYMBOL, 5),
            (at(5), kind::NONE, 77, 99),
            (at(6), kind::JUMP_SLOT, SCRATCH_SYMBOL, 99),
        ],
        plt_relocations: 1,
        ..Library::default()
    };
    let words = scratch_words(&library);
    let base = words[0] - 0x1234;
    let symbol = base + SCRATCH as u64;
    assert_eq!(base % 4096, 0);
    assert_eq!(words[1..7], [symbol - 16, symbol, symbol, u64::from(5u32.wrapping_sub(32)), 0, symbol]);
}

#[test]
fn relocations_are_checked() {
    let refused = |relocation, message: &str| {
        let library = Library { kernels: vec![copy_scratch()], relocations: vec![relocation], ..Library::default() };
        let error = load(&library).unwrap_err();
        assert!(error.message().contains(message), "{error}");
        error.code()
    };
    // Images are mapped far above what 32 bits reach.
    refused((SCRATCH, kind::ABS32, SCRATCH_SYMBOL, 0), "ELF relocation 32 at address 0x2500");
    refused((SCRATCH, kind::ABS32S, SCRATCH_SYMBOL, 0), "ELF relocation 32s at address 0x2500");
    refused((SCRATCH, kind::PC32, SCRATCH_SYMBOL, 1 << 40), "does not fit 32 bits");
    refused((0x2ffc, kind::ABS64, SCRATCH_SYMBOL, 0), "ELF at address 0x2ffc: the place of a relocation of 8 bytes");
    refused((usize::MAX, kind::RELATIVE, 0, 0), "the place of a relocation");
    refused((SCRATCH, kind::ABS64, 3, 0), "symbol of a relocation is 0x3");
    let code = refused((SCRATCH, 37, 0, 0), "relocation type 37 is not supported");
    assert_eq!(code, StatusCode::Unimplemented);
}

#[test]
fn initialisers_run_in_order() {
    // Each makes scratch = scratch * 2 + n.
    let initializer = |index: usize| {
        let address = Library::initializer_address(index);
        let mut code = lea(address, 0x05, SCRATCH); // lea rax, [scratch]
        code.extend([0x8B, 0x08, 0x01, 0xC9]); // mov ecx, [rax]; add ecx, ecx
        code.extend([0x83, 0xC1, index as u8 + 1]); // add ecx, n
        code.extend([0x89, 0x08, 0xC3]); // mov [rax], ecx; ret
        code
    };
    let library = Library {
        kernels: vec![copy_scratch()],
        initializers: (0..3).map(initializer).collect(),
        ..Library::default()
    };
    assert_eq!(scratch_words(&library)[0], 11);
    let mut outside = library.clone();
    // The first entry of the array becomes the address of data.
    outside.relocations = vec![(0x2600, kind::RELATIVE, 0, SCRATCH as i64)];
    let error = load(&outside).unwrap_err();
    assert!(error.message().contains("an initialiser"), "{error}");
}

#[test]
fn grids_run_every_workgroup() {
    // Counts workgroups by x + 2 * y.
    let count = [
        0x48, 0x8B, 0x46, 0x20, // mov rax, [rsi + 32]
        0x48, 0x8B, 0x00, // mov rax, [rax]
        0x8B, 0x0A, // mov ecx, [rdx]
        0x44, 0x8B, 0x42, 0x04, // mov r8d, [rdx + 4]
        0x42, 0x8D, 0x0C, 0x41, // lea ecx, [rcx + r8 * 2]
        0x83, 0x04, 0x88, 0x01, // add dword [rax + rcx * 4], 1
        0x31, 0xC0, 0xC3, // xor eax, eax; ret
    ];
    let library = Library { kernels: vec![Kernel::new("count", 1, &count)], ..Library::default() };
    let executable = load(&library).unwrap();
    assert_eq!(run(&executable, [2, 3, 5], 6, 0).unwrap(), [5; 6]);
    assert_eq!(run(&executable, [2, 0, 5], 6, 0).unwrap(), [0; 6]);
}

#[test]
fn workgroups_get_local_memory() {
    let touch = [
        0x48, 0x8B, 0x46, 0x20, // mov rax, [rsi + 32]
        0x48, 0x8B, 0x00, // mov rax, [rax]
        0x8B, 0x4A, 0x18, // mov ecx, [rdx + 24]
        0x89, 0x08, // mov [rax], ecx
        0x4C, 0x8B, 0x42, 0x10, // mov r8, [rdx + 16]
        0x41, 0xC6, 0x44, 0x08, 0xFF, 0x01, // mov byte [r8 + rcx - 1], 1
        0x31, 0xC0, 0xC3, // xor eax, eax; ret
    ];
    let kernel = Kernel { local_memory_pages: 2, ..Kernel::new("touch", 1, &touch) };
    let executable = load(&Library { kernels: vec![kernel], ..Library::default() }).unwrap();
    assert_eq!(run(&executable, [1, 1, 1], 1, 100).unwrap(), [2 * 4096 + 100]);
}

#[test]
fn failing_kernels_are_named() {
    let fail = [0x31, 0xC0, 0x83, 0x3A, 0x02, 0x0F, 0x94, 0xC0, 0xC3]; // xor eax, eax; cmp [rdx], 2; sete al; ret
    let executable = load(&Library { kernels: vec![Kernel::new("fail", 1, &fail)], ..Library::default() }).unwrap();
    run(&executable, [2, 1, 1], 1, 0).unwrap();
    let error = run(&executable, [4, 1, 1], 1, 0).unwrap_err();
    assert_eq!(error.code(), StatusCode::Internal);
    assert!(error.message().ends_with("kernel `fail` failed with 1 in workgroup 2,0,0"), "{error}");
}

#[derive(Debug)]
struct Provider;

/// Adds what `context` points to to the first parameter.
unsafe extern "sysv64" fn add(params: *mut c_void, context: *mut c_void, _reserved: *mut c_void) -> i32 {
    // SAFETY: the kernel passes its binding, which has a word, and the context below.
    unsafe { *params.cast::<u32>() += *context.cast::<u32>() };
    0
}

static ADDEND: u32 = 42;

// SAFETY: the function takes what the kernels below pass it.
unsafe impl ImportProvider for Provider {
    fn resolve(&self, name: &str) -> Option<Import> {
        (name == "test_add").then_some(Import { function: add, context: (&raw const ADDEND).cast_mut().cast() })
    }
}

#[test]
fn imports_are_resolved() {
    let call = [
        0x48, 0x83, 0xEC, 0x08, // sub rsp, 8
        0x48, 0x8B, 0x47, 0x08, // mov rax, [rdi + 8]: the thunk
        0x4C, 0x8B, 0x47, 0x10, // mov r8, [rdi + 16]: the functions
        0x4C, 0x8B, 0x4F, 0x18, // mov r9, [rdi + 24]: the contexts
        0x4C, 0x8B, 0x56, 0x20, // mov r10, [rsi + 32]
        0x49, 0x8B, 0x78, 0x08, // mov rdi, [r8 + 8]
        0x49, 0x8B, 0x32, // mov rsi, [r10]
        0x49, 0x8B, 0x51, 0x08, // mov rdx, [r9 + 8]
        0x31, 0xC9, // xor ecx, ecx
        0xFF, 0xD0, // call rax
        0x48, 0x83, 0xC4, 0x08, // add rsp, 8
        0xC3, // ret
    ];
    let library = Library {
        kernels: vec![Kernel::new("call", 1, &call)],
        imports: vec!["?test_missing", "test_add"],
        ..Library::default()
    };
    let executable = load_with(&library, Arc::new(Provider), &[]).unwrap();
    assert_eq!(run(&executable, [3, 1, 1], 1, 0).unwrap(), [126]);
    let error = load(&library).unwrap_err();
    assert_eq!(error.to_string(), "NOT_FOUND: the executable imports `test_add`, which this host does not provide");
}

#[test]
fn environments_have_constants_and_the_processor() {
    let read = [
        0x48, 0x8B, 0x46, 0x20, // mov rax, [rsi + 32]
        0x48, 0x8B, 0x00, // mov rax, [rax]
        0x48, 0x8B, 0x0F, // mov rcx, [rdi]
        0x48, 0x8B, 0x09, // mov rcx, [rcx]
        0x48, 0x89, 0x08, // mov [rax], rcx
        0x48, 0x8B, 0x4F, 0x20, // mov rcx, [rdi + 32]
        0x48, 0x89, 0x48, 0x08, // mov [rax + 8], rcx
        0x31, 0xC0, 0xC3, // xor eax, eax; ret
    ];
    let library = Library { kernels: vec![Kernel::new("read", 1, &read)], constants: 2, ..Library::default() };
    let executable = load_with(&library, Arc::new(NoImports), &[7, 8]).unwrap();
    let words = run(&executable, [1, 1, 1], 4, 0).unwrap();
    let processor = u64::from(words[3]) << 32 | u64::from(words[2]);
    assert_eq!((words[0], words[1], processor), (7, 8, local::processor_data()[0]));
    assert_eq!(load(&library).unwrap_err().message(), "the executable takes 2 constants, 0 are given");
}

#[test]
fn metadata_is_checked() {
    let refused = |library: Library, code: StatusCode, message: &str| {
        let error = load(&library).unwrap_err();
        assert!(error.code() == code && error.message().contains(message), "{error}");
    };
    let library = Library { kernels: vec![copy_scratch()], ..Library::default() };
    let base = || library.clone();
    refused(Library { version: 7, ..base() }, StatusCode::Incompatible, "version 7 of the library interface");
    refused(Library { sanitizer: 3, ..base() }, StatusCode::Unavailable, "built for the thread sanitizer");
    refused(Library { query: "another_name", ..base() }, StatusCode::FailedPrecondition, "does not export");
    let many = Kernel { bindings: 65, ..copy_scratch() };
    refused(Library { kernels: vec![many], ..base() }, StatusCode::OutOfRange, "65 bindings");
    // Pointers out of the library.
    for (at, what) in [
        (0x2000, "its header"),
        (0x2020, "its functions"),
        (0x2028, "the attributes of its functions"),
        (0x2040, "the names of its functions"),
        (0x2400, "the names of its functions"),
        (0x2088, "the library"),
    ] {
        for addend in [-1, 0x3000, i64::MAX] {
            let library = Library { relocations: vec![(at, kind::RELATIVE, 0, addend)], ..base() };
            refused(library, StatusCode::FailedPrecondition, what);
        }
    }
    let data = Library { relocations: vec![(0x2100, kind::RELATIVE, 0, SCRATCH as i64)], ..base() };
    refused(data, StatusCode::FailedPrecondition, "is not code of the library");
}

#[test]
fn no_page_is_writable_and_executable() {
    let executable = load(&Library { kernels: vec![copy_scratch()], ..Library::default() }).unwrap();
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        skipped(Need::Platform("linux"), "there is no /proc/self/maps");
        return;
    };
    let both: Vec<&str> =
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|p| p.contains("wx"))).collect();
    assert!(both.is_empty(), "{both:?}");
    drop(executable);
}

#[test]
#[cfg_attr(not(feature = "check-kernels"), ignore = "kernels are not looked at")]
fn kernels_for_other_processors_are_refused() {
    // FMA4 was dropped by the only maker that had it: `vfmaddps xmm0, xmm0, xmm0, xmm0`.
    if local::feature("fma4") == Some(true) {
        skipped(Need::NoProcessor("fma4"), "this processor has FMA4");
        return;
    }
    let code = [0xC4, 0xE3, 0xF9, 0x68, 0xC0, 0x00, 0x31, 0xC0, 0xC3];
    let library = Library { kernels: vec![copy_scratch(), Kernel::new("old", 1, &code)], ..Library::default() };
    let error = load(&library).unwrap_err();
    let message = "kernel `old` was compiled for processors with fma4, which this one does not have";
    assert_eq!((error.code(), error.message()), (StatusCode::Incompatible, message));
    // An initialiser runs before anything else.
    let library = Library { kernels: vec![copy_scratch()], initializers: vec![code.to_vec()], ..Library::default() };
    assert!(load(&library).unwrap_err().message().contains("with fma4"));
    // A host that knows better may skip the check. Nothing of it runs here.
    let unrun = Library { kernels: vec![Kernel::new("old", 1, &code)], ..Library::default() };
    let loader = EmbeddedElfLoader::new(Arc::new(NoImports));
    loader.load(ExecutableCachingMode::DISABLE_VERIFICATION, "embedded-elf-x86_64", &unrun.write(), &[]).unwrap();
}
