//! The meaning of an instruction: `semantics` parsed by `syntax`, typed with named operands of any width. It is the
//! same for all instruction sets; `language` says how the sets of a model differ.
//!
//! Only method calls of the vocabulary are accepted. Operators, `if`, `as`, closures and blocks are refused, because
//! they would hide a choice (wrap or trap, which rounding) that a primitive states in its name. Properties of an op are
//! read off its typed expression and not declared.

mod expr;
mod infer;
mod language;
pub mod primitive;
pub mod primitive_example;
pub(crate) mod syntax;
mod types;
mod vocabulary;

pub use expr::{Expr, ExprKind, Properties};
pub use infer::{Refusal, type_semantics};
pub use language::Language;
pub use primitive::{Effect, Home, Lanes, Linear, Lowering, Others, Primitive, Use};
pub use types::{Scalar, Sig, Ty};
pub use vocabulary::Vocabulary;
