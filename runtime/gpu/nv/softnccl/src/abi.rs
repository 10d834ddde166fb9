//! The functions of the library, as C programs call them.

#![expect(non_snake_case, reason = "the names are those of the library")]

use std::ffi::c_void;
use std::sync::Arc;

use vireo_collectives::MAX_RANKS;
use vireo_cuda::nccl::result::NcclResult;
use vireo_cuda::nccl::types::{
    CChar, CONFIG_MAGIC, CudaStream, NcclComm, NcclConfig, NcclDataType, NcclRedOp, NcclScalarResidence, NcclUniqueId,
    UNDEFINED_INT,
};
use vireo_cuda::types::{CuContext, CuDevice};
use vireo_hal::CollectiveKind;

use crate::comm::{self, Comm, Member};
use crate::cuda::{check, cuda};
use crate::form::{Joining, form};
use crate::group::{self, Part};
use crate::identity;
use crate::operations::{Arguments, Asked};
use crate::options::options;
use crate::status::{self, Failure, Outcome, entry};

/// The version that the library says it is of.
const VERSION: i32 = 22_707;
/// Bytes of a configuration at least: what is read of it.
const LEAST_CONFIG: u64 = 20;

fn done(outcome: Outcome) -> Outcome<NcclResult> {
    outcome.map(|()| NcclResult::SUCCESS)
}

/// Puts a result.
///
/// # Safety
/// Unless it is null, the pointer is writable.
unsafe fn put<T>(out: *mut T, value: T) -> Outcome {
    if out.is_null() {
        return Err(Failure::argument("the address of a result is null"));
    }
    // SAFETY: the caller promises that it is writable. C programs may put it at any address.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

pub(crate) unsafe extern "C" fn ncclGetVersion(version: *mut i32) -> NcclResult {
    // SAFETY: the caller vouches for the pointer.
    entry("ncclGetVersion", || done(unsafe { put(version, VERSION) }))
}

pub(crate) unsafe extern "C" fn ncclGetUniqueId(id: *mut NcclUniqueId) -> NcclResult {
    // SAFETY: the caller vouches for the pointer.
    entry("ncclGetUniqueId", || done(identity::new().and_then(|new| unsafe { put(id, new) })))
}

/// Whether a configuration asks for calls that block.
///
/// # Safety
/// Unless it is null, the pointer has as many bytes as its first field says.
unsafe fn is_blocking(config: *const NcclConfig) -> Outcome<bool> {
    if config.is_null() {
        return Ok(true);
    }
    // SAFETY: the caller promises as many bytes; these are the first fields of every version.
    let (size, magic) =
        unsafe { ((&raw const (*config).size).read_unaligned(), (&raw const (*config).magic).read_unaligned()) };
    if size < LEAST_CONFIG || magic != CONFIG_MAGIC {
        return Err(Failure::argument("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER"));
    }
    // SAFETY: the size says that the field is there.
    match unsafe { (&raw const (*config).blocking).read_unaligned() } {
        0 => Ok(false),
        1 | UNDEFINED_INT => Ok(true),
        other => Err(Failure::argument(format!("Invalid config blocking attribute value {}", other.cast_signed()))),
    }
}

/// The current device and its context.
fn current() -> Outcome<(i32, CuContext)> {
    let cuda = cuda()?;
    let (mut device, mut context) = (CuDevice(0), CuContext(0));
    // SAFETY: results are written to values.
    check("cuCtxGetCurrent", unsafe { (cuda.current)(&raw mut context) })?;
    if context.0 == 0 {
        return Err(Failure::usage("no context is current"));
    }
    // SAFETY: the result is written to a value.
    check("cuCtxGetDevice", unsafe { (cuda.device)(&raw mut device) })?;
    Ok((device.0, context))
}

/// Begins to join a group; returns the rank.
fn join(ranks: i32, id: &NcclUniqueId, rank: i32, is_blocking: bool) -> Outcome<Arc<Comm>> {
    let (own, count) = (rank.cast_unsigned(), ranks.cast_unsigned());
    if own >= count || count > MAX_RANKS {
        return Err(Failure::argument(format!("Invalid rank requested : {rank}/{ranks}")));
    }
    let (id, address) = identity::read(id)?;
    let (place, limit) = (current()?, options()?.limit);
    let joining = Joining { id, address, rank: own, count, device: place.0, limit };
    Comm::start(place, is_blocking, limit, move || Ok(Member { formed: form(&joining)?, rank: own, count }))
}

/// Joins a group, in the group of calls of the thread.
///
/// # Safety
/// Unless it is null, `out` is writable.
unsafe fn init(out: *mut NcclComm, ranks: i32, id: &NcclUniqueId, rank: i32, is_blocking: bool) -> Outcome<NcclResult> {
    group::call(|| {
        // SAFETY: the caller vouches for the pointer.
        unsafe { put(out, NcclComm(0)) }?;
        let joined = join(ranks, id, rank, is_blocking)?;
        // SAFETY: the caller vouches for the pointer.
        unsafe { put(out, comm::add(joined.clone())) }?;
        Ok(Part::Forming(joined))
    })
}

pub(crate) unsafe extern "C" fn ncclCommInitRankConfig(
    comm: *mut NcclComm,
    ranks: i32,
    id: NcclUniqueId,
    rank: i32,
    config: *mut NcclConfig,
) -> NcclResult {
    entry("ncclCommInitRankConfig", || {
        // SAFETY: the caller vouches for the pointers.
        unsafe { init(comm, ranks, &id, rank, is_blocking(config)?) }
    })
}

pub(crate) unsafe extern "C" fn ncclCommInitRank(
    comm: *mut NcclComm,
    ranks: i32,
    id: NcclUniqueId,
    rank: i32,
) -> NcclResult {
    // SAFETY: the caller vouches for the pointer.
    entry("ncclCommInitRank", || unsafe { init(comm, ranks, &id, rank, true) })
}

fn unimplemented(function: &'static str) -> NcclResult {
    entry(function, || Err(Failure::usage("it is not implemented")))
}

pub(crate) unsafe extern "C" fn ncclCommInitAll(_: *mut NcclComm, _: i32, _: *const i32) -> NcclResult {
    unimplemented("ncclCommInitAll")
}

pub(crate) unsafe extern "C" fn ncclCommSplit(
    comm: NcclComm,
    color: i32,
    key: i32,
    new_comm: *mut NcclComm,
    config: *mut NcclConfig,
) -> NcclResult {
    entry("ncclCommSplit", || {
        group::call(|| {
            // SAFETY: the caller vouches for the pointer.
            unsafe { put(new_comm, NcclComm(0)) }?;
            if color < -1 {
                return Err(Failure::argument(format!("Invalid color {color}")));
            }
            let parent = comm::comm(comm)?;
            // SAFETY: the caller vouches for the pointer.
            let is_blocking = if config.is_null() { parent.is_blocking } else { unsafe { is_blocking(config) }? };
            let Some(split) = parent.split(color, key, is_blocking)? else { return Ok(Part::Done) };
            // SAFETY: the caller vouches for the pointer.
            unsafe { put(new_comm, comm::add(split.clone())) }?;
            Ok(Part::Forming(split))
        })
    })
}

pub(crate) unsafe extern "C" fn ncclCommFinalize(comm: NcclComm) -> NcclResult {
    entry("ncclCommFinalize", || comm::comm(comm)?.finalize())
}

pub(crate) unsafe extern "C" fn ncclCommDestroy(comm: NcclComm) -> NcclResult {
    entry("ncclCommDestroy", || done(comm::remove(comm)?.leave(false)))
}

pub(crate) unsafe extern "C" fn ncclCommAbort(comm: NcclComm) -> NcclResult {
    entry("ncclCommAbort", || done(comm::remove(comm)?.leave(true)))
}

pub(crate) unsafe extern "C" fn ncclGetErrorString(result: NcclResult) -> *const CChar {
    status::text_of(result).as_ptr().cast()
}

pub(crate) unsafe extern "C" fn ncclGetLastError(_comm: NcclComm) -> *const CChar {
    status::last().cast()
}

pub(crate) unsafe extern "C" fn ncclCommGetAsyncError(comm: NcclComm, async_error: *mut NcclResult) -> NcclResult {
    // SAFETY: the caller vouches for the pointer.
    entry("ncclCommGetAsyncError", || done(unsafe { put(async_error, comm::comm(comm)?.async_status()) }))
}

pub(crate) unsafe extern "C" fn ncclCommCount(comm: NcclComm, count: *mut i32) -> NcclResult {
    entry("ncclCommCount", || {
        let member = comm::comm(comm)?.member()?;
        // SAFETY: the caller vouches for the pointer.
        done(unsafe { put(count, member.count.cast_signed()) })
    })
}

pub(crate) unsafe extern "C" fn ncclCommCuDevice(comm: NcclComm, device: *mut i32) -> NcclResult {
    // SAFETY: the caller vouches for the pointer.
    entry("ncclCommCuDevice", || done(unsafe { put(device, comm::comm(comm)?.device) }))
}

pub(crate) unsafe extern "C" fn ncclCommUserRank(comm: NcclComm, rank: *mut i32) -> NcclResult {
    entry("ncclCommUserRank", || {
        let member = comm::comm(comm)?.member()?;
        // SAFETY: the caller vouches for the pointer.
        done(unsafe { put(rank, member.rank.cast_signed()) })
    })
}

pub(crate) unsafe extern "C" fn ncclRedOpCreatePreMulSum(
    _: *mut NcclRedOp,
    _: *mut c_void,
    _: NcclDataType,
    _: NcclScalarResidence,
    _: NcclComm,
) -> NcclResult {
    unimplemented("ncclRedOpCreatePreMulSum")
}

pub(crate) unsafe extern "C" fn ncclRedOpDestroy(_: NcclRedOp, _: NcclComm) -> NcclResult {
    unimplemented("ncclRedOpDestroy")
}

fn ask(function: &'static str, comm: NcclComm, arguments: &Arguments) -> NcclResult {
    let asked = || Ok(Part::Asked(Asked::new(comm::comm(comm)?, arguments)?));
    entry(function, || group::call(asked))
}

pub(crate) unsafe extern "C" fn ncclReduce(
    send: *const c_void,
    recv: *mut c_void,
    count: u64,
    data_type: NcclDataType,
    op: NcclRedOp,
    root: i32,
    comm: NcclComm,
    stream: CudaStream,
) -> NcclResult {
    let kind = CollectiveKind::REDUCE;
    ask("ncclReduce", comm, &Arguments { kind, send, recv, count, data_type, reduction: Some(op), peer: root, stream })
}

pub(crate) unsafe extern "C" fn ncclBcast(
    data: *mut c_void,
    count: u64,
    data_type: NcclDataType,
    root: i32,
    comm: NcclComm,
    stream: CudaStream,
) -> NcclResult {
    let (kind, send, recv) = (CollectiveKind::BROADCAST, data.cast_const(), data);
    ask("ncclBcast", comm, &Arguments { kind, send, recv, count, data_type, reduction: None, peer: root, stream })
}

pub(crate) unsafe extern "C" fn ncclBroadcast(
    send: *const c_void,
    recv: *mut c_void,
    count: u64,
    data_type: NcclDataType,
    root: i32,
    comm: NcclComm,
    stream: CudaStream,
) -> NcclResult {
    let kind = CollectiveKind::BROADCAST;
    ask("ncclBroadcast", comm, &Arguments { kind, send, recv, count, data_type, reduction: None, peer: root, stream })
}

pub(crate) unsafe extern "C" fn ncclAllReduce(
    send: *const c_void,
    recv: *mut c_void,
    count: u64,
    data_type: NcclDataType,
    op: NcclRedOp,
    comm: NcclComm,
    stream: CudaStream,
) -> NcclResult {
    let kind = CollectiveKind::ALL_REDUCE;
    ask("ncclAllReduce", comm, &Arguments { kind, send, recv, count, data_type, reduction: Some(op), peer: 0, stream })
}

pub(crate) unsafe extern "C" fn ncclReduceScatter(
    send: *const c_void,
    recv: *mut c_void,
    recv_count: u64,
    data_type: NcclDataType,
    op: NcclRedOp,
    comm: NcclComm,
    stream: CudaStream,
) -> NcclResult {
    let (kind, count) = (CollectiveKind::REDUCE_SCATTER, recv_count);
    let arguments = Arguments { kind, send, recv, count, data_type, reduction: Some(op), peer: 0, stream };
    ask("ncclReduceScatter", comm, &arguments)
}

pub(crate) unsafe extern "C" fn ncclAllGather(
    send: *const c_void,
    recv: *mut c_void,
    send_count: u64,
    data_type: NcclDataType,
    comm: NcclComm,
    stream: CudaStream,
) -> NcclResult {
    let (kind, count) = (CollectiveKind::ALL_GATHER, send_count);
    ask("ncclAllGather", comm, &Arguments { kind, send, recv, count, data_type, reduction: None, peer: 0, stream })
}

pub(crate) unsafe extern "C" fn ncclSend(
    send: *const c_void,
    count: u64,
    data_type: NcclDataType,
    peer: i32,
    comm: NcclComm,
    stream: CudaStream,
) -> NcclResult {
    let (kind, recv) = (CollectiveKind::SEND, std::ptr::null_mut());
    ask("ncclSend", comm, &Arguments { kind, send, recv, count, data_type, reduction: None, peer, stream })
}

pub(crate) unsafe extern "C" fn ncclRecv(
    recv: *mut c_void,
    count: u64,
    data_type: NcclDataType,
    peer: i32,
    comm: NcclComm,
    stream: CudaStream,
) -> NcclResult {
    let (kind, send) = (CollectiveKind::RECV, std::ptr::null());
    ask("ncclRecv", comm, &Arguments { kind, send, recv, count, data_type, reduction: None, peer, stream })
}

pub(crate) unsafe extern "C" fn ncclGroupStart() -> NcclResult {
    entry("ncclGroupStart", group::start)
}

pub(crate) unsafe extern "C" fn ncclGroupEnd() -> NcclResult {
    entry("ncclGroupEnd", group::end)
}
