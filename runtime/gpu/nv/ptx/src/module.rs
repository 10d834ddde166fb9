//! Modules: a text with its kernels, and the variables that its owner allocates.

use std::sync::Arc;

use crate::error::LoadError;
use crate::lower;
use crate::machine::Program;
use crate::syntax;

/// How a text is loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The number of the newest target that is accepted, such as 86 for `sm_86`; none for any.
    pub target: Option<u32>,
}

/// A text with its kernels.
#[derive(Debug)]
pub struct Module {
    pub(crate) version: u32,
    pub(crate) target: u32,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) globals: Vec<Global>,
}

impl Module {
    /// Loads a text, which may end with zeros.
    ///
    /// # Errors
    /// The first thing that is wrong or not supported.
    pub fn load(source: &[u8], options: &Options) -> Result<Module, LoadError> {
        Self::link(&[source], options)
    }

    /// Loads several texts as one module: each may use what is visible in the others.
    ///
    /// # Errors
    /// The first thing that is wrong or not supported; the line is that of the text that it is in.
    pub fn link(sources: &[&[u8]], options: &Options) -> Result<Module, LoadError> {
        let mut texts = Vec::new();
        for source in sources {
            let end = source.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let text = &source[..end];
            match str::from_utf8(text) {
                Ok(text) => texts.push(text),
                Err(error) => {
                    let before = &text[..error.valid_up_to()];
                    let line = before.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
                    return Err(LoadError::invalid(line, "a byte that is no text"));
                }
            }
        }
        let parsed: Result<Vec<_>, _> = texts.into_iter().map(syntax::parse).collect();
        lower::module(&parsed?, options)
    }

    /// Its kernels, in the order of the text.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// Its variables in device memory, in the order of the text.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// Ten times the version of the instruction set.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The number of the target, such as 80 for `sm_80`.
    pub fn target(&self) -> u32 {
        self.target
    }
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its first byte among those of all parameters.
    pub offset: u32,
    /// Its bytes.
    pub size: u32,
    /// The alignment of it.
    pub align: u32,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) parameter_bytes: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) max_threads: u32,
    pub(crate) required_threads: Option<[u32; 3]>,
    pub(crate) program: Arc<Program>,
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Bytes of all parameters.
    pub fn parameter_bytes(&self) -> u32 {
        self.parameter_bytes
    }

    /// Bytes of shared memory that it declares.
    pub fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    /// Bytes of local memory of a thread.
    pub fn local_bytes(&self) -> u32 {
        self.program.local_bytes
    }

    /// Registers of 32 bits of a thread.
    pub fn registers(&self) -> u32 {
        self.program.rows
    }

    /// Threads of a block at most.
    pub fn max_threads(&self) -> u32 {
        self.max_threads
    }

    /// Threads that a block must have along each axis, if it says so.
    pub fn required_threads(&self) -> Option<[u32; 3]> {
        self.required_threads
    }

    /// Instructions as they are executed, also those of functions that it calls.
    pub fn instructions(&self) -> usize {
        self.program.insts.len()
    }
}

/// The space of a variable of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobalSpace {
    /// Kernels read and write it.
    Global,
    /// Kernels only read it.
    Const,
}

/// A variable of a module in device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its name.
    pub name: String,
    /// Its space.
    pub space: GlobalSpace,
    /// Its bytes.
    pub size: u64,
    /// The alignment of it.
    pub align: u32,
    /// Its first bytes; the others are zero.
    pub initial: Vec<u8>,
    /// Addresses in it.
    pub relocations: Vec<Relocation>,
    /// Whether the text only declares it, so that its owner has to know it from elsewhere.
    pub is_external: bool,
}

/// An address in the first bytes of a variable, which its owner puts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The first of eight bytes.
    pub offset: u64,
    /// The variable whose address it is, by its index.
    pub global: usize,
    /// A number that is added.
    pub addend: i64,
}
