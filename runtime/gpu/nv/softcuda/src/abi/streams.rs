//! Streams.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{
    CaptureStatus, CuContext, CuDevice, CuEvent, CuGraph, CuGraphNode, CuStream, STREAM_NON_BLOCKING, StreamCallback,
    WAIT_VALUE_AND, WAIT_VALUE_EQ, WAIT_VALUE_GEQ, WAIT_VALUE_NOR,
};

use super::contexts::PRIORITIES;
use crate::api::{Out, Outcome};
use crate::callback::Callback;
use crate::capture::{self, Capture};
use crate::context::{Stream, StreamKind};
use crate::crew::{Op, Progress};
use crate::graph::Vouched;
use crate::poisoned::Uses;
use crate::system::{System, current, stream, system};

/// Modes of captures are below this.
const CAPTURE_MODES: u32 = 3;

pub(crate) unsafe fn cuStreamCreate(out: *mut CuStream, flags: u32) -> Outcome {
    // SAFETY: the caller vouches for it.
    unsafe { cuStreamCreateWithPriority(out, flags, 0) }
}

pub(crate) unsafe fn cuStreamCreateWithPriority(out: *mut CuStream, flags: u32, priority: i32) -> Outcome {
    let (system, context) = current()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(out) }?;
    if flags & !STREAM_NON_BLOCKING != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let kind = if flags & STREAM_NON_BLOCKING != 0 { StreamKind::NonBlocking } else { StreamKind::Blocking };
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    let created = Arc::new(Stream { handle: OnceLock::new(), id: system.id(), context, kind, flags, priority });
    let handle = system.streams.insert(created.clone());
    let _ = created.handle.set(handle);
    out.set(CuStream(handle));
    Ok(())
}

pub(crate) unsafe fn cuStreamGetPriority(handle: CuStream, priority: *mut i32) -> Outcome {
    let (_, found) = stream(handle)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(priority) }?.set(found.priority);
    Ok(())
}

pub(crate) unsafe fn cuStreamGetFlags(handle: CuStream, flags: *mut u32) -> Outcome {
    let (_, found) = stream(handle)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(flags) }?.set(found.flags);
    Ok(())
}

pub(crate) unsafe fn cuStreamGetId(handle: CuStream, id: *mut u64) -> Outcome {
    let (_, found) = stream(handle)?;
    // SAFETY: the caller vouches for it. Default streams have small numbers in each context.
    unsafe { Out::new(id) }?.set(found.context.id << 32 | found.id);
    Ok(())
}

pub(crate) unsafe fn cuStreamGetCtx(handle: CuStream, context: *mut CuContext) -> Outcome {
    let (_, found) = stream(handle)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(context) }?.set(CuContext(found.context.handle()));
    Ok(())
}

pub(crate) unsafe fn cuStreamGetDevice(handle: CuStream, device: *mut CuDevice) -> Outcome {
    let (_, found) = stream(handle)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(device) }?.set(CuDevice(found.context.device as i32));
    Ok(())
}

pub(crate) unsafe fn cuStreamWaitEvent(handle: CuStream, event: CuEvent, _flags: u32) -> Outcome {
    let (system, found) = stream(handle)?;
    let event = system.events.get(event.0).ok_or(CuResult::ERROR_INVALID_HANDLE)?;
    capture::wait(system, &found, &event)
}

pub(crate) unsafe fn cuStreamAddCallback(
    handle: CuStream,
    callback: Option<StreamCallback>,
    data: *mut c_void,
    flags: u32,
) -> Outcome {
    let (system, found) = stream(handle)?;
    system.captures.refuse(&found)?;
    let callback = callback.filter(|_| flags == 0).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    let (context, data, call) = (found.context.clone(), Vouched(data), Callback::new());
    let op = found.submit_always(Box::new(move |known| {
        // The program may learn from the function what is done.
        system.crew.learn(known);
        let status = context.status().err().unwrap_or(CuResult::SUCCESS);
        // SAFETY: the program gave function and argument for this.
        call.run(|| unsafe { callback(handle, status, data.get()) });
        Progress::Done
    }));
    note_any(system, &op);
    Ok(())
}

pub(crate) unsafe fn cuStreamQuery(handle: CuStream) -> Outcome {
    let (system, found) = stream(handle)?;
    system.captures.refuse(&found)?;
    if !found.is_idle() {
        return Err(CuResult::ERROR_NOT_READY);
    }
    // An error of work that ended since is told.
    found.context.status()
}

pub(crate) unsafe fn cuStreamSynchronize(handle: CuStream) -> Outcome {
    let (system, found) = stream(handle)?;
    system.captures.refuse(&found)?;
    found.synchronize()
}

pub(crate) unsafe fn cuStreamDestroy_v2(handle: CuStream) -> Outcome {
    let system = system()?;
    // Default streams cannot be destroyed. Work that is left is done, since its context knows it.
    system.streams.remove(handle.0).map(|_| ()).ok_or(CuResult::ERROR_INVALID_HANDLE)
}

pub(crate) unsafe fn cuStreamDestroy(handle: CuStream) -> Outcome {
    // SAFETY: it needs no pointers.
    unsafe { cuStreamDestroy_v2(handle) }
}

pub(crate) unsafe fn cuStreamCopyAttributes(to: CuStream, from: CuStream) -> Outcome {
    stream(to)?;
    stream(from).map(|_| ())
}

pub(crate) unsafe fn cuStreamAttachMemAsync(handle: CuStream, address: u64, _length: u64, _flags: u32) -> Outcome {
    let (system, found) = stream(handle)?;
    system.captures.refuse(&found)?;
    system.memory.find(address).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    found.submit_marker([]);
    Ok(())
}

/// Whether there is a capture, and whether it is of use.
fn status_of(capture: Option<&Capture>) -> CaptureStatus {
    match capture {
        None => CaptureStatus::NONE,
        Some(capture) if capture.is_invalid() => CaptureStatus::INVALIDATED,
        Some(_) => CaptureStatus::ACTIVE,
    }
}

pub(crate) unsafe fn cuStreamIsCapturing(handle: CuStream, status: *mut CaptureStatus) -> Outcome {
    let (system, found) = stream(handle)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(status) }?.set(status_of(system.captures.of(&found).as_deref()));
    Ok(())
}

pub(crate) unsafe fn cuStreamBeginCapture_v2(handle: CuStream, mode: u32) -> Outcome {
    let (system, found) = stream(handle)?;
    if mode >= CAPTURE_MODES {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    system.captures.begin(system, &found, mode)
}

pub(crate) unsafe fn cuStreamBeginCapture(handle: CuStream) -> Outcome {
    // SAFETY: it needs no pointers.
    unsafe { cuStreamBeginCapture_v2(handle, 0) }
}

pub(crate) unsafe fn cuStreamEndCapture(handle: CuStream, graph: *mut CuGraph) -> Outcome {
    let (system, found) = stream(handle)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(graph) }?;
    out.set(CuGraph(0));
    out.set(CuGraph(system.captures.end(system, &found)?));
    Ok(())
}

pub(crate) unsafe fn cuStreamGetCaptureInfo(handle: CuStream, status: *mut CaptureStatus, id: *mut u64) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuStreamGetCaptureInfo_v2(handle, status, id, null_mut(), null_mut(), null_mut()) }
}

pub(crate) unsafe fn cuStreamGetCaptureInfo_v3(
    handle: CuStream,
    status: *mut CaptureStatus,
    id: *mut u64,
    graph: *mut CuGraph,
    dependencies: *mut *const CuGraphNode,
    edges: *mut *const c_void,
    count: *mut u64,
) -> Outcome {
    // SAFETY: the caller vouches for it. Edges have no data.
    unsafe { Out::optional(edges) }.iter().for_each(|out| out.set(std::ptr::null()));
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuStreamGetCaptureInfo_v2(handle, status, id, graph, dependencies, count) }
}

pub(crate) unsafe fn cuStreamGetCaptureInfo_v2(
    handle: CuStream,
    status: *mut CaptureStatus,
    id: *mut u64,
    graph: *mut CuGraph,
    dependencies: *mut *const CuGraphNode,
    count: *mut u64,
) -> Outcome {
    thread_local! {
        // The list that the last call of the thread gave away.
        static NODES: std::cell::RefCell<Vec<CuGraphNode>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let (system, found) = stream(handle)?;
    // SAFETY: the caller vouches for the pointers.
    let (status, id, graph) = unsafe { (Out::new(status)?, Out::optional(id), Out::optional(graph)) };
    // SAFETY: as for the others, the caller vouches for the pointers.
    let (dependencies, count) = unsafe { (Out::optional(dependencies), Out::optional(count)) };
    let capture = system.captures.of(&found);
    status.set(status_of(capture.as_deref()));
    // The others are not written for a stream that is not captured.
    let Some(capture) = capture else { return Ok(()) };
    let nodes: Vec<CuGraphNode> = capture.tail(&found).into_iter().map(CuGraphNode).collect();
    count.iter().for_each(|out| out.set(nodes.len() as u64));
    id.iter().for_each(|out| out.set(capture.id));
    graph.iter().for_each(|out| out.set(CuGraph(capture.handle)));
    if let Some(out) = dependencies {
        out.set(NODES.with_borrow_mut(|kept| {
            *kept = nodes;
            kept.as_ptr()
        }));
    }
    Ok(())
}

pub(crate) unsafe fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) -> Outcome {
    thread_local! {
        static MODE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(mode) }?;
    // SAFETY: it is not null, and the caller vouches for the rest.
    let wanted = unsafe { mode.read_unaligned() };
    if wanted >= CAPTURE_MODES {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    out.set(MODE.replace(wanted));
    Ok(())
}

/// Notes that an operation may use any memory of the host.
fn note_any(system: &System, op: &Arc<Op>) {
    if let Some(poisoned) = &system.poisoned {
        poisoned.note(op, Uses::Any);
    }
}

/// Whether a value is what a wait is for, where `bits` bits count.
fn is_reached(value: u64, wanted: u64, mode: u32, bits: u32) -> bool {
    match mode {
        WAIT_VALUE_GEQ if bits == 32 => (value as u32).wrapping_sub(wanted as u32).cast_signed() >= 0,
        WAIT_VALUE_GEQ => value.wrapping_sub(wanted).cast_signed() >= 0,
        WAIT_VALUE_EQ => value == wanted,
        WAIT_VALUE_AND => value & wanted != 0,
        _ => !(value | wanted) << (64 - bits) != 0,
    }
}

/// A word in memory of the library or of the program that is pinned.
fn word(address: u64, bits: u32) -> Outcome<impl Fn() -> u64 + Send + 'static> {
    let bytes = u64::from(bits / 8);
    if !address.is_multiple_of(bytes) {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let allocation = system()?.memory.range(address, bytes).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    Ok(move || {
        let _kept = &allocation;
        // SAFETY: the allocation has the word, which is aligned, and is kept; all that access it are atomics.
        unsafe {
            match bits {
                32 => AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize))
                    .load(Ordering::Acquire)
                    .into(),
                _ => {
                    AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)).load(Ordering::Acquire)
                }
            }
        }
    })
}

fn wait_value(handle: CuStream, address: u64, value: u64, flags: u32, bits: u32) -> Outcome {
    let (system, found) = stream(handle)?;
    system.captures.refuse(&found)?;
    if flags > WAIT_VALUE_NOR {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let read = word(address, bits)?;
    let is_there = move || is_reached(read(), value, flags, bits);
    let op = found.submit(Box::new(move |known| {
        if !is_there() {
            return Ok(Progress::Waiting);
        }
        // The value may have been written by the program, or by a stream after anything.
        known.join(&system.crew.known_to_host());
        Ok(Progress::Done)
    }));
    note_any(system, &op);
    Ok(())
}

fn write_value(handle: CuStream, address: u64, value: u64, bits: u32) -> Outcome {
    let (system, found) = stream(handle)?;
    system.captures.refuse(&found)?;
    let read = word(address, bits)?;
    let op = found.submit(Box::new(move |known| {
        let _kept = &read;
        if let Some(sanitizer) = &system.memory.sanitizer {
            sanitizer.written(address, u64::from(bits / 8));
        }
        // The program may poll the value.
        system.crew.learn(known);
        // SAFETY: `word` found the word in an allocation, aligned, which its closure keeps; all that access it are
        // atomics.
        unsafe {
            match bits {
                32 => AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize))
                    .store(value as u32, Ordering::Release),
                _ => AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize))
                    .store(value, Ordering::Release),
            }
        }
        Ok(Progress::Done)
    }));
    note_any(system, &op);
    Ok(())
}

pub(crate) unsafe fn cuStreamWaitValue32_v2(handle: CuStream, address: u64, value: u32, flags: u32) -> Outcome {
    wait_value(handle, address, value.into(), flags, 32)
}

pub(crate) unsafe fn cuStreamWaitValue64_v2(handle: CuStream, address: u64, value: u64, flags: u32) -> Outcome {
    wait_value(handle, address, value, flags, 64)
}

pub(crate) unsafe fn cuStreamWriteValue32_v2(handle: CuStream, address: u64, value: u32, _flags: u32) -> Outcome {
    write_value(handle, address, value.into(), 32)
}

pub(crate) unsafe fn cuStreamWriteValue64_v2(handle: CuStream, address: u64, value: u64, _flags: u32) -> Outcome {
    write_value(handle, address, value, 64)
}
