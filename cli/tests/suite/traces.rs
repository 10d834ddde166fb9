//! `--trace_execution`, `--device_trace` and `--device_validate`: stdout stays what it is, and the traces are those of
//! what ran.

use crate::common::{Outcome, folder, model, vireo};

const STDOUT: &str = "EXEC @abs\nresult[0]: hal.buffer_view\nf32=2\n";

/// Calls a model that prints [`STDOUT`], with flags.
fn abs(flags: &[&str]) -> Outcome {
    let model = model("abs");
    let call = ["run", &model, "--function=abs", "--input=f32=-2"];
    vireo(&folder("../fixtures/models"), call.iter().chain(flags))
}

#[test]
fn ops_are_written_to_stderr() {
    let outcome = abs(&["--trace_execution"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, STDOUT), "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert!(lines.iter().all(|line| line.starts_with("[module") && line.contains("]    ")), "{}", outcome.stderr);
    assert!(lines.contains(&"[module.abs+00000000]    <block>"), "{}", outcome.stderr);
    let call = "vm.call @hal.buffer_view.buffer(%R0(!hal.buffer_view))";
    assert!(lines.iter().any(|line| line.ends_with(call)), "{}", outcome.stderr);
    assert!(lines.last().unwrap().contains("    vm.return %R"), "{}", outcome.stderr);
    // Off is as without it.
    let outcome = abs(&["--trace_execution=false"]);
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, STDOUT, ""));
}

#[test]
fn the_interpreter_is_what_is_traced() {
    let with = |tier: &'static str| abs(&["--trace_execution", tier]);
    let (alone, interpreted) = (abs(&["--trace_execution"]), with("--tier=interp"));
    assert_eq!((interpreted.code, interpreted.stderr), (0, alone.stderr));
    for tier in ["--tier=jit", "--tier=both"] {
        let refused = with(tier);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{tier}");
        assert!(refused.stderr.contains("--trace_execution traces the interpreter"), "{}", refused.stderr);
    }
}

#[test]
fn calls_of_devices_are_written_to_stderr_or_a_file() {
    let outcome = abs(&["--device_trace"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, STDOUT), "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert!(lines.iter().all(|line| line.contains("#") && line.contains(") -> ")), "{}", outcome.stderr);
    for part in [
        "device#1.create_executable_cache(",
        "executable_cache#1.prepare_executable(",
        "-> executable#1",
        "device#1.queue_",
    ] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}: {}", outcome.stderr);
    }
    // Everything the trace says is the same in each run.
    let again = abs(&["--device_trace"]);
    assert_eq!(again.stderr, outcome.stderr);

    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("trace.txt");
    let flag = format!("--device_trace={}", path.display());
    let to_file = abs(&[&flag]);
    assert_eq!((to_file.code, to_file.stdout.as_str(), to_file.stderr.as_str()), (0, STDOUT, ""));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), outcome.stderr);

    let nowhere = format!("--device_trace={}", temporary.path().join("no/trace.txt").display());
    let refused = abs(&[&nowhere]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("cannot write --device_trace="), "{}", refused.stderr);
}

#[test]
fn dispatches_are_written_to_a_file() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("trace.json");
    let flag = format!("--dispatch_trace={}", path.display());
    for device in ["--device=local-sync", "--device=local-task"] {
        let outcome = abs(&[&flag, device]);
        assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, STDOUT, ""));
        let trace: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "B").collect();
        assert_eq!(slices.len(), 1, "{trace}");
        assert_eq!(
            (&slices[0]["name"], &slices[0]["args"]["workgroups"]),
            (&"abs_dispatch_0_elementwise".into(), &1.into())
        );
    }
    // Nothing runs there.
    let outcome = abs(&[&flag, "--device=null"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.ends_with("trace.json: no kernel was timed\n"), "{}", outcome.stderr);
    let nowhere = format!("--dispatch_trace={}", temporary.path().join("no/trace.json").display());
    let refused = abs(&[&nowhere]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("cannot write --dispatch_trace="), "{}", refused.stderr);
}

/// Ends the recording of a command buffer twice.
const TWICE: &str = r#"
vm.module @m version 0
vm.type !hal.command_buffer
vm.type !hal.device
vm.import @hal.devices.get cconv "0i_r"
vm.import @hal.command_buffer.create cconv "0riiIi_r"
vm.import @hal.command_buffer.finalize cconv "0r_v"

vm.export @twice
vm.func @twice() -> () {
^bb0:
  %i0 = vm.const.i32.zero
  %i1 = vm.const.i32 3
  %i2:3 = vm.const.i64 -1
  %r0 = vm.call @hal.devices.get(%i0)
  %r1 = vm.call @hal.command_buffer.create(%r0, %i0, %i1, %i2:3, %i0)
  vm.call @hal.command_buffer.finalize(%r1)
  vm.call @hal.command_buffer.finalize(%r1)
  vm.return
}
"#;

#[test]
fn calls_of_devices_are_validated_first() {
    let temporary = tempfile::tempdir().unwrap();
    std::fs::write(temporary.path().join("twice.vmasm"), TWICE).unwrap();
    let assembled = vireo(temporary.path(), ["asm", "twice.vmasm", "-o", "twice.vmfb"]);
    assert_eq!(assembled.code, 0, "{}", assembled.stderr);
    let run = |flags: &[&str]| {
        let call = ["run", "--module=twice.vmfb", "--function=twice", "--tier=interp"];
        vireo(temporary.path(), call.iter().chain(flags))
    };
    let refusal = "command_buffer#1.end: cannot end a command buffer that is recorded already";
    let plain = run(&[]);
    assert!(plain.code != 0 && !plain.stderr.contains(refusal), "the device has words of its own: {}", plain.stderr);
    let validated = run(&["--device_validate"]);
    assert_eq!(validated.code, plain.code);
    assert!(validated.stderr.contains(refusal), "{}", validated.stderr);
    // A trace has what was refused.
    let traced = run(&["--device_validate", "--device_trace"]);
    assert!(
        traced.stderr.contains(&format!("command_buffer#1.end() -> FAILED_PRECONDITION: {refusal}")),
        "{}",
        traced.stderr
    );
    // A program that is right runs as without it.
    let outcome = abs(&["--device_validate"]);
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, STDOUT, ""));
}
