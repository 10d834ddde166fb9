//! Tensors in files: `.npy` arrays, and the collections `.npz` and `.safetensors`.
//!
//! The contents of a file are not trusted: no more memory is taken than a limit allows and than the file has bytes.

mod collection;
mod npy;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{ElementType, ShapeAndType, dense_byte_length};

pub use collection::{CollectionFormat, TensorCollection, write_collection};
pub use npy::{pack, read_npy, write_npy};

use crate::tensor::HostTensor;

impl HostTensor<'static> {
    /// Reads the first array of a `.npy` file.
    ///
    /// # Errors
    /// `NOT_FOUND` if the file cannot be opened, else as [`read_npy`].
    pub fn read_npy(path: impl AsRef<Path>) -> Result<HostTensor<'static>> {
        let path = path.as_ref();
        let read = || {
            let file =
                File::open(path).map_err(|error| Status::not_found("cannot open the file").with_source(error))?;
            // A tensor has no more bytes than its file, and an array is read as it comes.
            read_npy(&mut BufReader::new(file), u64::MAX)
        };
        read().map_err(|status| status.context(path.display()))
    }
}

impl HostTensor<'_> {
    /// Writes a `.npy` file.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for element types that arrays do not have, `UNAVAILABLE` if the file cannot be written.
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let unwritable = |error| Status::new(StatusCode::Unavailable, "cannot write the file").with_source(error);
        let written = write_npy(self).and_then(|array| std::fs::write(path, array).map_err(unwritable));
        written.map_err(|status| status.context(path.display()))
    }
}

/// The bytes of the elements of a tensor, if they do not exceed a limit.
fn byte_length(shape: &[u64], element: ElementType, max_bytes: u64) -> Result<u64> {
    let length = dense_byte_length(shape, element).ok();
    length.filter(|length| *length <= max_bytes && usize::try_from(*length).is_ok()).ok_or_else(|| {
        let needed = length.map_or_else(|| "more than can be counted".to_string(), |length| format!("{length} bytes"));
        Status::resource_exhausted(format!(
            "{} needs {needed}, and the limit is {max_bytes} bytes",
            ShapeAndType { shape, element_type: element }
        ))
    })
}

/// Reads the elements of a tensor, row by row as they are in the file.
fn read_bytes(reader: &mut dyn Read, shape: &[u64], element: ElementType, max_bytes: u64) -> Result<Vec<u8>> {
    let needed = byte_length(shape, element, max_bytes)?;
    let mut bytes = Vec::new();
    let read = reader.take(needed).read_to_end(&mut bytes);
    read.map_err(|error| Status::invalid_argument("cannot read the elements").with_source(error))?;
    if bytes.len() as u64 == needed {
        return Ok(bytes);
    }
    Err(Status::invalid_argument(format!(
        "the file ends after {} of {needed} bytes of {}",
        bytes.len(),
        ShapeAndType { shape, element_type: element }
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_written_to_files_and_read() {
        let path = std::env::temp_dir().join(format!("vireo-array-{}.npy", std::process::id()));
        let tensor = HostTensor::new(&[2, 1], &[1.5f32, -2.0]).unwrap();
        tensor.write_npy(&path).unwrap();
        let read = HostTensor::read_npy(&path).unwrap();
        assert_eq!((read.shape(), read.bytes()), (tensor.shape(), tensor.bytes()));
        let mut cut = std::fs::read(&path).unwrap();
        cut.pop();
        std::fs::write(&path, cut).unwrap();
        let error = HostTensor::read_npy(&path).unwrap_err().to_string();
        assert!(error.contains("the file ends after 7 of 8 bytes of 2x1xf32"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(HostTensor::read_npy(&path).unwrap_err().code(), StatusCode::NotFound);
        assert!(tensor.write_npy(path.join("no/such/folder")).is_err());
    }

    #[test]
    fn sizes_are_bounded_before_anything_is_allocated() {
        let huge = byte_length(&[u64::MAX, u64::MAX], ElementType::FLOAT_32, u64::MAX).unwrap_err().to_string();
        assert!(huge.contains("more than can be counted"), "{huge}");
        assert_eq!(byte_length(&[3], ElementType::INT_4, 2).unwrap(), 2);
        assert_eq!(byte_length(&[3], ElementType::INT_4, 1).unwrap_err().code(), StatusCode::ResourceExhausted);
    }
}
