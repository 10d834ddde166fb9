//! Executables in portable bytecode that compilers do not write: programs that keep what was lent to them, read out of
//! range, or call microkernels with whatever comes to mind.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vireo::asm::assemble;
use vireo::hal::local::{LoadedKernels, VmvxLoader};
use vireo::hal::*;
use vireo::interp::{Tier, background};
use vireo::modules::vmvx::{SimdLevel, VmvxModule};
use vireo::vm::{Argument, Buffer, Context, Kind, Module, Obj, Value};
use vireo::vmfb::Archive;
use vireo::{Result, StatusCode};

const HEADER: &str = r#"
vm.module @kernels version 0
vm.type i32
vm.type !vm.buffer
vm.type !vm.list<!vm.buffer>
"#;

/// Signature of a kernel: workgroup memory, constants, bindings; ids, sizes, counts.
const KERNEL: &str = "(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.list<!vm.buffer>, %i0: i32, %i1: i32, %i2: i32, %i3: i32, %i4: i32, \
                      %i5: i32, %i6: i32, %i7: i32, %i8: i32)";

/// The module with these declarations and functions, in which `KERNEL` stands for the signature of kernels.
fn module(text: &str) -> Vec<u8> {
    let text = format!("{HEADER}{}", text.replace("KERNEL", KERNEL));
    assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Loads kernels and waits until they are compiled.
fn load(text: &str, constants: &[u32]) -> Result<Arc<dyn Executable>> {
    let loaded =
        VmvxLoader::default().load(ExecutableCachingMode::empty(), "vmvx-bytecode-fb", &module(text), constants);
    background::wait();
    loaded
}

/// Runs a kernel with one binding of `words` words and returns them.
fn run(
    executable: &Arc<dyn Executable>,
    kernel: &str,
    grid: [u32; 3],
    constants: &[u32],
    words: usize,
) -> Result<Vec<u32>> {
    run_with(executable, kernel, grid, constants, words, 1)
}

/// As `run`, with so many bindings of the same words.
fn run_with(
    executable: &Arc<dyn Executable>,
    kernel: &str,
    grid: [u32; 3],
    constants: &[u32],
    words: usize,
    bindings: usize,
) -> Result<Vec<u32>> {
    let device = super::device();
    let buffer = device.allocator().allocate_buffer(BufferParams::default(), words as u64 * 4)?;
    let binding = BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER };
    let config = DispatchConfig {
        workgroup_size: [1; 3],
        workgroup_count: grid,
        workgroup_count_ref: BufferRef { buffer: None, slot: 0, offset: 0, length: 0 },
        dynamic_workgroup_local_memory: 0,
    };
    let (function, flags) = (executable.lookup_function(kernel)?, DispatchFlags::empty());
    let bindings = vec![binding; bindings];
    device.queue_dispatch(QueueAffinity::ANY, &[], &[], executable, function, &config, constants, &bindings, flags)?;
    let mut bytes = vec![0; words * 4];
    buffer_read(&*buffer, 0, &mut bytes)?;
    Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("a word"))).collect())
}

const PLACES: &str = r#"
vm.export @places
vm.func @places KERNEL -> () {
^bb0:
  %i9 = vm.const.i32.zero
  %r3 = vm.list.get.ref %r2, %i9 : !vm.buffer
  %i10:11 = vm.const.i64.zero
  %i12 = vm.buffer.load.i32 %r1, %i10:11
  %i13 = vm.mul.i32 %i2, %i7
  %i13 = vm.add.i32 %i13, %i1
  %i13 = vm.mul.i32 %i13, %i6
  %i13 = vm.add.i32 %i13, %i0
  %i14:15 = vm.ext.i32.i64.u %i13
  %i12 = vm.add.i32 %i12, %i13
  vm.buffer.store.i32 %i12, %r3, %i14:15
  vm.return
}
"#;

#[test]
fn every_workgroup_runs_once_with_its_place() {
    let executable = load(PLACES, &[]).expect("loads");
    assert_eq!(executable.function_count(), 1);
    let words = run(&executable, "places", [3, 2, 2], &[100], 12).expect("runs");
    assert_eq!(words, (100..112).collect::<Vec<_>>());
    // Without constants there is nothing to load.
    let error = run(&executable, "places", [1, 1, 1], &[], 12).expect_err("reads a constant");
    assert_eq!(error.code(), StatusCode::OutOfRange, "{error}");
    // One workgroup is outside of the binding.
    let error = run(&executable, "places", [13, 1, 1], &[0], 12).expect_err("writes out of range");
    assert!(error.code() == StatusCode::OutOfRange && error.message().contains("workgroup 12,0,0"), "{error}");
}

/// Counts what it is told: bytes that are scheduled, those that are done, and reports of the latter.
#[derive(Debug, Default)]
struct Counts([AtomicU64; 3]);

impl Progress for Counts {
    fn scheduled(&self, bytes: u64) {
        self.0[0].fetch_add(bytes, Ordering::Relaxed);
    }

    fn done(&self, bytes: u64) {
        self.0[1].fetch_add(bytes, Ordering::Relaxed);
        self.0[2].fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn loading_tells_how_far_it_has_come() {
    let bytes = module(&format!("{PLACES}{}", PLACES.replace("@places", "@again")));
    let archive = Archive::from_bytes(&bytes).expect("is a module");
    let code: u64 = archive.functions().map(|function| function.code.len() as u64).sum();
    let functions = archive.functions().len() as u64;
    let mut tiers = vec![(Tier::Interpreter, 1)];
    background::always_available();
    if Tier::Compiled.check().is_ok() {
        // Compiled kernels are counted once more, but for those without waiters.
        tiers.extend([(Tier::Compiled, 2), (Tier::Auto, 1)]);
    }
    for (tier, times) in tiers {
        let counts = Arc::new(Counts::default());
        let loader = VmvxLoader::default().with_tier(tier).with_progress(counts.clone());
        loader.load(ExecutableCachingMode::empty(), "vmvx-bytecode-fb", &bytes, &[]).expect("loads");
        let told = counts.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(told, [code, code, functions].map(|count| count * times), "{tier:?}");
    }
}

#[test]
fn kernels_run_before_the_background_compiles_them() {
    background::always_available();
    let load = || VmvxLoader::default().load(ExecutableCachingMode::empty(), "vmvx-bytecode-fb", &module(PLACES), &[]);
    let hold = background::Hold::new();
    let (executable, dropped) = (load().expect("loads"), load().expect("loads"));
    // No thread waits for the jobs that are held.
    let words = || run(&executable, "places", [3, 2, 2], &[100], 12).expect("runs");
    let expected: Vec<_> = (100..112).collect();
    assert_eq!(words(), expected);
    drop(dropped);
    drop(hold);
    background::wait();
    assert_eq!(words(), expected);
}

/// The code of an executable is there for the next one with the same bytes, while the first one is there.
#[test]
fn executables_of_the_same_bytes_share_their_code() {
    if Tier::Compiled.check().is_err() {
        return;
    }
    background::always_available();
    let functions =
        |kernels: &LoadedKernels| -> Vec<usize> { kernels.machine_code().iter().map(|code| code.functions).collect() };
    let places = module(PLACES);
    let load = |loader: &VmvxLoader, bytes: &[u8]| {
        loader.load(ExecutableCachingMode::empty(), "vmvx-bytecode-fb", bytes, &[]).expect("loads")
    };
    let kernels = Arc::<LoadedKernels>::default();
    let loader = VmvxLoader::default().with_loaded(kernels.clone());
    let first = load(&loader, &places);
    background::wait();
    assert_eq!(functions(&kernels), [1]);
    let hold = background::Hold::new();
    let (second, _other) = (load(&loader, &places), load(&loader, &module(&PLACES.replace("@places", "@others"))));
    assert_eq!(functions(&kernels), [1, 1, 0], "only other bytes have to be compiled");
    drop(first);
    let words = run(&second, "places", [3, 2, 2], &[100], 12).expect("runs");
    assert_eq!(words, (100..112).collect::<Vec<_>>());
    drop(second);
    let _third = load(&loader, &places);
    assert_eq!(functions(&kernels), [0, 0], "nobody has kept the code");
    drop(hold);
    background::wait();
}

#[test]
fn the_null_device_runs_no_kernels() {
    let executable = load(PLACES, &[]).expect("loads");
    let config = DispatchConfig { workgroup_count: [1; 3], ..DispatchConfig::default() };
    let (any, flags) = (QueueAffinity::ANY, DispatchFlags::empty());
    let null = create_device("null").expect("is built in");
    let error = null.queue_dispatch(any, &[], &[], &executable, ExecutableFunction(0), &config, &[], &[], flags);
    assert!(error.expect_err("is no executable of it").message().contains("another kind of device"));
}

#[test]
fn the_executable_takes_its_constants_once() {
    let text = r#"
vm.global.i32 mutable @constant = 0 : i32
vm.export @__set_constants
vm.func @__set_constants(%r0: !vm.buffer) -> () {
^bb0:
  %i0:1 = vm.const.i64 1
  %i2 = vm.buffer.load.i32 %r0, %i0:1
  vm.global.store.i32 %i2, .rwdata[0]
  vm.return
}
vm.export @store
vm.func @store KERNEL -> () {
^bb0:
  %i0 = vm.const.i32.zero
  %r0 = vm.list.get.ref %r2, %i0 : !vm.buffer
  %i2:3 = vm.const.i64.zero
  %i0 = vm.global.load.i32 .rwdata[0]
  vm.buffer.store.i32 %i0, %r0, %i2:3
  vm.return
}
"#;
    let executable = load(text, &[5, 77]).expect("loads");
    assert_eq!(run(&executable, "store", [1, 1, 1], &[], 1).expect("runs"), [77]);
    // Code is shared by executables of a loader, and constants are not.
    let (loader, bytes) = (VmvxLoader::default(), module(text));
    let load_with = |constants: &[u32]| {
        loader.load(ExecutableCachingMode::empty(), "vmvx-bytecode-fb", &bytes, constants).expect("loads")
    };
    let both = [load_with(&[5, 78]), load_with(&[5, 79])];
    let stored = both.each_ref().map(|executable| run(executable, "store", [1, 1, 1], &[], 1).expect("runs"));
    assert_eq!(stored, [[78], [79]]);
    assert_eq!(load(text, &[]).expect_err("lacks constants").code(), StatusCode::InvalidArgument);
    assert_eq!(load(text, &[5]).expect_err("lacks one").code(), StatusCode::OutOfRange);
    assert_eq!(load(PLACES, &[1]).expect_err("takes none").code(), StatusCode::InvalidArgument);
}

#[test]
fn what_a_program_keeps_is_empty_afterwards() {
    // A kernel keeps its three buffers and its list; another one asks how long they are and writes to one.
    let text = r#"
vm.global.ref mutable @memory : !vm.buffer
vm.global.ref mutable @constants : !vm.buffer
vm.global.ref mutable @binding : !vm.buffer
vm.global.ref mutable @list : !vm.list<!vm.buffer>
vm.export @keep
vm.func @keep KERNEL -> () {
^bb0:
  %i0 = vm.const.i32.zero
  %r3 = vm.list.get.ref %r2, %i0 : !vm.buffer
  vm.global.store.ref %r0, .refs[0] : !vm.buffer
  vm.global.store.ref %r1, .refs[1] : !vm.buffer
  vm.global.store.ref %r3, .refs[2] : !vm.buffer
  vm.global.store.ref %r2, .refs[3] : !vm.list<!vm.buffer>
  %i1 = vm.const.i32 9
  vm.list.resize %r2, %i1
  %i2 = vm.const.i32.zero
  vm.list.set.ref %r2, %i2, %r1
  vm.return
}
vm.export @lengths
vm.func @lengths KERNEL -> () {
^bb0:
  %i0 = vm.const.i32.zero
  %r3 = vm.list.get.ref %r2, %i0 : !vm.buffer
  %r4 = vm.global.load.ref .refs[2] : !vm.buffer
  %r5 = vm.global.load.ref .refs[1] : !vm.buffer
  %i2:3 = vm.buffer.length %r4
  %i4:5 = vm.buffer.length %r5
  %i6 = vm.trunc.i64.i32 %i2:3
  %i7 = vm.trunc.i64.i32 %i4:5
  %i10:11 = vm.const.i64.zero
  vm.buffer.store.i32 %i6, %r3, %i10:11
  %i10:11 = vm.const.i64 1
  vm.buffer.store.i32 %i7, %r3, %i10:11
  vm.return
}
vm.export @__deinit
vm.func @__deinit() -> () {
^bb0:
  %r0 = vm.global.load.ref .refs[2] : !vm.buffer
  %i0:1 = vm.const.i64.zero
  %i2 = vm.const.i32 -1
  vm.buffer.store.i32 %i2, %r0, %i0:1
  vm.return
}
"#;
    let executable = load(text, &[]).expect("loads");
    run(&executable, "keep", [4, 1, 1], &[1, 2], 64).expect("runs");
    // Recycled objects stand for the memory of this call: it never sees that of the last one.
    assert_eq!(run(&executable, "lengths", [1, 1, 1], &[9], 2).expect("runs"), [8, 4]);
    assert_eq!(run(&executable, "lengths", [1, 1, 1], &[], 3).expect("runs"), [12, 0, 0]);
    // Its de-initialiser writes to nothing.
    drop(executable);
}

#[test]
fn a_kernel_gets_its_bindings_whatever_became_of_its_list() {
    // A kernel that keeps its list if a constant says so, and stores a constant to the binding that another one names.
    // A second kernel puts its constants in their place in the list that was kept, or fails after that.
    let text = r#"
vm.global.ref mutable @list : !vm.list<!vm.buffer>
vm.export @store
vm.func @store KERNEL -> () {
^bb0:
  %i10:11 = vm.const.i64.zero
  %i12:13 = vm.const.i64 1
  %i14:15 = vm.const.i64 2
  %i20 = vm.buffer.load.i32 %r1, %i10:11
  %i21 = vm.buffer.load.i32 %r1, %i12:13
  %i22 = vm.buffer.load.i32 %r1, %i14:15
  vm.cond_br %i20, ^bb1(), ^bb2()
^bb1:
  vm.global.store.ref %r2, .refs[0] : !vm.list<!vm.buffer>
  vm.br ^bb2()
^bb2:
  %r3 = vm.list.get.ref %r2, %i21 : !vm.buffer
  vm.buffer.store.i32 %i22, %r3, %i10:11
  vm.discard.refs %r2, %r3
  vm.return
}
vm.export @replace
vm.func @replace KERNEL -> () {
^bb0:
  %i0 = vm.const.i32.zero
  %i2:3 = vm.const.i64.zero
  %r3 = vm.global.load.ref .refs[0] : !vm.list<!vm.buffer>
  vm.list.set.ref %r3, %i0, %r1
  %i0 = vm.buffer.load.i32 %r1, %i2:3
  vm.discard.refs %r3
  vm.return
}
"#;
    let executable = load(text, &[]).expect("loads");
    let store = |constants: [u32; 3], bindings: usize| {
        run_with(&executable, "store", [1, 1, 1], &constants, 1, bindings).map(|words| words[0])
    };
    for round in 0..3 {
        assert_eq!(store([0, 0, 10 + round], 1).expect("runs"), 10 + round);
        assert_eq!(store([1, 0, 20 + round], 1).expect("runs"), 20 + round);
        // Nothing has changed the list that was kept, so its elements are known.
        assert_eq!(store([0, 0, 30 + round], 1).expect("runs"), 30 + round);
        let replaced = run(&executable, "replace", [1, 1, 1], if round == 1 { &[] } else { &[1] }, 1);
        assert_eq!(replaced.is_ok(), round != 1, "{replaced:?}");
        assert_eq!(store([0, 0, 40 + round], 1).expect("runs"), 40 + round);
        // Another number of bindings.
        assert_eq!(store([0, 1, 50 + round], 2).expect("runs"), 50 + round);
        assert_eq!(store([0, 1, 60 + round], 1).expect_err("has one binding").code(), StatusCode::OutOfRange);
    }
}

#[test]
fn kernels_of_another_convention_are_refused() {
    for (text, message) in [
        (
            "vm.export @f\nvm.func @f(%r0: !vm.buffer) -> () {\n^bb0:\n  vm.return\n}\n",
            "kernel `f` has the calling convention `0r_v`",
        ),
        ("vm.import @vmvx.mmt5d cconv \"0v_v\"\n", "vmvx.mmt5d"),
        ("vm.import @vmvx.abs.2d.f32 cconv \"0r_v\"\n", "vmvx.abs.2d.f32"),
    ] {
        let error = load(text, &[]).expect_err("is refused");
        assert!(error.message().contains(message), "{error}");
    }
    let error = VmvxLoader::default().load(ExecutableCachingMode::empty(), "vmvx-bytecode-fb", b"no module", &[]);
    assert_eq!(error.expect_err("is no module").code(), StatusCode::InvalidArgument);
}

/// Numbers from a seed, the same every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// A small number most of the time, else one at an edge.
    fn integer(&mut self) -> i64 {
        const EDGES: [i64; 14] = [
            -1,
            i64::MIN,
            i64::MAX,
            i64::MIN + 1,
            1 << 31,
            1 << 32,
            (1 << 32) - 1,
            1 << 61,
            1 << 62,
            (1 << 62) - 1,
            -(1 << 31),
            1 << 16,
            1000,
            1 << 63,
        ];
        match self.below(8) {
            0 => self.one_of(&EDGES),
            1 => self.one_of(&[16, 32, 64, 128]),
            _ => self.below(9) as i64,
        }
    }
}

/// Memory with bytes around it that may not be written.
struct Guarded {
    memory: Arc<Vec<u8>>,
    length: usize,
}

const GUARD: usize = 64;

impl Guarded {
    fn new(length: usize) -> Guarded {
        Guarded { memory: Arc::new(vec![0xA5; GUARD * 2 + length]), length }
    }

    fn buffer(&self, mutable: bool) -> Obj<Buffer> {
        let data = NonNull::new(self.memory.as_ptr().cast_mut()).expect("vectors have addresses");
        // SAFETY: the vector has that many bytes from there on, is never resized, and is looked at between calls only.
        let buffer = unsafe { Buffer::from_shared(self.memory.clone(), data.add(GUARD), self.length, mutable) };
        Obj::new(buffer)
    }

    fn check(&self, call: impl Fn() -> String) {
        let bytes = self.memory.as_ptr();
        for index in (0..GUARD).chain(GUARD + self.length..GUARD * 2 + self.length) {
            // SAFETY: the byte is in the vector, and no call is running.
            assert_eq!(unsafe { bytes.add(index).read_volatile() }, 0xA5, "byte {index} after {}", call());
        }
    }
}

#[test]
fn microkernels_stay_inside_of_their_buffers_whatever_they_are_asked() {
    const CALLS: usize = 20_000;
    const FLAGS: [u32; 18] =
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0x101, 0x102, 0x201, 0x301, 0x403, 0x107, 0x10A, 0x8000_0001];
    let memory: Vec<Guarded> = [0, 1, 4, 63, 64, 256, 1000].map(Guarded::new).into();
    for level in SimdLevel::ALL {
        let module = Module::native(VmvxModule::with_level(level)).expect("a module");
        let context = Context::new([module.clone()]).expect("a context");
        let exports: Vec<_> =
            module.exports().map(|export| (export.name.to_string(), export.convention.clone())).collect();
        let functions: Vec<_> =
            exports.iter().map(|(name, _)| context.function(&format!("vmvx.{name}")).expect("exists")).collect();
        let (mut numbers, mut succeeded) = (Numbers(0x9E37_79B9_7F4A_7C15), vec![0; exports.len()]);
        for _ in 0..CALLS {
            let index = numbers.below(exports.len() as u64) as usize;
            let args: Vec<Value> = exports[index]
                .1
                .args
                .iter()
                .map(|argument| match argument {
                    Argument::One(Kind::Ref) if numbers.below(50) == 0 => Value::NULL,
                    Argument::One(Kind::Ref) => {
                        let mutable = numbers.below(20) > 0;
                        let which = if numbers.below(4) > 0 { 6 } else { numbers.below(7) as usize };
                        Value::from(memory[which].buffer(mutable))
                    }
                    // Flags are the last argument of those that take any; sizes of tiles are small numbers too.
                    Argument::One(Kind::I32) if numbers.below(2) == 0 => Value::I32(numbers.one_of(&FLAGS) as i32),
                    Argument::One(Kind::I32) => Value::I32(numbers.integer() as i32),
                    _ => Value::I64(numbers.integer()),
                })
                .collect();
            succeeded[index] += usize::from(functions[index].call(&args).is_ok());
            memory.iter().for_each(|memory| memory.check(|| format!("{}{args:?}", exports[index].0)));
        }
        for ((name, _), succeeded) in exports.iter().zip(succeeded) {
            assert!(succeeded > 0, "no call of {name} succeeded, so nothing was tested");
        }
    }
}

#[test]
fn microkernels_report_what_is_wrong() {
    let module = Module::native(VmvxModule::default()).expect("a module");
    let context = Context::new([module]).expect("a context");
    let call =
        |name: &str, args: &[Value]| context.function(&format!("vmvx.{name}")).and_then(|function| function.call(args));
    let words = |words: &[i32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Obj::new(Buffer::copy_of(&bytes).expect("allocates"))
    };
    let (lhs, zeros, out) = (words(&[i32::MIN, 6]), words(&[-1, 0]), words(&[0, 0]));
    let divide = |name: &str, rhs_offset: i64, count: i64| {
        let view = |buffer: &Obj<Buffer>, offset: i64| {
            [buffer.clone().into(), Value::I64(offset), Value::I64(2), Value::I64(1)]
        };
        let sizes = [Value::I64(1), Value::I64(count)];
        let args = [&view(&lhs, 0)[..], &view(&zeros, rhs_offset), &view(&out, 0), &sizes].concat();
        call(name, &args).map(drop).map_err(|error| error.code())
    };
    assert_eq!(divide("divs.2d.i32", 0, 1), Err(StatusCode::OutOfRange));
    assert_eq!(divide("divs.2d.i32", 0, 2), Err(StatusCode::InvalidArgument));
    assert_eq!(divide("divu.2d.i32", 1, 1), Err(StatusCode::InvalidArgument));
    assert_eq!(divide("divu.2d.i32", 0, 1), Ok(()));
    assert_eq!(divide("divu.2d.i32", 1, 2), Err(StatusCode::OutOfRange));
    let tiles = |flags: i32| call("query_tile_sizes.2d", &[Value::I64(0), Value::I64(0), Value::I32(flags)]);
    assert_eq!(tiles(0x0999).expect_err("is no operation").code(), StatusCode::InvalidArgument);
    assert_eq!(tiles(0x0104).expect_err("is no operand").code(), StatusCode::InvalidArgument);
    assert!(matches!(tiles(0x0103).expect("is a tile")[..], [Value::I64(_), Value::I64(_)]));
}
