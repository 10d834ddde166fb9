//! Programs as graphs of the library ([`Graphs`]): a node for each command, made once, launched by one call, and
//! changed where an execution has other addresses.
//!
//! Nodes between two barriers do not depend on each other; those after a barrier depend on all between it and the one
//! before, through an empty node where there are many. An executable graph is changed and launched under a lock, since
//! the library forbids two threads at once; launches that were made before are not affected by a change.

use std::ffi::c_void;
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vireo_cuda::types::{
    Copy3d, CuArray, CuGraph, CuGraphExec, CuGraphNode, KernelNodeParams, MemoryType, MemsetNodeParams,
};

use super::block::{Block, Command, Launch, Operation};
use super::execution::{Execution, extra_of};
use crate::context::Context;
use crate::options::UseGraphs;
use crate::status::Result;

/// Commands that a program has at least for a graph of it to be made, unless graphs are always used.
const LEAST_NODES: usize = 8;

/// Edges to one node at most; more lead to an empty node in between.
const MAX_EDGES: usize = 16;

/// Executable graphs of a program at most: executions that need one more at the same time are given to streams.
const MAX_GRAPHS: usize = 4;

/// A transfer with the addresses of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    target: u64,
    length: u64,
    source: TransferSource,
}

/// The source of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferSource {
    /// A value of so many bytes.
    Value(u32, u32),
    /// An address of the device.
    Device(u64),
    /// An address of the host.
    Host(usize),
}

/// A node that executions may change.
struct Node {
    node: CuGraphNode,
    /// The place of its command in the block.
    command: usize,
    /// None for a launch.
    transfer: Option<Transfer>,
}

/// An executable graph.
struct Executable {
    context: Arc<Context>,
    graph: CuGraph,
    exec: CuGraphExec,
    nodes: Vec<Node>,
    /// The arguments that it has.
    arena: Vec<u64>,
    /// The nodes that an execution changes, with their transfers; memory that is used again.
    changed: Vec<(usize, Option<Transfer>)>,
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: its launches have ended, since they hold the program. Failures change nothing here.
        let _ = self.context.call(|api| unsafe {
            let destroyed = if self.exec.0 == 0 { Ok(()) } else { api.graph_exec_destroy(self.exec) };
            destroyed.and(api.graph_destroy(self.graph))
        });
    }
}

/// The executable graphs of a program.
#[derive(Default)]
pub struct Graphs {
    /// How often the program was executed.
    executions: AtomicU32,
    /// How many there are.
    made: AtomicU32,
    free: Mutex<Vec<Executable>>,
}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} graphs", self.made.load(Ordering::Relaxed))
    }
}

impl Graphs {
    /// Launches the block of a program, which is its only one, as a graph. False if streams are to be given it.
    ///
    /// # Errors
    /// Those of the library.
    pub(super) fn run(&self, execution: &Execution<'_>, block: &Block, arena: &[u64]) -> Result<bool> {
        let is_first = self.executions.fetch_add(1, Ordering::Relaxed) == 0;
        let commands = block.commands.iter().filter(|command| !matches!(command, Command::Barrier)).count();
        let is_wanted = match execution.graphs {
            UseGraphs::Never => false,
            UseGraphs::Auto => !is_first && commands >= LEAST_NODES,
            UseGraphs::Always => commands > 0,
        };
        if !is_wanted {
            return Ok(false);
        }
        let Some(executable) = self.take(execution, block, arena)? else { return Ok(false) };
        // SAFETY: the graph is alive, and the execution holds what it uses.
        let launched = unsafe { execution.context.api().graph_launch(executable.exec, execution.stream) };
        self.give(executable);
        launched.map_err(|error| execution.context.failed(error))?;
        Ok(true)
    }

    /// A graph with the addresses of an execution; none if a stream is to be given the commands. One that could not be
    /// changed is gone.
    fn take(&self, execution: &Execution<'_>, block: &Block, arena: &[u64]) -> Result<Option<Executable>> {
        let known = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let made = match known {
            Some(mut executable) => match executable.change(execution, block, arena) {
                Ok(true) => return Ok(Some(executable)),
                Ok(false) => {
                    self.give(executable);
                    return Ok(None);
                }
                Err(status) => Err(status),
            },
            None if self.made.fetch_add(1, Ordering::Relaxed) < MAX_GRAPHS as u32 => {
                Executable::new(execution, block, arena)
            }
            None => Ok(None),
        };
        if !matches!(made, Ok(Some(_))) {
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
        made
    }

    fn give(&self, executable: Executable) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(executable);
    }
}

/// The transfer of a command; none if graphs have no node for it.
fn transfer_of(execution: &Execution<'_>, block: &Block, command: &Command) -> Result<Option<Transfer>> {
    let Command::Transfer(place, operation) = command else { return Ok(None) };
    let (target, length) = place.range(execution.resolved, 0)?;
    let source = match operation {
        Operation::Fill { pattern, step: step @ (1 | 2) } => {
            TransferSource::Value(*pattern as u32 & (u32::MAX >> (32 - 8 * *step as u32)), *step as u32)
        }
        Operation::Fill { pattern, .. } if *pattern as u32 == (*pattern >> 32) as u32 => {
            TransferSource::Value(*pattern as u32, 4)
        }
        Operation::Fill { .. } => return Ok(None),
        Operation::Copy { source } => {
            let (source, _) = source.range(execution.resolved, 0)?;
            if source.abs_diff(target) < length {
                return Ok(None);
            }
            TransferSource::Device(source)
        }
        Operation::Update { start } => {
            let Some(bytes) = block.bytes.get(*start as usize..) else { return Ok(None) };
            TransferSource::Host(bytes.as_ptr().expose_provenance())
        }
    };
    Ok((length > 0).then_some(Transfer { target, length, source }))
}

impl Transfer {
    fn fill(&self, value: u32, element_size: u32) -> MemsetNodeParams {
        let width = self.length / u64::from(element_size);
        MemsetNodeParams { dst: self.target, pitch: 0, value, element_size, width, height: 1 }
    }

    fn copy(&self) -> Copy3d {
        let (src_memory_type, src_host, src_device) = match self.source {
            TransferSource::Host(host) => (MemoryType::HOST, std::ptr::with_exposed_provenance::<c_void>(host), 0),
            TransferSource::Device(address) => (MemoryType::UNIFIED, null(), address),
            TransferSource::Value(..) => (MemoryType::UNIFIED, null(), 0),
        };
        Copy3d {
            src_xin_bytes: 0,
            src_y: 0,
            src_z: 0,
            src_lod: 0,
            src_memory_type,
            src_host,
            src_device,
            src_array: CuArray(0),
            reserved0: null_mut(),
            src_pitch: 0,
            src_height: 0,
            dst_xin_bytes: 0,
            dst_y: 0,
            dst_z: 0,
            dst_lod: 0,
            dst_memory_type: MemoryType::UNIFIED,
            dst_host: null_mut(),
            dst_device: self.target,
            dst_array: CuArray(0),
            reserved1: null_mut(),
            dst_pitch: 0,
            dst_height: 0,
            width_in_bytes: self.length,
            height: 1,
            depth: 1,
        }
    }
}

/// Calls `call` with the parameters of a launch, which the library copies.
fn with_launch<T>(launch: &Launch, arena: &[u64], call: impl FnOnce(&KernelNodeParams) -> T) -> T {
    let bytes = u64::from(launch.length);
    let arguments = &arena[launch.arguments as usize..][..launch.length.div_ceil(8) as usize];
    let mut extra = extra_of(arguments, &bytes);
    let ([x, y, z], [i, j, k]) = (launch.grid, launch.block);
    call(&KernelNodeParams {
        func: launch.function,
        grid_dim_x: x,
        grid_dim_y: y,
        grid_dim_z: z,
        block_dim_x: i,
        block_dim_y: j,
        block_dim_z: k,
        shared_mem_bytes: launch.shared,
        kernel_params: null_mut(),
        extra: extra.as_mut_ptr(),
    })
}

fn words_of<'a>(launch: &Launch, arena: &'a [u64]) -> &'a [u64] {
    &arena[launch.arguments as usize..][..launch.length.div_ceil(8) as usize]
}

impl Executable {
    /// A graph of a block; none if one of its commands cannot be a node.
    fn new(execution: &Execution<'_>, block: &Block, arena: &[u64]) -> Result<Option<Executable>> {
        let context = execution.context;
        // SAFETY: the context is current.
        let graph = unsafe { context.api().graph_create(0) }.map_err(|error| context.failed(error))?;
        let arena_copy = arena.to_vec();
        let mut executable = Executable {
            context: context.clone(),
            graph,
            exec: CuGraphExec(0),
            nodes: Vec::new(),
            arena: arena_copy,
            changed: Vec::new(),
        };
        // The next nodes depend on the first, and those after the next barrier on the second.
        let (mut before, mut now): (Vec<CuGraphNode>, Vec<CuGraphNode>) = (Vec::new(), Vec::new());
        for (index, command) in block.commands.iter().enumerate() {
            let node = match command {
                Command::Barrier => {
                    if !now.is_empty() {
                        before = executable.join(std::mem::take(&mut now))?;
                    }
                    continue;
                }
                Command::Launch(launch) => executable.add_launch(launch, arena, &before)?,
                Command::Transfer(..) => {
                    let Some(transfer) = transfer_of(execution, block, command)? else { return Ok(None) };
                    executable.add_transfer(&transfer, &before)?
                }
                Command::Indirect(..) | Command::ReadCounts(..) => return Ok(None),
            };
            now.push(node);
            let transfer = transfer_of(execution, block, command)?;
            executable.nodes.push(Node { node, command: index, transfer });
        }
        // SAFETY: the graph is alive and complete.
        let exec = unsafe { context.api().graph_instantiate(graph, 0) }.map_err(|error| context.failed(error))?;
        executable.exec = exec;
        Ok(Some(executable))
    }

    /// Nodes that stand for others.
    fn join(&self, nodes: Vec<CuGraphNode>) -> Result<Vec<CuGraphNode>> {
        if nodes.len() <= MAX_EDGES {
            return Ok(nodes);
        }
        // SAFETY: the nodes are of the graph, and there are as many.
        let joined = unsafe { self.context.api().graph_add_empty(self.graph, nodes.as_ptr(), nodes.len() as u64) };
        Ok(vec![joined.map_err(|error| self.context.failed(error))?])
    }

    fn add_launch(&self, launch: &Launch, arena: &[u64], after: &[CuGraphNode]) -> Result<CuGraphNode> {
        let (api, count) = (self.context.api(), after.len() as u64);
        // SAFETY: the nodes are of the graph, and the kernel is one that the program holds.
        let added = with_launch(launch, arena, |params| unsafe {
            api.graph_add_kernel(self.graph, after.as_ptr(), count, params)
        });
        added.map_err(|error| self.context.failed(error))
    }

    fn add_transfer(&self, transfer: &Transfer, after: &[CuGraphNode]) -> Result<CuGraphNode> {
        let (api, count, context) = (self.context.api(), after.len() as u64, self.context.context);
        // SAFETY: the nodes are of the graph, and executions hold both ends.
        let added = unsafe {
            match transfer.source {
                TransferSource::Value(value, size) => {
                    let params = transfer.fill(value, size);
                    api.graph_add_fill(self.graph, after.as_ptr(), count, &raw const params, context)
                }
                _ => {
                    let params = transfer.copy();
                    api.graph_add_copy(self.graph, after.as_ptr(), count, &raw const params, context)
                }
            }
        };
        added.map_err(|error| self.context.failed(error))
    }

    /// Gives the graph the addresses of an execution. False if a stream is faster, since more than half of the nodes
    /// would change, or if it cannot have them.
    fn change(&mut self, execution: &Execution<'_>, block: &Block, arena: &[u64]) -> Result<bool> {
        if self.arena == arena && self.nodes.iter().all(|node| node.transfer.is_none()) {
            return Ok(true);
        }
        self.changed.clear();
        for (index, node) in self.nodes.iter().enumerate() {
            match &block.commands[node.command] {
                Command::Launch(launch) if words_of(launch, &self.arena) != words_of(launch, arena) => {
                    self.changed.push((index, None));
                }
                command @ Command::Transfer(..) => {
                    let Some(transfer) = transfer_of(execution, block, command)? else { return Ok(false) };
                    if Some(transfer) != node.transfer {
                        self.changed.push((index, Some(transfer)));
                    }
                }
                _ => {}
            }
        }
        if execution.graphs == UseGraphs::Auto && self.changed.len() * 2 > self.nodes.len() {
            return Ok(false);
        }
        let (api, context) = (self.context.api(), self.context.context);
        for (index, transfer) in self.changed.drain(..) {
            let node = &mut self.nodes[index];
            // SAFETY: the node is one of the graph, and the execution holds what it will use.
            let set = unsafe {
                match (&block.commands[node.command], transfer) {
                    (Command::Launch(launch), _) => {
                        with_launch(launch, arena, |params| api.graph_set_kernel(self.exec, node.node, params))
                    }
                    (_, Some(transfer)) => {
                        node.transfer = Some(transfer);
                        match transfer.source {
                            TransferSource::Value(value, size) => {
                                let params = transfer.fill(value, size);
                                api.graph_set_fill(self.exec, node.node, &raw const params, context)
                            }
                            _ => {
                                let params = transfer.copy();
                                api.graph_set_copy(self.exec, node.node, &raw const params, context)
                            }
                        }
                    }
                    (_, None) => Ok(()),
                }
            };
            set.map_err(|error| self.context.failed(error))?;
        }
        self.arena.clear();
        self.arena.extend_from_slice(arena);
        Ok(true)
    }
}
