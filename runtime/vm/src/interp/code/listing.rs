//! Listings of machine code, for people: the JIT writes them, `vireo dump --jit` prints them.

/// The machine code of a function, and the op that each part of it was compiled from.
#[derive(Clone, Debug)]
pub struct CompiledFunction {
    /// The code, for the processor that it was compiled on.
    pub code: Vec<u8>,
    /// Its parts by offset. Each extends to the next one.
    pub parts: Vec<CodePart>,
    /// The ops without machine code, which the interpreter executes.
    pub interpreted: Vec<u32>,
    /// Each access checks its own index, in no vectors: it was not proved that guards of the function cover all of
    /// them.
    pub is_checked: bool,
}

/// A part of machine code.
#[derive(Clone, Debug)]
pub struct CodePart {
    /// Code offset of its first byte.
    pub offset: usize,
    /// Index of the op that it was compiled from.
    pub op: Option<u32>,
    /// True for the part before a block, whose text is a title.
    pub begins_block: bool,
    /// True for a constant that instructions read.
    pub is_data: bool,
    /// Its operands and results, and their registers.
    pub text: String,
}
