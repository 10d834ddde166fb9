//! Code objects as the agent loads them: [`image`] places segments, [`lacking`] refuses what the interpreter cannot
//! run, and [`storage`] is where the file is. The reader of the files is that of `vireo-hsa`.

pub(crate) mod image;
pub(crate) mod lacking;
pub(crate) mod storage;

use std::{fmt, io};

use vireo_gfx::listing::Lacking;
use vireo_hsa::object::CodeObjectError;

/// Names in an error at most, so that a file of nonsense has a short one.
const MOST_NAMES: usize = 32;

/// The error for a code object that is not loaded.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// It is malformed.
    Object(CodeObjectError),
    /// The agent lacks something that code objects may have.
    Unsupported(&'static str),
    /// It has no segment to load.
    NoSegment,
    /// A segment cannot be placed.
    Segment { address: u64, why: &'static str },
    /// A symbol is outside of the segments.
    Symbol { name: String, address: u64 },
    /// A kernel has no symbol.
    NoSymbol(String),
    /// It is for another processor than the agent.
    Processor { code: String, agent: String },
    /// The interpreter lacks instructions, or properties of kernels.
    Lacking(Vec<Lacking>),
    /// There is no address space for so many bytes.
    NoMemory(u64),
    /// Its addresses are in use.
    InUse,
    /// The file cannot be read.
    Read(io::Error),
    /// The descriptor is not that of a regular file.
    NoFile,
    /// The file is empty or too long.
    FileLength { bytes: u64, most: u64 },
    /// The file became shorter while it was read.
    Shrank { from: u64, to: u64 },
}

impl From<CodeObjectError> for LoadError {
    fn from(error: CodeObjectError) -> Self {
        LoadError::Object(error)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let LoadError::Object(error) = self {
            return error.fmt(f);
        }
        f.write_str("code object: ")?;
        match self {
            LoadError::Object(_) => Ok(()),
            LoadError::Unsupported(what) => write!(f, "{what}: the software agent does not load that"),
            LoadError::NoSegment => f.write_str("there is no segment to load"),
            LoadError::Segment { address, why } => write!(f, "the segment at {address:#x} {why}"),
            LoadError::Symbol { name, address } => write!(f, "`{name}` at {address:#x} is not in the loaded code"),
            LoadError::NoSymbol(name) => write!(f, "there is no symbol `{name}`"),
            LoadError::Processor { code, agent } => write!(f, "it is for {code}, and the agent is a {agent}"),
            LoadError::Lacking(lacking) => {
                f.write_str("the software agent does not execute ")?;
                for (index, lacking) in lacking.iter().take(MOST_NAMES).enumerate() {
                    write!(f, "{}{lacking}", if index == 0 { "" } else { ", " })?;
                }
                match lacking.len().saturating_sub(MOST_NAMES) {
                    0 => Ok(()),
                    more => write!(f, ", and {more} more"),
                }
            }
            LoadError::NoMemory(bytes) => write!(f, "there is no memory for {bytes} bytes"),
            LoadError::InUse => f.write_str("its memory is in use"),
            LoadError::Read(error) => write!(f, "the file cannot be read: {error}"),
            LoadError::NoFile => f.write_str("the descriptor is not that of a regular file"),
            LoadError::FileLength { bytes, most } => {
                write!(f, "the file has {bytes} bytes, which is not between 1 and {most}")
            }
            LoadError::Shrank { from, to } => {
                write!(f, "the file shrank from {from} to {to} bytes while it was read")
            }
        }
    }
}

impl std::error::Error for LoadError {}
