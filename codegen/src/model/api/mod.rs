//! The model of a folder of `spec/api/`: words of bit fields, the layouts that hold them, families of layouts with
//! tags, libraries of C functions, and the names that C headers have for all of these.
//!
//! Constants, codes, handles, layouts and callback types are those of `spec/hal/` and read by [`super::hal`]; this
//! module adds the kinds that only C APIs need: `types` holds them, `read`, `library`, `call`, `partner`, `table`,
//! `family` and `header` make them of entries, `check` has the rules. Names are unique across the folder and a type may
//! refer to any file of it.

use crate::diag::Diagnostics;
use crate::entry::Entry;

mod call;
mod check;
mod family;
mod header;
mod library;
mod null;
mod partner;
mod read;
mod table;
mod types;

pub use types::{
    Api, BitField, Call, Failures, Family, Finder, HeaderNames, Headers, Library, NullFunction, NullLibrary,
    NullResult, Partner, PartnerArgument, PartnerLayout, Plain, Refusal, Refused, Suffixes, Symbol, Table, Tag,
    Variant, Word,
};

impl Api {
    /// Reads the entries of all files of a folder of `spec/api/`, in the order of their paths.
    pub fn load(name: &str, entries: &[Entry], diagnostics: &mut Diagnostics) -> Self {
        Api::load_folder(name, format!("spec/api/{name}"), false, entries, diagnostics)
    }

    /// Reads the entries of all files of the folder `spec/NAME/` of a format of files that [`super::format`] does not
    /// read itself.
    pub(crate) fn load_format(name: &str, entries: &[Entry], diagnostics: &mut Diagnostics) -> Self {
        Api::load_folder(name, format!("spec/{name}"), true, entries, diagnostics)
    }

    fn load_folder(
        name: &str,
        folder: String,
        is_format: bool,
        entries: &[Entry],
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut api = read::files(entries, diagnostics);
        api.name = name.to_string();
        api.is_format = is_format;
        api.folder.clone_from(&folder);
        api.header_sets = library::headers(entries, diagnostics);
        api.libraries = library::read(entries, diagnostics);
        api.check_names(diagnostics);
        let known = api.names();
        for file in &api.files {
            for layout in &file.layouts {
                layout.check(&|ty| api.declared(ty), &known, &folder, diagnostics);
            }
            for function in &file.functions {
                api.check_function(function, false, diagnostics);
            }
        }
        api.check_libraries(diagnostics);
        for word in &api.words {
            api.check_kinds(word, diagnostics);
        }
        api.calls = call::calls(&api, entries, diagnostics);
        api.partner = partner::read(&api, entries, diagnostics);
        api.failures = call::failures(&api, entries, diagnostics);
        api.nulls = null::read(&api, entries, diagnostics);
        api.tables = table::read(&api, entries, diagnostics);
        api.families = family::read(&api, entries, diagnostics);
        api.headers = header::read(&api, entries, diagnostics);
        api
    }
}
