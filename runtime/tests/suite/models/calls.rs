//! Loads models and calls their functions with inputs as they are written on a command line.

use std::path::Path;
use std::sync::Arc;

use vireo::Result;
use vireo::hal::{
    BufferParams, BufferUsage, BufferView, BufferViewRef, Device, ElementType, EncodingType, Fence, MemoryType,
    buffer_read, buffer_write,
};
use vireo::interp::Limits;
use vireo::modules::hal::HalModule;
use vireo::vm::convention::{Argument, Kind};
use vireo::vm::{Context, Function, Module, Value};

use super::fixtures::{Tensor, folder, parse_tensor};

/// A fresh program of one of the model files.
pub fn load(device: &Arc<dyn Device>, file: impl AsRef<Path>) -> Result<Context> {
    load_with(device, file, Limits::default())
}

/// As [`load`], with limits for all calls.
pub fn load_with(device: &Arc<dyn Device>, file: impl AsRef<Path>, limits: Limits) -> Result<Context> {
    let hal = Module::native(HalModule::new(vec![device.clone()]))?;
    Context::with_limits([hal, Module::from_file(folder().join(file))?], limits)
}

/// Calls a function with inputs as they are written on a command line. A function with fences waits for none and
/// signals one.
pub fn invoke(device: &Arc<dyn Device>, function: &Function, inputs: &[String]) -> Result<Vec<Value>> {
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let args = arguments(device, function, &inputs)?;
    let Some("coarse-fences") = function.attr("iree.abi.model") else { return function.call(&args) };
    let signal = Arc::new(Fence::create());
    let results = call_with_fences(function, args, None, &signal)?;
    signal.wait(None)?;
    Ok(results)
}

/// Inputs as they are written on a command line as the arguments of a function.
pub fn arguments(device: &Arc<dyn Device>, function: &Function, inputs: &[&str]) -> Result<Vec<Value>> {
    let convention = function.convention();
    let inputs = inputs.iter().zip(&convention.args);
    let value = |(text, argument): (&&str, &Argument)| match parse_tensor(text) {
        Some(tensor) => upload(device, &tensor),
        None => Ok(scalar(text, argument)),
    };
    inputs.map(value).collect()
}

/// Calls a function that starts once `wait` is reached and signals `signal` when its results are there.
pub fn call_with_fences(
    function: &Function,
    mut args: Vec<Value>,
    wait: Option<&Arc<Fence>>,
    signal: &Arc<Fence>,
) -> Result<Vec<Value>> {
    let value = |fence: &Arc<Fence>| Value::from(fence.to_ref());
    args.push(wait.map_or(Value::NULL, value));
    args.push(value(signal));
    function.call(&args)
}

/// The elements of a tensor that a function returned.
pub fn download(value: &Value) -> Vec<u8> {
    let view = value.object::<BufferViewRef>().expect("a tensor");
    let mut bytes = vec![0; view.byte_length() as usize];
    buffer_read(&**view.buffer(), 0, &mut bytes).expect("a readable buffer");
    bytes
}

fn scalar(text: &str, argument: &Argument) -> Value {
    let Argument::One(kind) = argument else { panic!("models have no variadic functions") };
    match kind {
        Kind::I32 => Value::I32(text.parse().expect("an i32")),
        Kind::I64 => Value::I64(text.parse().expect("an i64")),
        Kind::F32 => Value::F32(text.parse().expect("an f32")),
        Kind::F64 => Value::F64(text.parse().expect("an f64")),
        Kind::Ref => panic!("`{text}` is no tensor"),
    }
}

/// A tensor as the argument of a function.
pub fn upload(device: &Arc<dyn Device>, tensor: &Tensor) -> Result<Value> {
    let params = BufferParams {
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    };
    let buffer = device.allocator().allocate_buffer(params, tensor.bytes.len() as u64)?;
    buffer_write(&*buffer, 0, &tensor.bytes)?;
    let element_type = ElementType::parse(&tensor.kind)?;
    let view = BufferView::new(buffer, &tensor.shape, element_type, EncodingType::DENSE_ROW_MAJOR)?;
    Ok(view.into_ref().into())
}
