//! Indirect buffers: runs the PM4 commands that `spec/api/amdgpu/pm4.yaml` describes; others are refused by name.

use vireo_hsa::hsa::HsaStatus;
use vireo_hsa::pm4::{
    PM4_ONE_DWORD, PM4_WITH_OPCODE, Pm4Command, Pm4Compare, Pm4Header, Pm4IndirectBuffer, Pm4Opcode, Pm4WaitRegMem64,
};
use vireo_simt::{Memory, Port};

use crate::status::Failure;

/// Jumps from buffer to buffer at most, so that a loop of them ends.
const MAX_JUMPS: u32 = 16;

/// Dwords of a command at most that is decoded.
const MAX_COMMAND: usize = Pm4WaitRegMem64::SIZE / 4;

fn wrong(what: String) -> Failure {
    Failure::new(HsaStatus::ERROR_INVALID_PACKET_FORMAT, what)
}

/// Two halves as a number.
fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Whether memory compares with the reference; both are without a sign.
fn compare(value: u64, compare: Pm4Compare, reference: u64) -> Option<bool> {
    Some(match compare {
        Pm4Compare::ALWAYS => true,
        Pm4Compare::LESS => value < reference,
        Pm4Compare::LESS_OR_EQUAL => value <= reference,
        Pm4Compare::EQUAL => value == reference,
        Pm4Compare::NOT_EQUAL => value != reference,
        Pm4Compare::GREATER_OR_EQUAL => value >= reference,
        Pm4Compare::GREATER => value > reference,
        _ => return None,
    })
}

/// A wait for memory.
pub(crate) struct MemoryWait {
    address: u64,
    reference: u64,
    mask: u64,
    compare: Pm4Compare,
}

impl MemoryWait {
    fn new(command: &Pm4WaitRegMem64) -> Result<Self, Failure> {
        let wait = MemoryWait {
            address: join(command.address_low, command.address_high),
            reference: join(command.reference_low, command.reference_high),
            mask: join(command.mask_low, command.mask_high),
            compare: command.control.compare(),
        };
        if command.control.memory() != 1 || command.control.operation() != 0 || !wait.address.is_multiple_of(8) {
            return Err(wrong(format!("{command}: it waits for no aligned memory")));
        }
        match compare(0, wait.compare, 0) {
            Some(_) => Ok(wait),
            None => Err(wrong(format!("{command}: there is no such comparison"))),
        }
    }

    /// The address of the memory.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The value in the memory.
    pub(crate) fn load(&self, memory: &dyn Memory) -> Result<u64, Failure> {
        // All 64 bits at once, which no load of words is.
        let value = Port::new(memory).atomic_u64(self.address, |value| value);
        value.map_err(|fault| Failure::new(HsaStatus::ERROR_MEMORY_FAULT, fault.to_string()))
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self, memory: &dyn Memory) -> Result<bool, Failure> {
        let value = self.load(memory)?;
        Ok(compare(value & self.mask, self.compare, self.reference) == Some(true))
    }
}

/// Runs the buffer that a packet names. `decoded` is told of each command before it runs; `wait` returns when a wait is
/// over.
pub(crate) fn run(
    jump: Pm4IndirectBuffer,
    memory: &dyn Memory,
    mut decoded: impl FnMut(Pm4Command),
    mut wait: impl FnMut(&MemoryWait) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut next = Some(jump);
    for _ in 0..MAX_JUMPS {
        let Some(jump) = next.take() else { return Ok(()) };
        next = buffer(&jump, memory, &mut decoded, &mut wait)?;
    }
    match next {
        None => Ok(()),
        Some(_) => Err(wrong(format!("more than {MAX_JUMPS} indirect buffers follow each other"))),
    }
}

/// Runs the commands of one buffer, and returns the jump that it ends with.
fn buffer(
    jump: &Pm4IndirectBuffer,
    memory: &dyn Memory,
    decoded: &mut impl FnMut(Pm4Command),
    wait: &mut impl FnMut(&MemoryWait) -> Result<(), Failure>,
) -> Result<Option<Pm4IndirectBuffer>, Failure> {
    let start = join(jump.address_low, jump.address_high);
    if !jump.size.valid() || !start.is_multiple_of(4) {
        return Err(wrong(format!("{jump}: there is no buffer")));
    }
    let count = u64::from(jump.size.dwords());
    let mut port = Port::new(memory);
    let mut at = 0;
    while at < count {
        let mut dword = |index: u64| {
            let loaded = port.load_words::<1>(start.wrapping_add(4 * (at + index)));
            loaded.map(|[dword]| dword).map_err(|fault| Failure::new(HsaStatus::ERROR_MEMORY_FAULT, fault.to_string()))
        };
        let header = Pm4Header(dword(0)?);
        let is_nop = header.opcode() == Pm4Opcode::NOP;
        let length = match header.count() {
            PM4_ONE_DWORD if is_nop => 1,
            dwords => u64::from(dwords) + 2,
        };
        if header.r#type() != PM4_WITH_OPCODE || length > count - at {
            return Err(wrong(format!("{:#x} at dword {at} of a buffer of {count} is no command", header.0)));
        }
        if is_nop {
            at += length;
            continue;
        }
        let mut bytes = Vec::with_capacity(4 * MAX_COMMAND);
        for index in 0..length.min(MAX_COMMAND as u64) {
            bytes.extend(dword(index)?.to_le_bytes());
        }
        let opcode = header.opcode();
        let name = || opcode.name().map_or_else(|| format!("{:#x}", opcode.0), str::to_string);
        let command = Pm4Command::read(&bytes);
        let command = command.map_err(|_| wrong(format!("the PM4 command {} is not supported", name())))?;
        decoded(command);
        match command {
            // The commands after a jump are skipped, as they are by a packet.
            Pm4Command::IndirectBuffer(jump) => return Ok(Some(jump)),
            Pm4Command::WaitRegMem64(command) => wait(&MemoryWait::new(&command)?)?,
        }
        at += length;
    }
    Ok(None)
}
