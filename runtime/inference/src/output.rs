//! Results of calls: [`Outputs`], and [`FromOutput`], which turns one into a value of the host.

use std::ops::Index;
use std::sync::Arc;

use vireo_core::status::{Result, Status};
use vireo_hal::{BufferView, HostElement};
use vireo_vm::{Ref, Value};

use crate::signature::Signature;
use crate::tensor::{Elements, HostTensor, Tensor};

/// A result of a call.
#[derive(Clone, Debug)]
pub enum Output {
    /// A 32-bit integer; also narrower ones.
    I32(i32),
    /// A 64-bit integer; also an index.
    I64(i64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// A tensor on the device.
    Tensor(Tensor),
    /// A reference to another object, or null.
    Reference(Option<Ref>),
}

impl Output {
    /// The tensor that it is.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is something else.
    pub fn tensor(&self) -> Result<&Tensor> {
        match self {
            Output::Tensor(tensor) => Ok(tensor),
            other => Err(other.mismatch("a tensor")),
        }
    }

    /// The result as a value of the host.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is something else, and failures of reading the device.
    pub fn get<T: FromOutput>(self) -> Result<T> {
        T::from_output(self)
    }

    fn mismatch(&self, expected: &str) -> Status {
        let found = match self {
            Output::I32(_) => "an i32".into(),
            Output::I64(_) => "an i64".into(),
            Output::F32(_) => "an f32".into(),
            Output::F64(_) => "an f64".into(),
            Output::Tensor(tensor) => format!("a tensor ({tensor:?})"),
            Output::Reference(None) => "null".into(),
            Output::Reference(Some(reference)) => format!("a reference to !{}", reference.type_name()),
        };
        Status::invalid_argument(format!("the result is {found}, expected {expected}"))
    }
}

impl From<Value> for Output {
    fn from(value: Value) -> Output {
        match value {
            Value::I32(value) => Output::I32(value),
            Value::I64(value) => Output::I64(value),
            Value::F32(value) => Output::F32(value),
            Value::F64(value) => Output::F64(value),
            Value::Ref(Some(reference)) if reference.is::<BufferView>() => match reference.cast::<BufferView>() {
                Ok(view) => Output::Tensor(Tensor::from(view)),
                // It was found to be one.
                Err(_) => Output::Reference(None),
            },
            Value::Ref(reference) => Output::Reference(reference),
        }
    }
}

/// The results of a call, in order.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    values: Vec<Output>,
    /// The signature of the function, for names.
    signature: Option<Arc<Signature>>,
}

impl Outputs {
    pub(crate) fn of(values: impl IntoIterator<Item = Value>, signature: &Arc<Signature>) -> Outputs {
        Outputs { values: values.into_iter().map(Output::from).collect(), signature: Some(signature.clone()) }
    }

    /// The result with this name in the signature of the function; the first one if several have it.
    pub fn by_name(&self, name: &str) -> Option<&Output> {
        let results = &self.signature.as_ref()?.results;
        self.values.get(results.iter().position(|info| info.name == name)?)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// They, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Output> {
        self.values.iter()
    }

    /// All results, each as a value of the host: `let (y, count): (Vec<f32>, i32) = outputs.get()?;`
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the number of the result, if one is something else or there are not as many; failures
    /// of reading the device.
    pub fn get<T: FromOutputs>(self) -> Result<T> {
        T::from_outputs(self)
    }
}

impl Index<usize> for Outputs {
    type Output = Output;

    fn index(&self, index: usize) -> &Output {
        &self.values[index]
    }
}

impl IntoIterator for Outputs {
    type IntoIter = std::vec::IntoIter<Output>;
    type Item = Output;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

impl<'a> IntoIterator for &'a Outputs {
    type IntoIter = std::slice::Iter<'a, Output>;
    type Item = &'a Output;

    fn into_iter(self) -> Self::IntoIter {
        self.values.iter()
    }
}

/// A type that a result can be turned into.
pub trait FromOutput: Sized {
    /// Turns it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is something else, and failures of reading the device.
    fn from_output(output: Output) -> Result<Self>;
}

impl FromOutput for Output {
    fn from_output(output: Output) -> Result<Output> {
        Ok(output)
    }
}

impl FromOutput for Tensor {
    fn from_output(output: Output) -> Result<Tensor> {
        match output {
            Output::Tensor(tensor) => Ok(tensor),
            other => Err(other.mismatch("a tensor")),
        }
    }
}

/// A copy in memory of the host, of any element type.
impl FromOutput for HostTensor<'static> {
    fn from_output(output: Output) -> Result<HostTensor<'static>> {
        Tensor::from_output(output)?.to_host()
    }
}

/// The elements, without a copy where that is possible.
impl<T: HostElement> FromOutput for Elements<T> {
    fn from_output(output: Output) -> Result<Elements<T>> {
        Tensor::from_output(output)?.into_elements()
    }
}

/// A copy of the elements.
impl<T: HostElement> FromOutput for Vec<T> {
    fn from_output(output: Output) -> Result<Vec<T>> {
        Tensor::from_output(output)?.to_vec()
    }
}

#[cfg(feature = "ndarray")]
impl<T: HostElement, D: ndarray::Dimension> FromOutput for ndarray::Array<T, D> {
    fn from_output(output: Output) -> Result<ndarray::Array<T, D>> {
        let tensor = Tensor::from_output(output)?;
        tensor.to_array()?.into_dimensionality().map_err(|error| {
            let expected = D::NDIM.map_or(String::new(), |rank| format!(", expected {rank} dimensions"));
            Status::invalid_argument(format!("the result is a tensor ({tensor:?}){expected}")).with_source(error)
        })
    }
}

macro_rules! from_numbers {
    ($($ty:ty, $case:ident;)*) => {$(
        /// A number, or the element of a tensor of rank zero.
        impl FromOutput for $ty {
            fn from_output(output: Output) -> Result<$ty> {
                match output {
                    Output::$case(value) => Ok(value),
                    Output::Tensor(tensor) if tensor.shape().is_empty() => tensor.to_scalar(),
                    other => Err(other.mismatch(stringify!($ty))),
                }
            }
        }
    )*};
}

from_numbers! { i32, I32; i64, I64; f32, F32; f64, F64; }

/// A type that all results of a call can be turned into: nothing, one value, or a tuple.
pub trait FromOutputs: Sized {
    /// Turns them.
    ///
    /// # Errors
    /// As [`Outputs::get`].
    fn from_outputs(outputs: Outputs) -> Result<Self>;
}

impl FromOutputs for () {
    fn from_outputs(outputs: Outputs) -> Result<()> {
        expect_count(&outputs, 0)
    }
}

impl<T: FromOutput> FromOutputs for T {
    fn from_outputs(outputs: Outputs) -> Result<T> {
        expect_count(&outputs, 1)?;
        let signature = outputs.signature.clone();
        next(&mut outputs.into_iter(), 0, signature.as_deref())
    }
}

macro_rules! from_tuples {
    ($($count:literal: $($name:ident $index:tt)*;)*) => {$(
        impl<$($name: FromOutput),*> FromOutputs for ($($name,)*) {
            fn from_outputs(outputs: Outputs) -> Result<Self> {
                expect_count(&outputs, $count)?;
                let signature = outputs.signature.clone();
                let mut outputs = outputs.into_iter();
                Ok(($(next::<$name>(&mut outputs, $index, signature.as_deref())?,)*))
            }
        }
    )*};
}

from_tuples! {
    1: A 0;
    2: A 0 B 1;
    3: A 0 B 1 C 2;
    4: A 0 B 1 C 2 D 3;
    5: A 0 B 1 C 2 D 3 E 4;
    6: A 0 B 1 C 2 D 3 E 4 F 5;
    7: A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    8: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

fn expect_count(outputs: &Outputs, expected: usize) -> Result<()> {
    if outputs.len() == expected {
        return Ok(());
    }
    let function = outputs.signature.as_ref().map_or("the function".into(), |signature| format!("`{signature}`"));
    let (count, plural) = (outputs.len(), if outputs.len() == 1 { "" } else { "s" });
    Err(Status::invalid_argument(format!("{function} returns {count} result{plural}, expected {expected}")))
}

fn next<T: FromOutput>(
    outputs: &mut std::vec::IntoIter<Output>,
    index: usize,
    signature: Option<&Signature>,
) -> Result<T> {
    let missing = || Status::internal("a result is missing that was counted");
    T::from_output(outputs.next().ok_or_else(missing)?).map_err(|status| {
        let Some(signature) = signature else { return status.context(format!("result {index}")) };
        let name = signature.results.get(index).map_or("", |info| &info.name);
        let name = if name.is_empty() { String::new() } else { format!(" `{name}`") };
        status.context(format!("result {index}{name} of `{signature}`"))
    })
}
