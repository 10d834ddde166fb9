//! Arguments of calls ([`Input`]), made from values of the host by `From` and by the macro [`inputs!`](crate::inputs).

use std::borrow::Cow;

use vireo_core::status::{Result, Status, StatusCode};
use vireo_hal::{BufferView, Device, ElementType, HostElement, MemoryAccess};
use vireo_vm::{Ref, Value};

use crate::output::Output;
use crate::signature::{Signature, TensorType, ValueInfo, ValueType};
use crate::tensor::{HostTensor, Tensor};

/// An argument of a call.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A 32-bit integer: for an `i32`, an `i64`, or a tensor of rank zero.
    I32(i32),
    /// A 64-bit integer: for an `i64`, or a tensor of rank zero.
    I64(i64),
    /// A 32-bit float: for an `f32`, an `f64`, or a tensor of rank zero.
    F32(f32),
    /// A 64-bit float: for an `f64`, or a tensor of rank zero.
    F64(f64),
    /// A tensor of the host, which is copied to the device.
    Host(HostTensor<'a>),
    /// A tensor on the device.
    Tensor(Tensor),
    /// A reference to any object, or null.
    Reference(Option<Ref>),
}

/// A list of [`Input`]s from values of the host: numbers, tensors, slices, pairs of a shape and a slice, references of
/// arrays of `ndarray`.
///
/// ```
/// use vireo::inputs;
///
/// let weights = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let inputs = inputs![7, &[1i64, 2, 3], ([2, 3], &weights)];
/// assert_eq!(inputs.len(), 3);
/// ```
#[macro_export]
macro_rules! inputs {
    ($($input:expr),* $(,)?) => {
        [$($crate::Input::from($input)),*]
    };
}

macro_rules! from_numbers {
    ($($ty:ty, $case:ident;)*) => {$(
        impl From<$ty> for Input<'_> {
            fn from(value: $ty) -> Self {
                Input::$case(value)
            }
        }
    )*};
}

from_numbers! { i32, I32; i64, I64; f32, F32; f64, F64; }

macro_rules! from_scalars {
    ($($ty:ty)*) => {$(
        /// A tensor of rank zero.
        impl From<$ty> for Input<'_> {
            fn from(value: $ty) -> Self {
                Input::Host(HostTensor::from_scalar(value))
            }
        }
    )*};
}

from_scalars! { bool i8 i16 u8 u16 u32 u64 }
#[cfg(feature = "half")]
from_scalars! { half::f16 half::bf16 }

impl<'a> From<HostTensor<'a>> for Input<'a> {
    fn from(tensor: HostTensor<'a>) -> Self {
        Input::Host(tensor)
    }
}

impl From<Tensor> for Input<'_> {
    fn from(tensor: Tensor) -> Self {
        Input::Tensor(tensor)
    }
}

impl From<&Tensor> for Input<'_> {
    fn from(tensor: &Tensor) -> Self {
        Input::Tensor(tensor.clone())
    }
}

impl From<Ref> for Input<'_> {
    fn from(reference: Ref) -> Self {
        Input::Reference(Some(reference))
    }
}

impl<'a, T: HostElement> From<&'a [T]> for Input<'a> {
    fn from(elements: &'a [T]) -> Self {
        Input::Host(HostTensor::from_slice(elements))
    }
}

impl<'a, T: HostElement, const N: usize> From<&'a [T; N]> for Input<'a> {
    fn from(elements: &'a [T; N]) -> Self {
        Input::Host(HostTensor::from_slice(elements))
    }
}

impl<'a, T: HostElement> From<&'a Vec<T>> for Input<'a> {
    fn from(elements: &'a Vec<T>) -> Self {
        Input::Host(HostTensor::from_slice(elements))
    }
}

macro_rules! from_pairs {
    ($($shape:ty, $elements:ty, [$($parameters:tt)*];)*) => {$(
        /// A tensor of a shape with these elements, row by row. Elements that do not fill the shape are refused by the
        /// call.
        impl<'a, T: HostElement, $($parameters)*> From<($shape, $elements)> for Input<'a> {
            fn from((shape, elements): ($shape, $elements)) -> Self {
                let shape = shape.iter().map(|size| *size as u64).collect();
                Input::Host(HostTensor::unchecked(shape, elements))
            }
        }
    )*};
}

from_pairs! {
    [usize; R], &'a [T], [const R: usize];
    [usize; R], &'a [T; N], [const R: usize, const N: usize];
    [usize; R], &'a Vec<T>, [const R: usize];
    &[usize], &'a [T], [];
    &[usize], &'a [T; N], [const N: usize];
    &[usize], &'a Vec<T>, [];
}

#[cfg(feature = "ndarray")]
impl<'a, T, S, D> From<&'a ndarray::ArrayBase<S, D>> for Input<'a>
where
    T: HostElement,
    S: ndarray::Data<Elem = T>,
    D: ndarray::Dimension,
{
    fn from(array: &'a ndarray::ArrayBase<S, D>) -> Self {
        Input::Host(HostTensor::from_array(array))
    }
}

impl<'a> Input<'a> {
    /// The kind of input, for messages.
    fn describe(&self) -> String {
        match self {
            Input::I32(value) => format!("the i32 {value}"),
            Input::I64(value) => format!("the i64 {value}"),
            Input::F32(value) => format!("the f32 {value}"),
            Input::F64(value) => format!("the f64 {value}"),
            Input::Host(tensor) => describe_tensor(tensor.shape(), tensor.element_type()),
            Input::Tensor(tensor) => describe_tensor(tensor.shape(), tensor.element_type()),
            Input::Reference(None) => "null".into(),
            Input::Reference(Some(reference)) => format!("a reference to !{}", reference.type_name()),
        }
    }

    /// The tensor of the host that it is, or that a number can be: one of rank zero.
    fn as_host(&self) -> Option<Cow<'_, HostTensor<'a>>> {
        Some(match self {
            Input::I32(value) => Cow::Owned(HostTensor::from_scalar(*value)),
            Input::I64(value) => Cow::Owned(HostTensor::from_scalar(*value)),
            Input::F32(value) => Cow::Owned(HostTensor::from_scalar(*value)),
            Input::F64(value) => Cow::Owned(HostTensor::from_scalar(*value)),
            Input::Host(tensor) => Cow::Borrowed(tensor),
            Input::Tensor(_) | Input::Reference(_) => return None,
        })
    }

    /// Checks that the program may write to a tensor where it puts a result. Native kernels are not told which memory
    /// may only be read.
    fn check_storage(&self, info: &ValueInfo) -> Result<()> {
        let view = match (info.storage_of, self) {
            (None, _) => return Ok(()),
            (_, Input::Tensor(tensor)) => Some(tensor.view()),
            (_, Input::Reference(Some(reference))) => reference.get::<BufferView>(),
            _ => None,
        };
        match view {
            Some(view) if !view.buffer().allowed_access().contains(MemoryAccess::WRITE) => {
                let message = "the program puts a result there, and the memory of this tensor may only be read";
                Err(Status::new(StatusCode::PermissionDenied, message))
            }
            _ => Ok(()),
        }
    }

    /// The value that a function takes; tensors of the host are copied to `device`, into the memory of `last`, the
    /// value that is replaced, if nothing else refers to that.
    pub(crate) fn to_value(&self, info: &ValueInfo, device: &dyn Device, last: Value) -> Result<Value> {
        let allowed = |shape: &[u64], element_type| match &info.r#type {
            ValueType::Tensor(r#type) => r#type.allows_shape(shape) && r#type.element_type == element_type,
            r#type => *r#type == ValueType::Reference,
        };
        self.check_storage(info)?;
        Ok(match (&info.r#type, self) {
            (ValueType::I32, Input::I32(value)) => Value::I32(*value),
            (ValueType::I64, Input::I32(value)) => Value::I64(i64::from(*value)),
            (ValueType::I64, Input::I64(value)) => Value::I64(*value),
            (ValueType::F32, Input::F32(value)) => Value::F32(*value),
            (ValueType::F64, Input::F32(value)) => Value::F64(f64::from(*value)),
            (ValueType::F64, Input::F64(value)) => Value::F64(*value),
            (ValueType::Tensor(_) | ValueType::Reference, Input::Reference(reference)) => Value::Ref(reference.clone()),
            (_, Input::Tensor(tensor)) if allowed(tensor.shape(), tensor.element_type()) => {
                Value::Ref(Some(tensor.clone().into_ref()))
            }
            (r#type, input) => {
                let tensor = input.as_host().ok_or_else(|| mismatch(info, self))?;
                tensor.check()?;
                let element_type = match r#type {
                    ValueType::Tensor(r#type) => tensor.element_type_for(r#type.element_type),
                    _ => tensor.element_type(),
                };
                if !allowed(tensor.shape(), element_type) {
                    return Err(mismatch(info, self));
                }
                on_device(&tensor, element_type, device, last)?
            }
        })
    }
}

/// A tensor of the host on a device, in the memory of `last` if that is possible.
fn on_device(tensor: &HostTensor<'_>, element_type: ElementType, device: &dyn Device, last: Value) -> Result<Value> {
    if let Output::Tensor(mut last) = Output::from(last)
        && last.overwrite(tensor, element_type)?
    {
        return Ok(Value::Ref(Some(last.into_ref())));
    }
    Ok(Value::Ref(Some(tensor.to_device_as(element_type, device)?.into_ref())))
}

impl Signature {
    /// Checks that argument `index` may be a tensor of this shape and element type, before it is made.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the number and the name of the argument, if it may not, or there is no such argument.
    pub fn check_tensor(&self, index: usize, shape: &[u64], element_type: ElementType) -> Result<()> {
        let Some(info) = self.arguments.get(index) else {
            return Err(Status::invalid_argument(format!("there is no argument {index} of `{self}`")));
        };
        let allowed = match &info.r#type {
            ValueType::Tensor(r#type) => r#type.allows_shape(shape) && r#type.element_type == element_type,
            r#type => *r#type == ValueType::Reference,
        };
        if allowed {
            return Ok(());
        }
        let message = format!("expected {info}, got {}", describe_tensor(shape, element_type));
        Err(Status::invalid_argument(message).context(place(self, index)))
    }
}

fn describe_tensor(shape: &[u64], element_type: ElementType) -> String {
    TensorType { shape: shape.iter().copied().map(Some).collect(), element_type }.to_string()
}

fn mismatch(info: &ValueInfo, input: &Input<'_>) -> Status {
    Status::invalid_argument(format!("expected {info}, got {}", input.describe()))
}

/// The values that a function takes for `inputs`; tensors of the host are copied to `device`.
///
/// # Errors
/// `INVALID_ARGUMENT`, with the number and the name of the argument.
pub(crate) fn to_values(
    signature: &Signature,
    inputs: &[Input<'_>],
    device: &dyn Device,
    values: &mut Vec<Value>,
) -> Result<()> {
    let expected = signature.arguments.len();
    if inputs.len() != expected {
        let plural = if expected == 1 { "" } else { "s" };
        let message =
            format!("{} arguments are given, and `{signature}` takes {expected} argument{plural}", inputs.len());
        return Err(Status::invalid_argument(message));
    }
    for (index, (input, info)) in inputs.iter().zip(&signature.arguments).enumerate() {
        values
            .push(input.to_value(info, device, Value::NULL).map_err(|status| status.context(place(signature, index)))?);
    }
    Ok(())
}

/// An argument, for messages.
pub(crate) fn place(signature: &Signature, index: usize) -> String {
    let name = signature.arguments.get(index).map_or("", |info| &info.name);
    let name = if name.is_empty() { String::new() } else { format!(" `{name}`") };
    format!("argument {index}{name} of `{signature}`")
}
