//! The CUDA driver library that streams and memory are of ([`Cuda`]): the functions that this library calls. In a
//! process they are those that [`use_driver`] was given; otherwise `libcuda.so.1` is loaded, which the program has.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::{OnceLock, PoisonError, RwLock};

use vireo_cuda::cuda_symbols::{
    CUDA_LIBRARY_NAMES, CuCtxGetCurrentFn, CuCtxGetDeviceFn, CuCtxPopCurrentV2Fn, CuCtxPushCurrentV2Fn,
    CuGetProcAddressV2Fn, CuLaunchHostFuncFn, CuMemGetAddressRangeV2Fn, CuMemHostRegisterV2Fn, CuMemsetD8AsyncFn,
    CuStreamGetCtxFn, CuStreamWaitValue64V2Fn, FINDER,
};
use vireo_cuda::nccl::result::NcclResult;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CChar, CuContext, SymbolQuery};

use crate::status::{Failure, Outcome};

/// The version of the functions that are asked for.
const VERSION: i32 = 12_000;

/// The functions.
#[derive(Clone, Copy)]
pub(crate) struct Cuda {
    pub(crate) current: CuCtxGetCurrentFn,
    pub(crate) device: CuCtxGetDeviceFn,
    pub(crate) push: CuCtxPushCurrentV2Fn,
    pub(crate) pop: CuCtxPopCurrentV2Fn,
    pub(crate) stream_context: CuStreamGetCtxFn,
    pub(crate) launch_host: CuLaunchHostFuncFn,
    pub(crate) wait_value: CuStreamWaitValue64V2Fn,
    pub(crate) fill: CuMemsetD8AsyncFn,
    pub(crate) range: CuMemGetAddressRangeV2Fn,
    pub(crate) register: CuMemHostRegisterV2Fn,
}

static FOUND_BY: RwLock<Option<CuGetProcAddressV2Fn>> = RwLock::new(None);

/// Lets the library use the driver whose functions this one finds, instead of `libcuda.so.1`. It has to be called
/// before any other function.
///
/// # Safety
/// It finds the functions of a CUDA driver library whose memory is the host's, and which stays as long as the process.
pub unsafe fn use_driver(find: CuGetProcAddressV2Fn) {
    *FOUND_BY.write().unwrap_or_else(PoisonError::into_inner) = Some(find);
}

fn finder() -> Outcome<CuGetProcAddressV2Fn> {
    if let Some(find) = *FOUND_BY.read().unwrap_or_else(PoisonError::into_inner) {
        return Ok(find);
    }
    let mut failures = Vec::new();
    for name in CUDA_LIBRARY_NAMES {
        // SAFETY: it is the library that the program has streams of.
        let library = match unsafe { libloading::Library::new(name) } {
            Ok(library) => library,
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        // SAFETY: the function of this name has this type in every such library.
        let find = unsafe { library.get::<CuGetProcAddressV2Fn>(FINDER.to_bytes_with_nul()) }.map(|find| *find);
        // Its functions are used until the process ends.
        std::mem::forget(library);
        return find.map_err(|error| failed(format!("{name}: {error}")));
    }
    Err(failed(failures.join("; ")))
}

fn failed(text: String) -> Failure {
    Failure::new(NcclResult::UNHANDLED_CUDA_ERROR, format!("the CUDA driver library cannot be used: {text}"))
}

/// The functions of the driver.
pub(crate) fn cuda() -> Outcome<&'static Cuda> {
    static CUDA: OnceLock<Outcome<Cuda>> = OnceLock::new();
    CUDA.get_or_init(Cuda::load).as_ref().map_err(Clone::clone)
}

impl Cuda {
    fn load() -> Outcome<Cuda> {
        let find = finder()?;
        let look_up = |name: &CStr| {
            let (text, mut address, mut query) = (name.as_ptr().cast::<CChar>(), std::ptr::null_mut(), SymbolQuery(0));
            // SAFETY: the name ends with a zero, and results are written to values.
            let found = unsafe { find(text, &raw mut address, VERSION, 0, &raw mut query) };
            let lacks = || failed(format!("it lacks {}", name.to_string_lossy()));
            NonNull::new(address).filter(|_| found == CuResult::SUCCESS).ok_or_else(lacks)
        };
        macro_rules! function {
            ($name:literal as $type:ty) => {{
                let address: NonNull<c_void> = look_up($name)?;
                // SAFETY: the finder returned the function of this name and version, which has this type.
                unsafe { std::mem::transmute::<NonNull<c_void>, $type>(address) }
            }};
        }
        Ok(Cuda {
            current: function!(c"cuCtxGetCurrent" as CuCtxGetCurrentFn),
            device: function!(c"cuCtxGetDevice" as CuCtxGetDeviceFn),
            push: function!(c"cuCtxPushCurrent" as CuCtxPushCurrentV2Fn),
            pop: function!(c"cuCtxPopCurrent" as CuCtxPopCurrentV2Fn),
            stream_context: function!(c"cuStreamGetCtx" as CuStreamGetCtxFn),
            launch_host: function!(c"cuLaunchHostFunc" as CuLaunchHostFuncFn),
            wait_value: function!(c"cuStreamWaitValue64" as CuStreamWaitValue64V2Fn),
            fill: function!(c"cuMemsetD8Async" as CuMemsetD8AsyncFn),
            range: function!(c"cuMemGetAddressRange" as CuMemGetAddressRangeV2Fn),
            register: function!(c"cuMemHostRegister" as CuMemHostRegisterV2Fn),
        })
    }
}

/// Fails with the function and its status.
pub(crate) fn check(function: &str, status: CuResult) -> Outcome {
    if status == CuResult::SUCCESS {
        return Ok(());
    }
    Err(Failure::new(NcclResult::UNHANDLED_CUDA_ERROR, format!("{function} returned {}", status.0)))
}

/// A context that is current until this is dropped.
pub(crate) struct Current(&'static Cuda);

impl Current {
    pub(crate) fn enter(cuda: &'static Cuda, context: CuContext) -> Outcome<Current> {
        // SAFETY: the library checks handles.
        check("cuCtxPushCurrent", unsafe { (cuda.push)(context) })?;
        Ok(Current(cuda))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let mut context = CuContext(0);
        // SAFETY: the result is written to a value. A failure changes nothing here.
        let _ = unsafe { (self.0.pop)(&raw mut context) };
    }
}
