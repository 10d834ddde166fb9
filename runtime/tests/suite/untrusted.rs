//! Refusals under `SecurityPolicy::untrusted`: machine code, files, and more time and memory than a program may have.
//! Lists of what there is are taken from the runtime where it has them, so that what is new has to be thought of here.

use std::sync::Arc;
use std::time::Duration;

use vireo::asm::assemble;
use vireo::hal::local::{ImportProvider, NoImports, default_loaders, loaders_for};
use vireo::hal::*;
use vireo::interp::{DispatchMode, Limits};
use vireo::modules::check::Collector;
use vireo::modules::hal::HalModule;
use vireo::modules::hal_inline::HalInlineModule;
use vireo::modules::hal_loader::HalLoaderModule;
use vireo::modules::io_parameters::IoParameters;
use vireo::modules::vmvx::VmvxModule;
use vireo::vm::{Buffer as VmBuffer, Context, Module, Ref, Value};
use vireo::{Fuel, MemoryBudget, Result, SecurityPolicy, StatusCode};

const WAYS: [DispatchMode; 3] = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled];

/// An untrusted policy with less of everything, so that tests get there soon.
fn policy(dispatch: DispatchMode) -> SecurityPolicy {
    let policy = SecurityPolicy::untrusted();
    let limits = Limits {
        timeout: Some(Duration::from_secs(300)),
        memory: Some(MemoryBudget::new(64 << 20)),
        stack_bytes: 1 << 20,
        dispatch,
        ..policy.limits
    };
    SecurityPolicy { limits, ..policy }
}

fn registry(policy: &SecurityPolicy) -> DriverRegistry {
    BuiltinOptions { policy: policy.clone(), ..BuiltinOptions::default() }.registry()
}

fn device(policy: &SecurityPolicy, uri: &str) -> Arc<dyn Device> {
    registry(policy).create_device(uri).expect("the drivers of this build exist everywhere")
}

/// Formats of executables, and bytes that may look like one.
fn formats() -> [String; 4] {
    let arch = std::env::consts::ARCH;
    let named = ["static", "vmvx-bytecode-fb"].map(str::to_string);
    let [linked, portable] = named;
    [format!("embedded-elf-{arch}"), format!("system-elf-{arch}"), linked, portable]
}

#[test]
fn executables_of_every_format_but_portable_bytecode_are_refused() {
    let imports: Arc<dyn ImportProvider> = Arc::new(NoImports);
    let mode = ExecutableCachingMode::empty();
    for loader in default_loaders(&imports) {
        let known = formats().iter().any(|format| loader.supports(mode, format));
        assert!(known || !cfg!(target_arch = "x86_64"), "{loader:?} loads none of the formats of this test");
    }
    for uri in ["local-sync", "local-task"] {
        let device = device(&SecurityPolicy::untrusted(), uri);
        let cache = device.create_executable_cache("").expect("there is one");
        for format in formats() {
            let portable = format == "vmvx-bytecode-fb";
            assert_eq!(device.query_i64("hal.executable.format", &format).expect("is known"), i64::from(portable));
            assert_eq!(cache.can_prepare_format(mode, &format), portable);
            let error =
                cache.prepare_executable(QueueAffinity::ANY, mode, &format, b"\x7fELF", &[]).expect_err("is none");
            let expected = format!(
                "PERMISSION_DENIED: the security policy refuses executables of format `{format}`: kernels have to be portable \
                 bytecode (`vmvx-bytecode-fb`)"
            );
            assert!(portable == (error.to_string() != expected), "{error}");
        }
    }
    // The same for programs without a device.
    let policy = SecurityPolicy::untrusted();
    let module =
        Module::native(HalLoaderModule::with_policy(&policy, loaders_for(&policy, &imports))).expect("is in order");
    let context = Context::with_limits([module], policy.limits).expect("has no imports");
    let load = context.function("hal_loader.executable.load").expect("is exported");
    let bytes = |text: &str| Value::from(Ref::new(VmBuffer::copy_of(text.as_bytes()).expect("is small")));
    for format in formats().iter().filter(|format| *format != "vmvx-bytecode-fb") {
        let error = load.call(&[bytes(format), bytes("\x7fELF"), Value::NULL]).expect_err("is refused");
        assert!(error.message().contains("the security policy refuses executables of format"), "{error}");
        assert_eq!(error.code(), StatusCode::PermissionDenied);
    }
}

#[test]
fn libraries_of_drivers_and_plugins_are_refused_before_they_are_looked_at() {
    let registry = registry(&SecurityPolicy::untrusted());
    let path = std::path::Path::new("/nonexistent/library.so");
    // SAFETY: nothing is loaded.
    let driver = unsafe { load_driver_library(&registry, path) }.map(drop).expect_err("is refused");
    // SAFETY: nothing is loaded.
    let plugin = unsafe { load_executable_plugin(&registry, path, &[]) }.map(drop).expect_err("is refused");
    for (error, what) in [(driver, "driver library"), (plugin, "executable plugin")] {
        let expected = format!(
            "PERMISSION_DENIED: the security policy allows no machine code, which {what} `/nonexistent/library.so` would be"
        );
        assert_eq!(error.to_string(), expected);
    }
}

fn native_modules(policy: &SecurityPolicy) -> Vec<Module> {
    let imports: Arc<dyn ImportProvider> = Arc::new(NoImports);
    let device = device(policy, "local-sync");
    let modules = [
        Module::native(HalInlineModule::new(device.allocator())),
        Module::native(HalLoaderModule::with_policy(policy, loaders_for(policy, &imports))),
        Module::native(Collector::default().module()),
        Module::native(VmvxModule::default()),
        Module::native(IoParameters::new([]).with_policy(policy)),
        Module::native(HalModule::new(vec![device])),
    ];
    modules.into_iter().map(|module| module.expect("is in order")).collect()
}

#[test]
fn no_function_of_a_native_module_takes_the_name_of_a_file() {
    let policy = SecurityPolicy::untrusted();
    let modules = native_modules(&policy);
    let words = ["file", "read", "write", "load", "gather", "scatter", "open", "path", "save"];
    let mut found = Vec::new();
    for module in &modules {
        for export in module.exports().filter(|export| words.iter().any(|word| export.name.contains(word))) {
            found.push(format!("{}.{}", module.name(), export.name));
        }
    }
    found.sort();
    // Earlier forms of an export do what it does.
    found.dedup();
    // Files of these are memory of the program (`ex.file.from_memory`), parameters are of archives that the host has
    // opened.
    let expected = [
        "hal.buffer.load",
        "hal.device.queue.read",
        "hal.device.queue.write",
        "hal.ex.file.from_memory",
        "hal_loader.executable.load",
        "io_parameters.gather",
        "io_parameters.load",
        "io_parameters.scatter",
    ];
    assert_eq!(found, expected, "does it let a program reach a file? docs/security.md says that none does");
    let context = Context::with_limits(modules, policy.limits.clone()).expect("have no imports");
    let buffer = || Value::from(Ref::new(VmBuffer::allocate(8, 0).expect("is small")));
    let device = device(&policy, "local-sync");
    let target = buffer_from_bytes(&*device, &[0; 8]).expect("allocates");
    let (device, target) = (Value::from(DeviceRef::to_ref(device)), Value::from(BufferRefObject::to_ref(target)));
    let args = [device, Value::I64(0), Value::NULL, Value::NULL, target, Value::NULL, buffer(), buffer(), buffer()];
    let error =
        context.function("io_parameters.scatter").and_then(|scatter| scatter.call(&args)).expect_err("is refused");
    let expected = "PERMISSION_DENIED: the security policy lets no program write parameters (scope ``)";
    assert_eq!(error.to_string(), expected);
}

/// Functions that use more than they may.
const GREEDY: &str = r#"
vm.module @m version 0
vm.type i8
vm.type i32
vm.type !vm.buffer
vm.type !vm.list<i8>
vm.type !vm.list<!vm.opaque>
vm.type !vm.opaque
vm.type !hal.device
vm.type !hal.fence
vm.type !hal.buffer
vm.type !hal.command_buffer
vm.import @hal.fence.create cconv "0rI_r"
vm.import @hal.fence.await cconv "0iICrD_i"
vm.import @hal.device.queue.barrier cconv "0rIrrI_v"
vm.import @hal.device.queue.fill cconv "0rIrrrIIIiI_v"
vm.import @hal.command_buffer.create cconv "0riiIi_r"
vm.import @hal.command_buffer.fill_buffer cconv "0rrIIiIiI_v"

vm.export @spin
vm.func @spin(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  vm.br ^bb0()
}

vm.export @recurse
vm.func @recurse(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  vm.call @recurse(%r0, %r1)
  vm.return
}

vm.export @one_buffer
vm.func @one_buffer(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i0:1 = vm.const.i64 100000000
  %i2 = vm.const.i32 16
  %r2 = vm.buffer.alloc %i0:1, %i2
  vm.return
}

vm.export @buffers
vm.func @buffers(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i0 = vm.const.i32.zero
  %i1 = vm.const.i32 1
  %r2 = vm.list.alloc %i0 : !vm.list<!vm.opaque>
  %i2:3 = vm.const.i64 65536
  %i4 = vm.const.i32 16
  vm.br ^bb1()
^bb1:
  %i5 = vm.add.i32 %i0, %i1
  vm.list.resize %r2, %i5
  %r3 = vm.buffer.alloc %i2:3, %i4
  vm.list.set.ref %r2, %i0, %r3
  %i0 = vm.add.i32 %i0, %i1
  vm.br ^bb1()
}

vm.export @one_list
vm.func @one_list(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i0 = vm.const.i32 100000000
  %r2 = vm.list.alloc %i0 : !vm.list<i8>
  vm.return
}

vm.export @list_growth
vm.func @list_growth(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i0 = vm.const.i32 16
  %i1 = vm.const.i32 1
  %r2 = vm.list.alloc %i0 : !vm.list<i8>
  vm.br ^bb1()
^bb1:
  %i0 = vm.shl.i32 %i0, %i1
  vm.list.resize %r2, %i0
  vm.br ^bb1()
}

vm.export @lists_in_lists
vm.func @lists_in_lists(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i0 = vm.const.i32.zero
  %i1 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %r2 = vm.list.alloc %i1 : !vm.list<!vm.opaque>
  vm.list.resize %r2, %i1
  vm.list.set.ref %r2, %i0, %R3
  %r3 = vm.assign.ref %R2
  vm.br ^bb1()
}

vm.export @fences
vm.func @fences(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i0 = vm.const.i32.zero
  %i1 = vm.const.i32 1
  %r2 = vm.list.alloc %i0 : !vm.list<!vm.opaque>
  %i2:3 = vm.const.i64.zero
  vm.br ^bb1()
^bb1:
  %i5 = vm.add.i32 %i0, %i1
  vm.list.resize %r2, %i5
  %r3 = vm.call @hal.fence.create(%r0, %i2:3)
  vm.list.set.ref %r2, %i0, %R3
  %i0 = vm.add.i32 %i0, %i1
  vm.br ^bb1()
}

vm.export @commands
vm.func @commands(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i0 = vm.const.i32.zero
  %i1 = vm.const.i32 1
  %i2:3 = vm.const.i64 -1
  %i4 = vm.const.i32 3
  %r2 = vm.call @hal.command_buffer.create(%r0, %i1, %i4, %i2:3, %i0)
  %i2:3 = vm.const.i64.zero
  %i6:7 = vm.const.i64 4
  vm.br ^bb1()
^bb1:
  vm.call @hal.command_buffer.fill_buffer(%r2, %r1, %i2:3, %i6:7, %i0, %i2:3, %i1, %i2:3)
  vm.br ^bb1()
}

vm.export @operations
vm.func @operations(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i1 = vm.const.i32 1
  %i2:3 = vm.const.i64.zero
  %i6:7 = vm.const.i64 4
  %r2 = vm.call @hal.fence.create(%r0, %i2:3)
  %r3 = vm.call @hal.fence.create(%r0, %i2:3)
  vm.br ^bb1()
^bb1:
  %i4:5 = vm.const.i64 -1
  vm.call @hal.device.queue.fill(%r0, %i4:5, %r2, %r3, %r1, %i2:3, %i6:7, %i2:3, %i1, %i2:3)
  vm.br ^bb1()
}

vm.export @waits
vm.func @waits(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i0 = vm.const.i32 -1
  %i2:3 = vm.const.i64.zero
  %r2 = vm.call @hal.fence.create(%r0, %i2:3)
  %i1 = vm.call.variadic @hal.fence.await segments[65535, 65535, 1](%i0, %i2:3, %r2)
  vm.return
}

vm.export @fills
vm.func @fills(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i0:1 = vm.const.i64 33554432
  %i2 = vm.const.i32 16
  %i4:5 = vm.const.i64.zero
  %r2 = vm.buffer.alloc %i0:1, %i2
  vm.br ^bb1()
^bb1:
  vm.buffer.fill.i8 %r2, %i4:5, %i0:1, %i2
  vm.br ^bb1()
}

vm.export @copies
vm.func @copies(%r0: !hal.device, %r1: !hal.buffer) -> () {
^bb0:
  %i0:1 = vm.const.i64 16777216
  %i2 = vm.const.i32 16
  %i4:5 = vm.const.i64.zero
  %r2 = vm.buffer.alloc %i0:1, %i2
  %r3 = vm.buffer.alloc %i0:1, %i2
  vm.br ^bb1()
^bb1:
  vm.buffer.copy %r2, %i4:5, %r3, %i4:5, %i0:1
  vm.br ^bb1()
}
"#;

struct Session {
    device: Arc<dyn Device>,
    context: Context,
    buffer: Value,
}

impl Session {
    fn new(policy: &SecurityPolicy, uri: &str) -> Session {
        let device = device(policy, uri);
        let hal = Module::native(HalModule::new(vec![device.clone()])).expect("is in order");
        let bytes = assemble(GREEDY).unwrap_or_else(|error| panic!("{error}"));
        let module = Module::from_bytes(&bytes).expect("is in order");
        let context = Context::with_limits([hal, module], policy.limits.clone()).expect("is initialised");
        let buffer = buffer_from_bytes(&*device, &[0; 64]).expect("is small");
        Session { device, context, buffer: BufferRefObject::to_ref(buffer).into() }
    }

    fn call(&self, name: &str) -> Result<Vec<Value>> {
        let args = [Value::from(DeviceRef::to_ref(self.device.clone())), self.buffer.clone()];
        self.context.function(name)?.call(&args)
    }
}

/// Calls a function under each dispatcher, which has to end with this code.
fn fails_with(name: &str, code: StatusCode, limits: impl Fn(&mut Limits), parts: &[&str]) {
    for dispatch in WAYS {
        let mut policy = policy(dispatch);
        limits(&mut policy.limits);
        let memory = policy.limits.memory.clone().expect("is limited");
        let session = Session::new(&policy, "local-sync");
        let error = session.call(name).expect_err("exceeds a limit");
        assert_eq!(error.code(), code, "{name} with {dispatch:?}: {error}");
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{name} with {dispatch:?}: {text}");
        drop(session);
        assert_eq!(memory.used(), 0, "{name} with {dispatch:?} leaves {memory:?}");
    }
}

#[test]
fn memory_of_all_kinds_counts() {
    let refused = ["ran out of memory: ", " bytes requested ", " bytes in use, of at most 67,108,864"];
    let noticed = ["ran out of memory: ", " bytes in use, of at most 67,108,864"];
    for (name, what, parts) in [
        ("one_buffer", "for a buffer,", &refused[..]),
        ("buffers", "for a buffer,", &refused),
        ("one_list", "for a list,", &refused),
        ("list_growth", "for a list,", &refused),
        ("lists_in_lists", "", &[]),
        ("fences", "", &[]),
        ("commands", "for commands of a command buffer,", &refused),
        ("operations", "", &noticed),
    ] {
        fails_with(name, StatusCode::ResourceExhausted, |_| {}, &[parts, &[what]].concat());
    }
}

#[test]
fn the_stack_is_limited_and_counts() {
    fails_with("recurse", StatusCode::ResourceExhausted, |_| {}, &["stack overflow"]);
    // With less memory the stack is smaller.
    let limits = |limits: &mut Limits| limits.memory = Some(MemoryBudget::new(1 << 19));
    fails_with("recurse", StatusCode::ResourceExhausted, limits, &["stack overflow"]);
    let limits = |limits: &mut Limits| limits.memory = Some(MemoryBudget::new(1 << 14));
    fails_with(
        "recurse",
        StatusCode::ResourceExhausted,
        limits,
        &["65,536 bytes requested for a stack, ", " bytes in use, of at most 16,384"],
    );
}

#[test]
fn time_ends_loops_ops_that_take_long_and_waiting() {
    for name in ["spin", "waits", "fills", "copies"] {
        let limits = |limits: &mut Limits| limits.timeout = Some(Duration::from_millis(30));
        fails_with(name, StatusCode::DeadlineExceeded, limits, &["deadline exceeded after ", " s (limit 0.03 s)"]);
    }
}

#[test]
fn fuel_ends_loops() {
    let limits = |limits: &mut Limits| limits.fuel = Some(Fuel::new(10_000));
    fails_with("spin", StatusCode::ResourceExhausted, limits, &["ran out of fuel: 10,000 of 10,000 units used"]);
}

#[test]
fn device_memory_is_that_of_the_session() {
    let policy = policy(DispatchMode::Auto);
    let memory = policy.limits.memory.clone().expect("is limited");
    for uri in ["local-sync", "local-task", "null"] {
        let device = device(&policy, uri);
        let half = device.allocator().allocate_buffer(BufferParams::default(), 40 << 20).expect("fits");
        assert!(memory.used() >= 40 << 20, "{memory:?}");
        let error = device.allocator().allocate_buffer(BufferParams::default(), 40 << 20).expect_err("is too much");
        assert_eq!(error.code(), StatusCode::ResourceExhausted);
        assert!(error.message().contains(" bytes requested for a buffer of a device, "), "{error}");
        // Transient buffers fail where they signal.
        let done = Fence::create();
        let (wait, params) = (&[], BufferParams::default());
        let flags = AllocaFlags::empty();
        let transient = device.queue_alloca(QueueAffinity::ANY, wait, done.timepoints(), None, params, 40 << 20, flags);
        drop(transient);
        assert_eq!(done.wait(None).expect_err("has no memory").code(), StatusCode::ResourceExhausted);
        drop(half);
        drop(device);
        assert_eq!(memory.used(), 0, "{uri}: {memory:?}");
    }
}

#[test]
fn transient_memory_shows_nothing_of_what_was_there() {
    let device = device(&policy(DispatchMode::Auto), "local-sync");
    for size in [64, 4096, 1 << 20] {
        for _ in 0..3 {
            let (params, flags) = (BufferParams::default(), AllocaFlags::empty());
            let buffer =
                device.queue_alloca(QueueAffinity::ANY, &[], &[], None, params, size, flags).expect("allocates");
            assert!(buffer_to_vec(&*buffer, size).expect("can be read").iter().all(|byte| *byte == 0));
            buffer_fill(&*buffer, 0, size, &[0xAA]).expect("can be written");
            device.queue_dealloca(QueueAffinity::ANY, &[], &[], &buffer, DeallocaFlags::empty()).expect("for once");
        }
    }
}

/// Kernels that use more than they may.
const KERNELS: &str = r#"
vm.module @kernels version 0
vm.type i8
vm.type i32
vm.type !vm.buffer
vm.type !vm.list<!vm.buffer>
vm.type !vm.list<i8>

vm.export @nothing
vm.func @nothing KERNEL -> () {
^bb0:
  vm.return
}

vm.export @spin
vm.func @spin KERNEL -> () {
^bb0:
  vm.br ^bb0()
}

vm.export @recurse
vm.func @recurse KERNEL -> () {
^bb0:
  vm.call @recurse(%r0, %r1, %r2, %i0, %i1, %i2, %i3, %i4, %i5, %i6, %i7, %i8)
  vm.return
}

vm.export @list
vm.func @list KERNEL -> () {
^bb0:
  %i0 = vm.const.i32 100000000
  %r3 = vm.list.alloc %i0 : !vm.list<i8>
  vm.return
}
"#;

/// Signature of a kernel.
const KERNEL: &str = "(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.list<!vm.buffer>, %i0: i32, %i1: i32, %i2: i32, %i3: i32, %i4: i32, \
                      %i5: i32, %i6: i32, %i7: i32, %i8: i32)";

/// Dispatches a kernel to a queue as a program does that hands it over; waits for the end.
fn dispatch(session: &Session, kernel: &str, grid: [u32; 3]) -> Result<()> {
    let bytes = assemble(&KERNELS.replace("KERNEL", KERNEL)).unwrap_or_else(|error| panic!("{error}"));
    let device = &session.device;
    let cache = device.create_executable_cache("")?;
    let mode = ExecutableCachingMode::empty();
    let executable = cache.prepare_executable(QueueAffinity::ANY, mode, "vmvx-bytecode-fb", &bytes, &[])?;
    let config = DispatchConfig {
        workgroup_size: [1; 3],
        workgroup_count: grid,
        workgroup_count_ref: BufferRef { buffer: None, slot: 0, offset: 0, length: 0 },
        dynamic_workgroup_local_memory: 0,
    };
    let (function, flags) = (executable.lookup_function(kernel)?, DispatchFlags::empty());
    let done = Fence::create();
    let signal = done.timepoints();
    device.queue_dispatch(QueueAffinity::ANY, &[], signal, &executable, function, &config, &[], &[], flags)?;
    done.wait(None)
}

#[test]
fn kernels_are_held_to_the_limits() {
    for uri in ["local-sync", "local-task"] {
        for (kernel, grid, code, part) in [
            ("spin", [1, 1, 1], StatusCode::DeadlineExceeded, "deadline exceeded after "),
            ("spin", [64, 64, 1], StatusCode::DeadlineExceeded, "deadline exceeded after "),
            ("nothing", [1 << 16, 1 << 16, 1], StatusCode::DeadlineExceeded, "deadline exceeded after "),
            ("recurse", [1, 1, 1], StatusCode::ResourceExhausted, "stack overflow"),
            ("list", [1, 1, 1], StatusCode::ResourceExhausted, " bytes requested for a list, "),
        ] {
            let mut policy = policy(DispatchMode::Auto);
            if code == StatusCode::DeadlineExceeded {
                policy.limits.timeout = Some(Duration::from_millis(50));
            }
            let session = Session::new(&policy, uri);
            let error = dispatch(&session, kernel, grid).expect_err("exceeds a limit");
            assert_eq!(error.code(), code, "{kernel} on {uri}: {error}");
            assert!(error.to_string().contains(part), "{kernel} on {uri}: {error}");
        }
    }
}

#[test]
fn limits_of_the_untrusted_policy_are_there_and_models_run_within_them() {
    let policy = SecurityPolicy::untrusted();
    let Limits { stack_bytes, deadline, timeout, memory, .. } = &policy.limits;
    assert!(!policy.native_code && !policy.writable_parameters && policy.zeroed_memory);
    assert_eq!((*stack_bytes, *deadline), (8 << 20, None));
    assert_eq!(*timeout, Some(Duration::from_secs(10)));
    assert_eq!(memory.as_ref().map(MemoryBudget::limit), Some(1 << 30));
    let device = device(&policy, "local-task");
    let root = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models");
    let hal = || Module::native(HalModule::new(vec![device.clone()])).expect("is in order");
    let model = |file: &str| Module::from_file(root.join(file)).expect("is in order");
    let portable = Context::with_limits([hal(), model("vmvx_softmax.vmfb")], policy.limits.clone());
    portable.expect("has kernels in portable bytecode");
    let native = Context::with_limits([hal(), model("softmax.vmfb")], policy.limits.clone());
    native.expect_err("has kernels that are machine code");
}
