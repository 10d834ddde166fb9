//! Places outside of the manual: the files of this clone, and the documentation that `cargo doc` writes.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::chore::{Failure, target};

/// The command that documents the library.
pub const COMMAND: &str = "cargo doc -p vireo-runtime --no-deps";

/// The first page of the library, below the folder of all crates.
const LIBRARY: &str = "vireo/index.html";

/// The link from `out` to the documentation of the library: below `base`, or below `target/doc` if it has been made.
pub fn library(out: &Path, base: Option<String>) -> Result<Option<String>, Failure> {
    let made = target().join("doc");
    match base {
        Some(base) => Ok(Some(format!("{}/{LIBRARY}", base.trim_end_matches('/')))),
        None if made.join(LIBRARY).exists() => Ok(Some(way(out, &made)? + LIBRARY)),
        None => Ok(None),
    }
}

/// The relative link from a page in the folder `from` to a folder, with a slash at its end.
pub fn way(from: &Path, to: &Path) -> Result<String, Failure> {
    let (from, to) = (whole(from)?, whole(to)?);
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) = (from.components().collect(), to.components().collect());
    let same = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    if same == 0 {
        return Err(Failure::Wrong("the manual and the repository are on different drives: use --sources".into()));
    }
    let up = from[same..].iter().map(|_| "../".to_string());
    let down = to[same..].iter().map(|part| encoded(&part.as_os_str().to_string_lossy()) + "/");
    let way: String = up.chain(down).collect();
    Ok(if way.is_empty() { "./".into() } else { way })
}

/// The path of a folder, which need not exist yet, without links and dots.
fn whole(path: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(path).map_err(|error| Failure::Wrong(format!("{}: {error}", path.display())))?;
    let existing = path.ancestors().find_map(|folder| Some((folder, fs::canonicalize(folder).ok()?)));
    let Some((folder, found)) = existing else { return Ok(path) };
    Ok(path.strip_prefix(folder).map_or(found.clone(), |rest| found.join(rest)))
}

/// The name of a folder as a part of a link.
fn encoded(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chore::workspace;

    fn way(from: PathBuf, to: &Path) -> String {
        match super::way(&from, to) {
            Ok(way) => way,
            Err(Failure::Wrong(message) | Failure::Usage(message)) => panic!("{message}"),
        }
    }

    #[test]
    fn a_way_leads_up_and_down() {
        let root = workspace();
        assert_eq!(way(root.join("target/reference"), root), "../../");
        assert_eq!(way(root.join("target/not there/yet"), &root.join("docs")), "../../../docs/");
        assert_eq!(way(root.join("xtask/../docs"), &root.join("docs")), "./");
        let (folder, name) = (root.parent().unwrap(), root.file_name().unwrap().to_string_lossy());
        assert_eq!(way(folder.join("manual"), root), format!("../{}/", encoded(&name)));
        assert_eq!(encoded("a b%é"), "a%20b%25%C3%A9");
    }

    #[test]
    fn the_documentation_of_the_library_may_be_elsewhere() {
        let Ok(library) = library(Path::new("."), Some("https://docs.example/vireo-runtime/".into())) else {
            panic!("a base is a link")
        };
        assert_eq!(library.as_deref(), Some("https://docs.example/vireo-runtime/vireo/index.html"));
    }
}
