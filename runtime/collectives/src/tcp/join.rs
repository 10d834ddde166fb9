//! Members of a group connect to each other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::connection::{Connection, Patience, too_late};
use super::exchange::Mesh;
use super::process::{GroupId, Process, connect};
use super::wire::{FrameKind, frame};
use crate::status::{Result, Status, StatusCode};

impl Process {
    /// Connects to the other members of a group. `members` are their ranks among the processes.
    pub(super) fn connect(self: &Arc<Self>, id: GroupId, members: &[u32], me: u32) -> Result<Mesh> {
        let (count, deadline) = (members.len() as u32, self.deadline());
        let mut connections: Vec<Option<Connection>> = members.iter().map(|_| None).collect();
        let name = |rank: u32| format!("rank {rank} of {count} ranks");
        let addresses = self.addresses()?;
        let (failed, limit) = (AtomicBool::new(false), self.limit);
        let patience = Patience { deadline, limit, failed: &failed };
        // The earlier member of each two listens.
        for (rank, member) in (0..me).zip(members) {
            let stream = loop {
                match connect(addresses[*member as usize], deadline) {
                    Ok(stream) => break stream,
                    // Many may connect to it at once.
                    Err(error) if error.kind() == io::ErrorKind::TimedOut && Instant::now() < deadline => {}
                    Err(error) => {
                        let message = format!("{} cannot be reached: {error}", name(rank));
                        return Err(Status::new(StatusCode::Aborted, message));
                    }
                }
            };
            let connection = Connection::new(stream, name(rank))?;
            connection.write(&frame(FrameKind::Join, &[&id[..], &me.to_le_bytes()].concat()), patience)?;
            connections[rank as usize] = Some(connection);
        }
        for rank in me + 1..count {
            let found = self.wait_for(deadline, |arrived| arrived.members.remove(&(id, rank)));
            let connection = found.ok_or_else(|| too_late(limit, &name(rank)))?;
            connections[rank as usize] = Some(connection.named(name(rank)));
        }
        Ok(Mesh { connections, me: me as usize })
    }
}
