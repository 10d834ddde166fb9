//! The second barrier of `--untrusted`: what a confined process cannot do any more, and that all that programs need
//! still works in one.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{Outcome, folder, vireo};
use crate::skip::{Need, skipped};
use crate::tiers::every_tier;

/// Set for the process that confines itself: the folder that it may not write to, and the port that it may not connect
/// to.
const CONFINED: &str = "VIREO_TEST_CONFINED";

/// The flags of a program that is not trusted, where a confined process can be had: emulators of processors know
/// neither barrier.
pub fn untrusted() -> Vec<&'static str> {
    if std::env::var_os("VIREO_RUNNER").is_some() { vec!["--untrusted", "--no-confine"] } else { vec!["--untrusted"] }
}

fn has_barriers() -> bool {
    cfg!(target_os = "linux") && std::env::var_os("VIREO_RUNNER").is_none()
}

#[test]
fn a_confined_process_reaches_nothing_outside() {
    if !has_barriers() {
        return skipped(Need::Platform("linux"), "only Linux has the barriers");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("open"), "before").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["confinement::the_confined_process", "--exact", "--nocapture", "--test-threads=1"])
        .env(CONFINED, format!("{}|{}", listener.local_addr().unwrap().port(), folder.path().display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("the confined process is done"), "{text}");
    assert_eq!(std::fs::read(folder.path().join("open")).unwrap(), b"before, and after");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // It has connected once, before.
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_ok());
    assert!(listener.accept().is_err(), "the confined process has connected");
}

/// The other side of the test above: a process of its own.
#[test]
fn the_confined_process() {
    let Ok(given) = std::env::var(CONFINED) else { return };
    let (port, folder) = given.split_once('|').unwrap();
    let (port, folder) = (port.parse::<u16>().unwrap(), Path::new(folder));
    let mut open = File::options().read(true).append(true).open(folder.join("open")).unwrap();
    let (waiting, resumed) = std::sync::mpsc::channel::<()>();
    // A thread that was there before is confined by system calls.
    let path = folder.join("open");
    let earlier = std::thread::spawn(move || {
        resumed.recv().unwrap();
        File::open(path).map(drop)
    });
    drop(TcpStream::connect(("127.0.0.1", port)).unwrap());

    vireo_cli::confine::enter().unwrap();

    let denied = |what: &str, result: std::io::Result<()>| {
        let error = result.expect_err(what);
        assert!(matches!(error.raw_os_error(), Some(1 | 13)), "{what}: {error}");
    };
    denied("reads a file", File::open(folder.join("open")).map(drop));
    denied("reads a file of the system", File::open("/etc/passwd").map(drop));
    denied("creates a file", File::create(folder.join("new")).map(drop));
    denied("removes a file", std::fs::remove_file(folder.join("open")));
    denied("lists a folder", std::fs::read_dir(folder).map(drop));
    denied("connects", TcpStream::connect(("127.0.0.1", port)).map(drop));
    denied("listens", TcpListener::bind("127.0.0.1:0").map(drop));
    denied("has a datagram socket", UdpSocket::bind("127.0.0.1:0").map(drop));
    denied("starts a process", Command::new("/bin/true").status().map(drop));
    waiting.send(()).unwrap();
    denied("reads a file on another thread", earlier.join().unwrap());

    // The rest of what programs need works: memory, machine code aside, threads, clocks, and files that are open.
    let threads = (0..4).map(|index| std::thread::spawn(move || vec![index; 1 << 20].len())).collect::<Vec<_>>();
    assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>(), 4 << 20);
    std::thread::sleep(Duration::from_millis(1));
    let mut contents = String::new();
    open.read_to_string(&mut contents).unwrap();
    assert!(contents == "before" && open.metadata().unwrap().len() == 6);
    open.write_all(b", and after").unwrap();
    let copy = open.try_clone().unwrap();
    copy.sync_all().unwrap();
    println!("the confined process is done");
}

fn run(folder_of_run: &Path, arguments: &[&str]) -> Outcome {
    vireo(folder_of_run, arguments)
}

#[test]
fn programs_run_confined_as_they_do_otherwise() {
    if !has_barriers() {
        return skipped(Need::Platform("linux"), "only Linux has the barriers");
    }
    let models = folder("../fixtures/models");
    for device in [
        "--device=local-sync",
        "--device=local-task",
        "--device=local-task?task_topology_group_count=4",
        "--device=null",
    ] {
        for tier in ["--tier=interp", every_tier(), "--tier=auto"] {
            let base = ["run", "--module=vmvx_softmax.vmfb", "--input=4x37xf32=1", device, tier, "--untrusted"];
            let confined = run(&models, &base);
            let free = run(&models, &[&base[..], &["--no-confine"]].concat());
            assert_eq!(
                (confined.code, &confined.stdout),
                (free.code, &free.stdout),
                "{device} {tier}: {}",
                confined.stderr
            );
            assert_eq!(confined.stderr, free.stderr, "{device} {tier}");
        }
    }
    let checked = run(&folder("tests/fixtures"), &["check", "--untrusted", "check.vmfb"]);
    let free = run(&folder("tests/fixtures"), &["check", "--untrusted", "--no-confine", "check.vmfb"]);
    assert_eq!(
        (checked.code, checked.stdout.lines().count()),
        (free.code, free.stdout.lines().count()),
        "{}",
        checked.stderr
    );
}

#[test]
fn limits_end_confined_programs() {
    let bench = folder("../fixtures/bench");
    for tier in ["--tier=interp", every_tier(), "--tier=auto"] {
        let mut flags =
            vec!["run", "--module=vm.vmfb", "--function=loop", "--input=2000000000", "--timeout=0.05", tier];
        flags.extend(untrusted());
        let outcome = run(&bench, &flags);
        // Machine code may be done before.
        let ended = outcome.code == 0 || outcome.stderr.contains("DEADLINE_EXCEEDED");
        assert!(ended && outcome.code >= 0, "{tier}: {}{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn files_that_are_named_are_read_and_written() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path();
    let module = folder("../fixtures/models").join("vmvx_softmax.vmfb");
    let module = format!("--module={}", module.display());
    std::fs::write(path.join("in.bin"), [1.0f32; 4 * 37].map(f32::to_le_bytes).concat()).unwrap();
    std::fs::write(path.join("old.bin"), [9; 4096]).unwrap();
    let common = [&["run", &module, "--input=4x37xf32=@in.bin"][..], &untrusted()].concat();
    let call = |more: &[&str]| {
        let outcome = run(path, &[&common[..], more].concat());
        assert_eq!(outcome.code, 0, "{more:?}: {}", outcome.stderr);
    };
    call(&["--output=@new.npy"]);
    call(&["--output=@old.bin"]);
    call(&["--output=+more.bin"]);
    call(&["--output=+more.bin"]);
    call(&["--output=@named.npz:softmax"]);
    call(&["--expected-output=@new.npy", "--device_trace=trace.txt", "--print_statistics"]);
    call(&["--dispatch_trace=kernels.json", "--output=-"]);
    let length = |name: &str| std::fs::metadata(path.join(name)).unwrap().len();
    assert_eq!((length("old.bin"), length("more.bin")), (4 * 37 * 4, 2 * 4 * 37 * 4));
    assert!(length("named.npz") > 0 && length("trace.txt") > 0 && length("kernels.json") > 0);
    let benchmark =
        [&["benchmark", &module, "--input=4x37xf32=@in.bin", "--benchmark_min_time=1x"][..], &untrusted()].concat();
    let outcome = run(path, &[&benchmark[..], &["--benchmark_out=times.json"]].concat());
    assert!(outcome.code == 0 && length("times.json") > 0, "{}", outcome.stderr);
    let check = folder("tests/fixtures").join("check.vmfb").display().to_string();
    run(path, &[&["check", &check, "--junit=tests.xml"][..], &untrusted()].concat());
    assert!(length("tests.xml") > 0);
    // A result that cannot be written is found out before the program runs.
    let outcome = run(path, &[&common[..], &["--output=@none/x.npy"]].concat());
    assert!(outcome.code == 1 && !outcome.stdout.contains("EXEC"), "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn what_a_confined_process_cannot_do_is_refused_by_name() {
    if !has_barriers() {
        return skipped(Need::Platform("linux"), "only Linux has the barriers");
    }
    let models = folder("../fixtures/models");
    let outcome = run(&models, &["run", "--untrusted", "--module=vmvx_softmax.vmfb", "--device=amdgpu"]);
    assert_eq!(outcome.code, 2);
    let expected = "error: the device `amdgpu` talks to the driver of the system, which --untrusted takes away from this process\n  \
                    hint: --no-confine runs the program without this barrier\n";
    assert_eq!(outcome.stderr, expected);
}

/// Reads parameters of the archive `fixtures/parameters/weights.irpa` into a tensor, without kernels.
const GATHER: &str = "vm.module @m version 0
vm.type !hal.device
vm.type !hal.buffer
vm.type !hal.buffer_view
vm.type !hal.fence
vm.type !vm.buffer
vm.import @hal.buffer_view.create cconv \"0rIIiiCID_r\"
vm.import @hal.device.queue.alloca cconv \"0rIrrIiiII_r\"
vm.import @hal.devices.get cconv \"0i_r\"
vm.import @hal.fence.create cconv \"0rI_r\"
vm.import @hal.fence.await cconv \"0iICrD_i\"
vm.import @io_parameters.gather cconv \"0rIrrrrrrr_v\"
vm.rodata[0] = 6d6f64656c
vm.rodata[1] = 000000000100000001000000010000000200000005000000
vm.rodata[2] = 77627374617465
vm.rodata[3] = 080000000000000000000000000000000800000000000000040000000000000008000000000000000c000000000000000000000000000000140000000000000004000000000000\
00
vm.export @gather
vm.func @gather() -> (!vm.ref<?>) requires(yield, unwind) {
^bb0:
  %i0 = vm.const.i32 553648160
  %i1 = vm.const.i32 1
  %i2:3 = vm.const.i64 6
  %i4 = vm.const.i32 -1
  %r0 = vm.const.ref.zero
  %i6:7 = vm.const.i64 -1
  %i8:9 = vm.const.i64 24
  %i10:11 = vm.const.i64.zero
  %i5 = vm.const.i32 3075
  %i12 = vm.const.i32 48
  %i13 = vm.const.i32.zero
  %r1 = vm.const.ref.rodata 0
  %r2 = vm.call @hal.devices.get(%i13)
  %r3 = vm.call @hal.fence.create(%r2, %i10)
  %r4 = vm.call @hal.device.queue.alloca(%r2, %i6, %R0, %r3, %i10, %i12, %i5, %i8, %i10)
  %r0 = vm.call @hal.fence.create(%r2, %i10)
  %r5 = vm.const.ref.rodata 1
  %r6 = vm.const.ref.rodata 2
  %r7 = vm.const.ref.rodata 3
  vm.call @io_parameters.gather(%R2, %i6, %R3, %r0, %R1, %r4, %R5, %R6, %R7)
  vm.call.variadic.yieldable @hal.fence.await segments[65535, 65535, 1](%i4, %i10, %R0) -> ^bb1(%i4)
^bb1:
  vm.cond_br %i4, ^bb3(), ^bb2()
^bb2:
  %r0 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 1](%R4, %i10, %i8, %i0, %i1, %i2)
  vm.return %R0
^bb3:
  vm.fail %i4, \"failed to wait\"
}
";

#[test]
fn parameters_are_read_from_open_archives() {
    let temporary = tempfile::tempdir().unwrap();
    std::fs::write(temporary.path().join("g.vmasm"), GATHER).unwrap();
    let outcome = run(temporary.path(), &["asm", "g.vmasm", "-o", "g.vmfb"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for archive in ["weights.irpa", "weights.safetensors", "weights.gguf"] {
        let parameters = folder("../fixtures/parameters").join(archive);
        let parameters = format!("--parameters=model={}", parameters.display());
        for device in ["--device=local-sync", "--device=local-task"] {
            for mode in ["mmap", "file", "preload"] {
                let mode = format!("--parameter_mode={mode}");
                let free = ["run", "g.vmfb", &parameters, device, &mode];
                let expected = run(temporary.path(), &free);
                let outcome = run(temporary.path(), &[&free[..], &untrusted()].concat());
                assert_eq!(outcome.code, 0, "{archive} {device} {mode}: {}", outcome.stderr);
                assert!(outcome.stdout == expected.stdout && outcome.stdout.contains("6xf32="), "{}", outcome.stdout);
            }
        }
    }
}
