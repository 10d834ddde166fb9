//! Files with several named tensors, `.npz` and `.safetensors`: reads and writes them for inputs and outputs.
//!
//! `.npz` files are zip archives of `.npy` arrays, read and written through the `zip` crate; `.safetensors` is the runtime's own reader.
//! Tensors have the order of the file: that of the zip's directory, and that of the contents.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Write};

use vireo::hal::ElementType;
use vireo::io::safetensors::{self, DATA_TYPES, DataType};
use vireo::io::{ContentsMode, ParameterIndex, ParameterStorage};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::error::ValueError;
use super::tensor::TypeText;
use super::{Limits, Tensor, npy};

/// A format of files with several tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// NumPy's.
    Npz,
    /// Safetensors.
    Safetensors,
}

/// The extensions of the formats.
const FORMATS: [(Format, &str); 2] = [(Format::Npz, ".npz"), (Format::Safetensors, ".safetensors")];

/// The extension of the members of `.npz` files.
const MEMBER: &str = ".npy";

/// A file of a value: `file.npz`, or `file.npz:name` for one of its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The format.
    pub format: Format,
    /// The file.
    pub path: &'a str,
    /// The tensor.
    pub key: Option<&'a str>,
}

impl<'a> Name<'a> {
    /// Reads `text`; nothing if it names another kind of file.
    pub fn parse(text: &'a str) -> Option<Name<'a>> {
        FORMATS.iter().find_map(|(format, extension)| {
            if text.ends_with(extension) {
                return Some(Name { format: *format, path: text, key: None });
            }
            let end = text.find(&format!("{extension}:"))? + extension.len();
            Some(Name { format: *format, path: &text[..end], key: Some(&text[end + 1..]) })
        })
    }
}

/// An open file.
pub struct Collection {
    path: String,
    contents: Contents,
    /// The names of the tensors.
    names: Vec<String>,
    /// The one to read next.
    next: usize,
}

enum Contents {
    Npz(Box<ZipArchive<BufReader<File>>>),
    Safetensors(ParameterIndex),
}

impl Collection {
    /// Opens a file and lists its tensors.
    pub fn open(format: Format, path: &str) -> Result<Collection, ValueError> {
        let archive = |error| archive_error(path, error);
        let (contents, names) = match format {
            Format::Npz => {
                let file = File::open(path);
                let file = file.map_err(|source| ValueError::File { action: "open", path: path.into(), source })?;
                let zip = ZipArchive::new(BufReader::new(file)).map_err(|error| archive(Box::new(error)))?;
                let mut names = Vec::new();
                for name in (0..zip.len()).filter_map(|index| zip.name_for_index(index)) {
                    let name = name.map_err(|error| archive(Box::new(error)))?;
                    names.push(name.strip_suffix(MEMBER).unwrap_or(&name).to_string());
                }
                (Contents::Npz(Box::new(zip)), names)
            }
            Format::Safetensors => {
                let index = ParameterIndex::open(path, ContentsMode::File).map_err(|error| archive(Box::new(error)))?;
                let offset = |key: &&str| match index.get(key).map(|one| &one.storage) {
                    Some(ParameterStorage::Stored { offset, .. }) => *offset,
                    _ => 0,
                };
                let mut names: Vec<&str> = index.iter().map(|one| one.key.as_str()).collect();
                names.sort_by_key(offset);
                let names = names.into_iter().map(str::to_string).collect();
                (Contents::Safetensors(index), names)
            }
        };
        Ok(Collection { path: path.into(), contents, names, next: 0 })
    }

    /// Makes the first tensor the next one.
    pub fn restart(&mut self) {
        self.next = 0;
    }

    /// True if nothing is left.
    pub fn at_end(&self) -> bool {
        self.next >= self.names.len()
    }

    /// Reads the tensor called `key`, or the next one.
    pub fn read(&mut self, key: Option<&str>, limits: Limits) -> Result<Tensor, ValueError> {
        let index = match key {
            Some(key) => self.names.iter().position(|name| name == key),
            None => Some(self.next).filter(|_| !self.at_end()),
        };
        let index = index.ok_or_else(|| ValueError::NoEntry {
            path: self.path.clone(),
            what: key.map_or_else(|| "further tensor".into(), |key| format!("tensor `{key}`")),
            known: self.names.join(", "),
        })?;
        self.next = index + 1;
        let name = self.names[index].clone();
        match &mut self.contents {
            Contents::Npz(zip) => {
                let member = zip.by_index(index).map_err(|error| archive_error(&self.path, Box::new(error)))?;
                read_member(&self.path, &name, member, limits)
            }
            Contents::Safetensors(parameters) => read_tensor(&self.path, &name, parameters, limits),
        }
    }
}

fn archive_error(path: &str, source: Box<dyn std::error::Error + Send + Sync>) -> ValueError {
    ValueError::Archive { path: path.into(), source }
}

fn member_path(path: &str, name: &str) -> String {
    format!("{path}:{name}")
}

fn read_member(path: &str, name: &str, mut member: impl Read, limits: Limits) -> Result<Tensor, ValueError> {
    let path = member_path(path, name);
    let header = npy::read_header(&mut member);
    let header = header.map_err(|source| ValueError::Npy { path: path.clone(), offset: 0, source })?;
    // No more than that is unpacked, whatever the archive says.
    let needed = limits.byte_length(&header.shape, header.stored())? as u64;
    let mut bytes = Vec::new();
    let read = member.take(needed).read_to_end(&mut bytes);
    read.map_err(|source| ValueError::File { action: "read", path: path.clone(), source })?;
    let found = bytes.len() as u64;
    if found < needed {
        let what = TypeText(&header.shape, header.element).to_string();
        return Err(ValueError::ShortFile { path, offset: found, found, needed, what });
    }
    Ok(header.array(bytes))
}

fn read_tensor(path: &str, name: &str, index: &ParameterIndex, limits: Limits) -> Result<Tensor, ValueError> {
    let found = index.get(name).and_then(|one| Some((one, one.tensor.as_ref()?)));
    let Some((parameter, ty)) = found else {
        return Err(ValueError::NoEntry { path: path.into(), what: format!("tensor `{name}`"), known: String::new() });
    };
    let element = DATA_TYPES.iter().find(|known| known.name == ty.element);
    let element = element.and_then(|known| ElementType::parse(known.element).ok());
    let unsupported = || ValueError::DataType { path: member_path(path, name), what: ty.element.clone() };
    let element = element.ok_or_else(unsupported)?;
    let length = limits.byte_length(&ty.shape, element)?;
    let ParameterStorage::Stored { contents, offset } = &parameter.storage else { return Err(unsupported()) };
    // The reader has compared the length with the shape, and the file.
    let mut bytes = vec![0; length];
    contents.read_at(*offset, &mut bytes).map_err(|error| archive_error(path, Box::new(error)))?;
    Ok(Tensor { element, shape: ty.shape.clone(), bytes })
}

/// A file with these tensors.
pub fn encode(format: Format, path: &str, tensors: &[(String, Tensor)]) -> Result<Vec<u8>, ValueError> {
    match format {
        Format::Npz => {
            let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
            for (name, tensor) in tensors {
                let array = npy::encode(tensor);
                let path = || member_path(path, name);
                let array = array.map_err(|source| ValueError::Npy { path: path(), offset: 0, source })?;
                // As NumPy does it without compression.
                let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
                let options = options.large_file(u32::try_from(array.len()).is_err());
                let failed = |error| archive_error(&path(), Box::new(error));
                zip.start_file(format!("{name}{MEMBER}"), options).map_err(failed)?;
                let written = zip.write_all(&array);
                written.map_err(|source| ValueError::File { action: "write", path: path(), source })?;
            }
            let file = zip.finish().map_err(|error| archive_error(path, Box::new(error)))?;
            Ok(file.into_inner())
        }
        Format::Safetensors => {
            let mut members = Vec::new();
            for (name, tensor) in tensors {
                let ty = DataType::of_element(tensor.element).ok_or_else(|| ValueError::DataType {
                    path: member_path(path, name),
                    what: tensor.element.to_string(),
                })?;
                members.push((name.as_str(), ty.name, tensor.shape.as_slice(), tensor.bytes.len() as u64));
            }
            let mut file = safetensors::header(members).map_err(|error| archive_error(path, Box::new(error)))?;
            tensors.iter().for_each(|(_, tensor)| file.extend_from_slice(&tensor.bytes));
            Ok(file)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { max_tensor_bytes: 1 << 20 };

    fn tensor(element: &str, shape: &[u64], bytes: &[u8]) -> Tensor {
        Tensor { element: ElementType::parse(element).unwrap(), shape: shape.to_vec(), bytes: bytes.to_vec() }
    }

    #[test]
    fn names_say_which_file_and_which_tensor() {
        let name = |format, path, key| Some(Name { format, path, key });
        assert_eq!(Name::parse("a.npz"), name(Format::Npz, "a.npz", None));
        assert_eq!(Name::parse("d/a.npz:b:c"), name(Format::Npz, "d/a.npz", Some("b:c")));
        assert_eq!(Name::parse("x.safetensors:"), name(Format::Safetensors, "x.safetensors", Some("")));
        assert_eq!(Name::parse("a.npy"), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let tensors = [
            ("b".to_string(), tensor("f32", &[2, 1], &[0, 0, 128, 63, 0, 0, 0, 64])),
            ("a".to_string(), tensor("ui8", &[3], &[1, 2, 255])),
            ("empty".to_string(), tensor("f64", &[0, 7], &[])),
        ];
        for (format, extension) in FORMATS {
            let path = folder.path().join(format!("x{extension}"));
            let path = path.to_str().unwrap();
            std::fs::write(path, encode(format, path, &tensors).unwrap()).unwrap();
            let mut collection = Collection::open(format, path).unwrap();
            for (name, tensor) in &tensors {
                assert!(!collection.at_end());
                let read = collection.read(None, LIMITS).unwrap();
                assert_eq!((&read.shape, &read.bytes), (&tensor.shape, &tensor.bytes), "{name}");
                assert_eq!(read.element.bit_count(), tensor.element.bit_count());
            }
            assert!(collection.at_end());
            let missing = collection.read(None, LIMITS).unwrap_err().to_string();
            assert!(missing.contains("further tensor") && missing.contains("b, a, empty"), "{missing}");
            assert_eq!(collection.read(Some("a"), LIMITS).unwrap().bytes, [1, 2, 255]);
            assert!(collection.read(Some("c"), LIMITS).unwrap_err().to_string().contains("tensor `c`"));
            collection.restart();
            assert!(collection.read(None, Limits { max_tensor_bytes: 7 }).is_err());
        }
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (format, extension) in FORMATS {
            let path = folder.path().join(format!("x{extension}"));
            let path = path.to_str().unwrap();
            assert!(Collection::open(format, path).is_err());
            for bytes in [&b""[..], b"PK\x03\x04", &[0xFF; 100]] {
                std::fs::write(path, bytes).unwrap();
                assert!(Collection::open(format, path).is_err());
            }
        }
        let twice = [("a".to_string(), tensor("i8", &[], &[1])), ("a".to_string(), tensor("i8", &[], &[1]))];
        for (format, _) in FORMATS {
            assert!(encode(format, "x", &twice).is_err());
        }
    }

    /// A deflated member claims to be as large as it likes; no more than the shape says is unpacked.
    #[test]
    fn members_are_unpacked_up_to_their_shape() {
        let mut array = npy::encode(&tensor("i8", &[4], &[1, 2, 3, 4])).unwrap();
        array.resize(array.len() + (8 << 20), 0);
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file("x.npy", options).unwrap();
        zip.write_all(&array).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        std::fs::write(&path, zip.finish().unwrap().into_inner()).unwrap();
        let mut collection = Collection::open(Format::Npz, path.to_str().unwrap()).unwrap();
        assert_eq!(collection.read(None, LIMITS).unwrap().bytes, [1, 2, 3, 4]);
    }
}
