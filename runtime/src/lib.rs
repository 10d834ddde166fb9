//! Vireo: a runtime for IREE programs.
//!
//! It loads the `.vmfb` modules that `iree-compile` writes, verifies every byte of them, and runs them: host code on a
//! register virtual machine, device code on HAL devices.
//!
//! ```
//! use vireo::{Session, inputs};
//!
//! # fn main() -> vireo::Result<()> {
//! # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).expect("the workspace exists");
//! let session = Session::builder().device("local-task").load("fixtures/models/mlp.vmfb")?;
//! let x = vec![1.0f32; 8 * 64];
//! let y: Vec<f32> = session.call("mlp", inputs![([8, 64], &x)])?.get()?;
//! assert_eq!(y.len(), 8 * 16);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Session`] is a model with state on its devices; many can share one [`Model`]. [`inference`] has both, with what
//! calls take and return. Below it are the [virtual machine](vm), [devices](hal) and [parameters](io), for hosts that
//! want to say themselves what a program gets.
//!
//! Everything is `Send + Sync`, and functions take `&self`. Errors are a [`Status`] with a code, a message, a cause and
//! the frames of the program that were active.
//!
//! | feature | by default | what it adds |
//! |---|---|---|
//! | `vm` | yes | nothing: files, verification, the assembler, the interpreter and modules in Rust are always there |
//! | `jit` | yes | machine code for programs, on x86-64 |
//! | `trace` | yes | [`Tier::Traced`](interp::Tier::Traced): a line for each op that is executed |
//! | `hal` | yes, by others | [`inference`]: sessions; [`hal`]: devices as such, and the [`modules`] by which programs use them |
//! | `local` | yes | the drivers of the host, with `hal` |
//! | `driver-libraries` | yes | drivers in shared libraries: loading them, and being one, with `hal` |
//! | `check-kernels` | yes | a look at kernels for instructions that the processor lacks, with `local` |
//! | `vmvx` | yes | kernels in portable bytecode, with `hal` |
//! | `params` | yes | [`io`]: archives of parameters, with `hal` |
//! | `amdgpu` | yes | the driver of AMD GPUs, with `local` |
//! | `cuda` | yes | the driver of NVIDIA GPUs, with `local` |
//! | `replay` | yes | [`replay`]: captures of what devices are asked to do, recorded and read, with `hal` |
//! | `profile` | yes | [`profile`]: profiles of what devices do, with `hal` |
//! | `software-agents` | no | the software agent and the software CUDA driver, which interpret the code of such GPUs on the processor, with `amdgpu` and with `cuda` |
//! | `tracing` | no | events of the crate `tracing`: models, sessions and calls, with `hal` |
//! | `files` | no | [`inference`]: tensors in `.npy`, `.npz` and `.safetensors` files, with `params` |
//! | `half` | no | `half::f16` and `half::bf16` as elements of tensors, with `hal` |
//! | `ndarray` | no | arrays of the crate `ndarray` as arguments and results of calls, with `hal` |
//! | `bind` | no | `bind!`: a type with a function for each export of a compiled model, with `local` |
//!
//! The crate is a facade: it exports the public part of the crates `vireo-*` and chooses the drivers and loaders of a
//! build.
//!
//! The package of this crate is `vireo-runtime`. A program that only runs bytecode depends on it with
//! `default-features = false, features = ["vm"]`.

// Users call what is here: its documentation says how it fails.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

// The programs in the guides compile: they are tests of this crate, which has all features in tests.
#[cfg(all(
    doctest,
    feature = "bind",
    feature = "files",
    feature = "ndarray",
    feature = "params",
    feature = "driver-libraries"
))]
mod guides {
    #[doc = include_str!("../../docs/devices.md")]
    mod devices {}
    #[doc = include_str!("../../docs/jit.md")]
    mod jit {}
    #[doc = include_str!("../../docs/library.md")]
    mod library {}
    #[doc = include_str!("../../docs/parameters.md")]
    mod parameters {}
}

#[cfg(feature = "hal")]
pub use vireo_inference::{Input, Model, Session, inputs};

/// Makes a type for a compiled model: `Bound`, with a method for each function that the model declares. The path is
/// relative to the `Cargo.toml` of the crate. A build follows when the file changes, and the file becomes part of the
/// program.
///
/// ```
/// mod mlp {
///     vireo::bind!("../fixtures/models/mlp.vmfb");
/// }
///
/// # fn main() -> vireo::Result<()> {
/// let mlp = mlp::Bound::load(vireo::Session::builder().device("local-sync"))?;
/// let y = mlp.mlp(&[[1.0; 64]; 8])?;
/// assert_eq!(y.shape(), [8, 16]);
/// # Ok(())
/// # }
/// ```
///
/// Arguments are numbers, arrays of arrays of the shape of a tensor, slices for tensors of one dimension of any size,
/// tensors of the host or the device, and with the feature `ndarray` arrays. An argument of another type is an error of
/// the Rust compiler that names argument, expected and found:
///
/// ```compile_fail
/// # mod mlp {
/// #     vireo::bind!("../fixtures/models/mlp.vmfb");
/// # }
/// # fn call(mlp: mlp::Bound) -> vireo::Result<()> {
/// mlp.mlp(&[[1.0f64; 64]; 8])?; // argument `input0` of `mlp` is a tensor<8x64xf32>, found `&[[f64; 64]; 8]`
/// # Ok(())
/// # }
/// ```
///
/// Results are numbers, [`Elements`](inference::Elements) of tensors, or tuples of them.
#[cfg(feature = "bind")]
pub use vireo_bind::bind;

/// Sessions: compiled models whose functions are called with tensors of the host.
#[cfg(feature = "hal")]
pub mod inference {
    #[cfg(feature = "files")]
    pub use vireo_inference::files;
    // Numbers and elements in texts, for the command line.
    #[doc(hidden)]
    pub use vireo_inference::text_parts;
    // Arrays of other libraries with strides, for bindings.
    #[doc(hidden)]
    pub use vireo_inference::StridedMemory;
    pub use vireo_inference::dlpack;
    pub use vireo_inference::{
        Call, CallBatch, Calls, ElementDifferences, Elements, FromOutput, FromOutputs, Function, HostTensor, Input,
        MappedTensor, Model, ModelBuilder, NumberError, Output, Outputs, PreparedCall, Session, Signature, Tensor,
        TensorDifference, TensorTextError, TensorType, Tolerance, ValueInfo, ValueType,
    };
    #[cfg(feature = "cuda")]
    pub use vireo_inference::{CudaDevice, CudaExecutable, CudaKernel, CudaModule, CudaResources};
    #[cfg(feature = "amdgpu")]
    pub use vireo_inference::{GpuExecutable, GpuKernel};
    #[cfg(feature = "local")]
    pub use vireo_inference::{
        RequiredDriver, RequiredExecutable, RequiredFormat, RequiredModule, RequiredParameter, Requirements,
    };
}

#[cfg(feature = "ndarray")]
pub use ndarray;

pub use vireo_core::status;
// Numbers and patterns in texts, and traces, as the commands read and write them.
#[doc(hidden)]
pub use vireo_core::{byte_size, glob, number_text, trace_events, visible_text};

/// The assembler: from the text of a module to a module file, and back.
pub mod asm {
    pub use vireo_module::asm::{AsmError, Directive, Keyword, Location, assemble, disassemble, signature};
}

/// Bytecode: functions that the verifier has accepted.
pub mod bytecode {
    // The decoded form of functions, which changes with the ops: for the command line, tests and benchmarks. Texts of
    // whole modules are stable: `asm::disassemble` writes them.
    #[doc(hidden)]
    pub use vireo_module::bytecode::{
        AnyReg, Block, BlockId, CallForm, CallId, CallSite, Callee, CasesId, Decoded, Edge, EdgeId, F32Bits, F64Bits,
        FunctionId, FunctionInfo, GlobalOffset, GlobalRef, ImportId, ListId, Liveness, Marshal, ModuleInfo, Names, Op,
        OperandVisitor, Passing, Placement, Printer, RefReg, Reg, Remap, RodataId, Rules, SegmentsId, StringId, TypeId,
        Word, disassemble, disassemble_op, opcode, steps, verify_function,
    };
    pub use vireo_module::bytecode::{VerifiedFunction, VerifyError};
}

/// The boundary between programs and functions in Rust: reading the arguments of a call, checking them, writing the
/// results.
pub mod abi {
    pub use vireo_vm::abi::{
        Arguments, FromNumber, FromRef, FromSpan, IntoNumber, IntoRef, RawSpan, Span, Step, Tuple, Tuples,
    };
    // For code that `#[vm_module]` writes, and for tests that compare with the specs.
    #[doc(hidden)]
    pub use vireo_vm::abi::{RefArgument, TextArgument, callees, modules, same_name, shims, state};
    #[doc(hidden)]
    pub use vireo_vm::interp::{DirectExport, DirectWords};
    #[doc(hidden)]
    pub use vireo_vm::native::DirectEntry;
}

/// The execution of programs: limits of calls, the tiers, what programs print and trace.
pub mod interp {
    // Which dispatcher runs, and checks between passes, for tests that compare them; programs choose a tier. What is
    // compiled in the background, for tests and for what measures.
    #[doc(hidden)]
    pub use vireo_context::verify_between_passes;
    #[doc(hidden)]
    pub use vireo_core::background;
    #[doc(hidden)]
    pub use vireo_core::limits::DispatchMode;
    pub use vireo_core::limits::{Limits, Tier};
    pub use vireo_module::vmfb::SourceMap;
    // The decisions of the compiler about loops, which change with it, for the command line.
    #[doc(hidden)]
    pub use vireo_vm::interp::loops;
    #[doc(hidden)]
    pub use vireo_vm::interp::machine::lent_references::LendableObjects;
    pub use vireo_vm::interp::threaded::{LeftOut, MachineCode, SideExitReason, SideExits};
    pub use vireo_vm::interp::{CodePart, CompiledFunction, Poll, Stderr, TraceRecorder, TraceSink, write_perf_map};
    // The functions that ops are made of, for tests that compare them with the compiler.
    #[doc(hidden)]
    pub use vireo_vm::interp::{CodeShape, prim};
}

/// The virtual machine: objects, native modules, and the modules, contexts and functions that a host works with.
pub mod vm {
    pub use vireo_context::{
        CallFuture, Context, ExportInfo, Function, InvocationModel, LinkedModules, Module, PendingCall,
        ReflectionAttribute, TypedFunction,
    };
    pub use vireo_module::convention;
    pub use vireo_module::convention::{Argument, Convention, Kind};
    pub use vireo_vm::interp::{Passed, PassedList};
    // The names of the types of objects, for the command line.
    #[doc(hidden)]
    pub use vireo_vm::type_names;
    pub use vireo_vm::{
        BoxedWaitSource, Buffer, Call, List, NativeExport, NativeModule, Obj, Object, Outcome, Ref, Value, WaitSource,
    };

    /// Lists.
    pub mod list {
        pub use vireo_vm::list::{Element, ElementType, List, ListType, MAX_LIST_BYTES};
    }
}

/// Tools for the code of AMD GPUs: listings of code objects, and what the sanitizer of the software agent finds.
#[cfg(feature = "software-agents")]
pub use vireo_inference::gpu;

/// The hardware abstraction layer: devices, their memory, queues and programs, and the drivers of this build.
#[cfg(feature = "hal")]
pub mod hal {
    // Layouts of packets and descriptors, for benchmarks.
    pub use vireo_hal::forward::*;
    pub use vireo_hal::traits::*;
    pub use vireo_hal::types::*;
    pub use vireo_hal::{
        Access, Accessed, AllocatorRef, AvailableDevice, BitPacker, BufferRefObject, BufferView, BufferViewRef,
        ChannelRef, CommandBufferRef, DeviceCounter, DeviceRef, DeviceTimes, DeviceUri, DispatchTime, DriverFactory,
        DriverInfo, DriverRegistry, ElementValue, ExecutableCacheRef, ExecutableFormat, ExecutableRef, Fence, FenceRef,
        FileRef, Handle, HeapAllocator, HeapBuffer, HostElement, HostSemaphore, MappingWatcher, MultiWait,
        OwnedQueueOperation, Progress, QueryCategory, QueryKey, QueueOperation, SemaphoreRef, ShapeAndType,
        SubmissionTime, Subspan, Timepoints, TimesObserver, VmType, WatchSlot, WatchedMapping, WrittenRange,
        buffer_copy, buffer_fill, buffer_from_bytes, buffer_read, buffer_to_vec, buffer_write, check_range,
        executable_library, executable_plugin, format_elements, format_view, kernel_functions, report_count,
        require_access, require_usage, subspan, vmvx_format, wait_all, wait_any,
    };
    pub use vireo_hal_driver::pool;
    pub use vireo_hal_observe::{
        AllocationLedger, AllocatorSpec, CachePool, CachePoolSpec, CacheStatistics, CachingAllocator, DebugAllocator,
        DispatchStatistics, ExecutionStatistics, ExecutionTrace, LiveAllocation, OperationCount, observe,
        wrap_allocator,
    };
    #[cfg(feature = "amdgpu")]
    #[doc(hidden)]
    pub use vireo_hsa as hsa;
    // Layouts and names of the specs, for the command line.
    #[doc(hidden)]
    pub use vireo_hal::{cpu_features, elf_format, narrow_float, types};

    #[cfg(feature = "driver-libraries")]
    pub use vireo_hal_abi::load_driver_library;
    // The boundary between hosts and driver libraries, of which `export_driver!` makes one side, for its tests.
    #[doc(hidden)]
    #[cfg(feature = "driver-libraries")]
    pub use vireo_hal_abi::{plugin, vtables};

    #[cfg(any(feature = "amdgpu", feature = "cuda"))]
    pub use vireo_inference::SanitizerChecks;
    #[cfg(feature = "amdgpu")]
    pub use vireo_inference::{AmdgpuAgent, AmdgpuConfig};
    #[cfg(feature = "local")]
    pub use vireo_inference::{BuiltinOptions, create_device, global_drivers, list_devices, load_executable_plugin};
    #[cfg(feature = "cuda")]
    pub use vireo_inference::{CudaConfig, CudaLibrary, UseGraphs};
    #[cfg(feature = "software-agents")]
    pub use vireo_inference::{PacketTrace, PacketTraceFormat};

    /// Devices that run on the host's processors: `local-sync`, on the threads that submit, and `local-task`, with
    /// workers.
    #[cfg(feature = "local")]
    pub mod local {
        pub use vireo_collectives::{CollectiveOptions, Collectives, Meeting};
        pub use vireo_hal::host_kernels::{
            Import, ImportProvider, ImportProviders, ImportTable, NoImports, feature, processor_data,
        };
        #[cfg(target_os = "linux")]
        pub use vireo_local::SystemLibraryLoader;
        pub use vireo_local::{
            EmbeddedElfLoader, ExecutablePlugin, LocalDevice, LocalExecutable, LocalExecutableCache,
            StaticLibraryLoader, TaskOptions, Topology,
        };
        // Flags of the command line, and the parts of loaders, for tests that run no code.
        #[doc(hidden)]
        pub use vireo_local::{elf, task};
        #[cfg(feature = "vmvx")]
        pub use vireo_vmvx::{LoadedKernels, VmvxExecutable, VmvxLoader};

        pub use vireo_inference::{default_loaders, loaders_for};
    }

    /// The device without kernels.
    #[cfg(feature = "local")]
    pub mod null {
        pub use vireo_local::null::{NullLoader, null_device};
    }
}

/// Parameters that live outside of programs: archives of them, and providers that hand them to programs.
#[cfg(feature = "params")]
pub mod io {
    pub use vireo_params::{
        ArchiveFormat, Contents, ContentsMode, IndexProvider, Parameter, ParameterIndex, ParameterSource,
        ParameterStorage, Progress, SourceProvider, Splat, TensorType, gguf, irpa, safetensors,
    };
}

/// Captures of what devices were asked to do, in the replay format of IREE.
#[cfg(feature = "replay")]
pub mod replay {
    pub use vireo_replay::{
        BoundRange, Candidate, CaptureFile, CaptureWriter, CapturedExecutable, Cause, CompareAs, Comparison,
        ContentsOf, Diff, DiffSide, Difference, DifferentElement, DumpError, DumpFormat, EditOptions, Edited,
        ElementValue, Examined, Expected, Extracted, FileAccess, FilePolicy, FileRemap, FileValidation,
        FirstDifference, HostRead, Minimized, NamedFile, Operation, Outputs, PAYLOADS, ParseError, Plan,
        RangeDifference, ReadError, Reader, Record, RecordRanges, Recorder, RecorderOptions, Reduced, Replay,
        ReplayOptions, Replayed, Salvaged, SteppedDispatch, SteppedRead, Stripped, Substitution, SubstitutionSource,
        Summary, Verdict, Watch, WatchDiff, diff, dump, edit, extract, format, minimize, operations, payload_type,
        payloads, reduce, salvage,
    };
}

/// Profiles of what devices did, in the profile format of IREE.
#[cfg(feature = "profile")]
pub mod profile {
    pub use vireo_profile::{
        ClockFit, Clocks, Content, DeviceSummary, DiffOptions, Model, OutputError, ProfileFile, ProfileWriter,
        ProfiledDevices, ReadError, Reader, Record, ReportFilter, ReportFormat, Summary, TypedRecord, TypedRecords,
        cat, command, counter, diff, dispatch, executable, explain, export, format, html, memory, perfetto, queue,
        records, statistics,
    };
}

/// Native modules that programs import from. Their interfaces are listed in `spec/abi/modules/`.
#[cfg(feature = "hal")]
pub mod modules {
    pub use vireo_modules::{check, hal, hal_inline, hal_loader, io_parameters};

    /// The module that executables in portable bytecode import.
    #[cfg(feature = "vmvx")]
    pub mod vmvx {
        pub use vireo_vmvx::{SimdLevel, VmvxModule};
    }
}

/// Module files: reading `.vmfb` without trusting a byte of it.
pub mod vmfb {
    pub use vireo_module::vmfb::{
        Archive, DebugDatabase, Dependency, Export, FileKind, Function, Import, OtherKind, Rodata, RodataLocation,
        SourceMap, is_for_callers,
    };

    /// The generated readers, for the command line and tests.
    #[doc(hidden)]
    pub mod schema {
        pub use vireo_module::vmfb::schema::{bytecode_module_def, executable_debug_info, module_file};
        #[cfg(feature = "hal")]
        pub use vireo_modules::schema::parameter_tables;
        #[cfg(feature = "params")]
        pub use vireo_params::schema::{gguf, irpa, safetensors};
    }
}

/// Modules in Rust that programs import from.
///
/// A module of your own derives its calling conventions from its methods; a module that `spec/abi/modules` lists is
/// checked against it at compile time. The documentation of [`vireo_macros`] has all the rules.
///
/// ```
/// use vireo::vm::{Context, Module, Value};
/// use vireo::{Result, vm_module};
///
/// struct Greeter;
///
/// #[vm_module(name = "greeter", version = 1)]
/// impl Greeter {
///     #[vm_export("twice")]
///     fn twice(&self, value: i32) -> Result<i32> {
///         Ok(value.wrapping_mul(2))
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let context = Context::new([Module::native(Greeter)?])?;
/// let twice = context.function("greeter.twice")?;
/// assert_eq!(twice.convention().to_string(), "0i_i");
/// assert_eq!(twice.call(&[Value::I32(21)])?, [Value::I32(42)]);
/// # Ok(())
/// # }
/// ```
///
/// An export that the spec does not have is a compile error:
///
/// ```compile_fail
/// struct Hal;
///
/// #[vireo::vm_module(spec = "hal")]
/// impl Hal {
///     #[vm_export("buffer.length")]
///     fn length(&self, buffer: vireo::vm::Ref) -> vireo::Result<i32> {
///         Ok(0)
///     }
/// }
/// ```
pub use vireo_macros::vm_module;
pub use vireo_macros::{vm_export, vm_state};

pub use status::{Result, Status, StatusCode};
pub use vireo_core::limits::{Cancellation, Fuel, MemoryBudget};
#[cfg(feature = "hal")]
pub use vireo_hal::SecurityPolicy;
#[cfg(feature = "driver-libraries")]
pub use vireo_hal_abi::export_driver;
