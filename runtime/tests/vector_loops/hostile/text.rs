//! The text of a hostile nest as it is written, and of its probe beside it: the same function, which notes before each
//! access how many bytes a buffer has to have for it. `draw` writes with this.

use std::fmt::Write;

/// Buffers of a function, its first arguments. The last one holds numbers, and is not stored to.
pub const BUFFERS: usize = 4;
/// The arguments after them: `i64` numbers, in the first registers.
pub const NUMBERS: u32 = 6;
/// Where a probe has the bytes that each buffer needs.
const NEEDED: u32 = 2 * NUMBERS;
/// More registers of a probe, and of both: a number that stays zero.
const PRODUCT: u32 = NEEDED + 2 * BUFFERS as u32;
const SIZE: u32 = PRODUCT + 2;
pub const ZERO: u32 = SIZE + 2;
const FIRST_FREE: u32 = ZERO + 2;

/// A pair of registers, by the first of them.
pub fn pair(register: u32) -> String {
    format!("%i{register}:{}", register + 1)
}

/// Both texts.
pub struct Text {
    own: String,
    probe: String,
    next: u32,
    blocks: u32,
}

impl Text {
    pub fn new() -> Text {
        let buffers: Vec<String> = (0..BUFFERS).map(|index| format!("%r{index}: !vm.buffer")).collect();
        let numbers: Vec<String> = (0..NUMBERS).map(|index| format!("{}: i64", pair(2 * index))).collect();
        let args = [buffers, numbers].concat().join(", ");
        let begin = |results: &str| {
            format!(
                "vm.module @m version 0\nvm.type i32\nvm.type f32\nvm.type i64\nvm.type f64\nvm.type !vm.buffer\n\n\
                 vm.export @f\nvm.func @f({args}) -> ({results}) {{\n^bb0:\n"
            )
        };
        let mut text = Text {
            own: begin("i64, i64, i32"),
            probe: begin(&["i64"; BUFFERS].join(", ")),
            next: FIRST_FREE,
            blocks: 1,
        };
        text.line(&format!("{} = vm.const.i64.zero", pair(ZERO)));
        text
    }

    /// A line of both.
    pub fn line(&mut self, line: &str) {
        for text in [&mut self.own, &mut self.probe] {
            writeln!(text, "  {line}").expect("a string takes it");
        }
    }

    /// A register that nothing else has, which may be the first of a pair.
    pub fn fresh(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    /// A block that has no line yet.
    pub fn block(&mut self) -> u32 {
        self.blocks += 1;
        self.blocks - 1
    }

    /// Begins a block.
    pub fn label(&mut self, block: u32) {
        for text in [&mut self.own, &mut self.probe] {
            writeln!(text, "^bb{block}:").expect("a string takes it");
        }
    }

    pub fn constant(&mut self, value: u64) -> u32 {
        let into = self.fresh();
        self.line(&format!("{} = vm.const.i64 {}", pair(into), value as i64));
        into
    }

    pub fn narrow_constant(&mut self, value: u64) -> u32 {
        let into = self.fresh();
        self.line(&format!("%i{into} = vm.const.i32 {}", value as i32));
        into
    }

    /// An operation on `i64` registers with a result of its own.
    pub fn wide(&mut self, op: &str, args: &[u32]) -> u32 {
        let into = self.fresh();
        let args: Vec<String> = args.iter().map(|arg| pair(*arg)).collect();
        self.line(&format!("{} = vm.{op} {}", pair(into), args.join(", ")));
        into
    }

    /// Notes what an access needs, before it: one to elements of `1 << shift` bytes, at an index and after so many
    /// others.
    pub fn note(&mut self, buffer: usize, index: u32, shift: u32, more: Option<u32>) {
        let (needed, product, size) = (pair(NEEDED + 2 * buffer as u32), pair(PRODUCT), pair(SIZE));
        let mut line = |line: &str| writeln!(self.probe, "  {line}").expect("a string takes it");
        line(&format!("{size} = vm.const.i64 {}", 1 << shift));
        match more {
            Some(more) => {
                line(&format!("{product} = vm.add.i64 {}, {}", pair(index), pair(more)));
                line(&format!("{product} = vm.mul.i64 {product}, {size}"));
            }
            None => line(&format!("{product} = vm.fma.i64 {}, {size}, {size}", pair(index))),
        }
        line(&format!("{needed} = vm.max.i64.u {needed}, {product}"));
    }

    /// Ends both: the own text with these results, of two pairs and a register.
    pub fn finish(mut self, [first, second, narrow]: [u32; 3]) -> [String; 2] {
        writeln!(self.own, "  vm.return {}, {}, %i{narrow}\n}}", pair(first), pair(second)).expect("a string takes it");
        let needed: Vec<String> = (0..BUFFERS as u32).map(|index| pair(NEEDED + 2 * index)).collect();
        writeln!(self.probe, "  vm.return {}\n}}", needed.join(", ")).expect("a string takes it");
        [self.own, self.probe]
    }
}
