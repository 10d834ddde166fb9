//! The table of a scope of parameters.

use std::fmt::Write;

use vireo::io::{ParameterIndex, ParameterStorage};
use vireo::visible_text::visible;

/// The table of a scope, as the reference tools print it.
pub fn table(scope: &str, index: &ParameterIndex) -> String {
    const RULE: &str = "---------------+------------------+------------------+------------";
    let name = if scope.is_empty() { "<global>".to_string() } else { format!("`{}`", visible(scope)) };
    let mut text = format!("//==={}===//\n", "-".repeat(110));
    let mut line = |line: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    };
    line(format!("// Parameter scope {name} ({} entries, {} total bytes)", index.len(), index.total_bytes()));
    line(format!("//==={}{}===//", &RULE[3..], "-".repeat(47)));
    line("//         Start |              End |           Length | Key".into());
    line(format!("//{RULE}{}//", "-".repeat(50)));
    for parameter in index {
        let (key, length) = (visible(&parameter.key), parameter.length);
        line(match &parameter.storage {
            ParameterStorage::Splat(_) => format!("{:>16} | {:>16} | {length:>16} | `{key}`", "-", "-"),
            ParameterStorage::Stored { offset, .. } => {
                format!("{offset:>16} | {:>16} | {length:>16} | `{key}`", offset + length)
            }
        });
    }
    line(String::new());
    text
}
