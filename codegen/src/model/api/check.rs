//! The rules across entries of a folder of `spec/api/`: names are unique, types exist, and values fit their bits.

use std::collections::BTreeMap;

use super::types::{Api, Plain, Word};
use crate::diag::{Diagnostics, Origin};
use crate::model::hal::{Function, LayoutType, Measure, SpecFile};

impl Api {
    pub(super) fn declared(&self, ty: &LayoutType) -> Option<Measure> {
        match ty {
            LayoutType::Function(name) => self.function(name).map(|_| Measure { size: 8, align: 8, plain: false }),
            LayoutType::Layout(name) => Some(match self.plain(name)? {
                Plain::Layout(layout) => Measure { size: layout.size, align: layout.align, plain: layout.readable },
                number => {
                    let size = number.int()?.size();
                    Measure { size, align: size, plain: true }
                }
            }),
            _ => None,
        }
    }

    /// The types of a function exist. Functions of libraries may take structs by value, callbacks take none.
    pub(super) fn check_function(&self, function: &Function, takes_structs: bool, diagnostics: &mut Diagnostics) {
        let args = function.args.iter().map(|(name, ty)| (name.as_str(), ty));
        for (name, ty) in args.chain(function.result.iter().map(|ty| ("result", ty))) {
            let by_value = ty.measure(&|ty| self.declared(ty)).is_some();
            let is_struct =
                matches!(ty, LayoutType::Layout(name) if matches!(self.plain(name), Some(Plain::Layout(_))));
            if !by_value || is_struct && !takes_structs {
                let message =
                    format!("`{name}` is `{ty}`: expected an integer, a pointer or the name of a code or handle");
                diagnostics.unknown(&function.origin, ty.name().unwrap_or_default(), message, self.names());
            }
        }
    }

    /// There are C headers of this name.
    pub(super) fn check_headers(&self, name: &str, origin: &Origin, diagnostics: &mut Diagnostics) -> bool {
        let mut known = self.header_sets.iter().map(|headers| headers.name.as_str());
        let found = known.any(|known| known == name);
        if !found {
            let known = self.header_sets.iter().map(|headers| headers.name.as_str());
            diagnostics.unknown(origin, name, format!("there are no headers `{name}`"), known);
        }
        found
    }

    pub(super) fn check_kinds(&self, word: &Word, diagnostics: &mut Diagnostics) {
        for field in &word.fields {
            let Some(kind) = &field.kind else { continue };
            let Some(Plain::Code(numbers)) = self.plain(kind) else {
                let known = self.files.iter().flat_map(|file| &file.numbers).map(|numbers| numbers.name.as_str());
                diagnostics.unknown(&field.origin, kind, format!("`{}`: there is no code `{kind}`", field.name), known);
                continue;
            };
            if let Some(value) = numbers.values.iter().find(|value| value.value > field.max()) {
                let message =
                    format!("`{}`: `{}` of `{kind}` does not fit {} bits", field.name, value.name, field.width);
                diagnostics.error(&field.origin, message);
            }
            if numbers.int.size() * 8 < u64::from(field.width) {
                let message = format!("`{}`: {} bits do not fit `{kind}`", field.name, field.width);
                diagnostics.error(&field.origin, message);
            }
        }
    }

    pub(super) fn check_names(&self, diagnostics: &mut Diagnostics) {
        let mut seen: BTreeMap<&str, &Origin> = BTreeMap::new();
        let words = self.words.iter().map(|word| (word.name.as_str(), &word.origin));
        let symbols = self.symbols().map(|symbol| (symbol.function.name.as_str(), &symbol.function.origin));
        for (name, origin) in self.files.iter().flat_map(SpecFile::names).chain(words).chain(symbols) {
            if let Some(first) = seen.insert(name, origin) {
                diagnostics.error(origin, format!("`{name}` is declared at {first} already"));
            }
        }
    }
}
