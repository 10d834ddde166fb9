//! The model of `spec/api/amdgpu/`: words of bit fields, the layouts that hold them, families of layouts with tags, the
//! functions of the HSA library, and the names that C headers have for all of these.
//!
//! Constants, codes, handles, layouts and callback types are those of `spec/hal/` and read by [`super::hal`]; this
//! module adds the kinds that only GPUs need: `types` holds them, `read`, `family` and `header` make them of entries,
//! `check` has the rules. Names are unique across the folder and a type may refer to any file of it.

use crate::diag::Diagnostics;
use crate::entry::Entry;

mod check;
mod family;
mod header;
mod read;
mod types;

pub use types::{Amdgpu, BitField, Family, Header, HeaderNames, Plain, Symbol, Tag, Variant, Word};

impl Amdgpu {
    /// Reads the entries of all files below `spec/api/amdgpu/`, in the order of their paths.
    pub fn load(entries: &[Entry], diagnostics: &mut Diagnostics) -> Self {
        let mut amdgpu = read::files(entries, diagnostics);
        amdgpu.check_names(diagnostics);
        let known = amdgpu.names();
        for file in &amdgpu.files {
            for layout in &file.layouts {
                layout.check(&|ty| amdgpu.declared(ty), &known, "spec/api/amdgpu", diagnostics);
            }
            for function in &file.functions {
                amdgpu.check_function(function, diagnostics);
            }
        }
        for symbol in &amdgpu.symbols {
            amdgpu.check_function(&symbol.function, diagnostics);
        }
        for word in &amdgpu.words {
            amdgpu.check_kinds(word, diagnostics);
        }
        amdgpu.families = family::read(&amdgpu, entries, diagnostics);
        amdgpu.headers = header::read(&amdgpu, entries, diagnostics);
        amdgpu
    }
}
