//! [`FileKind`]: what a file is that is no module, by how it begins, so that a message can say it.
//! [`Archive`](super::Archive) adds it to its errors.

use std::error::Error;
use std::fmt;

/// Bytes that are looked at for a text.
const LOOKED_AT: usize = 4096;

/// A kind of files that people name in place of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// Nothing.
    Empty,
    /// A picture or a document: PNG, JPEG, PDF.
    Document(&'static str),
    /// A file that `gunzip` or `unzstd` decompresses, by the name of the compressor.
    Compressed(&'static str),
    /// A zip archive of nothing that is known.
    Zip,
    /// A program or a library of machine code: ELF, Mach-O or PE.
    MachineCode(&'static str),
    /// LLVM bitcode.
    Bitcode,
    /// The text of an MLIR program.
    MlirText,
    /// MLIR bytecode.
    MlirBytecode,
    /// The text of a module, as `vireo asm` reads it.
    ModuleText,
    /// A model of ONNX.
    Onnx,
    /// A model of TensorFlow Lite.
    TfLite,
    /// A pickle of PyTorch: parameters or a model.
    PyTorch,
    /// A parameter archive: `.irpa`, `.gguf` or `.safetensors`.
    Parameters,
    /// One array of NumPy, or several (`.npz`).
    NumPy(&'static str),
    /// A JSON text.
    Json,
    /// Another text.
    Text,
}

/// Files that begin with these bytes.
const SIGNATURES: [(&[u8], FileKind); 16] = [
    (b"\x89PNG", FileKind::Document("a PNG image")),
    (b"\xFF\xD8\xFF", FileKind::Document("a JPEG image")),
    (b"%PDF", FileKind::Document("a PDF document")),
    (b"\x1F\x8B", FileKind::Compressed("gzip")),
    (b"\x28\xB5\x2F\xFD", FileKind::Compressed("zstd")),
    (b"\x7FELF", FileKind::MachineCode("an ELF file")),
    (b"MZ", FileKind::MachineCode("a program or a library for Windows")),
    (b"\xCF\xFA\xED\xFE", FileKind::MachineCode("a program or a library for macOS")),
    (b"ML\xEFR", FileKind::MlirBytecode),
    (b"IRPA", FileKind::Parameters),
    (b"GGUF", FileKind::Parameters),
    (b"\x93NUMPY", FileKind::NumPy("a NumPy array")),
    (b"BC\xC0\xDE", FileKind::Bitcode),
    // A pickle of version 2, which is how PyTorch wrote files before they were archives.
    (b"\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19", FileKind::PyTorch),
    (b"\x80\x02}", FileKind::PyTorch),
    (b"\x80\x02c", FileKind::PyTorch),
];

/// How texts of MLIR programs have lines that begin.
const MLIR: [&str; 8] =
    ["module {", "module @", "module attributes", "func.func ", "util.func ", "builtin.module", "#map", "stablehlo."];

impl FileKind {
    /// The kind of a file that begins with these bytes, if it is a known one. A module may also begin like a zip
    /// archive, so this is for files that are no module.
    pub fn of(bytes: &[u8]) -> Option<FileKind> {
        if bytes.is_empty() {
            return Some(FileKind::Empty);
        }
        if let Some((_, kind)) = SIGNATURES.into_iter().find(|(begin, _)| bytes.starts_with(begin)) {
            return Some(kind);
        }
        if let Some(name) = zip_entry(bytes) {
            return Some(match name {
                name if name.ends_with(b".npy") => FileKind::NumPy("an archive of NumPy arrays"),
                name if name.ends_with(b"/data.pkl") || name.ends_with(b"/byteorder") => FileKind::PyTorch,
                name if name.ends_with(b"/constants.pkl") || name.ends_with(b"/version") => FileKind::PyTorch,
                _ => FileKind::Zip,
            });
        }
        if bytes.get(4..8) == Some(b"TFL3") {
            return Some(FileKind::TfLite);
        }
        if is_safetensors(bytes) {
            return Some(FileKind::Parameters);
        }
        if is_onnx(bytes) {
            return Some(FileKind::Onnx);
        }
        let text = text(&bytes[..bytes.len().min(LOOKED_AT)])?;
        let begins =
            |starts: &[&str]| text.lines().map(str::trim_start).any(|line| starts.iter().any(|s| line.starts_with(s)));
        Some(if begins(&["vm.module ", "vm.func ", "vm.export "]) {
            FileKind::ModuleText
        } else if begins(&MLIR) {
            FileKind::MlirText
        } else if text.trim_start().starts_with('{') {
            FileKind::Json
        } else {
            FileKind::Text
        })
    }

    /// The next step for the owner of such a file, if there is one.
    pub fn advice(self) -> Option<&'static str> {
        Some(match self {
            FileKind::Compressed(_) => "decompress it first",
            FileKind::MlirText | FileKind::MlirBytecode => "compile it with iree-compile first",
            FileKind::ModuleText => "assemble it with `vireo asm` first",
            FileKind::Onnx => "import it with iree-import-onnx, and compile the result with iree-compile",
            FileKind::TfLite => "import it with iree-import-tflite, and compile the result with iree-compile",
            FileKind::PyTorch => "export the model with iree-turbine, and compile the result with iree-compile",
            FileKind::Parameters => "it has the parameters of a program, which is another file",
            FileKind::NumPy(_) => "it has inputs or results of a program, which is another file",
            _ => return None,
        })
    }
}

/// `a PNG image`.
impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Empty => "empty",
            FileKind::Document(what) | FileKind::MachineCode(what) | FileKind::NumPy(what) => what,
            FileKind::Compressed(by) => return write!(f, "compressed by {by}"),
            FileKind::Zip => "a zip archive",
            FileKind::Bitcode => "LLVM bitcode",
            FileKind::MlirText => "the text of an MLIR program",
            FileKind::MlirBytecode => "MLIR bytecode",
            FileKind::ModuleText => "the text of a module",
            FileKind::Onnx => "a model of ONNX",
            FileKind::TfLite => "a model of TensorFlow Lite",
            FileKind::PyTorch => "a file of PyTorch",
            FileKind::Parameters => "an archive of parameters",
            FileKind::Json => "a JSON text",
            FileKind::Text => "a text",
        })
    }
}

/// The source of the error for a file that is of another kind than it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKind(pub FileKind);

impl fmt::Display for OtherKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for OtherKind {}

/// The name of the first file of a zip archive.
fn zip_entry(bytes: &[u8]) -> Option<&[u8]> {
    use super::schema::module_file::{ZIP_LOCAL_HEADER_SIGNATURE, ZipLocalHeader};
    let header = ZipLocalHeader::read(bytes).filter(|header| header.signature == ZIP_LOCAL_HEADER_SIGNATURE)?;
    bytes.get(ZipLocalHeader::SIZE..)?.get(..usize::from(header.name_length))
}

/// A length of eight bytes, then a JSON object.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return false };
    rest.starts_with(b"{\"") && u64::from_le_bytes(*length) < 1 << 32
}

/// A protocol buffer whose first field is the version of the format, and whose next one is one of those that a model
/// has: the producer, its version, the domain, the version of the model, a description, the graph, or the sets of
/// operators.
fn is_onnx(bytes: &[u8]) -> bool {
    matches!(bytes, [0x08, 1..=0x7F, 0x12 | 0x1A | 0x22 | 0x28 | 0x32 | 0x3A | 0x42, ..])
}

/// `bytes` as text, which may end within a character.
fn text(bytes: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let is_text = |c: char| !c.is_control() || c.is_ascii_whitespace();
    text.chars().all(is_text).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognised_by_how_they_begin() {
        let of = |bytes: &[u8]| FileKind::of(bytes).map_or("unknown".to_string(), |kind| kind.to_string());
        assert_eq!(of(b""), "empty");
        assert_eq!(of(b"\x89PNG\r\n\x1a\n"), "a PNG image");
        assert_eq!(of(b"\x1F\x8B\x08"), "compressed by gzip");
        assert_eq!(of(b"// a test\nfunc.func @f() {"), "the text of an MLIR program");
        assert_eq!(of(b"module @m {\n"), "the text of an MLIR program");
        assert_eq!(of(b"vm.module @m version 0\n"), "the text of a module");
        assert_eq!(of(b"\x10\0\0\0\0\0\0\0{\"a\": 1}      "), "an archive of parameters");
        assert_eq!(of(b"\x08\x08\x12\x07pytorch\x1a\x05"), "a model of ONNX");
        assert_eq!(of(b"\x1c\0\0\0TFL3\x14\0"), "a model of TensorFlow Lite");
        let zip = |name: &str| {
            let mut bytes = b"PK\x03\x04".to_vec();
            bytes.resize(30, 0);
            bytes[26] = name.len() as u8;
            bytes.extend(name.as_bytes());
            bytes
        };
        assert_eq!(of(&zip("arr_0.npy")), "an archive of NumPy arrays");
        assert_eq!(of(&zip("model/data.pkl")), "a file of PyTorch");
        assert_eq!(of(&zip("a.txt")), "a zip archive");
        assert_eq!(of(b"{}"), "a JSON text");
        assert_eq!(of("hello \u{e9}".as_bytes()), "a text");
        assert_eq!(of(&"hello \u{e9}".as_bytes()[..7]), "a text");
        assert_eq!(of(b"\x12\x00\x01\x02"), "unknown");
    }
}
