//! The flags of `local-task` workers, one for each option of `spec/hal/local_task.yaml`. The runtime parses and checks
//! the values, and `devices` passes them to the driver.

use std::ffi::OsString;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use vireo::hal::local::task::{TaskConfig, TaskOption};

use crate::exit::Exit;
use crate::failure::Failure;

/// The heading of these flags in the help.
const HEADING: &str = "Workers of local-task devices";
const DUMP: &str = "dump_task_topologies";

/// The flags `--task_*`. Parameters in the URI of a device override them.
#[derive(Debug)]
pub struct TaskArguments {
    config: TaskConfig,
    dump_task_topologies: bool,
}

impl Args for TaskArguments {
    fn augment_args(command: Command) -> Command {
        let dump = Arg::new(DUMP)
            .long("dump-task-topologies")
            .help_heading(HEADING)
            .help("Print the workers that these flags give, and exit")
            .value_name("BOOL")
            .value_parser(clap::value_parser!(bool))
            .num_args(0..=1)
            .require_equals(true)
            .default_value("false")
            .default_missing_value("true");
        command.args(TaskConfig::OPTIONS.map(flag)).arg(dump)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The flag of an option.
fn flag(option: TaskOption) -> Arg {
    // Help is a sentence without the full stop, as that of other flags.
    let help = option.doc.strip_suffix('.').unwrap_or(option.doc);
    let parser =
        OsStringValueParser::new().try_map(move |value| TaskConfig::default().set(option.name, &value).map(|()| value));
    let flag = Arg::new(option.name)
        .long(option.flag)
        .help_heading(HEADING)
        .help(help)
        .value_name(option.value)
        .value_parser(parser)
        .action(if option.repeats { ArgAction::Append } else { ArgAction::Set });
    if option.default.is_empty() { flag } else { flag.default_value(option.default) }
}

impl FromArgMatches for TaskArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut config = TaskConfig::default();
        for option in TaskConfig::OPTIONS {
            for value in matches.get_many::<OsString>(option.name).into_iter().flatten() {
                let set = config.set(option.name, value);
                set.map_err(|problem| clap::Error::raw(clap::error::ErrorKind::ValueValidation, problem))?;
            }
        }
        Ok(TaskArguments { config, dump_task_topologies: matches.get_flag(DUMP) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl TaskArguments {
    /// The configuration that the flags describe.
    pub fn config(&self) -> Result<TaskConfig, Failure> {
        match self.config.check() {
            Ok(()) => Ok(self.config.clone()),
            Err(status) => Err(Failure::new(Exit::Usage, "invalid command line").because(status)),
        }
    }

    /// The workers of that configuration, for `--dump_task_topologies`.
    pub fn dump(&self) -> Result<Option<String>, Failure> {
        if !self.dump_task_topologies {
            return Ok(None);
        }
        let options = self.config()?.resolve();
        let options = options.map_err(|status| Failure::new(Exit::Usage, "cannot find the workers").because(status))?;
        Ok(Some(options.dump_topologies()))
    }
}
