//! Pinned memory that a pending copy is to write, with `host=poisoned`.

use std::ffi::c_void;
use std::process::Command;

use vireo_softcuda::entries::*;

use crate::kernels::TEXT;
use crate::support::{Machine, get, launch, ok};

/// Four words of pinned memory.
fn pinned() -> *mut u32 {
    // SAFETY: the pointer is that of a value.
    let address = get(|address: *mut usize| unsafe { cuMemHostAlloc(address.cast::<*mut c_void>(), 16, 0) });
    std::ptr::with_exposed_provenance_mut(address)
}

#[test]
fn a_program_that_does_not_wait_sees_neither_old_nor_new_values() {
    let name = "poisoned::a_program_that_does_not_wait_sees_neither_old_nor_new_values";
    if std::env::var_os("SOFTCUDA_CHILD").is_none() {
        for order in ["random:1", "random:2"] {
            let mut child = Command::new(std::env::current_exe().expect("this test"));
            child.args(["--exact", "--nocapture", name]).env("SOFTCUDA_CHILD", "1");
            let output =
                child.env("SOFTCUDA_OPTIONS", format!("host=poisoned,order={order}")).output().expect("a process");
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{told}");
            let lines: Vec<&str> = told.lines().collect();
            assert!(lines.len() == 1 && lines[0].contains("the program wrote byte 8 of the 16 bytes"), "{told}");
        }
        return;
    }
    let machine = Machine::new();
    let (first, second, data) = (machine.stream(1), machine.stream(1), machine.memory(16));
    let add = machine.function(machine.module(TEXT), c"add");
    machine.write(data, &[1, 2, 3, 4]);
    // SAFETY: pinned memory has four words, and is used by this thread and by copies that it waits for.
    unsafe {
        let words = |at: *mut u32| [0, 1, 2, 3].map(|index| at.add(index).read_volatile());
        let at = pinned();
        ok(cuMemcpyDtoHAsync_v2(at.cast(), data, 16, first));
        let early = words(at);
        assert!(early.iter().zip([1, 2, 3, 4]).all(|(early, new)| *early != 0 && *early != new), "{early:?}");
        ok(cuStreamSynchronize(first));
        assert_eq!(words(at), [1, 2, 3, 4]);
        // A copy from there, and a kernel that has its address, are before the copy to there.
        at.write_volatile(7);
        ok(cuMemcpyHtoDAsync_v2(data, at.cast(), 4, first));
        ok(cuMemcpyDtoHAsync_v2(at.cast(), data, 16, first));
        ok(launch(add, 1, 4, first, &mut [at.expose_provenance() as u64, 10, 4]));
        ok(cuMemcpyDtoHAsync_v2(at.add(2).cast(), data, 4, first));
        ok(cuStreamSynchronize(first));
        assert_eq!(words(at), [17, 12, 7, 14]);
        ok(cuMemcpyDtoHAsync_v2(at.cast(), data, 16, second));
        at.add(2).write_volatile(5);
        ok(cuStreamSynchronize(second));
        assert_eq!(words(at), [7, 2, 3, 4]);
        ok(cuMemFreeHost(at.cast()));
    }
}
