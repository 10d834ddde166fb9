//! Links that leave the manual: to files of the repository, and to the documentation of the library. Pages name such a
//! file by its path after [`SOURCE`]; `shell` puts the place of the repository before it when it writes the page.

use super::html::{SOURCE, escape};

/// The places outside of the manual that its links lead to.
#[derive(Clone, Debug)]
pub struct Outside {
    /// The text before the path of a file of the repository: `../../`, or the address of a host of repositories with a
    /// revision.
    pub sources: String,
    /// The first page of the library's documentation, if there is one.
    pub library: Option<String>,
}

impl Outside {
    /// `html` with links that lead to the repository. Only pages of a host have anchors of lines.
    pub(super) fn lead(&self, html: &str) -> String {
        let (begin, keeps_lines) = (format!("href=\"{SOURCE}"), self.sources.contains("://"));
        let mut parts = html.split(begin.as_str());
        let mut out = parts.next().unwrap_or_default().to_string();
        for part in parts {
            let (path, rest) = part.split_once('"').unwrap_or((part, ""));
            let path = if keeps_lines { path } else { path.split('#').next().unwrap_or(path) };
            out.push_str(&format!("href=\"{}{path}\"{rest}", escape(&self.sources)));
        }
        out
    }

    /// Whether a link leads to one of these places, where the manual has no files.
    pub(super) fn is_outside(&self, link: &str) -> bool {
        link.starts_with(&self.sources) || self.library.as_deref() == Some(link)
    }
}
