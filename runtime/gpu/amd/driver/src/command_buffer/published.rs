//! Memory for arguments that stays with command buffers ([`PublishedArguments`]). A recorder writes arguments where
//! kernels find them, so it asks for memory in pieces that grow: what has been written stays at its address.

use super::argument_pool::{PublishedMemory, SMALLEST};
use super::arguments::{ArgumentRange, reserved_size};
use super::source::KernelSource;
use crate::limits::Charge;
use crate::status::{Result, Status};

/// The largest piece that a recorder asks for without having arguments of that size.
const LARGEST_PIECE: usize = 256 << 10;

/// The arguments that a program publishes: written while it is recorded, and kept as long as it.
#[derive(Debug, Default)]
pub(super) struct PublishedArguments {
    /// Of each, the part that has no arguments yet; only the last one is added to.
    pieces: Vec<PublishedMemory>,
    /// Bytes of the next one.
    next: usize,
}

impl PublishedArguments {
    /// Reserves memory for so many bytes of arguments, charged to `charge` if more of it is needed.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is none.
    #[inline]
    pub(super) fn reserve(
        &mut self,
        bytes: usize,
        source: &dyn KernelSource,
        charge: &mut Charge,
    ) -> Result<ArgumentRange> {
        let bytes = reserved_size(bytes);
        match self.pieces.last_mut().and_then(|piece| piece.range.split_first(bytes)) {
            Some(range) => Ok(range),
            None => self.reserve_anew(bytes, source, charge),
        }
    }

    #[cold]
    fn reserve_anew(&mut self, bytes: usize, source: &dyn KernelSource, charge: &mut Charge) -> Result<ArgumentRange> {
        let length = self.next.clamp(SMALLEST as usize, LARGEST_PIECE).max(bytes);
        charge.add(length as u64, "arguments of a command buffer")?;
        let mut piece = source.argument_memory(length)?;
        let range =
            piece.range.split_first(bytes).ok_or_else(|| Status::internal("too little memory for arguments"))?;
        self.pieces.push(piece);
        self.next = length * 2;
        Ok(range)
    }

    /// Makes what was written visible to the device.
    pub(super) fn publish(&self) {
        // All of it is of one class.
        if let Some(piece) = self.pieces.last() {
            piece.publication.publish();
        }
    }
}
