//! Executables in portable bytecode: finds them in the read-only data of a module, for `vireo dump --jit`.

use vireo::interp::CodeShape;
use vireo::vm::Module;
use vireo::vmfb::Archive;

use super::loops::{self, FunctionLoops};
use super::machine::{self, Form};
use super::summary::{Summary, summarize, with_names};
use crate::exit::Exit;
use crate::failure::Failure;
use vireo::visible_text::visible;

/// An executable.
pub struct Executable {
    /// The segment it is in.
    segment: usize,
    module: Module,
    summary: Summary,
}

/// The executables of a module. What is in the data and is no module, weights for instance, is none.
pub fn executables(archive: &Archive) -> Result<Vec<Executable>, Failure> {
    // Segments of a damaged module may overlap, and each is copied to be read.
    let mut budget = archive.bytes().len();
    let mut found = Vec::new();
    for (segment, rodata) in archive.rodata().enumerate() {
        let Some(bytes) = archive.bytes().get(rodata.range).filter(|bytes| bytes.len() <= budget) else { continue };
        budget -= bytes.len();
        let Ok(executable) = Archive::from_bytes(bytes) else { continue };
        let summary = summarize(&executable);
        let mut module = Module::from_archive(executable).map_err(|status| {
            let name = visible(&summary.name);
            let message = format!("cannot load the executable `{name}` in vm.rodata[{segment}]");
            Failure::new(Exit::LoadFailure, message).because(status)
        })?;
        module.set_code_shape(CodeShape::KERNELS);
        found.push(Executable { segment, module, summary });
    }
    Ok(found)
}

impl Executable {
    /// Whether `name` names a kernel of this executable: an exported name, or one prefixed with the name of the
    /// executable and a dot.
    fn functions<'a>(&'a self, name: &'a str) -> impl Iterator<Item = usize> + 'a {
        let inside = name.strip_prefix(self.summary.name.as_str()).and_then(|rest| rest.strip_prefix('.'));
        let functions = self.summary.functions.iter().enumerate();
        let named = functions.filter(move |(_, function)| {
            function.names.iter().any(|known| known == name || Some(known.as_str()) == inside)
        });
        named.map(|(ordinal, _)| ordinal)
    }

    /// The segment of read-only data that it is in.
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// Whether `name` names one of its kernels.
    pub fn has(&self, name: &str) -> bool {
        self.functions(name).next().is_some()
    }

    /// The names of its kernels, for people.
    pub fn kernels(&self) -> impl Iterator<Item = String> {
        self.summary
            .exports
            .iter()
            .filter(|export| !export.name.starts_with("__"))
            .map(|export| format!("@{}", export.name))
    }

    /// The machine code or the graphs of the kernels with these names, of all functions without names; none if there
    /// are none. In front stands which executable it is.
    pub fn machine_code(&self, names: &[String], form: Form) -> vireo::Result<Option<String>> {
        let ordinals = self.ordinals(names);
        if ordinals.is_empty() {
            return Ok(None);
        }
        let texts = with_names(&self.summary, |names| machine::functions(&self.module, names, &ordinals, form))?;
        let comment = form.comment();
        let title = format!("{comment} executable @{} in vm.rodata[{}]\n", visible(&self.summary.name), self.segment);
        Ok(Some(format!("{title}{}", texts.join("\n"))))
    }

    /// The decisions about the loops of the kernels with these names, of all functions without names.
    pub fn loops(&self, names: &[String]) -> vireo::Result<Vec<FunctionLoops>> {
        let ordinals = self.ordinals(names);
        let executable = Some(self.summary.name.as_str());
        with_names(&self.summary, |names| loops::functions(&self.module, names, &ordinals, executable))
    }

    /// The functions with these names, all of them without names.
    fn ordinals(&self, names: &[String]) -> Vec<usize> {
        match names {
            [] => (0..self.summary.functions.len()).collect(),
            names => names.iter().flat_map(|name| self.functions(name)).collect(),
        }
    }
}
