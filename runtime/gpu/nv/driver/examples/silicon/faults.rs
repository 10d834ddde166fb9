//! Calls and kernels that fail, each in a process of its own: what later calls return on the library, against the
//! software driver.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vireo_core::status::{Result, Status};
use vireo_stream::api::{ApiError, ApiResult};

use crate::Request;
use crate::gpu::Gpu;

/// The name of the software driver instead of a library.
const SOFTWARE: &str = "software";

/// The faults by their names. The endless kernel is the last one: its process ends while it runs.
const FAULTS: [&str; 14] = [
    "out_of_bounds",
    "misaligned",
    "trap",
    "too_many_threads",
    "empty_grid",
    "too_much_shared_memory",
    "no_function",
    "out_of_memory",
    "copy_without_memory",
    "no_ptx",
    "newer_target",
    "unknown_kernel",
    "unknown_library_function",
    "endless",
];

/// How long an endless kernel is looked at.
const LOOKED_AT: Duration = Duration::from_millis(300);

/// Runs each fault on both.
pub fn faults(request: &Request) -> Result<Value> {
    let library = request.real()?;
    let capability = library.describe(0)?.capability;
    drop(library);
    let sm = format!("{}", capability.0 * 10 + capability.1);
    let (mut found, mut differs) = (Vec::new(), 0);
    for name in FAULTS {
        let real = of_child(name, &request.library.display().to_string(), &sm)?;
        let software = of_child(name, SOFTWARE, &sm)?;
        let is_same = real == software;
        differs += u32::from(!is_same);
        found.push(json!({"fault": name, "library": real, "software": software, "same": is_same}));
    }
    let outcome = if differs == 0 { "passed" } else { "differs" };
    Ok(json!({"outcome": outcome, "differ": differs, "faults": found}))
}

/// The statuses by calls, as a process prints them.
fn of_child(name: &str, library: &str, sm: &str) -> Result<Value> {
    let me = std::env::current_exe().map_err(|error| Status::internal(error.to_string()))?;
    let mut command = Command::new(me);
    command.args(["fault", name, sm, "--library", library]);
    let output = command.output().map_err(|error| Status::internal(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let ended = |why: String| json!({"ended": why, "said": String::from_utf8_lossy(&output.stderr).trim()});
    Ok(match text.lines().last().and_then(|line| serde_json::from_str(line).ok()) {
        Some(calls) => calls,
        None => ended(output.status.to_string()),
    })
}

/// A process with one fault: prints the statuses of its calls.
pub fn child(request: &Request) -> ExitCode {
    let name = request.rest.first().map_or("", String::as_str);
    let sm: i32 = request.rest.get(1).and_then(|sm| sm.parse().ok()).unwrap_or(86);
    let library =
        if request.library.as_os_str() == SOFTWARE { Request::software((sm / 10, sm % 10)) } else { request.real() };
    let calls = library.and_then(|library| Gpu::open(&library)).and_then(|gpu| run(name, &gpu));
    match calls {
        Ok(calls) => {
            println!("{}", json!(calls));
            // Without the end of the context: an endless kernel may still run.
            std::process::exit(0)
        }
        Err(status) => {
            eprintln!("{status}");
            ExitCode::FAILURE
        }
    }
}

const STORE: &str = "ld.param.u64 %rd1, [p0]; mov.u32 %r1, 7; st.global.u32 [%rd1], %r1; ret;";
const TRAP: &str = "trap; ret;";
const ENDLESS: &str = "$again: ld.param.u64 %rd1, [p0]; ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 7;\n\
                       @!%p1 bra $again; ret;";

fn module(gpu: &Gpu, body: &str) -> String {
    let registers = ".reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>;";
    format!("{}.visible .entry k(.param .u64 p0)\n{{\n{registers}\n{body}\n}}\n", gpu.header(0))
}

/// The status of a call, 0 for success.
fn code<T>(outcome: &ApiResult<T>) -> u32 {
    outcome.as_ref().err().map_or(0, |error: &ApiError| error.code)
}

fn run(name: &str, gpu: &Gpu) -> Result<Vec<Value>> {
    let mut calls: Vec<Value> = Vec::new();
    let mut tell = |call: &str, status: u32| calls.push(json!({"call": call, "status": status}));
    let _current = gpu.context.enter()?;
    let api = gpu.context.api();
    let loaded = gpu.load(&module(
        gpu,
        match name {
            "trap" => TRAP,
            "endless" => ENDLESS,
            _ => STORE,
        },
    ))?;
    let function = loaded.function("k")?;
    let memory = gpu.memory(&[0; 1024])?;
    let one = ([1, 1, 1], [1, 1, 1], 0);
    // SAFETY: the stream is alive.
    let synchronize = || unsafe { api.stream_synchronize(gpu.stream.handle) };
    let address = memory.address;
    match name {
        "out_of_bounds" => tell("launch", code(&gpu.launch(function, one, &[0x40]))),
        "misaligned" => tell("launch", code(&gpu.launch(function, one, &[address + 2]))),
        "trap" => tell("launch", code(&gpu.launch(function, one, &[address]))),
        "too_many_threads" => {
            tell("launch", code(&gpu.launch(function, ([1, 1, 1], [2048, 1, 1], 0), &[address])));
        }
        "empty_grid" => tell("launch", code(&gpu.launch(function, ([0, 1, 1], [1, 1, 1], 0), &[address]))),
        "too_much_shared_memory" => {
            tell("launch", code(&gpu.launch(function, ([1, 1, 1], [1, 1, 1], 1 << 20), &[address])));
        }
        "no_function" => {
            tell("launch", code(&gpu.launch(vireo_cuda::types::CuFunction(0), one, &[address])));
        }
        // SAFETY: the size is more than any device has.
        "out_of_memory" => tell("allocate", code(&unsafe { api.memory_allocate(1 << 46) })),
        "copy_without_memory" => {
            let bytes = [0u8; 16];
            // SAFETY: there are as many bytes at the source; the target is no memory, which the library refuses.
            let copied = unsafe { api.copy_to_device(0x40, bytes.as_ptr().cast(), 16, gpu.stream.handle) };
            tell("copy", code(&copied));
        }
        "no_ptx" | "newer_target" => {
            let text = match name {
                "no_ptx" => "this is no PTX\0".to_string(),
                _ => format!("{}\0", module(gpu, STORE).replace(&format!("sm_{}", gpu.capability()), "sm_999")),
            };
            // SAFETY: the image is text, and ends with a zero.
            let loaded =
                unsafe { api.module_load(text.as_ptr().cast(), 0, std::ptr::null_mut(), std::ptr::null_mut()) };
            tell("load", code(&loaded));
        }
        "unknown_kernel" => {
            // SAFETY: the module is alive, and the name ends with a zero.
            tell("find", code(&unsafe { api.module_function(loaded.handle, c"nothing".as_ptr().cast()) }));
        }
        "unknown_library_function" => {
            // SAFETY: the pool of no handle is refused.
            tell("trim", code(&unsafe { api.pool_trim(vireo_cuda::types::CuMemPool(0), 0) }));
        }
        "endless" => {
            tell("launch", code(&gpu.launch(function, one, &[address])));
            let began = Instant::now();
            // SAFETY: the stream is alive.
            while code(&unsafe { api.stream_query(gpu.stream.handle) }) != 0 && began.elapsed() < LOOKED_AT {
                std::thread::sleep(Duration::from_millis(5));
            }
            // SAFETY: the stream is alive.
            tell("query", code(&unsafe { api.stream_query(gpu.stream.handle) }));
            std::mem::forget((memory, loaded));
            return Ok(calls);
        }
        _ => return Err(Status::invalid_argument(format!("there is no fault `{name}`"))),
    }
    // Which errors stay, and what later calls say.
    tell("synchronize", code(&synchronize()));
    tell("synchronize again", code(&synchronize()));
    // SAFETY: it takes any size.
    tell("allocate", code(&unsafe { api.memory_allocate(1024) }));
    let good = gpu.launch(function, one, &[address]);
    tell("launch again", code(&good));
    tell("synchronize at the end", code(&synchronize()));
    std::mem::forget((memory, loaded));
    Ok(calls)
}
