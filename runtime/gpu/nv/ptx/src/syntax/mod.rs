//! The text: tokens, and the tree of variables, functions and instructions, whose names of registers and local
//! variables are resolved, and back. `lower` makes programs of it; what instructions mean is not known here.

mod body;
mod lexer;
mod parser;
mod print;
mod tree;

pub use parser::parse;
pub use print::print;
pub use tree::{
    Body, Function, Guard, Initial, Instruction, Linkage, Name, Operand, RegisterId, Source, Table, Variable,
    VariableSpace,
};
