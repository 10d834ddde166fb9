//! Blocks of recorded command buffers: decodes the records of a block whose bytes may be anything.

use super::ReadError;
use super::command_buffer::{
    BindingSource, COMMAND_BLOCK_MAGIC, COMMAND_BLOCK_VERSION, COMMAND_RECORD_ALIGNMENT, Command, CommandBlockHeader,
    CommandHeader, CommandOpcode,
};
use crate::Status;

/// An error of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// It ends within its header.
    NoHeader,
    /// The magic, version, or length of its header is another.
    WrongHeader,
    /// A part named here does not lie in the block, or not at a multiple of 8.
    Misplaced(&'static str),
    /// The record at this offset of the block does not lie in its part, or is shorter than its command.
    Length(usize),
    /// The record at this offset is no command.
    Record(usize, ReadError),
    /// The numbers of records in the header and in the block differ.
    Count,
    /// The last record does not end the block, or a record before it does.
    Terminator,
}

impl std::fmt::Display for BlockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BlockError::NoHeader => write!(f, "the block ends within its header"),
            BlockError::WrongHeader => write!(f, "the block's magic, version or header length is another"),
            BlockError::Misplaced(part) => write!(f, "{part} do not lie in the block at a multiple of 8"),
            BlockError::Length(offset) => write!(f, "the record at byte {offset} of the block has a wrong length"),
            BlockError::Record(offset, error) => write!(f, "the record at byte {offset} of the block: {error}"),
            BlockError::Count => write!(f, "the block has another number of records than its header says"),
            BlockError::Terminator => write!(f, "the block does not end with its one terminator"),
        }
    }
}

impl std::error::Error for BlockError {}

impl From<BlockError> for Status {
    fn from(error: BlockError) -> Self {
        Status::invalid_argument(error.to_string())
    }
}

const ALIGNMENT: usize = COMMAND_RECORD_ALIGNMENT as usize;

/// True for a command that ends a block.
pub fn is_terminator(opcode: CommandOpcode) -> bool {
    matches!(opcode, CommandOpcode::BRANCH | CommandOpcode::COND_BRANCH | CommandOpcode::RETURN)
}

/// A block whose records and parts are checked.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    /// Its header.
    pub header: CommandBlockHeader,
    /// Each command, and the bytes that follow it in its record.
    pub commands: Vec<(Command, &'a [u8])>,
    /// The sources of addresses of bindings.
    pub binding_sources: Vec<BindingSource>,
    /// Its data.
    pub rodata: &'a [u8],
}

impl<'a> Block<'a> {
    /// Decodes the block at the start of `bytes`.
    ///
    /// # Errors
    /// The first error found.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BlockError> {
        let header = CommandBlockHeader::read(bytes.first_chunk().ok_or(BlockError::NoHeader)?);
        let right = (COMMAND_BLOCK_MAGIC, COMMAND_BLOCK_VERSION, CommandBlockHeader::SIZE);
        if (header.magic, header.version, usize::from(header.header_length)) != right {
            return Err(BlockError::WrongHeader);
        }
        let block = usize::try_from(header.block_length).ok().and_then(|length| bytes.get(..length));
        let block = block.ok_or(BlockError::Misplaced("its bytes"))?;
        let records = part(block, header.command_offset, u64::from(header.command_length), "its records")?;
        let sources = u64::from(header.binding_source_count) * BindingSource::SIZE as u64;
        let sources = part(block, header.binding_source_offset, sources, "its binding sources")?;
        let rodata = part(block, header.rodata_offset, u64::from(header.rodata_length), "its data")?;
        let commands = commands(records, header.command_offset as usize, usize::from(header.command_count))?;
        if commands.len() != usize::from(header.command_count) {
            return Err(BlockError::Count);
        }
        let ends = commands.iter().map(|(command, _)| is_terminator(opcode(command)));
        let last = commands.last().map(|(command, _)| opcode(command));
        if ends.filter(|ends| *ends).count() != 1
            || last != Some(header.terminator_opcode)
            || !last.is_some_and(is_terminator)
        {
            return Err(BlockError::Terminator);
        }
        let binding_sources = sources.as_chunks().0.iter().map(BindingSource::read).collect();
        Ok(Block { header, commands, binding_sources, rodata })
    }
}

/// A line for the header, for each record with the bytes after its command, and for each binding source.
impl std::fmt::Display for Block<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.header)?;
        for (command, rest) in &self.commands {
            write!(f, "\n  {command}")?;
            if !rest.is_empty() {
                write!(f, " {rest:02x?}")?;
            }
        }
        self.binding_sources.iter().try_for_each(|source| write!(f, "\n  {source}"))
    }
}

/// A part of `block`; an empty part may have any offset.
fn part<'a>(block: &'a [u8], offset: u32, length: u64, name: &'static str) -> Result<&'a [u8], BlockError> {
    if length == 0 {
        return Ok(&[]);
    }
    let (offset, length) = (offset as usize, usize::try_from(length).map_err(|_| BlockError::Misplaced(name))?);
    let placed = offset >= CommandBlockHeader::SIZE && offset.is_multiple_of(ALIGNMENT);
    let bytes = block.get(offset..).and_then(|bytes| bytes.get(..length));
    bytes.filter(|_| placed).ok_or(BlockError::Misplaced(name))
}

fn commands(mut records: &[u8], start: usize, count: usize) -> Result<Vec<(Command, &[u8])>, BlockError> {
    // At most as many as there are records of the smallest length.
    let most = records.len() / CommandHeader::SIZE;
    let (mut commands, mut offset) = (Vec::with_capacity(count.min(most)), start);
    while !records.is_empty() {
        let head = records.first_chunk().ok_or(BlockError::Length(offset))?;
        let length = usize::from(CommandHeader::read(head).length_qwords) * ALIGNMENT;
        // A record has at least its header, so this ends.
        let record =
            records.get(..length).filter(|_| length >= CommandHeader::SIZE).ok_or(BlockError::Length(offset))?;
        let command = Command::read(record).map_err(|error| match error {
            ReadError::Short { .. } => BlockError::Length(offset),
            ReadError::Unknown { .. } => BlockError::Record(offset, error),
        })?;
        commands.push((command, &record[size(&command)..]));
        offset += length;
        records = &records[length..];
    }
    Ok(commands)
}

fn size(command: &Command) -> usize {
    let mut members = Command::MEMBERS.iter();
    members.find(|(name, _)| *name == command.name()).map_or(0, |(_, size)| *size)
}

/// The header of a command.
pub fn command_header(command: &Command) -> CommandHeader {
    match command {
        Command::Barrier(command) => command.header,
        Command::Dispatch(command) => command.header,
        Command::Fill(command) => command.header,
        Command::Copy(command) => command.header,
        Command::Update(command) => command.header,
        Command::Branch(command) => command.header,
        Command::CondBranch(command) => command.header,
        Command::Return(command) => command.header,
    }
}

fn opcode(command: &Command) -> CommandOpcode {
    command_header(command).opcode
}
