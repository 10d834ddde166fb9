//! The data of a round between processes. Each rank has a connection to each other one, and sends data where they are
//! needed: a reduction has a part for each rank, which gets the data of all others for it and reduces them in the order
//! of ranks. So a rank sends and receives as many bytes as in a ring, and the result has the same bits as in one
//! process.
//!
//! Ranks send chunk after chunk, each to the ranks after them in turn, and receive in the matching order. Of all chunks
//! that are not there yet, the first in that order can always go on, so ranks do not wait for each other in a circle.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::connection::Connection;
use super::patience::Patience;
use super::wire::{CHUNK, HEADER};
use crate::agreement::{Facts, operations_of, transfers};
use crate::element::reduce;
use crate::hal::CollectiveKind;
use crate::operation::Operation;
use crate::perform::{Source, clear_unsent, distribute, needed, sources, try_bytes};
use crate::span::{BoundOperation, Span};
use crate::status::{Result, Status, StatusCode};

/// The connections to the other members of a group, by rank.
#[derive(Debug)]
pub(super) struct Mesh {
    pub(super) connections: Vec<Option<Connection>>,
    pub(super) me: usize,
}

/// Data for a peer: a range of a source.
#[derive(Clone, Copy)]
struct Outgoing<'a> {
    source: &'a Source<'a>,
    offset: u64,
    length: u64,
}

impl Mesh {
    /// The number of ranks.
    pub(super) fn count(&self) -> usize {
        self.connections.len()
    }

    /// The peers in an order in which the n-th of this rank is the one whose n-th from the end it is.
    fn peers(&self, forward: bool) -> impl Iterator<Item = (usize, &Connection)> {
        let count = self.count();
        (1..count).filter_map(move |step| {
            let peer = (self.me + if forward { step } else { count - step }) % count;
            self.connections[peer].as_ref().map(|connection| (peer, connection))
        })
    }

    /// A value for each rank, with another one for this rank.
    fn each<T>(&self, mine: T, of_peer: impl Fn(usize) -> T) -> Vec<T> {
        let mut all: Vec<T> = (0..self.count()).map(of_peer).collect();
        all[self.me] = mine;
        all
    }
}

/// Sends chunk after chunk to each peer.
fn send(mesh: &Mesh, outgoing: &[Option<Outgoing<'_>>], patience: Patience<'_>) -> Result<()> {
    let most = outgoing.iter().flatten().map(|outgoing| outgoing.length).max().unwrap_or(0);
    let mut frame = Vec::new();
    let mut done = 0;
    while done < most {
        for (peer, connection) in mesh.peers(true) {
            let Some(Outgoing { source, offset, length }) = outgoing[peer].filter(|outgoing| done < outgoing.length)
            else {
                continue;
            };
            let size = CHUNK.min(length - done);
            frame.resize(HEADER + size as usize, 0);
            source.read(offset + done, &mut frame[HEADER..])?;
            connection.write_data(&mut frame, patience)?;
        }
        done += CHUNK;
    }
    Ok(())
}

/// Receives `incoming` bytes of each rank, chunk after chunk. `on_chunk` gets the chunks at an offset by rank; that of
/// this rank is for it to fill.
fn receive(
    mesh: &Mesh,
    incoming: &[u64],
    patience: Patience<'_>,
    mut on_chunk: impl FnMut(u64, &mut [Vec<u8>]) -> Result<()>,
) -> Result<()> {
    let most = incoming.iter().copied().max().unwrap_or(0);
    let mut chunks = vec![Vec::new(); mesh.count()];
    let mut done = 0;
    while done < most {
        for (chunk, length) in chunks.iter_mut().zip(incoming) {
            chunk.resize(CHUNK.min(length.saturating_sub(done)) as usize, 0);
        }
        for (peer, connection) in mesh.peers(false) {
            if !chunks[peer].is_empty() {
                connection.data(&mut chunks[peer], patience)?;
            }
        }
        on_chunk(done, &mut chunks)?;
        done += CHUNK;
    }
    Ok(())
}

/// Sends and receives at the same time.
fn exchange(
    mesh: &Mesh,
    outgoing: &[Option<Outgoing<'_>>],
    incoming: &[u64],
    patience: Patience<'_>,
    on_chunk: impl FnMut(u64, &mut [Vec<u8>]) -> Result<()>,
) -> Result<()> {
    // Buffers of the system, or the places in memory, hold so little, so all can be sent before any are received: a
    // rank that has come to this exchange has read all that was sent before it.
    let fits = |(peer, connection): (usize, &Connection)| {
        outgoing[peer].is_none_or(|outgoing| outgoing.length <= connection.room())
    };
    if mesh.peers(true).all(fits) {
        send(mesh, outgoing, patience)?;
        return receive(mesh, incoming, patience, on_chunk);
    }
    let failed = AtomicBool::new(false);
    let patience = Patience { failed: &failed, ..patience };
    let note = |outcome: Result<()>| {
        if outcome.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        outcome
    };
    let (received, sent) = thread::scope(|scope| {
        let sender = thread::Builder::new().name("vireo-collectives-send".into());
        let sender = sender.spawn_scoped(scope, || note(send(mesh, outgoing, patience)));
        let sender = match sender {
            Ok(sender) => sender,
            Err(error) => {
                let failure = Status::resource_exhausted("no thread to send data of a collective operation");
                return (Err(failure.with_source(error)), Ok(()));
            }
        };
        let received = note(receive(mesh, incoming, patience, on_chunk));
        (received, sender.join().unwrap_or_else(|_| Err(Status::internal("sending data panicked"))))
    });
    match (received, sent) {
        // It only followed the other failure.
        (Err(failure), Err(cause)) if failure.code() == StatusCode::Cancelled => Err(cause),
        (received, sent) => received.and(sent),
    }
}

/// The range of each rank of `length` bytes that ranks reduce in parts: an offset and a length, in whole elements.
fn parts(operation: &Operation, count: usize) -> Vec<(u64, u64)> {
    let (size, count) = (operation.element_size(), count as u64);
    let (each, more) = (operation.element_count / count, operation.element_count % count);
    (0..count).map(|rank| ((rank * each + rank.min(more)) * size, (each + u64::from(rank < more)) * size)).collect()
}

/// Reduces this rank's part of the data of all ranks, and sends theirs to the others.
fn reduce_part(
    mesh: &Mesh,
    operation: &Operation,
    source: &Source<'_>,
    parts: &[(u64, u64)],
    patience: Patience<'_>,
) -> Result<Vec<u8>> {
    let (own_offset, own_length) = parts[mesh.me];
    let mut reduced = try_bytes(own_length)?;
    let outgoing = mesh.each(None, |peer| Some(Outgoing { source, offset: parts[peer].0, length: parts[peer].1 }));
    let incoming = vec![own_length; mesh.count()];
    exchange(mesh, &outgoing, &incoming, patience, |offset, chunks| {
        source.read(own_offset + offset, &mut chunks[mesh.me])?;
        let ranks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
        let start = offset as usize;
        let out = &mut reduced[start..start + ranks[mesh.me].len()];
        reduce(operation.op.element_type, operation.op.reduction, &ranks, out);
        Ok(())
    })?;
    Ok(reduced)
}

/// Runs the operations of this rank, on which all ranks agree.
pub(super) fn run(mesh: &Mesh, facts: &[Facts], own: &[BoundOperation], patience: Patience<'_>) -> Result<()> {
    for bound in own.iter().filter(|bound| !bound.operation.is_transfer() && bound.operation.bytes() > 0) {
        run_collective(mesh, bound, patience)?;
    }
    run_transfers(mesh, facts, own, patience)
}

/// Runs one operation of all ranks.
fn run_collective(mesh: &Mesh, bound: &BoundOperation, patience: Patience<'_>) -> Result<()> {
    let operation = &bound.operation;
    let (me, count, bytes) = (mesh.me, mesh.count(), operation.bytes());
    let needs = operation.needs(me as u32, count as u32)?;
    let range = |span, needs: Option<u64>| -> Result<Option<(&Span, u64)>> {
        needs.map(|length| Ok((needed(span, operation)?, length))).transpose()
    };
    let (send, recv) = (range(&bound.send, needs.send)?, range(&bound.recv, needs.recv)?);
    let target = recv.map(|(span, _)| span);
    let write = |offset: u64, bytes: &[u8]| target.map_or(Ok(()), |target| target.write(offset, bytes));
    let reduces = matches!(
        operation.op.kind,
        CollectiveKind::ALL_REDUCE | CollectiveKind::REDUCE | CollectiveKind::REDUCE_SCATTER
    );
    // Reductions write after they have read everything.
    let recvs = if reduces { Vec::new() } else { recv.into_iter().collect() };
    let own = sources(send.as_slice(), &recvs, false)?.pop();
    let nothing = Source::Copy(Vec::new());
    let own = own.as_ref().unwrap_or(&nothing);
    if reduces {
        let scatters = operation.op.kind == CollectiveKind::REDUCE_SCATTER;
        let parts = match operation.op.kind {
            CollectiveKind::REDUCE_SCATTER => (0..count as u64).map(|rank| (rank * bytes, bytes)).collect(),
            _ => parts(operation, count),
        };
        let reduced = reduce_part(mesh, operation, own, &parts, patience)?;
        write(if scatters { 0 } else { parts[me].0 }, &reduced)?;
        if scatters {
            return Ok(());
        }
        let root = operation.has_root().then_some(operation.param as usize);
        let reduced = Source::Copy(reduced);
        let to_peer = Outgoing { source: &reduced, offset: 0, length: parts[me].1 };
        let outgoing = mesh.each(None, |peer| root.is_none_or(|root| root == peer).then_some(to_peer));
        let receives = root.is_none_or(|root| root == me);
        let incoming = mesh.each(0, |peer| if receives { parts[peer].1 } else { 0 });
        return exchange(mesh, &outgoing, &incoming, patience, |offset, chunks| {
            let others = chunks.iter().zip(&parts).filter(|(chunk, _)| !chunk.is_empty());
            others.into_iter().try_for_each(|(chunk, (start, _))| write(start + offset, chunk))
        });
    }
    let to_peer = |offset, length| Some(Outgoing { source: own, offset, length });
    let part = bytes / count as u64;
    // The data for each peer, the bytes that come from each, and the distance of the ranks' data in the target.
    let (outgoing, incoming, stride) = match operation.op.kind {
        CollectiveKind::BROADCAST => {
            let root = operation.param as usize;
            let outgoing = mesh.each(None, |_| if me == root { to_peer(0, bytes) } else { None });
            (outgoing, mesh.each(0, |peer| if peer == root { bytes } else { 0 }), 0)
        }
        CollectiveKind::ALL_GATHER => (mesh.each(None, |_| to_peer(0, bytes)), mesh.each(0, |_| bytes), bytes),
        _ => (mesh.each(None, |peer| to_peer(peer as u64 * part, part)), mesh.each(0, |_| part), part),
    };
    if let (Some(target), Some((_, length))) = (target, send) {
        let is_parted = operation.op.kind == CollectiveKind::ALL_TO_ALL;
        let (from, length) = if is_parted { (me as u64 * part, part) } else { (0, length) };
        distribute(own, from, length, &[(target, me as u64 * stride)])?;
    }
    exchange(mesh, &outgoing, &incoming, patience, |offset, chunks| {
        let mut others = (0..).zip(chunks.iter()).filter(|(_, chunk)| !chunk.is_empty());
        others.try_for_each(|(rank, chunk): (u64, _)| write(rank * stride + offset, chunk))
    })
}

/// Runs the transfers of this rank, as if at the same time: first the first one between each two ranks, and so on.
fn run_transfers(mesh: &Mesh, facts: &[Facts], own: &[BoundOperation], patience: Patience<'_>) -> Result<()> {
    let me = mesh.me as u32;
    let operations: Vec<&[Operation]> = facts.iter().map(operations_of).collect();
    // Peers, and indices of operations.
    let (mut sends, mut recvs) = (Vec::<(usize, usize)>::new(), Vec::<(usize, usize)>::new());
    for ((from, to), (sent, received)) in transfers(&operations) {
        if from == me {
            sends.extend(sent.into_iter().map(|index| (to as usize, index)));
        }
        if to == me {
            recvs.extend(received.into_iter().map(|index| (from as usize, index)));
        }
    }
    let has_data = |(_, index): &(usize, usize)| own[*index].operation.bytes() > 0;
    sends.retain(has_data);
    recvs.retain(has_data);
    let from = ranges(own, &sends, |bound| &bound.send)?;
    let into = ranges(own, &recvs, |bound| &bound.recv)?;
    let sources = sources(&from, &into, false)?;
    // The lists are in the order of peers, and of transfers with each of them.
    let nth = |list: &[(usize, usize)], peer: usize, n: usize| {
        list.iter().enumerate().filter(|(_, (of, _))| *of == peer).map(|(place, _)| place).nth(n)
    };
    for n in 0..sends.len().max(recvs.len()) {
        let sent = |peer: usize| nth(&sends, peer, n);
        let received = |peer: usize| nth(&recvs, peer, n);
        let outgoing = mesh.each(None, |peer| {
            sent(peer).map(|place| Outgoing { source: &sources[place], offset: 0, length: from[place].1 })
        });
        let incoming = mesh.each(0, |peer| received(peer).map_or(0, |place| into[place].1));
        exchange(mesh, &outgoing, &incoming, patience, |offset, chunks| {
            (0..)
                .zip(chunks.iter())
                .filter(|(_, chunk)| !chunk.is_empty())
                .try_for_each(|(peer, chunk)| received(peer).map_or(Ok(()), |place| into[place].0.write(offset, chunk)))
        })?;
        if let (Some(sent), Some(received)) = (sent(mesh.me), received(mesh.me)) {
            distribute(&sources[sent], 0, from[sent].1, &[(into[received].0, 0)])?;
        }
    }
    own.iter().try_for_each(clear_unsent)
}

/// The ranges of the transfers with these indices, and the bytes that go into or come from each.
fn ranges<'a>(
    own: &'a [BoundOperation],
    list: &[(usize, usize)],
    span: impl Fn(&'a BoundOperation) -> &'a Option<Span>,
) -> Result<Vec<(&'a Span, u64)>> {
    let range = |(_, index): &(usize, usize)| {
        let bound = &own[*index];
        Ok((needed(span(bound), &bound.operation)?, bound.operation.bytes()))
    };
    list.iter().map(range).collect()
}
