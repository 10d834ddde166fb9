//! The requests of functions to a rank ([`Asked`]): an operation with its ranges in memory of the device. Those of a
//! group that are of one rank are a round ([`launch`]).

use std::any::Any;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vireo_collectives::{BoundOperation, Contribution, Operation, Span, Ticket};
use vireo_core::status::Result;
use vireo_cuda::nccl::types::{CudaStream, NcclDataType, NcclRedOp};
use vireo_cuda::types::{CuStream, WAIT_VALUE_GEQ};
use vireo_hal::{
    BufferUsage, CollectiveElementType, CollectiveKind, CollectiveOp, CollectiveReduction, HeapBuffer, MemoryAccess,
    MemoryType,
};

use crate::comm::{Comm, Member};
use crate::cuda::{Cuda, Current, check, cuda};
use crate::status::{Failure, Outcome};
use crate::words::Word;

/// A range of memory of the device.
#[derive(Clone, Copy, Debug)]
struct Range {
    address: u64,
    length: u64,
}

/// An operation of a rank that was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) comm: Arc<Comm>,
    stream: u64,
    operation: Operation,
    send: Option<Range>,
    recv: Option<Range>,
}

/// The arguments of a function.
pub(crate) struct Arguments {
    pub(crate) kind: CollectiveKind,
    pub(crate) send: *const c_void,
    pub(crate) recv: *mut c_void,
    pub(crate) count: u64,
    pub(crate) data_type: NcclDataType,
    pub(crate) reduction: Option<NcclRedOp>,
    pub(crate) peer: i32,
    pub(crate) stream: CudaStream,
}

fn element_type(data_type: NcclDataType) -> Outcome<CollectiveElementType> {
    Ok(match data_type {
        NcclDataType::INT8 => CollectiveElementType::SINT_8,
        NcclDataType::UINT8 => CollectiveElementType::UINT_8,
        NcclDataType::INT32 => CollectiveElementType::SINT_32,
        NcclDataType::UINT32 => CollectiveElementType::UINT_32,
        NcclDataType::INT64 => CollectiveElementType::SINT_64,
        NcclDataType::UINT64 => CollectiveElementType::UINT_64,
        NcclDataType::FLOAT16 => CollectiveElementType::FLOAT_16,
        NcclDataType::FLOAT32 => CollectiveElementType::FLOAT_32,
        NcclDataType::FLOAT64 => CollectiveElementType::FLOAT_64,
        NcclDataType::BFLOAT16 => CollectiveElementType::BFLOAT_16,
        NcclDataType(other) => return Err(Failure::argument(format!("invalid type {other}"))),
    })
}

fn reduction(op: NcclRedOp) -> Outcome<CollectiveReduction> {
    Ok(match op {
        NcclRedOp::SUM => CollectiveReduction::SUM,
        NcclRedOp::PROD => CollectiveReduction::PRODUCT,
        NcclRedOp::MAX => CollectiveReduction::MAXIMUM,
        NcclRedOp::MIN => CollectiveReduction::MINIMUM,
        NcclRedOp::AVG => CollectiveReduction::AVERAGE,
        NcclRedOp(other) => return Err(Failure::argument(format!("invalid reduction operation {other}"))),
    })
}

impl Asked {
    /// The request of a function to a rank, checked at the rank.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a type, reduction, peer or range that is none, and failures of the rank.
    pub(crate) fn new(comm: Arc<Comm>, arguments: &Arguments) -> Outcome<Asked> {
        let Member { rank, count, .. } = comm.member()?;
        let op = CollectiveOp {
            kind: arguments.kind,
            reduction: arguments.reduction.map_or(Ok(CollectiveReduction::NONE), reduction)?,
            element_type: element_type(arguments.data_type)?,
        };
        let operation = Operation::new(op, arguments.peer.cast_unsigned(), arguments.count)?;
        let needs = operation.needs(rank, count)?;
        let cuda = cuda()?;
        let _current = Current::enter(cuda, comm.context)?;
        let range = |side: &str, address: u64, length: Option<u64>| -> Outcome<Option<Range>> {
            let Some(length) = length else { return Ok(None) };
            if length > 0 {
                check_range(cuda, address, length).map_err(|failure| {
                    Failure::argument(format!(
                        "{operation}: {length} bytes to {side} at {address:#x}: {}",
                        failure.text
                    ))
                })?;
            }
            Ok(Some(Range { address, length }))
        };
        let send = range("send", arguments.send.expose_provenance() as u64, needs.send)?;
        let recv = range("receive", arguments.recv.expose_provenance() as u64, needs.recv)?;
        let stream = arguments.stream.0;
        let mut of = vireo_cuda::types::CuContext(0);
        // SAFETY: the library checks handles, and writes to a value.
        check("cuStreamGetCtx", unsafe { (cuda.stream_context)(CuStream(stream), &raw mut of) })?;
        if of != comm.context {
            return Err(Failure::argument("the stream is of another device than the communicator"));
        }
        Ok(Asked { comm: comm.clone(), stream, operation, send, recv })
    }

    fn bound(&self) -> BoundOperation {
        BoundOperation { operation: self.operation, send: self.send.map(span), recv: self.recv.map(span) }
    }
}

/// Checks that a range is within an allocation.
fn check_range(cuda: &Cuda, address: u64, length: u64) -> Outcome {
    let (mut base, mut size) = (0, 0);
    // SAFETY: results are written to values.
    check("cuMemGetAddressRange", unsafe { (cuda.range)(&raw mut base, &raw mut size, address) })?;
    // The library found the address in it.
    let left = (base + size).saturating_sub(address);
    if length > left {
        return Err(Failure::argument(format!("the allocation ends after {left} bytes")));
    }
    Ok(())
}

fn span(range: Range) -> Span {
    let data = std::ptr::with_exposed_provenance_mut::<u8>(range.address as usize);
    // A range without bytes may have no address, and is not accessed.
    let data = NonNull::new(data).unwrap_or(NonNull::dangling());
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(());
    let (memory_type, usage) = (MemoryType::HOST_LOCAL, BufferUsage::DEFAULT | BufferUsage::MAPPING);
    // SAFETY: the range was in an allocation of the device, whose memory is the host's; the program keeps it until the
    // operation has run, as the library of the vendor demands, and the round has ended then. No Rust reference to it
    // exists.
    let buffer = unsafe { HeapBuffer::wrap(owner, data, range.length, memory_type, MemoryAccess::ALL, usage) };
    Span { buffer: Arc::new(buffer), offset: 0, length: range.length }
}

/// A round that begins once all of its streams have come to it.
struct Flight {
    comm: Arc<Comm>,
    streams_left: AtomicUsize,
    start: Mutex<Option<(Ticket, Contribution)>>,
    words: Vec<(Word, u64)>,
}

/// Gives the streams of a rank the operations that were asked for between the start and the end of a group.
///
/// # Errors
/// UNHANDLED_CUDA_ERROR for failures of the driver; the round fails then at all ranks.
pub(crate) fn launch(asked: &[Asked]) -> Outcome {
    let Some(Asked { comm, .. }) = asked.first() else { return Ok(()) };
    let Member { formed, .. } = comm.member()?;
    let cuda = cuda()?;
    let _current = Current::enter(cuda, comm.context)?;
    let streams: Vec<u64> = asked.iter().map(|asked| asked.stream).collect::<BTreeSet<_>>().into_iter().collect();
    let words = streams.iter().map(|stream| comm.next_round(cuda, *stream)).collect::<Outcome<Vec<_>>>()?;
    let read: Vec<Range> = asked.iter().filter_map(|asked| asked.send).collect();
    asked.iter().try_for_each(|asked| mark_written(cuda, asked, &read))?;
    let contribution = Contribution::Operations(asked.iter().map(Asked::bound).collect());
    let flight = Arc::new(Flight {
        comm: comm.clone(),
        streams_left: AtomicUsize::new(streams.len()),
        start: Mutex::new(Some((comm.begin(&formed.channel), contribution))),
        words: words.clone(),
    });
    for (stream, (word, value)) in streams.iter().zip(words) {
        let stream = CuStream(*stream);
        let data = Arc::into_raw(flight.clone()).cast_mut().cast::<c_void>();
        // SAFETY: the function takes the reference back.
        let launched = check("cuLaunchHostFunc", unsafe { (cuda.launch_host)(stream, Some(arrive), data) });
        if launched.is_err() {
            // SAFETY: the function is not called, so the reference is still there.
            drop(unsafe { Arc::from_raw(data.cast_const().cast::<Flight>()) });
            // Other streams may hold the flight. The ticket fails the round.
            let start = flight.start.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(start);
            flight.comm.end(launched.clone(), &[]);
            return launched;
        }
        // SAFETY: the word is pinned memory that is never freed.
        let waits = unsafe { (cuda.wait_value)(stream, word.address(), value, WAIT_VALUE_GEQ) };
        check("cuStreamWaitValue64", waits)?;
    }
    Ok(())
}

/// The driver cannot see who writes the memory that is received into. A fill before it tells its sanitizer that it is
/// written, unless it is also read.
fn mark_written(cuda: &Cuda, asked: &Asked, read: &[Range]) -> Outcome {
    let Some(recv) = asked.recv.filter(|recv| recv.length > 0) else { return Ok(()) };
    let is_read = |send: &Range| send.address < recv.address + recv.length && recv.address < send.address + send.length;
    if read.iter().any(is_read) {
        return Ok(());
    }
    // SAFETY: the range was found in an allocation of the device.
    let filled = unsafe { (cuda.fill)(recv.address, 0, recv.length, CuStream(asked.stream)) };
    check("the fill of what is received", filled)
}

/// Called by a stream that has come to a round.
unsafe extern "C" fn arrive(data: *mut c_void) {
    // SAFETY: it is the reference that the launch gave the stream, which calls this once.
    let flight = unsafe { Arc::from_raw(data.cast_const().cast::<Flight>()) };
    if flight.streams_left.fetch_sub(1, Ordering::AcqRel) != 1 {
        return;
    }
    let start = flight.start.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((ticket, contribution)) = start else { return };
    let completion = Box::new(move |outcome: Result<_>| {
        let outcome = outcome.map(drop).map_err(Failure::from);
        flight.comm.end(outcome, &flight.words);
    });
    ticket.arrive(contribution, completion);
}
