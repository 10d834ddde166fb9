//! The parameter archives of `--parameters=[SCOPE=]FILE`: opens them for programs and for their own commands. Called by `engine` and `params`.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use vireo::hal::ParameterProvider;
use vireo::io::{ContentsMode, IndexProvider, ParameterIndex, Progress};

use crate::arguments::{ParameterArguments, ParameterMode};
use crate::exit::Exit;
use crate::failure::Failure;

/// What takes longer than this shows a bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A scope and what is in it.
pub struct Scope {
    /// Its name; empty for parameters without a scope.
    pub name: String,
    /// Its parameters.
    pub index: ParameterIndex,
}

/// Opens the archives that the flags name. Archives of one scope are put together; of parameters with one name the first counts.
pub fn open(arguments: &ParameterArguments) -> Result<Vec<Scope>, Failure> {
    open_all(&arguments.parameters, arguments.parameter_mode)
}

/// The same for a list of `[SCOPE=]FILE`.
pub fn open_all(specs: &[String], mode: ParameterMode) -> Result<Vec<Scope>, Failure> {
    let mode = match mode {
        ParameterMode::Mmap => ContentsMode::Mmap,
        ParameterMode::File => ContentsMode::File,
        ParameterMode::Preload => ContentsMode::Preload,
    };
    let mut scopes: Vec<Scope> = Vec::new();
    for spec in specs {
        let (name, path) = spec.split_once('=').unwrap_or(("", spec));
        if path.is_empty() {
            let failure = Failure::new(Exit::Usage, format!("--parameters={spec} names no file"));
            return Err(failure.hint("use --parameters=FILE, or --parameters=SCOPE=FILE"));
        }
        let index = ParameterIndex::open(Path::new(path), mode).map_err(|status| {
            Failure::new(Exit::LoadFailure, format!("cannot read the parameters `{path}`")).because(status)
        })?;
        match scopes.iter_mut().find(|scope| scope.name == name) {
            Some(scope) => scope.index.merge(index),
            None => scopes.push(Scope { name: name.into(), index }),
        }
    }
    Ok(scopes)
}

/// The providers of these archives, one for each scope.
pub fn providers(arguments: &ParameterArguments) -> Result<Vec<Arc<dyn ParameterProvider>>, Failure> {
    let watch = io::stderr().is_terminal();
    let providers = open(arguments)?.into_iter().map(|scope| -> Arc<dyn ParameterProvider> {
        let provider = IndexProvider::new(scope.name, scope.index);
        Arc::new(if watch { provider.with_progress(Arc::new(Bar::new("loading parameters"))) } else { provider })
    });
    Ok(providers.collect())
}

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

impl Bar {
    /// A bar for `what` is done.
    pub fn new(what: &'static str) -> Bar {
        Bar { what, state: Mutex::default() }
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

    #[test]
    fn flags_name_files() {
        let failed = |spec: &str| open_all(&[spec.into()], ParameterMode::Mmap).map(drop).unwrap_err().exit;
        assert_eq!(failed("scope="), Exit::Usage);
        assert_eq!(failed("/nonexistent/x.irpa"), Exit::LoadFailure);
        assert_eq!(failed("scope=/nonexistent/x.bin"), Exit::LoadFailure);
    }
}
