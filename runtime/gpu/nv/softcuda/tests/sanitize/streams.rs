//! Races between streams: drawn programs of two streams with kernels, copies, fills, events and waits of the program. A
//! reference knows which operations nothing orders; a program has findings if it has such ones, at words that they
//! share, in any order in which the streams run.

use std::process::Command;

use vireo_cuda::types::CuStream;
use vireo_softcuda::entries::*;
use vireo_softcuda::take_reports;

use crate::support::{Draw, Machine, get, launch, ok};

const WORDS: usize = 4;
const PROGRAMS: u64 = 300;

const TEXT: &std::ffi::CStr = c"
.version 7.0
.target sm_60
.address_size 64
.visible .entry add(.param .u64 data, .param .u32 value)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [value];
  ld.global.u32 %r2, [%rd1];
  add.u32 %r2, %r2, %r1;
  st.global.u32 [%rd1], %r2;
  ret;
}
";

/// An operation of a stream: the words that it reads and writes, and how many operations of each stream are before it.
struct Operation {
    reads: Option<usize>,
    writes: usize,
    stream: usize,
    number: usize,
    known: [usize; 2],
}

/// Runs a drawn program. Panics if its findings are not those of the reference. True if it has any.
fn program(machine: &Machine, seed: u64) -> bool {
    let mut draw = Draw::new(seed);
    let add = machine.function(machine.module(TEXT), c"add");
    let data = machine.memory(4 * WORDS as u64);
    machine.write(data, &[1; WORDS]);
    let streams: [CuStream; 2] = std::array::from_fn(|_| machine.stream(1));
    let events: Vec<_> = (0..4).map(|_| machine.event()).collect();
    let mut recorded: [Option<[usize; 2]>; 4] = [None; 4];
    // How many operations of each stream the next one of a stream comes after, and those that the program knows.
    let (mut known, mut host) = ([[0usize; 2]; 2], [0usize; 2]);
    let mut operations: Vec<Operation> = Vec::new();
    let join = |own: &mut [usize; 2], other: &[usize; 2]| {
        own.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
    };
    for step in 0..6 + draw.below(20) {
        let stream = draw.below(2);
        let handle = streams[stream];
        join(&mut known[stream], &host);
        // SAFETY: the kernel has these parameters, and the addresses are of the allocation.
        unsafe {
            match draw.below(10) {
                0 | 1 => {
                    let event = draw.below(4);
                    ok(cuEventRecord(events[event], handle));
                    recorded[event] = Some(known[stream]);
                }
                2 | 3 => {
                    let event = draw.below(4);
                    ok(cuStreamWaitEvent(handle, events[event], 0));
                    if let Some(other) = recorded[event] {
                        join(&mut known[stream], &other);
                    }
                }
                4 if draw.below(2) == 0 => {
                    ok(cuStreamSynchronize(handle));
                    let own = known[stream];
                    join(&mut host, &own);
                }
                4 => {
                    let event = draw.below(4);
                    ok(cuEventSynchronize(events[event]));
                    if let Some(other) = recorded[event] {
                        join(&mut host, &other);
                    }
                }
                kind => {
                    let (to, from) = (draw.below(WORDS), draw.below(WORDS));
                    let (address, source) = (data + 4 * to as u64, data + 4 * from as u64);
                    let reads = match kind {
                        5 | 6 => {
                            ok(launch(add, 1, 1, handle, &mut [address, step as u64 + 1]));
                            Some(to)
                        }
                        7 | 8 if to != from => {
                            ok(cuMemcpyDtoDAsync_v2(address, source, 4, handle));
                            Some(from)
                        }
                        _ => {
                            ok(cuMemsetD32Async(address, step as u32, 1, handle));
                            None
                        }
                    };
                    let number = known[stream][stream] + 1;
                    operations.push(Operation { reads, writes: to, stream, number, known: known[stream] });
                    known[stream][stream] = number;
                    // Careful programs let the other stream wait nearly always.
                    if seed.is_multiple_of(2) && draw.below(24) != 0 {
                        ok(cuEventRecord(events[0], handle));
                        ok(cuStreamWaitEvent(streams[1 - stream], events[0], 0));
                        let own = known[stream];
                        recorded[0] = Some(own);
                        join(&mut known[1 - stream], &own);
                    }
                }
            }
        }
    }
    // The end waits for all.
    // SAFETY: it needs no pointers.
    ok(unsafe { cuCtxSynchronize() });
    let mut words = [false; WORDS];
    for (index, operation) in operations.iter().enumerate() {
        let open = |other: &&Operation| operation.known[other.stream] < other.number;
        for other in operations[..index].iter().filter(open) {
            let shared = [Some(other.writes), other.reads];
            for word in shared.into_iter().flatten().filter(|word| *word == operation.writes) {
                words[word] = true;
            }
            if operation.reads == Some(other.writes) {
                words[other.writes] = true;
            }
        }
    }
    let reports = take_reports();
    for report in &reports {
        let word = (report.address - data) / 4;
        assert!(words[word as usize], "seed {seed}: no race: {report}");
    }
    assert_eq!(!reports.is_empty(), words.contains(&true), "seed {seed}: {words:?}");
    !reports.is_empty()
}

#[test]
fn races_of_streams_are_those_that_a_reference_knows() {
    let name = "streams::races_of_streams_are_those_that_a_reference_knows";
    if std::env::var_os("SOFTCUDA_CHILD").is_some() {
        let machine = Machine::new();
        let racy = (0..PROGRAMS).filter(|seed| program(&machine, *seed)).count();
        assert!((PROGRAMS as usize / 5..PROGRAMS as usize * 4 / 5).contains(&racy), "{racy}");
        return;
    }
    for order in ["ready", "random:1", "random:2"] {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        child.args(["--exact", "--nocapture", name]).env("SOFTCUDA_CHILD", "1");
        let output = child.env("SOFTCUDA_OPTIONS", format!("sanitize=race,order={order}")).output().expect("a process");
        let told = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = told.lines().skip_while(|line| !line.contains("panicked")).take(12).collect();
        assert!(output.status.success(), "{order}: {}", said.join("\n"));
    }
}

/// Unwritten bytes stay so in copies inside the device, and what is copied over them does not.
#[test]
fn copies_inside_the_device_keep_unwritten_bytes_unwritten() {
    let name = "streams::copies_inside_the_device_keep_unwritten_bytes_unwritten";
    if std::env::var_os("SOFTCUDA_CHILD").is_some() {
        let machine = Machine::new();
        let [first, second] = [machine.memory(64), machine.memory(64)];
        machine.write(first + 4, &[7; 4]);
        // SAFETY: the ranges are in the allocations.
        unsafe {
            ok(cuMemsetD32_v2(second, 9, 16));
            ok(cuMemcpyDtoD_v2(second, first, 32));
            assert_eq!(take_reports().len(), 0);
            let words = machine.read(second + 4, 4);
            assert_eq!((words.as_slice(), take_reports().len()), (&[7; 4][..], 0));
            machine.read(second, 16);
            let reports = take_reports();
            let exit = reports[0].exit.as_ref().expect("an exit");
            assert_eq!((exit.unwritten, exit.offset), (16, 0));
            ok(cuMemsetD32_v2(second, 1, 1));
            ok(cuMemsetD8_v2(second + 20, 1, 12));
            machine.read(second, 16);
            assert_eq!(take_reports().len(), 0);
            let pinned = get(|address: *mut usize| cuMemHostAlloc(address.cast(), 64, 0)) as u64;
            std::ptr::with_exposed_provenance_mut::<u32>(pinned as usize).write(5);
            ok(cuMemcpyHtoD_v2(first, std::ptr::with_exposed_provenance(pinned as usize), 8));
            machine.read(first, 1);
            assert_eq!(take_reports().len(), 0);
            machine.read(first, 2);
            assert_eq!(take_reports().len(), 1);
        }
        return;
    }
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    child.args(["--exact", "--nocapture", name]).env("SOFTCUDA_CHILD", "1").env("SOFTCUDA_OPTIONS", "sanitize=init");
    let output = child.output().expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
