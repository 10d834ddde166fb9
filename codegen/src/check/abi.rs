//! The checks of exports that need `spec/hal` too: `as` names a number that exists and is no wider than the value.
//! Called by `load`.

use crate::diag::Diagnostics;
use crate::model::abi::{Abi, Kind, Meaning, Type};
use crate::model::hal::Hal;

/// Checks the numbers of the HAL that exports of all modules name.
pub fn check(abi: &Abi, hal: &Hal, diagnostics: &mut Diagnostics) {
    let numbers: Vec<(&str, u64)> = hal.integers().map(|(name, int)| (name, 8 * int.size())).collect();
    for export in abi.modules.values().flat_map(|module| &module.exports) {
        for field in export.values() {
            let Some(Meaning::Number(name)) = &field.meaning else { continue };
            let wide = field.ty == Type::Number(Kind::I64);
            match numbers.iter().find(|(known, _)| known == name) {
                // A value is as wide as its number; an i32 may also carry a narrower one.
                Some((_, bits)) if wide == (*bits == 64) => {}
                Some((_, bits)) => {
                    let message = format!(
                        "`{}`: `{name}` has {bits} bits and cannot be read from a value of type `{}`",
                        field.name,
                        field.ty.kind().name()
                    );
                    diagnostics.error(&export.origin, message);
                }
                None => {
                    let message = format!("`{}`: spec/hal has no number `{name}`", field.name);
                    let known = numbers.iter().map(|(known, _)| *known).chain(["bool", "text", "timepoints"]);
                    diagnostics.unknown(&export.origin, name, message, known);
                }
            }
        }
    }
}
