//! The membership in a group whose members are in several processes ([`TcpMember`]): a thread that connects to the
//! other members and runs the rounds at which this rank arrives, one after the other.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::exchange::{self, Mesh};
use super::patience::{Patience, too_late};
use super::process::{GroupId, Process, identity, no_thread};
use super::wire::{FrameKind, MAX_FACTS, end_bytes, facts_bytes, frame, parse_facts};
use crate::agreement::{Agreed, Facts, agree, split_members};
use crate::hal::ChannelRank;
use crate::span::Contribution;
use crate::status::{Result, Status, StatusCode};
use crate::transport::{Completion, Outcome, Transport};

/// How long a member that leaves waits for the others to notice.
const FAREWELL: Duration = Duration::from_secs(1);

/// The arrival at a round.
type Arrival = (u64, Contribution, Completion);

/// The membership of this process in a group.
pub(super) struct TcpMember {
    rank: u32,
    count: u32,
    arrivals: Sender<Arrival>,
    /// The number of peers with which it shares memory, once it is connected.
    shares: Arc<OnceLock<usize>>,
}

/// The thread of a membership.
struct Worker {
    process: Arc<Process>,
    id: GroupId,
    /// The ranks of the members among the processes.
    members: Vec<u32>,
    me: u32,
    shares: Arc<OnceLock<usize>>,
}

impl TcpMember {
    /// Joins a group as its member `me`.
    pub(super) fn new(process: &Arc<Process>, id: GroupId, members: Vec<u32>, me: u32) -> Result<TcpMember> {
        let (arrivals, received) = channel();
        // A group has no more than the limit of ranks.
        let (rank, count) = (me, members.len() as u32);
        let shares = Arc::new(OnceLock::new());
        let worker = Worker { process: process.clone(), id, members, me, shares: shares.clone() };
        let thread = thread::Builder::new().name("vireo-collectives".into());
        thread.spawn(move || worker.run(&received)).map_err(no_thread)?;
        Ok(TcpMember { rank, count, arrivals, shares })
    }
}

impl Transport for TcpMember {
    fn rank_and_count(&self) -> ChannelRank {
        ChannelRank { rank: self.rank.cast_signed(), count: self.count.cast_signed() }
    }

    fn arrive(&self, round: u64, contribution: Contribution, completion: Completion) {
        if let Err(unsent) = self.arrivals.send((round, contribution, completion)) {
            let (_, _, completion) = unsent.0;
            completion(Err(Status::internal("the thread of a group has ended")));
        }
    }
}

impl fmt::Debug for TcpMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} in processes", self.rank, self.count)?;
        match self.shares.get() {
            Some(shares) => write!(f, ", with memory shared by {shares} of the others"),
            None => f.write_str(", not connected yet"),
        }
    }
}

impl Worker {
    fn run(self, arrivals: &Receiver<Arrival>) {
        let mut mesh = self.process.connect(self.id, &self.members, self.me);
        if let Ok(mesh) = &mesh {
            let _ = self.shares.set(mesh.connections.iter().flatten().filter(|other| other.is_shared()).count());
        }
        let (mut waiting, mut next) = (BTreeMap::new(), 0);
        while let Ok((round, contribution, completion)) = arrivals.recv() {
            waiting.insert(round, (contribution, completion));
            while let Some((contribution, completion)) = waiting.remove(&next) {
                let outcome = match &mesh {
                    Ok(connected) => self.round(connected, next, contribution),
                    Err(failure) => Err(failure.clone()),
                };
                next += 1;
                match outcome {
                    Ok(outcome) => completion(outcome),
                    Err(failure) => {
                        let left = std::mem::replace(&mut mesh, Err(failure.clone()));
                        let left = left.inspect(|left| finish(left, &failure));
                        completion(Err(failure));
                        left.iter().for_each(drain);
                    }
                }
            }
        }
        let (rank, count) = (self.me, self.members.len());
        let message = format!("rank {rank} of {count} ranks has left the group");
        let failure = Status::new(StatusCode::Aborted, message);
        mesh.iter().for_each(|left| finish(left, &failure));
        for (_, completion) in waiting.into_values() {
            completion(Err(failure.clone()));
        }
        mesh.iter().for_each(drain);
    }

    /// Runs a round. The outer failure is one after which the ranks do not know where they are.
    fn round(&self, mesh: &Mesh, round: u64, contribution: Contribution) -> Result<Result<Outcome>> {
        let (limit, failed) = (self.process.limit, AtomicBool::new(false));
        let now = Instant::now();
        let deadline = now.checked_add(limit).unwrap_or(now + Duration::from_secs(1 << 30));
        let patience = Patience { deadline, limit, failed: &failed };
        let contribution = contribution.checked(self.me, mesh.count() as u32);
        let facts = compare(mesh, round, contribution.facts(), patience)?;
        let all: Vec<&Facts> = facts.iter().collect();
        match agree(&all) {
            Err(failure) => Ok(Err(failure)),
            Ok(Agreed::Operations) => {
                exchange::run(mesh, &facts, contribution.operations(), patience)?;
                Ok(Ok(Outcome::Done))
            }
            Ok(Agreed::Split(colors)) => Ok(self.split(round, &colors)),
        }
    }

    /// Joins the new group of a split.
    fn split(&self, round: u64, colors: &[(i32, i32)]) -> Result<Outcome> {
        for (color, ranks) in split_members(colors) {
            if let Some(me) = ranks.iter().position(|rank| *rank == self.me) {
                let id = identity(&[&self.id, &round.to_le_bytes(), &color.to_le_bytes()]);
                let members = ranks.iter().map(|rank| self.members[*rank as usize]).collect();
                let member = TcpMember::new(&self.process, id, members, me as u32)?;
                return Ok(Outcome::Split(Some(Arc::new(member))));
            }
        }
        Ok(Outcome::Split(None))
    }
}

/// Tells the contribution to the others, and hears theirs.
fn compare(mesh: &Mesh, round: u64, own: Facts, patience: Patience<'_>) -> Result<Vec<Facts>> {
    let bytes = frame(FrameKind::Facts, &facts_bytes(round, &own));
    let mut facts: Vec<Option<Facts>> = mesh.connections.iter().map(|_| None).collect();
    facts[mesh.me] = Some(own);
    let others = || (0..).zip(&mesh.connections).filter_map(|(rank, other)| other.as_ref().map(|other| (rank, other)));
    // A rank that left is named by who reads from it, too: its last words say why.
    let mut unsent = None;
    for (_, other) in others() {
        if let Err(failure) = other.write(&bytes, patience) {
            unsent.get_or_insert(failure);
        }
    }
    // All are looked at in turn, so that one that has left or failed is found even if another one is late.
    while facts.iter().any(Option::is_none) {
        for (rank, other) in others() {
            if facts[rank].is_some() {
                continue;
            }
            if !other.has_sent()? {
                // One that had come may have given up since.
                let come = others().filter(|(rank, _)| facts[*rank].is_some());
                come.into_iter().try_for_each(|(_, other)| other.check_end(patience))?;
                continue;
            }
            let bytes = other.frame(FrameKind::Facts, MAX_FACTS, patience)?;
            let parsed = parse_facts(&bytes, round, rank as u32, mesh.count() as u32);
            facts[rank] = Some(parsed.map_err(|status| status.context(other.name()))?);
        }
        if facts.iter().any(Option::is_none) && Instant::now() >= patience.deadline {
            let missing: Vec<String> =
                others().filter(|(rank, _)| facts[*rank].is_none()).map(|(rank, _)| rank.to_string()).collect();
            let names = format!("rank {} of {} ranks", missing.join(", "), mesh.count());
            return Err(too_late(patience.limit, &names));
        }
    }
    match unsent {
        Some(failure) => Err(failure),
        None => Ok(facts.into_iter().flatten().collect()),
    }
}

/// Tells the others that this rank gives up.
fn finish(mesh: &Mesh, failure: &Status) {
    let end = frame(FrameKind::End, &end_bytes(failure));
    mesh.connections.iter().flatten().for_each(|other| other.finish(&end));
}

/// Waits until the others have ended, too.
fn drain(mesh: &Mesh) {
    let deadline = Instant::now() + FAREWELL;
    mesh.connections.iter().flatten().for_each(|other| other.drain(deadline));
}
