//! The collectives of a device ([`Collectives`]): creates the channels that programs ask for, as its options say.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::channel::GroupChannel;
use crate::hal::{ChannelParams, ChannelProvider, ChannelRank};
use crate::in_process;
use crate::operation::MAX_RANKS;
use crate::options::{CollectiveOptions, DEFAULT_LIMIT, Meeting};
use crate::status::{Result, Status};
use crate::tcp::World;

/// The collectives of a device. Clones are for other devices of the same process: they share the options and what they
/// lead to, and each has its own provider of the host.
#[derive(Debug, Default)]
pub struct Collectives {
    shared: Arc<Shared>,
    /// A provider of the host, which is asked before the options.
    provider: Mutex<Option<Arc<dyn ChannelProvider>>>,
}

/// The part that the devices of a process share.
#[derive(Debug, Default)]
struct Shared {
    options: Option<CollectiveOptions>,
    /// The processes of the program, if they meet.
    world: OnceLock<World>,
}

impl Clone for Collectives {
    fn clone(&self) -> Collectives {
        Collectives { shared: self.shared.clone(), provider: Mutex::default() }
    }
}

impl Collectives {
    /// Collectives with these options. Without options, ranks of one process that say their number find each other.
    pub fn new(options: CollectiveOptions) -> Collectives {
        let shared = Arc::new(Shared { options: Some(options), world: OnceLock::new() });
        Collectives { shared, provider: Mutex::default() }
    }

    /// Lets channels that are created from here on ask another provider.
    pub fn replace_provider(&self, provider: &Arc<dyn ChannelProvider>) {
        *self.provider.lock().unwrap_or_else(PoisonError::into_inner) = Some(provider.clone());
    }

    /// The provider of the host, if there is one.
    pub fn provider(&self) -> Option<Arc<dyn ChannelProvider>> {
        self.provider.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long ranks wait for each other.
    pub fn limit(&self) -> Duration {
        self.shared.options.as_ref().map_or(DEFAULT_LIMIT, |options| options.limit)
    }

    /// Creates a channel.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a rank that is not one, or others than the group has; FAILED_PRECONDITION if the rank is
    /// not known; failures of a provider.
    pub fn channel(&self, params: &ChannelParams) -> Result<Arc<GroupChannel>> {
        let provider = self.provider();
        let (rank, count) = self.rank_and_count(params)?;
        let mut id = params.id.clone();
        if id.is_empty()
            && let Some(provider) = &provider
        {
            id = provider.exchange_default_id(&[])?;
        }
        let limit = self.limit();
        let transport = match self.shared.options.as_ref().map(|options| &options.meeting) {
            None => in_process::join(&group_id("", &id, &params.group), rank, count, limit),
            Some(Meeting::Process(name)) => in_process::join(&group_id(name, &id, &params.group), rank, count, limit),
            Some(Meeting::Tcp(meeting)) => {
                let options = self.shared.options.as_ref();
                let (own_rank, own_count) = options.and_then(|options| options.rank_and_count).unwrap_or((rank, count));
                let shares_memory = options.is_some_and(|options| options.shares_memory);
                let world = || World::new(meeting, own_rank, own_count, limit, shares_memory);
                let world = self.shared.world.get_or_init(world);
                world.join(params, &id, rank, count)
            }
        };
        Ok(GroupChannel::new(transport?))
    }

    /// The rank and count of a channel: those that the program says, or else those of the provider or of the options.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a rank that is not one; FAILED_PRECONDITION if the rank is not known; failures of a
    /// provider.
    pub fn rank_and_count(&self, params: &ChannelParams) -> Result<(u32, u32)> {
        let provider = self.provider();
        let ChannelParams { rank, count, .. } = *params;
        if (rank < 0) != (count < 0) {
            let message = format!("a channel of rank {rank} of {count}: expected both or neither");
            return Err(Status::invalid_argument(message));
        }
        let (rank, count) = match (rank >= 0, &provider, &self.shared.options) {
            (true, _, _) => (rank, count),
            (false, Some(provider), _) => {
                let ChannelRank { rank, count } = provider.default_rank_and_count()?;
                (rank, count)
            }
            (false, None, Some(CollectiveOptions { rank_and_count: Some((rank, count)), .. })) => {
                return Ok((*rank, *count));
            }
            (false, None, _) => {
                return Err(Status::failed_precondition(
                    "a channel without rank and count: neither the program, nor the options of collectives, nor a \
                     launcher of MPI programs say them",
                ));
            }
        };
        // Negative numbers become large ones.
        let (unsigned_rank, unsigned_count) = (rank.cast_unsigned(), count.cast_unsigned());
        if unsigned_count > MAX_RANKS || unsigned_rank >= unsigned_count {
            return Err(Status::invalid_argument(format!(
                "a channel of rank {rank} of {count}: expected a count from 1 to {MAX_RANKS}, and a rank below it"
            )));
        }
        Ok((unsigned_rank, unsigned_count))
    }
}

/// The id of a group in this process: where it meets, the id of the program and the name of the group, with their
/// lengths so that no two mean the same.
fn group_id(meeting: &str, id: &[u8], group: &str) -> Vec<u8> {
    let mut all = Vec::new();
    for part in [meeting.as_bytes(), id, group.as_bytes()] {
        all.extend_from_slice(&(part.len() as u64).to_le_bytes());
        all.extend_from_slice(part);
    }
    all
}
