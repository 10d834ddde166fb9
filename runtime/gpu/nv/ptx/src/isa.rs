//! The types of the generated tables, and forms: an opcode with its suffixes, looked up in them.

use crate::generated::instructions::{INSTRUCTIONS, REFUSED, Special};
use crate::generated::suffixes::{Class, MatrixSuffix, ShapeSuffix, Type};

/// An instruction.
#[derive(Debug)]
pub struct InstructionInfo {
    /// `add`
    pub name: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// Its variants, tried in order.
    pub variants: &'static [VariantInfo],
}

/// A sequence of suffixes with operands.
#[derive(Debug)]
pub struct VariantInfo {
    /// The positions of suffixes.
    pub positions: &'static [PositionInfo],
    /// The operands of an expression, the results first.
    pub operands: &'static [OperandInfo],
    /// How many of them are results.
    pub results: usize,
    /// Whether a carry goes in.
    pub carry_in: bool,
    /// Whether a carry comes out.
    pub carry_out: bool,
    /// Its meaning.
    pub body: BodyInfo,
    /// Ten times the version of the instruction set that has it.
    pub isa: u32,
    /// The number of the target that has it.
    pub target: u32,
}

/// A position of a suffix.
#[derive(Debug)]
pub struct PositionInfo {
    /// The class of the suffix.
    pub class: Class,
    /// The numbers of the suffixes in it.
    pub values: &'static [u8],
    /// Whether it may be left out.
    pub optional: bool,
}

/// The meaning of a variant.
#[derive(Debug)]
pub enum BodyInfo {
    /// Expressions: the numbers of their handlers. The index is a number whose digits are the choices at the positions.
    Lanes(&'static [u16]),
    /// Something else.
    Special(Special),
}

/// An operand of an expression.
#[derive(Debug)]
pub struct OperandInfo {
    /// `d`
    pub name: &'static str,
    /// Its type.
    pub ty: OperandType,
    /// Whether a wider register may be given.
    pub may_be_wider: bool,
}

/// The type of an operand.
#[derive(Clone, Copy, Debug)]
pub enum OperandType {
    /// That at a position of the form.
    Position(usize),
    /// This one.
    Type(Type),
}

/// A class of suffixes as an enumeration.
pub trait Suffixes: Copy + 'static {
    /// Its class.
    const CLASS: Class;
    /// The suffixes in the order of their numbers.
    const ALL: &'static [Self];
}

/// A bit of a coordinate of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bit {
    /// A bit of the number of the lane.
    Lane(u32),
    /// A bit of the number of the element in the lane.
    Element(u32),
}

/// Where the elements of a matrix are.
#[derive(Debug)]
pub struct Fragment {
    /// The bits of the row, the lowest first.
    pub row: &'static [Bit],
    /// Those of the column.
    pub column: &'static [Bit],
    /// Row and column of each element of each lane, once they were wanted.
    pub places: std::sync::OnceLock<Box<[(u8, u8)]>>,
}

/// A matrix of a product that a warp loads, multiplies and stores.
#[derive(Debug)]
pub struct Tile {
    /// Which one of the product.
    pub matrix: MatrixSuffix,
    /// The sizes of the product.
    pub shape: ShapeSuffix,
    /// The type of elements.
    pub ty: Type,
    /// Registers of a lane: more than its elements need if the matrix is there several times.
    pub registers: u32,
    /// Where its elements are.
    pub fragment: &'static Fragment,
}

impl Fragment {
    /// Row and column of each element, those of a lane together.
    pub fn places(&self) -> &[(u8, u8)] {
        self.places.get_or_init(|| {
            let of_lane = |lane| (0..self.elements()).map(move |element| self.place(lane, element));
            (0..vireo_simt::LANES as u32).flat_map(of_lane).map(|(row, column)| (row as u8, column as u8)).collect()
        })
    }

    /// How many elements each lane has.
    pub fn elements(&self) -> u32 {
        let bits = self.row.iter().chain(self.column).filter(|bit| matches!(bit, Bit::Element(_)));
        1 << bits.count()
    }

    /// The row and the column of an element of a lane.
    pub fn place(&self, lane: u32, element: u32) -> (usize, usize) {
        let number = |bits: &[Bit]| {
            bits.iter().enumerate().fold(0, |number, (index, bit)| {
                let bit = match bit {
                    Bit::Lane(bit) => lane >> bit,
                    Bit::Element(bit) => element >> bit,
                };
                number | (bit as usize & 1) << index
            })
        };
        (number(self.row), number(self.column))
    }
}

/// A form: a variant with a suffix at each position, or none.
#[derive(Clone, Debug)]
pub struct Form {
    /// The instruction.
    pub instruction: &'static InstructionInfo,
    /// Its variant.
    pub variant: &'static VariantInfo,
    /// For each position, the number of the suffix in its class.
    pub choices: Vec<Option<u8>>,
}

/// Why there is no form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoForm {
    /// The opcode is refused, for a reason.
    Refused(&'static str),
    /// No instruction has this name.
    Opcode,
    /// The instruction has no such suffixes.
    Suffixes,
    /// The instruction has such suffixes, but with another number of operands.
    Operands,
}

impl Form {
    /// The form that `text` names, which has this many operands.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(text: &str, operands: usize) -> Result<Form, NoForm> {
        if let Some(reason) = refused(text) {
            return Err(NoForm::Refused(reason));
        }
        let mut parts = text.split('.');
        let name = parts.next().unwrap_or_default();
        let found = INSTRUCTIONS.binary_search_by(|instruction| instruction.name.cmp(name));
        let instruction = &INSTRUCTIONS[found.map_err(|_| NoForm::Opcode)?];
        let suffixes: Vec<&str> = parts.collect();
        // The vendor's assembler takes them in any order, and headers of its libraries make use of that.
        let mut failure = NoForm::Suffixes;
        let variants = |is_ordered| instruction.variants.iter().map(move |variant| (variant, is_ordered));
        for (variant, is_ordered) in variants(true).chain(variants(false)) {
            let mut choices = vec![None; variant.positions.len()];
            let is_chosen = if is_ordered {
                choose(variant.positions, &suffixes, &mut choices)
            } else {
                choose_unordered(variant.positions, &suffixes, &mut choices)
            };
            if !is_chosen {
                continue;
            }
            if !variant.operands.is_empty() && variant.operands.len() != operands {
                failure = NoForm::Operands;
                continue;
            }
            let form = Form { instruction, variant, choices };
            if matches!(form.variant.body, BodyInfo::Lanes(_)) && form.handler().is_none() {
                continue;
            }
            return Ok(form);
        }
        Err(failure)
    }

    /// The number of the handler of an expression.
    pub fn handler(&self) -> Option<u16> {
        let BodyInfo::Lanes(handlers) = self.variant.body else { return None };
        let mut number = 0;
        for (position, choice) in self.variant.positions.iter().zip(&self.choices) {
            let extra = usize::from(position.optional);
            let digit = match choice {
                None => 0,
                Some(choice) => position.values.iter().position(|value| value == choice)? + extra,
            };
            number = number * (position.values.len() + extra) + digit;
        }
        handlers.get(number).copied().filter(|handler| *handler != u16::MAX)
    }

    /// The forms of a variant that are expressions on lanes, by their handlers; none of another variant.
    pub fn of_lanes(
        instruction: &'static InstructionInfo,
        variant: &'static VariantInfo,
    ) -> impl Iterator<Item = Form> {
        let handlers = match variant.body {
            BodyInfo::Lanes(handlers) => handlers.len(),
            BodyInfo::Special(_) => 0,
        };
        let form = move |number: usize| {
            let (mut rest, mut choices) = (number, vec![None; variant.positions.len()]);
            for (choice, position) in choices.iter_mut().zip(variant.positions).rev() {
                let extra = usize::from(position.optional);
                let count = position.values.len() + extra;
                *choice = (rest % count).checked_sub(extra).map(|at| position.values[at]);
                rest /= count;
            }
            Form { instruction, variant, choices }
        };
        (0..handlers).map(form).filter(|form| form.handler().is_some())
    }

    /// Since when it is there: ten times the version of the instruction set, and the number of the target.
    pub fn since(&self) -> (u32, u32) {
        let choices = self.variant.positions.iter().zip(&self.choices);
        let since = choices.filter_map(|(position, choice)| position.class.since().get(usize::from((*choice)?)));
        since.fold((self.variant.isa, self.variant.target), |(isa, target), since| {
            (isa.max(since.0), target.max(since.1))
        })
    }

    /// The suffix of a class.
    pub fn get<S: Suffixes>(&self) -> Option<S> {
        let at =
            |(position, choice): (&PositionInfo, &Option<u8>)| (position.class == S::CLASS).then_some(()).and(*choice);
        let choice = self.variant.positions.iter().zip(&self.choices).find_map(at)?;
        S::ALL.get(usize::from(choice)).copied()
    }

    /// Whether it has a suffix of a class.
    pub fn has(&self, class: Class) -> bool {
        self.variant
            .positions
            .iter()
            .zip(&self.choices)
            .any(|(position, choice)| position.class == class && choice.is_some())
    }

    /// The type of a class of types.
    pub fn type_of(&self, class: Class) -> Option<Type> {
        let mut pairs = self.variant.positions.iter().zip(&self.choices);
        let (_, choice) = pairs.find(|(position, choice)| position.class == class && choice.is_some())?;
        Type::ALL.get(usize::from((*choice)?)).copied()
    }

    /// The type of an operand of an expression.
    pub fn operand_type(&self, index: usize) -> Option<Type> {
        match self.variant.operands.get(index)?.ty {
            OperandType::Type(ty) => Some(ty),
            OperandType::Position(position) => {
                let choice = self.choices.get(position).copied().flatten()?;
                Type::ALL.get(usize::from(choice)).copied()
            }
        }
    }

    /// Its text.
    pub fn text(&self) -> String {
        self.text_of(None)
    }

    /// Its text without the suffix of a class.
    pub fn text_without(&self, class: Class) -> String {
        self.text_of(Some(class))
    }

    fn text_of(&self, without: Option<Class>) -> String {
        let mut text = self.instruction.name.to_string();
        for (position, choice) in self.variant.positions.iter().zip(&self.choices) {
            if Some(position.class) == without {
                continue;
            }
            if let Some(value) = choice.and_then(|choice| position.class.values().get(usize::from(choice))) {
                text.push('.');
                text.push_str(value);
            }
        }
        text
    }
}

/// Why an opcode is refused, if it is.
pub fn refused(text: &str) -> Option<&'static str> {
    let begins = |opcode: &&(&str, &str)| {
        text.strip_prefix(opcode.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    REFUSED.iter().find(begins).map(|(_, reason)| *reason)
}

/// Chooses a suffix for each position, so that all are used in their order.
fn choose(positions: &[PositionInfo], suffixes: &[&str], choices: &mut [Option<u8>]) -> bool {
    let [first, rest @ ..] = positions else { return suffixes.is_empty() };
    if let [suffix, others @ ..] = suffixes {
        let values = first.class.values();
        let is_it = |value: &&u8| values.get(usize::from(**value)).is_some_and(|value| value == suffix);
        if let Some(value) = first.values.iter().find(is_it) {
            choices[0] = Some(*value);
            if choose(rest, others, &mut choices[1..]) {
                return true;
            }
        }
    }
    choices[0] = None;
    first.optional && choose(rest, suffixes, &mut choices[1..])
}

/// Chooses a suffix for each position, so that all are used. Positions with the same suffixes get them in their order.
fn choose_unordered(positions: &[PositionInfo], suffixes: &[&str], choices: &mut [Option<u8>]) -> bool {
    let [first, rest @ ..] = positions else { return suffixes.is_empty() };
    if suffixes.len() > positions.len() {
        return false;
    }
    let values = first.class.values();
    let choice = |suffix: &str| {
        first.values.iter().find(|value| values.get(usize::from(**value)).is_some_and(|value| *value == suffix))
    };
    for (index, suffix) in suffixes.iter().enumerate() {
        let Some(value) = choice(suffix) else { continue };
        let others = [&suffixes[..index], &suffixes[index + 1..]].concat();
        choices[0] = Some(*value);
        if choose_unordered(rest, &others, &mut choices[1..]) {
            return true;
        }
    }
    choices[0] = None;
    first.optional && choose_unordered(rest, suffixes, &mut choices[1..])
}
