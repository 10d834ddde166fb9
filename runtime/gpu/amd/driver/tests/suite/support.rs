//! Support of tests: a machine with a driver, devices and buffers, and functions that stand for kernels.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vireo_amdgpu::agent::System;
use vireo_amdgpu::device::DeviceOptions;
use vireo_amdgpu::driver::AmdDriver;
use vireo_amdgpu::executable::Container;
use vireo_amdgpu::symbols::Hsa;
use vireo_core::status::Status;
use vireo_hal::{
    Buffer, BufferParams, BufferRef, BufferUsage, Device, Driver, Executable, ExecutableCachingMode, ExternalFile,
    ExternalFileFlags, ExternalFileType, File, FillFlags, HostSemaphore, MemoryAccess, MemoryType, QueueAffinity,
    Semaphore, SemaphoreFlags, StringPair, Timepoint,
};
use vireo_hsa::hsa_symbols::HsaFunctions;
use vireo_hsa::object::CodeObject;
use vireo_hsa::targets::PROCESSORS;
use vireo_simt::{Fault, Port, Trap, TrapKind};
use vireo_softhsa::{KernelDispatch, KernelRunner, PacketObserver, Topology};

/// The executable of `fixtures/amdgpu/kernels.mlir`.
pub const KERNELS: &[u8] = include_bytes!("../../../../../../fixtures/amdgpu/kernels_gfx1100.amd1");

/// Ordinals of its functions.
pub const ADD: u64 = 0;
pub const ABS: u64 = 1;

/// The driver's own kernels for a processor: its own, those of its generic target, or none.
pub fn builtins(isa: &str) -> Option<Vec<u8>> {
    let processor = PROCESSORS.iter().find(|processor| processor.name == isa)?;
    let read = |name: &str| {
        let file = format!("{}/src/builtin/kernels_{name}.hsaco", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(file).ok()
    };
    read(isa).or_else(|| read(processor.generic))
}

/// The names of kernels by what tells their descriptors apart: the distance to the code, and the size of arguments.
fn names(isa: &str) -> HashMap<(i64, u32), String> {
    let mut names = HashMap::new();
    let executable = Container::read(KERNELS).expect("well-formed");
    let builtins = builtins(isa);
    for image in executable.modules.iter().copied().chain(builtins.as_deref()) {
        let object = CodeObject::parse(image).expect("a code object");
        for symbol in &object.symbols {
            let Some(name) = symbol.name.strip_suffix(".kd") else { continue };
            let (descriptor, _) = object.descriptor(symbol).expect("a descriptor");
            let key = (descriptor.kernel_code_entry_byte_offset, descriptor.kernarg_size);
            assert!(names.insert(key, name.to_string()).is_none(), "`{name}` cannot be told apart");
        }
    }
    names
}

/// A gate that kernels pass before they run.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    /// Whether kernels are held, and how many may pass nevertheless.
    is_closed: bool,
    may_pass: usize,
    /// How many are held.
    held: usize,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self) {
        let mut state = self.lock();
        state.held += 1;
        self.changed.notify_all();
        while state.is_closed && state.may_pass == 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.may_pass = state.may_pass.saturating_sub(1);
        state.held -= 1;
    }
}

/// Holds all kernels until it is dropped.
pub struct Held<'a>(&'a Gate);

impl Held<'_> {
    /// Waits until a kernel is held.
    pub fn wait_for_kernel(&self) {
        let mut state = self.0.lock();
        while state.held == 0 {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets one kernel pass.
    pub fn let_one_pass(&self) {
        self.0.lock().may_pass += 1;
        self.0.changed.notify_all();
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        (state.is_closed, state.may_pass) = (false, 0);
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Runs kernels as functions of the tests.
#[derive(Default)]
struct Runner {
    names: HashMap<(i64, u32), String>,
    /// A kernel that traps.
    trapping: Option<&'static str>,
    /// A kernel that runs until its queue is stopped.
    endless: Arc<Mutex<Option<&'static str>>>,
    ran: Arc<Mutex<Vec<String>>>,
    gate: Arc<Gate>,
}

fn words<const N: usize>(port: &mut Port<'_>, address: u64) -> Result<[u64; N], Fault> {
    let mut values = [0; N];
    for (index, value) in values.iter_mut().enumerate() {
        let [low, high] = port.load_words::<2>(address + index as u64 * 8)?;
        *value = u64::from(high) << 32 | u64::from(low);
    }
    Ok(values)
}

/// Does the work of the kernel of this name.
fn kernel(name: &str, port: &mut Port<'_>, arguments: u64) -> Result<(), Fault> {
    let unit = |name: &str| {
        if name.ends_with("x16") {
            16
        } else if name.ends_with("x4") {
            4
        } else {
            1u64
        }
    };
    if name.starts_with("vireo_fill") {
        let [target, pattern, units, _] = words(port, arguments)?;
        for byte in 0..units * unit(name) {
            port.store_u8(target + byte, pattern.to_le_bytes()[byte as usize % 8])?;
        }
    } else if name.starts_with("vireo_copy") {
        let [target, source, units, _] = words(port, arguments)?;
        for byte in 0..units * unit(name) {
            let value = port.load_u8(source + byte)?;
            port.store_u8(target + byte, value)?;
        }
    } else if name.starts_with("vireo_move") {
        let [target, source, units, step] = words(port, arguments)?;
        let length = units * unit(name);
        for index in 0..length {
            let byte = if (step as i64) < 0 { length - 1 - index } else { index };
            let value = port.load_u8(source + byte)?;
            port.store_u8(target + byte, value)?;
        }
    } else if name == "vireo_patch_grid" {
        let [counts, packet, implicit, sizes, last] = words(port, arguments)?;
        let counts = port.load_words::<3>(counts)?;
        let sizes = [sizes as u32, (sizes >> 32) as u32, last as u32];
        if implicit != 0 {
            port.store_words(implicit, counts)?;
        }
        let items: [u32; 3] = std::array::from_fn(|index| counts[index] * sizes[index]);
        let mut first = (last >> 32) as u32;
        if items.contains(&0) {
            port.store_words(packet + 4, [0; 11])?;
            first = (first + 1) & 0xffff;
        } else {
            port.store_words(packet + 12, items)?;
        }
        port.atomic_u32(packet, |_| first)?;
    } else if name.starts_with("abs") {
        let [source, target] = words(port, arguments)?;
        for index in 0..64 {
            let [value] = port.load_words::<1>(source + index * 4)?;
            port.store_words(target + index * 4, [value & 0x7fff_ffff])?;
        }
    } else if name.starts_with("add") {
        let [left, right, target, count] = words(port, arguments)?;
        for index in 0..count {
            let [left] = port.load_words::<1>(left + index * 4)?.map(f32::from_bits);
            let [right] = port.load_words::<1>(right + index * 4)?.map(f32::from_bits);
            port.store_words(target + index * 4, [(left + right).to_bits()])?;
        }
    }
    Ok(())
}

impl Runner {
    /// Runs until the queue is stopped, or the kernel may end.
    fn run_without_end(&self, name: &str, dispatch: &KernelDispatch<'_>) -> Result<(), Trap> {
        while *self.endless.lock().unwrap_or_else(PoisonError::into_inner) == Some(name) {
            if dispatch.stop.requested() {
                return Err(Trap::new(TrapKind::Stopped));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl KernelRunner for Runner {
    fn run(&self, dispatch: &KernelDispatch<'_>) -> Result<(), Trap> {
        let descriptor = dispatch.descriptor;
        let name = self.names.get(&(descriptor.kernel_code_entry_byte_offset, descriptor.kernarg_size));
        let name = name.ok_or_else(|| Trap::new(TrapKind::UnknownInstruction))?;
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        self.gate.pass();
        if self.trapping == Some(name) {
            return Err(Trap::new(TrapKind::Raised(7)));
        }
        if *self.endless.lock().unwrap_or_else(PoisonError::into_inner) == Some(name) {
            return self.run_without_end(name, dispatch);
        }
        let mut port = Port::new(dispatch.memory);
        kernel(name, &mut port, dispatch.packet.kernarg_address).map_err(|fault| Trap::new(TrapKind::Memory(fault)))
    }
}

/// A machine with a software agent, of which there is one in a process at a time, and its driver.
pub struct Machine {
    pub driver: AmdDriver,
    ran: Arc<Mutex<Vec<String>>>,
    endless: Arc<Mutex<Option<&'static str>>>,
    gate: Arc<Gate>,
    _turn: MutexGuard<'static, ()>,
}

impl Machine {
    pub fn new(topology: &str) -> Machine {
        Machine::with(topology, None)
    }

    /// A machine on which a kernel traps.
    pub fn with(topology: &str, trapping: Option<&'static str>) -> Machine {
        Machine::over(topology, trapping, vireo_softhsa::functions(), DeviceOptions::default())
    }

    /// A machine whose packets an observer is told of.
    pub fn traced(topology: &str, observer: Arc<dyn PacketObserver>) -> Machine {
        let (functions, options) = (vireo_softhsa::functions(), DeviceOptions::default());
        Machine::new_with(topology, Some(observer), functions, options, |runner| Some(Arc::new(runner)))
            .expect("it starts")
    }

    /// A machine whose library may lack functions, with options of devices.
    pub fn over(
        topology: &str,
        trapping: Option<&'static str>,
        functions: HsaFunctions,
        options: DeviceOptions,
    ) -> Machine {
        Machine::try_over(topology, trapping, functions, options).expect("it starts")
    }

    /// The same, where the library may fail.
    pub fn try_over(
        topology: &str,
        trapping: Option<&'static str>,
        functions: HsaFunctions,
        options: DeviceOptions,
    ) -> Result<Machine, Status> {
        Machine::new_with(topology, None, functions, options, |runner| Some(Arc::new(Runner { trapping, ..runner })))
    }

    /// A machine whose kernels are interpreted.
    pub fn interpreting(options: DeviceOptions) -> Machine {
        Machine::new_with("", None, vireo_softhsa::functions(), options, |_| None).expect("it starts")
    }

    fn new_with(
        topology: &str,
        observer: Option<Arc<dyn PacketObserver>>,
        functions: HsaFunctions,
        options: DeviceOptions,
        runner: impl FnOnce(Runner) -> Option<Arc<dyn KernelRunner>>,
    ) -> Result<Machine, Status> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let topology: Topology = topology.parse().expect("a topology");
        let own = Runner { names: names(&topology.isa), ..Runner::default() };
        let (ran, endless, gate) = (own.ran.clone(), own.endless.clone(), own.gate.clone());
        let runner = runner(own);
        // Threads of a device that ended before its operations may still let go of the library.
        while vireo_softhsa::configure(topology.clone(), runner.clone()).is_err() {
            std::thread::yield_now();
        }
        vireo_softhsa::trace_packets(observer).expect("nobody uses the library");
        // SAFETY: the functions are those of one library, which is part of the program.
        let hsa = unsafe { Hsa::start(functions, None) }?;
        let system = System::discover(&hsa)?;
        Ok(Machine { driver: AmdDriver::new(system, options), ran, endless, gate, _turn: turn })
    }

    /// A device with parameters `key=value`.
    pub fn device(&self, path: &str, params: &[(&str, &str)]) -> Arc<dyn Device> {
        let pair = |(key, value): &(&str, &str)| StringPair { key: key.to_string(), value: value.to_string() };
        let params: Vec<StringPair> = params.iter().map(pair).collect();
        self.driver.create_device_by_path("amdgpu", path, &params).expect("there is such a device")
    }

    /// Holds all kernels that begin from here on.
    pub fn hold_kernels(&self) -> Held<'_> {
        self.gate.lock().is_closed = true;
        Held(&self.gate)
    }

    /// Lets a kernel run until its queue is stopped, or none.
    pub fn never_ends(&self, kernel: Option<&'static str>) {
        *self.endless.lock().unwrap_or_else(PoisonError::into_inner) = kernel;
    }

    /// The kernels that ran since the last call.
    pub fn ran(&self) -> Vec<String> {
        std::mem::take(&mut *self.ran.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where tests make timelines, buffers and executables.
pub trait TestDevice {
    fn timeline(&self) -> Arc<dyn Semaphore>;
    fn buffer(&self, length: u64, memory_type: MemoryType) -> Arc<dyn Buffer>;
    fn executable(&self) -> Arc<dyn Executable>;
    /// The bytes of a buffer, through memory of the host.
    fn read(&self, buffer: &Arc<dyn Buffer>) -> Vec<u8>;
    fn write(&self, buffer: &Arc<dyn Buffer>, bytes: &[u8]);
    fn fill(&self, queue: u32, wait: &[Timepoint], signal: &[Timepoint], buffer: &Arc<dyn Buffer>, value: u32);
}

pub fn queue(index: u32) -> QueueAffinity {
    QueueAffinity::from_bits_retain(1 << index)
}

pub fn at(semaphore: &Arc<dyn Semaphore>, value: u64) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value }
}

pub fn whole(buffer: &Arc<dyn Buffer>) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: buffer.byte_length() }
}

/// Waits for a point; tests hang, rather than fail by a clock, where it is never reached.
pub fn wait(semaphore: &Arc<dyn Semaphore>, value: u64) {
    semaphore.wait(value, None).expect("it is reached");
}

/// Waits for a point for at most 20 seconds: what is never reached fails the test that says so.
pub fn soon(semaphore: &Arc<dyn Semaphore>, value: u64) -> Result<(), Status> {
    semaphore.wait(value, Some(Instant::now() + Duration::from_secs(20)))
}

/// Runs a test on a thread of its own. If it takes longer than a minute, threads of it are stuck, which nothing can
/// join: the process ends.
pub fn in_time(test: impl FnOnce() + Send + 'static) {
    let name = std::thread::current().name().unwrap_or("a test").to_string();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let runs = std::thread::spawn(move || {
        // Also told if the test panics.
        let _sender = sender;
        test();
    });
    if receiver.recv_timeout(Duration::from_secs(60)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        eprintln!("{name}: its threads are stuck");
        std::process::exit(101);
    }
    if let Err(panic) = runs.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Memory as a file, which a device imports.
pub fn file(device: &Arc<dyn Device>, bytes: &mut [u8]) -> Arc<dyn File> {
    let external = ExternalFile {
        r#type: ExternalFileType::HostAllocation,
        data: Some(std::ptr::NonNull::from(&mut *bytes).cast()),
        length: bytes.len() as u64,
        fd: -1,
        owner: None,
    };
    let access = MemoryAccess::READ | MemoryAccess::WRITE;
    // SAFETY: tests keep the bytes as long as the file.
    let file = unsafe { device.import_file(QueueAffinity::ANY, access, &external, ExternalFileFlags::empty()) };
    file.expect("it is imported")
}

impl TestDevice for Arc<dyn Device> {
    fn timeline(&self) -> Arc<dyn Semaphore> {
        self.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty()).expect("there are timelines")
    }

    fn buffer(&self, length: u64, memory_type: MemoryType) -> Arc<dyn Buffer> {
        let usage = BufferUsage::DEFAULT | BufferUsage::DISPATCH_INDIRECT_PARAMETERS;
        let params = BufferParams { memory_type, usage, ..BufferParams::default() };
        self.allocator().allocate_buffer(params, length).expect("there is memory")
    }

    fn executable(&self) -> Arc<dyn Executable> {
        let cache = self.create_executable_cache("tests").expect("there are caches");
        let mode = ExecutableCachingMode::empty();
        cache.prepare_executable(QueueAffinity::ANY, mode, "gfx1100", KERNELS, &[]).expect("it loads")
    }

    fn read(&self, buffer: &Arc<dyn Buffer>) -> Vec<u8> {
        let host = self.buffer(buffer.byte_length(), MemoryType::HOST_LOCAL);
        let done: Arc<dyn Semaphore> = Arc::new(HostSemaphore::new(0));
        let (any, flags) = (QueueAffinity::ANY, Default::default());
        let length = buffer.byte_length();
        self.queue_copy(any, &[], &[at(&done, 1)], buffer, 0, &host, 0, length, flags).expect("it is submitted");
        wait(&done, 1);
        vireo_hal::buffer_to_vec(&*host, length).expect("the host reaches it")
    }

    fn write(&self, buffer: &Arc<dyn Buffer>, bytes: &[u8]) {
        let done = self.timeline();
        let (any, flags) = (QueueAffinity::ANY, Default::default());
        self.queue_update(any, &[], &[at(&done, 1)], bytes, buffer, 0, flags).expect("it is submitted");
        wait(&done, 1);
    }

    fn fill(&self, index: u32, wait: &[Timepoint], signal: &[Timepoint], buffer: &Arc<dyn Buffer>, value: u32) {
        let (length, flags) = (buffer.byte_length(), FillFlags::empty());
        let filled = self.queue_fill(queue(index), wait, signal, buffer, 0, length, &value.to_le_bytes(), flags);
        filled.expect("it is submitted");
    }
}
