//! Where `trace` and `print` report to.

use crate::vm::Value;

/// Takes what programs report.
pub trait Sink: Send + Sync {
    /// An event of `trace` with its operands.
    fn trace(&self, event: &str, values: &[Value]);

    /// A text of `print` with its operands.
    fn print(&self, text: &str, values: &[Value]);
}

/// Writes one line per report to the standard error stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stderr;

impl Sink for Stderr {
    fn trace(&self, event: &str, values: &[Value]) {
        eprintln!("[trace] {event}{}", Listed(values));
    }

    fn print(&self, text: &str, values: &[Value]) {
        eprintln!("[print] {text}{}", Listed(values));
    }
}

struct Listed<'a>(&'a [Value]);

impl std::fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, value) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { ": " } else { ", " })?;
            match value {
                Value::I32(value) => write!(f, "{value}")?,
                Value::I64(value) => write!(f, "{value}")?,
                Value::F32(value) => write!(f, "{value}")?,
                Value::F64(value) => write!(f, "{value}")?,
                Value::Ref(None) => f.write_str("null")?,
                Value::Ref(Some(reference)) => write!(f, "!{}", reference.type_name())?,
            }
        }
        Ok(())
    }
}
