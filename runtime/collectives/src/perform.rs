//! The operations of a round whose ranks are all in this process: their data are copied and reduced on one thread, in
//! chunks. The ranks agreed on them before.

use crate::agreement::transfers;
use crate::element::reduce;
use crate::hal::{CollectiveKind, CollectiveOp};
use crate::operation::Operation;
use crate::span::{BoundOperation, Span};
use crate::status::{Result, Status};

/// Bytes that are copied or reduced at once for each rank.
const CHUNK: u64 = 64 << 10;
/// Bytes of all ranks together that are reduced at once, if each gets at least [`LEAST_CHUNK`].
const CHUNKS: u64 = 4 << 20;
/// A multiple of the size of all elements.
const LEAST_CHUNK: u64 = 4 << 10;

/// Data to read: a range, or a copy of it.
pub(crate) enum Source<'a> {
    Span(&'a Span),
    Copy(Vec<u8>),
}

impl Source<'_> {
    /// Copies bytes out of it. They are within what the operation needs, so in the copy.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self {
            Source::Span(span) => span.read(offset, out),
            Source::Copy(bytes) => {
                let start = offset as usize;
                out.copy_from_slice(&bytes[start..start + out.len()]);
                Ok(())
            }
        }
    }
}

/// Memory for `length` bytes.
pub(crate) fn try_bytes(length: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let size = usize::try_from(length).ok().filter(|size| bytes.try_reserve_exact(*size).is_ok());
    let size = size
        .ok_or_else(|| Status::resource_exhausted(format!("no memory for {length} bytes of a collective operation")))?;
    bytes.resize(size, 0);
    Ok(bytes)
}

/// A range that an operation needs; ranks were checked before they arrived.
pub(crate) fn needed<'a>(span: &'a Option<Span>, operation: &Operation) -> Result<&'a Span> {
    span.as_ref().ok_or_else(|| Status::internal(format!("{operation} without a range")))
}

/// The sources of an operation that reads `length` bytes of each of `sends` and writes as many as they say to
/// `targets`. If it would write what it has yet to read they are copies. `in_step` if it reads a byte of each source
/// before it writes the byte at the same place of any target.
pub(crate) fn sources<'a>(
    sends: &[(&'a Span, u64)],
    targets: &[(&Span, u64)],
    in_step: bool,
) -> Result<Vec<Source<'a>>> {
    let overlap = sends.iter().any(|(send, length)| {
        targets.iter().any(|(target, target_length)| send.overlaps(*length, target, *target_length, in_step))
    });
    let source = |(send, length): &(&'a Span, u64)| {
        if !overlap {
            return Ok(Source::Span(send));
        }
        let mut copy = try_bytes(*length)?;
        send.read(0, &mut copy)?;
        Ok(Source::Copy(copy))
    };
    sends.iter().map(source).collect()
}

/// Calls `step` with the offset and length of each chunk of `length` bytes.
fn in_chunks(length: u64, chunk: u64, mut step: impl FnMut(u64, usize) -> Result<()>) -> Result<()> {
    let mut offset = 0;
    while offset < length {
        let size = chunk.min(length - offset);
        step(offset, size as usize)?;
        offset += size;
    }
    Ok(())
}

/// Copies `length` bytes of a source to each of the targets, which are ranges and offsets in them.
pub(crate) fn distribute(source: &Source<'_>, from: u64, length: u64, targets: &[(&Span, u64)]) -> Result<()> {
    let mut bytes = vec![0; length.min(CHUNK) as usize];
    in_chunks(length, CHUNK, |offset, size| {
        source.read(from + offset, &mut bytes[..size])?;
        targets.iter().try_for_each(|(target, to)| target.write(to + offset, &bytes[..size]))
    })
}

/// Reduces `length` bytes at `from` of the sources into each of the targets.
fn reduce_into(op: CollectiveOp, sources: &[Source<'_>], from: u64, length: u64, targets: &[&Span]) -> Result<()> {
    let chunk = (CHUNKS / sources.len().max(1) as u64 / LEAST_CHUNK * LEAST_CHUNK).clamp(LEAST_CHUNK, CHUNK);
    let size = length.min(chunk) as usize;
    let (mut chunks, mut reduced) = (vec![vec![0; size]; sources.len()], vec![0; size]);
    in_chunks(length, chunk, |offset, size| {
        for (source, bytes) in sources.iter().zip(&mut chunks) {
            source.read(from + offset, &mut bytes[..size])?;
        }
        let ranks: Vec<&[u8]> = chunks.iter().map(|bytes| &bytes[..size]).collect();
        reduce(op.element_type, op.reduction, &ranks, &mut reduced[..size]);
        targets.iter().try_for_each(|target| target.write(offset, &reduced[..size]))
    })
}

/// Runs the operations of all ranks, which agree.
pub(crate) fn perform(ranks: &[&[BoundOperation]]) -> Result<()> {
    let mut collectives: Vec<_> =
        ranks.iter().map(|rank| rank.iter().filter(|bound| !bound.operation.is_transfer())).collect();
    loop {
        // They agree, so either all have a next one or none has.
        let next: Vec<&BoundOperation> = collectives.iter_mut().filter_map(Iterator::next).collect();
        if next.is_empty() || next.len() < ranks.len() {
            break;
        }
        let operation = next[0].operation;
        run(&operation, &next).map_err(|status| status.context(operation))?;
    }
    run_transfers(ranks)
}

/// Runs one operation of all ranks.
fn run(operation: &Operation, ranks: &[&BoundOperation]) -> Result<()> {
    let (count, bytes) = (ranks.len() as u32, operation.bytes());
    if bytes == 0 {
        return Ok(());
    }
    let (mut sends, mut recvs) = (Vec::new(), Vec::new());
    for (bound, rank) in ranks.iter().zip(0..) {
        let needs = operation.needs(rank, count)?;
        if let Some(length) = needs.send {
            sends.push((needed(&bound.send, operation)?, length));
        }
        if let Some(length) = needs.recv {
            recvs.push((needed(&bound.recv, operation)?, length));
        }
    }
    let in_step = matches!(operation.op.kind, CollectiveKind::ALL_REDUCE | CollectiveKind::REDUCE);
    let sources = sources(&sends, &recvs, in_step)?;
    let targets: Vec<&Span> = recvs.iter().map(|(span, _)| *span).collect();
    let at = |offset: u64| targets.iter().map(|span| (*span, offset)).collect::<Vec<_>>();
    match operation.op.kind {
        CollectiveKind::ALL_REDUCE | CollectiveKind::REDUCE => reduce_into(operation.op, &sources, 0, bytes, &targets),
        CollectiveKind::REDUCE_SCATTER => (0..).zip(&targets).try_for_each(|(rank, target): (u64, _)| {
            reduce_into(operation.op, &sources, rank * bytes, bytes, std::slice::from_ref(target))
        }),
        // Only the root sends.
        CollectiveKind::BROADCAST => sources.iter().try_for_each(|source| distribute(source, 0, bytes, &at(0))),
        CollectiveKind::ALL_GATHER => {
            (0..).zip(&sources).try_for_each(|(rank, source): (u64, _)| distribute(source, 0, bytes, &at(rank * bytes)))
        }
        _ => {
            let part = bytes / u64::from(count);
            (0..).zip(&sources).try_for_each(|(from, source): (u64, _)| {
                (0..).zip(&targets).try_for_each(|(to, target): (u64, _)| {
                    distribute(source, to * part, part, &[(*target, from * part)])
                })
            })
        }
    }
}

/// Runs the transfers of all ranks, as if at the same time.
fn run_transfers(ranks: &[&[BoundOperation]]) -> Result<()> {
    let operations: Vec<Vec<Operation>> =
        ranks.iter().map(|rank| rank.iter().map(|bound| bound.operation).collect()).collect();
    let operations: Vec<&[Operation]> = operations.iter().map(Vec::as_slice).collect();
    let (mut sends, mut recvs) = (Vec::new(), Vec::new());
    for ((from, to), (sent, received)) in transfers(&operations) {
        for (send, receive) in sent.into_iter().zip(received) {
            let (send, receive) = (&ranks[from as usize][send], &ranks[to as usize][receive]);
            let bytes = send.operation.bytes();
            if bytes == 0 {
                continue;
            }
            sends.push((needed(&send.send, &send.operation)?, bytes));
            recvs.push((needed(&receive.recv, &receive.operation)?, bytes));
        }
    }
    let sources = sources(&sends, &recvs, false)?;
    for (source, (target, bytes)) in sources.iter().zip(&recvs) {
        distribute(source, 0, *bytes, &[(*target, 0)])?;
    }
    ranks.iter().copied().flatten().try_for_each(clear_unsent)
}

/// Zeroes what an operation that sends and receives gets from no rank.
pub(crate) fn clear_unsent(bound: &BoundOperation) -> Result<()> {
    let operation = &bound.operation;
    let sends_only = operation.op.kind == CollectiveKind::SEND_RECV && operation.peers().from.is_none();
    if !sends_only || operation.bytes() == 0 {
        return Ok(());
    }
    let zeros = vec![0; operation.bytes().min(CHUNK) as usize];
    let target = needed(&bound.recv, operation)?;
    in_chunks(operation.bytes(), CHUNK, |offset, size| target.write(offset, &zeros[..size]))
}
