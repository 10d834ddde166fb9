//! `cargo xtask dist`: the command as it is shipped. The profile `dist` alone makes a program of the same speed; what a
//! profile cannot say is here.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;

use crate::chore::{target, workspace};

/// The command handles text, and is optimised for size.
const COMMAND_FOR_SIZE: &str = "profile.dist.package.vireo-cli.opt-level='s'";

/// The opt-level of the linked crate applies to all crates that are optimised together: at "s" no loop becomes a vector
/// loop.
const PROGRAM: &[&str] = &["-Copt-level=2"];

/// Where the tools of Rust put a program that starts at any address and shares the unwinder of the system, the shipped
/// command has fixed addresses, so that nothing is relocated when it starts. Functions with the same machine code are
/// one. Nothing is unwound where panics abort, and a backtrace of a program without names says nothing, so the unwind
/// tables, a twelfth of the file, and their index go, and with them the unwinder and the reader of debug information
/// that the standard library brings (`cli/src/unwinder.rs`). `docs/decisions.md` has the figures.
const GNU_LINUX: Flags = Flags {
    all: &["-Crelocation-model=static", "-Csymbol-mangling-version=v0", "-Clink-arg=-Wl,--icf=all"],
    program: &["--cfg=no_unwind_tables", "-Clink-arg=-Wl,--no-eh-frame-hdr"],
    scripts: &["xtask/src/dist/no_unwind_tables.ld"],
    start_order: true,
};

/// Elsewhere what the system's tools do.
const OTHERS: Flags = Flags { all: &[], program: &[], scripts: &[], start_order: false };

/// The flags of the compiler besides the profile.
struct Flags {
    /// For all crates.
    all: &'static [&'static str],
    /// For the program, which links.
    program: &'static [&'static str],
    /// The scripts of the linker.
    scripts: &'static [&'static str],
    /// Whether the linker takes [`START_ORDER`], too.
    start_order: bool,
}

/// In the folder of the output, the script of `benches/start_order.py`: functions that a start runs lie together, which
/// takes fewer page faults. It is written for each release, from a build with names; a build without it works as well.
const START_ORDER: &str = "dist/start_order.ld";

/// Builds the command for this machine, as `target/dist/vireo`, or, with the names of its functions, as
/// `target/dist/vireo-names`.
pub fn dist(names: bool) -> Result<(), String> {
    let host = host()?;
    // The linker that Rust brings along for this target has the flags.
    let flags = if host == "x86_64-unknown-linux-gnu" { GNU_LINUX } else { OTHERS };
    let target = target();
    let mut cargo = Command::new("cargo");
    cargo.args(["rustc", "--locked", "--profile=dist", "--package=vireo-cli", "--bin=vireo", "--target", &host]);
    // Software agents are for those who develop for GPUs, and larger than the interpreter and the compiler of programs;
    // the command loads them as libraries.
    cargo.arg("--no-default-features");
    cargo.arg("--target-dir").arg(&target).args(["--config", COMMAND_FOR_SIZE, "--"]).args(PROGRAM).args(flags.program);
    if !names {
        cargo.arg("-Cstrip=symbols");
    }
    // Cargo links again when a flag changes, but knows nothing of what a script says.
    let mut contents = DefaultHasher::new();
    let order = target.join(START_ORDER);
    let is_ordered = flags.start_order && order.exists();
    if flags.start_order && !is_ordered {
        println!("{} is not there, so functions of a start are not put together", order.display());
    }
    let scripts = flags.scripts.iter().map(|script| workspace().join(script));
    for script in scripts.chain(is_ordered.then_some(order)) {
        fs::read(&script).map_err(|error| format!("{}: {error}", script.display()))?.hash(&mut contents);
        cargo.arg(format!("-Clink-arg={}", script.display()));
    }
    cargo.arg(format!("--cfg=link_scripts=\"{:016x}\"", contents.finish()));
    cargo.env("CARGO_PROFILE_DIST_DEBUG", "none").env("CARGO_ENCODED_RUSTFLAGS", flags.all.join("\x1f"));
    let status = cargo.current_dir(workspace()).status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err("the command does not build".into());
    }
    let built = target.join(host).join("dist").join(format!("vireo{}", std::env::consts::EXE_SUFFIX));
    let name = if names { "vireo-names" } else { "vireo" };
    let shipped = target.join("dist").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let copied = fs::create_dir_all(target.join("dist"))
        // A command that runs cannot be written to, but replaced.
        .and_then(|()| if shipped.exists() { fs::remove_file(&shipped) } else { Ok(()) })
        .and_then(|()| fs::copy(&built, &shipped));
    let bytes = copied.map_err(|error| format!("{}: {error}", shipped.display()))?;
    println!("{}: {bytes} bytes", shipped.display());
    Ok(())
}

/// The name of this machine for the compiler.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".into())
}
