//! Numbers and lists of numbers of Python as elements of a declared type.
//!
//! They have no width of their own: `0.1` is the nearest element of any float type, as everywhere in Python. An integer
//! has to be in range, and exact where a float is expected.

use std::fmt;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyTuple};
use smallvec::SmallVec;
use vireo::hal::{ElementType, ElementValue, NumericalType};

use crate::argument::is_number;
use crate::memory::{Array, Found, describe_type};

/// Deepest nesting of lists: the most dimensions that arrays of Python have.
const MAX_DEPTH: usize = 64;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Bool(bool),
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Bool(value) => write!(f, "the bool {value}"),
            // Longer ones are cut off when they are read.
            Number::Int(i128::MIN | i128::MAX) => f.write_str("an int of more than 64 bits"),
            Number::Int(value) => write!(f, "the int {value}"),
            Number::Float(value) => write!(f, "the float {value:?}"),
            Number::Complex(re, im) => write!(f, "the complex number {re:?}{im:+?}j"),
        }
    }
}

impl Number {
    /// The integer that it is. A float is none, whatever its value.
    pub fn integer(self) -> Option<i128> {
        match self {
            Number::Bool(value) => Some(i128::from(value)),
            Number::Int(value) => Some(value),
            Number::Float(_) | Number::Complex(..) => None,
        }
    }

    /// The float that it is; an integer only if it is exactly one.
    pub fn float(self) -> Option<f64> {
        match self {
            // One that was cut off when it was read is another one.
            Number::Int(i128::MIN | i128::MAX) => None,
            Number::Int(value) => Some(value as f64).filter(|float| *float as i128 == value),
            Number::Float(value) => Some(value),
            Number::Bool(_) | Number::Complex(..) => None,
        }
    }
}

/// The number that a value of Python is.
///
/// # Errors
/// Errors of Python; an integer of more than 127 bits is no number here, but one that is out of range everywhere.
pub fn number(value: &Bound<'_, PyAny>) -> PyResult<Option<Number>> {
    if !is_number(value) {
        return Ok(None);
    }
    literal(value)
}

/// The same, of instances of subclasses, too.
fn literal(value: &Bound<'_, PyAny>) -> PyResult<Option<Number>> {
    Ok(if let Ok(float) = value.cast::<PyFloat>() {
        Some(Number::Float(float.value()))
    } else if let Ok(boolean) = value.cast::<PyBool>() {
        Some(Number::Bool(boolean.is_true()))
    } else if value.is_instance_of::<PyInt>() {
        let narrow = value.extract::<i64>().map(i128::from);
        Some(Number::Int(match narrow.or_else(|_| value.extract::<u64>().map(i128::from)) {
            Ok(value) => value,
            Err(_) if value.lt(0)? => i128::MIN,
            Err(_) => i128::MAX,
        }))
    } else if let Ok(complex) = value.cast::<PyComplex>() {
        Some(Number::Complex(complex.real(), complex.imag()))
    } else {
        None
    })
}

/// A list of lists of numbers, as elements.
pub struct List {
    /// The size of each dimension.
    pub shape: SmallVec<[u64; 4]>,
    /// The elements, row by row.
    pub bytes: Vec<u8>,
}

/// The elements of a list, or of a tuple, of numbers or of such lists of one length.
///
/// # Errors
/// Those of Python, and inside a description of a list that has no such elements.
pub fn list(value: &Bound<'_, PyAny>, element_type: ElementType) -> PyResult<Result<List, String>> {
    let mut list = List { shape: SmallVec::new(), bytes: Vec::new() };
    if element_type.byte_size().is_none() {
        return Ok(Err("a list, for elements that share bytes: pass a `vireo.Tensor`".into()));
    }
    // The first element of each dimension says how many there are.
    let mut first = value.clone();
    while let Some(length) = length(&first) {
        if list.shape.len() == MAX_DEPTH {
            return Ok(Err(format!("a list that is nested more than {MAX_DEPTH} times")));
        }
        list.shape.push(length as u64);
        if length == 0 {
            break;
        }
        first = first.get_item(0)?;
    }
    let depth = list.shape.len();
    let mut shape = std::mem::take(&mut list.shape);
    let filled = fill(value, &shape, element_type, &mut list.bytes)?;
    shape.truncate(depth);
    list.shape = shape;
    Ok(filled.map(|()| list))
}

fn length(value: &Bound<'_, PyAny>) -> Option<usize> {
    let list = value.cast::<PyList>().map(|list| list.len());
    list.or_else(|_| value.cast::<PyTuple>().map(|tuple| tuple.len())).ok()
}

fn fill(
    value: &Bound<'_, PyAny>,
    shape: &[u64],
    element_type: ElementType,
    bytes: &mut Vec<u8>,
) -> PyResult<Result<(), String>> {
    let Some((size, rest)) = shape.split_first() else {
        if length(value).is_some() {
            return Ok(Err("a list of numbers and lists".into()));
        }
        let number = match literal(value)? {
            Some(number) => number,
            None => match Array::of(value)? {
                Found::Array(array) if array.shape.is_empty() => match scalar(&array) {
                    Some(number) => number,
                    None => return Ok(Err(format!("a list with {}", describe_type(value)))),
                },
                _ => return Ok(Err(format!("a list with {}", describe_type(value)))),
            },
        };
        let encoded = encode(number, element_type, bytes);
        return Ok(encoded.map_err(|found| found.unwrap_or_else(|| format!("a list with {number}"))));
    };
    if length(value) != Some(*size as usize) {
        let found = length(value).map_or_else(|| describe_type(value), |length| format!("one of {length} elements"));
        return Ok(Err(format!("a list of lists of different lengths: one of {size} elements, and {found}")));
    }
    for index in 0..*size as usize {
        // Conversions run code of elements, which may change the list.
        let item = value.get_item(index)?;
        if let Err(problem) = fill(&item, rest, element_type, bytes)? {
            return Ok(Err(problem));
        }
    }
    Ok(Ok(()))
}

/// The number that an array of rank zero is.
pub fn scalar(array: &Array) -> Option<Number> {
    let bytes = array.dense()?;
    Some(match array.dtype.element_type.value_at(bytes, 0)? {
        ElementValue::Integer(value) if array.dtype.element_type == ElementType::BOOL_8 => Number::Bool(value != 0),
        ElementValue::Integer(value) => Number::Int(value),
        ElementValue::F32(value) => Number::Float(f64::from(value)),
        ElementValue::F64(value) => Number::Float(value),
        ElementValue::Complex32(re, im) => Number::Complex(f64::from(re), f64::from(im)),
        ElementValue::Complex64(re, im) => Number::Complex(re, im),
    })
}

/// True if elements of the type are floats.
pub fn is_float(element_type: ElementType) -> bool {
    !matches!(
        element_type.numerical(),
        NumericalType::INTEGER
            | NumericalType::INTEGER_SIGNED
            | NumericalType::INTEGER_UNSIGNED
            | NumericalType::BOOLEAN
            | NumericalType::UNKNOWN
    )
}

/// Adds a number as an element.
///
/// # Errors
/// Nothing, or a description of the number, if it is no element of the type.
pub fn encode(number: Number, element_type: ElementType, bytes: &mut Vec<u8>) -> Result<(), Option<String>> {
    let size = element_type.byte_size().ok_or(None)?;
    let bits = element_type.bit_count();
    match element_type.numerical() {
        NumericalType::BOOLEAN => match number {
            Number::Bool(value) => bytes.push(u8::from(value)),
            _ => return Err(None),
        },
        NumericalType::INTEGER | NumericalType::INTEGER_SIGNED | NumericalType::INTEGER_UNSIGNED => {
            let value = number.integer().ok_or(None)?;
            // An integer without a sign of its own is what either makes of its bits.
            let (least, most) = element_type.integer_range().ok_or(None)?;
            if !(least..=most).contains(&value) {
                return Err(None);
            }
            bytes.extend_from_slice(&value.to_le_bytes()[..size]);
        }
        NumericalType::FLOAT_COMPLEX => {
            let (re, im) = match number {
                Number::Complex(re, im) => (re, im),
                other => (other.float().ok_or(None)?, 0.0),
            };
            for part in [re, im] {
                push_float(part, bits / 2, bytes)?;
            }
        }
        NumericalType::FLOAT_IEEE if bits >= 32 => push_float(number.float().ok_or(None)?, bits, bytes)?,
        _ => {
            let value = number.float().ok_or(None)?;
            let format = element_type.narrow_float().ok_or_else(|| {
                Some(format!("{number}, and elements of {element_type} are made of numbers by `ml_dtypes` only"))
            })?;
            let narrow = format.narrow(to_odd(value));
            let kept = f64::from(format.widen(narrow));
            // A type without infinities has its greatest value instead.
            let is_out_of_range = value.is_finite() && (!kept.is_finite() || value.abs() > 1.25 * kept.abs().max(1.0));
            if is_out_of_range {
                return Err(None);
            }
            bytes.extend_from_slice(&narrow.to_le_bytes()[..size]);
        }
    }
    Ok(())
}

/// The value in binary32 such that rounding it again gives what rounding the value itself gives: inexact ones are odd.
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || !near.is_finite() || value.is_nan() {
        return near;
    }
    // The neighbour of less magnitude, if rounding has gone away from zero.
    let bits = near.to_bits() - u32::from(f64::from(near).abs() > value.abs());
    f32::from_bits(bits | 1)
}

fn push_float(value: f64, bits: u32, bytes: &mut Vec<u8>) -> Result<(), Option<String>> {
    match bits {
        32 => {
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return Err(None);
            }
            bytes.extend_from_slice(&narrow.to_le_bytes());
        }
        64 => bytes.extend_from_slice(&value.to_le_bytes()),
        _ => return Err(None),
    }
    Ok(())
}
