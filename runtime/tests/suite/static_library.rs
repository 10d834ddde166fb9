//! Kernels in Rust that are part of the program.

use std::ptr;
use std::sync::Arc;

use vireo::StatusCode;
use vireo::hal::executable_library::*;
use vireo::hal::local::{LocalDevice, NoImports, StaticLibraryLoader};
use vireo::hal::*;

kernel_functions! {
    /// Writes the sum of the constant and the workgroup's number to the word of that number.
    unsafe fn number(
        _environment: *const Environment,
        state: *const DispatchState,
        workgroup: *const WorkgroupState,
    ) -> i32 {
        // SAFETY: the attributes ask for a binding and a constant, and the test binds a word for each workgroup.
        unsafe {
            let (state, index) = (&*state, (*workgroup).workgroup_id_x);
            let target = (*state.binding_pointers).cast::<u32>();
            target.add(index as usize).write(index + *state.constants);
        }
        0
    }
}

kernel_functions! {
    /// Writes the processor that it runs on and the other words of its state that hosts choose.
    unsafe fn place(
        _environment: *const Environment,
        state: *const DispatchState,
        workgroup: *const WorkgroupState,
    ) -> i32 {
        // SAFETY: the attributes ask for a binding, and the test binds six words.
        unsafe {
            let (state, workgroup) = (&*state, &*workgroup);
            let counts = [u32::from(state.max_concurrency), u32::from(state.constant_count), u32::from(state.binding_count)];
            let [concurrency, constants, bindings] = counts;
            let words = [workgroup.processor_id, concurrency, constants, bindings, workgroup.local_memory_size, state.workgroup_size_x];
            (*state.binding_pointers).cast::<[u32; 6]>().write(words);
        }
        0
    }
}

const ATTRIBUTES: DispatchAttributes = DispatchAttributes {
    flags: 0,
    local_memory_pages: 0,
    constant_count: 1,
    binding_count: 1,
    workgroup_size_x: 1,
    workgroup_size_y: 1,
    workgroup_size_z: 1,
    parameter_count: 0,
    reserved: [0; 5],
};

struct Tables {
    header: LibraryHeader,
    functions: [Option<Dispatch>; 2],
    attributes: [DispatchAttributes; 2],
    names: [*const u8; 2],
    library: Library,
}

// SAFETY: they are not written.
unsafe impl Sync for Tables {}

static TABLES: Tables = Tables {
    header: LibraryHeader {
        version: LIBRARY_VERSION,
        reserved: 0,
        name: c"numbers".as_ptr().cast(),
        features: 0,
        sanitizer: 0,
    },
    functions: [Some(number), Some(place)],
    attributes: [ATTRIBUTES, DispatchAttributes { local_memory_pages: 2, ..ATTRIBUTES }],
    names: [c"number".as_ptr().cast(), c"place".as_ptr().cast()],
    library: Library {
        header: &raw const TABLES.header,
        imports: ImportTable { count: 0, reserved: 0, symbols: ptr::null() },
        exports: ExportTable {
            count: 2,
            reserved: 0,
            functions: (&raw const TABLES.functions).cast(),
            attributes: (&raw const TABLES.attributes).cast(),
            parameters: ptr::null(),
            occupancy: ptr::null(),
            names: (&raw const TABLES.names).cast(),
            tags: ptr::null(),
            parameter_names: ptr::null(),
            source_locations: ptr::null(),
            stage_locations: ptr::null(),
        },
        constants: ConstantTable { count: 0 },
        reserved: 0,
        sources: SourceFileTable { count: 0, reserved: 0, files: ptr::null() },
    },
};

kernel_functions! {
    unsafe fn query(max_version: u32, _environment: *const Environment) -> *const Library {
        if max_version >= LIBRARY_VERSION { &raw const TABLES.library } else { ptr::null() }
    }

    unsafe fn nothing(_max_version: u32, _environment: *const Environment) -> *const Library {
        ptr::null()
    }
}

fn loader() -> StaticLibraryLoader {
    // SAFETY: the tables are constants, and their kernel follows its convention.
    unsafe { StaticLibraryLoader::new(Arc::new(NoImports)).with_library(query) }.unwrap()
}

#[test]
fn kernels_of_the_program_run() {
    let device = LocalDevice::new("local-sync", Arc::new(HeapAllocator::new()), vec![Arc::new(loader())]);
    let cache = device.create_executable_cache("").unwrap();
    let mode = ExecutableCachingMode::empty();
    assert_eq!(cache.infer_format(mode, b"numbers\0").unwrap(), "static");
    let executable = cache.prepare_executable(QueueAffinity::ANY, mode, "static", b"numbers\0", &[]).unwrap();
    let function = executable.lookup_function("number").unwrap();
    let buffer = device.allocator().allocate_buffer(BufferParams::default(), 16).unwrap();
    let binding = BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER };
    let config = DispatchConfig { workgroup_size: [1; 3], workgroup_count: [4, 1, 1], ..DispatchConfig::default() };
    let flags = DispatchFlags::empty();
    device
        .queue_dispatch(QueueAffinity::ANY, &[], &[], &executable, function, &config, &[40], &[binding], flags)
        .unwrap();
    let words = buffer_to_vec(&*buffer, 16).unwrap();
    let words: Vec<u32> = words.as_chunks().0.iter().copied().map(u32::from_le_bytes).collect();
    assert_eq!(words, [40, 41, 42, 43]);
}

/// On each processor that the test may use, a thread of its own runs a kernel.
#[cfg(target_os = "linux")]
#[test]
fn kernels_are_told_where_they_run() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let device = LocalDevice::new("local-sync", Arc::new(HeapAllocator::new()), vec![Arc::new(loader())]);
    let cache = device.create_executable_cache("").unwrap();
    let mode = ExecutableCachingMode::empty();
    let executable = cache.prepare_executable(QueueAffinity::ANY, mode, "static", b"numbers\0", &[]).unwrap();
    let function = executable.lookup_function("place").unwrap();
    let place = || {
        let buffer = device.allocator().allocate_buffer(BufferParams::default(), 24).unwrap();
        let binding = BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER };
        let config = DispatchConfig { workgroup_size: [3, 1, 1], workgroup_count: [1; 3], ..DispatchConfig::default() };
        let (any, flags) = (QueueAffinity::ANY, DispatchFlags::empty());
        device.queue_dispatch(any, &[], &[], &executable, function, &config, &[40], &[binding], flags).unwrap();
        let words = buffer_to_vec(&*buffer, 24).unwrap();
        words.as_chunks().0.iter().copied().map(u32::from_le_bytes).collect::<Vec<_>>()
    };
    let allowed = sched_getaffinity(None).unwrap();
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect();
    assert!(!processors.is_empty());
    for processor in processors.into_iter().take(8) {
        let words = std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let mut only = CpuSet::new();
                only.set(processor);
                sched_setaffinity(None, &only).unwrap();
                place()
            });
            there.join().unwrap()
        });
        assert_eq!(words, [processor as u32, 1, 1, 1, 2 * WORKGROUP_LOCAL_MEMORY_PAGE_SIZE, 3]);
    }
}

#[test]
fn libraries_are_known_by_name() {
    let load = |name: &[u8]| loader().load(ExecutableCachingMode::empty(), "static", name, &[]);
    load(b"numbers").unwrap();
    let error = load(b"letters\0").unwrap_err();
    assert_eq!(error.to_string(), "NOT_FOUND: there is no kernel library `letters` in this program; it has numbers");
    // SAFETY: the tables are constants, and their kernel follows its convention; the other function has no library to
    // offer.
    let (again, none) = unsafe { (loader().with_library(query), loader().with_library(nothing)) };
    assert_eq!(again.unwrap_err().code(), StatusCode::AlreadyExists);
    assert_eq!(none.unwrap_err().code(), StatusCode::Incompatible);
}
