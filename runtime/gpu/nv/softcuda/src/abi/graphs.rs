//! Graphs: their nodes with edges, and how they are looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{
    Copy3d, CuContext, CuEvent, CuGraph, CuGraphNode, GraphNodeType, HostNodeParams, KernelNodeParams,
    KernelNodeParamsV2, MemsetNodeParams,
};
use vireo_soft::pointers;

use super::events;
use super::nodes::{copy_kind, fill_kind, host_kind, kernel_kind, kernel_kind_v2};
use crate::api::{Out, Outcome, refused};
use crate::graph::{Graph, Node, NodeKind, sorted};
use crate::system::{System, system};

/// Nodes of a graph at most.
const MAX_NODES: usize = 1 << 20;

/// The graph with a handle.
pub(super) fn known(graph: CuGraph) -> Outcome<(&'static System, Arc<Graph>)> {
    let system = system()?;
    Ok((system, system.graphs.get(graph.0).ok_or(CuResult::ERROR_INVALID_VALUE)?))
}

/// The graph that a node is in.
pub(super) fn graph_of(node: CuGraphNode) -> Outcome<(&'static System, Arc<Graph>)> {
    let system = system()?;
    let graph = system.nodes.get(node.0).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    known(CuGraph(*graph))
}

pub(crate) unsafe fn cuGraphCreate(graph: *mut CuGraph, flags: u32) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(graph) }?;
    if flags != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    out.set(CuGraph(system.graphs.insert(Arc::new(Graph::default()))));
    Ok(())
}

pub(crate) unsafe fn cuGraphDestroy(graph: CuGraph) -> Outcome {
    let (system, found) = known(graph)?;
    system.graphs.remove(graph.0);
    found.nodes().iter().for_each(|node| drop(system.nodes.remove(node.handle)));
    Ok(())
}

pub(crate) unsafe fn cuGraphClone(clone: *mut CuGraph, graph: CuGraph) -> Outcome {
    let (system, found) = known(graph)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(clone) }?;
    let nodes = found.nodes().clone();
    let copy = Arc::new(Graph { kept: found.kept.clone(), ..Graph::default() });
    let handle = system.graphs.insert(copy.clone());
    let new: BTreeMap<u64, u64> =
        nodes.iter().map(|node| (node.handle, system.nodes.insert(Arc::new(handle)))).collect();
    let renamed = |handle: &u64| new.get(handle).copied().unwrap_or(0);
    copy.nodes().extend(nodes.iter().map(|node| Node {
        handle: renamed(&node.handle),
        after: node.after.iter().map(renamed).collect(),
        ..node.clone()
    }));
    out.set(CuGraph(handle));
    Ok(())
}

/// The common arguments of functions that add a node: where its handle is put, the graph, and its dependencies.
struct Adding(*mut CuGraphNode, CuGraph, *const CuGraphNode, u64);

/// Adds a node.
///
/// # Safety
/// The pointers are as documented.
unsafe fn add(adding: &Adding, make: impl FnOnce(&'static System) -> Outcome<NodeKind>) -> Outcome {
    let Adding(node, handle, dependencies, count) = *adding;
    let (system, graph) = known(handle)?;
    // SAFETY: the caller vouches for the pointers.
    let (out, after) = unsafe { (Out::new(node)?, pointers::array(dependencies, count as usize).map_err(refused)?) };
    let after: BTreeSet<u64> = after.iter().map(|node| node.0).collect();
    let kind = make(system)?;
    let mut nodes = graph.nodes();
    let known: BTreeSet<u64> = match after.is_empty() {
        true => BTreeSet::new(),
        false => nodes.iter().map(|node| node.handle).collect(),
    };
    // A node that is given twice is a mistake too.
    if !after.is_subset(&known) || after.len() as u64 != count || nodes.len() >= MAX_NODES {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let added = system.nodes.insert(Arc::new(handle.0));
    nodes.push(Node { handle: added, kind, after, is_enabled: true });
    out.set(CuGraphNode(added));
    Ok(())
}

pub(crate) unsafe fn cuGraphAddEmptyNode(
    node: *mut CuGraphNode,
    graph: CuGraph,
    dependencies: *const CuGraphNode,
    count: u64,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { add(&Adding(node, graph, dependencies, count), |_| Ok(NodeKind::Empty)) }
}

pub(crate) unsafe fn cuGraphAddKernelNode(
    node: *mut CuGraphNode,
    graph: CuGraph,
    dependencies: *const CuGraphNode,
    count: u64,
    parameters: *const KernelNodeParams,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { add(&Adding(node, graph, dependencies, count), |_| kernel_kind(parameters)) }
}

pub(crate) unsafe fn cuGraphAddKernelNode_v2(
    node: *mut CuGraphNode,
    graph: CuGraph,
    dependencies: *const CuGraphNode,
    count: u64,
    parameters: *const KernelNodeParamsV2,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { add(&Adding(node, graph, dependencies, count), |_| kernel_kind_v2(parameters)) }
}

pub(crate) unsafe fn cuGraphAddMemcpyNode(
    node: *mut CuGraphNode,
    graph: CuGraph,
    dependencies: *const CuGraphNode,
    count: u64,
    copy: *const Copy3d,
    _context: CuContext,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { add(&Adding(node, graph, dependencies, count), |system| copy_kind(system, copy)) }
}

pub(crate) unsafe fn cuGraphAddMemsetNode(
    node: *mut CuGraphNode,
    graph: CuGraph,
    dependencies: *const CuGraphNode,
    count: u64,
    parameters: *const MemsetNodeParams,
    _context: CuContext,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { add(&Adding(node, graph, dependencies, count), |system| fill_kind(system, parameters)) }
}

pub(crate) unsafe fn cuGraphAddHostNode(
    node: *mut CuGraphNode,
    graph: CuGraph,
    dependencies: *const CuGraphNode,
    count: u64,
    parameters: *const HostNodeParams,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { add(&Adding(node, graph, dependencies, count), |_| host_kind(parameters)) }
}

pub(crate) unsafe fn cuGraphAddChildGraphNode(
    node: *mut CuGraphNode,
    graph: CuGraph,
    dependencies: *const CuGraphNode,
    count: u64,
    child: CuGraph,
) -> Outcome {
    let (_, found) = known(child)?;
    if child == graph {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let nodes = sorted(&found.nodes()).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    // SAFETY: the caller vouches for the pointers.
    unsafe { add(&Adding(node, graph, dependencies, count), |_| Ok(NodeKind::Child(nodes))) }
}

pub(crate) unsafe fn cuGraphAddEventRecordNode(
    node: *mut CuGraphNode,
    graph: CuGraph,
    dependencies: *const CuGraphNode,
    count: u64,
    event: CuEvent,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { add(&Adding(node, graph, dependencies, count), |_| events::known(event).map(NodeKind::Record)) }
}

pub(crate) unsafe fn cuGraphAddEventWaitNode(
    node: *mut CuGraphNode,
    graph: CuGraph,
    dependencies: *const CuGraphNode,
    count: u64,
    event: CuEvent,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { add(&Adding(node, graph, dependencies, count), |_| events::known(event).map(NodeKind::Wait)) }
}

pub(crate) unsafe fn cuGraphNodeGetType(node: CuGraphNode, kind: *mut GraphNodeType) -> Outcome {
    let (_, graph) = graph_of(node)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(kind) }?;
    let nodes = graph.nodes();
    let found = nodes.iter().find(|known| known.handle == node.0).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    out.set(found.kind.node_type());
    Ok(())
}

/// Puts handles into as many elements as there are, the rest being zero, or only their number if there are none.
///
/// # Safety
/// The pointers are null or writable, the first for as many elements as the other one says.
unsafe fn put(handles: &[u64], to: *mut CuGraphNode, count: *mut u64) -> Outcome {
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(count) }?;
    if to.is_null() {
        out.set(handles.len() as u64);
        return Ok(());
    }
    // SAFETY: it is not null, and the caller vouches for the rest.
    let room = usize::try_from(unsafe { count.read_unaligned() }).unwrap_or(usize::MAX);
    let all = handles.iter().copied().chain(std::iter::repeat(0)).take(room.min(MAX_NODES));
    for (index, handle) in all.enumerate() {
        // SAFETY: the caller guarantees as many elements as it says.
        unsafe { to.add(index).write_unaligned(CuGraphNode(handle)) };
    }
    out.set(handles.len().min(room) as u64);
    Ok(())
}

pub(crate) unsafe fn cuGraphGetNodes(graph: CuGraph, nodes: *mut CuGraphNode, count: *mut u64) -> Outcome {
    let (_, found) = known(graph)?;
    let handles: Vec<u64> = found.nodes().iter().map(|node| node.handle).collect();
    // SAFETY: the caller vouches for the pointers.
    unsafe { put(&handles, nodes, count) }
}

pub(crate) unsafe fn cuGraphGetRootNodes(graph: CuGraph, nodes: *mut CuGraphNode, count: *mut u64) -> Outcome {
    let (_, found) = known(graph)?;
    let all = found.nodes();
    let handles: Vec<u64> = all.iter().filter(|node| node.after.is_empty()).map(|node| node.handle).collect();
    // SAFETY: the caller vouches for the pointers.
    unsafe { put(&handles, nodes, count) }
}

pub(crate) unsafe fn cuGraphGetEdges(
    graph: CuGraph,
    from: *mut CuGraphNode,
    to: *mut CuGraphNode,
    count: *mut u64,
) -> Outcome {
    let (_, found) = known(graph)?;
    let nodes = found.nodes();
    let edges = nodes.iter().flat_map(|node| node.after.iter().map(|other| (*other, node.handle)));
    let (before, after): (Vec<u64>, Vec<u64>) = edges.unzip();
    if from.is_null() != to.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for the pointers; the second call reads the number that it gave.
    unsafe {
        let mut room = Out::new(count).map(|_| count.read_unaligned())?;
        put(&before, from, &raw mut room)?;
        put(&after, to, count)
    }
}

pub(crate) unsafe fn cuGraphNodeGetDependencies(
    node: CuGraphNode,
    dependencies: *mut CuGraphNode,
    count: *mut u64,
) -> Outcome {
    let (_, graph) = graph_of(node)?;
    let nodes = graph.nodes();
    let found = nodes.iter().find(|known| known.handle == node.0).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    let handles: Vec<u64> = found.after.iter().copied().collect();
    // SAFETY: the caller vouches for the pointers.
    unsafe { put(&handles, dependencies, count) }
}

pub(crate) unsafe fn cuGraphNodeGetDependentNodes(
    node: CuGraphNode,
    dependents: *mut CuGraphNode,
    count: *mut u64,
) -> Outcome {
    let (_, graph) = graph_of(node)?;
    let nodes = graph.nodes();
    let handles: Vec<u64> =
        nodes.iter().filter(|known| known.after.contains(&node.0)).map(|known| known.handle).collect();
    // SAFETY: the caller vouches for the pointers.
    unsafe { put(&handles, dependents, count) }
}

/// Changes the dependencies of nodes, for each pair of a list.
///
/// # Safety
/// The pointers are as documented.
unsafe fn edges(
    graph: CuGraph,
    from: *const CuGraphNode,
    to: *const CuGraphNode,
    count: u64,
    change: impl Fn(&mut Node, u64) -> bool,
) -> Outcome {
    let (_, found) = known(graph)?;
    // SAFETY: the caller vouches for the pointers.
    let (from, to) = unsafe {
        (pointers::array(from, count as usize).map_err(refused)?, pointers::array(to, count as usize).map_err(refused)?)
    };
    let mut nodes = found.nodes();
    for (from, to) in from.iter().zip(&to) {
        let is_there = nodes.iter().any(|node| node.handle == from.0);
        let node = nodes.iter_mut().find(|node| node.handle == to.0).filter(|_| is_there && from != to);
        if !change(node.ok_or(CuResult::ERROR_INVALID_VALUE)?, from.0) {
            return Err(CuResult::ERROR_INVALID_VALUE);
        }
    }
    Ok(())
}

pub(crate) unsafe fn cuGraphAddDependencies(
    graph: CuGraph,
    from: *const CuGraphNode,
    to: *const CuGraphNode,
    count: u64,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { edges(graph, from, to, count, |node, other| node.after.insert(other)) }
}

pub(crate) unsafe fn cuGraphRemoveDependencies(
    graph: CuGraph,
    from: *const CuGraphNode,
    to: *const CuGraphNode,
    count: u64,
) -> Outcome {
    // SAFETY: the caller vouches for the pointers.
    unsafe { edges(graph, from, to, count, |node, other| node.after.remove(&other)) }
}

pub(crate) unsafe fn cuGraphDestroyNode(node: CuGraphNode) -> Outcome {
    let (system, graph) = graph_of(node)?;
    system.nodes.remove(node.0);
    let mut nodes = graph.nodes();
    nodes.retain(|known| known.handle != node.0);
    nodes.iter_mut().for_each(|known| {
        known.after.remove(&node.0);
    });
    Ok(())
}
