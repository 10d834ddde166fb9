//! The common part of formats of files with records: parts that follow a layout, errors that name a place in a file,
//! and reading at any offset without holding the file. The crates `replay` and `profile` read captures and profiles
//! with it.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;

use crate::status::{Status, StatusCode};

/// An element of a part that follows a layout.
pub trait Part: Sized {
    /// Bytes that it takes.
    const SIZE: usize;

    /// Reads it from its bytes; missing ones are zero.
    fn read_part(bytes: &[u8]) -> Self;

    /// Appends its bytes.
    fn write_part(&self, out: &mut Vec<u8>);
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Part for $int {
            const SIZE: usize = size_of::<$int>();

            fn read_part(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(0, |bytes| <$int>::from_le_bytes(*bytes))
            }

            fn write_part(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

integers!(u32, u64);

/// The elements of a part, which are read when they are asked for.
#[derive(Clone, Copy)]
pub struct Elements<'a, T> {
    bytes: &'a [u8],
    element: PhantomData<T>,
}

impl<'a, T: Part + 'a> Elements<'a, T> {
    /// The elements that `bytes` hold.
    pub fn new(bytes: &'a [u8]) -> Self {
        Elements { bytes, element: PhantomData }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.len() / T::SIZE
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = T> + 'a {
        self.bytes.chunks_exact(T::SIZE).map(T::read_part)
    }
}

impl<T: Part + fmt::Debug> fmt::Debug for Elements<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The error for counts of parts that do not fit the bytes they are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrailingError {
    /// A count says more than 64 bits can address.
    Count {
        /// The layout.
        layout: &'static str,
        /// The part.
        part: &'static str,
        /// The value of its count.
        count: u64,
    },
    /// The parts end elsewhere than the bytes.
    Length {
        /// The layout.
        layout: &'static str,
        /// Bytes of the layout and its parts.
        expected: u64,
        /// Bytes that there are.
        actual: u64,
    },
}

impl TrailingError {
    /// Parts that end elsewhere than the bytes.
    pub fn length(layout: &'static str, expected: u64, actual: u64) -> Self {
        TrailingError::Length { layout, expected, actual }
    }
}

impl fmt::Display for TrailingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrailingError::Count { layout, part, count } => {
                write!(f, "`{layout}` has {count} elements of `{part}`: expected a count that its length can have")
            }
            TrailingError::Length { layout, expected, actual } => {
                write!(f, "`{layout}` has {actual} bytes: expected {expected} by its counts")
            }
        }
    }
}

impl std::error::Error for TrailingError {}

/// The place of `count` elements of `size` bytes that begin at `start`.
///
/// # Errors
/// If it does not fit 64 bits.
pub fn extent(
    layout: &'static str,
    part: &'static str,
    start: u64,
    count: u64,
    size: u64,
) -> Result<Range<u64>, TrailingError> {
    let end = count.checked_mul(size).and_then(|length| start.checked_add(length));
    end.map(|end| start..end).ok_or(TrailingError::Count { layout, part, count })
}

/// The bytes of a part, whose range was checked to be within them.
pub fn within<'a>(bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let range = usize::try_from(range.start).unwrap_or(usize::MAX)..usize::try_from(range.end).unwrap_or(usize::MAX);
    bytes.get(range).unwrap_or_default()
}

/// A length as the type of its count.
///
/// # Errors
/// If it does not fit.
pub fn count_of<T: TryFrom<usize>>(
    layout: &'static str,
    part: &'static str,
    length: usize,
) -> Result<T, TrailingError> {
    T::try_from(length).map_err(|_| TrailingError::Count { layout, part, count: length as u64 })
}

/// Reads a layout and its parts from bytes and writes them again.
pub type Rewrite = fn(&[u8]) -> Result<Vec<u8>, TrailingError>;

/// The description of a layout, for tests that make values of it.
#[derive(Clone, Copy, Debug)]
pub struct LayoutDescription {
    /// Its name.
    pub name: &'static str,
    /// Bytes of its fields.
    pub size: usize,
    /// Bytes that writers leave zero: the first, and the one after the last.
    pub zeros: &'static [(usize, usize)],
    /// The parts that follow: name, first byte and size of the count, bytes of an element.
    pub parts: &'static [(&'static str, usize, usize, usize)],
    /// Reads it from bytes and writes it again.
    pub rewrite: Rewrite,
}

/// The error for a file that is not as its format says.
#[derive(Clone, Debug)]
pub struct ReadError {
    code: StatusCode,
    file: String,
    offset: u64,
    message: String,
}

impl ReadError {
    /// An error at a place of a file.
    pub fn new(code: StatusCode, file: impl Into<String>, offset: u64, message: impl Into<String>) -> Self {
        ReadError { code, file: file.into(), offset, message: message.into() }
    }

    /// Where in the file it was found.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// It as a status.
    pub fn status(&self) -> Status {
        Status::new(self.code, self.to_string())
    }

    /// Its code.
    pub fn code(&self) -> StatusCode {
        self.code
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: byte {}: {}", self.file, self.offset, self.message)
    }
}

impl std::error::Error for ReadError {}

/// A file or other storage that is read at any offset.
pub trait Storage: Read + Seek + Send {}

impl<T: Read + Seek + Send> Storage for T {}

/// A file that is read at any offset, of which a few bytes are held at a time.
pub struct Source {
    reader: BufReader<Box<dyn Storage>>,
    name: String,
    position: u64,
    length: u64,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).field("length", &self.length).finish_non_exhaustive()
    }
}

/// A field of a header, with its offset there.
#[derive(Clone, Copy, Debug)]
pub struct Field<T> {
    /// Bytes before it.
    pub offset: usize,
    /// Its value.
    pub value: T,
}

impl<T> Field<T> {
    fn place(&self) -> u64 {
        self.offset as u64
    }
}

/// The fields that the headers of files with records have in common.
#[derive(Clone, Copy, Debug)]
pub struct FileStart {
    /// The kind of file, for errors: `profile`.
    pub what: &'static str,
    /// The first bytes, and those that there should be.
    pub magic: (Field<u32>, u32),
    /// The major version, and the one that is described.
    pub version: (Field<u16>, u16),
    /// Bytes of the header.
    pub header_length: Field<u32>,
    /// The least of them.
    pub least: usize,
    /// Flags, of which there are none.
    pub flags: Field<u32>,
    /// Bytes of the file; 0 while it is written.
    pub file_length: Field<u64>,
}

/// Opens a file for a [`Source`]; returns its name as well.
///
/// # Errors
/// NOT_FOUND if there is none, UNAVAILABLE if it cannot be opened.
pub fn open(path: &Path) -> Result<(String, Box<dyn Storage>), Status> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound => StatusCode::NotFound,
            _ => StatusCode::Unavailable,
        };
        Status::new(code, format!("{name}: {error}"))
    })?;
    Ok((name, Box::new(file)))
}

impl Source {
    /// A source over `storage`, which errors call `name`.
    ///
    /// # Errors
    /// If the length of the storage cannot be told.
    pub fn new(name: impl Into<String>, storage: Box<dyn Storage>) -> Result<Self, ReadError> {
        let mut reader = BufReader::with_capacity(64 << 10, storage);
        let name = name.into();
        let length = reader.seek(SeekFrom::End(0)).and_then(|length| reader.rewind().map(|()| length));
        match length {
            Ok(length) => Ok(Source { reader, name, position: 0, length }),
            Err(error) => {
                Err(ReadError { code: StatusCode::Unavailable, file: name, offset: 0, message: error.to_string() })
            }
        }
    }

    /// Bytes of the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Fills `bytes` with those at `offset`.
    ///
    /// # Errors
    /// DATA_LOSS if the file ends before, UNAVAILABLE if it cannot be read.
    pub fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.length) {
            let left = self.length.saturating_sub(offset);
            return Err(self.damaged(offset, format!("the file ends after {left} bytes: expected {}", bytes.len())));
        }
        let seek = match i64::try_from(i128::from(offset) - i128::from(self.position)) {
            Ok(0) => Ok(()),
            Ok(step) => self.reader.seek_relative(step),
            Err(_) => self.reader.seek(SeekFrom::Start(offset)).map(drop),
        };
        let read = seek.and_then(|()| self.reader.read_exact(bytes));
        self.position = offset + bytes.len() as u64;
        read.map_err(|error| self.error(StatusCode::Unavailable, offset, error.to_string()))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks the common fields of the headers of files with records, and returns the end of the last record: the file
    /// may be longer, and the length of one that is still written is 0.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it is another file or one of another version, DATA_LOSS if the header is damaged.
    pub fn check_start(&self, start: &FileStart) -> Result<u64, ReadError> {
        let FileStart { what, magic, version, header_length, least, flags, file_length } = start;
        let (found, expected) = (magic.0.value, magic.1);
        if found != expected {
            let message = format!("the file begins with {found:#010x}: expected {expected:#010x} of a {what}");
            return Err(self.error(StatusCode::InvalidArgument, magic.0.place(), message));
        }
        let (found, expected) = (version.0.value, version.1);
        if found != expected {
            let message = format!("the version is {found}: expected {expected}");
            return Err(self.error(StatusCode::InvalidArgument, version.0.place(), message));
        }
        let (length, first) = (self.length, u64::from(header_length.value));
        if first < *least as u64 || first > length {
            let message = format!("the header has {first} bytes: expected {least} to {length}");
            return Err(self.damaged(header_length.place(), message));
        }
        if flags.value != 0 {
            return Err(self.damaged(flags.place(), format!("the flags are {:#x}: expected 0", flags.value)));
        }
        let end = if file_length.value == 0 { length } else { file_length.value };
        if end < first || end > length {
            let message = format!("the length is {end}: expected {first} to {length}, or 0 of a file in use");
            return Err(self.damaged(file_length.place(), message));
        }
        Ok(end)
    }

    /// The error of a file that is not as its format says.
    pub fn damaged(&self, offset: u64, message: impl Into<String>) -> ReadError {
        self.error(StatusCode::DataLoss, offset, message)
    }

    /// An error at a place of the file.
    pub fn error(&self, code: StatusCode, offset: u64, message: impl Into<String>) -> ReadError {
        ReadError { code, file: self.name.clone(), offset, message: message.into() }
    }
}
