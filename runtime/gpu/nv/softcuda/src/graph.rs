//! Graphs ([`Graph`]) and what is made of them ([`Exec`]): nodes with what they depend on. A launch adds an operation
//! for each node, so nodes without an order run as work of different streams does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{Copy3d, GraphNodeType, HostNodeParams, MemsetNodeParams};
use vireo_soft::clock;

use crate::api::Outcome;
use crate::callback::Callback;
use crate::context::{Event, Stream, Task};
use crate::crew::{Crew, Op, Progress};
use crate::image::Launch;
use crate::launch;
use crate::module::Function;
use crate::poisoned::Uses;
use crate::system::System;
use crate::transfer::{Copy, Fill};
use crate::user_object::Kept;

/// Something with pointers of the program, which vouches for them on every thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vouched<T>(pub(crate) T);

// SAFETY: nothing here follows the pointers but work that the program gave them to, for any thread.
unsafe impl<T> Send for Vouched<T> {}
// SAFETY: a shared reference gives copies of the pointers, which nothing here follows.
unsafe impl<T> Sync for Vouched<T> {}

impl<T: std::marker::Copy> Vouched<T> {
    /// The value. A closure that calls this captures the whole.
    pub(crate) fn get(&self) -> T {
        self.0
    }
}

/// A launch of a graph.
#[derive(Clone, Debug)]
pub(crate) struct KernelNode {
    /// The function.
    pub(crate) function: Arc<Function>,
    /// The handle that the program gave, of the function or of a kernel of a library.
    pub(crate) handle: u64,
    /// The launch.
    pub(crate) launch: Launch,
    /// The addresses of the packed parameters, for programs that ask for them.
    pub(crate) addresses: Arc<[u64]>,
}

/// The work of a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    /// It only orders others.
    Empty,
    /// It launches a kernel.
    Kernel(KernelNode),
    /// It copies; none of nothing.
    Copy(Box<Vouched<Copy3d>>, Option<Box<Copy>>),
    /// It fills; none of nothing.
    Fill(Vouched<MemsetNodeParams>, Option<Fill>),
    /// It calls the host.
    Host(Vouched<HostNodeParams>),
    /// It is a graph.
    Child(Vec<Node>),
    /// It records an event.
    Record(Arc<Event>),
    /// It waits for an event.
    Wait(Arc<Event>),
}

impl NodeKind {
    /// Its type in the API.
    pub(crate) fn node_type(&self) -> GraphNodeType {
        match self {
            NodeKind::Empty => GraphNodeType::EMPTY,
            NodeKind::Kernel(_) => GraphNodeType::KERNEL,
            NodeKind::Copy(..) => GraphNodeType::MEMCPY,
            NodeKind::Fill(..) => GraphNodeType::MEMSET,
            NodeKind::Host(_) => GraphNodeType::HOST,
            NodeKind::Child(_) => GraphNodeType::GRAPH,
            NodeKind::Record(_) => GraphNodeType::EVENT_RECORD,
            NodeKind::Wait(_) => GraphNodeType::WAIT_EVENT,
        }
    }
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its handle.
    pub(crate) handle: u64,
    /// Its work.
    pub(crate) kind: NodeKind,
    /// The handles of the nodes that it depends on.
    pub(crate) after: BTreeSet<u64>,
    /// False in an executable graph where it was switched off.
    pub(crate) is_enabled: bool,
}

/// A graph.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Mutex<Vec<Node>>,
    /// References to objects of the program that live as long as it does.
    pub(crate) kept: Kept,
}

impl Graph {
    /// Its nodes in the order in which they were added.
    pub(crate) fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The nodes in an order in which each comes after those it depends on; none if there is no such order.
pub(crate) fn sorted(nodes: &[Node]) -> Option<Vec<Node>> {
    let mut left: BTreeMap<u64, usize> = BTreeMap::new();
    let mut dependents: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        left.insert(node.handle, node.after.len());
        node.after.iter().for_each(|other| dependents.entry(*other).or_default().push(index));
    }
    let mut order: Vec<usize> = (0..nodes.len()).filter(|index| nodes[*index].after.is_empty()).collect();
    let mut next = 0;
    while let Some(index) = order.get(next).copied() {
        next += 1;
        for dependent in dependents.get(&nodes[index].handle).into_iter().flatten() {
            let left = left.get_mut(&nodes[*dependent].handle)?;
            *left -= 1;
            if *left == 0 {
                order.push(*dependent);
            }
        }
    }
    (order.len() == nodes.len()).then(|| order.into_iter().map(|index| nodes[index].clone()).collect())
}

/// An executable graph.
#[derive(Debug)]
pub(crate) struct Exec {
    /// Its nodes, each after those it depends on.
    nodes: Mutex<Vec<Node>>,
    /// The end of its last launch: launches of one graph do not overlap.
    last: Mutex<Option<Arc<Op>>>,
    kept: Kept,
}

impl Exec {
    /// An executable graph.
    ///
    /// # Errors
    /// INVALID_VALUE if nodes depend on each other in a circle.
    pub(crate) fn new(graph: &Graph) -> Outcome<Self> {
        let nodes = sorted(&graph.nodes()).ok_or(CuResult::ERROR_INVALID_VALUE)?;
        Ok(Exec { nodes: Mutex::new(nodes), last: Mutex::default(), kept: graph.kept.clone() })
    }

    /// Changes the node with a handle.
    ///
    /// # Errors
    /// INVALID_VALUE if there is none, or what `change` returns.
    pub(crate) fn change<T>(&self, handle: u64, change: impl FnOnce(&mut Node) -> Outcome<T>) -> Outcome<T> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let node = nodes.iter_mut().find(|node| node.handle == handle);
        change(node.ok_or(CuResult::ERROR_INVALID_VALUE)?)
    }

    /// Replaces what its nodes do by what those of a graph of the same shape do. A node corresponds to the one that was
    /// added to its graph at the same point.
    ///
    /// # Errors
    /// The first node that does not correspond, and whether that is as it is of another type.
    pub(crate) fn update(&self, others: &[Node]) -> Result<(), (u64, bool)> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        // Handles grow in the order in which nodes were added.
        let ranks = |handles: &mut dyn Iterator<Item = u64>| -> BTreeMap<u64, usize> {
            let sorted: BTreeSet<u64> = handles.collect();
            sorted.into_iter().enumerate().map(|(rank, handle)| (handle, rank)).collect()
        };
        let own = ranks(&mut nodes.iter().map(|node| node.handle));
        let other = ranks(&mut others.iter().map(|node| node.handle));
        let shape = |node: &Node, ranks: &BTreeMap<u64, usize>| -> BTreeSet<Option<usize>> {
            node.after.iter().map(|handle| ranks.get(handle).copied()).collect()
        };
        if own.len() != other.len() {
            return Err((others.last().map_or(0, |node| node.handle), false));
        }
        let by_rank: BTreeMap<Option<&usize>, &Node> =
            others.iter().map(|node| (other.get(&node.handle), node)).collect();
        for node in nodes.iter() {
            let Some(wanted) = by_rank.get(&own.get(&node.handle)) else { return Err((0, false)) };
            if wanted.kind.node_type() != node.kind.node_type() {
                return Err((wanted.handle, true));
            }
            if shape(node, &own) != shape(wanted, &other) {
                return Err((wanted.handle, false));
            }
        }
        for node in nodes.iter_mut() {
            if let Some(wanted) = by_rank.get(&own.get(&node.handle)) {
                node.kind = wanted.kind.clone();
            }
        }
        Ok(())
    }

    /// Its nodes, each after those it depends on.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds its operations to a stream.
    pub(crate) fn launch(self: &Arc<Self>, system: &'static System, stream: &Stream) {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let end = stream.submit_all(|crew, mut before| {
            before.extend(last.iter().cloned());
            add(system, stream, crew, &nodes, &before)
        });
        if let Some(poisoned) = &system.poisoned {
            poisoned.note(&end, Uses::Any);
        }
        *last = Some(end);
        if !self.kept.is_empty() {
            // Objects that it keeps live until the launch is done, also if it is destroyed before.
            let kept = self.clone();
            stream.submit_always(Box::new(move |_| {
                let _kept = &kept;
                Progress::Done
            }));
        }
    }
}

/// Adds an operation for each node, and one for the end of all.
fn add(system: &'static System, stream: &Stream, crew: &Arc<Crew>, nodes: &[Node], before: &[Arc<Op>]) -> Arc<Op> {
    let mut ops: BTreeMap<u64, Arc<Op>> = BTreeMap::new();
    for node in nodes {
        let after: Vec<Arc<Op>> = match node.after.is_empty() {
            true => before.to_vec(),
            false => node.after.iter().filter_map(|other| ops.get(other).cloned()).collect(),
        };
        let op = match &node.kind {
            _ if !node.is_enabled => crew.submit(after, None),
            NodeKind::Child(nodes) => add(system, stream, crew, nodes, &after),
            NodeKind::Wait(event) => crew.submit(after.into_iter().chain(event.recorded()), None),
            NodeKind::Record(event) => {
                let op = crew.submit(after, None);
                event.record(op.clone());
                op
            }
            kind => crew.submit(after, task(system, stream, kind).map(|task| stream.context.guard(task))),
        };
        ops.insert(node.handle, op);
    }
    // The end comes after what was before too, if there are no nodes.
    crew.submit(ops.into_values().chain(before.iter().cloned()), None)
}

/// The work of a node in a stream, if it has any of its own.
pub(crate) fn task(system: &'static System, stream: &Stream, kind: &NodeKind) -> Option<Task> {
    let origin = (stream.context.device, stream.id);
    match kind {
        NodeKind::Kernel(node) => Some(launch::task(system, node.function.clone(), node.launch.clone(), stream.id)),
        NodeKind::Copy(_, copy) => {
            let copy = copy.clone()?;
            Some(Box::new(move |known| {
                let begin = clock::now();
                copy.run(&system.memory, origin, known);
                system.trace.iter().for_each(|trace| trace.work("copy", origin.1, begin));
                Ok(Progress::Done)
            }))
        }
        NodeKind::Fill(_, fill) => {
            let fill = fill.clone()?;
            Some(Box::new(move |known| {
                let begin = clock::now();
                fill.run(&system.memory, origin, known);
                system.trace.iter().for_each(|trace| trace.work("fill", origin.1, begin));
                Ok(Progress::Done)
            }))
        }
        NodeKind::Host(host) => {
            let (host, callback) = (*host, Callback::new());
            Some(Box::new(move |known| {
                // The program may learn from the function what is done.
                system.crew.learn(known);
                let HostNodeParams { function, user_data } = host.get();
                if let Some(function) = function {
                    // SAFETY: the program gave function and argument for this.
                    callback.run(|| unsafe { function(user_data) });
                }
                Ok(Progress::Done)
            }))
        }
        NodeKind::Empty | NodeKind::Child(_) | NodeKind::Record(_) | NodeKind::Wait(_) => None,
    }
}
