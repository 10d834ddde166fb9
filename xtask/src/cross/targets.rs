//! The targets of `cross`: how programs are linked and run, and what can be run there.

/// A target, and how its programs are run here.
pub struct Target {
    pub name: &'static str,
    /// The linker, unless the compiler brings one along or cargo is told otherwise.
    pub linker: Option<&'static str>,
    /// Flags of the compiler for that linker.
    pub flags: &'static str,
    pub run: Run,
    /// The processors of `fixtures/models/manifest.json` whose kernels can run there.
    pub processors: &'static [&'static str],
    /// Whether a new NaN gets the sign that it gets on x86-64, where the answers of kernels in bytecode were recorded.
    pub nans_as_recorded: bool,
    /// Whether the command is built as well, or only `examples/anywhere`.
    pub has_command: bool,
    /// Why the tests are not run there, if they are not.
    pub no_suite: Option<&'static str>,
    /// The suffix of the name of a program.
    pub suffix: &'static str,
}

/// How programs of a target are run.
pub enum Run {
    /// As those of this machine.
    Directly,
    /// By the first of these commands that is there; the last words are arguments of it.
    With(&'static [&'static [&'static str]]),
    /// By Wine, which is the first of these commands that is there.
    InWine(&'static [&'static [&'static str]]),
    /// By the host in `examples/wasm`, and by Node if it is there.
    InWasm,
    /// Not at all: no emulator is known.
    CheckOnly,
}

/// Runs programs for WebAssembly in Node: the script, and the folder that the program sees.
pub const NODE: &[&str] = &["node", "--no-warnings", "examples/anywhere/run.mjs"];

pub const TARGETS: [Target; 7] = [
    Target {
        name: "aarch64-unknown-linux-gnu",
        linker: Some("aarch64-linux-gnu-gcc"),
        flags: "",
        run: Run::With(&[
            &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
            &["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"],
        ]),
        processors: &["aarch64", "vmvx"],
        nans_as_recorded: false,
        has_command: true,
        no_suite: None,
        suffix: "",
    },
    // Static: there is no loader of libraries in it, and kernels come from embedded ELF libraries all the same.
    Target {
        name: "x86_64-unknown-linux-musl",
        linker: None,
        flags: "-Ctarget-feature=+crt-static",
        run: Run::Directly,
        processors: &["x86-64", "x86-64-v3", "vmvx"],
        nans_as_recorded: true,
        has_command: true,
        no_suite: Some("a static program loads no libraries, as those of plugins do"),
        suffix: "",
    },
    Target {
        name: "wasm32-wasip1",
        linker: None,
        flags: "",
        run: Run::InWasm,
        processors: &["vmvx"],
        // WebAssembly leaves the sign to its host, and the hosts to the processor.
        nans_as_recorded: true,
        has_command: false,
        no_suite: None,
        suffix: ".wasm",
    },
    Target {
        name: "x86_64-pc-windows-gnu",
        linker: Some("x86_64-w64-mingw32-gcc"),
        flags: "",
        run: Run::InWine(&[&["wine"], &["wine64"]]),
        processors: &["x86-64", "x86-64-v3", "vmvx"],
        nans_as_recorded: true,
        has_command: true,
        no_suite: Some("some call functions of Linux"),
        suffix: ".exe",
    },
    checked("x86_64-pc-windows-msvc"),
    checked("x86_64-apple-darwin"),
    checked("aarch64-apple-darwin"),
];

/// A target for which the crates are only checked.
const fn checked(name: &'static str) -> Target {
    Target {
        name,
        linker: None,
        flags: "",
        run: Run::CheckOnly,
        processors: &[],
        nans_as_recorded: true,
        has_command: true,
        no_suite: None,
        suffix: "",
    }
}
