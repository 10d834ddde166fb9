//! The order of work: random programs of streams, events and graphs are compared with what their order allows, by a
//! reference that runs them one after another. Every word has one writer at a time, as in a correct program.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{
    Copy3d, CuArray, CuContext, CuEvent, CuGraph, CuGraphExec, CuGraphNode, CuStream, KernelNodeParams, MemoryType,
    MemsetNodeParams,
};
use vireo_softcuda::entries::*;

use crate::kernels::TEXT;
use crate::support::{Draw, Machine, get, launch, ok};

const WORDS: usize = 12;

/// Random programs: work on words in streams, with an event wherever a word was used last in another stream.
fn random_streams(seed: u64) {
    let machine = Machine::new();
    let mut draw = Draw::new(seed);
    let add = machine.function(machine.module(TEXT), c"add");
    let data = machine.memory(4 * WORDS as u64);
    machine.write(data, &[0; WORDS]);
    let mut streams: Vec<CuStream> = (0..4).map(|index| machine.stream(index % 2)).collect();
    streams.push(CuStream(2));
    let events: Vec<CuEvent> = (0..WORDS).map(|_| machine.event()).collect();
    let mut expected = [0u32; WORDS];
    // The stream that used a word last, after which its event was recorded.
    let mut last: [Option<usize>; WORDS] = [None; WORDS];
    for _ in 0..200 {
        let (stream, to, from) = (draw.below(streams.len()), draw.below(WORDS), draw.below(WORDS));
        let handle = streams[stream];
        for word in [to, from] {
            if last[word].is_some_and(|other| other != stream) {
                // SAFETY: it needs no pointers.
                ok(unsafe { cuStreamWaitEvent(handle, events[word], 0) });
            }
        }
        let (address, source) = (data + 4 * to as u64, data + 4 * from as u64);
        // SAFETY: the kernel has these parameters, and the addresses are of the allocation.
        unsafe {
            match draw.below(3) {
                0 => {
                    ok(launch(add, 1, 1, handle, &mut [address, 3, 1]));
                    expected[to] += 3;
                }
                1 if to != from => {
                    ok(cuMemcpyDtoDAsync_v2(address, source, 4, handle));
                    expected[to] = expected[from];
                }
                _ => {
                    let value = draw.below(1000) as u32;
                    ok(cuMemsetD32Async(address, value, 1, handle));
                    expected[to] = value;
                }
            }
            for word in [to, from] {
                ok(cuEventRecord(events[word], handle));
                last[word] = Some(stream);
            }
        }
        if draw.below(40) == 0 {
            // SAFETY: it needs no pointers.
            ok(unsafe { cuStreamSynchronize(handle) });
        }
    }
    // SAFETY: it needs no pointers.
    ok(unsafe { cuCtxSynchronize() });
    assert_eq!(machine.read(data, WORDS), expected, "seed {seed}");
}

#[test]
fn streams_and_events_order_work() {
    (0..6).for_each(random_streams);
}

/// The same with one thread that takes ready work at random.
#[test]
fn every_order_of_ready_work_gives_the_same() {
    if std::env::var_os("SOFTCUDA_CHILD").is_some() {
        return (10..14).for_each(random_streams);
    }
    for seed in 0..3 {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        let name = "order::every_order_of_ready_work_gives_the_same";
        child
            .args(["--exact", name])
            .env("SOFTCUDA_CHILD", "1")
            .env("SOFTCUDA_OPTIONS", format!("order=random:{seed}"));
        let output = child.output().expect("a process");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Random graphs of kernels, copies and fills, with an edge wherever two nodes use a word.
#[test]
fn graphs_order_their_nodes() {
    for seed in 0..5 {
        let machine = Machine::new();
        let mut draw = Draw::new(seed);
        let add = machine.function(machine.module(TEXT), c"add");
        let data = machine.memory(4 * WORDS as u64);
        // SAFETY: the pointers are those of values.
        let graph = get(|graph: *mut CuGraph| unsafe { cuGraphCreate(graph, 0) });
        let mut expected = [1u32; WORDS];
        let mut last: Vec<Option<CuGraphNode>> = vec![None; WORDS];
        let mut steps: Vec<(usize, usize, usize, u32)> = Vec::new();
        for _ in 0..60 {
            let (to, from, kind) = (draw.below(WORDS), draw.below(WORDS), draw.below(3));
            let value = draw.below(100) as u32;
            let after: BTreeSet<u64> = [to, from].iter().filter_map(|word| last[*word]).map(|node| node.0).collect();
            let after: Vec<CuGraphNode> = after.into_iter().map(CuGraphNode).collect();
            let (dependencies, count) = (after.as_ptr(), after.len() as u64);
            let (address, source) = (data + 4 * to as u64, data + 4 * from as u64);
            // SAFETY: the pointers are those of values.
            let node = get(|node: *mut CuGraphNode| unsafe {
                match kind {
                    0 => {
                        let mut words = [address, u64::from(value), 1];
                        let mut list: Vec<*mut c_void> = words.iter_mut().map(|word| (&raw mut *word).cast()).collect();
                        let parameters = kernel_node(add, list.as_mut_ptr());
                        cuGraphAddKernelNode(node, graph, dependencies, count, &raw const parameters)
                    }
                    1 => {
                        let copy = copy_node(address, source);
                        cuGraphAddMemcpyNode(node, graph, dependencies, count, &raw const copy, machine.context)
                    }
                    _ => {
                        let (dst, pitch, element_size, width, height) = (address, 0, 4, 1, 1);
                        let fill = MemsetNodeParams { dst, pitch, value, element_size, width, height };
                        cuGraphAddMemsetNode(node, graph, dependencies, count, &raw const fill, CuContext(0))
                    }
                }
            });
            (last[to], last[from]) = (Some(node), Some(node));
            steps.push((kind, to, from, value));
        }
        let mut run = || {
            for (kind, to, from, value) in &steps {
                match kind {
                    0 => expected[*to] += value,
                    1 => expected[*to] = expected[*from],
                    _ => expected[*to] = *value,
                }
            }
        };
        machine.write(data, &[1; WORDS]);
        // SAFETY: the pointers are those of values.
        unsafe {
            let exec = get(|exec: *mut CuGraphExec| cuGraphInstantiateWithFlags(exec, graph, 0));
            ok(cuGraphDestroy(graph));
            let stream = machine.stream(1);
            for _ in 0..3 {
                ok(cuGraphLaunch(exec, stream));
                run();
            }
            ok(cuStreamSynchronize(stream));
            ok(cuGraphExecDestroy(exec));
        }
        assert_eq!(machine.read(data, WORDS), expected, "seed {seed}");
    }
}

fn kernel_node(func: vireo_cuda::types::CuFunction, list: *mut *mut c_void) -> KernelNodeParams {
    KernelNodeParams {
        func,
        grid_dim_x: 1,
        grid_dim_y: 1,
        grid_dim_z: 1,
        block_dim_x: 1,
        block_dim_y: 1,
        block_dim_z: 1,
        shared_mem_bytes: 0,
        kernel_params: list,
        extra: null_mut(),
    }
}

fn copy_node(to: u64, from: u64) -> Copy3d {
    Copy3d {
        src_xin_bytes: 0,
        src_y: 0,
        src_z: 0,
        src_lod: 0,
        src_memory_type: MemoryType::DEVICE,
        src_host: null(),
        src_device: from,
        src_array: CuArray(0),
        reserved0: null_mut(),
        src_pitch: 0,
        src_height: 0,
        dst_xin_bytes: 0,
        dst_y: 0,
        dst_z: 0,
        dst_lod: 0,
        dst_memory_type: MemoryType::DEVICE,
        dst_host: null_mut(),
        dst_device: to,
        dst_array: CuArray(0),
        reserved1: null_mut(),
        dst_pitch: 0,
        dst_height: 0,
        width_in_bytes: 4,
        height: 1,
        depth: 1,
    }
}

#[test]
fn nodes_are_changed_and_circles_refused() {
    let machine = Machine::new();
    let add = machine.function(machine.module(TEXT), c"add");
    let data = machine.memory(8);
    machine.write(data, &[0, 0]);
    let parameters = |words: &mut [u64; 3], list: &mut Vec<*mut c_void>| {
        *list = words.iter_mut().map(|word| (&raw mut *word).cast()).collect();
        kernel_node(add, list.as_mut_ptr())
    };
    let (mut first, mut second, mut list) = ([data, 1, 1], [data + 4, 10, 1], Vec::new());
    // SAFETY: the pointers are those of values that live during each call.
    unsafe {
        let graph = get(|graph: *mut CuGraph| cuGraphCreate(graph, 0));
        let wanted = parameters(&mut first, &mut list);
        let node = get(|node: *mut CuGraphNode| cuGraphAddKernelNode(node, graph, null(), 0, &raw const wanted));
        let exec = get(|exec: *mut CuGraphExec| cuGraphInstantiateWithFlags(exec, graph, 0));
        ok(cuGraphLaunch(exec, CuStream(0)));
        let wanted = parameters(&mut second, &mut list);
        ok(cuGraphExecKernelNodeSetParams(exec, node, &raw const wanted));
        ok(cuGraphLaunch(exec, CuStream(0)));
        ok(cuGraphNodeSetEnabled(exec, node, 0));
        ok(cuGraphLaunch(exec, CuStream(0)));
        assert_eq!(machine.read(data, 2), [1, 10]);
        let other = get(|other: *mut CuGraphNode| cuGraphAddEmptyNode(other, graph, &raw const node, 1));
        let mut count = 0;
        ok(cuGraphGetEdges(graph, null_mut(), null_mut(), &raw mut count));
        assert_eq!(count, 1);
        ok(cuGraphAddDependencies(graph, &raw const other, &raw const node, 1));
        let mut circle = CuGraphExec(0);
        let wrong = CuResult::ERROR_INVALID_VALUE;
        assert_eq!(cuGraphInstantiateWithFlags(&raw mut circle, graph, 0), wrong);
        let unknown = CuGraphNode(7);
        let mut added = CuGraphNode(0);
        assert_eq!(cuGraphAddEmptyNode(&raw mut added, graph, &raw const unknown, 1), wrong);
        assert_eq!(cuGraphExecKernelNodeSetParams(exec, other, &raw const wanted), wrong);
        ok(cuGraphDestroyNode(other));
        ok(cuGraphInstantiateWithFlags(&raw mut circle, graph, 0));
    }
}

#[test]
fn executable_graphs_are_updated_by_graphs_of_the_same_shape() {
    use vireo_cuda::types::{GraphExecUpdateInfo, GraphExecUpdateResult};
    let machine = Machine::new();
    let data = machine.memory(8);
    let fill = |dst, value| MemsetNodeParams { dst, pitch: 0, value, element_size: 4, width: 1, height: 1 };
    // SAFETY: the pointers are those of values.
    unsafe {
        let graph_of = |values: [u32; 2], is_ordered: bool| {
            let graph = get(|graph: *mut CuGraph| cuGraphCreate(graph, 0));
            let (first, second) = (fill(data, values[0]), fill(data + 4, values[1]));
            let before = get(|node: *mut CuGraphNode| {
                cuGraphAddMemsetNode(node, graph, null(), 0, &raw const first, CuContext(0))
            });
            let count = u64::from(is_ordered);
            get(|node: *mut CuGraphNode| {
                cuGraphAddMemsetNode(node, graph, &raw const before, count, &raw const second, CuContext(0))
            });
            graph
        };
        let exec = get(|exec: *mut CuGraphExec| cuGraphInstantiateWithFlags(exec, graph_of([1, 2], true), 0));
        ok(cuGraphLaunch(exec, CuStream(0)));
        assert_eq!(machine.read(data, 2), [1, 2]);
        let (result, node) = (GraphExecUpdateResult(9), CuGraphNode(0));
        let mut info = GraphExecUpdateInfo { result, error_node: node, error_from_node: node };
        ok(cuGraphExecUpdate_v2(exec, graph_of([3, 4], true), &raw mut info));
        assert_eq!(info.result, GraphExecUpdateResult::SUCCESS);
        ok(cuGraphLaunch(exec, CuStream(0)));
        assert_eq!(machine.read(data, 2), [3, 4]);
        let status = cuGraphExecUpdate_v2(exec, graph_of([5, 6], false), &raw mut info);
        assert_eq!(status, CuResult::ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        assert_eq!(info.result, GraphExecUpdateResult::ERROR_TOPOLOGY_CHANGED);
        let (mut made, graph) = (CuGraphExec(0), graph_of([7, 8], true));
        assert_eq!(cuGraphInstantiateWithFlags(&raw mut made, graph, 16), CuResult::ERROR_INVALID_VALUE);
        assert_eq!(cuGraphInstantiateWithFlags(&raw mut made, graph, 5), CuResult::ERROR_INVALID_VALUE);
        assert_eq!(cuGraphInstantiateWithFlags(&raw mut made, graph, 4), CuResult::ERROR_NOT_SUPPORTED);
    }
}

#[test]
fn graphs_keep_objects_of_the_program() {
    use vireo_cuda::types::CuUserObject;
    static DESTROYED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn destroy(data: *mut c_void) {
        DESTROYED.fetch_add(data.addr() as u32, Ordering::SeqCst);
    }
    let machine = Machine::new();
    let stream = machine.stream(1);
    let destroyed = || DESTROYED.load(Ordering::SeqCst);
    let wrong = CuResult::ERROR_INVALID_VALUE;
    // SAFETY: the pointers are those of values.
    unsafe {
        let data = std::ptr::without_provenance_mut(5);
        let object = get(|object: *mut CuUserObject| cuUserObjectCreate(object, data, Some(destroy), 2, 1));
        let graph = get(|graph: *mut CuGraph| cuGraphCreate(graph, 0));
        ok(cuGraphRetainUserObject(graph, object, 1, 1));
        assert_eq!(cuGraphReleaseUserObject(graph, object, 2), wrong);
        let exec = get(|exec: *mut CuGraphExec| cuGraphInstantiateWithFlags(exec, graph, 0));
        ok(cuGraphDestroy(graph));
        ok(cuUserObjectRelease(object, 1));
        assert_eq!(destroyed(), 0);
        ok(cuGraphLaunch(exec, stream));
        ok(cuGraphExecDestroy(exec));
        ok(cuStreamSynchronize(stream));
        assert_eq!(destroyed(), 5);
        let mut other = CuUserObject(0);
        assert_eq!(cuUserObjectCreate(&raw mut other, data, None, 1, 1), wrong);
        assert_eq!(cuUserObjectCreate(&raw mut other, data, Some(destroy), 0, 1), wrong);
    }
}

/// Work of blocking streams and of the legacy default stream is in the order of the calls; others overtake.
#[test]
fn the_default_stream_waits_for_blocking_streams() {
    static STEP: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn slow(data: *mut c_void) {
        std::thread::sleep(std::time::Duration::from_millis(30));
        // SAFETY: the test gives the address of a word.
        unsafe { data.cast::<u32>().write(STEP.fetch_add(1, Ordering::SeqCst)) };
    }
    unsafe extern "C" fn forbidden(data: *mut c_void) {
        let mut address = 0;
        // SAFETY: the pointers are those of values.
        unsafe { data.cast::<CuResult>().write(cuMemAlloc_v2(&raw mut address, 4)) };
    }
    let machine = Machine::new();
    let (blocking, free) = (machine.stream(0), machine.stream(1));
    let mut steps = [u32::MAX; 3];
    let mut status = CuResult(0);
    // SAFETY: the words live until the context has no work.
    unsafe {
        ok(cuLaunchHostFunc(blocking, Some(slow), (&raw mut steps[0]).cast()));
        ok(cuLaunchHostFunc(CuStream(0), Some(slow), (&raw mut steps[1]).cast()));
        ok(cuLaunchHostFunc(blocking, Some(slow), (&raw mut steps[2]).cast()));
        assert_eq!(cuStreamQuery(blocking), CuResult::ERROR_NOT_READY);
        ok(cuLaunchHostFunc(free, Some(forbidden), (&raw mut status).cast()));
        ok(cuStreamSynchronize(free));
        assert!(STEP.load(Ordering::SeqCst) < 3, "the free stream did not wait");
        ok(cuCtxSynchronize());
    }
    assert_eq!((steps, status), ([0, 1, 2], CuResult::ERROR_NOT_PERMITTED));
}

#[test]
fn memory_of_the_program_may_be_reused_after_a_call() {
    let machine = Machine::new();
    let (stream, data) = (machine.stream(1), machine.memory(4096));
    unsafe extern "C" fn wait(_: *mut c_void) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut source = vec![7u32; 1024];
    let mut target = vec![0u32; 1024];
    // SAFETY: the buffers have as many bytes as is said.
    unsafe {
        ok(cuLaunchHostFunc(stream, Some(wait), null_mut()));
        ok(cuMemcpyHtoDAsync_v2(data, source.as_ptr().cast(), 4096, stream));
        source.fill(8);
        ok(cuMemcpyDtoHAsync_v2(target.as_mut_ptr().cast(), data, 4096, stream));
        assert!(target.iter().all(|word| *word == 7), "a copy to pageable memory is done when the call returns");
        // Pinned memory is copied later.
        let mut pinned: *mut c_void = null_mut();
        ok(cuMemHostAlloc(&raw mut pinned, 4096, 0));
        pinned.cast::<u32>().write(1);
        ok(cuLaunchHostFunc(stream, Some(wait), null_mut()));
        ok(cuMemcpyHtoDAsync_v2(data, pinned, 4, stream));
        pinned.cast::<u32>().write(2);
        ok(cuStreamSynchronize(stream));
        assert_eq!(machine.read(data, 1), [2]);
        ok(cuMemFreeHost(pinned));
    }
}

#[test]
fn pools_free_in_the_order_of_the_stream() {
    use vireo_cuda::attributes::MemPoolAttribute;
    use vireo_cuda::types::{CuDevice, CuMemPool};
    let machine = Machine::new();
    let stream = machine.stream(1);
    // SAFETY: the pointers are those of values.
    unsafe {
        let pool = get(|pool: *mut CuMemPool| cuDeviceGetDefaultMemPool(pool, CuDevice(0)));
        let used = || {
            let mut used = 0u64;
            ok(cuMemPoolGetAttribute(pool, MemPoolAttribute::USED_MEM_CURRENT, (&raw mut used).cast()));
            used
        };
        let address = get(|address: *mut u64| cuMemAllocAsync(address, 1000, stream));
        assert_eq!(used(), 1000);
        ok(cuMemsetD8Async(address, 5, 1000, stream));
        ok(cuMemFreeAsync(address, stream));
        assert_eq!(cuMemFreeAsync(address, stream), CuResult::ERROR_INVALID_VALUE);
        ok(cuStreamSynchronize(stream));
        assert_eq!(used(), 0);
        // As much as there is, again and again: frees that are under way make room.
        for _ in 0..4 {
            let address = get(|address: *mut u64| cuMemAllocAsync(address, 40 << 20, stream));
            ok(cuMemFreeAsync(address, stream));
        }
    }
}
