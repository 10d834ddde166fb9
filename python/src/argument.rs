//! Arguments of calls: values of Python as the function's signature takes them, compared with it before anything runs.
//!
//! Numbers and lists of numbers have no element type of their own and get that of the declaration, if it holds their
//! values; arrays have one, which has to be the declared one.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyTuple};
use smallvec::SmallVec;
use vireo::hal::{Device, ElementType};
use vireo::inference::{Function, HostTensor, Input, Signature, Tensor, ValueInfo, ValueType};
use vireo::{Result, Status};

use crate::error::{invalid, raise};
use crate::fence::PyFence;
use crate::function::PyReference;
use crate::literal::{self, Number};
use crate::memory::{Array, Found, describe_type};
use crate::tensor::PyTensor;

/// The arguments of a call, in the order of the signature.
pub type Given<'py> = SmallVec<[Bound<'py, PyAny>; 4]>;

/// An argument that fits the signature, as far as that can be told without the device. No part of it needs the
/// interpreter, so that it can be copied to the device while other threads run.
pub enum Argument {
    Number(Input<'static>),
    Host(HostTensor<'static>),
    Tensor(Tensor),
    Array { array: Array, element_type: ElementType },
}

/// Puts positional and keyword arguments into the order of the signature.
///
/// # Errors
/// `InvalidArgument` for arguments that are too few, too many, unknown or doubled.
pub fn bind<'py>(
    signature: &Signature,
    positional: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Given<'py>> {
    let py = positional.py();
    let expected = signature.arguments.len();
    let keywords = keywords.filter(|keywords| !keywords.is_empty());
    let count = positional.len();
    if count > expected || (keywords.is_none() && count < expected) {
        let plural = if expected == 1 { "" } else { "s" };
        let message = format!("{count} given, and `{signature}` takes {expected} argument{plural}");
        return Err(invalid(py, message));
    }
    let given: Given<'py> = positional.iter().collect();
    let Some(keywords) = keywords else { return Ok(given) };
    let wrong = |problem: String| invalid(py, format!("{problem}; the function is `{signature}`"));
    let mut ordered: SmallVec<[Option<Bound<'py, PyAny>>; 4]> = given.into_iter().map(Some).collect();
    ordered.resize(expected, None);
    for (name, value) in keywords.iter() {
        let name: String = name.extract()?;
        let mut named = (0..expected).filter(|index| signature.arguments[*index].name == name);
        let index = match (named.next(), named.next()) {
            (Some(index), None) if !name.is_empty() => index,
            (Some(_), Some(_)) if !name.is_empty() => {
                return Err(wrong(format!("several arguments are called `{name}`")));
            }
            _ => return Err(wrong(format!("no argument is called `{name}`"))),
        };
        if ordered[index].replace(value).is_some() {
            return Err(wrong(format!("the argument `{name}` is given twice")));
        }
    }
    let present = |(index, value): (usize, Option<Bound<'py, PyAny>>)| {
        value.ok_or_else(|| {
            wrong(match signature.arguments[index].name.as_str() {
                "" => format!("argument {index} has no name, so it can be given by its position only"),
                name => format!("the argument `{name}` is missing"),
            })
        })
    };
    ordered.into_iter().enumerate().map(present).collect()
}

/// The arguments of a call.
///
/// # Errors
/// `InvalidArgument`, with function, number and name of the argument, what was expected and what came.
pub fn arguments(signature: &Signature, given: &[Bound<'_, PyAny>]) -> PyResult<SmallVec<[Argument; 4]>> {
    given.iter().enumerate().map(|(index, value)| argument(signature, index, value)).collect()
}

/// Argument `index`.
///
/// # Errors
/// As [`arguments`].
pub fn argument(signature: &Signature, index: usize, value: &Bound<'_, PyAny>) -> PyResult<Argument> {
    let py = value.py();
    let Some(info) = signature.arguments.get(index) else {
        return Err(invalid(py, format!("there is no argument {index} of `{signature}`")));
    };
    if let Ok(tensor) = value.cast_exact::<PyTensor>() {
        return Ok(Argument::Tensor(tensor.get().tensor().clone()));
    }
    let name = if info.name.is_empty() { String::new() } else { format!(" `{}`", info.name) };
    let place = || format!("argument {index}{name} of `{signature}`");
    let wrong = |found: String| invalid(py, format!("{}: expected {info}, got {found}", place()));
    if let Some(number) = literal::number(value)? {
        return number_for(info, number).map_err(|found| wrong(found.unwrap_or_else(|| number.to_string())));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let ValueType::Tensor(r#type) = &info.r#type else {
            return Err(wrong("a list, whose element type is not known".into()));
        };
        let list = literal::list(value, r#type.element_type)?.map_err(wrong)?;
        signature.check_tensor(index, &list.shape, r#type.element_type).map_err(|status| raise(py, &status))?;
        return HostTensor::from_bytes(&list.shape, r#type.element_type, list.bytes)
            .map(Argument::Host)
            .map_err(|status| raise(py, &status.context(place())));
    }
    if let Ok(reference) = value.cast_exact::<PyReference>() {
        return Ok(Argument::Number(Input::Reference(Some((*reference.get().0).clone()))));
    }
    if let Ok(fence) = value.cast_exact::<PyFence>() {
        return Ok(Argument::Number(Input::Reference(Some(fence.get().0.to_ref()))));
    }
    if value.is_none() && !matches!(info.r#type, ValueType::Tensor(_)) {
        return Ok(Argument::Number(Input::Reference(None)));
    }
    let array = match Array::of(value) {
        Ok(Found::Array(array)) => array,
        Ok(Found::Other) => return Err(wrong(describe_type(value))),
        Err(error) => return Err(in_place(py, error, &place())),
    };
    array_for(signature, index, info, array).map_err(|status| raise(py, &status))
}

/// An error of the exporter's own stays as it is; ours says for which argument.
fn in_place(py: Python<'_>, error: PyErr, place: &str) -> PyErr {
    let value = error.value(py);
    let is_ours = value.hasattr("frames").unwrap_or(false) && value.hasattr("code").unwrap_or(false);
    if !is_ours {
        return error;
    }
    let cause = error.cause(py);
    let named = invalid(py, format!("{place}: {value}"));
    named.set_cause(py, cause);
    named
}

/// An array where the signature has `info`.
fn array_for(signature: &Signature, index: usize, info: &ValueInfo, array: Array) -> Result<Argument> {
    let declared = match &info.r#type {
        ValueType::Tensor(r#type) => Some(r#type.element_type),
        _ => None,
    };
    let element_type = array.element_type(declared);
    match info.r#type {
        ValueType::Tensor(_) | ValueType::Reference => {
            signature.check_tensor(index, &array.shape, element_type)?;
            if array.byte_length().is_none() {
                return Err(Status::out_of_range(format!(
                    "argument {index}: the array does not fit the address space"
                )));
            }
            Ok(Argument::Array { array, element_type })
        }
        _ => {
            // A scalar of `numpy` has a type, which may only widen.
            let number = if array.shape.is_empty() { literal::scalar(&array) } else { None };
            let widens = number.is_some_and(|_| match info.r#type {
                ValueType::I32 => element_type.bit_count() < 32 || is_32_bit_integer(element_type),
                ValueType::I64 => !literal::is_float(element_type),
                ValueType::F32 => literal::is_float(element_type) && element_type.bit_count() <= 32,
                _ => literal::is_float(element_type),
            });
            let refused = || {
                let found = vireo::inference::TensorType {
                    shape: array.shape.iter().copied().map(Some).collect(),
                    element_type,
                };
                Status::invalid_argument(format!("argument {index} of `{signature}`: expected {info}, got {found}"))
            };
            let number = number.filter(|_| widens).ok_or_else(refused)?;
            number_for(info, number).map_err(|_| refused())
        }
    }
}

fn is_32_bit_integer(element_type: ElementType) -> bool {
    element_type.bit_count() == 32 && !literal::is_float(element_type)
}

/// A number where the signature has `info`; else a description of it, if it says more than the number.
fn number_for(info: &ValueInfo, number: Number) -> Result<Argument, Option<String>> {
    let input = match &info.r#type {
        ValueType::I32 => {
            let value = number.integer().ok_or(None)?;
            // Narrower integers are passed as those of 32 bits; their range is that of the declaration.
            let declared = ElementType::parse(&info.declared).ok();
            let bits = declared.map_or(32, |declared| declared.bit_count().clamp(1, 32));
            let (least, most) = (-(1_i128 << (bits - 1)), (1_i128 << bits) - 1);
            let most = if bits == 32 { i128::from(i32::MAX) } else { most };
            if !(least..=most).contains(&value) {
                return Err(None);
            }
            Input::I32(value as i32)
        }
        ValueType::I64 => Input::I64(i64::try_from(number.integer().ok_or(None)?).map_err(|_| None)?),
        ValueType::F32 => {
            let value = number.float().ok_or(None)?;
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return Err(None);
            }
            Input::F32(narrow)
        }
        ValueType::F64 => Input::F64(number.float().ok_or(None)?),
        ValueType::Tensor(r#type) if r#type.shape.is_empty() => {
            let mut bytes = Vec::with_capacity(r#type.element_type.byte_count());
            literal::encode(number, r#type.element_type, &mut bytes)?;
            return HostTensor::from_bytes(&[], r#type.element_type, bytes)
                .map(Argument::Host)
                .map_err(|status| Some(status.message().to_string()));
        }
        ValueType::Tensor(_) => return Err(None),
        ValueType::Reference => {
            return Err(Some(format!("{number}, whose element type is not known: pass an array")));
        }
    };
    Ok(Argument::Number(input))
}

impl Argument {
    /// The argument as the library takes it. Arrays with strides are copied to the device here.
    ///
    /// # Errors
    /// Failures of the device's allocator.
    pub fn input(&self, device: &dyn Device) -> Result<Input<'_>> {
        Ok(match self {
            Argument::Number(input) => input.clone(),
            Argument::Host(tensor) => Input::Host(tensor.clone()),
            Argument::Tensor(tensor) => Input::Tensor(tensor.clone()),
            Argument::Array { array, element_type } => match array.dense() {
                Some(bytes) => Input::Host(HostTensor::from_bytes(&array.shape, *element_type, bytes)?),
                None => {
                    let fill = |out: &mut [u8]| array.memory().copy_to(out);
                    Input::Tensor(Tensor::filled_by(device, &array.shape, *element_type, fill)?)
                }
            },
        })
    }
}

/// The inputs of a call of `function`.
///
/// # Errors
/// As [`Argument::input`].
pub fn inputs<'a>(function: &Function, arguments: &'a [Argument]) -> Result<SmallVec<[Input<'a>; 4]>> {
    arguments.iter().map(|argument| argument.input(&**function.device())).collect()
}

/// Whether a value of Python is a number: `bool`, `int`, `float` or `complex` themselves.
pub fn is_number(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyComplex>()
}
