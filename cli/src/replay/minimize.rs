//! `vireo replay minimize`: writes a capture of one dispatch, or the least one for which a command succeeds.

use std::fs::File;
use std::io;
use std::time::Instant;

use vireo::interp::Tier;
use vireo::replay::{DiffSide, ReplayOptions, Verdict, minimize as minimized, reduce};
use vireo::visible_text::visible;
use vireo::{Result as VireoResult, StatusCode};

use super::file;
use super::target::{Ground, split};
use super::test_command::TestCommand;
use crate::arguments::ReplayMinimizeArguments;
use crate::confine;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::print;
use crate::progress::Counter;

/// Does what the flags say.
pub fn minimize(arguments: &ReplayMinimizeArguments) -> Result<Exit, Failure> {
    match (&arguments.test, arguments.dispatch) {
        (Some(command), _) => by_test(arguments, command),
        (None, Some(number)) => one_dispatch(arguments, number),
        (None, None) => Err(Failure::new(Exit::Usage, "expected --dispatch= or --test=")),
    }
}

fn one_dispatch(arguments: &ReplayMinimizeArguments, number: u64) -> Result<Exit, Failure> {
    let Some(mut ground) = Ground::prepare(&arguments.target)? else { return Ok(Exit::Ok) };
    let (_, plan) = ground.read(&arguments.file)?;
    let other = match &arguments.expected {
        Some(file) => Some(ground.read(file)?.1),
        None => None,
    };
    let uris = &arguments.target.device;
    let (uris, other_uris) = match &other {
        Some(other) => {
            let [uris, other_uris] = split(uris, [plan.device_count(), other.device_count()], true)?;
            (uris, other_uris)
        }
        None => (uris.as_slice(), [].as_slice()),
    };
    let (devices, other_devices) = (ground.devices(uris)?, ground.devices(other_uris)?);
    let path = &arguments.output;
    // A process that is confined can write to what is open.
    let output = file::create(path)?;
    let outcome = (|| {
        confine::confine_by(&arguments.target.policy)?;
        let substitutions = std::mem::take(&mut ground.substitutions);
        let options = ReplayOptions { substitutions, ..ground.options.clone() };
        let side = DiffSide { plan: &plan, devices: &devices, options: &options };
        let expected = other.as_ref().map(|plan| DiffSide { plan, devices: &other_devices, options: &ground.options });
        minimized(side, number, expected, output).map_err(|status| {
            let code = if status.code() == StatusCode::NotFound { Exit::Usage } else { Exit::RunFailure };
            Failure::new(code, "replaying the capture").because(status)
        })
    })();
    let found = outcome.inspect_err(|_| file::remove(path))?;
    let dispatch = &found.dispatch;
    let text = format!(
        "dispatch {number}: `{}`, record {}, with {} bytes of buffers and {} expected outputs\n",
        visible(&dispatch.function),
        dispatch.record,
        found.buffer_bytes,
        found.outputs
    );
    print(&mut io::stdout(), &text)
}

fn by_test(arguments: &ReplayMinimizeArguments, command: &str) -> Result<Exit, Failure> {
    let policy = &arguments.target.policy;
    if policy.untrusted {
        let message = "--untrusted is not for --test, which runs a command: it is for what the command replays";
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut test = TestCommand::new(command, arguments.test_timeout.0)?;
    let limits = policy.policy(Tier::Auto).limits;
    let deadline = limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut reader = file::open(&arguments.file)?;
    let path = &arguments.output;
    let output = file::create(path)?;
    let progress = Counter::on_terminal();
    let (mut tests, mut records) = (0u64, None);
    let mut failure = None;
    let mut verdict = |candidate: &mut vireo::replay::Candidate<'_>| -> VireoResult<Verdict> {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(Verdict::Stop);
        }
        let least = records.unwrap_or_else(|| candidate.records());
        if let Some(progress) = &progress {
            progress.show(format!("{tests} tests, {least} records left"));
        }
        tests += 1;
        let out = File::create(test.candidate()).map_err(|error| {
            failure = Some(file::cannot_write(test.candidate()).because(error));
            vireo::Status::new(StatusCode::Aborted, "a file cannot be written")
        })?;
        candidate.write(out)?;
        let is_interesting = test.run(deadline).map_err(|error| {
            failure = Some(Failure::new(Exit::RunFailure, "cannot run the command of --test").because(error));
            vireo::Status::new(StatusCode::Aborted, "the command cannot be run")
        })?;
        Ok(match is_interesting {
            Some(true) => {
                records = Some(candidate.records());
                Verdict::Interesting
            }
            Some(false) => Verdict::Boring,
            None => Verdict::Stop,
        })
    };
    let outcome = reduce(&mut reader, limits.memory.as_ref(), &mut verdict, output);
    drop(progress);
    let outcome = match (failure, outcome) {
        (Some(failure), _) => Err(failure),
        (None, Err(status)) => Err(Failure::new(Exit::RunFailure, "minimizing the capture").because(status)),
        (None, Ok(reduced)) => Ok(reduced),
    };
    let reduced = outcome.inspect_err(|_| file::remove(path))?;
    let end = if reduced.is_least { "" } else { "; the time was over, so there may be less" };
    let text = format!("{} of {} records are left after {} tests{end}\n", reduced.records, reduced.of, reduced.tests);
    print(&mut io::stdout(), &text)
}
