//! The devices and the limits of a replay, from the flags.

use std::io;
use std::path::Path;
use std::sync::Arc;

use vireo::hal::{Device, ExecutionStatistics};
use vireo::interp::Tier;
use vireo::replay::{FileAccess, Plan, Reader, ReplayOptions, Substitution};

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
    ground: Ground,
}

/// The limits and drivers of replays, from the flags.
pub struct Ground {
    pub options: ReplayOptions,
    /// Executables that take the place of captured ones, where the flags say so.
    pub substitutions: Vec<Substitution>,
    drivers: Drivers,
    /// Counts what the devices do, if that is asked for.
    counted: Option<Arc<ExecutionStatistics>>,
}

impl Ground {
    /// Loads the drivers. None if the flags ask for a list, which was printed.
    pub fn prepare(arguments: &ReplayTargetArguments) -> Result<Option<Ground>, Failure> {
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
        let substitutions = arguments.replay_executable_substitution.iter().map(|source| {
            let unreadable = || Failure::new(Exit::Usage, "cannot read what takes the place of an executable");
            source.read().map_err(|status| unreadable().because(status))
        });
        let options = ReplayOptions {
            limits: policy.limits.clone(),
            serial: arguments.serial,
            files,
            remaps: arguments.replay_file_remap.clone(),
            ..ReplayOptions::default()
        };
        let substitutions = substitutions.collect::<Result<_, _>>()?;
        let drivers = Drivers::load(&arguments.devices, policy)?;
        let counted = arguments.print_device_statistics.then(ExecutionStatistics::new);
        Ok(Some(Ground { options, substitutions, drivers, counted }))
    }

    /// Reads a capture.
    pub fn read(&self, file: &Path) -> Result<(Reader, Plan), Failure> {
        let mut reader = file::open(file)?;
        let plan = Plan::read(&mut reader, self.options.limits.memory.as_ref());
        let plan =
            plan.map_err(|status| Failure::new(Exit::LoadFailure, "cannot replay the capture").because(status))?;
        Ok((reader, plan))
    }

    /// Creates devices.
    pub fn devices(&self, uris: &[String]) -> Result<Vec<Arc<dyn Device>>, Failure> {
        let devices = uris.iter().map(|uri| self.drivers.create_device(uri)).collect::<Result<Vec<_>, _>>()?;
        Ok(match &self.counted {
            Some(counted) => devices.iter().map(|device| counted.device(device)).collect(),
            None => devices,
        })
    }

    /// The profile of the devices, if that is asked for.
    pub fn statistics(&self) -> Option<String> {
        self.counted.as_ref().map(|counted| statistics::text(counted))
    }
}

/// The devices of two replays, from those that the flags name: those of the first, then those of the second. With two
/// captures the same are for both if there are just so many. `counts` are those that the captures have.
pub fn split(uris: &[String], counts: [usize; 2], are_two: bool) -> Result<[&[String]; 2], Failure> {
    let given = uris.len();
    if given == counts[0] + counts[1] {
        let (first, second) = uris.split_at(counts[0]);
        return Ok([first, second]);
    }
    if are_two && counts == [given, given] {
        return Ok([uris, uris]);
    }
    let devices = |count: usize| if count == 1 { "1 device".to_string() } else { format!("{count} devices") };
    let needs = match are_two {
        true => format!("the first capture has {}, and the second {}", devices(counts[0]), devices(counts[1])),
        false => format!("the capture has {}, and is replayed on two sides", devices(counts[0])),
    };
    let message = format!("{needs}: expected --device= {} times, found {given}", counts[0] + counts[1]);
    Err(Failure::new(Exit::Usage, message).hint("name the devices of the first side, then those of the second"))
}

impl Target {
    /// Reads the capture and creates the devices. From here on a process that is confined opens no file. None if the
    /// flags ask for a list, which was printed.
    pub fn prepare(file: &Path, arguments: &ReplayTargetArguments) -> Result<Option<Target>, Failure> {
        let Some(mut ground) = Ground::prepare(arguments)? else { return Ok(None) };
        let (reader, plan) = ground.read(file)?;
        let devices = ground.devices(&arguments.device)?;
        confine::confine_by(&arguments.policy)?;
        let substitutions = std::mem::take(&mut ground.substitutions);
        let options = ReplayOptions { substitutions, ..ground.options.clone() };
        Ok(Some(Target { reader, plan, devices, options, ground }))
    }

    /// The profile of the devices, if that is asked for.
    pub fn statistics(&self) -> Option<String> {
        self.ground.statistics()
    }
}

/// The failure of a replay.
pub fn cannot_replay(status: vireo::Status) -> Failure {
    Failure::new(Exit::RunFailure, "replaying the capture").because(status)
}
