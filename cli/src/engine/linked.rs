//! Programs whose modules are linked for one tier or for both, and the sessions that are compared.

use std::path::PathBuf;
use std::sync::Arc;

use vireo::hal::ExecutionStatistics;
use vireo::inference::Signature;

use super::program::{Loader, Program};
use super::session::{Chosen, Session};
use crate::arguments::ProgramArguments;
use crate::device_profile::DeviceProfile;
use crate::failure::Failure;

/// The sessions that a session of the interpreter is compared with.
pub struct Others {
    program: Program,
    /// A session of machine code.
    pub compiled: Session,
}

impl Others {
    /// Another session of the interpreter.
    pub fn again(&self) -> Result<Session, Failure> {
        self.program.session()
    }
}

/// A program whose files are open and verified, and of which nothing has run yet.
pub struct Linked {
    program: Program,
    /// The same for machine code, if both tiers are asked for.
    compiled: Option<Program>,
}

impl Linked {
    /// Loads the modules of the flags, in order, and then `file`; and once more for machine code if both tiers are
    /// asked for.
    pub fn load(
        arguments: &ProgramArguments,
        file: Option<&PathBuf>,
        statistics: Option<&Arc<ExecutionStatistics>>,
        profile: Option<&DeviceProfile>,
    ) -> Result<Linked, Failure> {
        let loader = Loader::new(arguments, statistics, profile)?;
        let load = |path: &PathBuf| loader.module(path);
        let modules = arguments.module.iter().chain(file).map(load).collect::<Result<Vec<_>, Failure>>()?;
        let (program, compiled) = loader.link(&modules)?;
        Ok(Linked { program, compiled })
    }

    /// The same program with the module `other` in place of the last one, on devices of its own.
    pub fn load_other(
        arguments: &ProgramArguments,
        file: Option<&PathBuf>,
        other: &PathBuf,
    ) -> Result<Linked, Failure> {
        let loader = Loader::new(arguments, None, None)?;
        let kept = arguments.module.len() - usize::from(file.is_none() && !arguments.module.is_empty());
        let load = |path: &PathBuf| loader.module(path);
        let modules = arguments.module[..kept].iter().chain([other]).map(load).collect::<Result<Vec<_>, Failure>>()?;
        let (program, compiled) = loader.link(&modules)?;
        Ok(Linked { program, compiled })
    }

    /// The signature of the function that [`Session::function`] will find.
    pub fn signature(&self, name: Option<&str>) -> Result<Signature, Failure> {
        let model = self.program.model();
        let chosen = Chosen::of(model, name)?;
        // A function of another module is called by both names.
        let elsewhere = || {
            let (module, function) = chosen.name.split_once('.')?;
            let module = model.modules().iter().find(|other| other.name() == module)?;
            let export = module.exports_named(function).next()?;
            Signature::of(module, &export).ok()
        };
        model
            .signature(chosen.name)
            .or_else(|status| elsewhere().ok_or(status))
            .map_err(|status| chosen.failure(status))
    }

    /// Runs the initialisers of all modules.
    pub fn start(self) -> Result<(Session, Option<Others>), Failure> {
        let compiled = self.compiled.map(|compiled| compiled.session()).transpose()?;
        let session = self.program.session()?;
        Ok((session, compiled.map(|compiled| Others { program: self.program, compiled })))
    }
}
