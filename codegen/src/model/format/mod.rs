//! The model of formats of files with records: `spec/replay` and `spec/profile`.
//!
//! Constants, codes and layouts are those of folders of `spec/api/`, and [`Api`] holds them. This module adds what
//! records need: payloads and content types, which give layouts numbers or names; the fields of dumps; and operations,
//! which are records that stand for methods of the HAL. `types` holds them, `read` makes them of entries, `path` finds
//! the fields that they name, `check` compares operations with the HAL.

use crate::diag::Diagnostics;
use crate::entry::Entry;
use crate::model::api::Api;

mod check;
mod path;
mod read;
mod types;

pub use path::{FieldForm, Found, ShownField};
pub(crate) use path::{find, layout};
pub use types::{Content, Format, Operation, PartForm, Payload, Replay, Row, Unrecorded};

impl Format {
    /// Reads the entries of all files of the folder `spec/NAME/`, in the order of their paths.
    pub fn load(name: &str, entries: &[Entry], diagnostics: &mut Diagnostics) -> Self {
        let (own, shared): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| read::KINDS.contains(&entry.kind.as_str()));
        let shared: Vec<Entry> = shared.into_iter().cloned().collect();
        let mut format = Format { api: Api::load_format(name, &shared, diagnostics), ..Format::default() };
        read::read(&mut format, &own, diagnostics);
        format.check_fields(diagnostics);
        format
    }
}
