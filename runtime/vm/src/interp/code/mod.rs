//! Code of functions as data: the threaded code that the interpreter runs and the machine code of the JIT, and what
//! people see of the latter. The room `threaded` makes and runs it.

pub(in crate::interp) mod code_table;
pub(in crate::interp) mod import_site;
pub mod listing;
pub mod loops;
pub(in crate::interp) mod native_code;
pub mod perf_map;
pub(in crate::interp) mod pinned_list;
pub mod side_exits;
pub(in crate::interp) mod threaded_code;
