//! `vireo params dump`: lists the contents of archives, and extracts parameters.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};

use serde_json::{Value, json};
use vireo::io::{Parameter, ParameterIndex, ParameterStorage};
use vireo::{Status, StatusCode};

use super::table::table;
use crate::arguments::{Format, ParamsDumpArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::parameters::{self, Scope};

/// Bytes that are extracted at a time.
const CHUNK: u64 = 1 << 20;

/// Does what the flags say and returns what is to be printed.
pub fn dump(arguments: &ParamsDumpArguments) -> Result<String, Failure> {
    let specs = [arguments.parameters.parameters.as_slice(), &arguments.files].concat();
    if specs.is_empty() {
        let failure = Failure::new(Exit::Usage, "no parameters to show are given");
        return Err(failure.hint("name a file, or SCOPE=FILE; .irpa, .gguf and .safetensors files are read"));
    }
    let scopes = parameters::open_all(&specs, arguments.parameters.parameter_mode)?;
    let mut text = contents(scopes.iter().map(|scope| (scope.name.as_str(), &scope.index)), arguments.format);
    for flag in &arguments.extract {
        let done = extract(&scopes, flag)?;
        if arguments.format == Format::Text {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{done}");
        }
    }
    Ok(text)
}

/// The contents of scopes.
pub fn contents<'a>(scopes: impl Iterator<Item = (&'a str, &'a ParameterIndex)>, format: Format) -> String {
    match format {
        Format::Text => scopes.map(|(name, index)| table(name, index)).collect(),
        Format::Json => {
            let scopes = scopes.map(|(name, index)| to_json(name, index)).collect::<Vec<_>>();
            format!("{:#}\n", json!({"scopes": scopes}))
        }
    }
}

/// One object. Keys are added over time, never renamed.
fn to_json(name: &str, index: &ParameterIndex) -> Value {
    let parameters = index.iter().map(|parameter| {
        let mut object = json!({"key": parameter.key, "length": parameter.length});
        match &parameter.storage {
            ParameterStorage::Splat(splat) => object["splat"] = json!(hex(splat.pattern())),
            ParameterStorage::Stored { contents, offset } => {
                object["file"] = json!(contents.name());
                object["offset"] = json!(offset);
            }
        }
        if let Some(tensor) = &parameter.tensor {
            object["element"] = json!(tensor.element);
            object["shape"] = json!(tensor.shape);
        }
        if !parameter.metadata.is_empty() {
            object["metadata"] = json!(hex(&parameter.metadata));
        }
        object
    });
    json!({
        "scope": name,
        "total_bytes": index.total_bytes(),
        "parameters": parameters.collect::<Vec<_>>(),
    })
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Writes the parameter that `[scope::]key=file` names to the file.
fn extract(scopes: &[Scope], flag: &str) -> Result<String, Failure> {
    let usage = || Failure::new(Exit::Usage, format!("--extract={flag}: expected `[SCOPE::]KEY=FILE`"));
    let (name, path) = flag.rsplit_once('=').ok_or_else(usage)?;
    let (scope, key) = name.split_once("::").unwrap_or(("", name));
    let found = scopes.iter().find(|known| known.name == scope).and_then(|scope| scope.index.get(key));
    let parameter = found.ok_or_else(|| Failure::new(Exit::Usage, format!("there is no parameter `{name}`")))?;
    let failed = || Failure::new(Exit::RunFailure, format!("cannot write `{name}` to `{path}`"));
    let file = File::create(path).map_err(|error| failed().because(error))?;
    write(parameter, &mut BufWriter::new(file)).map_err(|status| failed().because(status))?;
    Ok(format!("Extracting parameter `{name}` ({}b) to `{path}`...", parameter.length))
}

fn write(parameter: &Parameter, out: &mut dyn Write) -> Result<(), Status> {
    let refused = |error: std::io::Error| Status::new(StatusCode::Unavailable, error.to_string());
    let mut chunk = Vec::new();
    let mut done = 0;
    while done < parameter.length {
        let part = CHUNK.min(parameter.length - done);
        match &parameter.storage {
            ParameterStorage::Splat(splat) => {
                // Parts begin at multiples of every pattern.
                chunk.clear();
                chunk.extend(splat.pattern().iter().cycle().take(part as usize));
            }
            ParameterStorage::Stored { contents, offset } => {
                chunk.resize(part as usize, 0);
                contents.read_at(offset + done, &mut chunk)?;
            }
        }
        out.write_all(&chunk).map_err(refused)?;
        done += part;
    }
    out.flush().map_err(refused)
}
