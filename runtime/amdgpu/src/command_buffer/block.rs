//! The builder of a block: records and binding sources one after the other, and the counts that its header has of them.

use vireo_hsa::command_buffer::{
    BindingSource, BranchCommand, COMMAND_BLOCK_MAGIC, COMMAND_BLOCK_VERSION, Command, CommandBlockHeader,
    CommandFlags, CommandHeader, CommandOpcode, DispatchCommand, ReturnCommand,
};
use vireo_hsa::packet::FenceScope;

use super::arguments::reserved_size;
use crate::hal::recycle::free_list;
use crate::status::{Result, Status};

/// Most packets of a block: what a queue must have room for at once.
pub(super) const MAX_PACKETS: u32 = 128;

/// Most bytes of arguments of a block.
pub(super) const MAX_KERNARG_LENGTH: u64 = 256 << 10;

/// Most records and binding sources of a block, which counts of 16 bits have to hold.
const MAX_RECORDS: usize = 1 << 14;

/// Most bytes of records and of data of a block.
const MAX_BYTES: usize = 1 << 24;

/// Blocks with memory for more bytes than this are not kept.
const MAX_RECYCLED_BYTES: usize = 64 << 10;

free_list! { static BLOCKS: Vec<u8>, 16 }

/// Keeps the memory of a block for the next one.
pub(super) fn recycle(mut block: Vec<u8>) {
    block.clear();
    if block.capacity() <= MAX_RECYCLED_BYTES {
        BLOCKS.push(0, block);
    }
}

/// What a command needs in its block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    /// Packets at most.
    pub(super) packets: u32,
    /// Bytes of arguments at most, each kernel's padded.
    pub(super) kernargs: u64,
    /// Binding sources.
    pub(super) sources: usize,
    /// Bytes of the record with its tail.
    pub(super) record: usize,
    /// Bytes of data.
    pub(super) rodata: usize,
}

/// A command to record: its fields without a header, and what follows them.
pub(super) struct NewCommand<'a> {
    /// The command.
    pub(super) command: Command,
    /// What follows it in its record.
    pub(super) tail: &'a [u8],
    /// What it needs.
    pub(super) needs: Needs,
    /// True if it follows a barrier.
    pub(super) follows_barrier: bool,
    /// Number of the command in the program.
    pub(super) index: u32,
}

/// A block under construction.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    records: Vec<u8>,
    /// Sources of addresses.
    sources: Vec<BindingSource>,
    rodata: Vec<u8>,
    count: u16,
    packets: u32,
    kernargs: u64,
    initial_barrier: Option<u32>,
    dispatches: u16,
    indirect_dispatches: u16,
    /// Offsets of the records since the last barrier. The next one makes them release.
    unreleased: Vec<usize>,
    /// Offsets of the records that refer to binding sources, whose place is known when the block ends.
    with_sources: Vec<usize>,
}

impl BlockBuilder {
    /// Makes it empty, and keeps its memory.
    pub(super) fn clear(&mut self) {
        let BlockBuilder { records, sources, rodata, unreleased, with_sources, .. } = std::mem::take(self);
        *self = BlockBuilder { records, sources, rodata, unreleased, with_sources, ..BlockBuilder::default() };
        self.records.clear();
        self.sources.clear();
        self.rodata.clear();
        self.unreleased.clear();
        self.with_sources.clear();
    }

    /// Bytes of memory that it keeps.
    pub(super) fn capacity(&self) -> usize {
        self.records.capacity() + self.rodata.capacity() + self.sources.capacity() * BindingSource::SIZE
    }

    /// Whether the block has no commands.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a command fits that needs this.
    pub(super) fn has_room(&self, needs: Needs) -> bool {
        self.packets + needs.packets <= MAX_PACKETS
            && self.kernargs + needs.kernargs <= MAX_KERNARG_LENGTH
            && self.sources.len() + needs.sources <= MAX_RECORDS
            && usize::from(self.count) < MAX_RECORDS
            && self.records.len() + needs.record <= MAX_BYTES
            && self.rodata.len() + needs.rodata <= MAX_BYTES
    }

    /// Adds data; returns its offset in the block's data.
    pub(super) fn add_rodata(&mut self, bytes: &[u8]) -> u32 {
        let start = self.rodata.len().next_multiple_of(8);
        self.rodata.resize(start, 0);
        self.rodata.extend_from_slice(bytes);
        // At most `MAX_BYTES`.
        start as u32
    }

    /// Adds binding sources; returns how many bytes of sources there were before.
    pub(super) fn add_sources(&mut self, sources: &[BindingSource]) -> u32 {
        let start = self.sources.len() * BindingSource::SIZE;
        self.sources.extend_from_slice(sources);
        start as u32
    }

    /// Adds a command that fits.
    pub(super) fn push(&mut self, new: NewCommand<'_>) -> Result<()> {
        let NewCommand { mut command, tail, needs, follows_barrier, index } = new;
        let mut flags = CommandFlags::default().with_uses_queue_kernargs(needs.kernargs > 0);
        if follows_barrier {
            self.release()?;
            flags = flags.with_has_barrier(true).with_acquire_scope(FenceScope::AGENT)?;
            self.initial_barrier.get_or_insert(self.packets + 1);
        }
        let header = header_mut(&mut command);
        header.flags = flags;
        header.command_index = index;
        let start = self.records.len();
        command.write(&mut self.records);
        self.records.extend_from_slice(tail);
        let length = self.records.len() - start;
        let qwords = u16::try_from(length.div_ceil(8)).map_err(|_| too_long(length))?;
        self.records.resize(start + usize::from(qwords) * 8, 0);
        self.records[start + LENGTH_AT..start + LENGTH_AT + 2].copy_from_slice(&qwords.to_le_bytes());
        self.unreleased.push(start);
        self.count += 1;
        self.packets += needs.packets;
        self.kernargs += needs.kernargs;
        if let Command::Dispatch(dispatch) = &command {
            self.with_sources.push(start);
            self.dispatches += 1;
            self.indirect_dispatches += u16::from(dispatch.dispatch_flags.indirect_parameters());
        }
        Ok(())
    }

    /// Makes the commands since the last barrier release what they wrote.
    fn release(&mut self) -> Result<()> {
        for start in self.unreleased.drain(..) {
            let flags = CommandFlags(self.records[start + FLAGS_AT]).with_release_scope(FenceScope::AGENT)?;
            self.records[start + FLAGS_AT] = flags.0;
        }
        Ok(())
    }

    /// Ends the block: with a branch to the next one, or a return.
    /// It is empty then, and its memory is kept.
    pub(super) fn finish(&mut self, ordinal: u32, next: Option<u32>, index: u32) -> Result<Vec<u8>> {
        // What follows in another block may be after a barrier that is not recorded yet.
        self.release()?;
        let mut terminator = match next {
            Some(next) => Command::Branch(BranchCommand { target_block_ordinal: next, ..BranchCommand::tagged() }),
            None => Command::Return(ReturnCommand::tagged()),
        };
        header_mut(&mut terminator).command_index = index;
        terminator.write(&mut self.records);
        let opcode = if next.is_some() { CommandOpcode::BRANCH } else { CommandOpcode::RETURN };
        let sources = self.sources.len() * BindingSource::SIZE;
        let command_offset = CommandBlockHeader::SIZE;
        let source_offset = command_offset + self.records.len();
        let rodata_offset = source_offset + sources;
        let length = (rodata_offset + self.rodata.len()).next_multiple_of(8);
        for start in &self.with_sources {
            let field = &mut self.records[start + SOURCES_AT..start + SOURCES_AT + 4];
            let relative = field.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
            field.copy_from_slice(&(relative + source_offset as u32).to_le_bytes());
        }
        let header = CommandBlockHeader {
            magic: COMMAND_BLOCK_MAGIC,
            version: COMMAND_BLOCK_VERSION,
            header_length: CommandBlockHeader::SIZE as u16,
            block_ordinal: ordinal,
            terminator_target_block_ordinal: next.unwrap_or(0),
            block_length: length as u32,
            command_offset: command_offset as u32,
            command_length: self.records.len() as u32,
            binding_source_offset: source_offset as u32,
            command_count: self.count + 1,
            binding_source_count: self.sources.len() as u16,
            aql_packet_count: self.packets,
            kernarg_length: self.kernargs as u32,
            initial_barrier_packet_count: self.initial_barrier.unwrap_or(0),
            rodata_offset: rodata_offset as u32,
            rodata_length: self.rodata.len() as u32,
            dispatch_count: self.dispatches,
            indirect_dispatch_count: self.indirect_dispatches,
            profile_marker_count: 0,
            terminator_opcode: opcode,
            flags: 0,
        };
        let mut bytes = BLOCKS.pop(0).unwrap_or_default();
        bytes.reserve_exact(length);
        bytes.extend_from_slice(&header.to_bytes());
        bytes.extend_from_slice(&self.records);
        for source in &self.sources {
            bytes.extend_from_slice(&source.to_bytes());
        }
        bytes.extend_from_slice(&self.rodata);
        bytes.resize(length, 0);
        self.clear();
        Ok(bytes)
    }
}

/// Offset of the flags in a record.
const FLAGS_AT: usize = std::mem::offset_of!(CommandHeader, flags);

/// Offset of the length in a record.
const LENGTH_AT: usize = std::mem::offset_of!(CommandHeader, length_qwords);

/// Offset of the place of the binding sources in a dispatch.
const SOURCES_AT: usize = std::mem::offset_of!(DispatchCommand, binding_source_offset);

fn too_long(length: usize) -> Status {
    Status::out_of_range(format!("a command of {length} bytes is too long for a record"))
}

/// The header of a command.
fn header_mut(command: &mut Command) -> &mut CommandHeader {
    match command {
        Command::Barrier(command) => &mut command.header,
        Command::Dispatch(command) => &mut command.header,
        Command::Fill(command) => &mut command.header,
        Command::Copy(command) => &mut command.header,
        Command::Update(command) => &mut command.header,
        Command::Branch(command) => &mut command.header,
        Command::CondBranch(command) => &mut command.header,
        Command::Return(command) => &mut command.header,
    }
}

/// Bytes of arguments that a kernel needs in a block.
pub(super) fn kernarg_need(bytes: u64) -> u64 {
    reserved_size(bytes)
}
