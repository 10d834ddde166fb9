//! From the tree to programs: links names of several texts, lays variables out, and makes of each kernel with the
//! functions that it calls one program.
//!
//! Functions have fixed frames: recursion is refused, so the rows, predicates and local memory of a function begin
//! after those of all that call it. Each lane notes in a row where it was called, so lanes that come from different
//! calls may be in a function together.

mod calls;
mod code;
mod indirect;
mod instruction;
mod mbarriers;
mod memory;
mod polls;
mod program;
mod special;
mod symbols;
mod tiles;
mod together;

use std::collections::HashMap;

use crate::error::{LoadError, LoadErrorKind};
use crate::generated::limits::{BLOCK_THREADS, INSTRUCTIONS, PARAM_BYTES};
use crate::module::{Kernel, Module, Options, Parameter};
use crate::syntax::{Function, Source};

use symbols::Symbols;

/// Makes a module of texts.
pub(crate) fn module(sources: &[Source<'_>], options: &Options) -> Result<Module, LoadError> {
    let version = sources.iter().map(|source| source.version).max().unwrap_or_default();
    let target = sources.iter().map(|source| source.target).max().unwrap_or_default();
    if let Some(most) = options.target
        && target > most
    {
        let message = format!("code for sm_{target}: expected sm_{most} at most");
        return Err(LoadError::new(LoadErrorKind::Target, 1, message));
    }
    let symbols = Symbols::new(sources)?;
    let mut module = Module { version, target, kernels: Vec::new(), globals: symbols.globals.clone() };
    let (mut names, mut instructions): (HashMap<&str, u32>, usize) = (HashMap::new(), 0);
    for (source, text) in sources.iter().enumerate() {
        for function in text.functions.iter().filter(|function| function.is_kernel && function.body.is_some()) {
            if names.insert(function.name, function.line).is_some() {
                let message = format!("kernel `{}` is there twice", function.name);
                return Err(LoadError::invalid(function.line, message));
            }
            let kernel = kernel(sources, &symbols, source, function)?;
            // Each kernel has the functions that it calls, so the text may be much shorter.
            instructions += kernel.instructions();
            if instructions > INSTRUCTIONS as usize {
                let message = format!("kernels with their functions of more than {INSTRUCTIONS} instructions");
                return Err(LoadError::unsupported(function.line, message));
            }
            module.kernels.push(kernel);
        }
        // Functions that no kernel calls are checked, too.
        for (index, function) in text.functions.iter().enumerate() {
            if !function.is_kernel && function.body.is_some() && !symbols.is_called((source, index)) {
                program::check(sources, &symbols, (source, index))?;
            }
        }
    }
    Ok(module)
}

fn kernel(
    sources: &[Source<'_>],
    symbols: &Symbols<'_>,
    source: usize,
    function: &Function<'_>,
) -> Result<Kernel, LoadError> {
    let (parameters, parameter_bytes) = parameters(function)?;
    let index = sources[source].functions.iter().position(|other| std::ptr::eq(other, function)).unwrap_or_default();
    let offsets: Vec<u32> = parameters.iter().map(|parameter| parameter.offset).collect();
    let program = program::build(sources, symbols, (source, index), &offsets)?;
    let threads = |sizes: [u32; 3]| sizes.iter().fold(1u32, |product, size| product.saturating_mul(*size));
    let most = [function.max_threads, function.required_threads].into_iter().flatten().map(threads).min();
    Ok(Kernel {
        name: function.name.to_string(),
        parameters,
        parameter_bytes,
        shared_bytes: program.shared_bytes,
        max_threads: most.unwrap_or(BLOCK_THREADS).min(BLOCK_THREADS),
        required_threads: function.required_threads,
        program: std::sync::Arc::new(program),
    })
}

/// Where the parameters of a kernel are.
fn parameters(function: &Function<'_>) -> Result<(Vec<Parameter>, u32), LoadError> {
    let mut end = 0u32;
    let mut parameters = Vec::new();
    for formal in &function.parameters {
        let too_many = || LoadError::invalid(formal.line, format!("more than {PARAM_BYTES} bytes of parameters"));
        let Some(size) = formal.size else {
            return Err(LoadError::invalid(formal.line, format!("parameter `{}` has no size", formal.name)));
        };
        let size = u32::try_from(size).map_err(|_| too_many())?;
        let offset = end.checked_next_multiple_of(formal.align).ok_or_else(too_many)?;
        end = offset.checked_add(size).filter(|end| *end <= PARAM_BYTES).ok_or_else(too_many)?;
        parameters.push(Parameter { name: formal.name.to_string(), offset, size, align: formal.align });
    }
    Ok((parameters, end))
}
