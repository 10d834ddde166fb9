//! Captures of streams: random programs that fork and join by events run as graphs as they would have run at once, and
//! calls that cannot be captured are refused.

use std::collections::BTreeSet;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CaptureStatus, CuEvent, CuGraph, CuGraphExec, CuStream};
use vireo_softcuda::entries::*;

use crate::kernels::TEXT;
use crate::support::{Draw, Machine, get, launch, ok};

const WORDS: usize = 8;

#[test]
fn a_captured_program_does_what_it_would_have_done() {
    for seed in 0..4 {
        let machine = Machine::new();
        let mut draw = Draw::new(seed);
        let add = machine.function(machine.module(TEXT), c"add");
        let data = machine.memory(4 * WORDS as u64);
        let streams: Vec<CuStream> = (0..3).map(|_| machine.stream(1)).collect();
        let events: Vec<CuEvent> = (0..WORDS).map(|_| machine.event()).collect();
        let (start, mut expected) = (machine.event(), [2u32; WORDS]);
        let (mut last, mut used): ([Option<usize>; WORDS], BTreeSet<usize>) = ([None; WORDS], BTreeSet::new());
        // SAFETY: the pointers are those of values, and the kernel has these parameters.
        unsafe {
            ok(cuStreamBeginCapture_v2(streams[0], 0));
            ok(cuEventRecord(start, streams[0]));
            let status = get(|status: *mut CaptureStatus| cuStreamIsCapturing(streams[0], status));
            assert_eq!(status, CaptureStatus::ACTIVE);
            for _ in 0..50 {
                let (index, to, from) = (draw.below(3), draw.below(WORDS), draw.below(WORDS));
                let stream = streams[index];
                if used.insert(index) {
                    ok(cuStreamWaitEvent(stream, start, 0));
                }
                for word in [to, from].into_iter().filter(|word| last[*word].is_some_and(|other| other != index)) {
                    ok(cuStreamWaitEvent(stream, events[word], 0));
                }
                let (address, source) = (data + 4 * to as u64, data + 4 * from as u64);
                match draw.below(3) {
                    0 => {
                        ok(launch(add, 1, 1, stream, &mut [address, 3, 1]));
                        expected[to] += 3;
                    }
                    1 => {
                        ok(cuMemsetD32Async(address, 7, 1, stream));
                        expected[to] = 7;
                    }
                    _ => {
                        ok(cuMemcpyDtoDAsync_v2(address, source, 4, stream));
                        expected[to] = expected[from];
                    }
                }
                for word in [to, from] {
                    ok(cuEventRecord(events[word], stream));
                    last[word] = Some(index);
                }
            }
            for word in (0..WORDS).filter(|word| last[*word].is_some()) {
                ok(cuStreamWaitEvent(streams[0], events[word], 0));
            }
            let graph = get(|graph: *mut CuGraph| cuStreamEndCapture(streams[0], graph));
            machine.write(data, &[2; WORDS]);
            let exec = get(|exec: *mut CuGraphExec| cuGraphInstantiateWithFlags(exec, graph, 0));
            ok(cuGraphLaunch(exec, streams[1]));
            ok(cuStreamSynchronize(streams[1]));
        }
        assert_eq!(machine.read(data, WORDS), expected, "seed {seed}");
    }
}

#[test]
fn calls_that_cannot_be_captured_are_refused() {
    let machine = Machine::new();
    let (stream, other, event) = (machine.stream(1), machine.stream(0), machine.event());
    let data = machine.memory(4);
    let mut graph = CuGraph(9);
    // SAFETY: the pointers are those of values.
    unsafe {
        let illegal = CuResult::ERROR_ILLEGAL_STATE;
        assert_eq!(cuStreamEndCapture(stream, &raw mut graph), illegal);
        assert_eq!(cuStreamBeginCapture_v2(CuStream(0), 0), CuResult::ERROR_STREAM_CAPTURE_UNSUPPORTED);
        ok(cuStreamBeginCapture_v2(stream, 0));
        assert_eq!(cuStreamBeginCapture_v2(stream, 0), illegal);
        // The capture is of no use after a call that waits.
        assert_eq!(cuStreamSynchronize(stream), CuResult::ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert_eq!(cuMemsetD32Async(data, 1, 1, stream), CuResult::ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_eq!(cuStreamEndCapture(stream, &raw mut graph), CuResult::ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_eq!(graph, CuGraph(0));
        // Work of another stream is left.
        ok(cuStreamBeginCapture_v2(stream, 0));
        ok(cuEventRecord(event, stream));
        assert_eq!(cuEventQuery(event), CuResult::ERROR_CAPTURED_EVENT);
        ok(cuStreamWaitEvent(other, event, 0));
        ok(cuMemsetD32Async(data, 1, 1, other));
        assert_eq!(cuStreamEndCapture(stream, &raw mut graph), CuResult::ERROR_STREAM_CAPTURE_UNJOINED);
        // The legacy default stream would wait for a blocking stream.
        ok(cuStreamBeginCapture_v2(other, 0));
        assert_eq!(cuMemsetD32_v2(data, 1, 1), CuResult::ERROR_STREAM_CAPTURE_IMPLICIT);
        assert_eq!(cuStreamEndCapture(other, &raw mut graph), CuResult::ERROR_STREAM_CAPTURE_INVALIDATED);
        ok(cuStreamBeginCapture_v2(other, 2));
        ok(cuMemsetD32_v2(data, 1, 1));
        ok(cuStreamEndCapture(other, &raw mut graph));
        ok(cuGraphDestroy(graph));
    }
}
