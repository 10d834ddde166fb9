//! Constructors of packets, with their barrier bit and fences, and of the PM4 commands that packets contain.

use super::FieldError;
use super::packet::{
    AgentDispatchPacket, BarrierAndPacket, BarrierOrPacket, BarrierValuePacket, FenceScope, KernelDispatchPacket,
    Packet, PacketHeader, Pm4IbPacket,
};
use super::pm4::{Pm4Compare, Pm4IndirectBuffer, Pm4WaitRegMem64};
use super::signal::{AmdSignal, Signal, SignalCondition};

/// The order of a packet among others: its barrier bit and fences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// It begins when all packets before it in the queue have completed.
    pub barrier: bool,
    /// The scope whose writes it sees.
    pub acquire: FenceScope,
    /// The scope that sees its writes once it has completed.
    pub release: FenceScope,
}

impl Order {
    /// Neither a barrier nor fences.
    pub const NONE: Order = Order { barrier: false, acquire: FenceScope::NONE, release: FenceScope::NONE };

    /// After all earlier packets, with fences that include the host.
    pub const SYSTEM: Order = Order { barrier: true, acquire: FenceScope::SYSTEM, release: FenceScope::SYSTEM };

    /// `header` with this order; its type stays.
    ///
    /// # Errors
    /// A scope without a name may not fit its field.
    pub const fn apply(self, header: PacketHeader) -> Result<PacketHeader, FieldError> {
        match header.with_barrier(self.barrier).with_acquire_fence_scope(self.acquire) {
            Ok(header) => header.with_release_fence_scope(self.release),
            Err(error) => Err(error),
        }
    }
}

impl Packet {
    /// Its header.
    pub fn header(&self) -> PacketHeader {
        match self {
            Packet::KernelDispatch(packet) => packet.header,
            Packet::BarrierAnd(packet) => packet.header,
            Packet::BarrierOr(packet) => packet.header,
            Packet::AgentDispatch(packet) => packet.header,
            Packet::Pm4Ib(packet) => packet.header.header,
            Packet::BarrierValue(packet) => packet.header.header,
        }
    }

    /// Its completion signal; 0 if it has none.
    pub fn completion_signal(&self) -> Signal {
        match self {
            Packet::KernelDispatch(packet) => packet.completion_signal,
            Packet::BarrierAnd(packet) => packet.completion_signal,
            Packet::BarrierOr(packet) => packet.completion_signal,
            Packet::AgentDispatch(packet) => packet.completion_signal,
            Packet::Pm4Ib(packet) => packet.completion_signal,
            Packet::BarrierValue(packet) => packet.completion_signal,
        }
    }
}

impl KernelDispatchPacket {
    /// A dispatch of the kernel whose descriptor is at `kernel_object`; `grid_size` counts work-items. The rest is
    /// zero.
    ///
    /// # Errors
    /// As [`Order::apply`].
    pub fn new(
        order: Order,
        kernel_object: u64,
        kernarg_address: u64,
        workgroup_size: [u16; 3],
        grid_size: [u32; 3],
    ) -> Result<Self, FieldError> {
        let packet = Self::tagged();
        Ok(Self {
            header: order.apply(packet.header)?,
            setup: packet.setup.with_dimensions(3)?,
            workgroup_size,
            grid_size,
            kernel_object,
            kernarg_address,
            ..packet
        })
    }
}

impl BarrierAndPacket {
    /// A wait until all of `signals` are zero.
    ///
    /// # Errors
    /// As [`Order::apply`].
    pub fn new(order: Order, signals: [Signal; 5]) -> Result<Self, FieldError> {
        let packet = Self::tagged();
        Ok(Self { header: order.apply(packet.header)?, dep_signal: signals, ..packet })
    }
}

impl BarrierOrPacket {
    /// A wait until one of `signals` is zero.
    ///
    /// # Errors
    /// As [`Order::apply`].
    pub fn new(order: Order, signals: [Signal; 5]) -> Result<Self, FieldError> {
        let packet = Self::tagged();
        Ok(Self { header: order.apply(packet.header)?, dep_signal: signals, ..packet })
    }
}

impl AgentDispatchPacket {
    /// A call of the agent's function `function`.
    ///
    /// # Errors
    /// As [`Order::apply`].
    pub fn new(order: Order, function: u16, arguments: [u64; 4], return_address: u64) -> Result<Self, FieldError> {
        let packet = Self::tagged();
        Ok(Self { header: order.apply(packet.header)?, r#type: function, arg: arguments, return_address, ..packet })
    }
}

impl BarrierValuePacket {
    /// A wait until the bits `mask` of `signal` compare with `value`.
    ///
    /// # Errors
    /// As [`Order::apply`].
    pub fn new(
        order: Order,
        signal: Signal,
        mask: i64,
        condition: SignalCondition,
        value: i64,
    ) -> Result<Self, FieldError> {
        let mut packet = Self::tagged();
        packet.header.header = order.apply(packet.header.header)?;
        Ok(Self { signal, mask, cond: condition, value, ..packet })
    }
}

impl Pm4IbPacket {
    /// A run of the `dwords` commands at `address`.
    ///
    /// # Errors
    /// If there are more dwords than a jump can name, and as [`Order::apply`].
    pub fn new(order: Order, address: u64, dwords: u32) -> Result<Self, FieldError> {
        let mut packet = Self::tagged();
        packet.header.header = order.apply(packet.header.header)?;
        let jump = Pm4IndirectBuffer::new(address, dwords)?.to_bytes();
        for (dword, bytes) in packet.ib_jump_cmd.iter_mut().zip(jump.as_chunks::<4>().0) {
            *dword = u32::from_le_bytes(*bytes);
        }
        Ok(packet)
    }
}

/// The low and the high half of `value`.
fn halves(value: u64) -> (u32, u32) {
    // Truncation to the low half is intended.
    (value as u32, (value >> 32) as u32)
}

impl Pm4IndirectBuffer {
    /// A jump to the `dwords` commands at `address`.
    ///
    /// # Errors
    /// If there are more dwords than a jump can name.
    pub fn new(address: u64, dwords: u32) -> Result<Self, FieldError> {
        let command = Self::tagged();
        let (address_low, address_high) = halves(address);
        Ok(Self { address_low, address_high, size: command.size.with_dwords(dwords)?, ..command })
    }
}

impl Pm4WaitRegMem64 {
    /// A wait until the bits `mask` of the value of `signal` are less than `reference`.
    ///
    /// # Errors
    /// None with the comparisons that have names.
    pub fn until_less(signal: Signal, mask: u64, reference: u64) -> Result<Self, FieldError> {
        let command = Self::tagged();
        let value = std::mem::offset_of!(AmdSignal, value) as u64;
        let (address_low, address_high) = halves(signal.0.wrapping_add(value));
        let (reference_low, reference_high) = halves(reference);
        let (mask_low, mask_high) = halves(mask);
        Ok(Self {
            control: command.control.with_compare(Pm4Compare::LESS)?,
            address_low,
            address_high,
            reference_low,
            reference_high,
            mask_low,
            mask_high,
            ..command
        })
    }
}
