//! The machine code of functions as people read it.

/// Machine code that was made of a function, and what each part of it was made of.
#[derive(Clone, Debug)]
pub struct CompiledFunction {
    /// The code, for the processor it was made on.
    pub code: Vec<u8>,
    /// Its parts, first one first. Each goes to where the next one begins.
    pub parts: Vec<CodePart>,
    /// The ops that the interpreter executes.
    pub interpreted: Vec<u32>,
}

/// A part of machine code.
#[derive(Clone, Debug)]
pub struct CodePart {
    /// Where it begins.
    pub offset: usize,
    /// The op it was made of, counted from the beginning of the function.
    pub op: Option<u32>,
    /// True for what stands in front of a block, whose text is a title.
    pub begins_block: bool,
    /// The values it takes and makes, and where they are.
    pub text: String,
}
