//! Transfers of a template ([`Transfer`]): fills and copies by kernels of the driver ([`TransferKernels`]), of which an
//! execution chooses one by the addresses of both ends.

use vireo_hsa::packet::KernelDispatchPacket;

use super::arguments::ArgumentRange;
use super::resolved::{PacketBytes, Resolved};
use crate::executable::LoadedKernel;
use crate::hal::WHOLE_BUFFER;
use crate::hal::transfer::{check_copy, check_fill};
use crate::hal_driver::references::Place;
use crate::status::Result;

/// Bytes of arguments of the kernels for transfers.
pub(super) const TRANSFER_ARGUMENTS: usize = 32;

/// Work-items of a work-group of the kernels for transfers.
const TRANSFER_WORKGROUP: u64 = 256;

/// Most work-items of a transfer; each moves several units if there are more.
const MAX_TRANSFER_ITEMS: u64 = 1 << 16;

/// Work-items of the kernels for ranges that overlap: those of one wave, which moves its units in order.
const MOVE_WORKGROUP: u64 = 32;

/// The unit that a transfer moves at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferUnit {
    /// 16 bytes.
    Sixteen,
    /// 4 bytes.
    Four,
    /// Bytes.
    Byte,
}

impl TransferUnit {
    /// All, the largest first.
    pub const ALL: [TransferUnit; 3] = [TransferUnit::Sixteen, TransferUnit::Four, TransferUnit::Byte];

    /// Bytes.
    pub fn size(self) -> u64 {
        match self {
            TransferUnit::Sixteen => 16,
            TransferUnit::Four => 4,
            TransferUnit::Byte => 1,
        }
    }

    /// Its index in [`TransferUnit::ALL`].
    fn index(self) -> usize {
        self as usize
    }

    /// The largest that divides all of some numbers, whose bits are `bits`.
    fn of(bits: u64) -> TransferUnit {
        let fitting = TransferUnit::ALL.into_iter().find(|unit| bits.is_multiple_of(unit.size()));
        fitting.unwrap_or(TransferUnit::Byte)
    }
}

/// The driver's own kernels on a device. The order of the arrays is that of [`TransferUnit::ALL`].
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferKernels {
    /// Fill memory with a pattern.
    pub fill: [LoadedKernel; 3],
    /// Copy memory.
    pub copy: [LoadedKernel; 3],
    /// Copy between ranges that overlap.
    pub r#move: [LoadedKernel; 3],
    /// Writes the size of a grid into a packet and publishes it.
    pub patch: LoadedKernel,
}

/// The source of the bytes that a transfer writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// A pattern, repeated to eight bytes, of so many bytes.
    Fill { pattern: u64, step: u64 },
    /// The bytes of another place.
    Copy { source: Place },
}

/// A transfer, whose kernel depends on the addresses of its ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// Its packet.
    pub(super) packet: u32,
    /// Offset of its arguments.
    pub(super) arguments: u32,
    pub(super) target: Place,
    pub(super) operation: Operation,
}

impl Transfer {
    /// Whether [`Transfer::check`] may fail.
    pub(super) fn depends_on_lengths(&self) -> bool {
        let source = match self.operation {
            Operation::Fill { .. } => None,
            Operation::Copy { source } => Some(source.length),
        };
        self.target.length == WHOLE_BUFFER || source == Some(WHOLE_BUFFER)
    }

    /// Checks lengths that the binding table decides.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for those that do not fit each other or the pattern.
    pub(super) fn check(&self, resolved: &Resolved) -> Result<()> {
        let (_, length) = self.target.range(resolved, 0)?;
        match self.operation {
            Operation::Fill { step, .. } => check_fill(step, 0, length),
            Operation::Copy { source } => {
                let (_, from) = source.range(resolved, 0)?;
                check_copy(from, length)
            }
        }
    }

    /// Writes the arguments, and completes the packet.
    pub(super) fn write(
        &self,
        resolved: &Resolved,
        kernels: &TransferKernels,
        arguments: &mut ArgumentRange,
        packet: &mut PacketBytes,
    ) -> Result<()> {
        let (target, length) = self.target.range(resolved, arguments.address())?;
        let (kernels, operand, unit, overlap) = match self.operation {
            Operation::Fill { pattern, .. } => (&kernels.fill, pattern, TransferUnit::of(target | length), None),
            Operation::Copy { source } => {
                let (source, _) = source.range(resolved, arguments.address())?;
                let unit = TransferUnit::of(source | target | length);
                if source.abs_diff(target) < length && source != target {
                    // Towards the end if the target is there: each unit is read before it is overwritten.
                    let step = if target < source { MOVE_WORKGROUP } else { MOVE_WORKGROUP.wrapping_neg() };
                    (&kernels.r#move, source, unit, Some(step))
                } else {
                    (&kernels.copy, source, unit, None)
                }
            }
        };
        let units = length / unit.size();
        // A transfer of nothing has a work-group too, so that the order of the command holds.
        let items = units.min(MAX_TRANSFER_ITEMS).next_multiple_of(TRANSFER_WORKGROUP).max(TRANSFER_WORKGROUP);
        let (workgroup, items, step) = match overlap {
            Some(step) => (MOVE_WORKGROUP, MOVE_WORKGROUP, step),
            None => (TRANSFER_WORKGROUP, items, items),
        };
        let values = [target, operand, units, step];
        let bytes: [u8; TRANSFER_ARGUMENTS] = std::array::from_fn(|index| values[index / 8].to_le_bytes()[index % 8]);
        arguments.put(self.arguments as usize, &bytes)?;
        let LoadedKernel { object, private_size, group_size } = kernels[unit.index()];
        let whole = KernelDispatchPacket {
            kernel_object: object,
            private_segment_size: private_size,
            group_segment_size: group_size,
            workgroup_size: [workgroup as u16, 1, 1],
            // At most `MAX_TRANSFER_ITEMS`.
            grid_size: [items as u32, 1, 1],
            ..KernelDispatchPacket::read(packet)
        };
        *packet = whole.to_bytes();
        Ok(())
    }
}
