//! The integer types that specs name. Constants, the objects of the HAL and layouts have them.

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Int {
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `u64`
    U64,
    /// `i32`
    I32,
    /// `i64`
    I64,
}

impl Int {
    /// The type called `name`.
    pub fn from_name(name: &str) -> Option<Int> {
        [Int::U8, Int::U16, Int::U32, Int::U64, Int::I32, Int::I64].into_iter().find(|int| int.name() == name)
    }

    /// Says that `name` is none.
    pub(crate) fn unknown(name: &str) -> String {
        format!("`{name}` is not an integer type: expected u8, u16, u32, u64, i32 or i64")
    }

    /// Its name in specs and in Rust.
    pub fn name(self) -> &'static str {
        match self {
            Int::U8 => "u8",
            Int::U16 => "u16",
            Int::U32 => "u32",
            Int::U64 => "u64",
            Int::I32 => "i32",
            Int::I64 => "i64",
        }
    }

    /// Size and alignment in bytes.
    pub fn size(self) -> u64 {
        match self {
            Int::U8 => 1,
            Int::U16 => 2,
            Int::U32 | Int::I32 => 4,
            Int::U64 | Int::I64 => 8,
        }
    }

    /// True if the bits of `value` fit. Signed types take no values: no spec needs them.
    pub(crate) fn holds(self, value: u64) -> bool {
        self.size() == 8 || value >> (8 * self.size()) == 0
    }
}
