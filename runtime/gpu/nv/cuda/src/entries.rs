//! The functions of a library that stands for the CUDA driver library ([`Entry`]), and the search for one of them by
//! its name and version ([`find`]), as `cuGetProcAddress` does it.

use crate::types::SymbolQuery;

/// A function that programs find by name and version.
#[derive(Debug)]
pub struct Entry {
    /// Its name without suffixes.
    pub name: &'static str,
    /// Its symbol.
    pub symbol: &'static str,
    /// The version from which on it is the function of this name.
    pub version: u32,
    /// Whether its default stream is that of the thread.
    pub per_thread: bool,
    /// Its address.
    pub address: *const (),
}

/// The address of the function `name` at a version; `per_thread` asks for variants whose default stream is that of the
/// thread.
///
/// # Errors
/// The reason why there is none.
pub fn find(entries: &[Entry], name: &str, version: i64, per_thread: bool) -> Result<*const (), SymbolQuery> {
    let named = entries.iter().filter(|entry| entry.name == name);
    let mut is_known = false;
    let mut best: Option<(u32, bool, *const ())> = None;
    for entry in named {
        is_known = true;
        if i64::from(entry.version) > version || entry.per_thread && !per_thread {
            continue;
        }
        // Of one version, the variant for the stream of the thread is better, if it is asked for.
        if best.is_none_or(|(known, thread, _)| (known, thread) < (entry.version, entry.per_thread)) {
            best = Some((entry.version, entry.per_thread, entry.address));
        }
    }
    match best {
        Some((_, _, address)) => Ok(address),
        None if is_known => Err(SymbolQuery::VERSION_NOT_SUFFICIENT),
        None => Err(SymbolQuery::SYMBOL_NOT_FOUND),
    }
}
