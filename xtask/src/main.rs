//! Commands for developers of the workspace, which are not part of a build. Run as `cargo xtask NAME`; the alias is in
//! `.cargo/config.toml`.
//!
//! `op` does what a new op needs besides its entry. `docs` writes the manual, which `vireo-codegen` renders from the
//! specs, with the guides in Markdown. `outside` runs the README's program in a crate of its own. `handlers` looks at
//! what the optimiser made of the threaded dispatcher, `skipped` at tests that did not run, `features` at the features
//! of dependencies, `facts` at literals that repeat the specs, `semver` at what users see of the library, `growth` at
//! the work that hostile modules make. `opcodes` writes the table of the instruction decoder. `dist` builds what is
//! shipped, `cross` builds and runs for other machines, `package` what is published, `soft` the software libraries of
//! GPUs, `silicon` what tests a GPU elsewhere, `census` counts which ops follow each other, and `ptx-census` looks for
//! forms of PTX that the specs lack. Specs are read from disk, so that an edit of one does not build this crate again.
#![forbid(unsafe_code)]

mod census;
mod chore;
mod circles;
mod cross;
mod dist;
mod docs;
mod facts;
mod features;
mod figures;
mod growth;
mod handlers;
mod op;
mod opcodes;
mod outside;
mod package;
mod prose;
mod ptx_census;
mod semver;
mod silicon;
mod skipped;
mod soft;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use self::chore::Failure;

const USAGE: &str = "usage: cargo xtask op [--check] [--release] NAME
       cargo xtask op --self-test [FOLDER]
       cargo xtask census [--command FILE] FOLDER...
       cargo xtask circles
       cargo xtask cross [--suite] [TARGET]
       cargo xtask dist [--names]
       cargo xtask docs [--out DIRECTORY] [--sources BASE] [--rustdoc BASE]
       cargo xtask facts
       cargo xtask features
       cargo xtask figures
       cargo xtask growth [--command FILE] [NAME]
       cargo xtask handlers [FILE]
       cargo xtask opcodes
       cargo xtask outside
       cargo xtask package
       cargo xtask prose
       cargo xtask ptx-census FOLDER
       cargo xtask semver [--accept]
       cargo xtask skipped FILE
       cargo xtask silicon [--debug] DIRECTORY
       cargo xtask soft DIRECTORY [FLAGS OF CARGO BUILD]
       cargo xtask null DIRECTORY

op         after an edit of the op NAME in spec/isa/vm/ops: builds, runs its examples on every tier, records what is generated in
           snapshots/ and shows what changed; `cargo xtask op --help` says more, and which opcodes are free
census     prints which ops follow each other in the loops of the modules in each FOLDER, most frequent first, with the share of ops and the
           modules; FILE is the `vireo` that shows their code (default: target/release/vireo)
circles    lists modules of a crate that use each other in circles, fails if there are more than before, and notes if there are fewer
cross      builds for other machines, for a static executable and for WebAssembly, and runs models there, with --suite the tests
           too, as far as compiler, linker and emulator are here; TARGET is a part of the name of a target
dist       builds the command as it is shipped, target/dist/vireo, or with the names of its functions, target/dist/vireo-names, from which
           benches/start_order.py writes target/dist/start_order.ld: if that is there, what a start runs lies together
facts      fails for literals in hand-written Rust that repeat what spec/ says
docs       writes the manual, the reference and all guides (static HTML), to target/reference, or to DIRECTORY;
           links to files of the repository and to the documentation of crates begin with BASE, or with the way to those of this clone
features   checks that the commands of CONTRIBUTING.md compile each dependency in one way
figures    quotes the figures of benches/figures.json in README.md
growth     fails if the work for hostile modules grows faster than their size; `cargo xtask growth --help` says more
handlers   disassembles the handlers of the threaded dispatcher, in an optimised library or in FILE, and fails if one calls or
           returns where it should jump
opcodes    writes the table of the decoder that finds instructions which a processor lacks
outside    builds and runs the program of the README in a crate outside of the workspace
package    packages the crates that are published, and builds each from its package
prose      counts the comments that break the rules of prose, fails if there are more than before, and notes if there are fewer
ptx-census  prints the forms in the files .ptx of FOLDER that spec/isa/ptx lacks
semver     fails if the public items of the library differ from those in snapshots/api/, or records them there
skipped    counts the tests that FILE says were skipped (VIREO_SKIPPED=FILE when they ran), and fails for what this machine has
silicon    fills DIRECTORY with what fixtures/cuda/silicon/run.sh runs on a machine with a GPU, with --debug by the build of the tests
soft       builds the software libraries of GPUs into DIRECTORY, under the names that programs load them by
null       builds the libraries of GPUs whose functions return at once, which show the cost of the host";

fn main() -> ExitCode {
    if let Some(code) = semver::as_rustdoc() {
        return ExitCode::from(u8::try_from(code).unwrap_or(1));
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["op", "--help" | "-h"] => print(&op::help()),
        ["op", "--self-test"] => op::self_test(None),
        ["op", "--self-test", folder] => op::self_test(Some(Path::new(folder))),
        ["op", arguments @ ..] => op::op(arguments),
        ["census", "--command", file, folders @ ..] if !folders.is_empty() => {
            census::census(Some(Path::new(file)), folders)
        }
        ["census", folders @ ..] if !folders.is_empty() => census::census(None, folders),
        ["circles"] => circles::circles_of_crates(),
        ["cross"] => cross::cross(None, false).map_err(Failure::Wrong),
        ["cross", "--suite"] => cross::cross(None, true).map_err(Failure::Wrong),
        ["cross", "--suite", target] => cross::cross(Some(target), true).map_err(Failure::Wrong),
        ["cross", target] => cross::cross(Some(target), false).map_err(Failure::Wrong),
        ["dist"] => dist::dist(false).map_err(Failure::Wrong),
        ["dist", "--names"] => dist::dist(true).map_err(Failure::Wrong),
        ["facts"] => facts::facts(),
        ["docs", arguments @ ..] => docs::docs(arguments),
        ["features"] => features::features().map_err(Failure::Wrong),
        ["figures"] => figures::figures(),
        ["growth", "--help" | "-h"] => print(growth::HELP),
        ["growth"] => growth::growth(None, "").map_err(Failure::Wrong),
        ["growth", "--command", file] => growth::growth(Some(Path::new(file)), "").map_err(Failure::Wrong),
        ["growth", "--command", file, part] => growth::growth(Some(Path::new(file)), part).map_err(Failure::Wrong),
        ["growth", part] => growth::growth(None, part).map_err(Failure::Wrong),
        ["handlers"] => handlers::handlers(None).map_err(Failure::Wrong),
        ["handlers", file] => handlers::handlers(Some(Path::new(file))).map_err(Failure::Wrong),
        ["opcodes"] => opcodes::opcodes(),
        ["outside"] => outside::outside().map_err(Failure::Wrong),
        ["package"] => package::package().map_err(Failure::Wrong),
        ["prose"] => prose::prose(),
        ["ptx-census", folder] => ptx_census::ptx_census(Path::new(folder)),
        ["semver"] => semver::semver(false).map_err(Failure::Wrong),
        ["semver", "--accept"] => semver::semver(true).map_err(Failure::Wrong),
        ["skipped", file] => skipped::skipped(Path::new(file)).map_err(Failure::Wrong),
        ["silicon", "--debug", directory] => silicon::silicon(Path::new(directory), true),
        ["silicon", directory] => silicon::silicon(Path::new(directory), false),
        ["soft", directory, flags @ ..] => soft::soft(Path::new(directory), flags),
        ["null", directory] => soft::null(Path::new(directory)),
        ["help" | "--help" | "-h"] => print(USAGE),
        _ => Err(Failure::Usage(USAGE.to_string())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Wrong(message)) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
        Err(Failure::Usage(message)) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    println!("{text}");
    Ok(())
}
