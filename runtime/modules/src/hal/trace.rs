//! Trace sinks that print tensors, for hosts without a sink of their own.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use super::TraceSink;
use crate::Status;
use crate::limits::scope::Scope;
use crate::visible_text::visible;
use crate::vm::Obj;
use vireo_hal::{BufferView, format_view};

/// Most elements of a tensor that a program under a memory limit traces.
const MAX_ELEMENTS: usize = 1024;

/// A sink that prints tensors as the reference runtime's tools do: the key, then each tensor with all its elements on a
/// line of its own.
pub fn trace_to(out: impl Write + Send + 'static) -> Arc<TraceSink> {
    let out = Mutex::new(out);
    Arc::new(move |key: &str, views: &[Obj<BufferView>]| {
        let mut text = format!("=== {} ===\n", visible(key));
        // Under a memory limit the text is limited too.
        let counts = Scope::current().limits().is_some_and(|limits| limits.memory.is_some());
        let most = if counts { MAX_ELEMENTS } else { usize::MAX };
        for view in views {
            text += &format_view(view, most)?;
            text.push('\n');
        }
        text.push('\n');
        // One lock and one write, so that the tensors of several threads do not mix.
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| Status::internal("cannot print the tensors that the program traces").with_source(error))
    })
}

/// A sink that prints tensors to the standard error stream.
pub fn trace_to_stderr() -> Arc<TraceSink> {
    trace_to(std::io::stderr())
}
