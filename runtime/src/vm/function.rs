//! Functions of a context, as the host calls them.

use std::fmt;
use std::sync::Arc;

use super::context::Context;
use super::convention::Convention;
use super::module::Module;
use super::value::Value;
use crate::interp::{ImportTarget, Invocation, Limits};
use crate::status::Result;

/// An exported function of a context, which it keeps alive. Cheap to clone.
#[derive(Clone)]
pub struct Function {
    context: Context,
    module: usize,
    ordinal: usize,
    name: Arc<str>,
}

impl Function {
    pub(super) fn new(context: Context, module: usize, name: &str, ordinal: usize) -> Function {
        Function { context, module, ordinal, name: name.into() }
    }

    /// The module that exports it.
    pub fn module(&self) -> &Module {
        &self.context.modules()[self.module]
    }

    /// Name without the module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it takes and returns.
    pub fn convention(&self) -> Convention {
        self.module().convention_of(self.ordinal).cloned().unwrap_or_default()
    }

    /// The reflection attributes that the compiler wrote: `iree.abi.declaration`, `iree.abi`, ...
    pub fn attrs(&self) -> Vec<(&str, &str)> {
        let function = self.module().archive().and_then(|archive| archive.functions().nth(self.ordinal));
        function.map(|function| function.attrs().collect()).unwrap_or_default()
    }

    /// The reflection attribute `key`.
    pub fn attr(&self, key: &str) -> Option<&str> {
        self.attrs().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Calls the function and waits until it returns.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `args` are not what the convention asks for, else what the program failed with.
    pub fn call(&self, args: &[Value]) -> Result<Vec<Value>> {
        self.call_with(args, self.context.0.limits().clone())
    }

    /// As [`Function::call`], within `limits`.
    ///
    /// # Errors
    /// As [`Function::call`]; `RESOURCE_EXHAUSTED`, `DEADLINE_EXCEEDED` and `CANCELLED` by the limits.
    pub fn call_with(&self, args: &[Value], limits: Limits) -> Result<Vec<Value>> {
        let target = ImportTarget { module: self.module, function: self.ordinal };
        let inner = &self.context.0;
        let mut invocation = Invocation::new(Arc::clone(&inner.program), target, args, limits.clone())?;
        inner.run(&mut invocation, &limits)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({}.{} {})", self.module().name(), self.name, self.convention())
    }
}
