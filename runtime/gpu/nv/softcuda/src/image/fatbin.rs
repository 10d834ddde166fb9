//! The reader of fatbins: files of several entries, of which those with PTX are used. Entries may be compressed.

use vireo_cuda::types::{
    FATBIN_FLAG_LZ4, FATBIN_FLAG_ZSTD, FATBIN_KIND_ELF, FATBIN_KIND_PTX, FATBIN_MAGIC, FatbinEntry, FatbinHeader,
};

use super::LoadError;

/// Bytes of PTX at most, once it is not compressed.
const MAX_TEXT: usize = 256 << 20;
/// Bytes of a fatbin at most.
const MAX_FILE: u64 = 1 << 30;

/// The contents of a fatbin.
#[derive(Debug, Default)]
pub(crate) struct Fatbin {
    /// Its PTX, each with the compute capability that it is for.
    pub(crate) texts: Vec<(u32, String)>,
    /// The compute capabilities that it has machine code for.
    pub(crate) machine_code: Vec<u32>,
}

/// Bytes of the fatbin that begins with this header.
pub(crate) fn length(header: &[u8; FatbinHeader::SIZE]) -> Option<u64> {
    let header = FatbinHeader::read(header);
    let length = u64::from(header.header_size).checked_add(header.size)?;
    (header.magic == FATBIN_MAGIC && length <= MAX_FILE).then_some(length)
}

fn wrong(what: &str, at: usize) -> LoadError {
    LoadError::Image(format!("fatbin: {what} at byte {at}"))
}

/// Reads a fatbin.
pub(crate) fn read(bytes: &[u8]) -> Result<Fatbin, LoadError> {
    let first = bytes.first_chunk::<{ FatbinHeader::SIZE }>().ok_or_else(|| wrong("expected a header", 0))?;
    let header = FatbinHeader::read(first);
    if header.magic != FATBIN_MAGIC {
        return Err(wrong("expected its magic number", 0));
    }
    let end = length(first).and_then(|length| usize::try_from(length).ok()).filter(|end| *end <= bytes.len());
    let end = end.ok_or_else(|| wrong("it is shorter than its header says", bytes.len()))?;
    let (mut at, mut found) = (usize::from(header.header_size), Fatbin::default());
    if at < FatbinHeader::SIZE {
        return Err(wrong("the header is too short", 6));
    }
    while at < end {
        let rest = &bytes[at..end];
        let entry = rest.first_chunk::<{ FatbinEntry::SIZE }>().ok_or_else(|| wrong("expected an entry", at))?;
        let entry = FatbinEntry::read(entry);
        let sizes = usize::try_from(entry.size).ok().zip(usize::try_from(entry.header_size).ok());
        let (size, skip) = sizes.ok_or_else(|| wrong("the entry is too large", at))?;
        if skip < FatbinEntry::SIZE {
            return Err(wrong("the header of the entry is too short", at + 4));
        }
        let data = skip.checked_add(size).and_then(|end| rest.get(skip..end));
        let data = data.ok_or_else(|| wrong("the entry leaves the file", at))?;
        match u32::from(entry.kind) {
            FATBIN_KIND_PTX => found.texts.push((entry.arch, text(&entry, data, at)?)),
            FATBIN_KIND_ELF => found.machine_code.push(entry.arch),
            _ => {}
        }
        at += skip + size;
    }
    Ok(found)
}

fn text(entry: &FatbinEntry, data: &[u8], at: usize) -> Result<String, LoadError> {
    let packed = usize::try_from(entry.compressed_size).ok().filter(|size| *size != 0);
    let packed = packed.map(|size| data.get(..size).ok_or_else(|| wrong("the compressed code leaves the entry", at)));
    let bytes = match packed.transpose()? {
        None => data.to_vec(),
        Some(packed) => {
            let size = usize::try_from(entry.uncompressed_size).ok().filter(|size| *size <= MAX_TEXT);
            let size = size.ok_or_else(|| wrong("the code is too large", at))?;
            if entry.flags & FATBIN_FLAG_LZ4 != 0 {
                lz4_flex::block::decompress(packed, size).map_err(|error| wrong(&format!("LZ4: {error}"), at))?
            } else if entry.flags & FATBIN_FLAG_ZSTD != 0 {
                zstd(packed, size).map_err(|error| wrong(&format!("Zstandard: {error}"), at))?
            } else {
                return Err(wrong("the code is compressed in an unknown way", at));
            }
        }
    };
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).map_err(|_| wrong("the PTX is not UTF-8", at))
}

fn zstd(packed: &[u8], size: usize) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let limit = u64::try_from(size).unwrap_or(u64::MAX);
    decoder.take(limit).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fatbin(entries: &[(u16, u64, &[u8], u64)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (kind, flags, data, full) in entries {
            let mut header = [0u8; FatbinEntry::SIZE];
            header[0..2].copy_from_slice(&kind.to_le_bytes());
            header[4..8].copy_from_slice(&64u32.to_le_bytes());
            header[8..16].copy_from_slice(&(data.len() as u64).to_le_bytes());
            if *flags != 0 {
                header[16..20].copy_from_slice(&(data.len() as u32).to_le_bytes());
            }
            header[28..32].copy_from_slice(&80u32.to_le_bytes());
            header[40..48].copy_from_slice(&flags.to_le_bytes());
            header[56..64].copy_from_slice(&full.to_le_bytes());
            body.extend(header);
            body.extend(*data);
        }
        let mut bytes = FATBIN_MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn ptx_is_found_whether_it_is_compressed_or_not() {
        let text = ".version 7.0\n".repeat(50);
        let packed = lz4_flex::block::compress(text.as_bytes());
        let zstd = ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
        let full = text.len() as u64;
        let bytes = fatbin(&[
            (2, 0, b"machine code", 0),
            (1, 0, text.as_bytes(), 0),
            (1, FATBIN_FLAG_LZ4, &packed, full),
            (1, FATBIN_FLAG_ZSTD, &zstd, full),
        ]);
        let found = read(&bytes).expect("a fatbin");
        assert_eq!(found.machine_code, [80]);
        assert_eq!(found.texts, vec![(80, text.clone()), (80, text.clone()), (80, text)]);
    }

    #[test]
    fn damaged_fatbins_are_refused_and_none_panics() {
        let packed = lz4_flex::block::compress(&[7; 300]);
        let bytes = fatbin(&[(1, FATBIN_FLAG_LZ4, &packed, 300), (1, 0, b".version 7.0", 0)]);
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length} bytes");
        }
        let mut random = 1u64;
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            for _ in 0..2 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let index = (random >> 33) as usize % damaged.len();
                damaged[index] = (random >> 24) as u8;
            }
            let _ = read(&damaged);
        }
    }
}
