//! Constants that kernels write to in place, wherever the module is from, and bytecode that tries to write to its own
//! module: neither ever reaches what was verified.

use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;

use vireo::asm::{assemble, disassemble};
use vireo::hal::*;
use vireo::modules::hal::HalModule;
use vireo::modules::hal_loader::HalLoaderModule;
use vireo::vm::{Buffer as VmBuffer, Context, Module, Obj, Ref, Value};
use vireo::vmfb::Archive;
use vireo::{Result, StatusCode};

use super::hal_module::Program;

/// Larger than what is read at once, so that a file with so many bytes after it is mapped.
const PADDING: usize = 2 << 20;
/// Usage of constants: storage that is not written.
const IMMUTABLE: u64 = 0x80C03;
const STORAGE: u64 = 0xC03;
const DEVICE_LOCAL: u64 = 0x30;

/// A model that `iree-compile` made, whose kernel adds rows to constants in place. Here it is bound to the constants
/// themselves, as compilers do where they are dead afterwards, and not to the copy that the program makes of them.
fn in_place(name: &str) -> Vec<u8> {
    let path = format!("{}/../fixtures/models/{name}.vmfb", env!("CARGO_MANIFEST_DIR"));
    let archive = Archive::open(path).expect("the fixture is readable");
    let module = Module::from_archive(archive.clone()).expect("the fixture is a module");
    let text = disassemble(&archive, module.functions());
    let mut changed = 0;
    let lines = text.lines().map(|line| {
        if !line.contains("vm.call.variadic @hal.device.queue.execute.indirect") {
            return format!("{line}\n");
        }
        changed += line.matches("%r6, ").count();
        format!("  %r7 = vm.global.load.ref .refs[2] : !hal.buffer\n{}\n", line.replace("%r6, ", "%r7, "))
    });
    let text: String = lines.collect();
    assert_eq!(changed, 1, "the copy is bound once:\n{text}");
    // Segments outside of the FlatBuffer are aligned so that devices import them in place.
    let text = text.replacen("vm.rodata[0] = ", "vm.rodata[0] external = ", 1);
    assert!(text.contains("vm.rodata[0] external"), "the constants come first:\n{text}");
    assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The same bytes in pages that cannot be written, for good.
fn read_only_pages(bytes: &[u8]) -> &'static [u8] {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("there is room");
    // SAFETY: no other process has the file.
    let pages = unsafe { memmap2::Mmap::map(&file) }.expect("can be mapped");
    Box::leak(Box::new(pages))
}

/// A file with so many zeros after the bytes.
fn file_of(bytes: &[u8], padding: usize) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("there is room");
    file.write_all(&vec![0; padding]).expect("there is room");
    file
}

/// The first results of `calls` calls.
fn first_results(module: &Module, calls: usize) -> Vec<f32> {
    let device = create_device("local-sync").expect("always there");
    let hal = Module::native(HalModule::new(vec![device.clone()])).expect("conventions in order");
    let context = Context::new([hal, module.clone()]).expect("initialises");
    let rows: Vec<u8> = [0.5f32; 3 * 96].iter().flat_map(|value| value.to_le_bytes()).collect();
    let function = context.function("add_rows").expect("is there");
    let call = |_| {
        let input = BufferView::from_bytes(&*device, &[3, 96], ElementType::FLOAT_32, &rows).expect("a view");
        let results = function.call(&[input.into_ref().into()]).expect("runs");
        let bytes = results[0].object::<BufferViewRef>().expect("a view").to_vec().expect("readable");
        let values: Vec<f32> =
            bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().expect("a word"))).collect();
        assert!(values.iter().enumerate().all(|(index, value)| *value - values[0] == ((index * 37) % 101) as f32));
        values[0]
    };
    (0..calls).map(call).collect()
}

fn kernels_write_constants_in_place(name: &str) {
    let bytes = in_place(name);
    let (small, large) = (file_of(&bytes, 0), file_of(&bytes, PADDING));
    let pages = read_only_pages(&bytes);
    let modules = [
        ("static", Module::from_static(pages)),
        ("owned", Module::from_bytes(&bytes)),
        ("a small file", Module::from_file(small.path())),
        ("a mapped file", Module::from_file(large.path())),
        ("a file that is read", Module::read_file(large.path())),
    ];
    for (place, module) in modules {
        let module = module.unwrap_or_else(|status| panic!("{place}: {status}"));
        let before = module.archive().expect("bytecode").bytes().to_vec();
        // Each call returns what the one before made of the constants, but every program has its own.
        for _ in 0..2 {
            assert_eq!(first_results(&module, 3), [0.0, 1.5, 3.0], "{place}");
        }
        assert!(module.archive().expect("bytecode").bytes() == before, "{place}: the module was written to");
    }
    assert!(std::fs::read(small.path()).expect("readable") == bytes, "the file was written to");
}

#[test]
fn kernels_in_bytecode_write_constants_in_place() {
    kernels_write_constants_in_place("vmvx_constants");
}

#[test]
#[cfg(all(target_arch = "x86_64", unix))]
fn native_kernels_write_constants_in_place() {
    kernels_write_constants_in_place("constants");
}

/// A kernel that writes to all of its first binding, word by word, adding one to each, and answers nothing.
const WRITER: &str = r#"
vm.module @writer version 0
vm.type i32
vm.type !vm.buffer
vm.type !vm.list<!vm.buffer>
vm.export @write
vm.func @write(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.list<!vm.buffer>, %i0: i32, %i1: i32, %i2: i32, %i3: i32, %i4: i32, %i5: i32, %i6: i32, %i7: i32, %i8: i32) -> () {
^bb0:
  %i0 = vm.const.i32.zero
  %i1 = vm.const.i32 1
  %r0 = vm.list.get.ref %r2, %i0 : !vm.buffer
  %i2:3 = vm.buffer.length %r0
  %i4:5 = vm.const.i64 2
  %i10 = vm.const.i32 2
  %i2:3 = vm.shr.i64.u %i2:3, %i10
  %i4:5 = vm.const.i64.zero
  %i6:7 = vm.const.i64 1
  vm.br ^bb1()
^bb1:
  %i8 = vm.cmp.lt.i64.u %i4:5, %i2:3
  vm.cond_br %i8, ^bb2(), ^bb3()
^bb2:
  %i9 = vm.buffer.load.i32 %r0, %i4:5
  %i9 = vm.add.i32 %i9, %i1
  vm.buffer.store.i32 %i9, %r0, %i4:5
  %i4:5 = vm.add.i64 %i4:5, %i6:7
  vm.br ^bb1()
^bb3:
  vm.return
}
"#;

fn writer() -> Arc<dyn Executable> {
    let bytes = assemble(WRITER).unwrap_or_else(|error| panic!("{error}"));
    let loader = local::VmvxLoader::default();
    loader.load(ExecutableCachingMode::empty(), "vmvx-bytecode-fb", &bytes, &[]).expect("loads")
}

/// Runs the kernel on a buffer.
fn write_to(buffer: &Arc<dyn Buffer>) -> Result<()> {
    let device = super::device();
    let executable = writer();
    let binding = BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER };
    let config = DispatchConfig {
        workgroup_size: [1; 3],
        workgroup_count: [1; 3],
        workgroup_count_ref: BufferRef { buffer: None, slot: 0, offset: 0, length: 0 },
        dynamic_workgroup_local_memory: 0,
    };
    let (function, flags) = (executable.lookup_function("write")?, DispatchFlags::empty());
    device.queue_dispatch(QueueAffinity::ANY, &[], &[], &executable, function, &config, &[], &[binding], flags)
}

/// A module of nothing but a function and two read-only segments, the first of them in the FlatBuffer.
fn with_segments(external: usize) -> Vec<u8> {
    let digits = "07".repeat(external);
    let text = format!(
        "vm.module @constants version 3\nvm.attr \"key\" = \"value\"\nvm.rodata[0] = {}\nvm.rodata[1] external = {digits}\n\
         vm.export @segment\nvm.func @segment() -> (!vm.buffer) {{\n^bb0:\n  %r0 = vm.const.ref.rodata 1\n  vm.return %R0\n}}\n",
        "05".repeat(64)
    );
    assemble(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// The same segments as programs have them.
fn segments(archive: &Archive) -> Vec<Ref> {
    archive.rodata().map(|segment| Ref::new(VmBuffer::of_archive(archive, segment.range).expect("is inside"))).collect()
}

fn contents(segment: &Ref) -> Vec<u8> {
    segment.get::<VmBuffer>().expect("a buffer").to_vec()
}

fn import(segment: &Ref, usage: u64, length: u64) -> Result<Arc<dyn Buffer>> {
    let allocator: Arc<dyn Allocator> = Arc::new(HeapAllocator::with_limit(1 << 20));
    let allocator = Obj::<AllocatorRef>::new(Handle(allocator)).into_ref();
    let refs = [Some(allocator), Some(segment.clone())];
    let words = [0, u64::MAX, DEVICE_LOCAL, usage, 0, length];
    let imported = Program::of(HalModule::new(Vec::new())).reference("allocator.import", &words, &refs)?;
    Ok(imported.cast::<BufferRefObject>().expect("a buffer").0.clone())
}

#[test]
fn imported_constants_are_the_programs_own() {
    // Of these sizes one is copied and one is mapped again.
    for size in [4096, 256 << 10] {
        let bytes = with_segments(size);
        let file = file_of(&bytes, PADDING);
        for archive in [
            Archive::open(file.path()).expect("in order"),
            Archive::from_bytes(&bytes).expect("in order"),
            Archive::from_static(read_only_pages(&bytes)).expect("in order"),
        ] {
            for segment in segments(&archive) {
                let original = contents(&segment);
                let length = original.len() as u64;
                let error = import(&segment, STORAGE, length).expect_err("only to read");
                assert_eq!(error.code(), StatusCode::PermissionDenied);
                for _ in 0..2 {
                    let buffer = import(&segment, IMMUTABLE, length).expect("to read");
                    assert_eq!(buffer_to_vec(&*buffer, length).expect("readable"), original);
                    // The host and transfers are held to it; kernels write in place.
                    let error = buffer_write(&*buffer, 0, &[1]).expect_err("read-only");
                    assert_eq!(error.code(), StatusCode::PermissionDenied);
                    let part = subspan(&buffer, 8, 8).expect("is inside");
                    for target in [&part, &buffer] {
                        write_to(target).expect("kernels may");
                    }
                    let written = buffer_to_vec(&*buffer, length).expect("readable");
                    assert_eq!((written[0], written[8]), (original[0] + 1, original[8] + 2));
                }
                assert_eq!(contents(&segment), original);
            }
            assert!(std::fs::read(file.path()).expect("readable").starts_with(&bytes));
        }
    }
}

#[test]
fn copies_of_constants_count_as_memory_of_the_allocator() {
    let archive = Archive::from_bytes(&with_segments((1 << 20) + 1)).expect("in order");
    let error = import(&segments(&archive)[1], IMMUTABLE, (1 << 20) + 1).expect_err("more than the limit");
    assert_eq!(error.code(), StatusCode::ResourceExhausted, "{error}");
}

#[test]
fn kernels_in_bytecode_do_not_write_to_read_only_memory() {
    // Constants of the host, which may not be written.
    let data = std::ptr::NonNull::from(read_only_pages(&[7; 4096])).cast();
    let params = BufferParams { usage: BufferUsage::DEFAULT, access: MemoryAccess::READ, ..BufferParams::default() };
    let owner: Arc<dyn std::any::Any + Send + Sync> = Arc::new(());
    let external = ExternalBuffer { r#type: ExternalBufferType::HostAllocation, data, size: 4096, owner };
    // SAFETY: the pages stay, and the buffer is for reading.
    let buffer = unsafe { super::device().allocator().import_buffer(params, &external) }.expect("can be imported");
    for buffer in [subspan(&buffer, 64, 64).expect("is inside"), buffer] {
        let error = write_to(&buffer).expect_err("read-only");
        assert_eq!(error.code(), StatusCode::PermissionDenied, "{error}");
        assert_eq!(buffer_to_vec(&*buffer, 64).expect("readable"), [7; 64]);
    }
}

#[test]
fn kernels_that_are_called_in_place_do_not_write_to_the_module_either() {
    let bytes = with_segments(256 << 10);
    let file = file_of(&bytes, PADDING);
    for archive in [
        Archive::open(file.path()).expect("in order"),
        Archive::from_bytes(&bytes).expect("in order"),
        Archive::from_static(read_only_pages(&bytes)).expect("in order"),
    ] {
        let executable = Obj::<ExecutableRef>::new(Handle(writer())).into_ref();
        for segment in segments(&archive) {
            let original = contents(&segment);
            let length = original.len() as u64;
            let mut program = Program::with(HalLoaderModule::new(Vec::new()));
            // No constants and one binding.
            let words = [0, 1, 1, 1, 0, 1, 0, length];
            let refs = [Some(executable.clone()), Some(segment.clone())];
            for _ in 0..2 {
                program.call("executable.dispatch", &words, &refs).expect("kernels may write in place");
            }
            assert_eq!(contents(&segment), original);
        }
    }
}

#[test]
fn what_was_verified_stays_whatever_happens_to_the_file() {
    let bytes = with_segments(4096);
    let file = file_of(&bytes, PADDING);
    let (mapped, read) = (Archive::open(file.path()).expect("in order"), Archive::read(file.path()).expect("in order"));
    let described = |archive: &Archive| {
        let functions: Vec<_> = archive.functions().map(|function| function.code.clone()).collect();
        let attrs: Vec<_> = archive.attrs().map(|(key, value)| format!("{key}={value}")).collect();
        let segments: Vec<_> = archive.rodata().collect();
        (archive.name().to_string(), archive.version(), functions, archive.bytecode().to_vec(), attrs, segments)
    };
    let before = described(&mapped);
    let embedded = segments(&mapped)[0].clone();
    let module = Module::from_archive(mapped.clone()).expect("in order");
    // All of it becomes something else...
    let mut changed = file.reopen().expect("writable");
    changed.write_all(&vec![0xFF; bytes.len()]).expect("there is room");
    assert_eq!(described(&mapped), before);
    assert_eq!(described(Module::from_archive(mapped.clone()).expect("in order").archive().expect("bytecode")), before);
    assert_eq!(contents(&embedded), [5; 64]);
    let call = |module: &Module| {
        let context = Context::new([module.clone()]).expect("initialises");
        let results = context.function("segment").expect("is there").call(&[]).expect("runs");
        results[0].object::<VmBuffer>().expect("a buffer").to_vec()
    };
    assert_eq!(call(&module), [0xFF; 4096], "constants that are not embedded are those of the file");
    // ...and then nothing. Constants that are not embedded are gone then, and may not be read.
    changed.seek(SeekFrom::Start(0)).expect("a file");
    changed.set_len(0).expect("can be cut");
    assert_eq!(described(&mapped), before);
    assert_eq!(contents(&embedded), [5; 64]);
    drop(Context::new([module]).expect("initialises"));
    // A module that was read does not depend on the file at all.
    assert_eq!(described(&read), before);
    assert_eq!(call(&Module::from_archive(read).expect("in order")), [7; 4096]);
}

#[test]
fn a_segment_that_overlaps_the_tables_is_not_a_way_to_write_to_them() {
    let mut bytes = with_segments(64);
    let archive = Archive::from_bytes(&bytes).expect("in order");
    let (segment, flatbuffer) = (archive.rodata().next().expect("is embedded").range, archive.flatbuffer());
    // The segment gets all that follows it: the number of its bytes stands before them.
    let all = flatbuffer.end - segment.start;
    assert!(all > segment.len(), "nothing is after the segment, so the test shows nothing");
    bytes[segment.start - 4..segment.start].copy_from_slice(&(all as u32).to_le_bytes());
    for archive in [
        Archive::from_bytes(&bytes).expect("still in order"),
        Archive::from_static(read_only_pages(&bytes)).expect("still in order"),
        Archive::open(file_of(&bytes, PADDING).path()).expect("still in order"),
    ] {
        let overlapping = &segments(&archive)[0];
        assert_eq!(contents(overlapping).len(), all);
        let described = |archive: &Archive| {
            let exports: Vec<_> = archive.exports().map(|export| (export.name.to_string(), export.ordinal)).collect();
            (archive.name().to_string(), archive.bytecode().to_vec(), exports)
        };
        let before = described(&archive);
        write_to(&import(overlapping, IMMUTABLE, all as u64).expect("to read")).expect("kernels may");
        assert_eq!(described(&archive), before);
    }
}

#[test]
fn programs_do_not_write_to_their_segments() {
    let stores = [
        "vm.buffer.store.i8 %i0, %r1, %i2:3",
        "vm.buffer.fill.i8 %r1, %i2:3, %i4:5, %i0",
        "vm.buffer.copy %r0, %i2:3, %r1, %i2:3, %i4:5",
    ];
    for store in stores {
        let text = format!(
            "vm.module @writes version 0\nvm.rodata[0] = 0505050505050505\nvm.export @write\nvm.func @write(%r0: !vm.buffer) -> () {{\n^bb0:\n  \
             %i0 = vm.const.i32 1\n  %i2:3 = vm.const.i64.zero\n  %i4:5 = vm.const.i64 1\n  %r1 = vm.const.ref.rodata 0\n  {store}\n  vm.return\n}}\n"
        );
        let bytes = assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let module = Module::from_static(read_only_pages(&bytes)).expect("in order");
        let context = Context::new([module]).expect("initialises");
        let source = Value::from(Obj::new(VmBuffer::copy_of(&[1; 8]).expect("a small buffer")));
        let error = context.function("write").expect("is there").call(&[source]).expect_err(store);
        assert_eq!(error.code(), StatusCode::PermissionDenied, "{store}: {error}");
    }
}
