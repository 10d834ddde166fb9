//! The flags of the security policy and its limits, part of the command line of every command that runs programs.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use vireo::interp::{Limits, Tier};
use vireo::{MemoryBudget, SecurityPolicy};

/// Flags of all commands that run programs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
pub struct PolicyArguments {
    /// Trust the program with nothing: only bytecode and kernels in portable bytecode run, plugins are refused,
    /// parameters cannot be written, and time and memory are limited.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub untrusted: bool,
    /// Do not confine the process under --untrusted. On Linux it gives up files, the network and other processes before
    /// the program runs, by Landlock and seccomp; this is for kernels without them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub no_confine: bool,
    /// Most time that a call may take, in seconds, until its results are there. Without it there is no limit, or with
    /// --untrusted ten seconds.
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<Seconds>,
    /// Most memory that programs, with their buffers on devices, may use at a time. Without it there is no limit, or
    /// with --untrusted 1 GiB.
    #[arg(long, value_name = "BYTES")]
    pub max_memory_bytes: Option<u64>,
    /// Bytes of the stack of a call. Without it 8 MiB.
    #[arg(long, value_name = "BYTES")]
    pub max_stack_bytes: Option<usize>,
}

/// A time.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seconds, String> {
        let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
        let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        duration.map(Seconds).ok_or_else(|| "expected seconds above zero, such as `10` or `0.5`".to_string())
    }
}

impl PolicyArguments {
    /// The policy of a session of its own, whose programs `tier` runs.
    pub fn policy(&self, tier: Tier) -> SecurityPolicy {
        let policy = if self.untrusted { SecurityPolicy::untrusted() } else { SecurityPolicy::trusted() };
        let limits = Limits {
            tier,
            timeout: self.timeout.map(|seconds| seconds.0).or(policy.limits.timeout),
            memory: self.max_memory_bytes.map(MemoryBudget::new).or(policy.limits.memory),
            stack_bytes: self.max_stack_bytes.unwrap_or(policy.limits.stack_bytes),
            ..policy.limits
        };
        SecurityPolicy { limits, ..policy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_above_zero() {
        assert_eq!("0.5".parse::<Seconds>().map(|seconds| seconds.0), Ok(Duration::from_millis(500)));
        assert_eq!("10s".parse::<Seconds>().map(|seconds| seconds.0), Ok(Duration::from_secs(10)));
        for text in ["", "0", "-1", "nan", "inf", "1e300", "ten"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }
}
