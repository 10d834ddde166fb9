//! Emits the data structures of an API or of a format of files: one file for each file of its folder that describes
//! bytes.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;

use crate::emit::file::{GeneratedFile, source};
use crate::emit::scope::Scope;
use crate::emit::{families, layouts, tables, words};
use crate::model::api::{Api, Table};

/// `API/STEM.rs`
pub fn emit(api: &Api) -> Vec<GeneratedFile> {
    let files = api.files.iter().map(|file| file.stem.as_str());
    let words = api.words.iter().map(|word| word.origin.stem());
    let families = api.families.iter().map(|family| family.origin.stem());
    let of_tables = api.tables.iter().map(|table| table.origin.stem());
    let stems: BTreeSet<&str> = files.chain(words).chain(families).chain(of_tables).collect();
    stems
        .iter()
        .map(|name| {
            let scope = Scope::Api(api, name);
            let mut items = TokenStream::new();
            if let Some(file) = api.files.iter().find(|file| file.stem == *name) {
                items.extend(layouts::file(file, scope));
            }
            let words = api.words.iter().filter(|word| word.origin.stem() == *name);
            items.extend(words.map(|word| words::word(word, scope)));
            let families = api.families.iter().filter(|family| family.origin.stem() == *name);
            items.extend(families.map(|family| families::family(family, scope)));
            let of_file: Vec<&Table> = api.tables.iter().filter(|table| table.origin.stem() == *name).collect();
            items.extend(tables::tables(&of_file, scope));
            source(&format!("{}/{name}.rs", api.name), &format!("{}/{name}.yaml", api.folder), items)
        })
        .collect()
}
