//! The names of the kinds of nodes, with their fields in brackets: `slot[3]`, `lanes[fadd, f32]`. A primitive is named
//! by the spec, and the type that it works on follows: `wrapping_add.i32`. Printer and parser share them.

use std::fmt::{self, Write};

#[cfg(test)]
use super::scanner::{Mistake, Scanner};
use super::words::Word;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{ConstantDivision, Interleave, Kind, Rows};
use crate::ir::types::Scalar;

/// A field of a kind.
trait Field {
    fn print(&self, text: &mut dyn Write) -> fmt::Result;

    #[cfg(test)]
    fn parse(scanner: &mut Scanner<'_>) -> Result<Self, Mistake>
    where
        Self: Sized;
}

macro_rules! numbers {
    ($($ty:ident)*) => {
        $(impl Field for $ty {
            fn print(&self, text: &mut dyn Write) -> fmt::Result {
                write!(text, "{self}")
            }

            #[cfg(test)]
            fn parse(scanner: &mut Scanner<'_>) -> Result<$ty, Mistake> {
                scanner.number()
            }
        })*
    };
}

numbers!(u8 u16 u64 i32);

macro_rules! word_fields {
    ($($ty:ident $what:literal)*) => {
        $(impl Field for $ty {
            fn print(&self, text: &mut dyn Write) -> fmt::Result {
                text.write_str(self.word())
            }

            #[cfg(test)]
            fn parse(scanner: &mut Scanner<'_>) -> Result<$ty, Mistake> {
                scanner.one_of($what, $ty::from_word)
            }
        })*
    };
}

word_fields!(Scalar "a type" Interleave "lanes to interleave");

/// Whether numbers have signs.
impl Field for bool {
    fn print(&self, text: &mut dyn Write) -> fmt::Result {
        text.write_str(if *self { "signed" } else { "unsigned" })
    }

    #[cfg(test)]
    fn parse(scanner: &mut Scanner<'_>) -> Result<bool, Mistake> {
        scanner.one_of("`signed` or `unsigned`", |word| match word {
            "signed" => Some(true),
            "unsigned" => Some(false),
            _ => None,
        })
    }
}

impl Field for Primitive {
    fn print(&self, text: &mut dyn Write) -> fmt::Result {
        text.write_str(self.name())
    }

    #[cfg(test)]
    fn parse(scanner: &mut Scanner<'_>) -> Result<Primitive, Mistake> {
        scanner.one_of("a primitive", primitive)
    }
}

/// The primitive of a name.
#[cfg(test)]
fn primitive(name: &str) -> Option<Primitive> {
    Primitive::ALL.iter().copied().find(|primitive| primitive.name() == name)
}

impl Field for Rows {
    fn print(&self, text: &mut dyn Write) -> fmt::Result {
        write!(text, "stride {} first {}", self.stride, self.first)
    }

    #[cfg(test)]
    fn parse(scanner: &mut Scanner<'_>) -> Result<Rows, Mistake> {
        scanner.expect("stride")?;
        let stride = scanner.number()?;
        scanner.expect("first")?;
        Ok(Rows { stride, first: scanner.number()? })
    }
}

impl Field for ConstantDivision {
    fn print(&self, text: &mut dyn Write) -> fmt::Result {
        self.signed.print(text)?;
        text.write_str(if self.is_negative { " negative" } else { "" })?;
        text.write_str(if self.adds_dividend { " adds_dividend" } else { "" })?;
        write!(text, " shift {}", self.shift)
    }

    #[cfg(test)]
    fn parse(scanner: &mut Scanner<'_>) -> Result<ConstantDivision, Mistake> {
        let signed = bool::parse(scanner)?;
        let (is_negative, adds_dividend) = (scanner.take("negative"), scanner.take("adds_dividend"));
        scanner.expect("shift")?;
        Ok(ConstantDivision { signed, is_negative, adds_dividend, shift: scanner.number()? })
    }
}

/// Names each kind but that of primitives, and its fields. A kind without a name does not compile.
macro_rules! kinds {
    ($($name:literal $variant:ident $(($($field:ident),*))? $({ $($named:ident),* })?;)*) => {
        /// Writes a kind.
        pub(super) fn print(kind: Kind, text: &mut dyn Write) -> fmt::Result {
            match kind {
                Kind::Primitive(primitive, of) => write!(text, "{}.{}", primitive.name(), of.word()),
                $(Kind::$variant $(($($field),*))? $({ $($named),* })? => {
                    print_fields(text, $name, &[$($(&$field),*)? $($(&$named),*)?])
                })*
            }
        }

        /// Reads a kind.
        #[cfg(test)]
        pub(super) fn parse(scanner: &mut Scanner<'_>) -> Result<Kind, Mistake> {
            let at = scanner.position();
            let name = scanner.word("an operation")?;
            let mut count = 0;
            let kind = match name {
                $($name => {
                    $($(let $field = parse_field(scanner, &mut count)?;)*)?
                    $($(let $named = parse_field(scanner, &mut count)?;)*)?
                    Ok(Kind::$variant $(($($field),*))? $({ $($named),* })?)
                })*
                name => {
                    let Some(primitive) = primitive(name) else {
                        return Err(scanner.mistake_at(at, format!("there is no operation `{name}`")));
                    };
                    scanner.expect(".")?;
                    Ok(Kind::Primitive(primitive, Scalar::parse(scanner)?))
                }
            };
            if count > 0 {
                scanner.expect("]")?;
            }
            kind
        }
    };
}

kinds! {
    "constant" Constant(bits);
    "parameter" Parameter;
    "slot" Slot(slot);
    "flush_to_slots" FlushToSlots;
    "passed" Passed(register);
    "number" Number;
    "low" Low;
    "high" High;
    "pair" Pair;
    "cast" Cast;
    "is_buffer" IsBuffer(register);
    "is_mutable" IsMutable(register);
    "base" Base(register);
    "elements" Elements(register, shift);
    "reference" Reference(register);
    "globals" Globals;
    "in_range" InRange;
    "count_steps" CountSteps;
    "uncount_step" UncountStep;
    "lanes" Lanes(primitive, of);
    "shift_lanes" ShiftLanes(primitive, of, amount);
    "first_of_pair" FirstOfPair(primitive, of);
    "quotients" Quotients { signed };
    "constant_quotients" ConstantQuotients(division);
    "low_products" LowProducts;
    "splat" Splat;
    "lane_numbers" LaneNumbers;
    "extract" Extract(lane);
    "sum_lanes" SumLanes;
    "multiples" Multiples(factor);
    "load_lanes" LoadLanes(primitive, number);
    "store_lanes" StoreLanes(primitive, number);
    "gather" Gather(primitive, displacement);
    "load_rows" LoadRows(primitive, rows);
    "load_splat" LoadSplat(primitive, displacement);
    "load_even" LoadEven(primitive, number);
    "load_bytes" LoadBytes(primitive, rows);
    "gather_bytes" GatherBytes(primitive, rows);
    "byte" Byte(primitive, number);
    "interleave" Interleave(which);
    "has_room" HasRoom;
}

fn print_fields(text: &mut dyn Write, name: &str, fields: &[&dyn Field]) -> fmt::Result {
    text.write_str(name)?;
    for (index, field) in fields.iter().enumerate() {
        text.write_str(if index == 0 { "[" } else { ", " })?;
        field.print(text)?;
    }
    text.write_str(if fields.is_empty() { "" } else { "]" })
}

/// Reads a field of a kind, after so many.
#[cfg(test)]
fn parse_field<T: Field>(scanner: &mut Scanner<'_>, count: &mut usize) -> Result<T, Mistake> {
    scanner.expect(if *count == 0 { "[" } else { "," })?;
    *count += 1;
    T::parse(scanner)
}
