//! The tree of a text.

use std::collections::HashMap;

use crate::generated::registers::SpecialRegister;

/// A text.
#[derive(Debug, Default)]
pub struct Source<'a> {
    /// Ten times the version of the instruction set.
    pub version: u32,
    /// The number of the target, as in `sm_80`.
    pub target: u32,
    /// The names of files that its lines come from, by their numbers.
    pub files: HashMap<u64, &'a str>,
    /// Variables of the module.
    pub variables: Vec<Variable<'a>>,
    /// Kernels and functions, also those that are only declared.
    pub functions: Vec<Function<'a>>,
}

/// The space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableSpace {
    /// Device memory.
    Global,
    /// Device memory that kernels only read.
    Const,
    /// Memory of a block.
    Shared,
    /// Memory of a thread.
    Local,
    /// A parameter or result.
    Param,
    /// A parameter or result in a register.
    Register,
}

/// From where a name is visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// In its module.
    #[default]
    Private,
    /// In all modules.
    Visible,
    /// In all modules, unless another one defines it.
    Weak,
    /// Another module defines it.
    Extern,
}

/// A variable, parameter or result.
#[derive(Clone, Debug)]
pub struct Variable<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it is.
    pub space: VariableSpace,
    /// From where it is visible.
    pub linkage: Linkage,
    /// Its alignment in bytes.
    pub align: u32,
    /// Bytes of an element.
    pub element: u32,
    /// Bytes; none if its owner decides.
    pub size: Option<u64>,
    /// Its first elements; the others are zero.
    pub initial: Vec<Initial<'a>>,
    /// The register, if it is one.
    pub register: Option<RegisterId>,
    /// Its line.
    pub line: u32,
}

/// The first value of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial<'a> {
    /// Its bits.
    Bits(u64),
    /// The address of a variable, and a number.
    Address(&'a str, i64),
}

impl<'a> Initial<'a> {
    /// The variable or function whose address it is.
    pub fn name(&self) -> Option<&'a str> {
        match self {
            Initial::Bits(_) => None,
            Initial::Address(name, _) => Some(name),
        }
    }
}

/// The number of a register in a function.
pub type RegisterId = u32;

/// A kernel or function.
#[derive(Debug)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// From where it is visible.
    pub linkage: Linkage,
    /// Its results.
    pub results: Vec<Variable<'a>>,
    /// Its parameters.
    pub parameters: Vec<Variable<'a>>,
    /// Threads of a block at most.
    pub max_threads: Option<[u32; 3]>,
    /// Threads that a block must have.
    pub required_threads: Option<[u32; 3]>,
    /// Its instructions; none if it is only declared.
    pub body: Option<Body<'a>>,
    /// Its line.
    pub line: u32,
}

/// The instructions of a function.
#[derive(Debug, Default)]
pub struct Body<'a> {
    /// In their order.
    pub instructions: Vec<Instruction<'a>>,
    /// The bits of each register that is used.
    pub registers: Vec<u32>,
    /// Variables of the function: local, shared, and parameters of calls.
    pub variables: Vec<Variable<'a>>,
    /// The scope around each scope.
    pub scopes: Vec<u32>,
    /// The instruction that a label of a scope is before.
    pub labels: HashMap<(u32, &'a str), u32>,
    /// The lists of targets and the prototypes of a scope, each with its number.
    pub tables: HashMap<(u32, &'a str), u32>,
    /// Those in their order, each with the scope that it is in.
    pub table_list: Vec<(u32, Table<'a>)>,
}

/// The targets that an instruction with one in a register names beside it.
#[derive(Debug)]
pub enum Table<'a> {
    /// Labels to which it may jump.
    Labels(Vec<&'a str>),
    /// Functions that it may call.
    Functions(Vec<&'a str>),
    /// The results and parameters of the function that it calls.
    Prototype(Vec<Variable<'a>>, Vec<Variable<'a>>),
}

impl<'a> Body<'a> {
    /// The instruction that a label is before, as it is seen from a scope.
    pub fn label(&self, scope: u32, name: &str) -> Option<u32> {
        self.seen(&self.labels, scope, name)
    }

    /// The number of a list of targets or prototype, as it is seen from a scope, and the list with its scope.
    pub fn table(&self, scope: u32, name: &str) -> Option<(u32, &(u32, Table<'a>))> {
        let number = self.seen(&self.tables, scope, name)?;
        Some((number, self.table_list.get(number as usize)?))
    }

    fn seen(&self, names: &HashMap<(u32, &'a str), u32>, scope: u32, name: &str) -> Option<u32> {
        let mut scope = scope;
        loop {
            if let Some(found) = names.get(&(scope, name)) {
                return Some(*found);
            }
            // The outermost scope is around itself.
            let around = *self.scopes.get(scope as usize)?;
            if around == scope {
                return None;
            }
            scope = around;
        }
    }
}

/// A condition of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate.
    pub register: RegisterId,
    /// Whether it has to be false.
    pub negated: bool,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction<'a> {
    /// Its opcode with suffixes.
    pub opcode: &'a str,
    /// Its condition.
    pub guard: Option<Guard>,
    /// Its operands.
    pub operands: Vec<Operand<'a>>,
    /// The scope that it is in.
    pub scope: u32,
    /// Its line.
    pub line: u32,
    /// The number of the file and the line that it comes from, if the text says so.
    pub origin: Option<(u64, u64)>,
}

/// A name in an operand that is no register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// The variable of the function with this number.
    Local(u32),
    /// A parameter of the function.
    Parameter(u32),
    /// A result of the function.
    Result(u32),
    /// A variable or function of the module, or a label.
    Global(&'a str),
}

/// An operand.
#[derive(Clone, Debug)]
pub enum Operand<'a> {
    /// A register.
    Register(RegisterId),
    /// A predicate that is negated.
    Not(RegisterId),
    /// A special register.
    Special(SpecialRegister),
    /// The bits of an integer.
    Integer(u64),
    /// The bits of an f32.
    Single(u32),
    /// The bits of an f64.
    Double(u64),
    /// A name, and a number that is added.
    Name(Name<'a>, i64),
    /// Memory at a register.
    AtRegister(RegisterId, i64),
    /// Memory at a variable.
    AtName(Name<'a>, i64),
    /// Memory at a number.
    AtNumber(u64),
    /// Several values.
    Vector(Vec<Operand<'a>>),
    /// Two results.
    Pair(Box<[Operand<'a>; 2]>),
    /// Arguments or results of a call.
    List(Vec<Operand<'a>>),
    /// A result that is not wanted.
    Nothing,
}
