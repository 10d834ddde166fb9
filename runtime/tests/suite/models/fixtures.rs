//! Reads the model fixtures: the manifest, inputs in the syntax of `iree-run-module`, recorded outputs.
//!
//! This is a reader of files that we recorded ourselves, so anything unexpected is a panic. The reader that users'
//! files go through is the runtime's own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// `fixtures/models/manifest.json`.
#[derive(Debug, Deserialize)]
pub struct Manifest {
    pub recorded_with: String,
    pub modules: BTreeMap<String, Module>,
    pub cases: Vec<Case>,
}

/// A compiled module.
#[derive(Debug, Deserialize)]
pub struct Module {
    pub file: String,
    pub cpu: String,
    /// How many values `f32` results may be off; none where they are to be equal.
    pub units: Option<u32>,
}

/// Calls in one fresh program.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub name: String,
    pub module: String,
    pub calls: Vec<Call>,
}

/// One call and what the tools of the reference runtime answered.
#[derive(Debug, Deserialize)]
pub struct Call {
    pub function: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub stdout: Option<String>,
    pub error: Option<Failure>,
}

/// A recorded failure.
#[derive(Debug, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

/// A tensor: element type as written (`f32`), shape and little-endian bytes.
#[derive(Debug, PartialEq)]
pub struct Tensor {
    pub kind: String,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

/// The folder of the fixtures.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models")
}

/// Reads the manifest.
pub fn manifest() -> Manifest {
    serde_json::from_slice(&read("manifest.json")).expect("the manifest is well formed")
}

/// Reads a file of the folder.
pub fn read(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|error| panic!("cannot read {name}: {error}"))
}

/// Parses an input that is a tensor: `2x3xf32=1,2,...`, a splat, zeros, or `@file.npy`. A plain number is none.
pub fn parse_tensor(text: &str) -> Option<Tensor> {
    if let Some(path) = text.strip_prefix('@') {
        return Some(parse_npy(&read(path)));
    }
    let (head, values) = text.split_once('=').map_or((text, None), |(head, values)| (head, Some(values)));
    let mut shape: Vec<&str> = head.split('x').collect();
    let kind = shape.pop().expect("split gives at least one part").to_string();
    if !kind.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let shape: Vec<u64> = shape.iter().map(|dim| dim.parse().expect("a dimension")).collect();
    let count = shape.iter().product::<u64>() as usize;
    let values: Vec<&str> = values.map_or(vec!["0"], |values| values.split(',').collect());
    assert!(values.len() == count || values.len() == 1, "{text}: {count} elements expected");
    let bytes = (0..count).flat_map(|i| element(&kind, values[if values.len() == 1 { 0 } else { i }])).collect();
    Some(Tensor { kind, shape, bytes })
}

/// Parses a `.npy` file.
pub fn parse_npy(file: &[u8]) -> Tensor {
    assert_eq!(&file[..8], b"\x93NUMPY\x01\x00", "version 1.0 of .npy");
    let end = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    let header = std::str::from_utf8(&file[10..end]).expect("an ASCII header");
    assert!(header.contains("'fortran_order': False"), "{header}");
    let quoted = header.split("'descr': '").nth(1).and_then(|rest| rest.split('\'').next()).expect("a type");
    let kind = match quoted {
        "|b1" | "?" => "i1",
        "|i1" => "i8",
        "<i2" => "i16",
        "<i4" => "i32",
        "<i8" => "i64",
        "<f2" => "f16",
        "<f4" => "f32",
        "<f8" => "f64",
        other => panic!("unexpected type {other}"),
    };
    let dims = header.split("'shape': (").nth(1).and_then(|rest| rest.split(')').next()).expect("a shape");
    let dims = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let shape = dims.map(|dim| dim.parse().expect("a dimension")).collect();
    Tensor { kind: kind.to_string(), shape, bytes: file[end..].to_vec() }
}

fn element(kind: &str, text: &str) -> Vec<u8> {
    fn number<T: std::str::FromStr>(text: &str) -> T {
        text.parse().unwrap_or_else(|_| panic!("not a number: {text}"))
    }
    match kind {
        "i1" | "i8" => number::<i8>(text).to_le_bytes().to_vec(),
        "i16" => number::<i16>(text).to_le_bytes().to_vec(),
        "i32" => number::<i32>(text).to_le_bytes().to_vec(),
        "i64" => number::<i64>(text).to_le_bytes().to_vec(),
        // The reference's narrowing turns every NaN into all ones.
        "f16" if number::<f32>(text).is_nan() => 0x7FFFu16.to_le_bytes().to_vec(),
        "f16" => half::f16::from_f32(number(text)).to_le_bytes().to_vec(),
        "f32" => number::<f32>(text).to_le_bytes().to_vec(),
        "f64" => number::<f64>(text).to_le_bytes().to_vec(),
        other => panic!("unexpected element type {other}"),
    }
}
