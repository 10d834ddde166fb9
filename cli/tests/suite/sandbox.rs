//! Modules that attack the sandbox (`fixtures/sandbox/`), each on every tier and both local devices: the process ends
//! by itself, in time, with an error or the right result, and within the memory that it may use.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{command, folder, vireo};
use crate::confinement::untrusted;
use crate::tiers::tiers;

static DEVICES: [&str; 2] = ["--device=local-sync", "--device=local-task"];
/// The limits of the programs.
const TIMEOUT: &str = "--timeout=1";
const MEMORY: u64 = 64 << 20;
/// When a process is taken to hang. That is far more than the time limit, because builds and machines of tests may be
/// slow: the attacks that were found took a multiple of it, or for ever.
const PATIENCE: Duration = Duration::from_secs(15);
/// The memory of a process without a program, for its code and threads, and for rounding by the system.
const PROCESS: u64 = 64 << 20;

/// How an attack has to end.
#[derive(Clone, Copy)]
enum Ends {
    /// With one of these in the error.
    Error(&'static [&'static str]),
    /// With this result, or one of the errors.
    Result(&'static str, &'static [&'static str]),
}

const LIMITS: &[&str] = &["DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"];

/// Assembles a text, in a folder of its own.
fn assemble(folder: &Path, name: &str, text: &str) -> Vec<u8> {
    let (source, module) = (format!("{name}.vmasm"), format!("{name}.vmfb"));
    std::fs::write(folder.join(&source), text).unwrap();
    let outcome = vireo(folder, ["asm", &source, "-o", &module]);
    assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
    std::fs::read(folder.join(module)).unwrap()
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder("../fixtures/sandbox").join(name)).unwrap()
}

/// The program that dispatches a kernel.
fn dispatch(folder: &Path, kernel: &str, constant: u32) -> String {
    let kernel = assemble(folder, "kernel", kernel);
    let bytes = kernel.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    text("dispatch.vmasm")
        .replace("= KERNEL", &format!("= {bytes}"))
        .replace("i32 CONSTANT", &format!("i32 {constant}"))
}

/// Each tier with each device.
fn ways() -> Vec<(&'static str, &'static str)> {
    tiers().iter().flat_map(|tier| DEVICES.iter().map(move |device| (*tier, *device))).collect()
}

/// Runs an attack in all ways, and lists those in which it does something else than it has to.
fn attack(text: &str, function: &str, input: Option<&str>, ends: Ends) {
    attack_in(&ways(), text, function, input, ends);
}

/// The same in some ways: tiers with devices.
fn attack_in(ways: &[(&str, &str)], text: &str, function: &str, input: Option<&str>, ends: Ends) {
    let temporary = tempfile::tempdir().unwrap();
    assemble(temporary.path(), "attack", text);
    let mut wrong = Vec::new();
    for (tier, device) in ways {
        let (tier, memory) = (format!("--tier={tier}"), format!("--max_memory_bytes={MEMORY}"));
        let function = format!("--function={function}");
        let input = input.map(|input| format!("--input={input}"));
        let mut flags = vec!["run", "attack.vmfb", &function, &tier, device, TIMEOUT, &memory];
        flags.extend(input.as_deref());
        flags.extend(untrusted());
        if let Err(why) = run(temporary.path(), &flags, ends) {
            wrong.push(format!("{tier} {device}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{function}:\n{}", wrong.join("\n"));
}

fn run(folder: &Path, flags: &[&str], ends: Ends) -> Result<(), String> {
    let mut child = command()
        .args(flags)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run vireo: {error}"));
    let start = Instant::now();
    let mut peak = 0;
    let status = loop {
        peak = peak.max(peak_memory(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("hangs: it did not end in {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let [mut stdout, mut stderr] = [String::new(), String::new()];
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let Some(code) = status.code() else { return Err(format!("died of {status}")) };
    if peak > MEMORY + PROCESS {
        return Err(format!("took {peak} bytes"));
    }
    // A limit may end two tiers at different points.
    let is_one_of = |errors: &[&str]| {
        errors
            .iter()
            .any(|error| stderr.contains(error) && (matches!(code, 1 | 3) || code == 4 && LIMITS.contains(error)))
    };
    let expected = match ends {
        Ends::Error(errors) => is_one_of(errors),
        Ends::Result(result, errors) => {
            if code == 0 {
                stdout.contains(result)
            } else {
                is_one_of(errors)
            }
        }
    };
    if expected { Ok(()) } else { Err(format!("ended with {code}: {stdout}{stderr}")) }
}

/// The most memory that a process has had, where the system tells.
fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

const OUT_OF_RANGE: Ends = Ends::Error(&["OUT_OF_RANGE"]);

#[test]
fn counters_after_inner_loops_stay_in_bounds() {
    let module = text("inner_counter_after_loop.vmasm");
    attack(&module, "stores_beyond", Some("1"), OUT_OF_RANGE);
    attack(&module, "loads_far_away", Some("1"), OUT_OF_RANGE);
    attack(&module, "loads_far_away", Some("0"), Ends::Result("i32=0", &[]));
}

#[test]
fn counters_after_inner_loops_stay_in_bounds_once_they_are_hot() {
    let ends = Ends::Error(&["OUT_OF_RANGE", "DEADLINE_EXCEEDED"]);
    attack(&text("inner_counter_after_loop.vmasm"), "stores_beyond_once_hot", Some("1"), ends);
    attack(&text("inner_counter_in_initialiser.vmasm"), "main", None, ends);
}

#[test]
fn counters_after_inner_loops_stay_in_bounds_in_kernels() {
    let temporary = tempfile::tempdir().unwrap();
    let kernel = text("inner_counter_in_kernel.vmasm");
    attack(&dispatch(temporary.path(), &kernel, 1), "main", None, OUT_OF_RANGE);
    attack(&dispatch(temporary.path(), &kernel, 0), "main", None, Ends::Result("i32=7", &[]));
}

#[test]
fn headers_of_inner_loops_stay_in_bounds() {
    for module in ["header_of_inner_loop.vmasm", "header_value_after_loop.vmasm"] {
        attack(&text(module), "main", Some("1"), OUT_OF_RANGE);
        attack(&text(module), "main", Some("0"), Ends::Result("i32=", &[]));
    }
}

#[test]
fn traps_in_headers_are_not_lost() {
    attack(&text("trap_in_header.vmasm"), "main", Some("64"), OUT_OF_RANGE);
    attack(&text("trap_in_header.vmasm"), "main", Some("63"), Ends::Result("i32=1000", &[]));
}

#[test]
fn memory_is_counted_whatever_holds_it() {
    attack(&text("alignment.vmasm"), "main", Some("400000"), Ends::Error(LIMITS));
    attack(&text("storage_objects.vmasm"), "main", Some("3000000"), Ends::Error(LIMITS));
}

#[test]
fn chains_of_buffers_are_dropped_one_after_the_other() {
    attack(&text("storage_chain.vmasm"), "main", Some("100000"), Ends::Result("i32=100000", LIMITS));
}

#[test]
fn one_call_of_a_microkernel_ends_in_time() {
    let temporary = tempfile::tempdir().unwrap();
    // Floats of 32 and 16 bits, the latter with both results, and integers of 8 and 16 bits.
    let ways = ways();
    for ty in [1, 2, 3, 4, 5, 6, 7] {
        let kernel = text("product.vmasm").replace("i32 TYPE", &format!("i32 {ty}"));
        // The microkernel is the same in all ways, and runs until the deadline: each type in one of them.
        let way = &ways[ty % ways.len()..][..1];
        attack_in(
            way,
            &dispatch(temporary.path(), &kernel, 0),
            "main",
            None,
            Ends::Result("i32=", &["DEADLINE_EXCEEDED"]),
        );
    }
}

/// A function of one block with so many ops that form no sequence of handlers, or many.
fn long_block(ops: u32) -> String {
    let mut text = String::from("vm.module @m version 0\nvm.export @main\nvm.func @main(%i0: i32) -> (i32) {\n^bb0:\n");
    let mut state = 1u32;
    let mut next = |end: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % end
    };
    for _ in 0..ops {
        let op = ["add", "mul", "sub", "xor"][next(4) as usize];
        text += &format!("  %i{} = vm.{op}.i32 %i{}, %i{}\n", next(60), next(60), next(60));
    }
    text + "  vm.return %i0\n}\n"
}

/// A loop that stores at an index whose operands are shared by `depth` ops one after the other: 2^depth ways lead to
/// the first.
fn shared_operands(depth: u32, step: fn(&str, &str) -> String) -> String {
    let mut text =
        "vm.module @m version 0\nvm.type !vm.buffer\nvm.export @main\nvm.func @main(%i0:1: i64) -> (i32) {\n^bb0:
  %i2:3 = vm.const.i64 1\n  %i10 = vm.const.i32 64\n  %i12:13 = vm.const.i64 4096\n  %r0 = vm.buffer.alloc %i12:13, %i10
  %i4:5 = vm.const.i64.zero\n  %i6:7 = vm.or.i64 %i0:1, %i2:3\n  vm.br ^bb1\n^bb1:
  %i8 = vm.cmp.lt.i64.s %i4:5, %i0:1\n  vm.cond_br %i8, ^bb2, ^bb3\n^bb2:\n  %i20:21 = vm.and.i64 %i6:7, %i4:5\n"
            .to_string();
    let mut last = "%i20:21".to_string();
    for index in 0..depth {
        let next = format!("%i{}:{}", 22 + index * 2, 23 + index * 2);
        text += &step(&next, &last);
        last = next;
    }
    text + &format!(
        "  vm.buffer.store.i32 %i10, %r0, {last}\n  %i4:5 = vm.add.i64 %i4:5, %i2:3\n  vm.br ^bb1\n^bb3:\n  vm.return %i10\n}}\n"
    )
}

#[test]
fn compilers_end_in_time_whatever_functions_look_like() {
    // A program may end before the limit.
    let ends = Ends::Result("i32=", &["DEADLINE_EXCEEDED", "OUT_OF_RANGE", "RESOURCE_EXHAUSTED"]);
    let masks =
        |next: &str, last: &str| format!("  {next} = vm.xor.i64 {last}, %i6:7\n  {next} = vm.and.i64 {next}, {last}\n");
    let doubled = |next: &str, last: &str| format!("  {next} = vm.add.i64 {last}, {last}\n");
    attack(&shared_operands(40, masks), "main", Some("64"), ends);
    attack(&shared_operands(40, doubled), "main", Some("64"), ends);
    let failures = (0..20_000).map(|index| {
        let [this, fails, next] = [index * 2, index * 2 + 1, index * 2 + 2];
        format!("^bb{this}:\n  vm.cond_br %i0, ^bb{fails}, ^bb{next}\n^bb{fails}:\n  vm.fail %i0, \"x\"\n")
    });
    let head = "vm.module @m version 0\nvm.export @main\nvm.func @main(%i0: i32) -> (i32) {\n";
    let failures = failures.collect::<String>();
    attack(&format!("{head}{failures}^bb40000:\n  vm.return %i0\n}}\n"), "main", Some("0"), ends);
}

#[test]
fn long_blocks_are_read_in_time() {
    let ends = Ends::Result("i32=", &["DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"]);
    attack(&long_block(100_000), "main", Some("1"), ends);
}
