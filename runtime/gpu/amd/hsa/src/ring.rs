//! The ring buffer of a queue: producers reserve slots, write packets and publish them; a packet processor runs them in
//! order.
//!
//! A packet becomes visible by one 32-bit store-release of its first dword. The rest is written before; until then the
//! slot has a header of type `invalid`, at which the packet processor waits. Dwords are atomics, so the ring needs no
//! `unsafe`; a driver makes the slices and references from the memory of an `amd_queue`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::packet::{PACKET_SIZE, Packet, PacketHeader, PacketType};
use super::{FieldError, ReadError};

/// Dwords of a slot.
const DWORDS: usize = PACKET_SIZE as usize / 4;

/// The memory of one packet.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot([AtomicU32; DWORDS]);

const _: () = assert!(size_of::<Slot>() == PACKET_SIZE as usize);

impl Slot {
    /// A slot that holds no packet.
    ///
    /// # Errors
    /// None: the type fits the field.
    pub fn invalid() -> Result<Self, FieldError> {
        let header = PacketHeader::default().with_type(PacketType::INVALID)?;
        let slot = Slot(Default::default());
        slot.0[0].store(u32::from(header.0), Ordering::Relaxed);
        Ok(slot)
    }

    /// The bytes of a packet as dwords.
    fn dwords(bytes: &[u8; PACKET_SIZE as usize]) -> [u32; DWORDS] {
        let mut dwords = [0; DWORDS];
        for (dword, bytes) in dwords.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *dword = u32::from_le_bytes(*bytes);
        }
        dwords
    }

    /// Writes all but the first dword.
    fn write_body(&self, dwords: &[u32; DWORDS]) {
        for (to, from) in self.0.iter().zip(dwords).skip(1) {
            to.store(*from, Ordering::Relaxed);
        }
    }

    /// Makes the packet visible.
    fn publish(&self, first: u32) {
        self.0[0].store(first, Ordering::Release);
    }
}

/// The ring of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    slots: &'a [Slot],
    write: &'a AtomicU64,
    read: &'a AtomicU64,
}

/// Slots that a producer has reserved; a slot that it does not publish blocks the queue.
#[derive(Debug)]
#[must_use = "slots that are not published block the queue"]
pub struct Reservation {
    first: u64,
    count: u64,
}

impl Reservation {
    /// The index of the last slot: the value for the doorbell.
    pub fn last(&self) -> u64 {
        self.first.wrapping_add(self.count).wrapping_sub(1)
    }
}

impl<'a> Ring<'a> {
    /// The ring of `slots` with its two indices; none unless the number of slots is a power of two.
    pub fn new(slots: &'a [Slot], write: &'a AtomicU64, read: &'a AtomicU64) -> Option<Self> {
        slots.len().is_power_of_two().then_some(Ring { slots, write, read })
    }

    fn slot(&self, index: u64) -> &'a Slot {
        // The number of slots is a power of two, so the low bits of an index stay when it wraps.
        &self.slots[(index & (self.slots.len() as u64 - 1)) as usize]
    }

    /// Reserves `count` consecutive slots; none if fewer are free, or `count` is zero.
    pub fn try_reserve(&self, count: u64) -> Option<Reservation> {
        let size = self.slots.len() as u64;
        if count == 0 || count > size {
            return None;
        }
        let mut first = self.write.load(Ordering::Relaxed);
        loop {
            // Acquire: the packet processor has read the slots before it advanced the index.
            let used = first.wrapping_sub(self.read.load(Ordering::Acquire));
            if used > size - count {
                return None;
            }
            let next = first.wrapping_add(count);
            match self.write.compare_exchange_weak(first, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(Reservation { first, count }),
                Err(now) => first = now,
            }
        }
    }

    /// Writes the packets of a reservation and publishes them, the first one last, so that the packet processor then
    /// finds all of them.
    ///
    /// Returns the value for the doorbell. Slots for which there is no packet stay unpublished, so `packets` should be
    /// as many as were reserved; more are not written.
    pub fn publish(&self, reservation: Reservation, packets: &[[u8; PACKET_SIZE as usize]]) -> u64 {
        let count = usize::try_from(reservation.count).unwrap_or(usize::MAX).min(packets.len());
        for (offset, packet) in packets[..count].iter().enumerate().rev() {
            let dwords = Slot::dwords(packet);
            let slot = self.slot(reservation.first.wrapping_add(offset as u64));
            slot.write_body(&dwords);
            slot.publish(dwords[0]);
        }
        reservation.last()
    }

    /// The packet after `ahead` others, as a packet processor reads it; none if it is not published yet. It stays in
    /// its slot until [`Ring::retire`].
    ///
    /// # Errors
    /// If the packet is of an unknown type.
    pub fn peek(&self, ahead: u64) -> Option<Result<Packet, ReadError>> {
        let slot = self.slot(self.read.load(Ordering::Relaxed).wrapping_add(ahead));
        let first = slot.0[0].load(Ordering::Acquire);
        // The header is the low half.
        if PacketHeader(first as u16).r#type() == PacketType::INVALID {
            return None;
        }
        let mut bytes = [0; PACKET_SIZE as usize];
        for (chunk, dword) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(&slot.0) {
            *chunk = dword.load(Ordering::Relaxed).to_le_bytes();
        }
        // Another thread may write the header of a packet that it never publishes; what was acquired is what counts.
        bytes[..4].copy_from_slice(&first.to_le_bytes());
        Some(Packet::read(&bytes))
    }

    /// The bytes of the packets that are not retired, whatever their headers say, for who tells what a queue was at.
    pub fn unretired(&self) -> impl Iterator<Item = [u8; PACKET_SIZE as usize]> {
        let first = self.read.load(Ordering::Acquire);
        let count = self.write.load(Ordering::Relaxed).wrapping_sub(first).min(self.slots.len() as u64);
        (0..count).map(move |ahead| {
            let mut bytes = [0; PACKET_SIZE as usize];
            for (chunk, dword) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(&self.slot(first.wrapping_add(ahead)).0) {
                *chunk = dword.load(Ordering::Relaxed).to_le_bytes();
            }
            bytes
        })
    }

    /// Frees the slot of the next packet, which has been processed. Only the packet processor may call it.
    pub fn retire(&self) {
        let index = self.read.load(Ordering::Relaxed);
        self.slot(index).0[0].store(u32::from(PacketType::INVALID.0), Ordering::Relaxed);
        self.read.store(index.wrapping_add(1), Ordering::Release);
    }
}
