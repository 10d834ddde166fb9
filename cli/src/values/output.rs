//! `--output=`: prints a result, drops it, or writes it to a file. Called by `run`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::Path;

use vireo::hal::ElementType;
use vireo::inference::{HostTensor, files};

use super::collection::Name;
use super::datum::Datum;
use super::error::ValueError;
use crate::os_text::path_of;

/// A result in a file with several tensors, and what it is called there.
type Named<'a> = (String, Cow<'a, HostTensor<'static>>);

/// Handles `results` as `specs` say, one for each. Printed text goes to `out`, and what is in no file of `opened` to
/// one that is opened now.
pub fn write_outputs(
    results: &[Datum],
    specs: &[String],
    opened: &mut OutputFiles,
    max_elements: usize,
    out: &mut dyn Write,
) -> Result<(), ValueError> {
    if results.len() != specs.len() {
        return Err(ValueError::OutputCount { given: specs.len(), returned: results.len() });
    }
    // Results that go to one file with several tensors are written together.
    let mut files: Vec<(Name<'_>, Vec<Named<'_>>)> = Vec::new();
    for (index, (result, spec)) in results.iter().zip(specs).enumerate() {
        let name = spec.strip_prefix(['@', '+']).and_then(Name::parse);
        if let Some(name) = name {
            if let Some(path) = spec.strip_prefix('+') {
                return Err(ValueError::Append(path.into()));
            }
            let key = name.key.map_or_else(|| format!("result_{index}"), str::to_string);
            let tensor = (key, as_tensor(result)?);
            match files.iter_mut().find(|(other, _)| other.path == name.path) {
                Some((_, tensors)) => tensors.push(tensor),
                None => files.push((name, vec![tensor])),
            }
            continue;
        }
        match spec.as_bytes() {
            [] => {}
            [b'-'] => {
                let written = writeln!(out, "{}", result.to_text(max_elements)?);
                written.map_err(|source| ValueError::File { action: "write", path: "stdout".into(), source })?;
            }
            [b'@', ..] => write_file(result, &spec[1..], opened, false)?,
            [b'+', ..] => write_file(result, &spec[1..], opened, true)?,
            _ => return Err(ValueError::Output(spec.clone())),
        }
    }
    for (name, tensors) in files {
        let contents =
            encode(name, &tensors).map_err(|source| ValueError::Archive { path: name.path.into(), source })?;
        let written = opened.write(name.path, &contents, false);
        written.map_err(|source| ValueError::File { action: "write", path: name.path.into(), source })?;
    }
    Ok(())
}

/// Fails if `specs` cannot be where the results of a call go: before the call, which may take long.
pub fn check_outputs(specs: &[String], returned: usize) -> Result<(), ValueError> {
    if returned != specs.len() {
        return Err(ValueError::OutputCount { given: specs.len(), returned });
    }
    for spec in specs {
        let Some(path) = spec.strip_prefix(['@', '+']) else {
            match spec.as_str() {
                "" | "-" => continue,
                _ => return Err(ValueError::Output(spec.clone())),
            }
        };
        let name = Name::parse(path);
        if name.is_some() && spec.starts_with('+') {
            return Err(ValueError::Append(path.into()));
        }
        check_writable(name.map_or(path, |name| name.path))?;
    }
    Ok(())
}

/// Files for results that are open before there are any, by the path as it was given: a confined process opens none.
#[derive(Default)]
pub struct OutputFiles(HashMap<String, File>);

impl OutputFiles {
    /// Opens the files that `specs` name, and creates those that do not exist. The contents of others stay until
    /// results are written.
    pub fn open(specs: &[String]) -> Result<OutputFiles, ValueError> {
        let mut files = HashMap::new();
        for path in specs.iter().filter_map(|spec| spec.strip_prefix(['@', '+'])) {
            let path = Name::parse(path).map_or(path, |name| name.path);
            let file = OpenOptions::new().create(true).write(true).truncate(false).open(path_of(path));
            let file = file.map_err(|source| ValueError::File { action: "open", path: path.into(), source })?;
            files.insert(path.to_string(), file);
        }
        Ok(OutputFiles(files))
    }

    /// Writes a file, in place of its contents or after them.
    fn write(&mut self, path: &str, contents: &[u8], append: bool) -> io::Result<()> {
        let Some(file) = self.0.get_mut(path) else {
            let file = OpenOptions::new().create(true).write(true).append(append).truncate(!append).open(path_of(path));
            return file?.write_all(contents);
        };
        // Pipes and devices have no contents to replace.
        if file.metadata()?.is_file() {
            if !append {
                file.set_len(0)?;
            }
            file.seek(SeekFrom::End(0))?;
        }
        file.write_all(contents)
    }
}

/// Fails if a file cannot be written. Nothing is created or changed.
fn check_writable(path: &str) -> Result<(), ValueError> {
    let failed = |source| ValueError::File { action: "write", path: path.into(), source };
    match OpenOptions::new().append(true).open(path_of(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let path_of = path_of(path);
            let folder = path_of.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = std::fs::metadata(folder.unwrap_or(Path::new("."))).map_err(failed)?;
            if folder.is_dir() && !path.is_empty() { Ok(()) } else { Err(failed(ErrorKind::NotADirectory.into())) }
        }
        opened => opened.map(drop).map_err(failed),
    }
}

fn encode(name: Name<'_>, tensors: &[Named<'_>]) -> vireo::Result<Vec<u8>> {
    let named: Vec<_> = tensors.iter().map(|(key, tensor)| (key.as_str(), &**tensor)).collect();
    files::write_collection(name.format, &named)
}

fn write_file(result: &Datum, path: &str, opened: &mut OutputFiles, append: bool) -> Result<(), ValueError> {
    let tensor = as_tensor(result)?;
    // Encoding comes first, so that a result that cannot be encoded leaves no truncated file.
    let contents = if path.ends_with(".npy") {
        let array = files::write_npy(&tensor);
        Cow::Owned(array.map_err(|source| ValueError::Npy { path: path.into(), offset: 0, source })?)
    } else {
        Cow::Borrowed(tensor.bytes())
    };
    opened.write(path, &contents, append).map_err(|source| ValueError::File {
        action: "write",
        path: path.into(),
        source,
    })
}

/// A result as a tensor: numbers have rank 0, buffers are bytes, and null is an empty array that keeps the place of the
/// result.
fn as_tensor(result: &Datum) -> Result<Cow<'_, HostTensor<'static>>, ValueError> {
    Ok(Cow::Owned(match result {
        Datum::Null | Datum::Ignored => HostTensor::from_slice::<i8>(&[]),
        Datum::I8(value) => HostTensor::from_scalar(*value),
        Datum::I16(value) => HostTensor::from_scalar(*value),
        Datum::I32(value) => HostTensor::from_scalar(*value),
        Datum::I64(value) => HostTensor::from_scalar(*value),
        Datum::F32(value) => HostTensor::from_scalar(*value),
        Datum::F64(value) => HostTensor::from_scalar(*value),
        Datum::View(tensor) => return Ok(Cow::Borrowed(tensor)),
        Datum::Buffer { bytes, .. } => {
            let tensor = HostTensor::from_bytes(&[bytes.len() as u64], ElementType::INT_8, bytes.clone());
            tensor.map_err(ValueError::Tensor)?
        }
        Datum::List(_) | Datum::Object(_) => return Err(ValueError::NotWritable(result.type_name().into())),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::collection::Collection;

    fn write(results: &[Datum], specs: &[String]) -> Result<String, ValueError> {
        let mut out = Vec::new();
        write_outputs(results, specs, &mut OutputFiles::default(), 1024, &mut out)?;
        // Files that are open already get the same.
        let mut files = OutputFiles::open(specs)?;
        let before = files.0.keys().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect::<Vec<_>>();
        write_outputs(results, specs, &mut files, 1024, &mut Vec::new())?;
        for (path, contents) in before {
            assert_eq!(std::fs::read(&path).unwrap(), contents, "{path}");
        }
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn files_are_overwritten_and_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.bin");
        let spec = |mode: char| format!("{mode}{}", path.display());
        for _ in 0..2 {
            assert_eq!(write(&[Datum::I32(1), Datum::I64(2)], &[spec('@'), spec('+')]).unwrap(), "");
            assert_eq!(std::fs::read(&path).unwrap(), [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        }
    }

    #[test]
    fn results_of_one_archive_are_written_together() {
        let folder = tempfile::tempdir().unwrap();
        for extension in ["npz", "safetensors"] {
            let path = folder.path().join(format!("x.{extension}"));
            let path = path.to_str().unwrap();
            let specs = [format!("@{path}:first"), "-".into(), format!("@{path}")];
            assert_eq!(write(&[Datum::I32(1), Datum::I32(2), Datum::F64(3.0)], &specs).unwrap(), "i32=2\n");
            let name = Name::parse(path).unwrap();
            let mut file = Collection::open(name).unwrap();
            let limits = super::super::Limits { max_tensor_bytes: 8 };
            assert_eq!(file.read(Some("first"), limits).unwrap().bytes(), 1_i32.to_le_bytes());
            assert_eq!(file.read(Some("result_2"), limits).unwrap().bytes(), 3_f64.to_le_bytes());
            assert!(matches!(write(&[Datum::I32(1)], &[format!("+{path}")]), Err(ValueError::Append(_))));
        }
    }

    #[test]
    fn printed_and_dropped() {
        assert_eq!(write(&[Datum::I32(1), Datum::I32(2)], &["".into(), "-".into()]).unwrap(), "i32=2\n");
    }

    #[test]
    fn wrong_outputs_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let spec = format!("@{}", path.display());
        assert!(matches!(write(&[Datum::I32(1)], &[]), Err(ValueError::OutputCount { given: 0, returned: 1 })));
        assert!(matches!(write(&[Datum::I32(1)], &["x.npy".into()]), Err(ValueError::Output(_))));
        assert!(matches!(
            write(&[Datum::Object("hal.fence")], std::slice::from_ref(&spec)),
            Err(ValueError::NotWritable(_))
        ));
        let i12 = HostTensor::from_bytes(&[], ElementType::parse("i12").unwrap(), vec![0, 0]).unwrap();
        assert!(matches!(write(&[Datum::View(i12)], &[spec]), Err(ValueError::Npy { .. })));
        assert!(!path.exists());
    }
}
