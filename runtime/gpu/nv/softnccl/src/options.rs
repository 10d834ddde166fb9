//! The options that the environment has ([`Options`]).

use std::sync::OnceLock;
use std::time::Duration;

use vireo_collectives::DEFAULT_LIMIT;

use crate::status::{Failure, Outcome};

/// The environment variable with the options: `host=ADDRESS` is where ranks of other processes reach this one, and
/// `seconds=N` how long ranks wait for each other.
pub const VARIABLE: &str = "VIREO_SOFTNCCL";

/// The options.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) host: String,
    pub(crate) limit: Duration,
}

impl Options {
    fn parse(text: &str) -> Outcome<Options> {
        let mut options = Options { host: "127.0.0.1".to_string(), limit: DEFAULT_LIMIT };
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let wrong = || Failure::usage(format!("{VARIABLE}: {option:?}: expected host=ADDRESS or seconds=N"));
            match option.split_once('=') {
                Some(("host", host)) if !host.is_empty() => options.host = host.to_string(),
                Some(("seconds", seconds)) => {
                    let seconds = seconds.parse::<u32>().ok().filter(|seconds| *seconds > 0).ok_or_else(wrong)?;
                    options.limit = Duration::from_secs(seconds.into());
                }
                _ => return Err(wrong()),
            }
        }
        Ok(options)
    }
}

/// The options of the process.
pub(crate) fn options() -> Outcome<&'static Options> {
    static OPTIONS: OnceLock<Outcome<Options>> = OnceLock::new();
    let options = OPTIONS.get_or_init(|| Options::parse(&std::env::var(VARIABLE).unwrap_or_default()));
    options.as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_or_refused_by_name() {
        let options = Options::parse("host=10.0.0.1,seconds=3").expect("options");
        assert_eq!((options.host.as_str(), options.limit), ("10.0.0.1", Duration::from_secs(3)));
        for wrong in ["seconds=0", "seconds=x", "host=", "other=1", "host"] {
            assert!(Options::parse(wrong).expect_err("a failure").text.contains(wrong), "{wrong}");
        }
    }
}
