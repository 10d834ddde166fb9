//! Programs of older compilers: what they answer in every execution mode, and files that are refused because nothing
//! says how to run them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use vireo::asm::{assemble, disassemble};
use vireo::hal::local::{NoImports, default_loaders};
use vireo::hal::{BufferViewRef, Device, Fence, create_device};
use vireo::interp::{DispatchMode, Limits};
use vireo::modules::check::Collector;
use vireo::modules::hal::HalModule;
use vireo::modules::hal_inline::HalInlineModule;
use vireo::modules::hal_loader::HalLoaderModule;
use vireo::vm::{Context, Module, Value};
use vireo::{Status, StatusCode};

use super::models::calls::{arguments, download};
use super::models::fixtures::parse_tensor;

const WAYS: [(&str, DispatchMode); 3] =
    [("Loop", DispatchMode::Loop), ("Threaded", DispatchMode::Threaded), ("Compiled", DispatchMode::Compiled)];

/// One call of `cases.json`.
#[derive(Deserialize)]
struct Case {
    function: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/old")
}

fn read(file: &Path) -> Vec<u8> {
    std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The programs of a name, one for each release and target that has it, with `release/file` to name them.
fn programs(name: &str) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for release in folder().read_dir().expect("the fixtures").map(|entry| entry.expect("an entry").path()) {
        if !release.join("abs.cpu.vmfb").exists() {
            continue;
        }
        for file in release.read_dir().expect("a release").map(|entry| entry.expect("an entry").path()) {
            let text = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
            let is_native = text(&file).contains(".cpu.");
            if text(&file).split('.').next() == Some(name) && (cfg!(target_arch = "x86_64") || !is_native) {
                found.push((format!("{}/{}", text(&release), text(&file)), file));
            }
        }
    }
    found.sort();
    found
}

fn local_sync() -> Arc<dyn Device> {
    create_device("local-sync").expect("the synchronous device exists everywhere")
}

/// A context of a program with every module that it may import from.
fn load(
    device: &Arc<dyn Device>,
    file: &Path,
    dispatch: DispatchMode,
    collector: &Collector,
) -> vireo::Result<Context> {
    let modules = [
        Module::native(HalModule::new(vec![Arc::clone(device)]))?,
        Module::native(HalInlineModule::new(device.allocator()))?,
        Module::native(HalLoaderModule::new(default_loaders(&(Arc::new(NoImports) as _))))?,
        Module::native(collector.module())?,
        Module::from_file(file)?,
    ];
    Context::with_limits(modules, Limits { dispatch, ..Limits::default() })
}

fn check_call(device: &Arc<dyn Device>, context: &Context, case: &Case) -> Result<(), String> {
    let describe = |error: Status| format!("`{}`: {error}", case.function);
    let function = context.function(&case.function).map_err(describe)?;
    let inputs: Vec<&str> = case.inputs.iter().map(String::as_str).collect();
    let results = function.call(&arguments(device, &function, &inputs).map_err(describe)?).map_err(describe)?;
    if results.len() != case.outputs.len() {
        return Err(format!("{} results; expected {}", results.len(), case.outputs.len()));
    }
    for (result, text) in results.iter().zip(&case.outputs) {
        let expected = parse_tensor(text).expect("an output");
        let (kind, bytes) = match result {
            Value::I32(value) => ("i32", value.to_le_bytes().to_vec()),
            Value::I64(value) => ("i64", value.to_le_bytes().to_vec()),
            Value::F32(value) => ("f32", value.to_le_bytes().to_vec()),
            Value::F64(value) => ("f64", value.to_le_bytes().to_vec()),
            Value::Ref(_) => {
                let view = result.object::<BufferViewRef>().expect("a tensor");
                assert_eq!(view.shape(), expected.shape, "{text}");
                (expected.kind.as_str(), download(result))
            }
        };
        if (kind, &bytes) != (expected.kind.as_str(), &expected.bytes) {
            return Err(format!("`{}` returned {result:?} ({bytes:02x?}); expected {text}", case.function));
        }
    }
    Ok(())
}

#[test]
fn programs_of_all_releases_answer_alike_in_every_mode() {
    let text = read(&folder().join("cases.json"));
    let cases: BTreeMap<String, Vec<Case>> = serde_json::from_slice(&text).expect("cases");
    let (mut passed, mut failures) = (0, Vec::new());
    for (program, calls) in &cases {
        for (name, file) in programs(program) {
            let threads = ("local-task", "Threaded", DispatchMode::Threaded);
            for (device, way, dispatch) in
                WAYS.map(|(way, dispatch)| ("local-sync", way, dispatch)).into_iter().chain([threads])
            {
                let device = create_device(device).expect("it exists everywhere");
                let context = load(&device, &file, dispatch, &Collector::default());
                let result = context
                    .map_err(|error| error.to_string())
                    .and_then(|context| calls.iter().try_for_each(|case| check_call(&device, &context, case)));
                match result {
                    Ok(()) => passed += 1,
                    Err(error) => failures.push(format!("{name} ({way}): {error}")),
                }
            }
        }
    }
    let least = if cfg!(target_arch = "x86_64") { 480 } else { 200 };
    assert!(failures.is_empty(), "{} fail, {passed} do not:\n{}", failures.len(), failures.join("\n"));
    assert!(passed > least, "only {passed} ran");
}

/// The disassembler writes what the verifier made of a module: without the MOVE bits that are ignored, and with the
/// copies of arguments.
#[test]
fn the_text_of_a_program_is_a_module_of_the_newest_version() {
    let mut releases = 0;
    for (name, file) in programs("args") {
        let old = Module::from_file(&file).expect("it loads");
        let text = disassemble(old.archive().expect("a file"), old.functions());
        let new = assemble(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let new = Module::from_bytes(&new).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let copies = text.matches("%i4->%i1").count();
        assert_eq!(
            copies > 0,
            ["3.1/", "3.3/", "3.4/"].iter().any(|release| name.starts_with(release)),
            "{name}\n{text}"
        );
        let args = [Value::I32(3), Value::I64(5_000_000_000), Value::I32(11), Value::I64(7_000_000_000)];
        let expected = [Value::I64(82_000_000_000), Value::I32(-8), Value::I64(7_000_000_000), Value::I32(3)];
        for module in [old, new] {
            let context = Context::new([module]).expect("it needs no other module");
            let results = context.function("args").expect("it is exported").call(&args);
            assert_eq!(results.expect("it returns"), expected, "{name}\n{text}");
        }
        releases += 1;
    }
    assert!(releases >= 10 || !cfg!(target_arch = "x86_64"), "only {releases} ran");
}

/// Programs wait for fences with plain calls before bytecode 17.0 and with calls that end a block since then.
#[test]
fn programs_wait_for_fences() {
    let mut releases = 0;
    for (name, file) in programs("commands") {
        for (way, dispatch) in WAYS {
            let device = local_sync();
            let context = load(&device, &file, dispatch, &Collector::default()).expect("it loads");
            let function = context.function("awaited").expect("it is exported");
            let mut args = arguments(&device, &function, &["4xf32=1,2,3,4"]).expect("a tensor");
            let ready = Arc::new(Fence::create());
            args.push(Value::from(ready.to_ref()));
            let results = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(2));
                    ready.signal().expect("nobody else signals it");
                });
                function.call(&args)
            });
            let results = results.unwrap_or_else(|error| panic!("{name} ({way}): {error}"));
            assert_eq!(download(&results[0]), parse_tensor("4xf32=2,4,6,8").expect("a tensor").bytes, "{name} ({way})");

            let failed = Arc::new(Fence::create());
            failed.fail(&Status::data_loss("the input is lost"));
            *args.last_mut().expect("the fence") = Value::from(failed.to_ref());
            let error = function.call(&args).expect_err("the fence failed");
            assert_eq!(error.code(), StatusCode::DataLoss, "{name} ({way}): {error}");
        }
        releases += 1;
    }
    assert!(releases >= 10, "only {releases} ran");
}

/// The tolerance is an argument since 3.3.
#[test]
fn expectations_have_a_tolerance() {
    let mut releases = 0;
    for (name, file) in programs("check") {
        let collector = Collector::default();
        let context = load(&local_sync(), &file, DispatchMode::default(), &collector).expect("it loads");
        context.function("near").expect("it is exported").call(&[]).expect("it runs");
        assert_eq!(collector.take().unmet, [], "{name}");
        context.function("far").expect("it is exported").call(&[]).expect("it runs");
        let unmet = collector.take().unmet;
        assert!(unmet.len() == 1 && unmet[0].message.contains("atol=0.0001"), "{name}: {unmet:?}");
        releases += 1;
    }
    assert_eq!(releases, 10);
}

/// A module file with the word that has the version of the bytecode replaced. That of its own compiler is `from`.
fn with_version(mut file: Vec<u8>, from: u32, to: u32) -> Vec<u8> {
    let places: Vec<usize> =
        (0..file.len() - 3).step_by(4).filter(|at| file[*at..*at + 4] == (from << 16).to_le_bytes()).collect();
    assert_eq!(places.len(), 1, "the version is not the only word with this value");
    file[places[0]..places[0] + 4].copy_from_slice(&(to << 16).to_le_bytes());
    file
}

fn refusal(file: &[u8]) -> String {
    Module::from_bytes(file).expect_err("it is refused").to_string()
}

#[test]
fn other_versions_are_refused_with_those_that_are_supported() {
    let file = read(&folder().join("3.1/args.cpu.vmfb"));
    for (version, found) in [(14, "14.0"), (18, "18.0"), (0, "0.0"), (0xFFFF, "65535.0")] {
        assert_eq!(
            refusal(&with_version(file.clone(), 15, version)),
            format!(
                "INCOMPATIBLE: module: the module has bytecode version {found}, this runtime reads 15.0 (IREE 3.1 to 3.9), \
                 16.0 (IREE 3.10), 17.0 (IREE 3.11 and later); compile it with one of these releases"
            )
        );
    }
}

/// A module whose text is assembled, with an older version.
fn of_version(text: &str, version: u32) -> Vec<u8> {
    with_version(assemble(text).unwrap_or_else(|error| panic!("{error}\n{text}")), 17, version)
}

#[test]
fn ops_and_features_of_later_versions_are_refused() {
    let yields = "vm.module @m\nvm.export @f\nvm.func @f() -> () requires(yield) {\n^bb0:\n  vm.yield ^bb1\n^bb1:\n  vm.return\n}\n";
    Module::from_bytes(&of_version(yields, 17)).expect("it is in order");
    for version in [15, 16] {
        let message = refusal(&of_version(yields, version));
        let expected = format!(
            "requires features 0x4 that bytecode {version}.0 does not have; it has ext_f32 (0x1), ext_f64 (0x2)"
        );
        assert!(message.contains(&expected), "{message}");
    }
    let discards = "vm.module @m\nvm.export @f\nvm.func @f(%r0: !vm.buffer) -> () {\n^bb0:\n  vm.discard.refs %r0\n  vm.return\n}\n";
    Module::from_bytes(&of_version(discards, 16)).expect("it is in order");
    let message = refusal(&of_version(discards, 15));
    let expected = "discard.refs is an op since bytecode 16.0, the module has bytecode 15.0";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn unknown_features_are_refused() {
    let yields = "vm.module @m\nvm.export @f\nvm.func @f() -> () requires(yield) {\n^bb0:\n  vm.yield ^bb1\n^bb1:\n  vm.return\n}\n";
    let file = assemble(yields).expect("a module");
    // Of the module or of a function: the words that hold nothing but this bit.
    let places = (0..file.len() - 3).step_by(4).filter(|at| file[*at..*at + 4] == 4u32.to_le_bytes());
    let messages: Vec<String> = places
        .filter_map(|at| {
            let mut file = file.clone();
            file[at..at + 4].copy_from_slice(&0x40u32.to_le_bytes());
            Module::from_bytes(&file).err().map(|error| error.to_string())
        })
        .filter(|message| message.contains("features"))
        .collect();
    let expected = "requires features 0x40 that bytecode 17.0 does not have; it has ext_f32 (0x1), ext_f64 (0x2), yield (0x4), \
                    unwind (0x8)";
    assert!(messages.iter().any(|message| message.contains(expected)), "{messages:?}");
    assert!(messages.iter().all(|message| message.starts_with("INCOMPATIBLE: module: ")), "{messages:?}");
}

/// A function of an i32, an i64, an i32 and an i64, which returns what is in registers that it has arguments in.
fn sum(name: &str, third: &str, fourth: &str) -> String {
    format!(
        "vm.export @{name}\nvm.func @{name}(%i0: i32, %i2:3: i64, %i4: i32, %i6:7: i64) -> (i32, i64, i32, i64) {{\n^bb0:\n  \
         vm.return %i0, %i2:3, {third}, {fourth}\n}}\n"
    )
}

fn called(file: &[u8], name: &str, dispatch: DispatchMode) -> Vec<Value> {
    let module = Module::from_bytes(file).expect("it loads");
    // The copies of arguments are no reason to leave a function to the interpreter.
    if let Ok(compiled) = module.compiled(0) {
        assert!(compiled.is_some(), "`{name}` is not compiled");
    }
    let context = Context::with_limits([module], Limits { dispatch, ..Limits::default() });
    let args = [Value::I32(1), Value::I64(2 << 40), Value::I32(3), Value::I64(4 << 40)];
    context.expect("it is bound").function(name).expect("it is exported").call(&args).expect("it returns")
}

#[test]
fn the_registers_that_functions_read_tell_where_arguments_are() {
    let in_order = sum("in_order", "%i4", "%i6:7");
    let filled = sum("filled", "%i1", "%i4:5");
    let either = sum("either", "%i0", "%i2:3");
    let expected = [Value::I32(1), Value::I64(2 << 40), Value::I32(3), Value::I64(4 << 40)];
    for (_, dispatch) in WAYS {
        let file = of_version(&format!("vm.module @m\n{in_order}{either}"), 15);
        assert_eq!(called(&file, "in_order", dispatch), expected);
        let file = of_version(&format!("vm.module @m\n{filled}{either}"), 15);
        assert_eq!(called(&file, "filled", dispatch), expected);
        assert_eq!(called(&file, "either", dispatch)[2..], expected[..2]);
        // Later versions have one rule, by which the function reads registers that are zero.
        let file = of_version(&format!("vm.module @m\n{filled}"), 16);
        assert_eq!(called(&file, "filled", dispatch)[2], Value::I32(0));
    }
    let both = of_version(&format!("vm.module @m\n{in_order}{filled}"), 15);
    let message = refusal(&both);
    let expected = "INCOMPATIBLE: module: the module fits none of the compilers that write bytecode 15.0 (IREE 3.1 to 3.9): IREE 3.1 to \
                    3.4 fill gaps between arguments, others do not, and function 0 reads its arguments without filled gaps, function 1 \
                    with filled gaps";
    assert_eq!(message, expected);
    let neither = of_version(&format!("vm.module @m\n{}", sum("neither", "%i1", "%i6:7")), 15);
    let message = refusal(&neither);
    assert!(message.contains("function 0 `neither`: it reads registers that are not written before: i1"), "{message}");
}

/// Version 5 of `hal` is of compilers that fill gaps, whatever a function reads.
#[test]
fn the_version_of_hal_tells_where_arguments_are() {
    let hal = "vm.module @m\nvm.dependency optional @hal version";
    let in_order = sum("f", "%i4", "%i4");
    let in_order = in_order.replace("%i4, %i4", "%i4, %i2:3");
    for (version, third) in [(5, Value::I32(0)), (6, Value::I32(3))] {
        let file = of_version(&format!("{hal} {version}\n{in_order}"), 15);
        let value = called(&file, "f", DispatchMode::default())[2].clone();
        assert_eq!(value, third, "version {version} of hal");
    }
}
