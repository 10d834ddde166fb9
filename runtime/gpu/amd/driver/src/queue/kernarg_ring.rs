//! The ring of arguments of a queue ([`KernargRing`]): memory that the host writes and kernels read, reserved in order
//! and freed in order, by the lane and epoch of the submission that used it.

use std::collections::VecDeque;

use crate::command_buffer::{ArgumentMemory, ArgumentRange};

/// A ring of memory.
pub(crate) struct KernargRing {
    memory: ArgumentMemory,
    /// Bytes reserved since the beginning; the place is this modulo the length.
    written: u64,
    /// Bytes freed since the beginning.
    freed: u64,
    /// The ranges in use: the user after which each is free, and how far `freed` goes then.
    in_use: VecDeque<(User, u64)>,
}

/// A part of a submission: its lane, and its epoch there.
type User = (usize, u64);

impl KernargRing {
    pub(crate) fn new(memory: ArgumentMemory) -> KernargRing {
        KernargRing { memory, written: 0, freed: 0, in_use: VecDeque::new() }
    }

    /// Bytes of the ring.
    pub(crate) fn length(&self) -> u64 {
        self.memory.length() as u64
    }

    /// Frees what was used by those that have completed, up to the first that has not.
    pub(crate) fn free(&mut self, has_completed: impl Fn(User) -> bool) {
        while let Some((user, end)) = self.in_use.front()
            && has_completed(*user)
        {
            self.freed = *end;
            self.in_use.pop_front();
        }
        if self.in_use.is_empty() {
            // All of it is free, so the next range may be as long as the ring.
            (self.written, self.freed) = (0, 0);
        }
    }

    /// Reserves consecutive bytes; none if they are not free yet, or are more than the ring has.
    pub(crate) fn reserve(&mut self, length: u64, user: User) -> Option<ArgumentRange> {
        let total = self.length();
        let place = self.written % total;
        // A range does not wrap: the rest of the ring is skipped.
        let skipped = if place + length > total { total - place } else { 0 };
        let end = self.written + skipped + length;
        if length > total || end - self.freed > total {
            return None;
        }
        let start = (self.written + skipped) % total;
        // SAFETY: the bytes between `freed` and `written` are in use, and this range is not among them.
        let range = unsafe { self.memory.range(start as usize, length as usize) }?;
        self.written = end;
        match self.in_use.back_mut() {
            Some((last, last_end)) if *last == user => *last_end = end,
            _ => self.in_use.push_back((user, end)),
        }
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use super::*;

    #[test]
    fn ranges_are_reserved_and_freed_in_order() {
        let mut bytes = vec![0u8; 1024];
        let host = NonNull::new(bytes.as_mut_ptr()).expect("an address");
        // SAFETY: the bytes outlive the ring.
        let mut ring = KernargRing::new(unsafe { ArgumentMemory::new(host, 0x1000, 1024) });
        let place = |ring: &mut KernargRing, length, epoch| {
            let mut range = ring.reserve(length, (0, epoch))?;
            assert!(range.put(length as usize, &[1]).is_err(), "that is after its end");
            range.fill(&[1]).ok().map(|()| range.address())
        };
        let free = |ring: &mut KernargRing, completed| ring.free(|(_, epoch)| epoch <= completed);
        assert_eq!(place(&mut ring, 512, 1), Some(0x1000));
        assert_eq!(place(&mut ring, 256, 1), Some(0x1200));
        assert_eq!(place(&mut ring, 512, 2), None, "256 bytes are left");
        assert_eq!(place(&mut ring, 128, 2), Some(0x1300));
        free(&mut ring, 0);
        assert_eq!(place(&mut ring, 256, 3), None);
        free(&mut ring, 1);
        // The 128 bytes at the end are too few, and are skipped.
        assert_eq!(place(&mut ring, 256, 3), Some(0x1000));
        assert_eq!(place(&mut ring, 512, 4), Some(0x1100));
        assert_eq!(place(&mut ring, 64, 4), None, "those of epoch 2 are still in use");
        free(&mut ring, 2);
        assert_eq!(place(&mut ring, 64, 4), Some(0x1300));
        free(&mut ring, 4);
        assert_eq!(place(&mut ring, 1088, 5), None, "more than there are");
        assert_eq!(place(&mut ring, 1024, 5), Some(0x1000));
    }

    #[test]
    fn memory_after_that_of_a_part_that_runs_still_is_not_free() {
        let mut bytes = vec![0u8; 1024];
        let host = NonNull::new(bytes.as_mut_ptr()).expect("an address");
        // SAFETY: the bytes outlive the ring.
        let mut ring = KernargRing::new(unsafe { ArgumentMemory::new(host, 0x1000, 1024) });
        assert!(ring.reserve(512, (0, 1)).is_some() && ring.reserve(512, (1, 1)).is_some());
        ring.free(|(lane, _)| lane == 1);
        assert!(ring.reserve(64, (1, 2)).is_none(), "the first half is in use");
        ring.free(|_| true);
        assert!(ring.reserve(1024, (1, 2)).is_some());
    }
}
