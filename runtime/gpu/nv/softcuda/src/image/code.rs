//! The seam to the interpreter of PTX ([`Code`]): what loads texts, with the variables of the module in memory of the
//! device, and runs kernels.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};

use vireo_cuda::result::CuResult;
use vireo_ptx::limits::WORKSPACE_BYTES;
use vireo_ptx::{GlobalSpace, LoadErrorKind, Trap, TrapKind};
use vireo_simt::sanitize::{Known, NewDispatch};
use vireo_simt::{AccessHook, LANES, Stop};

use crate::api::{DeviceView, Outcome};
use crate::context::Context;
use crate::image::sites::KernelCode;
use crate::image::{Kernel, Launch, LoadError, Parameter, Texts};
use crate::launch::threads;
use crate::memory::{Detail, Sort};
use crate::reports::tell;
use crate::system::System;

/// Registers of a multiprocessor for each thread of the largest block. The interpreter has as many as it likes, and
/// hardware would spill what is more.
const MAX_REGISTERS: u32 = 64;
/// Variables of a module at most, in bytes.
const MAX_VARIABLE: u64 = 1 << 32;

/// Where code is loaded and runs.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// The machine.
    pub(crate) system: &'static System,
    /// The context.
    pub(crate) context: Arc<Context>,
}

/// Loaded code.
#[derive(Debug)]
pub(crate) struct Code {
    module: Arc<vireo_ptx::Module>,
    /// Its texts, for the reports of the sanitizer, if there is one.
    texts: Arc<Texts>,
    /// The addresses of its variables.
    globals: Vec<u64>,
}

/// The functions `malloc` and `free` of kernels.
const DEVICE_HEAP: &str = include_str!("device_heap.ptx");

/// The results of loading: the code, its kernels, and its variables with addresses and sizes.
pub(crate) type Loaded = (Code, Vec<Kernel>, Vec<(String, u64, u64)>);

impl Code {
    /// Loads texts.
    pub(crate) fn load(texts: &Texts, environment: &Environment) -> Result<Loaded, LoadError> {
        let sources: Vec<&[u8]> = texts.texts.iter().map(String::as_bytes).collect();
        let options = vireo_ptx::Options { target: Some(environment.system.options.sm) };
        let linked = vireo_ptx::Module::link(&sources, &options);
        let linked = linked.or_else(|error| match error.kind {
            // Few programs allocate memory in kernels, so only those have a heap.
            LoadErrorKind::Unresolved => {
                let with_heap: Vec<&[u8]> = sources.iter().copied().chain([DEVICE_HEAP.as_bytes()]).collect();
                vireo_ptx::Module::link(&with_heap, &options).map_err(|_| error)
            }
            _ => Err(error),
        });
        let module = linked.map_err(|error| {
            let text = format!("PTX: {error}");
            match error.kind {
                LoadErrorKind::Version => LoadError::Version(text),
                _ => LoadError::Ptx(text),
            }
        })?;
        let globals = allocate(&module, environment)?;
        let most = texts.max_registers.unwrap_or(MAX_REGISTERS).clamp(16, MAX_REGISTERS);
        let constants = module.globals().iter().filter(|global| global.space == GlobalSpace::Const);
        let constant = constants.map(|global| global.size).fold(0, u64::saturating_add);
        let constant = u32::try_from(constant).unwrap_or(u32::MAX);
        let kernel = |kernel: &vireo_ptx::Kernel| Kernel {
            name: kernel.name().to_string(),
            parameters: kernel
                .parameters()
                .iter()
                .map(|parameter| Parameter { offset: parameter.offset, size: parameter.size })
                .collect(),
            parameter_bytes: kernel.parameter_bytes(),
            registers: kernel.registers().clamp(16, most),
            shared: kernel.shared_bytes(),
            local: kernel.local_bytes(),
            constant,
            max_threads: kernel.max_threads(),
        };
        let kernels = module.kernels().iter().map(kernel).collect();
        let named = module.globals().iter().zip(&globals);
        let variables = named.map(|(global, address)| (global.name.clone(), *address, global.size)).collect();
        let has_sanitizer = environment.system.memory.sanitizer.is_some();
        let texts = Arc::new(if has_sanitizer { texts.clone() } else { Texts::default() });
        Ok((Code { module: Arc::new(module), texts, globals }, kernels, variables))
    }

    /// Bytes that a block of a launch needs while it is alive.
    pub(crate) fn block_bytes(&self, kernel: usize, launch: &Launch) -> u64 {
        let threads = launch.block.iter().map(|size| u64::from(*size)).product();
        self.module.kernels()[kernel].block_bytes(threads, launch.shared)
    }

    /// Runs a kernel to its end, with so many blocks alive at most unless the launch is cooperative.
    pub(crate) fn launch(
        &self,
        kernel: usize,
        launch: &Launch,
        resident: u64,
        environment: &Environment,
        (stream, known): (u64, &mut Known),
    ) -> Outcome {
        let Environment { system, context } = environment;
        let workspace = launch.is_cooperative.then(|| Workspace::new(environment)).transpose()?;
        let view = DeviceView::new(&system.memory.map, context.device);
        let checked = system.memory.sanitizer.as_ref().map(|sanitizer| {
            let (module, texts, block) = (self.module.clone(), self.texts.clone(), launch.block);
            let code = Arc::new(KernelCode { module, texts, kernel, block });
            let waves = u32::try_from(threads(block).div_ceil(LANES as u64)).unwrap_or(u32::MAX);
            let dispatch = NewDispatch { code, queue: stream, packet: 0, groups: launch.grid, waves };
            (sanitizer, sanitizer.begin_after(dispatch, known))
        });
        let hook = checked.as_ref().map(|(sanitizer, dispatch)| sanitizer.hook(dispatch, &view));
        let stop = Stop::default();
        // On a GPU texts wait in a buffer until the host waits for the kernel. The program sees no difference, and
        // loses none of them.
        let print = |text: &[u8]| print(text);
        let wanted = vireo_ptx::Launch {
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared,
            params: &launch.parameters,
            globals: &self.globals,
            memory: &view,
            hook: hook.as_ref().map(|hook| hook as &dyn AccessHook),
            stop: &stop,
            resident,
            is_cooperative: launch.is_cooperative,
            workspace: workspace.as_ref().map_or(0, |workspace| workspace.address),
            print: Some(&print),
            limit: u64::MAX,
            grid_id: system.id(),
            threads: system.threads(),
            pool: &system.pool,
        };
        let run = || self.module.kernels()[kernel].launch(&wanted);
        let (result, is_late) = match system.options.timeout {
            None => (run(), false),
            Some(time) => std::thread::scope(|scope| {
                let (done, is_done) = channel::<()>();
                let stop = &stop;
                let watch = scope.spawn(move || {
                    let is_late = is_done.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
                    if is_late {
                        stop.request();
                    }
                    is_late
                });
                let result = run();
                drop(done);
                (result, watch.join().unwrap_or(false))
            }),
        };
        let refused = checked.as_ref().map_or(0, |(sanitizer, dispatch)| {
            *known = sanitizer.finish(dispatch);
            dispatch.refused()
        });
        match result {
            // The accesses that the sanitizer has reported would have stopped the kernel.
            Ok(_) if refused != 0 => Err(CuResult::ERROR_ILLEGAL_ADDRESS),
            Ok(_) => Ok(()),
            Err(trap) => {
                tell(&trap);
                Err(if is_late && trap.kind == TrapKind::Stopped {
                    CuResult::ERROR_LAUNCH_TIMEOUT
                } else {
                    status(&trap)
                })
            }
        }
    }
}

/// The memory where the blocks of a cooperative launch meet.
struct Workspace<'e> {
    address: u64,
    environment: &'e Environment,
}

impl<'e> Workspace<'e> {
    fn new(environment: &'e Environment) -> Outcome<Self> {
        let address = environment.system.memory.allocate(variable(environment, WORKSPACE_BYTES))?;
        let size = std::ptr::with_exposed_provenance_mut::<u32>(address as usize);
        // SAFETY: the memory was allocated above with more bytes, and is in use nowhere. A page is aligned.
        unsafe { size.write(WORKSPACE_BYTES as u32) };
        Ok(Workspace { address, environment })
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        self.environment.system.memory.free(self.address, "the end of a launch");
    }
}

/// The details of memory of a context that no program frees.
fn variable(environment: &Environment, size: u64) -> Detail {
    let context = &environment.context;
    Detail {
        sort: Sort::Variable,
        context: context.handle(),
        device: context.device,
        pool: 0,
        size,
        flags: 0,
        is_ending: false,
    }
}

/// Allocates the variables of a module and fills them. On an error those so far are freed.
fn allocate(module: &vireo_ptx::Module, environment: &Environment) -> Result<Vec<u64>, LoadError> {
    let memory = &environment.system.memory;
    let mut globals = Vec::new();
    let result = module.globals().iter().try_for_each(|global| {
        if global.is_external {
            return Err(LoadError::Ptx(format!("PTX: the variable `{}` is nowhere defined", global.name)));
        }
        if global.size > MAX_VARIABLE || global.initial.len() as u64 > global.size {
            return Err(LoadError::Memory(CuResult::ERROR_OUT_OF_MEMORY));
        }
        let detail = variable(environment, global.size.max(1));
        globals.push(memory.allocate(detail).map_err(LoadError::Memory)?);
        Ok(())
    });
    if let Err(error) = result {
        globals.into_iter().for_each(|address| memory.free(address, "a module that failed to load"));
        return Err(error);
    }
    for (global, address) in module.globals().iter().zip(&globals) {
        let mut bytes = global.initial.clone();
        for relocation in &global.relocations {
            let target = globals.get(relocation.global).copied().unwrap_or(0).wrapping_add_signed(relocation.addend);
            let start = usize::try_from(relocation.offset).unwrap_or(usize::MAX);
            let end = start.saturating_add(8);
            if end as u64 <= global.size {
                bytes.resize(bytes.len().max(end), 0);
                bytes[start..end].copy_from_slice(&target.to_le_bytes());
            }
        }
        let to = std::ptr::with_exposed_provenance_mut::<u8>(*address as usize);
        // SAFETY: the variable was allocated above with at least as many bytes, and is in use nowhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
    Ok(globals)
}

/// The status of a trap.
fn status(trap: &Trap) -> CuResult {
    match &trap.kind {
        TrapKind::Memory(fault) => match fault.why {
            vireo_simt::Refusal::Unaligned => CuResult::ERROR_MISALIGNED_ADDRESS,
            vireo_simt::Refusal::OtherSpace => CuResult::ERROR_INVALID_ADDRESS_SPACE,
            _ => CuResult::ERROR_ILLEGAL_ADDRESS,
        },
        TrapKind::UnknownInstruction | TrapKind::NotImplemented(_) | TrapKind::InvalidOperand(_) => {
            CuResult::ERROR_ILLEGAL_INSTRUCTION
        }
        TrapKind::InvalidAddress | TrapKind::InvalidJump(_) => CuResult::ERROR_INVALID_PC,
        TrapKind::InvalidDispatch(_) => CuResult::ERROR_LAUNCH_OUT_OF_RESOURCES,
        TrapKind::Stopped => CuResult::ERROR_LAUNCH_TIMEOUT,
        _ => CuResult::ERROR_LAUNCH_FAILED,
    }
}

/// Writes what a kernel prints to the standard output stream. A closed stream is no error. The stream of the process is
/// not locked: its thread may hold that while it waits for the kernel.
#[cfg(unix)]
fn print(text: &[u8]) {
    use std::os::fd::AsFd;

    if let Ok(stream) = std::io::stdout().as_fd().try_clone_to_owned() {
        drop(std::fs::File::from(stream).write_all(text));
    }
}

#[cfg(not(unix))]
fn print(text: &[u8]) {
    let mut stream = std::io::stdout().lock();
    drop(stream.write_all(text).and_then(|()| stream.flush()));
}
