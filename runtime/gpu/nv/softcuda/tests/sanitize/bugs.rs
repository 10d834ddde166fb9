//! Bugs that were put into programs. Each runs in a process of its own, whose standard error stream has to name the
//! kernel, the line of PTX, the block and the thread; the mended program runs in another one, which has to be silent.

use std::ffi::CString;
use std::process::Command;

use vireo_cuda::types::{CuFunction, CuStream};
use vireo_softcuda::entries::*;

use crate::support::{Machine, launch};

/// The beginning of each kernel. `%r0` is the thread, `%r1` the block, `%r3` the address of its word in shared memory,
/// `%rd0` the data, and `%rd3` the address of its word there.
const HEAD: &str = ".version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<16>;
  .shared .align 8 .b8 s[512];
  ld.param.u64 %rd0, [data];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  shl.b32 %r2, %r0, 2;
  mov.u32 %r3, s;
  add.u32 %r3, %r3, %r2;
  mul.wide.u32 %rd2, %r0, 4;
  add.s64 %rd3, %rd0, %rd2;
";

/// The calls of the program around its kernel.
#[derive(Clone, Copy, PartialEq)]
enum Calls {
    /// The data is zero, and the kernel runs.
    Launch,
    /// As that, but the data is not written before the wrong kernel.
    Unwritten,
    /// The kernel runs in two streams.
    TwoStreams,
    /// A copy in another stream takes what the kernel makes.
    MissingEvent,
    /// The data is freed before.
    Free,
    /// The data is freed in another stream.
    AsyncFree,
    /// The kernel writes a part of the data, and all is copied.
    Result,
}

struct Bug {
    name: &'static str,
    calls: Calls,
    /// The rest of the kernel: wrong, and right.
    wrong: &'static str,
    right: &'static str,
    /// Blocks, and threads of a block.
    shape: (u32, u32),
    /// The texts that the wrong program says. `LINE` before a text of an instruction is its line.
    says: &'static [&'static str],
}

const EXCHANGE: &str = "  st.shared.u32 [%r3], %r0;
  SYNC
  mov.u32 %r5, s;
  xor.b32 %r4, %r2, DISTANCE;
  add.u32 %r5, %r5, %r4;
  ld.shared.u32 %r6, [%r5];
  st.global.u32 [%rd3], %r6;
";

const BUGS: [Bug; 19] = [
    Bug {
        name: "lanes of a warp exchange values without a barrier",
        calls: Calls::Launch,
        wrong: "4 ",
        right: "4 bar.warp.sync 0xFFFFFFFF;",
        shape: (1, 32),
        says: &[
            "data race in shared memory: load of 4 bytes",
            "in kernel k, LINE ld.shared.u32 %r6, [%r5];\n      block (0,0,0), thread (0,0,0)",
            "other: store in kernel k, LINE st.shared.u32 [%r3], %r0;\n      block (0,0,0), thread (1,0,0)",
        ],
    },
    Bug {
        name: "warps exchange values without a barrier",
        calls: Calls::Launch,
        wrong: "128 bar.warp.sync 0xFFFFFFFF;",
        right: "128 bar.sync 0;",
        shape: (1, 64),
        says: &[
            "data race in shared memory: store of 4 bytes",
            "in kernel k, LINE st.shared.u32 [%r3], %r0;\n      block (0,0,0), thread (32,0,0)",
            "other: load in kernel k, LINE ld.shared.u32 %r6, [%r5];\n      block (0,0,0), thread (0,0,0)",
        ],
    },
    Bug {
        name: "blocks store to one word",
        calls: Calls::Launch,
        wrong: "  add.u32 %r4, %r1, 7;\n  st.global.u32 [%rd0], %r4;\n",
        right: "  add.u32 %r4, %r1, 7;\n  mul.wide.u32 %rd4, %r1, 4;\n  add.s64 %rd4, %rd0, %rd4;\n  st.global.u32 [%rd4], %r4;\n",
        shape: (2, 1),
        says: &[
            "data race: store of 4 bytes",
            "in kernel k, LINE st.global.u32 [%rd0], %r4;\n      block (1,0,0), thread (0,0,0)",
            "other: store in kernel k, LINE st.global.u32 [%rd0], %r4;\n      block (0,0,0), thread (0,0,0)",
            "byte 0 of device memory of 256 bytes",
        ],
    },
    Bug {
        name: "kernels of two streams count in one array",
        calls: Calls::TwoStreams,
        wrong: "  ld.global.u32 %r4, [%rd3];\n  add.u32 %r4, %r4, 1;\n  st.global.u32 [%rd3], %r4;\n",
        right: "  ld.global.u32 %r4, [%rd3];\n  add.u32 %r4, %r4, 1;\n  st.global.u32 [%rd3], %r4;\n",
        shape: (1, 32),
        says: &[
            // Either kernel may be the first one.
            "data race: ",
            "kernel k, LINE ld.global.u32 %r4, [%rd3];\n      block (0,0,0), thread (0,0,0), stream",
            "kernel k, LINE st.global.u32 [%rd3], %r4;\n      block (0,0,0), thread (0,0,0), stream",
        ],
    },
    Bug {
        name: "a copy does not wait for the kernel",
        calls: Calls::MissingEvent,
        wrong: "  st.global.u32 [%rd3], %r0;\n",
        right: "  st.global.u32 [%rd3], %r0;\n",
        shape: (1, 64),
        says: &["data race: ", "in a copy to the host, stream", "kernel k, LINE st.global.u32 [%rd3], %r0;"],
    },
    Bug {
        name: "lanes store different values to one word",
        calls: Calls::Launch,
        wrong: "  st.shared.u32 [s], %r0;\n",
        right: "  setp.eq.u32 %p1, %r0, 0;\n  @%p1 st.shared.u32 [s], %r0;\n",
        shape: (1, 32),
        says: &[
            "different values stored to one address by one instruction: store of 4 bytes at 0x0",
            "in kernel k, LINE st.shared.u32 [s], %r0;\n      block (0,0,0), thread (1,0,0)",
            "other: store in kernel k, LINE st.shared.u32 [s], %r0;\n      block (0,0,0), thread (0,0,0)",
        ],
    },
    Bug {
        name: "a store after the end of an array",
        calls: Calls::Launch,
        wrong: "  st.global.u32 [%rd3+132], %r0;\n",
        right: "  st.global.u32 [%rd3+128], %r0;\n",
        shape: (1, 32),
        says: &[
            "out of bounds: store of 4 bytes",
            "in kernel k, LINE st.global.u32 [%rd3+132], %r0;\n      block (0,0,0), thread (31,0,0)",
            "memory: 0 bytes after the end of device memory of 256 bytes",
        ],
    },
    Bug {
        name: "a store after the end of shared memory",
        calls: Calls::Launch,
        wrong: "  st.shared.u32 [%r3+388], %r0;\n",
        right: "  st.shared.u32 [%r3+384], %r0;\n",
        shape: (1, 32),
        says: &[
            "out of bounds of shared memory: store of 4 bytes at 0x200",
            "in kernel k, LINE st.shared.u32 [%r3+388], %r0;\n      block (0,0,0), thread (31,0,0)",
        ],
    },
    Bug {
        name: "a misaligned load",
        calls: Calls::Launch,
        wrong: "  ld.global.v2.u32 {%r4, %r5}, [%rd3+4];\n",
        right: "  ld.global.u32 %r4, [%rd3+4];\n",
        shape: (1, 32),
        says: &[
            "load of 8 bytes",
            "it is not aligned, in kernel k, LINE ld.global.v2.u32, block (0,0,0), thread (0,0,0)",
        ],
    },
    Bug {
        name: "a generic address of shared memory in global memory",
        calls: Calls::Launch,
        wrong: "  mov.u64 %rd4, s;\n  cvta.shared.u64 %rd4, %rd4;\n  st.global.u32 [%rd4], 1;\n",
        right: "  mov.u64 %rd4, s;\n  cvta.shared.u64 %rd4, %rd4;\n  st.u32 [%rd4], 1;\n",
        shape: (1, 1),
        says: &["it is an address of another space, in kernel k, LINE st.global.u32, block (0,0,0), thread (0,0,0)"],
    },
    Bug {
        name: "a use after a free",
        calls: Calls::Free,
        wrong: "  st.global.u32 [%rd3], %r0;\n",
        right: "  st.global.u32 [%rd3], %r0;\n",
        shape: (1, 32),
        says: &[
            "use after free: store of 4 bytes",
            "in kernel k, LINE st.global.u32 [%rd3], %r0;\n      block (0,0,0), thread (0,0,0)",
            "byte 0 of device memory of 256 bytes",
            "freed by cuMemFree",
        ],
    },
    Bug {
        name: "a use that a free in another stream does not wait for",
        calls: Calls::AsyncFree,
        wrong: "  st.global.u32 [%rd3], %r0;\n",
        right: "  st.global.u32 [%rd3], %r0;\n",
        shape: (1, 32),
        says: &[
            "use after free: store of 4 bytes",
            "in kernel k, LINE st.global.u32 [%rd3], %r0;\n      block (0,0,0), thread (0,0,0)",
        ],
    },
    Bug {
        name: "a load of memory that nobody wrote",
        calls: Calls::Unwritten,
        wrong: "  ld.global.u32 %r4, [%rd3];\n",
        right: "  ld.global.u32 %r4, [%rd3];\n",
        shape: (1, 32),
        says: &[
            "memory that was never written: load of 4 bytes",
            "in kernel k, LINE ld.global.u32 %r4, [%rd3];\n      block (0,0,0), thread (0,0,0)",
        ],
    },
    Bug {
        name: "a load of shared memory that nobody wrote",
        calls: Calls::Launch,
        wrong: "  ld.shared.u32 %r4, [%r3+4];\n",
        right: "  st.shared.u32 [%r3], 1;\n  ld.shared.u32 %r4, [%r3];\n",
        shape: (1, 32),
        says: &[
            "shared memory that was never written: load of 4 bytes",
            "in kernel k, LINE ld.shared.u32 %r4, [%r3+4];\n      block (0,0,0), thread (0,0,0)",
        ],
    },
    Bug {
        name: "a result of which a part is unwritten",
        calls: Calls::Result,
        wrong: "  setp.lt.u32 %p1, %r0, 60;\n  @%p1 st.global.u32 [%rd3], %r0;\n",
        right: "  st.global.u32 [%rd3], %r0;\n",
        shape: (1, 64),
        says: &[
            "memory that was never written leaves the device: 16 of 256 bytes",
            "in a copy to the host, the first at byte 240",
            "device memory of 256 bytes",
        ],
    },
    Bug {
        name: "a barrier in divergent code",
        calls: Calls::Launch,
        wrong: "  setp.ge.u32 %p1, %r0, 16;\n  @%p1 bra $end;\n  bar.sync 0;\n$end:\n  add.u32 %r4, %r4, 1;\n",
        right: "  bar.sync 0;\n$end:\n  add.u32 %r4, %r4, 1;\n",
        shape: (1, 64),
        says: &[
            "barrier in divergent code\n    in kernel k, LINE bar.sync 0;\n      block (0,0,0), thread (0,0,0)",
            "16 lanes of the warp are there; elsewhere: 16, 17, 18",
        ],
    },
    Bug {
        name: "warps at different barriers",
        calls: Calls::Launch,
        wrong: "  shr.u32 %r4, %r0, 5;\n  bar.sync %r4, 64;\n",
        right: "  bar.sync 1, 64;\n",
        shape: (1, 64),
        says: &[
            "deadlock",
            "in kernel k, LINE bar.sync, block (0,0,0), thread (0,0,0)",
            "32 threads from (0,0,0) on wait at barrier 0, LINE bar.sync",
            "32 threads from (32,0,0) on wait at barrier 1, LINE bar.sync",
        ],
    },
    Bug {
        name: "a load through the read-only cache of what the kernel writes",
        calls: Calls::Launch,
        wrong: "  st.global.u32 [%rd3], 7;\n  bar.sync 0;\n  ld.global.nc.u32 %r4, [%rd3];\n",
        right: "  st.global.u32 [%rd3], 7;\n  bar.sync 0;\n  ld.global.u32 %r4, [%rd3];\n",
        shape: (1, 32),
        says: &[
            "load through the read-only cache of memory that the kernel writes: load of 4 bytes",
            "in kernel k, LINE ld.global.nc.u32 %r4, [%rd3];\n      block (0,0,0), thread (0,0,0)",
        ],
    },
    Bug {
        name: "lines of the source",
        calls: Calls::Launch,
        wrong: "  .loc 1 12 3\n  st.shared.u32 [%r3], %r0;\n  .loc 1 14 0\n  ld.shared.u32 %r4, [s+16];\n  st.global.u32 [%rd3], %r4;\n",
        right: "  .loc 1 12 3\n  st.shared.u32 [%r3], %r0;\n  bar.sync 0;\n  ld.shared.u32 %r4, [s+16];\n  st.global.u32 [%rd3], %r4;\n",
        shape: (1, 32),
        says: &[
            "LINE ld.shared.u32 %r4, [s+16];\n      source kernel.py:14\n      block (0,0,0), thread (0,0,0)",
            "LINE st.shared.u32 [%r3], %r0;\n      source kernel.py:12\n      block (0,0,0), thread (4,0,0)",
        ],
    },
];

/// The PTX of a program.
fn text(body: &str) -> String {
    let body = match body.split_once(' ') {
        // An exchange of values over a distance, with a barrier or none.
        Some((distance, sync)) if distance.parse::<u32>().is_ok() => {
            EXCHANGE.replace("DISTANCE", distance).replace("SYNC", sync)
        }
        _ => body.to_string(),
    };
    format!("{HEAD}{body}  ret;\n}}\n.file 1 \"kernel.py\"\n")
}

/// Makes the calls of a program. Their statuses are those of what they run.
fn run(bug: &Bug, is_wrong: bool) {
    let machine = Machine::new();
    let module = machine.module(&CString::new(text(if is_wrong { bug.wrong } else { bug.right })).expect("a text"));
    let function: CuFunction = machine.function(module, c"k");
    let ((blocks, threads), data) = (bug.shape, machine.memory(256));
    let (first, second, event) = (machine.stream(1), machine.stream(1), machine.event());
    let mut words = [0u32; 64];
    // SAFETY: the pointers are those of values that live until the work is done, and the kernel has this parameter.
    unsafe {
        let start = |stream: CuStream| launch(function, blocks, threads, stream, &mut [data]);
        let clear = || cuMemsetD32_v2(data, 0, 64);
        let copy = |words: &mut [u32; 64], stream| cuMemcpyDtoHAsync_v2(words.as_mut_ptr().cast(), data, 256, stream);
        let order = |before: CuStream, after: CuStream| {
            if !is_wrong {
                cuEventRecord(event, before);
                cuStreamWaitEvent(after, event, 0);
            }
        };
        match bug.calls {
            Calls::Unwritten if is_wrong => _ = start(first),
            Calls::Launch | Calls::Unwritten => {
                clear();
                start(first);
            }
            Calls::TwoStreams => {
                clear();
                start(first);
                order(first, second);
                start(second);
            }
            Calls::MissingEvent => {
                clear();
                start(first);
                order(first, second);
                copy(&mut words, second);
            }
            Calls::Free => {
                if is_wrong {
                    cuMemFree_v2(data);
                }
                start(first);
            }
            Calls::AsyncFree => {
                clear();
                start(first);
                order(first, second);
                cuMemFreeAsync(data, second);
            }
            Calls::Result => {
                start(first);
                copy(&mut words, first);
            }
        }
        cuCtxSynchronize();
    }
}

#[test]
fn each_bug_is_found_and_the_mended_program_is_silent() {
    let name = "bugs::each_bug_is_found_and_the_mended_program_is_silent";
    if let Ok(child) = std::env::var("SOFTCUDA_CHILD") {
        let (index, is_wrong) = child.split_once(' ').expect("two words");
        return run(&BUGS[index.parse::<usize>().expect("a number")], is_wrong == "wrong");
    }
    let child = |index: usize, kind: &str, options: &str| {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        child.args(["--exact", "--nocapture", name]).env("SOFTCUDA_CHILD", format!("{index} {kind}"));
        let output = child.env("SOFTCUDA_OPTIONS", options).output().expect("a process");
        assert!(output.status.success(), "{}: {output:?}", BUGS[index].name);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let mut failures = String::new();
    for (index, bug) in BUGS.iter().enumerate() {
        for order in ["ready", "random:1", "random:2"] {
            let options = format!("sanitize=all,threads=1,order={order}");
            let said = child(index, "wrong", &options);
            let ptx = text(bug.wrong);
            for wanted in bug.says {
                let wanted = match wanted.split_once("LINE ") {
                    None => (*wanted).to_string(),
                    Some((before, rest)) => {
                        let instruction = rest.split(['\n', ',']).next().unwrap_or_default();
                        let line = ptx.lines().position(|line| line.trim().starts_with(instruction));
                        format!("{before}line {}: {rest}", line.map_or(0, |line| line + 1))
                    }
                };
                if !said.contains(&wanted) {
                    failures += &format!("{} ({order}): expected `{wanted}` in\n{said}\n", bug.name);
                }
            }
            let said = child(index, "right", &options);
            if !said.is_empty() {
                failures += &format!("{} ({order}), mended:\n{said}\n", bug.name);
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
