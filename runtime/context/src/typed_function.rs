//! [`TypedFunction`]: a function with the Rust types of its arguments and results, checked once, for hosts that call it
//! again and again.

use std::fmt;
use std::sync::Arc;

use super::context::Context;
use super::function::Function;
use crate::interp::{Limits, PassedList, TypedTarget};
use crate::status::Result;

/// A function whose arguments are `P` and whose results are `R`: the fast way to call a small function. It keeps the
/// context alive. Cheap to clone.
///
/// Both are a type or a tuple of types: `i32` and `f32` for the kinds `i` and `f`, `i64` and `f64` for `I` and `F`, and
/// for references [`Obj`](vireo_vm::Obj), [`Ref`](vireo_vm::Ref), or an option of one of these where the reference may
/// be null. [`Function::typed`] makes it.
///
/// A call does what [`Function::call`] does, but allocates nothing and has no list of values.
pub struct TypedFunction<P, R> {
    context: Context,
    target: TypedTarget<P, R>,
}

impl<P: PassedList, R: PassedList> TypedFunction<P, R> {
    pub(super) fn new(context: Context, target: TypedTarget<P, R>) -> TypedFunction<P, R> {
        TypedFunction { context, target }
    }

    /// Calls the function and waits until it returns. References among the arguments are moved to the program.
    ///
    /// # Errors
    /// The error of the program; `INVALID_ARGUMENT` if a result is null or an object of another type than `R` has
    /// there.
    #[inline]
    pub fn call(&self, params: P) -> Result<R> {
        self.context.0.call_typed(&self.target, params)
    }

    /// As [`TypedFunction::call`], within `limits`.
    ///
    /// # Errors
    /// As [`TypedFunction::call`]; `RESOURCE_EXHAUSTED`, `DEADLINE_EXCEEDED` and `CANCELLED` by the limits.
    pub fn call_with(&self, params: P, limits: &Limits) -> Result<R> {
        self.context.0.call_typed_with(&self.target, params, limits)
    }
}

impl Function {
    /// The function with these types of its arguments and results, which are checked here instead of in each call.
    ///
    /// ```
    /// # use vireo_core::status::Result;
    /// # use vireo_context::Function;
    /// fn sum(add: &Function, numbers: &[i32]) -> Result<i32> {
    ///     let add = add.typed::<(i32, i32), i32>()?;
    ///     let mut sum = 0;
    ///     for number in numbers {
    ///         sum = add.call((sum, *number))?;
    ///     }
    ///     Ok(sum)
    /// }
    /// ```
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, which names the argument or result that differs from the calling convention, what was found
    /// and what is expected; `UNIMPLEMENTED` for variadic functions.
    pub fn typed<P: PassedList, R: PassedList>(&self) -> Result<TypedFunction<P, R>> {
        let context = &self.context.0;
        let target = TypedTarget::new(Arc::clone(&context.linked.module_list), self.target(), context.limits());
        let name = || format!("typed calls of `{}.{}`", self.module().name(), self.name());
        Ok(TypedFunction::new(self.context.clone(), target.map_err(|status| status.context(name()))?))
    }
}

impl<P, R> Clone for TypedFunction<P, R> {
    fn clone(&self) -> TypedFunction<P, R> {
        TypedFunction { context: self.context.clone(), target: self.target.clone() }
    }
}

impl<P, R> fmt::Debug for TypedFunction<P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypedFunction<{}, {}>", std::any::type_name::<P>(), std::any::type_name::<R>())
    }
}
