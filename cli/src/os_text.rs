//! Arguments that name files among other things, as text: names of files need not be UTF-8. A byte that is not becomes
//! a character that stands for it, and the bytes again where the file is opened.

use std::ffi::OsString;
use std::path::PathBuf;

/// The character for the byte 0, at the end of the last area for private use. Characters of an argument that are in it
/// are taken as bytes, too.
const FIRST: u32 = 0x10_FF00;

fn byte_of(c: char) -> Option<u8> {
    u32::from(c).checked_sub(FIRST).and_then(|byte| u8::try_from(byte).ok())
}

/// An argument as text.
pub fn text_of(argument: OsString) -> String {
    let bytes = match argument.into_string() {
        Ok(text) if !text.chars().any(|c| byte_of(c).is_some()) => return text,
        Ok(text) => text.into_bytes(),
        Err(argument) => argument.into_encoded_bytes(),
    };
    let mut text = String::new();
    let escape =
        |bytes: &[u8]| bytes.iter().filter_map(|byte| char::from_u32(FIRST + u32::from(*byte))).collect::<String>();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match byte_of(c) {
                Some(_) => text += &escape(c.encode_utf8(&mut [0; 4]).as_bytes()),
                None => text.push(c),
            }
        }
        text += &escape(chunk.invalid());
    }
    text
}

/// The path that a text of [`text_of`] names.
pub fn path_of(text: &str) -> PathBuf {
    if !text.chars().any(|c| byte_of(c).is_some()) {
        return PathBuf::from(text);
    }
    let mut bytes = Vec::new();
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    PathBuf::from(of_bytes(bytes))
}

/// Bytes of a command line or of a file with flags.
#[cfg(unix)]
pub fn of_bytes(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

/// The same where texts of the system are no bytes.
#[cfg(not(unix))]
pub fn of_bytes(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_text_and_the_same_path_again() {
        for bytes in [
            &b""[..],
            b"a.npy",
            b"x\xFF.npy",
            b"\xFF\xFE",
            "\u{e9}\u{10ff41}".as_bytes(),
            b"\xE2\x82",
            b"\xF4\x8F\xBF\xBF\x80",
        ] {
            let argument = of_bytes(bytes.to_vec());
            assert_eq!(path_of(&text_of(argument.clone())).as_os_str(), argument, "{bytes:?}");
        }
        assert_eq!(text_of("@a.npy".into()), "@a.npy");
    }
}
