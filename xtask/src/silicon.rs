//! `cargo xtask silicon DIR`: fills a folder with everything that `fixtures/cuda/silicon/run.sh` needs on a machine
//! with a GPU and nothing else: programs, compiled models, clients.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::chore::{Failure, target, workspace};

/// Files of the repository, by the folder that they go to.
const FILES: [(&str, &[&str]); 3] = [
    ("", &["fixtures/cuda/silicon/run.sh"]),
    ("corpus", &["fixtures/cuda/silicon/programs.json", "fixtures/cuda/programs.vmfb"]),
    ("clients", &["fixtures/softcuda/tinygrad_client.py", "fixtures/softcuda/numba_client.py"]),
];

/// Programs in C.
const PROGRAMS: [&str; 2] = ["cost_raw", "nccl_probe"];

/// Fills a folder. With `is_debug` programs are those that tests are built with.
pub fn silicon(directory: &Path, is_debug: bool) -> Result<(), Failure> {
    let directory = std::path::absolute(directory).map_err(|error| failed(directory, &error))?;
    for (folder, files) in FILES {
        let folder = directory.join(folder);
        fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
        for file in files {
            let source = workspace().join(file);
            let name = source.file_name().unwrap_or(OsStr::new("file"));
            fs::copy(&source, folder.join(name)).map_err(|error| failed(&source, &error))?;
        }
    }
    let profile = if is_debug { "debug" } else { "release" };
    build(is_debug, &["build", "--package", "vireo-cuda-driver", "--example", "silicon"])?;
    take(&target().join(profile).join("examples/silicon"), &directory.join("silicon"))?;
    // Tests of the command build it with the features that they need, as all tests of the workspace do.
    let command: &[&str] = if is_debug {
        &["test", "--no-run", "--package", "vireo-cli", "--test", "suite"]
    } else {
        &["build", "--package", "vireo-cli", "--bin", "vireo"]
    };
    build(is_debug, command)?;
    take(&target().join(profile).join("vireo"), &directory.join("vireo"))?;
    let suite =
        ["test", "--no-run", "--package", "vireo-cuda-driver", "--test", "device_suite", "--message-format", "json"];
    let messages = build(is_debug, &suite)?;
    take(&executable(&messages, "device_suite")?, &directory.join("device_suite"))?;
    for program in PROGRAMS {
        let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
        let source = workspace().join(format!("fixtures/cuda/silicon/{program}.c"));
        compiler.args(["-std=gnu11", "-O2", "-Wall", "-Werror"]).arg(source).arg("-o").arg(directory.join(program));
        let status = compiler.arg("-ldl").status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(Failure::Wrong(format!("{program}.c does not compile")));
        }
    }
    println!("{}", directory.join("run.sh").display());
    Ok(())
}

/// Runs cargo; returns what it prints.
fn build(is_debug: bool, arguments: &[&str]) -> Result<String, Failure> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg(arguments[0]).args(if is_debug { &[][..] } else { &["--release"] }).args(&arguments[1..]);
    cargo.arg("--locked").current_dir(workspace()).stderr(std::process::Stdio::inherit());
    let output = cargo.output().map_err(|error| Failure::Wrong(format!("cargo: {error}")))?;
    if !output.status.success() {
        return Err(Failure::Wrong(format!("cargo {}: {}", arguments.join(" "), output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The program of a target, from the messages of cargo.
fn executable(messages: &str, name: &str) -> Result<PathBuf, Failure> {
    let of_target = format!("\"name\":\"{name}\"");
    let line = messages.lines().find(|line| line.contains(&of_target) && line.contains("\"executable\":\""));
    let path = line.and_then(|line| line.split("\"executable\":\"").nth(1)?.split('"').next());
    path.map(PathBuf::from).ok_or_else(|| Failure::Wrong(format!("cargo built no `{name}`")))
}

/// Copies a program, without its symbols where there is a tool for that.
fn take(program: &Path, place: &Path) -> Result<(), Failure> {
    fs::copy(program, place).map_err(|error| failed(program, &error))?;
    let _ = Command::new("strip").arg(place).status();
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Wrong(format!("{}: {error}", path.display()))
}
