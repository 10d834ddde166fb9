//! A program that runs one function of a compiled model on `local-sync`, with the interpreter alone, and prints its
//! results as `iree-run-module` does. `cargo xtask cross` builds it for other machines, for a static executable and for
//! WebAssembly.
//!
//! ```text
//! vireo-anywhere fixtures/models/vmvx_mlp.vmfb mlp 8x64xf32=0.25
//! ```

use std::process::ExitCode;

use vireo::hal::format_view;
use vireo::inference::HostTensor;
use vireo::{Input, Result, Session, Status};

/// Most elements of a tensor that are printed.
const MAX_PRINTED: usize = 1024;

/// An argument in the text form of tensors: `2x3xf32=1,2,3,4,5,6`; one value is that of all elements.
struct Argument {
    shape: Vec<u64>,
    elements: Vec<f32>,
}

impl Argument {
    fn parse(text: &str) -> Result<Argument> {
        let wrong = || Status::invalid_argument(format!("`{text}` is not a tensor such as `2x3xf32=1,2,3,4,5,6`"));
        let (kind, values) = text.split_once('=').ok_or_else(wrong)?;
        let shape = kind.strip_suffix("f32").ok_or_else(wrong)?;
        let dimensions = shape.split('x').filter(|dimension| !dimension.is_empty());
        let shape = dimensions.map(|dimension| dimension.parse().map_err(|_| wrong())).collect::<Result<Vec<u64>>>()?;
        let values = values.split(',').map(|value| value.parse().map_err(|_| wrong()));
        let mut elements = values.collect::<Result<Vec<f32>>>()?;
        let count =
            shape.iter().try_fold(1usize, |count, dimension| count.checked_mul(usize::try_from(*dimension).ok()?));
        if let (Some(count), [value]) = (count, elements.as_slice()) {
            elements = vec![*value; count];
        }
        Ok(Argument { shape, elements })
    }
}

fn run(file: &str, name: &str, arguments: &[String]) -> Result<String> {
    let arguments = arguments.iter().map(|text| Argument::parse(text)).collect::<Result<Vec<_>>>()?;
    let session = Session::builder().device("local-sync").load(file)?;
    let inputs =
        arguments.iter().map(|argument| Ok(Input::from(HostTensor::new(&argument.shape, &argument.elements)?)));
    let outputs = session.call(name, inputs.collect::<Result<Vec<_>>>()?)?;
    let mut text = format!("EXEC @{name}\n");
    for (index, output) in outputs.iter().enumerate() {
        let view = format_view(output.tensor()?.view(), MAX_PRINTED)?;
        text.push_str(&format!("result[{index}]: hal.buffer_view\n{view}\n"));
    }
    Ok(text)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, name, arguments @ ..] = &arguments[..] else {
        eprintln!("usage: vireo-anywhere MODULE.vmfb FUNCTION [SHAPExf32=VALUE,...]...");
        return ExitCode::from(2);
    };
    match run(file, name, arguments) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(status) => {
            eprintln!("{status}");
            ExitCode::FAILURE
        }
    }
}
