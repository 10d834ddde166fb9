//! The operations between two barriers, as a stream is given them ([`issue`]): a group of calls of the library.

use std::ffi::c_void;
use std::sync::Arc;

use vireo_cuda::nccl::types::{CudaStream, NcclComm, NcclDataType, NcclRedOp};

use super::communicator::{Communicator, stream_of};
use super::recorded::RecordedCollective;
use crate::api::{ApiError, ApiResult};
use crate::command_buffer::Execution;
use crate::generated::nccl::api::NcclApi;
use crate::hal::{ChannelRank, CollectiveElementType, CollectiveKind, CollectiveReduction};
use crate::hal_driver::collectives::{Operation, Peers};
use crate::status::{Result, Status};

/// An operation with its addresses.
struct Bound {
    comm: NcclComm,
    count: u32,
    operation: Operation,
    send: u64,
    recv: u64,
}

/// The communicators of operations, each once.
pub(super) fn communicators(recorded: &[RecordedCollective]) -> Vec<&Arc<Communicator>> {
    let mut all: Vec<&Arc<Communicator>> = Vec::new();
    for RecordedCollective { channel, .. } in recorded {
        if !all.iter().any(|known| Arc::ptr_eq(known, &channel.communicator)) {
            all.push(&channel.communicator);
        }
    }
    all
}

/// Gives the stream of an execution a group of operations. False if it cannot be given anything now: ranks are not
/// there yet, or the library has not begun. `is_given` is whether it was given them before, and becomes true.
///
/// # Errors
/// Those of the ranks and of the library. A rank that cannot take part leaves its group, so that the others fail.
pub fn issue(recorded: &[RecordedCollective], execution: &Execution<'_>, is_given: &mut bool) -> Result<bool> {
    let communicators = communicators(recorded);
    let outcome = try_issue(recorded, &communicators, execution, is_given);
    if let Err(failure) = &outcome {
        for communicator in communicators {
            communicator.fail(failure.clone());
        }
    }
    outcome
}

fn try_issue(
    recorded: &[RecordedCollective],
    communicators: &[&Arc<Communicator>],
    execution: &Execution<'_>,
    is_given: &mut bool,
) -> Result<bool> {
    if !*is_given {
        for communicator in communicators {
            if communicator.ready()?.is_none() {
                return Ok(false);
            }
        }
        let bound = recorded.iter().map(|recorded| bind(recorded, execution)).collect::<Result<Vec<Bound>>>()?;
        for bound in &bound {
            clear_unsent(bound, execution)?;
        }
        let Some(first) = communicators.first() else { return Ok(true) };
        group(&**first.library.calls(), &bound, stream_of(execution.stream))?;
        *is_given = true;
        communicators.iter().for_each(|communicator| communicator.given());
    }
    for communicator in communicators {
        if !communicator.has_begun()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn bind(recorded: &RecordedCollective, execution: &Execution<'_>) -> Result<Bound> {
    let RecordedCollective { channel, operation, send, recv } = recorded;
    let ready = channel.communicator.ready()?;
    let (comm, place) = ready.ok_or_else(|| Status::internal("a channel that is not ready"))?;
    let ChannelRank { rank, count } = place;
    let range = |place: &Option<crate::hal_driver::references::Place>| match place {
        Some(place) => place.range(execution.resolved, 0).map(Some),
        None => Ok(None),
    };
    let (send, recv) = (range(send)?, range(recv)?);
    let length = |range: Option<(u64, u64)>| range.map(|(_, length)| length);
    let (rank, count) = (rank.cast_unsigned(), count.cast_unsigned());
    let operation = operation.at(rank, count, length(send), length(recv))?;
    let address = |range: Option<(u64, u64)>| range.map_or(0, |(address, _)| address);
    Ok(Bound { comm, count, operation, send: address(send), recv: address(recv) })
}

/// Zeroes what an operation that sends and receives gets from no rank.
fn clear_unsent(bound: &Bound, execution: &Execution<'_>) -> Result<()> {
    let operation = &bound.operation;
    let sends_only = operation.op.kind == CollectiveKind::SEND_RECV && operation.peers().from.is_none();
    if !sends_only || operation.bytes() == 0 {
        return Ok(());
    }
    // SAFETY: the range is within memory that the execution holds.
    let filled = unsafe { execution.context.api().fill_8(bound.recv, 0, operation.bytes(), execution.stream) };
    filled.map_err(|error| execution.context.failed(error))
}

/// Makes the calls of a group.
fn group(calls: &dyn NcclApi, bound: &[Bound], stream: CudaStream) -> Result<()> {
    // SAFETY: it has no arguments.
    unsafe { calls.group_start() }?;
    let called = bound.iter().try_for_each(|bound| call(calls, bound, stream));
    // SAFETY: a group was begun on this thread.
    let ended = unsafe { calls.group_end() };
    for outcome in [called, ended] {
        match outcome {
            Err(error) if !error.is_pending() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// The type of elements for the library, and how many of its elements are one. Integers of 16 bits are moved as bytes.
fn data_type(element_type: CollectiveElementType) -> Option<(NcclDataType, u64)> {
    Some(match element_type {
        CollectiveElementType::SINT_8 => (NcclDataType::INT8, 1),
        CollectiveElementType::UINT_8 => (NcclDataType::UINT8, 1),
        CollectiveElementType::SINT_16 | CollectiveElementType::UINT_16 => (NcclDataType::UINT8, 2),
        CollectiveElementType::SINT_32 => (NcclDataType::INT32, 1),
        CollectiveElementType::UINT_32 => (NcclDataType::UINT32, 1),
        CollectiveElementType::SINT_64 => (NcclDataType::INT64, 1),
        CollectiveElementType::UINT_64 => (NcclDataType::UINT64, 1),
        CollectiveElementType::FLOAT_16 => (NcclDataType::FLOAT16, 1),
        CollectiveElementType::FLOAT_32 => (NcclDataType::FLOAT32, 1),
        CollectiveElementType::FLOAT_64 => (NcclDataType::FLOAT64, 1),
        CollectiveElementType::BFLOAT_16 => (NcclDataType::BFLOAT16, 1),
        _ => return None,
    })
}

fn reduction(reduction: CollectiveReduction) -> NcclRedOp {
    match reduction {
        CollectiveReduction::PRODUCT => NcclRedOp::PROD,
        CollectiveReduction::MINIMUM => NcclRedOp::MIN,
        CollectiveReduction::MAXIMUM => NcclRedOp::MAX,
        CollectiveReduction::AVERAGE => NcclRedOp::AVG,
        _ => NcclRedOp::SUM,
    }
}

/// An outcome in a group, where operations that do not block are in progress.
fn begun(outcome: ApiResult) -> ApiResult {
    outcome.or_else(|error| if error.is_pending() { Ok(()) } else { Err(error) })
}

/// Makes the calls of an operation.
fn call(calls: &dyn NcclApi, bound: &Bound, stream: CudaStream) -> ApiResult {
    let Bound { comm, count: ranks, operation, .. } = *bound;
    let at = |address: u64| std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
    let (send, recv) = (at(bound.send).cast_const(), at(bound.recv));
    let (ty, times) =
        data_type(operation.op.element_type).ok_or_else(|| ApiError::missing("a type of elements of that number"))?;
    let (count, op, root) =
        (operation.element_count * times, reduction(operation.op.reduction), operation.param.cast_signed());
    // SAFETY: the rank and the stream are alive, and the ranges are within memory that the execution holds until the
    // stream has run what it is given.
    unsafe {
        match operation.op.kind {
            CollectiveKind::ALL_GATHER => begun(calls.all_gather(send, recv, count, ty, comm, stream)),
            CollectiveKind::ALL_REDUCE => begun(calls.all_reduce(send, recv, count, ty, op, comm, stream)),
            CollectiveKind::BROADCAST => begun(calls.broadcast(send, recv, count, ty, root, comm, stream)),
            CollectiveKind::REDUCE => begun(calls.reduce(send, recv, count, ty, op, root, comm, stream)),
            CollectiveKind::REDUCE_SCATTER => begun(calls.reduce_scatter(send, recv, count, ty, op, comm, stream)),
            CollectiveKind::ALL_TO_ALL => {
                let part = operation.bytes() / u64::from(ranks);
                for peer in 0..ranks {
                    let offset = u64::from(peer) * part;
                    let (from, to) = (at(bound.send + offset).cast_const(), at(bound.recv + offset));
                    let (count, peer) = (count / u64::from(ranks), peer.cast_signed());
                    begun(calls.send(from, count, ty, peer, comm, stream))?;
                    begun(calls.recv(to, count, ty, peer, comm, stream))?;
                }
                Ok(())
            }
            _ => {
                let Peers { to, from } = operation.peers();
                if let Some(to) = to {
                    begun(calls.send(send, count, ty, to.cast_signed(), comm, stream))?;
                }
                if let Some(from) = from {
                    begun(calls.recv(recv, count, ty, from.cast_signed(), comm, stream))?;
                }
                Ok(())
            }
        }
    }
}
