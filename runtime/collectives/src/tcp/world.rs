//! The processes of a program, as a device of one of them has them ([`World`]): it joins groups of all ranks.

use std::sync::Arc;
use std::time::Duration;

use super::member::TcpMember;
use super::process::Process;
use crate::hal::ChannelParams;
use crate::status::{Result, Status};
use crate::transport::Transport;

/// The most bytes of the id of a channel, and of the name of a group.
const MAX_ID: usize = 1024;

/// The processes of a program. Dropping it leaves them, but for groups that were joined.
#[derive(Debug)]
pub(crate) struct World(Arc<Process>);

impl World {
    /// The processes that meet at a host and port.
    pub(crate) fn new(meeting: &str, rank: u32, count: u32, limit: Duration, shares_memory: bool) -> World {
        World(Process::new(meeting, rank, count, limit, shares_memory))
    }

    /// Joins a group of all processes. It returns at once; failures of the meeting are those of the first round.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for another rank or count than this process has, RESOURCE_EXHAUSTED without a thread.
    pub(crate) fn join(&self, params: &ChannelParams, id: &[u8], rank: u32, count: u32) -> Result<Arc<dyn Transport>> {
        let process = &self.0;
        let (own_rank, own_count) = process.rank_and_count();
        if (rank, count) != (own_rank, own_count) {
            return Err(Status::invalid_argument(format!(
                "a channel of rank {rank} of {count} in the process of rank {own_rank} of {own_count}"
            )));
        }
        if id.len().max(params.group.len()) > MAX_ID {
            let (id, group) = (id.len(), params.group.len());
            let message =
                format!("a channel with an id of {id} and a name of {group} bytes: expected at most {MAX_ID}");
            return Err(Status::invalid_argument(message));
        }
        let group = process.next_group(id, &params.group);
        Ok(Arc::new(TcpMember::new(process, group, (0..count).collect(), rank)?))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.0.leave();
    }
}
