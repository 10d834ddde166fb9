//! Files with several named tensors as values: `file.npz`, or `file.npz:name` for one of its tensors. The library reads
//! and writes them.

use vireo::Status;
use vireo::inference::HostTensor;
use vireo::inference::files::{CollectionFormat, TensorCollection};

use super::Limits;
use super::error::ValueError;
use crate::os_text::path_of;

/// A file of a value: `file.npz`, or `file.npz:name` for one of its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The format.
    pub format: CollectionFormat,
    /// The file.
    pub path: &'a str,
    /// The tensor.
    pub key: Option<&'a str>,
}

impl<'a> Name<'a> {
    /// Reads `text`; nothing if it names another kind of file.
    pub fn parse(text: &'a str) -> Option<Name<'a>> {
        CollectionFormat::ALL.iter().find_map(|(format, extension)| {
            if text.ends_with(extension) {
                return Some(Name { format: *format, path: text, key: None });
            }
            let end = text.find(&format!("{extension}:"))? + extension.len();
            Some(Name { format: *format, path: &text[..end], key: Some(&text[end + 1..]) })
        })
    }
}

/// An open file, of which values read one tensor after the other.
pub struct Collection {
    path: String,
    file: TensorCollection,
    /// The tensor to read next.
    next: usize,
}

impl Collection {
    /// Opens the file of a value.
    pub fn open(name: Name<'_>) -> Result<Collection, ValueError> {
        let file = TensorCollection::open(name.format, path_of(name.path));
        let file = file.map_err(|source| ValueError::Archive { path: name.path.into(), source })?;
        Ok(Collection { path: name.path.into(), file, next: 0 })
    }

    /// Makes the first tensor the next one.
    pub fn restart(&mut self) {
        self.next = 0;
    }

    /// True if nothing is left.
    pub fn at_end(&self) -> bool {
        self.next >= self.file.names().len()
    }

    /// Reads the tensor called `key`, or the next one.
    pub fn read(&mut self, key: Option<&str>, limits: Limits) -> Result<HostTensor<'static>, ValueError> {
        let failed = |source| ValueError::Archive { path: self.path.clone(), source };
        let names = self.file.names();
        let index = match key {
            Some(key) => names.iter().position(|name| name == key),
            None => Some(self.next).filter(|next| *next < names.len()),
        };
        let index = index.ok_or_else(|| {
            let what = key.map_or_else(|| "further tensor".into(), |key| format!("tensor `{key}`"));
            let known = if names.is_empty() { "none".into() } else { names.join(", ") };
            failed(Status::not_found(format!("there is no {what}; there are {known}")))
        })?;
        self.next = index + 1;
        let name = names[index].clone();
        let tensor = self.file.read(&name, limits.max_tensor_bytes);
        tensor.map_err(|source| {
            ValueError::of_file(self.path.clone(), source, |path, source| ValueError::Archive { path, source })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_file_and_which_tensor() {
        let name = |format, path, key| Some(Name { format, path, key });
        assert_eq!(Name::parse("a.npz"), name(CollectionFormat::Npz, "a.npz", None));
        assert_eq!(Name::parse("d/a.npz:b:c"), name(CollectionFormat::Npz, "d/a.npz", Some("b:c")));
        assert_eq!(Name::parse("x.safetensors:"), name(CollectionFormat::Safetensors, "x.safetensors", Some("")));
        assert_eq!(Name::parse("a.npy"), None);
    }

    #[test]
    fn tensors_are_read_in_order_or_by_name() {
        use vireo::inference::files::write_collection;

        const LIMITS: Limits = Limits { max_tensor_bytes: 1 << 20 };
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (HostTensor::from_slice(&[1u8]), HostTensor::from_slice(&[2u8, 3]));
        for (format, extension) in CollectionFormat::ALL {
            let path = folder.path().join(format!("x{extension}"));
            let path = path.to_str().unwrap();
            std::fs::write(path, write_collection(format, &[("b", &one), ("a", &two)]).unwrap()).unwrap();
            let mut collection = Collection::open(Name::parse(path).unwrap()).unwrap();
            assert_eq!(collection.read(None, LIMITS).unwrap().bytes(), [1]);
            assert!(!collection.at_end());
            assert_eq!(collection.read(None, LIMITS).unwrap().bytes(), [2, 3]);
            assert!(collection.at_end());
            let text = |error: ValueError| std::error::Error::source(&error).unwrap().to_string();
            let missing = text(collection.read(None, LIMITS).unwrap_err());
            assert!(missing.contains("further tensor") && missing.contains("b, a"), "{missing}");
            assert_eq!(collection.read(Some("b"), LIMITS).unwrap().bytes(), [1]);
            assert!(text(collection.read(Some("c"), LIMITS).unwrap_err()).contains("tensor `c`"));
            collection.restart();
            let small = Limits { max_tensor_bytes: 0 };
            assert!(collection.read(None, small).unwrap_err().to_string().contains("--max-tensor-bytes"));
        }
    }
}
