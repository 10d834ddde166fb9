//! Progress of what can take long, as a bar on the terminal: loading and writing parameters, verifying modules, loading
//! kernels, compiling functions, minimising captures. Called by `parameters`, `params`, `engine`, `devices`, `dump` and
//! `replay`.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use vireo::hal::Progress;

/// Work that takes longer than this shows a bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar on stderr that is shown if what it counts takes long, and is gone when that is done.
#[derive(Debug)]
pub struct Bar {
    what: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    start: Option<Instant>,
    total: u64,
    done: u64,
    bar: Option<ProgressBar>,
}

impl Drop for State {
    fn drop(&mut self) {
        // Work that failed is not shown as done.
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Bar {
    /// A bar for `what` is done.
    pub fn new(what: &'static str) -> Bar {
        Bar { what, state: Mutex::default() }
    }

    /// The same where stderr is a terminal. Nothing is drawn elsewhere, so nothing has to be counted.
    pub fn on_terminal(what: &'static str) -> Option<Bar> {
        io::stderr().is_terminal().then(|| Bar::new(what))
    }
}

impl Progress for Bar {
    fn scheduled(&self, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.start.get_or_insert_with(Instant::now);
        state.total = state.total.saturating_add(bytes);
        if let Some(bar) = &state.bar {
            bar.set_length(state.total);
        }
    }

    fn done(&self, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done = state.done.saturating_add(bytes);
        if state.done >= state.total {
            if let Some(bar) = state.bar.take() {
                bar.finish_and_clear();
            }
            state.start = None;
            return;
        }
        if state.bar.is_none() && state.start.is_some_and(|start| start.elapsed() >= PATIENCE) {
            // Where stderr is no terminal nothing is drawn.
            let bar = ProgressBar::with_draw_target(Some(state.total), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{msg} [{wide_bar}] {bytes}/{total_bytes} {eta}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_message(self.what);
            state.bar = Some(bar);
        }
        if let Some(bar) = &state.bar {
            bar.set_position(state.done);
        }
    }
}

/// A line on stderr that says how far something is whose end is not known, and is gone when that is done.
#[derive(Debug)]
pub struct Counter(ProgressBar);

impl Counter {
    /// A line where stderr is a terminal.
    pub fn on_terminal() -> Option<Counter> {
        let bar = || ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            Counter(bar().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())))
        })
    }

    /// Replaces the line.
    pub fn show(&self, text: String) {
        self.0.set_message(text);
        self.0.tick();
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_waits_before_it_shows() {
        let bar = Bar::new("testing");
        bar.scheduled(10);
        bar.done(4);
        assert!(bar.state.lock().unwrap().bar.is_none());
        bar.state.lock().unwrap().start = Instant::now().checked_sub(2 * PATIENCE);
        bar.done(4);
        assert!(bar.state.lock().unwrap().bar.is_some());
        bar.done(2);
        assert!(bar.state.lock().unwrap().bar.is_none());
    }
}
