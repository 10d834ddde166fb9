//! Failures of commands: an exit code, a message, its chain of causes and a hint. Commands return them and `main`
//! prints them.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use vireo::Status;
use vireo::status::Backtrace;
use vireo::visible_text::visible_lines;

use crate::exit::Exit;

/// A failure with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    message: String,
    excerpt: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
}

impl Failure {
    /// A failure without a further cause.
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), excerpt: String::new(), source: None, hint: None }
    }

    /// The same failure with `source` as its cause.
    pub fn because(mut self, source: impl Error + Send + Sync + 'static) -> Failure {
        self.source = Some(Box::new(source));
        self
    }

    /// The same failure with lines of a text that the message is about.
    pub fn excerpt(mut self, lines: String) -> Failure {
        self.excerpt = lines;
        self
    }

    /// The same failure with a line that says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The failure for programs. Keys are added over time, never renamed.
    pub fn to_json(&self) -> Value {
        let (mut causes, mut code, mut frames) = (Vec::new(), Value::Null, Vec::new());
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(trace) = error.downcast_ref::<Backtrace>() {
                frames.extend(trace.frames().iter().map(|frame| {
                    json!({
                        "module": frame.module,
                        "function": frame.function,
                        "offset": frame.offset,
                        "op": frame.op,
                        "location": frame.location,
                    })
                }));
            } else {
                causes.push(error.to_string());
            }
            if let (Value::Null, Some(status)) = (&code, error.downcast_ref::<Status>()) {
                code = status.code().to_string().into();
            }
            cause = error.source();
        }
        json!({
            "exit_code": self.exit as i32,
            "message": self.message,
            "code": code,
            "causes": causes,
            "backtrace": frames,
            "hint": self.hint,
        })
    }

    /// Writes the failure for a person. `out` strips the colours where there is no terminal.
    pub fn report(&self, out: &mut dyn Write) -> io::Result<()> {
        const ERROR: Style = AnsiColor::Red.on_default().bold();
        const CAUSE: Style = AnsiColor::Yellow.on_default().bold();
        const HINT: Style = AnsiColor::Cyan.on_default().bold();
        const PLACE: Style = Style::new().dimmed();
        writeln!(out, "{ERROR}error:{ERROR:#} {}", indent(&self.message))?;
        if !self.excerpt.is_empty() {
            writeln!(out, "{}", visible_lines(&self.excerpt))?;
        }
        let mut cause = self.source();
        while let Some(error) = cause {
            match error.downcast_ref::<Backtrace>() {
                Some(trace) => trace.frames().iter().try_for_each(|frame| {
                    let frame = indent(&frame.to_string());
                    writeln!(out, "    {PLACE}{frame}{PLACE:#}")
                })?,
                None => writeln!(out, "  {CAUSE}cause:{CAUSE:#} {}", indent(&error.to_string()))?,
            }
            cause = error.source();
        }
        if let Some(hint) = &self.hint {
            writeln!(out, "  {HINT}hint:{HINT:#} {}", indent(hint))?;
        }
        Ok(())
    }
}

/// Lines after the first stand below the first one's text. Messages may quote hostile files.
fn indent(text: &str) -> String {
    visible_lines(text.trim_end()).replace('\n', "\n    ")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use vireo::status::BacktraceFrame;

    use super::*;

    #[test]
    fn the_report_names_causes_and_places() {
        let frame = BacktraceFrame {
            module: "module".into(),
            function: "neg".into(),
            offset: Some(0x1A),
            op: "call",
            location: Some("model.mlir:3:10".into()),
        };
        let status = Status::out_of_range("offset 9 \x1b[31m exceeds\nthe buffer")
            .with_source(io::Error::other("inner"))
            .with_frame(frame);
        let failure = Failure::new(Exit::RunFailure, "running @neg").because(status).hint("look again");
        let mut out = Vec::new();
        failure.report(&mut anstream::StripStream::new(&mut out)).unwrap();
        let expected = "error: running @neg\n  cause: OUT_OF_RANGE: offset 9 \\u{1b}[31m exceeds\n    the buffer\n    \
            at module.neg+0x1a (call) model.mlir:3:10\n  cause: inner\n  hint: look again\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
