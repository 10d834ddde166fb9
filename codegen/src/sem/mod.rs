//! The meaning of a VM op: `semantics` parsed by `syntax`, typed against the fields of the op's encoding.
//!
//! Only method calls of the vocabulary are accepted. Operators, `if`, `as`, closures and blocks are refused, because
//! they would hide a choice (wrap or trap, which rounding) that a primitive states in its name. Properties of an op are
//! read off its typed expression and not declared.

mod expr;
mod infer;
pub mod primitive;
pub mod primitive_example;
pub(crate) mod syntax;
mod types;
mod vocabulary;

pub use expr::{Expr, ExprKind, Properties};
pub use infer::{Refusal, type_semantics};
pub use primitive::{Effect, Home, Lanes, Linear, Lowering, Others, Primitive, Use};
pub use types::{Scalar, Sig, Ty};
pub use vocabulary::Vocabulary;
