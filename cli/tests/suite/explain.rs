//! `vireo explain`: what a program needs, as text and as JSON, and the exit code.

use serde_json::Value;

use crate::common::{Outcome, folder};

/// Runs the command in the folder of the fixtures.
fn vireo(arguments: &[&str]) -> Outcome {
    crate::common::vireo(&folder("../fixtures"), arguments)
}

#[test]
fn what_a_program_needs_is_listed() {
    let output = vireo(&["explain", "variants/machines.vmfb"]);
    let text = &output.stdout;
    for expected in [
        "functions:\n  twice(input0: tensor<4xf32>) -> (output0: tensor<4xf32>)\n",
        "modules:\n  hal, version 7 or later\n",
        "devices, one of:\n  local*\n",
        "  embedded-elf-arm_64: 1 kernel, 3.5 KiB",
        "  vmvx-bytecode-fb: 1 kernel, 821 bytes\n",
        "everything is there\n",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
    assert_eq!(output.code, 0);
}

#[test]
fn what_is_missing_fails() {
    let output = vireo(&["explain", "parameters/model.vmfb"]);
    let text = &output.stdout;
    assert!(text.contains("parameters: 3, 96 bytes\n") && text.contains("  model::w: 64 bytes  MISSING\n"), "{text}");
    assert!(text.contains("missing:\n") && text.contains("parameter `w` of the scope `model` (64 bytes)\n"), "{text}");
    assert_eq!(output.code, 3);
    let output = vireo(&["explain", "parameters/model.vmfb", "--parameters=model=parameters/weights.irpa"]);
    assert!(output.stdout.ends_with("everything is there\n"), "{}", output.stdout);
    assert_eq!(output.code, 0);
}

#[test]
fn programs_read_json() {
    let output = vireo(&["explain", "--json", "parameters/model.vmfb"]);
    let found: Value = serde_json::from_str(&output.stdout).expect("is JSON");
    assert_eq!(found["missing"].as_array().map(Vec::len), Some(3));
    assert_eq!(found["devices"][0]["pattern"], "local*");
    assert_eq!(found["parameters"][0]["available_bytes"], Value::Null);
    assert_eq!(found["functions"][0]["arguments"][0]["type"], "tensor<1x4xf32>");
    assert_eq!(found["modules"][0]["name"], "io_parameters");
    assert_eq!(output.code, 3);
}

/// A library that is not there, also where the tests run on a machine with a GPU.
const NO_LIBRARY: &str = "--amdgpu_libhsa_search_path=no/such/library.so";

#[test]
fn programs_for_gpus_say_what_they_need() {
    let output = vireo(&["explain", NO_LIBRARY, "gpu/gfx1100/softmax.vmfb"]);
    let text = &output.stdout;
    for expected in [
        "devices, one of:\n  amdgpu  not here: creating driver `amdgpu`: ",
        "the HSA library cannot be loaded: no/such/library.so: ",
        "kernels, in one of:\n  gfx1100: 1 kernel, 11.4 KiB  not here\n    main_dispatch_0_softmax_4x37xf32_dispatch_tensor_store",
        " bytes of arguments, work-groups of ",
        "missing:\n  a device called `amdgpu` (creating driver `amdgpu`: ",
        "  a device that runs kernels in the format `gfx1100`\n",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
    assert_eq!(output.code, 3);
}

#[test]
fn programs_read_what_gpus_need_as_json() {
    let output = vireo(&["explain", "--json", NO_LIBRARY, "gpu/gfx1100/topk.vmfb"]);
    let found: Value = serde_json::from_str(&output.stdout).expect("is JSON");
    assert_eq!(found["devices"], serde_json::json!([{"pattern": "amdgpu", "available": false}]));
    let driver = &found["drivers"][0];
    assert_eq!((&driver["pattern"], &driver["name"]), (&"amdgpu".into(), &"amdgpu".into()));
    assert_eq!(driver["devices"], serde_json::json!([]));
    assert!(driver["failure"].as_str().is_some_and(|why| why.contains("no/such/library.so")), "{driver}");
    let format = &found["formats"][0];
    assert_eq!((&format["name"], &format["available"]), (&"gfx1100".into(), &false.into()));
    let executables = format["executables"].as_array().expect("a list");
    let kernels = executables.iter().flat_map(|executable| {
        assert_eq!((&executable["gpu"]["target"], &executable["damage"]), (&"gfx1100".into(), &Value::Null));
        executable["gpu"]["kernels"].as_array().expect("a list")
    });
    let kernels: Vec<&Value> = kernels.collect();
    assert_eq!(kernels.len(), 3);
    for kernel in kernels {
        assert!(kernel["name"].as_str().is_some_and(|name| name.starts_with("main_dispatch_")), "{kernel}");
        assert!(kernel["kernarg_bytes"].as_u64().is_some_and(|bytes| bytes >= 16), "{kernel}");
        assert_eq!(kernel["workgroup_size"].as_array().map(Vec::len), Some(3), "{kernel}");
    }
    assert_eq!(output.code, 3);
}

/// Drivers that no build has, and executables that cannot be read.
#[test]
fn damaged_executables_and_drivers_that_are_not_there_are_named() {
    let module = std::fs::read(folder("../fixtures/gpu/gfx1100/softmax.vmfb")).expect("the fixture is readable");
    let temporary = tempfile::tempdir().expect("a folder");
    let replaced = |from: &[u8], to: &[u8], name: &str| {
        let mut bytes = module.clone();
        let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
        std::fs::write(temporary.path().join(name), &bytes).expect("the folder is writable");
        crate::common::vireo(temporary.path(), ["explain", NO_LIBRARY, name])
    };
    let damaged = replaced(b"AMD1\0\0\0\0", b"AMD1\x07\0\0\0", "damaged.vmfb");
    for expected in [
        "    DAMAGED: executable: the version is 7, expected 0\n",
        "  kernels in `gfx1100` that can be read: executable: the version is 7, expected 0\n",
    ] {
        assert!(damaged.stdout.contains(expected), "{expected}\nis not in\n{}", damaged.stdout);
    }
    assert_eq!(damaged.code, 3);
    let other = replaced(b"amdgpu\0", b"nogpus\0", "other.vmfb");
    let expected = "  a device called `nogpus` (this build has no driver for it)\n";
    assert!(other.stdout.contains(expected), "{expected}\nis not in\n{}{}", other.stdout, other.stderr);
    assert_eq!(other.code, 3);
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn the_software_agent_has_what_programs_for_gpus_need() {
    let agent = ["explain", "--device=amdgpu", "--amdgpu_agent=software", "gpu/gfx1100/softmax.vmfb"];
    let output = vireo(&agent);
    assert!(output.stdout.ends_with("everything is there\n"), "{}{}", output.stdout, output.stderr);
    assert_eq!(output.code, 0);
    // Without the device, the text says which there are.
    let output = vireo(&["explain", "--amdgpu_agent=software", "gpu/gfx1100/softmax.vmfb"]);
    let expected = "  amdgpu  not here: the driver `amdgpu` has amdgpu://";
    assert!(output.stdout.contains(expected), "{}{}", output.stdout, output.stderr);
    assert_eq!(output.code, 3);
}

/// The modules, kernels and limits of programs for NVIDIA GPUs, with and without a device that loads them.
#[test]
fn programs_for_cuda_say_what_they_need() {
    let none = "--cuda_driver=no/such/libcuda.so.1";
    let output = vireo(&["explain", none, "cuda/programs.vmfb"]);
    let text = &output.stdout;
    for expected in [
        "devices, one of:\n  cuda  not here: creating driver `cuda`: the CUDA library cannot be loaded",
        "  cuda-nvptx-fb: ",
        "    PTX 7.6 for sm_60, ",
        " bytes of arguments, blocks of ",
        "  a device that runs kernels in the format `cuda-nvptx-fb`\n",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
    assert_eq!(output.code, 3);
    let output = vireo(&["explain", "--device=cuda", "--cuda_driver=software", "cuda/programs.vmfb"]);
    let text = &output.stdout;
    assert!(text.contains(" registers, ") && text.ends_with("everything is there\n"), "{text}{}", output.stderr);
    assert_eq!(output.code, 0);
    let output = vireo(&["explain", "--json", "--device=cuda", "--cuda_driver=software", "cuda/programs.vmfb"]);
    let found: Value = serde_json::from_str(&output.stdout).expect("is JSON");
    let cuda = &found["formats"][0]["executables"][0]["cuda"];
    assert_eq!(cuda["modules"][0]["target"], "sm_60");
    let kernels = cuda["kernels"].as_array().expect("a list");
    let of_device = cuda["devices"][0]["kernels"].as_array().expect("a list");
    assert_eq!(kernels.len(), of_device.len());
    assert!(kernels.iter().all(|kernel| kernel["block"].as_array().is_some_and(|sizes| sizes.len() == 3)), "{cuda}");
    assert!(of_device.iter().all(|kernel| kernel["registers"].as_u64().is_some_and(|count| count > 0)), "{cuda}");
    assert!(vireo(&["dump", "cuda/programs.vmfb"]).stdout.contains("cuda, with kernels in cuda-nvptx-fb\n"));
}

/// Code for a GPU that is newer than the device is refused with both targets.
#[test]
fn code_that_the_device_does_not_take_is_missing() {
    let module = std::fs::read(folder("../fixtures/cuda/programs.vmfb")).expect("the fixture is readable");
    let temporary = tempfile::tempdir().expect("a folder");
    let text = b".target sm_60";
    let mut bytes = module.clone();
    let places: Vec<usize> = (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at..at + text.len()].copy_from_slice(b".target sm_90"));
    std::fs::write(temporary.path().join("newer.vmfb"), &bytes).expect("the folder is writable");
    let explain = ["explain", "--device=cuda", "--cuda_driver=software", "newer.vmfb"];
    let output = crate::common::vireo(temporary.path(), explain);
    let text = &output.stdout;
    assert!(text.contains(" refuses it: ") && text.contains("`sm_90` does not run on a device of `sm_86`"), "{text}");
    assert!(
        text.contains("missing:\n") && text.contains("  a device that takes the kernels in `cuda-nvptx-fb`"),
        "{text}"
    );
    assert_eq!(output.code, 3);
}

/// A program that cannot be loaded says the same.
#[test]
fn running_a_program_says_what_it_lacks() {
    let output = vireo(&["run", "--module=gpu/gfx1100/softmax.vmfb", "--function=main", "--input=4x37xf32=1"]);
    let text = &output.stderr;
    // On a machine with a GPU the driver has a device that was not given to the program.
    assert!(
        text.contains("the program needs a device called `amdgpu` (") && text.contains("driver `amdgpu`"),
        "{text}"
    );
    assert!(text.contains("a device that runs kernels in the format `gfx1100`"), "{text}");
    assert_eq!((output.stdout.as_str(), output.code), ("", 3));
}

#[test]
fn what_is_no_module_is_refused() {
    let output = vireo(&["explain", "parameters/weights.irpa"]);
    assert_eq!((output.stdout.as_str(), output.code), ("", 3));
    assert_eq!(vireo(&["explain"]).code, 2);
}

/// Calls the function of a module that has no declaration, as of programs from ONNX.
fn scale(inputs: [&str; 3], flags: &[&str]) -> Outcome {
    let inputs = inputs.map(|input| format!("--input={input}"));
    let inputs = inputs.each_ref().map(String::as_str);
    vireo(&[&["run", "variants/onnx.vmfb"], &inputs[..], flags].concat())
}

#[test]
fn types_that_code_asserts_are_known_without_a_declaration() {
    let text = vireo(&["explain", "variants/onnx.vmfb"]).stdout;
    let signature = "scale(input0: tensor<?x4xf32>, input1: tensor<4xf32>, input2: tensor<i64>) -> \
                     (output0: tensor<?x4xf32>, output1: tensor<i64>)";
    assert!(text.starts_with(&format!("functions:\n  {signature}\nmodules:\n")), "{text}");
    assert!(vireo(&["dump", "variants/onnx.vmfb"]).stdout.contains(signature));
    let outcome = scale(["2x4xf32=1,2,3,4,5,6,7,8", "4xf32=2", "i64=3"], &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(
        outcome.stdout,
        "EXEC @scale\nresult[0]: hal.buffer_view\n2x4xf32=[2 4 6 8][10 12 14 16]\nresult[1]: hal.buffer_view\ni64=6\n"
    );
    // Nothing has run when arguments are refused.
    let wrong = [
        (
            ["2x4xf32=1", "3xf32=2", "i64=3"],
            "argument 1 `input1` of @scale is tensor<4xf32>, and tensor<3xf32> is given",
        ),
        (
            ["4xf32=1", "4xf32=2", "i64=3"],
            "argument 0 `input0` of @scale is tensor<?x4xf32>, and tensor<4xf32> is given",
        ),
        (["2x4xf32=1", "4xf32=2", "i32=3"], "argument 2 `input2` of @scale is tensor<i64>, and tensor<i32> is given"),
    ];
    for (inputs, message) in wrong {
        let outcome = scale(inputs, &[]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(message) && outcome.stderr.contains(signature), "{}", outcome.stderr);
    }
}
