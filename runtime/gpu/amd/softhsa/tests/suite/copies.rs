//! Asynchronous copies with engines and of boxes, and their times.

use std::sync::atomic::Ordering;

use vireo_hsa::hsa::*;
use vireo_hsa::signal::Signal;

use crate::support::*;

#[test]
fn every_engine_copies() {
    let session = Session::new("");
    let (one, two) = (session.device_memory(4096), session.device_memory(4096));
    let (gpu, completion) = (session.gpu(), session.signal(1));
    let copy = |engine, force| {
        let (to, from, none) = (two.pointer(), one.pointer(), std::ptr::null());
        optional!(hsa_amd_memory_async_copy_on_engine(to, gpu, from, gpu, 8, 0, none, completion, engine, CBool(force)))
    };
    for (number, (engine, _)) in SdmaEngine::NAMED.iter().enumerate() {
        one.store(0, number as u64 + 1);
        hsa!(hsa_signal_store_relaxed(completion, 1));
        assert_eq!(copy(*engine, (number % 2) as u8), OK);
        wait(completion);
        assert_eq!(two.load(0), number as u64 + 1);
    }
    for engine in [0, 3, 1 << 16] {
        assert_eq!(copy(SdmaEngine(engine), 0), HsaStatus::ERROR_INVALID_ARGUMENT, "engine {engine:#x}");
    }
}

/// Copies a box between two allocations of 64 words.
fn copy_box(
    session: &Session,
    to: (&Memory, [u64; 2], [u32; 3]),
    from: (&Memory, [u64; 2], [u32; 3]),
    range: [u32; 3],
    direction: CopyDirection,
    completion: Signal,
) -> HsaStatus {
    let place = |(memory, [pitch, slice], [x, y, z]): (&Memory, [u64; 2], [u32; 3])| {
        (PitchedPointer { base: memory.address, pitch, slice }, Dim3 { x, y, z })
    };
    let ((to, to_offset), (from, from_offset), [x, y, z]) = (place(to), place(from), range);
    let range = Dim3 { x, y, z };
    let (to, to_offset) = (&raw const to, &raw const to_offset);
    let (from, from_offset) = (&raw const from, &raw const from_offset);
    let (gpu, none) = (session.gpu(), std::ptr::null());
    let range = &raw const range;
    optional!(hsa_amd_memory_async_copy_rect(
        to,
        to_offset,
        from,
        from_offset,
        range,
        gpu,
        direction,
        0,
        none,
        completion
    ))
}

#[test]
fn boxes_are_copied_row_by_row() {
    let session = Session::new("");
    let (one, two, completion) = (session.device_memory(512), session.device_memory(512), session.signal(1));
    (0..64).for_each(|index| one.store(index, index as u64));
    // Rows of 4 words and slices of 4 rows, to rows of 8 words and slices of 2 rows.
    let (from, to) = ((&one, [32, 128], [8, 1, 1]), (&two, [64, 128], [16, 0, 2]));
    let device = CopyDirection::DEVICE_TO_DEVICE;
    assert_eq!(copy_box(&session, to, from, [16, 2, 2], device, completion), OK);
    wait(completion);
    let mut expected = [0; 64];
    for (slice, row, word) in (0..2).flat_map(|z| (0..2).flat_map(move |y| (0..2).map(move |x| (z, y, x)))) {
        expected[16 * (slice + 2) + 8 * row + 2 + word] = (16 * (slice + 1) + 4 * (row + 1) + 1 + word) as u64;
    }
    assert_eq!(std::array::from_fn(|index| two.load(index)), expected);
    // An empty box is copied at once.
    hsa!(hsa_signal_store_relaxed(completion, 1));
    assert_eq!(copy_box(&session, to, from, [16, 0, 2], device, completion), OK);
    wait(completion);
}

#[test]
fn wrong_boxes_are_refused() {
    let session = Session::new("");
    let (one, two, completion) = (session.device_memory(4096), session.device_memory(4096), session.signal(1));
    let (good, device) = ([64, 128], CopyDirection::DEVICE_TO_DEVICE);
    let (to, from) = ((&two, good, [0; 3]), (&one, good, [0; 3]));
    let refused = HsaStatus::ERROR_INVALID_ARGUMENT;
    for direction in [CopyDirection::HOST_TO_HOST, CopyDirection(4)] {
        assert_eq!(copy_box(&session, to, from, [8, 2, 2], direction, completion), refused);
    }
    // A pitch of zero would be a copy of 2^64 rows.
    for (pitches, range) in [([0, 0], [1, u32::MAX, u32::MAX]), ([4, 128], [8, 2, 1]), ([u64::MAX, 128], [8, 3, 1])] {
        assert_eq!(copy_box(&session, (&two, pitches, [0; 3]), from, range, device, completion), refused, "{range:?}");
        assert_eq!(copy_box(&session, to, (&one, pitches, [0; 3]), range, device, completion), refused, "{range:?}");
    }
    // The last row is where no allocation is, but the box begins in one.
    let outside = HsaStatus::ERROR_INVALID_ALLOCATION;
    assert_eq!(copy_box(&session, to, from, [64, 65, 1], device, completion), outside);
    assert_eq!(hsa!(hsa_signal_load_scacquire(completion)), 1, "nothing was copied");
    assert_eq!(copy_box(&session, to, from, [64, 64, 1], device, completion), OK);
    wait(completion);
}

#[test]
fn copies_tell_their_times_where_that_is_asked_for() {
    let session = Session::new("");
    let (one, two, completion) = (session.device_memory(4096), session.device_memory(4096), session.signal(1));
    let (gpu, none) = (session.gpu(), std::ptr::null());
    let mut time = ProfilingAsyncCopyTime::default();
    let mut copy = || {
        hsa!(hsa_signal_store_relaxed(completion, 1));
        let (to, from) = (two.pointer(), one.pointer());
        assert_eq!(optional!(hsa_amd_memory_async_copy(to, gpu, from, gpu, 64, 0, none, completion)), OK);
        optional!(hsa_amd_profiling_get_async_copy_time(completion, &raw mut time))
    };
    assert_eq!(copy(), HsaStatus::ERROR, "nobody asked for times");
    assert_eq!(optional!(hsa_amd_profiling_async_copy_enable(CBool(1))), OK);
    assert_eq!(copy(), OK);
    assert!(0 < time.start && time.start <= time.end, "{time}");
    let other = session.signal(0);
    let status = optional!(hsa_amd_profiling_get_async_copy_time(other, &raw mut time));
    assert_eq!(status, HsaStatus::ERROR, "no copy completed with it");
    let wrong = optional!(hsa_amd_profiling_get_async_copy_time(Signal(1), &raw mut time));
    assert_eq!(wrong, HsaStatus::ERROR_INVALID_SIGNAL);
    assert_eq!(value_of(completion).load(Ordering::Acquire), 0);
}
