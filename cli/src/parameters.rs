//! The parameter archives of `--parameters=[SCOPE=]FILE`: opens them for programs and for their own commands. Called by
//! `engine` and `params`.

use std::sync::Arc;

use vireo::inference::ModelBuilder;
use vireo::io::{ContentsMode, ParameterIndex};

use crate::arguments::{ParameterArguments, ParameterMode};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::os_text::path_of;
use crate::progress::Bar;

/// A scope and what is in it.
pub struct Scope {
    /// Its name; empty for parameters without a scope.
    pub name: String,
    /// Its parameters.
    pub index: ParameterIndex,
}

/// Opens the archives that the flags name. Archives of one scope are put together; of parameters with one name the
/// first counts.
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
        let index = ParameterIndex::open(path_of(path), mode).map_err(|status| {
            Failure::new(Exit::LoadFailure, format!("cannot read the parameters `{path}`")).because(status)
        })?;
        match scopes.iter_mut().find(|scope| scope.name == name) {
            Some(scope) => scope.index.merge(index),
            None => scopes.push(Scope { name: name.into(), index }),
        }
    }
    Ok(scopes)
}

/// Adds these archives to what a program is made of.
pub fn add_to(builder: ModelBuilder, scopes: &[Scope]) -> ModelBuilder {
    let builder =
        scopes.iter().fold(builder, |builder, scope| builder.parameter_index(&scope.name, scope.index.clone()));
    match Bar::on_terminal("loading parameters") {
        Some(bar) => builder.parameter_progress(Arc::new(bar)),
        None => builder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_files() {
        let failed = |spec: &str| open_all(&[spec.into()], ParameterMode::Mmap).map(drop).unwrap_err().exit;
        assert_eq!(failed("scope="), Exit::Usage);
        assert_eq!(failed("/nonexistent/x.irpa"), Exit::LoadFailure);
        assert_eq!(failed("scope=/nonexistent/x.bin"), Exit::LoadFailure);
    }
}
