//! `vireo replay run`: replays a capture once.

use super::target::{Target, cannot_replay};
use crate::arguments::ReplayRunArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::print_aside;

/// Does what the flags say. Like IREE's tool it prints nothing if all went well.
pub fn run(arguments: &ReplayRunArguments) -> Result<Exit, Failure> {
    let Some(target) = Target::prepare(&arguments.file, &arguments.target)? else { return Ok(Exit::Ok) };
    let outcome = target.plan.run(&target.devices, &target.options, &mut ());
    if let Some(statistics) = target.statistics() {
        print_aside(&statistics);
    }
    outcome.map(|_| Exit::Ok).map_err(cannot_replay)
}
