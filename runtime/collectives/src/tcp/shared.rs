//! Data between processes of one host ([`SharedMemory`]): each process has a few chunks of memory that the other one
//! reads, instead of sending them through the connection.
//!
//! The memory is a file without a name, which a process writes and the other one reads by the system's calls: it is not
//! mapped, so a peer that changes or ends it can do no harm but wrong numbers. The file is found by process and
//! descriptor, which works where both see the same processes; the boot, the number of the file, its length and a
//! secret in it tell whether it is the right one. Where one of that fails, data go through the connection.
//!
//! A chunk is announced by a frame in the connection. The reader gives its place back through a second connection,
//! which only the thread that writes chunks reads: if both came through one, ranks could wait for each other in a
//! circle.

use std::fs::{File, OpenOptions, read_to_string};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::patience::{Patience, is_timeout, left};
use super::wire::{CHUNK, ID, OFFER, Reader};
use crate::status::{Result, Status, StatusCode};

/// The most chunks that the others have not read yet, of a rank and between two. More of them do not stay in the caches
/// of the processor.
const ALL_PLACES: u64 = 32;
const MAX_PLACES: u64 = 16;

/// The memory of this side of a connection, before the other one is known.
#[derive(Debug)]
pub(super) struct Offer {
    file: File,
    /// The number of chunks for which there is a place. The secret follows them.
    places: u64,
    boot: [u8; ID],
    secret: [u8; ID],
}

/// The memory of both sides of a connection.
#[derive(Debug)]
pub(super) struct SharedMemory {
    /// Where this side writes, and how many chunks it has written and got back.
    own: File,
    places: u64,
    written: AtomicU64,
    returned: AtomicU64,
    /// Where the other side writes, and how many chunks were read.
    other: File,
    read: AtomicU64,
    /// A byte for each chunk that was read.
    returns: TcpStream,
}

/// The number in a file of the system that has one of 128 bits.
fn number(path: &str) -> Option<[u8; ID]> {
    let digits: String = read_to_string(path).ok()?.trim().split('-').collect();
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

impl Offer {
    /// Memory for another process of this host, in a group of `count` ranks; none where the system has no such memory.
    pub(super) fn new(count: u32) -> Option<Offer> {
        // Many ranks have many pairs. Both sides come to the same.
        let places = (ALL_PLACES / u64::from(count.max(1))).clamp(1, MAX_PLACES);
        let end = places * CHUNK;
        let boot = number("/proc/sys/kernel/random/boot_id")?;
        let secret = number("/proc/sys/kernel/random/uuid")?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("vireo-collectives", flags).ok()?);
        // All of it is there from here on.
        file.write_all_at(&vec![0; end as usize], 0).ok()?;
        file.write_all_at(&secret, end).ok()?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).ok()?;
        Some(Offer { file, places, boot, secret })
    }

    /// The offer in bytes.
    pub(super) fn bytes(&self) -> Option<[u8; OFFER]> {
        let inode = self.file.metadata().ok()?.ino();
        let mut bytes = [0; OFFER];
        bytes[..ID].copy_from_slice(&self.boot);
        bytes[ID..ID + 4].copy_from_slice(&std::process::id().to_le_bytes());
        bytes[ID + 4..ID + 8].copy_from_slice(&self.file.as_raw_fd().to_le_bytes());
        bytes[ID + 8..ID + 16].copy_from_slice(&inode.to_le_bytes());
        bytes[ID + 16..].copy_from_slice(&self.secret);
        Some(bytes)
    }

    /// The memory of the other side, if this is a process of the same host and its offer is what it says.
    pub(super) fn open(&self, offer: &[u8; OFFER]) -> Option<File> {
        let mut reader = Reader(offer);
        let boot: [u8; ID] = reader.array().ok()?;
        let (process, descriptor, inode) = (reader.u32().ok()?, reader.u32().ok()?, reader.u64().ok()?);
        let secret: [u8; ID] = reader.array().ok()?;
        if boot != self.boot {
            return None;
        }
        let end = self.places * CHUNK;
        // Another file under this name may be one that waits for a writer, or for a terminal.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let facts = file.metadata().ok()?;
        if !facts.is_file() || (facts.ino(), facts.nlink(), facts.len()) != (inode, 0, end + ID as u64) {
            return None;
        }
        let mut found = [0; ID];
        file.read_exact_at(&mut found, end).ok()?;
        (found == secret).then_some(file)
    }

    /// The memory of both sides. Places come back through `returns`, a connection whose reads end after a while.
    pub(super) fn with(self, other: File, returns: TcpStream) -> SharedMemory {
        let [written, returned, read] = [0; 3].map(AtomicU64::new);
        SharedMemory { own: self.file, places: self.places, written, returned, other, read, returns }
    }
}

impl SharedMemory {
    /// Bytes that can be written before the other side reads.
    pub(super) fn room(&self) -> u64 {
        self.places * CHUNK
    }

    /// Writes the next chunk, once there is a place.
    ///
    /// # Errors
    /// ABORTED if the peer of this name has left, DEADLINE_EXCEEDED if it takes too long, DATA_LOSS if it gives back
    /// what it has not got.
    pub(super) fn write(&self, chunk: &[u8], name: &str, patience: Patience<'_>) -> Result<()> {
        let written = self.written.load(Ordering::Relaxed);
        let mut returned = self.returned.load(Ordering::Relaxed);
        while written - returned >= self.places {
            let mut bytes = [0; MAX_PLACES as usize + 1];
            match (&self.returns).read(&mut bytes) {
                Ok(0) => return Err(left(name)),
                Ok(count) => returned += count as u64,
                Err(error) if is_timeout(&error) => patience.check(name)?,
                Err(error) => return Err(left(name).with_source(error)),
            }
            if returned > written {
                let message = format!("{name}: {returned} chunks of memory came back, expected at most {written}");
                return Err(Status::data_loss(message));
            }
        }
        self.returned.store(returned, Ordering::Relaxed);
        self.own.write_all_at(chunk, written % self.places * CHUNK).map_err(|error| {
            let message = "no memory for data of a collective operation between processes";
            Status::new(StatusCode::ResourceExhausted, message).with_source(error)
        })?;
        self.written.store(written + 1, Ordering::Relaxed);
        Ok(())
    }

    /// Reads the next chunk, which was announced.
    ///
    /// # Errors
    /// ABORTED if the peer of this name has left.
    pub(super) fn read(&self, out: &mut [u8], name: &str) -> Result<()> {
        let read = self.read.load(Ordering::Relaxed);
        // Its length is sealed.
        self.other.read_exact_at(out, read % self.places * CHUNK).map_err(|error| left(name).with_source(error))?;
        self.read.store(read + 1, Ordering::Relaxed);
        // There is room for a byte for each place, so this does not wait; a peer that reads none of them has failed.
        match (&self.returns).write(&[0]) {
            Ok(1) => Ok(()),
            // The peer may have ended after its last chunk; who needs more of it finds that out.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Ok(()),
            Ok(_) => Err(left(name)),
            Err(error) => Err(left(name).with_source(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::tcp::connection::Connection;

    /// The places between two of so many ranks.
    const PLACES: u64 = 2;

    /// Both sides of a connection.
    fn pair() -> [SharedMemory; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let one = TcpStream::connect(listener.local_addr().expect("an address")).expect("is there");
        let (other, _) = listener.accept().expect("comes");
        let offers = [(); 2].map(|()| Offer::new(16).expect("the system has memory"));
        let [own, others] = [(0, 1), (1, 0)].map(|(own, other): (usize, usize)| {
            offers[own].open(&offers[other].bytes().expect("an offer")).expect("the same process")
        });
        let [first, second] = offers;
        let stream = |stream| Connection::new(stream, "a peer".to_string()).expect("is set").into_stream();
        [first.with(own, stream(one)), second.with(others, stream(other))]
    }

    fn patience(failed: &AtomicBool) -> Patience<'_> {
        let limit = Duration::from_millis(100);
        Patience { deadline: Instant::now() + limit, limit, failed }
    }

    #[test]
    fn chunks_arrive_in_order_and_places_come_back() {
        let [one, other] = pair();
        let failed = AtomicBool::new(false);
        let chunk = |number: u8| vec![number; if number == 9 { 5 } else { CHUNK as usize }];
        for number in 0..10 {
            one.write(&chunk(number), "b", patience(&failed)).expect("has a place");
            if number >= 1 {
                let mut out = chunk(0xFF)[..chunk(number - 1).len()].to_vec();
                other.read(&mut out, "a").expect("is there");
                assert!(out == chunk(number - 1), "chunk {}", number - 1);
            }
        }
        // One is not read yet: there is a place for one more.
        one.write(&chunk(9), "b", patience(&failed)).expect("has a place");
        let failure = one.write(&chunk(9), "b", patience(&failed)).expect_err("no place");
        assert_eq!(failure.to_string(), "DEADLINE_EXCEEDED: collective operations waited 100ms for b");
        failed.store(true, Ordering::Relaxed);
        let failure = one.write(&chunk(9), "b", patience(&failed)).expect_err("another rank has failed");
        assert_eq!(failure.code(), StatusCode::Cancelled);
    }

    #[test]
    fn what_peers_do_with_memory_is_checked() {
        let [one, other] = pair();
        let failed = AtomicBool::new(false);
        for _ in 0..PLACES {
            one.write(&[1; 32], "b", patience(&failed)).expect("has a place");
        }
        (&other.returns).write_all(&[0; 3]).expect("is sent");
        let failure = one.write(&[1], "b", patience(&failed)).expect_err("more than there are");
        assert_eq!(failure.to_string(), "DATA_LOSS: b: 3 chunks of memory came back, expected at most 2");
        // The length is sealed, so no peer waits for memory that is gone.
        assert!(one.own.set_len(0).is_err());
        drop(one);
        let failure = other.read(&mut [0; 32], "a").and_then(|()| {
            for _ in 0..=PLACES {
                other.write(&[1; 32], "a", patience(&failed))?;
            }
            Ok(())
        });
        assert!(failure.expect_err("it left").message().contains("a has left the group"));
    }

    #[test]
    fn only_the_file_that_is_offered_is_opened() {
        let [one, other] = [(); 2].map(|()| Offer::new(16).expect("the system has memory"));
        let bytes = other.bytes().expect("an offer");
        assert!(one.open(&bytes).is_some());
        for byte in 0..OFFER {
            let mut wrong = bytes;
            wrong[byte] ^= 0x40;
            assert!(one.open(&wrong).is_none(), "byte {byte}");
        }
    }
}
