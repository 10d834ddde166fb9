//! The functions as programs call them, over the software CUDA driver: ranks on threads of their own that block, as
//! most programs have them, and mistakes of programs. `vireo-cuda-driver` tests all operations and types.

use std::ffi::CStr;
use std::sync::Once;
use std::thread;

use vireo_cuda::nccl::nccl_symbols::NcclFunctions;
use vireo_cuda::nccl::result::NcclResult;
use vireo_cuda::nccl::types::{CChar, CudaStream, NcclComm, NcclConfig, NcclDataType, NcclRedOp, NcclUniqueId};
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CuContext, CuStream};
use vireo_softcuda::entries::*;

const NCCL: NcclFunctions = vireo_softnccl::functions();
const COUNT: usize = 5;

fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        let options = vireo_softcuda::Options { devices: 2, memory: 64 << 20, ..vireo_softcuda::Options::default() };
        vireo_softcuda::configure(options).expect("it is the first");
        // SAFETY: it finds the functions of one library, which is part of the program.
        unsafe {
            vireo_softnccl::use_driver(cuGetProcAddress_v2);
            cuda(cuInit(0));
        }
    });
}

fn cuda(status: CuResult) {
    assert_eq!(status, CuResult::SUCCESS);
}

fn nccl(status: NcclResult) {
    assert_eq!(status, NcclResult::SUCCESS, "{}", last_error());
}

fn last_error() -> String {
    // SAFETY: the text ends with a zero and stays until the thread asks again.
    unsafe { CStr::from_ptr((NCCL.ncclGetLastError)(NcclComm(0)).cast()) }.to_string_lossy().into_owned()
}

fn identity() -> NcclUniqueId {
    let mut id = NcclUniqueId { internal: [CChar(0); 128] };
    // SAFETY: the result is a value.
    nccl(unsafe { (NCCL.ncclGetUniqueId)(&raw mut id) });
    id
}

/// A device of a thread, with its default stream and numbers.
struct Place {
    numbers: u64,
    context: CuContext,
}

impl Place {
    fn new(device: i32, value: f32) -> Place {
        start();
        let (mut context, mut numbers) = (CuContext(0), 0);
        // SAFETY: results are values, and the memory has as many numbers.
        unsafe {
            cuda(cuDevicePrimaryCtxRetain(&raw mut context, vireo_cuda::types::CuDevice(device)));
            cuda(cuCtxSetCurrent(context));
            cuda(cuMemAlloc_v2(&raw mut numbers, 4 * COUNT as u64));
            cuda(cuMemsetD32_v2(numbers, value.to_bits(), COUNT as u64));
        }
        Place { numbers, context }
    }

    fn numbers(&self) -> [f32; COUNT] {
        let mut numbers = [0.0; COUNT];
        // SAFETY: both have as many numbers.
        unsafe {
            cuda(cuStreamSynchronize(CuStream(0)));
            cuda(cuMemcpyDtoH_v2(numbers.as_mut_ptr().cast(), self.numbers, 4 * COUNT as u64));
        }
        numbers
    }

    fn all_reduce(&self, comm: NcclComm, count: u64) -> NcclResult {
        let memory = std::ptr::with_exposed_provenance_mut(self.numbers as usize);
        let (ty, op) = (NcclDataType::FLOAT32, NcclRedOp::SUM);
        // SAFETY: the memory is there until the stream has run the operation.
        unsafe { (NCCL.ncclAllReduce)(memory, memory, count, ty, op, comm, CudaStream(0)) }
    }
}

fn join(id: NcclUniqueId, rank: i32, count: i32) -> NcclComm {
    let mut comm = NcclComm(0);
    // SAFETY: the result is a value.
    nccl(unsafe { (NCCL.ncclCommInitRank)(&raw mut comm, count, id, rank) });
    comm
}

#[test]
fn ranks_on_threads_that_block() {
    start();
    let id = identity();
    let rank = move |rank: i32| {
        let place = Place::new(rank, (rank + 1) as f32);
        let comm = join(id, rank, 2);
        let (mut own, mut count, mut device) = (-1, -1, -1);
        // SAFETY: results are values, and the rank is alive.
        unsafe {
            nccl((NCCL.ncclCommUserRank)(comm, &raw mut own));
            nccl((NCCL.ncclCommCount)(comm, &raw mut count));
            nccl((NCCL.ncclCommCuDevice)(comm, &raw mut device));
        }
        assert_eq!((own, count, device), (rank, 2, rank));
        for _ in 0..3 {
            nccl(place.all_reduce(comm, COUNT as u64));
        }
        let numbers = place.numbers();
        let mut part = NcclComm(0);
        // SAFETY: the rank is alive, and the result is a value.
        unsafe {
            nccl((NCCL.ncclCommSplit)(comm, rank, 0, &raw mut part, std::ptr::null_mut()));
            nccl((NCCL.ncclCommCount)(part, &raw mut count));
            nccl((NCCL.ncclCommDestroy)(part));
            nccl((NCCL.ncclCommFinalize)(comm));
            nccl((NCCL.ncclCommDestroy)(comm));
        }
        assert_eq!(count, 1);
        numbers
    };
    let ranks = [0, 1].map(|number| thread::spawn(move || rank(number)));
    for rank in ranks {
        assert_eq!(rank.join().expect("it runs"), [12.0; COUNT]);
    }
}

#[test]
fn a_failed_round_is_an_asynchronous_error_until_it_is_aborted() {
    start();
    let id = identity();
    let rank = move |rank: i32| {
        let place = Place::new(rank, 1.0);
        let comm = join(id, rank, 2);
        nccl(place.all_reduce(comm, 1 + rank as u64));
        let mut status = NcclResult::SUCCESS;
        while status == NcclResult::SUCCESS {
            // SAFETY: the rank is alive, and the result is a value.
            nccl(unsafe { (NCCL.ncclCommGetAsyncError)(comm, &raw mut status) });
        }
        assert_eq!(status, NcclResult::INVALID_USAGE);
        // SAFETY: the stream is that of the context.
        assert_eq!(unsafe { cuStreamQuery(CuStream(0)) }, CuResult::ERROR_NOT_READY);
        // SAFETY: nothing uses the rank from here on.
        nccl(unsafe { (NCCL.ncclCommAbort)(comm) });
        assert_eq!(place.numbers(), [1.0; COUNT]);
    };
    let ranks = [0, 1].map(|number| thread::spawn(move || rank(number)));
    ranks.into_iter().for_each(|rank| rank.join().expect("it runs"));
}

#[test]
fn mistakes_are_refused_with_their_cause() {
    let place = Place::new(0, 1.0);
    // The last error is of the process, where other tests run.
    let refused = |status: NcclResult, expected: NcclResult, what: &str| assert_eq!(status, expected, "{what}");
    let comm = join(identity(), 0, 1);
    nccl(place.all_reduce(comm, 0));
    refused(place.all_reduce(comm, 1 << 20), NcclResult::INVALID_ARGUMENT, "the allocation ends");
    refused(place.all_reduce(NcclComm(1), 1), NcclResult::INVALID_ARGUMENT, "no communicator");
    let mut out = NcclComm(0);
    let memory = std::ptr::with_exposed_provenance_mut(place.numbers as usize);
    let bad = NcclUniqueId { internal: [CChar(0); 128] };
    let mut config = [0u8; size_of::<NcclConfig>()];
    let (argument, usage) = (NcclResult::INVALID_ARGUMENT, NcclResult::INVALID_USAGE);
    // SAFETY: pointers are to values, or null where that is what is tested.
    unsafe {
        refused((NCCL.ncclGroupEnd)(), usage, "not in a group call");
        refused((NCCL.ncclCommInitRank)(&raw mut out, 1, bad, 0), argument, "none that ncclGetUniqueId");
        refused((NCCL.ncclCommInitRank)(&raw mut out, 1, identity(), 1), argument, "Invalid rank requested");
        refused((NCCL.ncclCommInitRank)(std::ptr::null_mut(), 1, identity(), 0), argument, "is null");
        let config = config.as_mut_ptr().cast();
        refused((NCCL.ncclCommInitRankConfig)(&raw mut out, 1, identity(), 0, config), argument, "not initialized");
        let (ty, op) = (NcclDataType(10), NcclRedOp(5));
        refused((NCCL.ncclSend)(memory, 1, ty, 0, comm, CudaStream(0)), argument, "invalid type 10");
        let float = NcclDataType::FLOAT32;
        let reduce = (NCCL.ncclAllReduce)(memory, memory, 1, float, op, comm, CudaStream(0));
        refused(reduce, argument, "invalid reduction operation 5");
        refused((NCCL.ncclBcast)(memory, 1, float, 1, comm, CudaStream(0)), argument, "root 1 of 1 ranks");
        refused((NCCL.ncclCommInitAll)(&raw mut out, 1, std::ptr::null()), usage, "not implemented");
        refused((NCCL.ncclRedOpDestroy)(op, comm), usage, "not implemented");
        // A group with a mistake does nothing, and the next one works.
        nccl((NCCL.ncclGroupStart)());
        refused((NCCL.ncclBcast)(memory, 1, float, 1, comm, CudaStream(0)), argument, "root 1 of 1 ranks");
        refused((NCCL.ncclGroupEnd)(), argument, "root 1 of 1 ranks");
        nccl((NCCL.ncclBcast)(memory, 1, float, 0, comm, CudaStream(0)));
        nccl((NCCL.ncclCommDestroy)(comm));
        refused((NCCL.ncclCommDestroy)(comm), argument, "no communicator");
        cuda(cuCtxSetCurrent(place.context));
        let text = CStr::from_ptr((NCCL.ncclGetErrorString)(NcclResult::REMOTE_ERROR).cast());
        assert_eq!(text, c"remote process exited or there was a network error");
        let mut version = 0;
        nccl((NCCL.ncclGetVersion)(&raw mut version));
        assert!(version >= 21_800);
    }
    assert_eq!(place.numbers(), [1.0; COUNT]);
}

#[test]
fn the_table_is_looked_up_by_name() {
    assert_eq!(NCCL.find(c"ncclSend").map(|address| address.as_ptr().addr()), Some(NCCL.ncclSend as usize));
    assert!(NCCL.find(c"ncclNothing").is_none());
}
