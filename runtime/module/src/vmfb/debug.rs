//! The debug database of a module: maps the offset of an op to a location in a source file. Backtraces and listings ask
//! it.

use crate::visible_text::visible;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::archive::Archive;
use super::schema::bytecode_module_def::{DebugDatabaseDef, FunctionSourceMapDef, LocationTypeDef};

/// Locations nest at most this deep in a message; they refer to each other by index, so a file can make them go round
/// in circles.
const MAX_DEPTH: usize = 16;
/// Fused locations name at most this many of their parts.
const MAX_PARTS: usize = 4;
/// Most characters of one name.
const MAX_TEXT: usize = 256;
/// A message stops growing about here.
const MAX_LENGTH: usize = 1024;

/// Looks up source locations in a module's debug database.
pub trait SourceMap: Send + Sync {
    /// The location of the op at byte `offset` of function `ordinal`, such as `model.mlir:3:10`.
    fn locate(&self, ordinal: usize, offset: u32) -> Option<String>;
}

/// The debug database of an archive that has one.
#[derive(Clone, Debug)]
pub struct DebugDatabase {
    archive: Archive,
    /// By ordinal: the index of the function in the database.
    entries: Arc<[Option<usize>]>,
}

impl DebugDatabase {
    /// The database of `archive`; none if it was stripped.
    pub fn of(archive: &Archive) -> Option<DebugDatabase> {
        let functions = archive.def().debug_database()?.functions().unwrap_or_default();
        let count = archive.functions().len();
        let mut entries = vec![None; count];
        if functions.len() == count {
            entries.iter_mut().enumerate().for_each(|(ordinal, entry)| *entry = Some(ordinal));
        } else {
            // The 3.13 compiler writes the map of one function only, not one per function as the format says: go by
            // name.
            let names = functions.iter().enumerate().rev();
            let names: HashMap<&str, usize> =
                names.filter_map(|(index, function)| Some((function.local_name()?, index))).collect();
            for export in archive.exports() {
                let named = names.get(export.name).copied();
                entries[export.ordinal] = entries[export.ordinal].or(named);
            }
        }
        Some(DebugDatabase { archive: archive.clone(), entries: entries.into() })
    }

    fn function(&self, ordinal: usize) -> Option<FunctionSourceMapDef<'_>> {
        let index = (*self.entries.get(ordinal)?)?;
        let functions = self.archive.def().debug_database()?.functions()?;
        (index < functions.len()).then(|| functions.get(index))
    }

    /// Name of function `ordinal` in its source.
    pub fn function_name(&self, ordinal: usize) -> Option<&str> {
        self.function(ordinal)?.local_name()
    }
}

impl SourceMap for DebugDatabase {
    fn locate(&self, ordinal: usize, offset: u32) -> Option<String> {
        let database = self.archive.def().debug_database()?;
        let locations = self.function(ordinal)?.locations()?;
        // The last entry at or below the offset: `partition_point` by hand, because vectors of structs are no slices.
        // If the file is not sorted the answer is an arbitrary entry.
        let (mut low, mut high) = (0, locations.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if i64::from(locations.get(middle).bytecode_offset) <= i64::from(offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let entry = locations.get(low.checked_sub(1)?);
        let index = usize::try_from(entry.location).ok()?;
        // Ops that the compiler made up have the location "unknown".
        database.location_table(index)?;
        let mut text = String::new();
        describe(&database, entry.location, MAX_DEPTH, &mut text);
        Some(text)
    }
}

/// Appends location `index`: `file:line:column`, `callee at caller`, `"name"(child)`, `[part, part]`.
fn describe(database: &DebugDatabaseDef<'_>, index: i32, depth: usize, text: &mut String) {
    let location = usize::try_from(index).ok().and_then(|index| database.location_table(index));
    let Some(location) = location.filter(|_| depth > 0 && text.len() < MAX_LENGTH) else {
        text.push('?');
        return;
    };
    match location {
        LocationTypeDef::CallSiteLocDef(site) => {
            // The innermost function first, as in the backtrace around it.
            describe(database, site.callee(), depth - 1, text);
            text.push_str(" at ");
            describe(database, site.caller(), depth - 1, text);
        }
        LocationTypeDef::FileLineColLocDef(place) => {
            let _ = write!(text, "{}:{}:{}", clip(place.filename().unwrap_or("?")), place.line(), place.column());
        }
        LocationTypeDef::FusedLocDef(fused) => {
            if let Some(metadata) = fused.metadata() {
                let _ = write!(text, "<{}>", clip(metadata));
            }
            let parts = fused.locations().unwrap_or_default();
            text.push('[');
            for (position, part) in parts.iter().take(MAX_PARTS).enumerate() {
                if position > 0 {
                    text.push_str(", ");
                }
                describe(database, part, depth - 1, text);
            }
            if parts.len() > MAX_PARTS {
                let _ = write!(text, ", {} more", parts.len() - MAX_PARTS);
            }
            text.push(']');
        }
        LocationTypeDef::NameLocDef(named) => {
            let _ = write!(text, "\"{}\"(", clip(named.name().unwrap_or_default()));
            describe(database, named.child_location(), depth - 1, text);
            text.push(')');
        }
        LocationTypeDef::Unknown(_) => text.push('?'),
    }
}

/// The beginning of a text of the file.
fn clip(text: &str) -> String {
    visible(&text.chars().take(MAX_TEXT).collect::<String>())
}
