//! Executable graphs: how they are made, changed and launched.

use std::sync::Arc;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{
    CChar, Copy3d, CuContext, CuGraph, CuGraphExec, CuGraphNode, CuStream, GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH,
    GRAPH_INSTANTIATE_DEVICE_LAUNCH, GRAPH_INSTANTIATE_UPLOAD, GRAPH_INSTANTIATE_USE_NODE_PRIORITY,
    GraphExecUpdateInfo, GraphExecUpdateResult, GraphInstantiateParams, GraphInstantiateResult, HostNodeParams,
    KernelNodeParams, KernelNodeParamsV2, MemsetNodeParams,
};

use super::graphs::known;
use super::nodes::{copy_kind, fill_kind, host_kind, kernel_kind, kernel_kind_v2, read, replace};
use crate::api::{Out, Outcome};
use crate::capture::submit;
use crate::graph::{Exec, NodeKind};
use crate::reports::tell_once;
use crate::system::{System, stream, system};

/// The flags of making a graph executable, but for the one of graphs that devices launch.
const FLAGS: u64 =
    GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH | GRAPH_INSTANTIATE_UPLOAD | GRAPH_INSTANTIATE_USE_NODE_PRIORITY;

/// The executable graph with a handle.
fn known_exec(exec: CuGraphExec) -> Outcome<(&'static System, Arc<Exec>)> {
    let system = system()?;
    Ok((system, system.execs.get(exec.0).ok_or(CuResult::ERROR_INVALID_VALUE)?))
}

/// Makes a graph executable.
///
/// # Safety
/// Unless it is null, the pointer is writable.
unsafe fn instantiate(exec: *mut CuGraphExec, graph: CuGraph, flags: u64) -> Outcome {
    let (system, found) = known(graph)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(exec) }?;
    let is_of_devices = flags & GRAPH_INSTANTIATE_DEVICE_LAUNCH != 0;
    let frees = flags & GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH != 0;
    if flags & !(FLAGS | GRAPH_INSTANTIATE_DEVICE_LAUNCH) != 0 || is_of_devices && frees {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    if is_of_devices {
        tell_once("cuGraphInstantiate", "graphs that devices launch are not implemented");
        return Err(CuResult::ERROR_NOT_SUPPORTED);
    }
    let made = Exec::new(&found)?;
    out.set(CuGraphExec(system.execs.insert(Arc::new(made))));
    Ok(())
}

pub(crate) unsafe fn cuGraphInstantiate_v2(
    exec: *mut CuGraphExec,
    graph: CuGraph,
    error: *mut CuGraphNode,
    log: *mut CChar,
    size: u64,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    let (error, log) = unsafe { (Out::optional(error), Out::optional(log)) };
    error.iter().for_each(|out| out.set(CuGraphNode(0)));
    if size != 0 {
        log.iter().for_each(|out| out.set(CChar(0)));
    }
    // SAFETY: the caller vouches for it.
    unsafe { instantiate(exec, graph, 0) }
}

pub(crate) unsafe fn cuGraphInstantiate(
    exec: *mut CuGraphExec,
    graph: CuGraph,
    error: *mut CuGraphNode,
    log: *mut CChar,
    size: u64,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuGraphInstantiate_v2(exec, graph, error, log, size) }
}

pub(crate) unsafe fn cuGraphExecUpdate_v2(
    exec: CuGraphExec,
    graph: CuGraph,
    info: *mut GraphExecUpdateInfo,
) -> Outcome {
    let (_, found) = known_exec(exec)?;
    let (_, graph) = known(graph)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(info) }?;
    let (result, node) = match found.update(&graph.nodes()) {
        Ok(()) => (GraphExecUpdateResult::SUCCESS, 0),
        Err((node, true)) => (GraphExecUpdateResult::ERROR_NODE_TYPE_CHANGED, node),
        Err((node, false)) => (GraphExecUpdateResult::ERROR_TOPOLOGY_CHANGED, node),
    };
    out.set(GraphExecUpdateInfo { result, error_node: CuGraphNode(node), error_from_node: CuGraphNode(0) });
    let is_done = result == GraphExecUpdateResult::SUCCESS;
    if is_done { Ok(()) } else { Err(CuResult::ERROR_GRAPH_EXEC_UPDATE_FAILURE) }
}

pub(crate) unsafe fn cuGraphInstantiateWithFlags(exec: *mut CuGraphExec, graph: CuGraph, flags: u64) -> Outcome {
    // SAFETY: the caller vouches for it.
    unsafe { instantiate(exec, graph, flags) }
}

pub(crate) unsafe fn cuGraphInstantiateWithParams(
    exec: *mut CuGraphExec,
    graph: CuGraph,
    parameters: *mut GraphInstantiateParams,
) -> Outcome {
    // SAFETY: the caller vouches for it.
    let mut wanted = unsafe { read(parameters.cast_const()) }?;
    // SAFETY: the caller vouches for it.
    let made = unsafe { instantiate(exec, graph, wanted.flags) };
    wanted.h_err_node_out = CuGraphNode(0);
    wanted.result_out = if made.is_ok() { GraphInstantiateResult::SUCCESS } else { GraphInstantiateResult::ERROR };
    // SAFETY: it is not null, and the caller vouches for it.
    unsafe { parameters.write_unaligned(wanted) };
    made
}

pub(crate) unsafe fn cuGraphExecKernelNodeSetParams(
    exec: CuGraphExec,
    node: CuGraphNode,
    parameters: *const KernelNodeParams,
) -> Outcome {
    let (_, found) = known_exec(exec)?;
    // SAFETY: the caller vouches for it.
    let kind = unsafe { kernel_kind(parameters) }?;
    found.change(node.0, |node| replace(node, kind))
}

pub(crate) unsafe fn cuGraphExecKernelNodeSetParams_v2(
    exec: CuGraphExec,
    node: CuGraphNode,
    parameters: *const KernelNodeParamsV2,
) -> Outcome {
    let (_, found) = known_exec(exec)?;
    // SAFETY: the caller vouches for it.
    let kind = unsafe { kernel_kind_v2(parameters) }?;
    found.change(node.0, |node| replace(node, kind))
}

pub(crate) unsafe fn cuGraphExecMemcpyNodeSetParams(
    exec: CuGraphExec,
    node: CuGraphNode,
    copy: *const Copy3d,
    _context: CuContext,
) -> Outcome {
    let (system, found) = known_exec(exec)?;
    // SAFETY: the caller vouches for it.
    let kind = unsafe { copy_kind(system, copy) }?;
    found.change(node.0, |node| replace(node, kind))
}

pub(crate) unsafe fn cuGraphExecMemsetNodeSetParams(
    exec: CuGraphExec,
    node: CuGraphNode,
    parameters: *const MemsetNodeParams,
    _context: CuContext,
) -> Outcome {
    let (system, found) = known_exec(exec)?;
    // SAFETY: the caller vouches for it.
    let kind = unsafe { fill_kind(system, parameters) }?;
    found.change(node.0, |node| replace(node, kind))
}

pub(crate) unsafe fn cuGraphExecHostNodeSetParams(
    exec: CuGraphExec,
    node: CuGraphNode,
    parameters: *const HostNodeParams,
) -> Outcome {
    let (_, found) = known_exec(exec)?;
    // SAFETY: the caller vouches for it.
    let kind = unsafe { host_kind(parameters) }?;
    found.change(node.0, |node| replace(node, kind))
}

pub(crate) unsafe fn cuGraphNodeSetEnabled(exec: CuGraphExec, node: CuGraphNode, is_enabled: u32) -> Outcome {
    let (_, found) = known_exec(exec)?;
    found.change(node.0, |node| {
        node.is_enabled = is_enabled != 0;
        Ok(())
    })
}

pub(crate) unsafe fn cuGraphNodeGetEnabled(exec: CuGraphExec, node: CuGraphNode, is_enabled: *mut u32) -> Outcome {
    let (_, found) = known_exec(exec)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(is_enabled) }?;
    out.set(u32::from(found.change(node.0, |node| Ok(node.is_enabled))?));
    Ok(())
}

pub(crate) unsafe fn cuGraphUpload(exec: CuGraphExec, handle: CuStream) -> Outcome {
    known_exec(exec)?;
    let (system, found) = stream(handle)?;
    system.captures.refuse(&found)?;
    found.submit_marker([]);
    Ok(())
}

pub(crate) unsafe fn cuGraphLaunch(exec: CuGraphExec, handle: CuStream) -> Outcome {
    let (_, found) = known_exec(exec)?;
    let (system, stream) = stream(handle)?;
    if system.captures.of(&stream).is_some() {
        submit(system, &stream, NodeKind::Child(found.nodes()))?;
        return Ok(());
    }
    system.captures.refuse(&stream)?;
    found.launch(system, &stream);
    Ok(())
}

pub(crate) unsafe fn cuGraphExecDestroy(exec: CuGraphExec) -> Outcome {
    let (system, _) = known_exec(exec)?;
    system.execs.remove(exec.0);
    Ok(())
}
