//! The parameters of nodes, of graphs and of executable graphs alike.

use std::sync::Arc;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{
    Copy3d, CuContext, CuFunction, CuGraphNode, CuKernel, HostNodeParams, KernelNodeParams, KernelNodeParamsV2,
    MemsetNodeParams,
};

use super::functions::known;
use super::graphs::graph_of;
use crate::api::{Out, Outcome};
use crate::graph::{KernelNode, Node, NodeKind, Vouched};
use crate::image::Launch;
use crate::launch::{check, pack};
use crate::system::{System, system};
use crate::transfer::{Copy, Fill, of_3d};

/// The structure at an address.
///
/// # Safety
/// Unless it is null, there is one.
pub(super) unsafe fn read<T: std::marker::Copy>(pointer: *const T) -> Outcome<T> {
    if pointer.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { pointer.read_unaligned() })
}

/// A node that launches a kernel.
///
/// # Safety
/// The pointer is null or has parameters as documented.
pub(super) unsafe fn kernel_kind(parameters: *const KernelNodeParams) -> Outcome<NodeKind> {
    // SAFETY: the caller vouches for it.
    let p = unsafe { read(parameters) }?;
    let (grid, block) = ([p.grid_dim_x, p.grid_dim_y, p.grid_dim_z], [p.block_dim_x, p.block_dim_y, p.block_dim_z]);
    let (system, function) = known(p.func)?;
    let launch = Launch { grid, block, shared: p.shared_mem_bytes, is_cooperative: false, parameters: Arc::default() };
    check(&system.devices[function.module.context.device as usize], &function, &launch)?;
    let (list, extra) = (p.kernel_params.cast_const().cast(), p.extra.cast_const().cast());
    // SAFETY: the caller vouches for the parameters.
    let packed = unsafe { pack(function.kernel(), list, extra) }?;
    let start = packed.as_ptr().expose_provenance() as u64;
    let addresses = function.kernel().parameters.iter().map(|known| start + u64::from(known.offset)).collect();
    let launch = Launch { parameters: packed, ..launch };
    Ok(NodeKind::Kernel(KernelNode { function, handle: p.func.0, launch, addresses }))
}

/// A node that launches a kernel, perhaps of a library.
///
/// # Safety
/// The pointer is null or has parameters as documented.
pub(super) unsafe fn kernel_kind_v2(parameters: *const KernelNodeParamsV2) -> Outcome<NodeKind> {
    // SAFETY: the caller vouches for it.
    let p = unsafe { read(parameters) }?;
    let func = if p.func.0 != 0 { p.func } else { CuFunction(p.kern.0) };
    let first = KernelNodeParams {
        func,
        grid_dim_x: p.grid_dim_x,
        grid_dim_y: p.grid_dim_y,
        grid_dim_z: p.grid_dim_z,
        block_dim_x: p.block_dim_x,
        block_dim_y: p.block_dim_y,
        block_dim_z: p.block_dim_z,
        shared_mem_bytes: p.shared_mem_bytes,
        kernel_params: p.kernel_params,
        extra: p.extra,
    };
    // SAFETY: the caller vouches for the parameters.
    unsafe { kernel_kind(&raw const first) }
}

/// A node that copies.
///
/// # Safety
/// The pointer is null or has parameters as documented.
pub(super) unsafe fn copy_kind(system: &System, copy: *const Copy3d) -> Outcome<NodeKind> {
    // SAFETY: the caller vouches for it.
    let wanted = unsafe { read(copy) }?;
    let (to, from, size) = of_3d(&wanted)?;
    // SAFETY: the program vouches for its own memory at each launch.
    let copy = unsafe { Copy::new(&system.memory, to, from, size, false) }?;
    Ok(NodeKind::Copy(Box::new(Vouched(wanted)), copy.map(Box::new)))
}

/// A node that fills.
///
/// # Safety
/// The pointer is null or has parameters as documented.
pub(super) unsafe fn fill_kind(system: &System, parameters: *const MemsetNodeParams) -> Outcome<NodeKind> {
    // SAFETY: the caller vouches for it.
    let p = unsafe { read(parameters) }?;
    let fill = Fill::new(&system.memory, p.dst, p.pitch, p.value, p.element_size, p.width, p.height)?;
    Ok(NodeKind::Fill(Vouched(p), fill))
}

/// A node that calls the host.
///
/// # Safety
/// The pointer is null or has parameters as documented.
pub(super) unsafe fn host_kind(parameters: *const HostNodeParams) -> Outcome<NodeKind> {
    // SAFETY: the caller vouches for it.
    let parameters = unsafe { read(parameters) }?;
    parameters.function.ok_or(CuResult::ERROR_INVALID_VALUE)?;
    Ok(NodeKind::Host(Vouched(parameters)))
}

/// Replaces what a node does by the same with other parameters.
pub(super) fn replace(node: &mut Node, mut kind: NodeKind) -> Outcome {
    if node.kind.node_type() != kind.node_type() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    if let (NodeKind::Kernel(old), NodeKind::Kernel(new)) = (&node.kind, &mut kind)
        && old.launch.is_cooperative
    {
        // Parameters do not say so, and a node that was cooperative stays that.
        new.launch.is_cooperative = true;
        check(&system()?.devices[new.function.module.context.device as usize], &new.function, &new.launch)?;
    }
    node.kind = kind;
    Ok(())
}

/// Changes a node of a graph.
fn change<T>(node: CuGraphNode, change: impl FnOnce(&mut Node) -> Outcome<T>) -> Outcome<T> {
    let (_, graph) = graph_of(node)?;
    let mut nodes = graph.nodes();
    let found = nodes.iter_mut().find(|known| known.handle == node.0);
    change(found.ok_or(CuResult::ERROR_INVALID_VALUE)?)
}

/// Reads something of a kernel node.
fn kernel_node<T>(node: CuGraphNode, read: impl FnOnce(&KernelNode) -> T) -> Outcome<T> {
    change(node, |node| match &node.kind {
        NodeKind::Kernel(kernel) => Ok(read(kernel)),
        _ => Err(CuResult::ERROR_INVALID_VALUE),
    })
}

/// The parameters of a kernel node. The list of their addresses lives as long as the node has them.
fn parameters_of(kernel: &KernelNode) -> KernelNodeParams {
    let Launch { grid, block, shared, .. } = kernel.launch;
    let addresses = kernel.addresses.as_ptr().cast_mut().cast();
    KernelNodeParams {
        func: CuFunction(kernel.handle),
        grid_dim_x: grid[0],
        grid_dim_y: grid[1],
        grid_dim_z: grid[2],
        block_dim_x: block[0],
        block_dim_y: block[1],
        block_dim_z: block[2],
        shared_mem_bytes: shared,
        kernel_params: if kernel.addresses.is_empty() { std::ptr::null_mut() } else { addresses },
        extra: std::ptr::null_mut(),
    }
}

pub(crate) unsafe fn cuGraphKernelNodeGetParams(node: CuGraphNode, parameters: *mut KernelNodeParams) -> Outcome {
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(parameters) }?;
    out.set(kernel_node(node, parameters_of)?);
    Ok(())
}

pub(crate) unsafe fn cuGraphKernelNodeGetParams_v2(node: CuGraphNode, parameters: *mut KernelNodeParamsV2) -> Outcome {
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(parameters) }?;
    let (p, context) = kernel_node(node, |kernel| (parameters_of(kernel), kernel.function.module.context.handle()))?;
    out.set(KernelNodeParamsV2 {
        func: p.func,
        grid_dim_x: p.grid_dim_x,
        grid_dim_y: p.grid_dim_y,
        grid_dim_z: p.grid_dim_z,
        block_dim_x: p.block_dim_x,
        block_dim_y: p.block_dim_y,
        block_dim_z: p.block_dim_z,
        shared_mem_bytes: p.shared_mem_bytes,
        kernel_params: p.kernel_params,
        extra: p.extra,
        kern: CuKernel(0),
        ctx: CuContext(context),
    });
    Ok(())
}

pub(crate) unsafe fn cuGraphKernelNodeSetParams(node: CuGraphNode, parameters: *const KernelNodeParams) -> Outcome {
    // SAFETY: the caller vouches for it.
    let kind = unsafe { kernel_kind(parameters) }?;
    change(node, |node| replace(node, kind))
}

pub(crate) unsafe fn cuGraphKernelNodeSetParams_v2(
    node: CuGraphNode,
    parameters: *const KernelNodeParamsV2,
) -> Outcome {
    // SAFETY: the caller vouches for it.
    let kind = unsafe { kernel_kind_v2(parameters) }?;
    change(node, |node| replace(node, kind))
}

pub(crate) unsafe fn cuGraphMemcpyNodeGetParams(node: CuGraphNode, copy: *mut Copy3d) -> Outcome {
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(copy) }?;
    out.set(change(node, |node| match &node.kind {
        NodeKind::Copy(wanted, _) => Ok(wanted.get()),
        _ => Err(CuResult::ERROR_INVALID_VALUE),
    })?);
    Ok(())
}

pub(crate) unsafe fn cuGraphMemcpyNodeSetParams(node: CuGraphNode, copy: *const Copy3d) -> Outcome {
    let (system, _) = graph_of(node)?;
    // SAFETY: the caller vouches for it.
    let kind = unsafe { copy_kind(system, copy) }?;
    change(node, |node| replace(node, kind))
}

pub(crate) unsafe fn cuGraphMemsetNodeGetParams(node: CuGraphNode, parameters: *mut MemsetNodeParams) -> Outcome {
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(parameters) }?;
    out.set(change(node, |node| match &node.kind {
        NodeKind::Fill(wanted, _) => Ok(wanted.get()),
        _ => Err(CuResult::ERROR_INVALID_VALUE),
    })?);
    Ok(())
}

pub(crate) unsafe fn cuGraphMemsetNodeSetParams(node: CuGraphNode, parameters: *const MemsetNodeParams) -> Outcome {
    let (system, _) = graph_of(node)?;
    // SAFETY: the caller vouches for it.
    let kind = unsafe { fill_kind(system, parameters) }?;
    change(node, |node| replace(node, kind))
}

pub(crate) unsafe fn cuGraphHostNodeGetParams(node: CuGraphNode, parameters: *mut HostNodeParams) -> Outcome {
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(parameters) }?;
    out.set(change(node, |node| match &node.kind {
        NodeKind::Host(host) => Ok(host.get()),
        _ => Err(CuResult::ERROR_INVALID_VALUE),
    })?);
    Ok(())
}

pub(crate) unsafe fn cuGraphHostNodeSetParams(node: CuGraphNode, parameters: *const HostNodeParams) -> Outcome {
    // SAFETY: the caller vouches for it.
    let kind = unsafe { host_kind(parameters) }?;
    change(node, |node| replace(node, kind))
}
