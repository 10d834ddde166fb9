//! Frames: a header, and bytes whose meaning depends on its kind. Numbers are little-endian.

use vireo_core::visible_text::visible;

use crate::agreement::Facts;
use crate::hal::{CollectiveElementType, CollectiveKind, CollectiveOp, CollectiveReduction};
use crate::operation::{MAX_OPERATIONS, Operation};
use crate::status::{Result, Status, StatusCode};

/// The first bytes of every frame.
const MAGIC: [u8; 4] = *b"VCOL";
/// The version of the frames.
const VERSION: u8 = 2;
/// Bytes of a header: the magic, the version, the kind, two bytes of zero, and the number of bytes
/// that follow or, of `Shared`, are in memory.
pub(super) const HEADER: usize = 16;
/// The most bytes of a text.
const MAX_TEXT: usize = 1024;
/// Bytes of an operation.
const OPERATION: usize = 16;
/// The most bytes of facts.
pub(super) const MAX_FACTS: u64 = (16 + MAX_OPERATIONS * OPERATION) as u64;
/// The most bytes of an end.
pub(super) const MAX_END: u64 = 1 + MAX_TEXT as u64;

/// Bytes of a frame of data, at most.
pub(super) const CHUNK: u64 = 64 << 10;
/// Bytes of a secret, and of the identity of a boot.
pub(super) const ID: usize = 16;
/// Bytes of an offer of memory: the boot, the process, the descriptor and the number of the file, the secret in it.
pub(super) const OFFER: usize = ID + 4 + 4 + 8 + ID;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// A process comes to the meeting.
    Meet = 1,
    /// The addresses of all processes, for one that came.
    Addresses = 2,
    /// A member of a group connects to another one.
    Join = 3,
    /// A member's contribution to a round.
    Facts = 4,
    /// Data of an operation.
    Data = 5,
    /// The sender gives up, for a reason.
    End = 6,
    /// A member of a group connects to another one, to give back places in memory that both share.
    Returns = 7,
    /// The answer to a member that offers memory: an offer, or nothing. Then the answer to that.
    Offer = 8,
    /// Data of an operation, which are in memory; the frame has a header only.
    Shared = 9,
}

const KINDS: [FrameKind; 9] = [
    FrameKind::Meet,
    FrameKind::Addresses,
    FrameKind::Join,
    FrameKind::Facts,
    FrameKind::Data,
    FrameKind::End,
    FrameKind::Returns,
    FrameKind::Offer,
    FrameKind::Shared,
];

/// The header of a frame of `length` bytes.
pub(super) fn header(kind: FrameKind, length: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[5] = kind as u8;
    bytes[8..].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// The kind and the length of the frame with this header.
///
/// # Errors
/// DATA_LOSS for bytes that are no header.
pub(super) fn parse_header(bytes: &[u8; HEADER]) -> Result<(FrameKind, u64)> {
    let kind = KINDS.into_iter().find(|kind| *kind as u8 == bytes[5]);
    let length = u64::from_le_bytes(std::array::from_fn(|index| bytes[8 + index]));
    match kind {
        Some(kind) if bytes[..4] == MAGIC && bytes[4] == VERSION && bytes[6..8] == [0, 0] => Ok((kind, length)),
        _ => Err(Status::data_loss(format!("{bytes:02x?} is no header of a frame of version {VERSION}"))),
    }
}

/// A whole frame.
pub(super) fn frame(kind: FrameKind, bytes: &[u8]) -> Vec<u8> {
    let mut frame = header(kind, bytes.len() as u64).to_vec();
    frame.extend_from_slice(bytes);
    frame
}

/// The numbers of a frame, read from its start.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(|| {
            Status::data_loss(format!("a frame ends {} bytes before it should", count - self.0.len().min(count)))
        })?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.bytes(N)?;
        Ok(std::array::from_fn(|index| bytes[index]))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The frame ends here.
    pub(super) fn end(self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            more => Err(Status::data_loss(format!("a frame has {more} bytes more than it should"))),
        }
    }
}

/// The bytes of a failure: its code, and its message up to a limit.
pub(super) fn end_bytes(failure: &Status) -> Vec<u8> {
    let message = failure.message();
    let mut bytes = vec![failure.code() as u8];
    bytes.extend_from_slice(&message.as_bytes()[..message.floor_char_boundary(MAX_TEXT)]);
    bytes
}

/// The failure with these bytes. Its text is made visible, since a peer wrote it.
pub(super) fn parse_end(bytes: &[u8]) -> Status {
    let (code, text) = bytes.split_first().unwrap_or((&0, &[]));
    // `DEFERRED` is no failure where operations end, but says that they go on.
    let code = StatusCode::from_number(u32::from(*code)).filter(|code| *code != StatusCode::Deferred);
    let code = code.unwrap_or(StatusCode::Unknown);
    Status::new(code, visible(&String::from_utf8_lossy(&text[..text.len().min(MAX_TEXT)])))
}

/// The bytes of a contribution: the round, a tag, and what the tag says.
pub(super) fn facts_bytes(round: u64, facts: &Facts) -> Vec<u8> {
    let mut bytes = round.to_le_bytes().to_vec();
    match facts {
        Facts::Operations(operations) => {
            bytes.push(0);
            for Operation { op, param, element_count } in operations {
                bytes.extend_from_slice(&[op.kind.0, op.reduction.0, op.element_type.0, 0]);
                bytes.extend_from_slice(&param.to_le_bytes());
                bytes.extend_from_slice(&element_count.to_le_bytes());
            }
        }
        Facts::Split { color, key } => {
            bytes.push(1);
            bytes.extend_from_slice(&color.to_le_bytes());
            bytes.extend_from_slice(&key.to_le_bytes());
        }
        Facts::Failed(failure) => {
            bytes.push(2);
            bytes.extend(end_bytes(failure));
        }
    }
    bytes
}

/// The contribution of `rank` of `count` ranks to a round with these bytes. Operations that are none, or that the rank
/// cannot run, are a failure of the rank: every rank comes to the same.
///
/// # Errors
/// DATA_LOSS for bytes that are no contribution to this round.
pub(super) fn parse_facts(bytes: &[u8], round: u64, rank: u32, count: u32) -> Result<Facts> {
    let mut reader = Reader(bytes);
    let found = reader.u64()?;
    if found != round {
        return Err(Status::data_loss(format!("a contribution to round {found}, expected one to round {round}")));
    }
    match reader.array()? {
        [0] => {
            let mut operations = Vec::new();
            while !reader.0.is_empty() {
                let [kind, reduction, element_type, zero] = reader.array()?;
                let (param, element_count) = (reader.u32()?, reader.u64()?);
                let op = CollectiveOp {
                    kind: CollectiveKind(kind),
                    reduction: CollectiveReduction(reduction),
                    element_type: CollectiveElementType(element_type),
                };
                let operation = Operation::new(op, param, element_count).and_then(|operation| {
                    operation.needs(rank, count)?;
                    Ok(operation)
                });
                match operation {
                    Ok(operation) if zero == 0 && operations.len() < MAX_OPERATIONS => operations.push(operation),
                    Ok(_) => return Err(Status::data_loss("operations that no rank has")),
                    Err(failure) => return Ok(Facts::Failed(failure)),
                }
            }
            Ok(Facts::Operations(operations))
        }
        [1] => {
            let [color, key] = [reader.u32()?, reader.u32()?].map(u32::cast_signed);
            reader.end()?;
            Ok(Facts::Split { color, key })
        }
        [2] => Ok(Facts::Failed(parse_end(reader.0))),
        [tag] => Err(Status::data_loss(format!("a contribution of kind {tag}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(kind: u8, param: u32, element_count: u64) -> Operation {
        let op = CollectiveOp { kind: CollectiveKind(kind), ..CollectiveOp::default() };
        Operation::new(op, param, element_count).expect("is one")
    }

    #[test]
    fn contributions_survive_the_wire() {
        let all = [
            Facts::Operations(Vec::new()),
            Facts::Operations(vec![operation(0, 0, 7), operation(6, 1, 1 << 40)]),
            Facts::Split { color: -1, key: i32::MIN },
            Facts::Failed(Status::invalid_argument("a reason")),
        ];
        for facts in all {
            let bytes = facts_bytes(9, &facts);
            let parsed = parse_facts(&bytes, 9, 0, 2).expect("is one");
            assert_eq!(format!("{parsed:?}"), format!("{facts:?}"));
            assert!(parse_facts(&bytes, 8, 0, 2).is_err());
            for length in 0..bytes.len() {
                // A shorter one may mean something else, and is no panic.
                let _ = parse_facts(&bytes[..length], 9, 0, 2);
            }
        }
    }

    #[test]
    fn what_peers_write_is_checked() {
        let facts = |bytes: &[u8]| parse_facts(&[&[0; 8], bytes].concat(), 0, 0, 2);
        assert!(facts(&[3]).is_err());
        assert!(facts(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        let root = [&[0, 3, 0, 0, 0][..], &2_u32.to_le_bytes(), &1_u64.to_le_bytes()].concat();
        assert!(matches!(facts(&root), Ok(Facts::Failed(failure)) if failure.message().contains("root 2 of 2 ranks")));
        let Ok(Facts::Failed(failure)) = facts(&[&[2, 9][..], "a\nb\u{202e}".as_bytes()].concat()) else {
            panic!("a failure");
        };
        assert_eq!(failure.to_string(), "FAILED_PRECONDITION: a\\nb\\u{202e}");
        assert_eq!(parse_end(&[]).message(), "");
        assert_eq!(parse_end(&[StatusCode::Deferred as u8]).code(), StatusCode::Unknown);
        let long = end_bytes(&Status::internal("\u{e4}".repeat(2000)));
        assert!(long.len() as u64 <= MAX_END && parse_end(&long).message().chars().all(|c| c == '\u{e4}'));
        let mut bytes = header(FrameKind::Data, 1 << 50);
        assert!(matches!(parse_header(&bytes), Ok((FrameKind::Data, length)) if length == 1 << 50));
        bytes[5] = 10;
        assert!(parse_header(&bytes).is_err());
    }
}
