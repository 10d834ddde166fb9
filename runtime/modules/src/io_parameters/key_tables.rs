//! Readers of the tables of keys and spans, which programs pass in VM buffers. Their layouts are in
//! `spec/schema/parameter_tables.yaml`.

use crate::generated::schema::parameter_tables::{KeyEntry, SpanEntry};
use crate::vm::{Buffer, Obj};
use crate::{Result, Status};
use vireo_hal::ParameterSpan;

/// Names may share bytes; in total they may have this many times the bytes of the data...
const MAX_SHARING: u64 = 16;
/// ...or so many bytes, if that is more.
const MIN_SHARED: u64 = 1 << 16;

/// The name of a scope; it is empty if there is none.
pub(super) fn scope(buffer: Option<&Obj<Buffer>>) -> Result<String> {
    buffer.map_or(Ok(String::new()), |buffer| text("the scope", buffer.to_vec()))
}

fn text(what: &str, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let bytes = error.as_bytes().escape_ascii();
        Status::invalid_argument(format!("{what}, \"{bytes}\", is not UTF-8"))
    })
}

/// The spans of a call: as many as `spans` has, with a key for each.
pub(super) fn spans(key_table: &Buffer, key_data: &Buffer, spans: &Buffer) -> Result<Vec<ParameterSpan>> {
    let (count, rest) = (spans.len() / SpanEntry::SIZE, spans.len() % SpanEntry::SIZE);
    if rest != 0 {
        let message = format!("the spans have {} bytes: expected a multiple of {}", spans.len(), SpanEntry::SIZE);
        return Err(Status::invalid_argument(message));
    }
    if key_table.len() / KeyEntry::SIZE < count {
        let message = format!("the table of keys has {} bytes, too few for {count} spans", key_table.len());
        return Err(Status::invalid_argument(message));
    }
    let mut named = 0_u64;
    let mut result = Vec::with_capacity(count);
    for index in 0..count {
        let (mut key, mut span) = ([0; KeyEntry::SIZE], [0; SpanEntry::SIZE]);
        key_table.read((index * KeyEntry::SIZE) as u64, &mut key)?;
        spans.read((index * SpanEntry::SIZE) as u64, &mut span)?;
        let (Some(key), Some(span)) = (KeyEntry::read(&key), SpanEntry::read(&span)) else {
            return Err(Status::internal("an entry of a table is shorter than it is"));
        };
        named += u64::from(key.length);
        if named > (key_data.len() as u64).saturating_mul(MAX_SHARING).max(MIN_SHARED) {
            let message = format!("the keys have {named} bytes and more, which share {}", key_data.len());
            return Err(Status::invalid_argument(message));
        }
        let outside = |status: Status| status.context(format!("key {index} of {count}"));
        key_data.range(key.offset.into(), key.length.into()).map_err(outside)?;
        let mut bytes = vec![0; key.length as usize];
        key_data.read(key.offset.into(), &mut bytes)?;
        let SpanEntry { parameter_offset, buffer_offset, length } = span;
        let key = text("a key", bytes)?;
        result.push(ParameterSpan { key, parameter_offset, buffer_offset, length });
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(words: &[u8]) -> Buffer {
        Buffer::copy_of(words).expect("fits")
    }

    fn read(keys: &[(u32, u32)], data: &[u8], span: &[u64]) -> Result<Vec<ParameterSpan>, String> {
        let keys: Vec<u8> =
            keys.iter().flat_map(|(offset, length)| [offset.to_le_bytes(), length.to_le_bytes()].concat()).collect();
        let span: Vec<u8> = span.iter().flat_map(|word| word.to_le_bytes()).collect();
        spans(&buffer(&keys), &buffer(data), &buffer(&span)).map_err(|status| status.message().to_string())
    }

    #[test]
    fn every_span_has_a_key() {
        let spans = read(&[(1, 2), (0, 0)], b"abcd", &[1, 2, 3, 4, 5, 6]).unwrap();
        let fields = |span: &ParameterSpan| (span.key.clone(), span.parameter_offset, span.buffer_offset, span.length);
        assert_eq!(spans.iter().map(fields).collect::<Vec<_>>(), [("bc".into(), 1, 2, 3), (String::new(), 4, 5, 6)]);
        assert_eq!(read(&[], b"", &[]).unwrap().len(), 0);
    }

    #[test]
    fn wrong_tables_are_refused() {
        assert!(read(&[(0, 1)], b"a", &[1, 2]).unwrap_err().contains("expected a multiple of 24"));
        assert!(read(&[], b"a", &[1, 2, 3]).unwrap_err().contains("too few for 1 spans"));
        assert!(read(&[(0, 2)], b"a", &[1, 2, 3]).unwrap_err().contains("key 0 of 1"));
        assert!(read(&[(u32::MAX, 1)], b"a", &[1, 2, 3]).unwrap_err().contains("key 0 of 1"));
        assert!(read(&[(0, 1)], b"\xFF", &[1, 2, 3]).unwrap_err().contains("is not UTF-8"));
        let many = [(0, 60_000); 3];
        assert!(read(&many, &[b'a'; 60_000], &[0; 9]).is_ok());
        let many = [(0, 5_000); 40];
        assert!(read(&many, &[b'a'; 5_000], &[0; 120]).unwrap_err().contains("share 5000"));
    }
}
