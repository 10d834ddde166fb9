//! The machine that the library pretends to be ([`Options`]): its devices, features that they lack, the order of work,
//! and calls that fail on purpose. Read from the text of the environment variable [`VARIABLE`].

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use vireo_cuda::devices::TABLES;
use vireo_cuda::result::CuResult;
use vireo_simt::sanitize::Checks;
use vireo_soft::options::{OptionError, settings};

/// The environment variable that configures the library.
pub const VARIABLE: &str = "VIREO_SOFTCUDA";

/// Devices at most: each has a bit of a mask, of which the host takes one.
const MAX_DEVICES: u32 = 16;

/// The order of work that streams and events do not order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkOrder {
    /// As it becomes ready, on several threads.
    #[default]
    Ready,
    /// At random with this seed, one after the other, and only while a call waits for work or asks for it: programs
    /// that lack an event fail with some seeds, and a seed repeats its order.
    Random(u64),
}

/// How far an access may pass the end of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bounds {
    /// Not at all.
    Exact,
    /// An aligned load of at most 16 bytes that begins in it may end after it. Compilers widen loads so: LLVM reads
    /// four elements at once of a vector with a length of three, as on hardware no memory ends inside of 16 bytes.
    #[default]
    Vector,
    /// Every access may, up to the next multiple of 512 bytes, as on hardware.
    Granule,
}

/// A call that fails on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The function, by its symbol or the name without suffixes.
    pub function: String,
    /// Which call of it, from 1.
    pub call: u64,
    /// The status that it returns.
    pub status: u32,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of devices.
    pub devices: u32,
    /// The compute capability of devices, 86 for 8.6.
    pub sm: u32,
    /// Bytes of memory of a device.
    pub memory: u64,
    /// Whether devices have memory pools.
    pub pools: bool,
    /// Where memory ends for kernels and copies.
    pub bounds: Bounds,
    /// The version of the driver, 1000 times the major and 10 times the minor number.
    pub version: u32,
    /// The order of work.
    pub order: WorkOrder,
    /// Whether pinned memory that a pending copy is to write has a pattern until the copy is done.
    pub has_poisoned_host: bool,
    /// Threads that run the blocks of a kernel; 0 for as many as the machine has cores.
    pub threads: u32,
    /// Calls that fail.
    pub faults: Vec<Fault>,
    /// The time after which a kernel is ended, if there is one.
    pub timeout: Option<Duration>,
    /// The checks of the sanitizer that are on.
    pub sanitize: Checks,
    /// The file that a trace of calls is written to, a line each.
    pub trace: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            devices: 1,
            sm: 86,
            memory: 8 << 30,
            pools: true,
            bounds: Bounds::default(),
            version: 12_090,
            order: WorkOrder::default(),
            has_poisoned_host: false,
            threads: 0,
            faults: Vec::new(),
            timeout: None,
            sanitize: Checks::default(),
            trace: None,
        }
    }
}

/// The error for a text that is no machine.
pub type OptionsError = OptionError;

fn refused(name: &str, why: String) -> OptionsError {
    OptionError::Refused { name: name.to_string(), why }
}

/// Reads `cuLaunchKernel:7:700`.
fn fault(value: &str) -> Result<Fault, OptionsError> {
    let wrong = || refused("fail", format!("`{value}` is not FUNCTION:CALL:STATUS"));
    let mut parts = value.split(':');
    let (Some(function), Some(call), Some(status), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let (Ok(call), Ok(status)) = (call.parse(), status.parse()) else { return Err(wrong()) };
    if function.is_empty() || call == 0 || CuResult(status).name().is_none() || status == 0 {
        return Err(wrong());
    }
    Ok(Fault { function: function.to_string(), call, status })
}

/// Reads `memory+race+init`, or `all` for these.
fn checks(value: &str) -> Result<Checks, OptionsError> {
    let parts = value.split('+').map(|part| match part {
        "all" => Ok(Checks { memory: true, race: true, init: true, same_value: false }),
        part => part.parse::<Checks>().map_err(|error| refused("sanitize", format!("{error}, all"))),
    });
    parts.into_iter().try_fold(Checks::default(), |all, part| Ok(all.or(part?)))
}

/// Reads `10s` or `500ms`.
fn duration(value: &str) -> Result<Duration, OptionsError> {
    let number = |text: &str| text.parse::<u32>().ok();
    let found = match value.strip_suffix("ms") {
        Some(text) => number(text).map(|count| Duration::from_millis(count.into())),
        None => value.strip_suffix('s').and_then(number).map(|count| Duration::from_secs(count.into())),
    };
    found.ok_or_else(|| refused("timeout", format!("`{value}` is not a time such as 10s or 500ms")))
}

impl FromStr for Options {
    type Err = OptionsError;

    /// Reads what [`VARIABLE`] may hold, such as `devices=2,sm=89,memory=8GiB,pools=off,order=random:7,host=poisoned`,
    /// `fail=cuLaunchKernel:7:700,timeout=10s,bounds=granule` or
    /// `threads=1,version=12040,trace=calls.txt,sanitize=memory+race+init`; each name that is absent has its default,
    /// and `fail` may come more than once.
    fn from_str(text: &str) -> Result<Self, OptionsError> {
        let mut options = Options::default();
        for setting in settings(text) {
            let setting = setting?;
            match setting.name {
                "devices" => options.devices = setting.number()?,
                "sm" => options.sm = setting.number()?,
                "memory" => options.memory = setting.bytes()?,
                "pools" => options.pools = setting.choice(&[("on", true), ("off", false)])?,
                "bounds" => {
                    let choices = [("exact", Bounds::Exact), ("vector", Bounds::Vector), ("granule", Bounds::Granule)];
                    options.bounds = setting.choice(&choices)?;
                }
                "version" => options.version = setting.number()?,
                "order" => {
                    options.order = match setting.value.split_once(':') {
                        Some(("random", seed)) => WorkOrder::Random(
                            seed.parse().map_err(|_| refused("order", format!("`{seed}` is not a seed")))?,
                        ),
                        _ => setting.choice(&[("ready", WorkOrder::Ready), ("random", WorkOrder::Random(0))])?,
                    }
                }
                "host" => options.has_poisoned_host = setting.choice(&[("plain", false), ("poisoned", true)])?,
                "threads" => options.threads = setting.number()?,
                "fail" => options.faults.push(fault(setting.value)?),
                "timeout" => options.timeout = Some(duration(setting.value)?),
                "sanitize" => options.sanitize = checks(setting.value)?,
                "trace" => options.trace = Some(PathBuf::from(setting.value)),
                _ => return Err(setting.unknown()),
            }
        }
        options.check()?;
        Ok(options)
    }
}

impl Options {
    /// The row of `TABLES` with the attributes of the devices.
    pub(crate) fn table(&self) -> usize {
        let name = format!("sm_{}", self.sm);
        // Other numbers are refused before.
        TABLES.iter().position(|(known, ..)| *known == name).unwrap_or(0)
    }

    /// Refuses numbers that no machine has.
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        if self.devices > MAX_DEVICES {
            return Err(refused("devices", format!("{} is more than {MAX_DEVICES}", self.devices)));
        }
        let name = format!("sm_{}", self.sm);
        if !TABLES.iter().any(|(known, ..)| *known == name) {
            let known: Vec<&str> = TABLES.iter().map(|(known, ..)| known.trim_start_matches("sm_")).collect();
            return Err(refused("sm", format!("`{}` is not one of {}", self.sm, known.join(", "))));
        }
        if self.memory < 1 << 20 {
            return Err(refused("memory", format!("{} bytes are less than 1 MiB", self.memory)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let text = "devices=2,sm=89,memory=1GiB,pools=off,bounds=granule,version=12040,order=random:7,host=poisoned,threads=1,\
                    fail=cuLaunchKernel:7:700,fail=cuMemAlloc:1:2,timeout=500ms,sanitize=all+race-same-value,trace=calls.txt";
        let expected = Options {
            devices: 2,
            sm: 89,
            memory: 1 << 30,
            pools: false,
            bounds: Bounds::Granule,
            version: 12_040,
            order: WorkOrder::Random(7),
            has_poisoned_host: true,
            threads: 1,
            faults: vec![
                Fault { function: "cuLaunchKernel".to_string(), call: 7, status: 700 },
                Fault { function: "cuMemAlloc".to_string(), call: 1, status: 2 },
            ],
            timeout: Some(Duration::from_millis(500)),
            sanitize: Checks { memory: true, race: true, same_value: true, init: true },
            trace: Some(PathBuf::from("calls.txt")),
        };
        assert_eq!(text.parse(), Ok(expected));
        assert_eq!("".parse(), Ok(Options::default()));
    }

    #[test]
    fn wrong_options_are_refused() {
        let cases = [
            ("devices", "`devices` has no `=`"),
            ("device=1", "there is no option `device`"),
            ("devices=17", "devices: 17 is more than 16"),
            ("sm=90", "sm: `90` is not one of 60, 80, 86, 89"),
            ("memory=1", "memory: 1 bytes are less than 1 MiB"),
            ("pools=no", "pools: `no` is not on or off"),
            ("bounds=no", "bounds: `no` is not exact, vector or granule"),
            ("order=random:x", "order: `x` is not a seed"),
            ("host=poison", "host: `poison` is not plain or poisoned"),
            ("order=any", "order: `any` is not ready or random"),
            ("fail=cuInit:1", "fail: `cuInit:1` is not FUNCTION:CALL:STATUS"),
            ("fail=cuInit:1:77", "fail: `cuInit:1:77` is not FUNCTION:CALL:STATUS"),
            ("sanitize=races", "sanitize: `races` is not one of memory, race, race-same-value, init, all"),
            ("timeout=5", "timeout: `5` is not a time such as 10s or 500ms"),
        ];
        for (text, error) in cases {
            let refused = text.parse::<Options>().expect_err(text);
            assert_eq!(refused.to_string(), error, "{text}");
        }
    }
}
