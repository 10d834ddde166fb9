//! The code of a module as VM assembly, in the form of the reference tools.

use std::fmt::Write;

use vireo::bytecode::{Names, VerifiedFunction, disassemble};
use vireo::vm::{Argument, Convention, Kind};

use super::summary::Summary;
use crate::table::visible;

/// Bytes of a read-only segment that are shown in full. Weights can be gigabytes.
const SHOWN_RODATA: usize = 1024;

/// The lines that declare what the code refers to.
pub fn declarations(summary: &Summary, rodata: &dyn Fn(usize) -> Vec<u8>) -> String {
    let mut text = format!("vm.module @{} version {}\n", visible(&summary.name), summary.version);
    // Writing to a string cannot fail.
    for name in &summary.types {
        let _ = writeln!(text, "vm.type {}", visible(name));
    }
    for import in &summary.imports {
        let optional = if import.optional { "optional " } else { "" };
        let _ =
            writeln!(text, "vm.import {optional}@{} cconv \"{}\"", visible(&import.name), visible(&import.convention));
    }
    for (ordinal, segment) in summary.rodata.iter().enumerate() {
        if segment.bytes <= SHOWN_RODATA as u64 {
            let hexadecimal = rodata(ordinal).iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02X}");
                text
            });
            let _ = writeln!(text, "vm.rodata[{ordinal}] = {hexadecimal}");
        } else {
            let _ = writeln!(text, "// vm.rodata[{ordinal}] has {} bytes, too many to show", segment.bytes);
        }
    }
    text
}

/// Function `ordinal` with its exports.
pub fn function(summary: &Summary, names: Names<'_>, ordinal: usize, function: &VerifiedFunction) -> String {
    let name = names.functions.get(ordinal).cloned().unwrap_or_default();
    let mut text = String::new();
    for export in summary.exports.iter().filter(|export| export.ordinal == ordinal) {
        let target = if export.name == name { String::new() } else { format!(" = @{name}") };
        let _ = writeln!(text, "vm.export @{}{target}", visible(&export.name));
    }
    let _ = writeln!(text, "vm.func @{name}{} {{", signature(function.convention()));
    text.push_str(&disassemble(function.decoded(), names));
    text.push_str("}\n");
    text
}

/// `(%i0: i32, %r0: !vm.ref<?>) -> (i32)`, with the registers that the arguments are in.
fn signature(convention: &Convention) -> String {
    let (mut slots, mut refs) = (0, 0);
    let mut arguments = Vec::new();
    for argument in &convention.args {
        let Argument::One(kind) = argument else {
            // The verifier refuses functions with variadic arguments; only imports have them.
            continue;
        };
        // Pairs begin at even slots.
        slots += slots % kind.slots().max(1);
        arguments.push(match kind {
            Kind::Ref => format!("%r{refs}: {}", type_name(*kind)),
            Kind::I32 | Kind::F32 => format!("%i{slots}: {}", type_name(*kind)),
            Kind::I64 | Kind::F64 => format!("%i{slots}:{}: {}", slots + 1, type_name(*kind)),
        });
        slots += kind.slots();
        refs += u32::from(*kind == Kind::Ref);
    }
    let results = convention.results.iter().map(|kind| type_name(*kind)).collect::<Vec<_>>();
    format!("({}) -> ({})", arguments.join(", "), results.join(", "))
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::I32 => "i32",
        Kind::I64 => "i64",
        Kind::F32 => "f32",
        Kind::F64 => "f64",
        Kind::Ref => "!vm.ref<?>",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_in_their_registers() {
        let text = |convention: &str| signature(&convention.parse().unwrap());
        assert_eq!(text("0v_v"), "() -> ()");
        assert_eq!(
            text("0iIfrFr_rI"),
            "(%i0: i32, %i2:3: i64, %i4: f32, %r0: !vm.ref<?>, %i6:7: f64, %r1: !vm.ref<?>) -> (!vm.ref<?>, i64)"
        );
    }
}
