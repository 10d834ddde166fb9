//! An executable plugin: a library with a function that kernels import.
//!
//! `vireo run --executable_plugin=FILE` loads it, and so do the tools of the reference runtime, whose interface it
//! implements: see `spec/hal/executable_plugin.yaml`. It uses nothing of Vireo but the structs.
//! `fixtures/plugin/program.mlir` is a program that needs it.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use vireo::hal::executable_plugin::{
    EXECUTABLE_PLUGIN_VERSION, ExecutablePlugin, ExecutablePluginHeader, PluginAllocation, PluginAllocator,
    PluginAllocatorCommand, PluginEnvironment, PluginResolution, PluginResolveParams, PluginStringPair,
};
use vireo::hal::kernel_functions;
use vireo::status::StatusCode;

/// The name by which kernels import [`scale`].
const SCALE: &CStr = c"vireo_example_scale";

/// An instance of the plugin.
struct Instance {
    allocator: PluginAllocator,
    /// Number of calls by kernels.
    calls: AtomicU64,
}

/// The parameters that a kernel passes to [`scale`]: the results of the function, of which there are none, its
/// arguments, then the fields that its declaration lists in `hal.import.fields`.
#[repr(C)]
struct ScaleParams {
    source: *const f32,
    source_offset: usize,
    target: *mut f32,
    target_offset: usize,
    first: usize,
    count: usize,
    factor: f32,
    _processor_id: u32,
    _processor_data: *const u64,
}

kernel_functions! {
    /// Multiplies `count` floats by a factor. Returns 0, which is success.
    ///
    /// # Safety
    /// The parameters are those of the declaration in the program; the context is the one that `resolve` set.
    unsafe fn scale(params: *mut c_void, context: *mut c_void, _reserved: *mut c_void) -> i32 {
        // SAFETY: the parameters are those of the declaration in the program; the context is the one that `resolve`
        // set.
        let (params, instance) = unsafe { (&*params.cast::<ScaleParams>(), &*context.cast::<Instance>()) };
        instance.calls.fetch_add(1, Ordering::Relaxed);
        for index in params.first..params.first + params.count {
            // SAFETY: the kernel passes a range of its bindings.
            unsafe {
                let value = params.source.add(params.source_offset + index).read() * params.factor;
                params.target.add(params.target_offset + index).write(value);
            }
        }
        0
    }

    /// Makes an instance, in memory from the host's allocator.
    ///
    /// # Safety
    /// The arguments are as the interface requires.
    unsafe fn load(
        environment: *const PluginEnvironment,
        _param_count: u64,
        _params: *const PluginStringPair,
        out_self: *mut *mut c_void,
    ) -> u64 {
        // SAFETY: the host passes a valid environment and a valid pointer for the result.
        let allocator = unsafe { (*environment).host_allocator };
        let Some(control) = allocator.control else { return StatusCode::InvalidArgument as u64 };
        let allocation = PluginAllocation { byte_length: size_of::<Instance>() as u64 };
        let mut memory = ptr::null_mut();
        let command = PluginAllocatorCommand::MALLOC.0;
        // SAFETY: the allocator is called as the interface requires. The memory is aligned like that of `malloc`.
        let status = unsafe { control(allocator.this, command, &raw const allocation, &raw mut memory) };
        if status == 0 {
            // SAFETY: it is as long as an instance.
            unsafe {
                memory.cast::<Instance>().write(Instance { allocator, calls: AtomicU64::new(0) });
                *out_self = memory;
            }
        }
        status
    }

    /// Frees an instance.
    ///
    /// # Safety
    /// The arguments are as the interface requires.
    unsafe fn unload(this: *mut c_void) {
        // SAFETY: `load` made the instance, and it is not used any more. It has nothing to drop.
        unsafe {
            let allocator = (*this.cast::<Instance>()).allocator;
            if let Some(control) = allocator.control {
                let mut memory = this;
                control(allocator.this, PluginAllocatorCommand::FREE.0, ptr::null(), &raw mut memory);
            }
        }
    }

    /// Finds functions by name.
    ///
    /// # Safety
    /// The arguments are as the interface requires.
    unsafe fn resolve(
        this: *mut c_void,
        params: *const PluginResolveParams,
        out_resolution: *mut u32,
    ) -> u64 {
        // SAFETY: the host passes valid parameters, whose arrays have the stated length, and a valid pointer for the
        // result.
        let params = unsafe { &*params };
        let (mut status, mut resolution) = (0, PluginResolution::empty());
        for index in 0..params.count as usize {
            // SAFETY: the host passes valid parameters, whose arrays have the stated length, and a valid pointer for
            // the result; names end with zeros.
            let (name, function, context) = unsafe {
                let name = CStr::from_ptr((*params.symbol_names.add(index)).cast()).to_bytes();
                (name, &mut *params.functions.add(index), &mut *params.contexts.add(index))
            };
            // Another plugin has resolved it already.
            if !function.is_null() {
                continue;
            }
            let (name, optional) = name.strip_prefix(b"?").map_or((name, false), |name| (name, true));
            if name == SCALE.to_bytes() {
                (*function, *context) = (scale as *mut c_void, this);
            } else if optional {
                resolution |= PluginResolution::MISSING_OPTIONAL;
            } else {
                status = StatusCode::NotFound as u64;
            }
        }
        // SAFETY: the host passes valid parameters, whose arrays have the stated length, and a valid pointer for the
        // result.
        unsafe { *out_resolution = resolution.bits() };
        status
    }
}

/// A constant with pointers to other constants.
struct Constant<T>(T);

// SAFETY: it is never written.
unsafe impl<T> Sync for Constant<T> {}

static HEADER: Constant<ExecutablePluginHeader> = Constant(ExecutablePluginHeader {
    version: EXECUTABLE_PLUGIN_VERSION,
    padding: 0,
    name: c"vireo_example".as_ptr().cast(),
    description: c"multiplies floats by a factor".as_ptr().cast(),
    features: 0,
    sanitizer: 0,
    reserved: [0; 8],
});

static PLUGIN: Constant<ExecutablePlugin> = Constant(ExecutablePlugin {
    header: &raw const HEADER.0,
    load: Some(load),
    unload: Some(unload),
    resolve: Some(resolve),
});

kernel_functions! {
    /// The query function that the host calls: returns the plugin if the host supports its version.
    // SAFETY: no other symbol of this name is linked into the library.
    #[unsafe(no_mangle)]
    pub unsafe fn iree_hal_executable_plugin_query(
        max_version: u32,
        _reserved: *mut c_void,
    ) -> *const ExecutablePlugin {
        if max_version >= EXECUTABLE_PLUGIN_VERSION { &raw const PLUGIN.0 } else { ptr::null() }
    }
}
