//! The interface of the commands to the runtime: flags become models and sessions of the library, and
//! [`Datum`](crate::values::Datum)s its values.

mod file;
mod file_kind;
mod function;
mod linked;
mod program;
mod session;
mod tier;
mod values;

pub use file::{open_archive, verify};
pub use function::{Benchmark, explain, kinds};
pub use linked::{Linked, Others};
pub use program::{Loader, Program};
pub use session::{Session, cannot_call};
