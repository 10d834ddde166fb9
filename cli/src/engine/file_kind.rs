//! What a file is that is no module, by how it begins, and what to do with it: hints for `--module` with another kind of file.

/// What a file is, and what to do with one, where `{file}` stands for its name.
pub struct FileKind {
    /// `a PNG image`.
    pub what: &'static str,
    hint: &'static str,
}

/// What is expected in its place.
const MODULE: &str = "a module is a .vmfb file, which iree-compile writes";
const COMPILE: &str = "compile it first: iree-compile --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu {file} -o model.vmfb";
const PARAMETERS: &str = "name parameters by --parameters={file}, and the module of the program by --module";
const VALUES: &str = "name values by --input=@{file}, and the module of the program by --module";
const LIBRARY: &str = "machine code alone is no program: name executable plugins by --executable_plugin={file}, drivers by --driver_plugin={file}, and \
    the module of the program by --module";

/// Files that begin with these bytes.
const SIGNATURES: [(&[u8], FileKind); 13] = [
    (b"\x89PNG", FileKind { what: "a PNG image", hint: MODULE }),
    (b"\xFF\xD8\xFF", FileKind { what: "a JPEG image", hint: MODULE }),
    (b"%PDF", FileKind { what: "a PDF document", hint: MODULE }),
    (b"\x1F\x8B", FileKind { what: "compressed by gzip", hint: "decompress it first: gunzip {file}" }),
    (b"\x28\xB5\x2F\xFD", FileKind { what: "compressed by zstd", hint: "decompress it first: unzstd {file}" }),
    (b"\x7FELF", FileKind { what: "an ELF file: a program or a library of machine code", hint: LIBRARY }),
    (b"MZ", FileKind { what: "a program or a library for Windows", hint: LIBRARY }),
    (b"\xCF\xFA\xED\xFE", FileKind { what: "a program or a library for macOS", hint: LIBRARY }),
    (b"ML\xEFR", FileKind { what: "MLIR bytecode", hint: COMPILE }),
    (b"IRPA", FileKind { what: "an archive of parameters", hint: PARAMETERS }),
    (b"GGUF", FileKind { what: "an archive of parameters", hint: PARAMETERS }),
    (b"\x93NUMPY", FileKind { what: "a NumPy array", hint: VALUES }),
    (b"BC\xC0\xDE", FileKind { what: "LLVM bitcode", hint: MODULE }),
];

/// Bytes that are looked at.
pub const LOOKED_AT: usize = 4096;

/// The kind of a file that begins with `bytes`, if it is a known one.
pub fn recognise(bytes: &[u8]) -> Option<FileKind> {
    if bytes.is_empty() {
        return Some(FileKind { what: "empty", hint: MODULE });
    }
    if let Some((_, kind)) = SIGNATURES.into_iter().find(|(begin, _)| bytes.starts_with(begin)) {
        return Some(kind);
    }
    if is_safetensors(bytes) {
        return Some(FileKind { what: "an archive of parameters", hint: PARAMETERS });
    }
    let text = text(&bytes[..bytes.len().min(LOOKED_AT)])?;
    let begins =
        |starts: &[&str]| text.lines().map(str::trim_start).any(|line| starts.iter().any(|s| line.starts_with(s)));
    let mlir = [
        "module {",
        "module @",
        "module attributes",
        "func.func ",
        "util.func ",
        "builtin.module",
        "#map",
        "stablehlo.",
    ];
    Some(if begins(&["vm.module ", "vm.func ", "vm.export "]) {
        FileKind { what: "the text of a module", hint: "assemble it first: vireo asm {file} -o model.vmfb" }
    } else if begins(&mlir) {
        FileKind { what: "the text of an MLIR program", hint: COMPILE }
    } else if text.trim_start().starts_with('{') {
        FileKind { what: "a JSON text", hint: MODULE }
    } else {
        FileKind { what: "a text", hint: MODULE }
    })
}

impl FileKind {
    /// What to do with the file called `name`.
    pub fn hint(&self, name: &str) -> String {
        self.hint.replace("{file}", name)
    }
}

/// A length of eight bytes, then a JSON object.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return false };
    rest.starts_with(b"{\"") && u64::from_le_bytes(*length) < 1 << 32
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
        let what = |bytes: &[u8]| recognise(bytes).map_or("unknown", |kind| kind.what);
        assert_eq!(what(b""), "empty");
        assert_eq!(what(b"\x89PNG\r\n\x1a\n"), "a PNG image");
        assert_eq!(what(b"// a test\nfunc.func @f() {"), "the text of an MLIR program");
        assert_eq!(what(b"module @m {\n"), "the text of an MLIR program");
        assert_eq!(what(b"vm.module @m version 0\n"), "the text of a module");
        assert_eq!(what(b"\x10\0\0\0\0\0\0\0{\"a\": 1}      "), "an archive of parameters");
        assert_eq!(what(b"{}"), "a JSON text");
        assert_eq!(what("hello \u{e9}".as_bytes()), "a text");
        assert_eq!(what(&"hello \u{e9}".as_bytes()[..7]), "a text");
        assert_eq!(what(b"\x12\x00\x01\x02"), "unknown");
        assert!(recognise(b"IRPA").unwrap().hint("w.irpa").contains("--parameters=w.irpa"));
    }
}
