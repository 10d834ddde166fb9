//! A process of a program ([`Process`]): all meet at rank 0, which tells each the addresses of all. Afterwards the
//! members of each group connect to each other.
//!
//! A process listens on one port; each caller has a few seconds to say which rank it is. Rank 0 listens where the
//! options say, the others on the address from which they reach rank 0.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::patience::{Patience, SLICE, too_late};
use super::wire::{FrameKind, OFFER, Reader, end_bytes, frame};
use crate::status::{Result, Status, StatusCode};

/// How long a caller has to say who it is.
const GREETING: Duration = Duration::from_secs(5);
/// The most callers that have yet to say who they are.
const MAX_CALLERS: usize = 64;
/// The most bytes of a greeting.
const MAX_GREETING: u64 = 20 + OFFER as u64;
/// The most connections of members that this process is yet to expect.
const MAX_WAITING: usize = 4096;
/// The longest wait for one attempt to connect, and the pause before the next one.
const ATTEMPT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of an address of a rank.
const ADDRESS: usize = 18;

/// The identity of a group, which all members compute alike.
pub(super) type GroupId = [u8; 16];

/// This process.
#[derive(Debug)]
pub(super) struct Process {
    /// The host and port where rank 0 listens.
    meeting: String,
    rank: u32,
    count: u32,
    /// How long a rank waits for others.
    pub(super) limit: Duration,
    /// Whether data go through memory to processes of this host.
    pub(super) shares_memory: bool,
    /// The addresses of all ranks, once they have met.
    addresses: OnceLock<Result<Vec<SocketAddr>>>,
    /// The address of the listener, to wake it when the process leaves.
    listens: OnceLock<SocketAddr>,
    has_left: AtomicBool,
    callers: AtomicUsize,
    arrived: Mutex<Arrived>,
    changed: Condvar,
    /// How many groups with an id this process has joined.
    joined: Mutex<BTreeMap<GroupId, u64>>,
}

/// The connections of callers that have said who they are.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    /// The ranks that came to the meeting, with the addresses at which they listen. None before and after it.
    meeting: Option<BTreeMap<u32, (Connection, SocketAddr)>>,
    /// The failure of the meeting.
    disagreement: Option<Status>,
    /// Members of groups, by the group and their rank in it.
    pub(super) members: BTreeMap<(GroupId, u32), Arrival>,
    /// The connections through which members give back places in memory.
    pub(super) returns: BTreeMap<(GroupId, u32), Connection>,
}

/// The connection of a member, and the memory that it offers.
pub(super) type Arrival = (Connection, Option<[u8; OFFER]>);

/// A number of 128 bits for parts of an identity (FNV-1a). It tells the groups of one program apart; it is no secret.
pub(super) fn identity(parts: &[&[u8]]) -> GroupId {
    let add =
        |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B);
    let start = 0x6C62_272E_07BB_0142_62B8_2175_6295_C58D;
    let all = parts.iter().fold(start, |hash, part| {
        let length = (part.len() as u64).to_le_bytes();
        part.iter().fold(length.iter().fold(hash, add), add)
    });
    all.to_le_bytes()
}

impl Process {
    /// The process of a rank, which meets the others at a host and port.
    pub(super) fn new(meeting: &str, rank: u32, count: u32, limit: Duration, shares_memory: bool) -> Arc<Process> {
        Arc::new(Process {
            meeting: meeting.to_string(),
            rank,
            count,
            limit,
            shares_memory,
            addresses: OnceLock::new(),
            listens: OnceLock::new(),
            has_left: AtomicBool::new(false),
            callers: AtomicUsize::new(0),
            arrived: Mutex::default(),
            changed: Condvar::new(),
            joined: Mutex::default(),
        })
    }

    /// The rank, and the number of ranks.
    pub(super) fn rank_and_count(&self) -> (u32, u32) {
        (self.rank, self.count)
    }

    /// The identity of the next group of all processes with an id and a name.
    pub(super) fn next_group(&self, id: &[u8], name: &str) -> GroupId {
        let named = identity(&[id, name.as_bytes()]);
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let number = joined.entry(named).or_default();
        *number += 1;
        identity(&[&named, &number.to_le_bytes()])
    }

    /// Stops to listen.
    pub(super) fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
        if let Some(address) = self.listens.get() {
            // The listener wakes up for one more caller.
            let ip = match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
                ip => ip,
            };
            let _ = TcpStream::connect_timeout(&SocketAddr::new(ip, address.port()), ATTEMPT);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `found` finds something, or the deadline; none then.
    pub(super) fn wait_for<T>(&self, deadline: Instant, mut found: impl FnMut(&mut Arrived) -> Option<T>) -> Option<T> {
        let mut arrived = self.lock();
        loop {
            if let Some(found) = found(&mut arrived) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            arrived = self.changed.wait_timeout(arrived, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The addresses of all ranks. The first call meets them, others wait for that.
    pub(super) fn addresses(self: &Arc<Self>) -> Result<&[SocketAddr]> {
        let met = self.addresses.get_or_init(|| {
            if self.count == 1 {
                return Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)]);
            }
            if self.rank == 0 { self.host_meeting() } else { self.come_to_meeting() }
        });
        met.as_deref().map_err(|failure| failure.clone().context(format!("the meeting at tcp://{}", self.meeting)))
    }

    /// Meets all other ranks, and tells them each other's addresses.
    fn host_meeting(self: &Arc<Self>) -> Result<Vec<SocketAddr>> {
        let deadline = self.deadline();
        self.lock().meeting = Some(BTreeMap::new());
        let listener = TcpListener::bind(&self.meeting)
            .map_err(|error| Status::new(StatusCode::Unavailable, format!("it cannot be listened at: {error}")))?;
        self.listen(listener)?;
        let all = self.count as usize - 1;
        let outcome = self.wait_for(deadline, |arrived| {
            let is_over =
                arrived.disagreement.is_some() || arrived.meeting.as_ref().is_some_and(|met| met.len() == all);
            is_over.then_some(())
        });
        let (met, disagreement) = {
            let mut arrived = self.lock();
            (arrived.meeting.take().unwrap_or_default(), arrived.disagreement.take())
        };
        let failure = disagreement.or_else(|| {
            let missing: Vec<String> =
                (1..self.count).filter(|rank| !met.contains_key(rank)).map(|rank| rank.to_string()).collect();
            let names = || format!("rank {} of {} ranks", missing.join(", "), self.count);
            (outcome.is_none() && !missing.is_empty()).then(|| too_late(self.limit, &names()))
        });
        if let Some(failure) = failure {
            met.values().for_each(|(connection, _)| connection.finish(&frame(FrameKind::End, &end_bytes(&failure))));
            return Err(failure);
        }
        // Each rank knows where rank 0 is, since it came there.
        let mut addresses = vec![SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)];
        addresses.extend(met.values().map(|(_, address)| *address));
        let bytes: Vec<u8> = addresses.iter().flat_map(address_bytes).collect();
        let (failed, limit) = (AtomicBool::new(false), self.limit);
        let patience = Patience { deadline, limit, failed: &failed };
        met.values()
            .try_for_each(|(connection, _)| connection.write(&frame(FrameKind::Addresses, &bytes), patience))?;
        Ok(addresses)
    }

    /// Goes to rank 0, and learns the addresses of all.
    fn come_to_meeting(self: &Arc<Self>) -> Result<Vec<SocketAddr>> {
        let deadline = self.deadline();
        let unreachable = |error: io::Error| {
            let message = format!("{}: {error}", too_late(self.limit, "rank 0").message());
            Status::new(StatusCode::DeadlineExceeded, message)
        };
        let stream = loop {
            match connect(&self.meeting, deadline) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() + PAUSE >= deadline => return Err(unreachable(error)),
                // Rank 0 may not listen yet.
                Err(_) => thread::sleep(PAUSE),
            }
        };
        let [own, host] = [stream.local_addr(), stream.peer_addr()].map(|address| address.map_err(unreachable));
        let (own, host) = (own?, host?);
        let listener = TcpListener::bind(SocketAddr::new(own.ip(), 0)).map_err(|error| {
            Status::new(StatusCode::Unavailable, format!("no port to listen at on {}: {error}", own.ip()))
        })?;
        let port = self.listen(listener)?.port();
        let connection = Connection::new(stream, self.name(0))?;
        let (failed, limit) = (AtomicBool::new(false), self.limit);
        let patience = Patience { deadline, limit, failed: &failed };
        let greeting: Vec<u8> =
            [self.rank, self.count, port.into()].iter().flat_map(|number| number.to_le_bytes()).collect();
        connection.write(&frame(FrameKind::Meet, &greeting), patience)?;
        let length = self.count as usize * ADDRESS;
        let bytes = connection.frame(FrameKind::Addresses, length as u64, patience)?;
        let mut reader = Reader(&bytes);
        let mut addresses = (0..self.count).map(|_| read_address(&mut reader)).collect::<Result<Vec<SocketAddr>>>()?;
        reader.end()?;
        addresses[0] = host;
        Ok(addresses)
    }

    pub(super) fn deadline(&self) -> Instant {
        // A limit that is beyond the end of time is a long one.
        let now = Instant::now();
        now.checked_add(self.limit).unwrap_or(now + Duration::from_secs(1 << 30))
    }

    fn name(&self, rank: u32) -> String {
        format!("rank {rank} of {} ranks", self.count)
    }

    /// Begins to listen for callers, and returns the address.
    fn listen(self: &Arc<Self>, listener: TcpListener) -> Result<SocketAddr> {
        let address = listener
            .local_addr()
            .map_err(|error| Status::new(StatusCode::Unavailable, format!("a listener without address: {error}")))?;
        let process = self.clone();
        let thread = thread::Builder::new().name("vireo-collectives-listen".into());
        thread.spawn(move || process.accept(&listener)).map_err(no_thread)?;
        // It listens once.
        let _ = self.listens.set(address);
        Ok(address)
    }

    /// Accepts callers until the process leaves.
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        while !self.has_left.load(Ordering::Acquire) {
            let Ok((stream, address)) = listener.accept() else {
                // Such as too many open files.
                thread::sleep(SLICE);
                continue;
            };
            if self.has_left.load(Ordering::Acquire) {
                return;
            }
            // The system keeps the others waiting. Only this thread adds callers.
            while self.callers.load(Ordering::Acquire) >= MAX_CALLERS {
                thread::sleep(SLICE);
            }
            self.callers.fetch_add(1, Ordering::AcqRel);
            let process = self.clone();
            let thread = thread::Builder::new().name("vireo-collectives-greet".into());
            let greeted = thread.spawn(move || {
                // A caller that is no rank concerns no rank.
                let _ = process.greet(stream, address);
                process.callers.fetch_sub(1, Ordering::AcqRel);
            });
            if greeted.is_err() {
                self.callers.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Hears who a caller is.
    fn greet(&self, stream: TcpStream, address: SocketAddr) -> Result<()> {
        let connection = Connection::new(stream, format!("a caller at {address}"))?;
        let failed = AtomicBool::new(false);
        let patience = Patience { deadline: Instant::now() + GREETING, limit: GREETING, failed: &failed };
        let (kind, bytes) = connection.greeting(MAX_GREETING, patience)?;
        let mut reader = Reader(&bytes);
        let refusal = match kind {
            FrameKind::Meet => {
                let [rank, count, port] = [reader.u32()?, reader.u32()?, reader.u32()?];
                reader.end()?;
                let port = u16::try_from(port).map_err(|_| Status::data_loss(format!("port {port}")))?;
                self.meet(connection, rank, count, SocketAddr::new(address.ip(), port))
            }
            FrameKind::Join => {
                let (group, rank) = (reader.array()?, reader.u32()?);
                let offer = if reader.0.is_empty() { None } else { Some(reader.array()?) };
                reader.end()?;
                let mut arrived = self.lock();
                if arrived.members.len() < MAX_WAITING {
                    arrived.members.entry((group, rank)).or_insert((connection, offer));
                    self.changed.notify_all();
                }
                None
            }
            FrameKind::Returns => {
                let (group, rank) = (reader.array()?, reader.u32()?);
                reader.end()?;
                let mut arrived = self.lock();
                if arrived.returns.len() < MAX_WAITING {
                    arrived.returns.entry((group, rank)).or_insert(connection);
                    self.changed.notify_all();
                }
                None
            }
            _ => None,
        };
        if let Some((connection, refusal)) = refusal {
            connection.finish(&frame(FrameKind::End, &end_bytes(&refusal)));
            connection.drain(patience.deadline);
        }
        Ok(())
    }

    /// A rank comes to the meeting. Returns its connection with the reason if it is refused.
    fn meet(&self, connection: Connection, rank: u32, count: u32, address: SocketAddr) -> Option<(Connection, Status)> {
        let mut arrived = self.lock();
        if arrived.meeting.is_some() && (count != self.count || rank == 0 || rank >= count) {
            // It is a rank that was started with other options, and not a stranger.
            let message = format!(
                "the ranks disagree: rank 0 meets as one of {} ranks, a rank at {} as rank {rank} of {count} ranks",
                self.count,
                address.ip()
            );
            let failure = Status::failed_precondition(message);
            arrived.disagreement = Some(failure.clone());
            self.changed.notify_all();
            return Some((connection, failure));
        }
        let Some(met) = &mut arrived.meeting else {
            return Some((connection, Status::failed_precondition("the ranks have met already")));
        };
        if let Some((_, other)) = met.get(&rank) {
            let message = format!("rank {rank} has come already, from {}", other.ip());
            return Some((connection, Status::failed_precondition(message)));
        }
        let connection = connection.named(self.name(rank));
        met.insert(rank, (connection, address));
        self.changed.notify_all();
        None
    }
}

/// Connects to an address before a deadline, in one attempt for each address that a name has.
pub(super) fn connect(address: impl ToSocketAddrs, deadline: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).min(ATTEMPT);
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The failure of the system to start a thread.
#[cold]
pub(super) fn no_thread(error: io::Error) -> Status {
    Status::resource_exhausted("no thread for collective operations").with_source(error)
}

fn address_bytes(address: &SocketAddr) -> [u8; ADDRESS] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; ADDRESS];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_le_bytes());
    bytes
}

fn read_address(reader: &mut Reader<'_>) -> Result<SocketAddr> {
    let ip = Ipv6Addr::from(reader.array::<16>()?);
    let port = u16::from_le_bytes(reader.array()?);
    Ok(SocketAddr::new(IpAddr::V6(ip).to_canonical(), port))
}
