//! Files with several named tensors, `.npz` and `.safetensors`: reads and writes them as tensors of the host.
//!
//! `.npz` files are zip archives of `.npy` arrays, read and written through the `zip` crate; `.safetensors` is the
//! reader of parameters. Tensors have the order of the file: that of the zip's directory, and that of the contents.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Cursor, Write};
use std::path::Path;

use vireo_core::status::{Result, Status};
use vireo_hal::ElementType;
use vireo_params::safetensors::{self, DATA_TYPES, DataType};
use vireo_params::{ContentsMode, ParameterIndex, ParameterStorage};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::byte_length;
use super::npy::{read_npy, write_npy};
use crate::tensor::HostTensor;

/// The extension of the members of `.npz` files.
const MEMBER: &str = ".npy";

/// A format of files with several tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionFormat {
    /// NumPy's.
    Npz,
    /// Safetensors.
    Safetensors,
}

impl CollectionFormat {
    /// All formats, with the extensions of their files.
    pub const ALL: [(CollectionFormat, &'static str); 2] =
        [(CollectionFormat::Npz, ".npz"), (CollectionFormat::Safetensors, ".safetensors")];
}

/// An open file with several tensors.
pub struct TensorCollection {
    contents: Contents,
    /// The names of the tensors.
    names: Vec<String>,
}

enum Contents {
    Npz(Box<ZipArchive<BufReader<File>>>),
    Safetensors(ParameterIndex),
}

impl TensorCollection {
    /// Opens a file and lists its tensors.
    ///
    /// # Errors
    /// `NOT_FOUND` if the file cannot be opened, `INVALID_ARGUMENT` if it is damaged.
    pub fn open(format: CollectionFormat, path: impl AsRef<Path>) -> Result<TensorCollection> {
        let path = path.as_ref();
        let (contents, names) = match format {
            CollectionFormat::Npz => {
                let file =
                    File::open(path).map_err(|error| Status::not_found("cannot open the file").with_source(error))?;
                let zip = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
                let mut names = Vec::new();
                for name in (0..zip.len()).filter_map(|index| zip.name_for_index(index)) {
                    let name = name.map_err(damaged)?;
                    names.push(name.strip_suffix(MEMBER).unwrap_or(&name).to_string());
                }
                (Contents::Npz(Box::new(zip)), names)
            }
            CollectionFormat::Safetensors => {
                let index = ParameterIndex::open(path, ContentsMode::File)?;
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
        Ok(TensorCollection { contents, names })
    }

    /// The names of the tensors, in the order of the file.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the tensor called `name`, of at most so many bytes.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is none, `UNIMPLEMENTED` for element types that tensors do not have, `RESOURCE_EXHAUSTED`
    /// for one that is too large, `INVALID_ARGUMENT` if it is damaged.
    pub fn read(&mut self, name: &str, max_bytes: u64) -> Result<HostTensor<'static>> {
        let missing = || Status::not_found(format!("there is no tensor `{name}`; there are {}", self.names.join(", ")));
        let index = self.names.iter().position(|known| known == name).ok_or_else(missing)?;
        let tensor = match &mut self.contents {
            // No more than the tensor needs is unpacked, whatever the archive says.
            Contents::Npz(zip) => read_npy(&mut zip.by_index(index).map_err(damaged)?, max_bytes),
            Contents::Safetensors(parameters) => read_parameter(name, parameters, max_bytes),
        };
        tensor.map_err(|status| status.context(format!("tensor `{name}`")))
    }
}

fn damaged(error: impl Error + Send + Sync + 'static) -> Status {
    Status::invalid_argument("the archive is damaged").with_source(error)
}

fn read_parameter(name: &str, index: &ParameterIndex, max_bytes: u64) -> Result<HostTensor<'static>> {
    let found = index.get(name).and_then(|one| Some((one, one.tensor.as_ref()?)));
    let (parameter, ty) = found.ok_or_else(|| Status::internal("a tensor is missing that was listed"))?;
    let element = DATA_TYPES.iter().find(|known| known.name == ty.element);
    let element = element.and_then(|known| ElementType::parse(known.element).ok());
    let unsupported = || Status::unimplemented(format!("elements of type {}", ty.element));
    let element = element.ok_or_else(unsupported)?;
    let length = byte_length(&ty.shape, element, max_bytes)?;
    let ParameterStorage::Stored { contents, offset } = &parameter.storage else { return Err(unsupported()) };
    // The reader has compared the length with the shape, and the file.
    let mut bytes = vec![0; length as usize];
    contents.read_at(*offset, &mut bytes)?;
    HostTensor::from_bytes(&ty.shape, element, bytes)
}

/// A file with these tensors.
///
/// # Errors
/// `UNIMPLEMENTED` for element types that the format does not have, with the name of the tensor.
pub fn write_collection(format: CollectionFormat, tensors: &[(&str, &HostTensor<'_>)]) -> Result<Vec<u8>> {
    match format {
        CollectionFormat::Npz => {
            let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
            let failed = |error| Status::internal("cannot write the archive").with_source(error);
            for (name, tensor) in tensors {
                let array = write_npy(tensor).map_err(|status| status.context(format!("tensor `{name}`")))?;
                // As NumPy does it without compression.
                let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
                let options = options.large_file(u32::try_from(array.len()).is_err());
                zip.start_file(format!("{name}{MEMBER}"), options).map_err(failed)?;
                let written = zip.write_all(&array);
                written.map_err(|error| Status::internal("cannot write the archive").with_source(error))?;
            }
            Ok(zip.finish().map_err(failed)?.into_inner())
        }
        CollectionFormat::Safetensors => {
            let mut members = Vec::new();
            for (name, tensor) in tensors {
                let ty = DataType::of_element(tensor.element_type()).ok_or_else(|| {
                    Status::unimplemented(format!("tensor `{name}`: elements of type {}", tensor.element_type()))
                })?;
                members.push((*name, ty.name, tensor.shape(), tensor.bytes().len() as u64));
            }
            let mut file = safetensors::header(members)?;
            tensors.iter().for_each(|(_, tensor)| file.extend_from_slice(tensor.bytes()));
            Ok(file)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const LIMIT: u64 = 1 << 20;

    fn tensor(element: &str, shape: &[u64], bytes: &[u8]) -> HostTensor<'static> {
        HostTensor::from_bytes(shape, ElementType::parse(element).unwrap(), bytes.to_vec()).unwrap()
    }

    /// A file of this process; tests remove those that they write.
    fn path(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("vireo-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(name)
    }

    #[test]
    fn what_is_written_is_read() {
        let tensors = [
            ("b", tensor("f32", &[2, 1], &[0, 0, 128, 63, 0, 0, 0, 64])),
            ("a", tensor("ui8", &[3], &[1, 2, 255])),
            ("empty", tensor("f64", &[0, 7], &[])),
        ];
        let tensors: Vec<(&str, &HostTensor<'_>)> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
        for (format, extension) in CollectionFormat::ALL {
            let path = path(&format!("x{extension}"));
            std::fs::write(&path, write_collection(format, &tensors).unwrap()).unwrap();
            let mut file = TensorCollection::open(format, &path).unwrap();
            assert_eq!(file.names(), ["b", "a", "empty"]);
            for (name, tensor) in &tensors {
                let read = file.read(name, LIMIT).unwrap();
                assert_eq!((read.shape(), read.bytes()), (tensor.shape(), tensor.bytes()), "{name}");
                assert_eq!(read.element_type().bit_count(), tensor.element_type().bit_count());
            }
            let error = file.read("c", LIMIT).unwrap_err().to_string();
            assert!(error.contains("there is no tensor `c`; there are b, a, empty"), "{error}");
            let error = file.read("b", 7).unwrap_err().to_string();
            assert!(error.contains("2x1xf32 needs 8 bytes, and the limit is 7 bytes"), "{error}");
            for bytes in [&b""[..], b"PK\x03\x04", &[0xFF; 100]] {
                std::fs::write(&path, bytes).unwrap();
                assert!(TensorCollection::open(format, &path).is_err());
            }
            let one = tensor("i8", &[], &[1]);
            assert!(write_collection(format, &[("a", &one), ("a", &one)]).is_err());
            std::fs::remove_file(&path).unwrap();
            assert!(TensorCollection::open(format, &path).is_err());
        }
    }

    #[test]
    fn narrow_integers_have_a_byte_each_in_arrays() {
        let narrow = tensor("si4", &[3], &[0xF1, 2]);
        let path = path("narrow.npz");
        std::fs::write(&path, write_collection(CollectionFormat::Npz, &[("x", &narrow)]).unwrap()).unwrap();
        let read = TensorCollection::open(CollectionFormat::Npz, &path).unwrap().read("x", LIMIT).unwrap();
        assert_eq!((read.element_type(), read.bytes()), (narrow.element_type(), narrow.bytes()));
        std::fs::remove_file(&path).unwrap();
    }

    /// A deflated member claims to be as large as it likes; no more than the shape says is unpacked.
    #[test]
    fn members_are_unpacked_up_to_their_shape() {
        let mut array = write_npy(&tensor("i8", &[4], &[1, 2, 3, 4])).unwrap();
        array.resize(array.len() + (8 << 20), 0);
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file("x.npy", options).unwrap();
        zip.write_all(&array).unwrap();
        let path = path("deflated.npz");
        std::fs::write(&path, zip.finish().unwrap().into_inner()).unwrap();
        let mut collection = TensorCollection::open(CollectionFormat::Npz, &path).unwrap();
        assert_eq!(collection.read("x", LIMIT).unwrap().bytes(), [1, 2, 3, 4]);
        std::fs::remove_file(&path).unwrap();
    }
}
