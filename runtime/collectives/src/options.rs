//! How the ranks of a program find each other ([`CollectiveOptions`]), as flags and launchers say it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::operation::MAX_RANKS;
use crate::status::{Result, Status};

/// How long a rank waits for the others, unless options say otherwise.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(300);

/// The variables in which launchers of MPI programs pass the rank and the number of ranks.
const LAUNCHERS: [(&str, &str); 2] = [("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")];

/// The place where ranks meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// In this process, under a name.
    Process(String),
    /// At a host and port, which rank 0 listens at.
    Tcp(String),
}

/// How the ranks of a program find each other.
///
/// As a text it is `tcp://HOST:PORT` or `process://NAME`, followed by `,RANK,COUNT` unless a launcher passes these, by
/// `,SECONDS` for another limit, and by `,no_shared_memory` if all data go through connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveOptions {
    /// The place where they meet.
    pub meeting: Meeting,
    /// The rank and the number of ranks, for channels that say neither.
    pub rank_and_count: Option<(u32, u32)>,
    /// How long a rank waits for the others.
    pub limit: Duration,
    /// Whether large data between processes of one host go through memory that both have, where the system has that,
    /// and not through their connection.
    pub shares_memory: bool,
}

/// The last field of a text without shared memory.
const NO_SHARED_MEMORY: &str = "no_shared_memory";

impl CollectiveOptions {
    /// Adds the rank and the number of ranks that a launcher of MPI programs passes, unless they are there. `variable`
    /// reads a variable of the environment.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for variables that are no rank and number of ranks.
    pub fn with_launcher(mut self, variable: impl Fn(&str) -> Option<String>) -> Result<CollectiveOptions> {
        if self.rank_and_count.is_some() {
            return Ok(self);
        }
        for (rank_name, count_name) in LAUNCHERS {
            if let (Some(rank), Some(count)) = (variable(rank_name), variable(count_name)) {
                let pair = rank_and_count(&rank, &count);
                self.rank_and_count =
                    Some(pair.map_err(|status| status.context(format!("{rank_name} and {count_name}")))?);
                break;
            }
        }
        Ok(self)
    }
}

/// A rank and a number of ranks.
fn rank_and_count(rank: &str, count: &str) -> Result<(u32, u32)> {
    let numbers = rank.parse::<u32>().ok().zip(count.parse::<u32>().ok());
    numbers.filter(|(rank, count)| rank < count && *count <= MAX_RANKS).ok_or_else(|| {
        Status::invalid_argument(format!(
            "rank {rank:?} of {count:?} ranks: expected a number of ranks from 1 to {MAX_RANKS}, and a rank below it"
        ))
    })
}

impl FromStr for CollectiveOptions {
    type Err = Status;

    fn from_str(text: &str) -> Result<CollectiveOptions> {
        let expected = || {
            Status::invalid_argument(format!(
                "{text:?}: expected tcp://HOST:PORT or process://NAME, and then ,RANK,COUNT or ,RANK,COUNT,SECONDS, \
                 and then ,{NO_SHARED_MEMORY}"
            ))
        };
        let without = text.strip_suffix(NO_SHARED_MEMORY).and_then(|rest| rest.strip_suffix(','));
        let mut fields = without.unwrap_or(text).split(',');
        let meeting = fields.next().unwrap_or_default();
        let meeting = match meeting.split_once("://") {
            Some(("tcp", address))
                if address
                    .rsplit_once(':')
                    .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) =>
            {
                Meeting::Tcp(address.to_string())
            }
            Some(("process", name)) => Meeting::Process(name.to_string()),
            _ => return Err(expected()),
        };
        let rest: Vec<&str> = fields.collect();
        let (pair, seconds) = match rest[..] {
            [] => (None, None),
            [rank, count] => (Some(rank_and_count(rank, count)?), None),
            [rank, count, seconds] => (Some(rank_and_count(rank, count)?), Some(seconds)),
            _ => return Err(expected()),
        };
        let limit = match seconds {
            None => DEFAULT_LIMIT,
            Some(seconds) => {
                let seconds = seconds.parse::<u32>().ok().filter(|seconds| *seconds > 0).ok_or_else(expected)?;
                Duration::from_secs(seconds.into())
            }
        };
        Ok(CollectiveOptions { meeting, rank_and_count: pair, limit, shares_memory: without.is_none() })
    }
}

impl fmt::Display for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meeting::Process(name) => write!(f, "process://{name}"),
            Meeting::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}
