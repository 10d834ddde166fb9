//! Members of a group connect to each other ([`Process::connect`]), and agree on memory for data between processes of
//! one host.
//!
//! A member connects to all before it, with an offer of memory where the address is its own. Then it answers those
//! after it, each as it comes; then it hears the answers of those before it, and last what those after it say to its
//! own. Each step waits only for earlier steps of others, so they do not wait in a circle.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::connection::Connection;
use super::exchange::Mesh;
use super::patience::{Patience, too_late};
use super::process::{GroupId, Process, connect};
use super::shared::Offer;
use super::wire::{FrameKind, OFFER, Reader, frame};
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
        let identity = [&id[..], &me.to_le_bytes()].concat();
        let (mut offered, mut answered) = (Vec::new(), Vec::new());
        // The earlier member of each two listens.
        for (rank, member) in (0..me).zip(members) {
            let address = addresses[*member as usize];
            let connection = reach(address, name(rank), deadline)?;
            let Some((offer, bytes)) = self.offer(&connection, count) else {
                connection.write(&frame(FrameKind::Join, &identity), patience)?;
                connections[rank as usize] = Some(connection);
                continue;
            };
            // It is there before anyone looks for it.
            let returns = reach(address, name(rank), deadline)?;
            returns.write(&frame(FrameKind::Returns, &identity), patience)?;
            connection.write(&frame(FrameKind::Join, &[&identity[..], &bytes].concat()), patience)?;
            offered.push((rank, connection, offer, returns));
        }
        for rank in me + 1..count {
            let found = self.wait_for(deadline, |arrived| arrived.members.remove(&(id, rank)));
            let (connection, theirs) = found.ok_or_else(|| too_late(limit, &name(rank)))?;
            let connection = connection.named(name(rank));
            let Some(theirs) = theirs else {
                connections[rank as usize] = Some(connection);
                continue;
            };
            let own =
                self.offer(&connection, count).and_then(|(offer, bytes)| Some((offer.open(&theirs)?, offer, bytes)));
            let bytes: &[u8] = own.as_ref().map_or(&[], |(_, _, bytes)| bytes);
            connection.write(&frame(FrameKind::Offer, bytes), patience)?;
            match own {
                Some((other, offer, _)) => answered.push((rank, connection, offer, other)),
                None => connections[rank as usize] = Some(connection),
            }
        }
        for (rank, connection, offer, returns) in offered {
            let other = answer(&connection, &offer, patience)?;
            connections[rank as usize] = Some(match other {
                Some(other) => connection.with_shared(offer.with(other, returns.into_stream())),
                None => connection,
            });
        }
        for (rank, connection, offer, other) in answered {
            let is_open = !connection.frame(FrameKind::Offer, 1, patience)?.is_empty();
            let returns = self.wait_for(deadline, |arrived| arrived.returns.remove(&(id, rank)));
            let returns = returns.ok_or_else(|| too_late(limit, &name(rank)))?;
            connections[rank as usize] = Some(match is_open {
                true => connection.with_shared(offer.with(other, returns.into_stream())),
                false => connection,
            });
        }
        Ok(Mesh { connections, me: me as usize })
    }

    /// Memory for the peer, if it is a process of this host.
    fn offer(&self, connection: &Connection, count: u32) -> Option<(Offer, [u8; OFFER])> {
        let wants = self.shares_memory && connection.is_of_this_host();
        let offer = wants.then(|| Offer::new(count)).flatten()?;
        let bytes = offer.bytes()?;
        Some((offer, bytes))
    }
}

/// Hears what a member before this one says to an offer, and tells it whether its own is usable.
fn answer(connection: &Connection, offer: &Offer, patience: Patience<'_>) -> Result<Option<File>> {
    let theirs = connection.frame(FrameKind::Offer, OFFER as u64, patience)?;
    if theirs.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader(&theirs);
    let bytes = reader.array().map_err(|status| status.context(connection.name()))?;
    let other = offer.open(&bytes);
    let answer: &[u8] = if other.is_some() { &[1] } else { &[] };
    connection.write(&frame(FrameKind::Offer, answer), patience)?;
    Ok(other)
}

/// A connection to the member of this name.
fn reach(address: SocketAddr, name: String, deadline: Instant) -> Result<Connection> {
    loop {
        match connect(address, deadline) {
            Ok(stream) => return Connection::new(stream, name),
            // Many may connect to it at once.
            Err(error) if error.kind() == io::ErrorKind::TimedOut && Instant::now() < deadline => {}
            Err(error) => {
                let message = format!("{name} cannot be reached: {error}");
                return Err(Status::new(StatusCode::Aborted, message));
            }
        }
    }
}
