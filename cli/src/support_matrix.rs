//! The generator of `docs/support.md`, the page of supported ops, devices, files and flags. It queries the specs, the
//! devices and the command line parser; tests compare the page, and the generated tables of `docs/devices.md` and
//! `docs/cli.md`, with the result. `INSTA_UPDATE=always` writes them anew.

use std::fmt::Write;
use std::path::Path;

use vireo::hal::elf_format::{EMBEDDED_FORMAT_PREFIX, ElfMachine, SYSTEM_FORMAT_PREFIX};
use vireo::hal::executable_library::{LIBRARY_VERSION, LIBRARY_VERSION_5};
use vireo::hal::local::elf::MACHINES;
use vireo::hal::{Device, ExecutableFormat, OptionalMethod, QueryCategory, create_device};
use vireo::io::ArchiveFormat;
use vireo_codegen::Spec;
use vireo_codegen::emit::{assembly_guide, local_task, support};

use crate::flags::has_flag;
use crate::reference_flags::{ReferenceFlag, reference_flags};

/// The devices of this build.
const DEVICES: [&str; 3] = ["local-sync", "local-task", "null"];

/// Whether a command has a flag of its counterpart among IREE's tools.
fn answer(flag: ReferenceFlag, command: &str) -> &'static str {
    match (flag.commands.split(',').any(|name| name == command), has_flag(command, flag.name)) {
        (false, _) => "",
        (true, true) => "yes",
        (true, false) => "refused",
    }
}

fn yes(value: bool) -> &'static str {
    if value { "yes" } else { "refused" }
}

fn exports(spec: &Spec, text: &mut String) {
    text.push_str(
        "\n## Modules that programs import\nEvery export is implemented, since a module that lacks an export of its spec does not compile. An export that needs an \
         optional method of a device, such as `hal.channel.create`, fails if the device lacks the method. Programs \
         of older compilers import earlier forms of some exports, with other calling conventions.\n\n\
         | module | versions | exports | earlier forms |\n|---|---|---|---|\n",
    );
    for (name, module) in &spec.abi.modules {
        let (minimum, version) = (module.minimum_version, module.version);
        let versions = if minimum == version { version.to_string() } else { format!("{minimum} to {version}") };
        let _ = writeln!(text, "| `{name}` | {versions} | {} | {} |", module.exports.len(), module.adaptors.len());
    }
}

fn devices(text: &mut String) {
    let devices = DEVICES.map(|name| create_device(name).expect("a device of this build"));
    let row = |text: &mut String, name: &str, cell: &dyn Fn(&dyn Device) -> bool| {
        let cells = devices.each_ref().map(|device| yes(cell(&**device)));
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    };
    let names = DEVICES.map(|name| format!("`{name}`")).join(" | ");
    let dashes = "---|".repeat(DEVICES.len());
    let _ = writeln!(
        text,
        "\n## Methods of devices\nThe optional methods of `spec/hal/`; every device has all others. A refused method fails with `UNIMPLEMENTED` and its \
         name.\n\n| method | {names} |\n|---|{dashes}"
    );
    for method in OptionalMethod::ALL {
        row(text, &format!("`{}`", method.name()), &|device| device.supports(method.name()));
    }
    let _ = writeln!(
        text,
        "\n## Executables\nThe `null` device accepts all formats, since it runs no kernels. Libraries of x86-64 have the interface of version \
         {LIBRARY_VERSION_5} (IREE 3.1 to 3.7) or {LIBRARY_VERSION}. A library runs on the machine that it was compiled for; \
         [`platforms.md`](platforms.md) says on which systems.\n\n| format | | {names} |\n|---|---|{dashes}"
    );
    // No compiler writes the name of a library in the program, and devices of tools have none.
    for format in ExecutableFormat::ALL.into_iter().filter(|format| *format != ExecutableFormat::StaticLibrary) {
        let accepts = |device: &dyn Device| {
            device.query_i64(QueryCategory::ExecutableFormat.name(), format.name()).is_ok_and(|answer| answer != 0)
        };
        // The answers of devices of this build about libraries depend on the machine that writes the page.
        let cells: Vec<String> = DEVICES
            .iter()
            .zip(&devices)
            .map(|(name, device)| match loaded_on(format) {
                Some(machine) if *name != "null" => format!("on {machine}"),
                _ => yes(accepts(&**device)).to_string(),
            })
            .collect();
        let _ = writeln!(text, "| `{format}` | {} | {} |", format.doc(), cells.join(" | "));
    }
}

/// The machine where libraries of this format are loaded, if the loader knows it.
fn loaded_on(format: ExecutableFormat) -> Option<&'static str> {
    let name = format.name();
    let machine = name.strip_prefix(EMBEDDED_FORMAT_PREFIX).or_else(|| name.strip_prefix(SYSTEM_FORMAT_PREFIX))?;
    let (machine, _) = ElfMachine::NAMED.iter().find(|(_, name)| *name == machine)?;
    match *machine {
        _ if !MACHINES.contains(machine) => None,
        ElfMachine::X86_64 => Some("x86-64"),
        ElfMachine::ARM_64 => Some("64-bit Arm"),
        _ => panic!("a name for machine {machine:?}"),
    }
}

/// The loader takes libraries of this machine, which is one of those that the page names.
#[test]
fn libraries_of_this_machine_are_loaded() {
    let device = create_device("local-sync").expect("a device of this build");
    for format in ExecutableFormat::ALL {
        let answer = device.query_i64(QueryCategory::ExecutableFormat.name(), format.name()).expect("an answer");
        let is_elf = format.name().contains("-elf-");
        assert!(answer == 0 || !is_elf || loaded_on(format).is_some(), "{format}");
    }
    let here = if cfg!(target_arch = "aarch64") {
        ExecutableFormat::EmbeddedElfArm64
    } else {
        ExecutableFormat::EmbeddedElfX8664
    };
    let answer = device.query_i64(QueryCategory::ExecutableFormat.name(), here.name()).expect("an answer");
    assert_eq!(answer != 0, cfg!(any(target_arch = "x86_64", target_arch = "aarch64")));
}

fn files(text: &mut String) {
    text.push_str(
        "\n## Files\n| format | read | written |\n|---|---|---|\n| `.vmfb` module | yes | by `vireo asm` |\n",
    );
    for (format, extension) in ArchiveFormat::ALL {
        let written = if format == ArchiveFormat::Irpa { "by `vireo params`" } else { "refused" };
        let _ = writeln!(text, "| `.{extension}` parameters | yes | {written} |");
    }
    text.push_str("| `.npy`, `.npz`, `.safetensors`, raw bytes as tensors | yes | yes |\n");
    text.push_str("| `.ireereplay` captures, version 2.0 | by `vireo replay` | by `vireo run`, `vireo benchmark`, `vireo::replay` |\n");
    text.push_str("| `.ireeprof` profiles, version 1.6 | by `vireo profile` | by `vireo run`, `vireo benchmark`, `vireo::profile` |\n");
}

fn flags(text: &mut String) {
    text.push_str(
        "\n## Flags of IREE's tools\n`vireo run` has the flags of `iree-run-module`, `vireo benchmark` those of `iree-benchmark-module`. A refused flag ends the \
         command with exit code 2 and the reason, unless its value is the default.\n\n| flag | `run` | `benchmark` | reason |\n|---|---|---|---|\n",
    );
    for flag in reference_flags() {
        let (run, benchmark) = (answer(flag, "run"), answer(flag, "benchmark"));
        let _ = writeln!(text, "| `--{}` | {run} | {benchmark} | {} |", flag.name, flag.reason);
    }
}

fn matrix() -> String {
    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let mut text = String::from(
        "# What is supported\nThis page is generated from the specs and from queries of the devices and commands of this build; a test checks that it is current. \
         *Yes* means supported; *refused* means that it fails with a status that names it.\n\n",
    );
    text.push_str(&support::ops(spec.vm("vm").expect("the VM")));
    exports(&spec, &mut text);
    devices(&mut text);
    files(&mut text);
    flags(&mut text);
    text
}

#[test]
fn the_page_says_what_is_supported() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/support.md");
    let text = matrix();
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        std::fs::write(&path, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        file == text,
        "docs/support.md is not what this build supports; run `INSTA_UPDATE=always cargo test -p vireo-cli support`\n{text}"
    );
}

/// `text` with the table that begins with `heading` replaced by `table`; a table ends at the first empty line.
fn with_table(text: &str, heading: &str, table: &str) -> String {
    let start = text.find(heading).unwrap_or_else(|| panic!("no table `{heading}`"));
    let end = text[start..].find("\n\n").map_or(text.len(), |end| start + end + 1);
    format!("{}{table}{}", &text[..start], &text[end..])
}

#[test]
fn the_guide_to_devices_lists_the_options_of_workers() {
    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/devices.md");
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    let text = with_table(&file, local_task::HEADING, &local_task::table(&spec));
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        std::fs::write(&path, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    assert!(
        file == text,
        "docs/devices.md is not what spec/hal/local_task.yaml says; run `INSTA_UPDATE=always cargo test -p vireo-cli guide`\n{text}"
    );
}

/// `text` with the rows of directives of the table after `heading` replaced; rows about other things come after them.
fn with_directives(text: &str, heading: &str, rows: &str) -> String {
    let table = text.find(heading).unwrap_or_else(|| panic!("no text `{heading}`"));
    let start = table + text[table..].find(assembly_guide::ROW).unwrap_or_else(|| panic!("no table after `{heading}`"));
    let old = text[start..].split_inclusive('\n').take_while(|line| line.starts_with(assembly_guide::ROW));
    let end = start + old.map(str::len).sum::<usize>();
    format!("{}{rows}{}", &text[..start], &text[end..])
}

#[test]
fn the_guide_lists_the_directives_of_assembly() {
    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    let text = with_directives(&file, "Each statement is one line", &assembly_guide::rows(&spec, false));
    let text =
        with_directives(&text, "`iree-as-module` does not read the following", &assembly_guide::rows(&spec, true));
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        std::fs::write(&path, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    assert!(
        file == text,
        "docs/cli.md is not what spec/names/assembly.yaml says; run `INSTA_UPDATE=always cargo test -p vireo-cli guide`\n{text}"
    );
}

/// The formats that are listed are put together as loaders do it.
#[test]
fn elf_formats_are_a_prefix_and_a_machine() {
    let machine = |format: &'static str| {
        format.strip_prefix(EMBEDDED_FORMAT_PREFIX).or_else(|| format.strip_prefix(SYSTEM_FORMAT_PREFIX))
    };
    let machines: Vec<&str> = ExecutableFormat::ALL.into_iter().filter_map(|format| machine(format.name())).collect();
    assert_eq!(machines.len(), 5);
    for machine in machines {
        assert!(ElfMachine::NAMED.iter().any(|(_, name)| *name == machine), "{machine}");
    }
}

/// A flag that one of its commands refuses has a reason, and only such a flag.
#[test]
fn flags_of_the_reference_have_reasons_where_they_are_refused() {
    let mut wrong = Vec::new();
    for flag in reference_flags() {
        let refused = ["run", "benchmark"].iter().any(|command| answer(flag, command) == "refused");
        if refused == flag.reason.is_empty() {
            wrong.push(flag);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(reference_flags().count() > 100);
}
