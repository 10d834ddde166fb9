//! The devices and the limits of a replay, from the flags.

use std::io;
use std::path::Path;
use std::sync::Arc;

use vireo::hal::{Device, ExecutionStatistics};
use vireo::interp::Tier;
use vireo::replay::{FileAccess, Plan, Reader, ReplayOptions};

use super::file;
use crate::arguments::ReplayTargetArguments;
use crate::confine;
use crate::devices::Drivers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::print;
use crate::statistics;

/// A capture that can be replayed, and where.
pub struct Target {
    pub reader: Reader,
    pub plan: Plan,
    pub devices: Vec<Arc<dyn Device>>,
    pub options: ReplayOptions,
    /// Counts what the devices do, if that is asked for.
    counted: Option<Arc<ExecutionStatistics>>,
}

impl Target {
    /// Reads the capture and creates the devices. From here on a process that is confined opens no file. None if the
    /// flags ask for a list, which was printed.
    pub fn prepare(file: &Path, arguments: &ReplayTargetArguments) -> Result<Option<Target>, Failure> {
        if let Some(listing) = arguments.listing()? {
            print(&mut io::stdout(), &listing)?;
            return Ok(None);
        }
        confine::check_devices(&arguments.device, &arguments.devices, &arguments.policy)?;
        if arguments.policy.untrusted && arguments.replay_allow_writes {
            let message = "--replay_allow_writes cannot be combined with --untrusted, which opens no file of a capture";
            return Err(Failure::new(Exit::Usage, message));
        }
        let policy = arguments.policy.policy(Tier::Auto);
        let files = match (arguments.policy.untrusted, arguments.replay_allow_writes) {
            (true, _) => FileAccess::None,
            (false, false) => FileAccess::Read,
            (false, true) => FileAccess::Write,
        };
        let mut reader = file::open(file)?;
        let plan = Plan::read(&mut reader, policy.limits.memory.as_ref());
        let plan =
            plan.map_err(|status| Failure::new(Exit::LoadFailure, "cannot replay the capture").because(status))?;
        let substitutions = arguments.replay_executable_substitution.iter().map(|source| {
            let unreadable = || Failure::new(Exit::Usage, "cannot read what takes the place of an executable");
            source.read().map_err(|status| unreadable().because(status))
        });
        let options = ReplayOptions {
            limits: policy.limits.clone(),
            serial: arguments.serial,
            files,
            remaps: arguments.replay_file_remap.clone(),
            substitutions: substitutions.collect::<Result<_, _>>()?,
            ..ReplayOptions::default()
        };
        let drivers = Drivers::load(&arguments.devices, policy)?;
        let devices = arguments.device.iter().map(|uri| drivers.create_device(uri)).collect::<Result<Vec<_>, _>>()?;
        let counted = arguments.print_device_statistics.then(ExecutionStatistics::new);
        let devices = match &counted {
            Some(counted) => devices.iter().map(|device| counted.device(device)).collect(),
            None => devices,
        };
        confine::confine_by(&arguments.policy)?;
        Ok(Some(Target { reader, plan, devices, options, counted }))
    }

    /// The profile of the devices, if that is asked for.
    pub fn statistics(&self) -> Option<String> {
        self.counted.as_ref().map(|counted| statistics::text(counted))
    }
}

/// The failure of a replay.
pub fn cannot_replay(status: vireo::Status) -> Failure {
    Failure::new(Exit::RunFailure, "replaying the capture").because(status)
}
