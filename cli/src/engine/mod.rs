//! The interface of the commands to the runtime: flags become models and sessions of the library, and
//! [`Datum`](crate::values::Datum)s its values.

mod file;
mod file_kind;
mod function;
mod program;
mod session;
mod values;

pub use file::{open_archive, verify};
pub use function::{Benchmark, explain, kinds};
pub use program::{Loader, Program};
pub use session::{Linked, Others, Session, cannot_call};
