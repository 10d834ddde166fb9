//! The random order of work as programs see it: a missing event fails with some seeds and then always, and a program
//! with all of its events fails with none. Each seed is a process of its own.

use std::ffi::c_void;
use std::process::Command;

use vireo_softcuda::entries::*;

use crate::kernels::TEXT;
use crate::support::{Machine, get, launch, ok};

const SEEDS: usize = 100;

/// A kernel in one stream, and a copy of its result in another one, which waits for an event or does not. Returns the
/// words that were copied, which are 3, 6, 9 and so on if the copies wait.
fn program(machine: &Machine, has_event: bool) -> Vec<u32> {
    let add = machine.function(machine.module(TEXT), c"add");
    let (first, second, event) = (machine.stream(1), machine.stream(1), machine.event());
    let data = machine.memory(4);
    machine.write(data, &[0]);
    // SAFETY: the pointers are those of values, the kernel has these parameters, and the word lives until the end.
    unsafe {
        let pinned: *mut u32 =
            get(|address: *mut usize| cuMemHostAlloc(address.cast::<*mut c_void>(), 4, 0)) as *mut u32;
        let mut copied = Vec::new();
        for _ in 0..3 {
            ok(launch(add, 1, 1, first, &mut [data, 3, 1]));
            if has_event {
                ok(cuEventRecord(event, first));
                ok(cuStreamWaitEvent(second, event, 0));
            }
            ok(cuMemcpyDtoHAsync_v2(pinned.cast(), data, 4, second));
            ok(cuStreamSynchronize(second));
            copied.push(pinned.read_volatile());
        }
        ok(cuCtxSynchronize());
        ok(cuMemFreeHost(pinned.cast()));
        copied
    }
}

#[test]
fn a_missing_event_fails_with_half_of_the_seeds_and_then_always() {
    let name = "seeds::a_missing_event_fails_with_half_of_the_seeds_and_then_always";
    if std::env::var_os("SOFTCUDA_CHILD").is_some() {
        let machine = Machine::new();
        println!("missing {:?}", program(&machine, false));
        println!("right {:?}", program(&machine, true));
        return;
    }
    let run = |seed: usize| {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        child
            .args(["--exact", "--nocapture", name])
            .env("SOFTCUDA_CHILD", "1")
            .env("SOFTCUDA_OPTIONS", format!("order=random:{seed}"));
        let output = child.output().expect("a process");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).expect("a line").to_string();
        (line("missing "), line("right "))
    };
    let mut first_is_wrong = 0;
    for seed in 0..SEEDS {
        let (missing, right) = run(seed);
        assert_eq!(run(seed), (missing.clone(), right.clone()), "seed {seed}");
        assert_eq!(right, "[3, 6, 9]", "seed {seed}");
        first_is_wrong += usize::from(missing.starts_with("[0,"));
    }
    assert!((SEEDS / 3..SEEDS * 2 / 3).contains(&first_is_wrong), "{first_is_wrong} of {SEEDS} seeds");
}

/// Threads that each wait for their own stream, for events of the others and for functions of the host: nothing waits
/// for ever, and each sees its own work done.
#[test]
fn several_threads_of_the_program_wait_at_once() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static CALLED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn called(_: *mut c_void) {
        CALLED.fetch_add(1, Ordering::SeqCst);
    }
    const THREADS: usize = 4;
    const TURNS: u32 = 40;
    let name = "seeds::several_threads_of_the_program_wait_at_once";
    if std::env::var_os("SOFTCUDA_CHILD").is_none() {
        for seed in 0..4 {
            let mut child = Command::new(std::env::current_exe().expect("this test"));
            child.args(["--exact", name]).env("SOFTCUDA_CHILD", "1");
            let output = child.env("SOFTCUDA_OPTIONS", format!("order=random:{seed}")).output().expect("a process");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        return;
    }
    let machine = Machine::new();
    let add = machine.function(machine.module(TEXT), c"add");
    let data = machine.memory(4 * THREADS as u64);
    machine.write(data, &[0; THREADS]);
    let events: Vec<_> = (0..THREADS).map(|_| machine.event()).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (machine, events) = (&machine, &events);
            scope.spawn(move || {
                // SAFETY: the pointers are those of values, and the kernel has these parameters.
                unsafe {
                    ok(cuCtxSetCurrent(machine.context));
                    let (stream, word) = (machine.stream(1), data + 4 * thread as u64);
                    for turn in 1..=TURNS {
                        ok(launch(add, 1, 1, stream, &mut [word, 1, 1]));
                        ok(cuEventRecord(events[thread], stream));
                        match turn % 4 {
                            0 => ok(cuEventSynchronize(events[(thread + 1) % THREADS])),
                            1 => ok(cuLaunchHostFunc(stream, Some(called), std::ptr::null_mut())),
                            2 => while cuStreamQuery(stream).0 != 0 {},
                            _ => ok(cuStreamSynchronize(stream)),
                        }
                    }
                    let mut found = 0u32;
                    ok(cuMemcpyDtoHAsync_v2((&raw mut found).cast(), word, 4, stream));
                    assert_eq!(found, TURNS);
                }
            });
        }
    });
    // SAFETY: it needs no pointers.
    ok(unsafe { cuCtxSynchronize() });
    assert_eq!(CALLED.load(Ordering::SeqCst), THREADS as u32 * TURNS / 4);
}
