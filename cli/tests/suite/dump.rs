//! `vireo dump` on the fixtures: tables, assembly text, JSON.

use crate::common::{Outcome, folder, vireo};
use serde_json::Value;

fn dump(flags: &[&str]) -> Outcome {
    vireo(&folder("tests/fixtures"), ["dump", "values.vmfb"].iter().chain(flags))
}

#[test]
fn metadata_names_everything() {
    let outcome = dump(&["--output=metadata"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for part in [
        "module @module : version 0, bytecode 17.0",
        "hal        >= 7",
        "!hal.buffer_view\n",
        "hal.devices.count                     () -> (i32)",
        "numbers  (i32, i64, f32, f64) -> (i32, i64, f32, f64)",
        "iree.abi.declaration: sync func @id(",
        "\"embedded-elf-x86_64\"",
    ] {
        assert!(outcome.stdout.contains(part), "expected `{part}` in:\n{}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains("vm.func"));
}

#[test]
fn one_function_as_assembly() {
    let expected = "vm.export @numbers\n\
        vm.func @numbers(%i0: i32, %i2:3: i64, %i4: f32, %i6:7: f64) -> (i32, i64, f32, f64) {\n\
        ^bb0:\n  vm.return %i0, %i2, %i4, %i6\n}\n";
    for name in ["numbers", "3", "fn3"] {
        let outcome = dump(&[&format!("--function={name}")]);
        assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
    }
    let both = dump(&["--function=id", "--function=nothing"]).stdout;
    assert!(both.contains("}\n\nvm.export @nothing\nvm.func @nothing() -> () {\n"), "{both}");
}

#[test]
fn all_is_metadata_and_code() {
    let (all, metadata, code) =
        (dump(&["--output=all"]), dump(&["--output=metadata"]), dump(&["--output=disassembly"]));
    assert_eq!(all.stdout, format!("{}\n{}", metadata.stdout, code.stdout));
    assert!(code.stdout.starts_with("vm.module @module version 0\nvm.type f32\n"));
    assert!(code.stdout.contains("vm.rodata[7] = 01020304\n"));
    assert!(code.stdout.contains("// vm.rodata[5] has 3768 bytes"));
}

#[test]
fn json_is_one_object() {
    let outcome = dump(&["--format=json", "--function=numbers"]);
    let object: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(object["bytecode_version"], "17.0");
    assert_eq!(object["functions"].as_array().unwrap().len(), 1);
    assert_eq!(object["exports"][0]["convention"], "0iIfF_iIfF");
    assert_eq!(object["exports"][0]["function"], 3);
}

#[test]
fn what_cannot_be_dumped_is_code_3() {
    let outcome = dump(&["--function=nope"]);
    assert_eq!(outcome.code, 3);
    assert!(outcome.stderr.contains("no function `nope`") && outcome.stderr.contains("@id"), "{}", outcome.stderr);
    let outcome = vireo(&folder("tests/fixtures"), ["dump", "values.mlir"]);
    assert_eq!(outcome.code, 3);
    assert!(outcome.stderr.contains("values.mlir"), "{}", outcome.stderr);
}

#[test]
fn damaged_modules_are_shown_or_refused() {
    let module = std::fs::read(folder("tests/fixtures").join("values.vmfb")).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("damaged.vmfb");
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for _ in 0..60 {
        let mut damaged = module.clone();
        for _ in 0..4 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let place = (state >> 8) as usize % damaged.len();
            damaged[place] = state as u8;
        }
        std::fs::write(&path, &damaged).unwrap();
        let outcome = vireo(temporary.path(), ["dump", "damaged.vmfb"]);
        assert!(matches!(outcome.code, 0 | 3), "{}", outcome.stderr);
    }
}

#[test]
fn the_overview_says_what_a_program_takes_and_needs() {
    let overview = |path: &str| {
        let outcome = vireo(&folder("../fixtures"), ["dump", path]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
        assert!(outcome.stdout.lines().count() < 24, "{}", outcome.stdout);
        outcome.stdout
    };
    let mlp = overview("models/mlp.vmfb");
    for part in [
        "functions:\n  mlp(input0: tensor<8x64xf32>) -> (output0: tensor<8x16xf32>)\n",
        "devices:    local*, with kernels in embedded-elf-x86_64\n",
        "parameters: none\n",
        "2.6 KiB of bytecode, 5.3 KiB of kernels, 20.1 KiB of other data\n",
    ] {
        assert!(mlp.contains(part), "expected `{part}` in:\n{mlp}");
    }
    let fences = overview("models/fences.vmfb");
    assert!(fences.contains("(output0: tensor<16xf32>)  async\n"), "{fences}");
    let vmvx = overview("models/vmvx_mlp.vmfb");
    assert!(vmvx.contains("with kernels in vmvx-bytecode-fb\n") && !vmvx.contains(" 0 bytes of kernels"), "{vmvx}");
    let gpu = overview("gpu/gfx1100/softmax.vmfb");
    for part in [
        "devices:    amdgpu, with kernels in gfx1100\n",
        "2.2 KiB of bytecode, 11.4 KiB of kernels, 113 bytes of other data\n",
    ] {
        assert!(gpu.contains(part), "expected `{part}` in:\n{gpu}");
    }
    assert!(overview("bench/vm.vmfb").contains("devices:    none\n"));
    let parameters = overview("parameters/model.vmfb");
    assert!(parameters.contains("parameters: yes; name their archives by --parameters\n"), "{parameters}");
}

#[test]
fn ops_may_have_their_offsets() {
    let outcome =
        vireo(&folder("../fixtures/models"), ["dump", "state.vmfb", "--function=increment", "--bytecode_offsets"]);
    // As `iree-dump-module --output=disassembly --bytecode_offsets` prints it.
    let expected = "vm.export @increment\nvm.func @increment(%i0: i32) -> (i32) {\n[00000000]^bb0:\n\
        [00000001]  %i1 = vm.global.load.i32 .rwdata[0]\n[00000008]  %i0 = vm.add.i32 %i1, %i0\n\
        [0000000F]  vm.global.store.i32 %i0, .rwdata[0]\n[00000016]  vm.return %i0\n}\n";
    assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
}

#[test]
fn flags_of_the_reference_are_read_or_refused_by_name() {
    let dump = |flags: &[&str]| vireo(&folder("../fixtures/models"), [&["dump", "state.vmfb"], flags].concat());
    for form in ["flatbuffer-binary", "flatbuffer-json"] {
        let outcome = dump(&[&format!("--output={form}")]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("UNIMPLEMENTED: the FlatBuffer of a module is not written"),
            "{}",
            outcome.stderr
        );
    }
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("flags");
    std::fs::write(&path, "--output=metadata\n--pretty\n").unwrap();
    let outcome = dump(&[&format!("--flagfile={}", path.display())]);
    assert!(outcome.code == 0 && outcome.stdout.contains("Exports:"), "{}{}", outcome.stdout, outcome.stderr);
}
