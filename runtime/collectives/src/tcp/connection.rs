//! Connections to peers ([`Connection`]): frames that are read and written before a deadline.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::patience::{Patience, SLICE, is_timeout, left};
use super::shared::SharedMemory;
use super::wire::{CHUNK, FrameKind, HEADER, MAX_END, header, parse_end, parse_header};
use crate::perform::try_bytes;
use crate::status::{Result, Status};

/// A connection to a peer. One thread may read it while another one writes to it.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// The peer in failures: `rank 3 of 8 ranks`.
    name: String,
    /// Whether the last frame was written to its end.
    whole: AtomicBool,
    /// The way of large data, if the peer is a process of this host.
    shared: Option<SharedMemory>,
}

/// The most bytes of data that always go through the connection.
const SMALL: usize = 16 << 10;

impl Connection {
    /// A connection to the peer with this name.
    ///
    /// # Errors
    /// UNAVAILABLE if the system refuses its settings.
    pub(super) fn new(stream: TcpStream, name: String) -> Result<Connection> {
        prepare(&stream).map_err(|error| left(&name).with_source(error))?;
        Ok(Connection { stream, name, whole: AtomicBool::new(true), shared: None })
    }

    /// The same connection, whose large data go through memory.
    pub(super) fn with_shared(self, shared: SharedMemory) -> Connection {
        Connection { shared: Some(shared), ..self }
    }

    /// Whether the peer has an address of this host.
    pub(super) fn is_of_this_host(&self) -> bool {
        let [own, other] = [self.stream.local_addr(), self.stream.peer_addr()];
        own.is_ok_and(|own| other.is_ok_and(|other| own.ip().to_canonical() == other.ip().to_canonical()))
    }

    /// Bytes that can be sent before the peer reads any, once it has read all before them.
    pub(super) fn room(&self) -> u64 {
        self.shared.as_ref().map_or(SMALL as u64, SharedMemory::room)
    }

    /// Whether large data go through memory.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// The connection to the system alone.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The peer in failures.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits a moment for the peer. True if it has sent something.
    ///
    /// # Errors
    /// ABORTED if it has left.
    pub(super) fn has_sent(&self) -> Result<bool> {
        match self.stream.peek(&mut [0]) {
            Ok(0) => Err(left(&self.name)),
            Ok(_) => Ok(true),
            Err(error) if is_timeout(&error) => Ok(false),
            Err(error) => Err(left(&self.name).with_source(error)),
        }
    }

    /// Looks, without a wait, whether the peer has given up. What it sends otherwise is left for who needs it.
    ///
    /// # Errors
    /// The failure of a peer that has, and ABORTED if it has left.
    pub(super) fn check_end(&self, patience: Patience<'_>) -> Result<()> {
        let peek = || {
            self.stream.set_nonblocking(true)?;
            let mut header = [0; HEADER];
            let peeked = self.stream.peek(&mut header);
            self.stream.set_nonblocking(false)?;
            Ok(peeked?).map(|count| (count, header))
        };
        match peek() {
            Ok((0, _)) => Err(left(&self.name)),
            Ok((HEADER, header)) if matches!(parse_header(&header), Ok((FrameKind::End, _))) => {
                self.expect(FrameKind::Facts, patience).map(drop)
            }
            Ok(_) => Ok(()),
            Err(error) if is_timeout(&error) => Ok(()),
            Err(error) => Err(left(&self.name).with_source(error)),
        }
    }

    /// Reads until `out` is full.
    fn read(&self, out: &mut [u8], patience: Patience<'_>) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            match (&self.stream).read(&mut out[done..]) {
                Ok(0) => return Err(left(&self.name)),
                Ok(count) => done += count,
                Err(error) if is_timeout(&error) => patience.check(&self.name)?,
                Err(error) => return Err(left(&self.name).with_source(error)),
            }
        }
        // A peer that sends byte after byte is late as well.
        patience.check(&self.name)
    }

    /// Writes a whole frame.
    ///
    /// # Errors
    /// ABORTED if the peer has left, DEADLINE_EXCEEDED if it takes too long.
    pub(super) fn write(&self, frame: &[u8], patience: Patience<'_>) -> Result<()> {
        self.whole.store(false, Ordering::Relaxed);
        let mut done = 0;
        while done < frame.len() {
            match (&self.stream).write(&frame[done..]) {
                Ok(0) => return Err(left(&self.name)),
                Ok(count) => done += count,
                Err(error) if is_timeout(&error) => patience.check(&self.name)?,
                Err(error) => return Err(left(&self.name).with_source(error)),
            }
        }
        self.whole.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Writes a frame of data, for whose header there is room before them.
    ///
    /// # Errors
    /// As above.
    pub(super) fn write_data(&self, frame: &mut [u8], patience: Patience<'_>) -> Result<()> {
        let (head, data) = frame.split_at_mut(HEADER);
        let shared = self.shared.as_ref().filter(|_| data.len() > SMALL);
        let kind = if shared.is_some() { FrameKind::Shared } else { FrameKind::Data };
        head.copy_from_slice(&header(kind, data.len() as u64));
        match shared {
            Some(shared) => {
                shared.write(data, &self.name, patience)?;
                self.write(head, patience)
            }
            None => self.write(frame, patience),
        }
    }

    /// Reads the header of a frame of a kind, and returns its length.
    ///
    /// # Errors
    /// The failure of a peer that gives up; DATA_LOSS for another frame.
    fn expect(&self, kind: FrameKind, patience: Patience<'_>) -> Result<u64> {
        let (found, length) = self.next(patience)?;
        if found == kind {
            return Ok(length);
        }
        self.unexpected(found, length, kind, patience)
    }

    /// Reads the header of a frame.
    fn next(&self, patience: Patience<'_>) -> Result<(FrameKind, u64)> {
        let mut header = [0; HEADER];
        self.read(&mut header, patience)?;
        parse_header(&header).map_err(|status| status.context(&self.name))
    }

    /// The failure of a frame of another kind than one that was expected.
    fn unexpected<T>(&self, found: FrameKind, length: u64, kind: FrameKind, patience: Patience<'_>) -> Result<T> {
        if found == FrameKind::End && length <= MAX_END {
            let mut bytes = vec![0; length as usize];
            self.read(&mut bytes, patience)?;
            return Err(parse_end(&bytes));
        }
        Err(Status::data_loss(format!("{}: a {found:?} frame, expected {kind:?}", self.name)))
    }

    /// Reads a frame of at most `limit` bytes.
    ///
    /// # Errors
    /// As above, and DATA_LOSS for a longer one.
    pub(super) fn frame(&self, kind: FrameKind, limit: u64, patience: Patience<'_>) -> Result<Vec<u8>> {
        let length = self.expect(kind, patience)?;
        if length > limit {
            let name = &self.name;
            let message = format!("{name}: a {kind:?} frame of {length} bytes, expected at most {limit}");
            return Err(Status::data_loss(message));
        }
        let mut bytes = try_bytes(length)?;
        self.read(&mut bytes, patience)?;
        Ok(bytes)
    }

    /// Reads the first frame of a caller, of at most `limit` bytes.
    ///
    /// # Errors
    /// DATA_LOSS for a caller that is no rank.
    pub(super) fn greeting(&self, limit: u64, patience: Patience<'_>) -> Result<(FrameKind, Vec<u8>)> {
        let mut header = [0; HEADER];
        self.read(&mut header, patience)?;
        let (kind, length) = parse_header(&header)?;
        if length > limit {
            return Err(Status::data_loss(format!("a greeting of {length} bytes, expected at most {limit}")));
        }
        let mut bytes = try_bytes(length)?;
        self.read(&mut bytes, patience)?;
        Ok((kind, bytes))
    }

    /// The same connection, to a peer whose name is known now.
    pub(super) fn named(self, name: String) -> Connection {
        Connection { name, ..self }
    }

    /// Reads data into `out`, which they fill.
    ///
    /// # Errors
    /// As above, and DATA_LOSS for another length.
    pub(super) fn data(&self, out: &mut [u8], patience: Patience<'_>) -> Result<()> {
        let (found, length) = self.next(patience)?;
        let shared = self.shared.as_ref().filter(|_| found == FrameKind::Shared && out.len() <= CHUNK as usize);
        if found != FrameKind::Data && shared.is_none() {
            return self.unexpected(found, length, FrameKind::Data, patience);
        }
        if length != out.len() as u64 {
            let message = format!("{}: {length} bytes of data, expected {}", self.name, out.len());
            return Err(Status::data_loss(message));
        }
        match shared {
            Some(shared) => shared.read(out, &self.name),
            None => self.read(out, patience),
        }
    }

    /// Ends what it sends, with this last frame unless a frame was left unfinished.
    pub(super) fn finish(&self, end: &[u8]) {
        if self.whole.load(Ordering::Relaxed) {
            // A peer that does not read it gets to know of the end by the connection.
            let _ = (&self.stream).write(end);
        }
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Reads what the peer still sends, until it ends as well or the deadline: the system throws away the last frame at
    /// the peer if a connection is closed with bytes that were not read.
    pub(super) fn drain(&self, deadline: Instant) {
        let mut bytes = [0; 4096];
        while Instant::now() < deadline {
            match (&self.stream).read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {}
                Err(_) => return,
            }
        }
    }
}

/// Frames are written whole, and the other side waits for them; each wait ends soon.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SLICE))?;
    stream.set_write_timeout(Some(SLICE))
}
