//! The reader of Safetensors files, and the header for writing them. The format is described in
//! `spec/schema/safetensors.yaml`.
//!
//! The header is read here and not by the crate of the format, because archives are untrusted, and may be newer than
//! the crate: errors name the parameter, and tensors of unknown types are read as bytes.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::contents::Contents;
use super::index::{Parameter, ParameterIndex, ParameterStorage, TensorType};
use super::layout::{Ranges, bytes as count, refuse};
use crate::generated::schema::safetensors::{DATA_ALIGNMENT, Header, MAX_JSON_LENGTH, METADATA};
pub use crate::generated::schema::safetensors::{DATA_TYPES, DataType};
use crate::hal::ElementType;
use crate::status::{Result, Status};

/// Reads the index of the tensors of a file.
pub(super) fn read(bytes: &[u8], contents: &Contents) -> Result<ParameterIndex> {
    let header = Header::read(bytes).ok_or_else(|| {
        refuse(0, format!("the file has {}: expected the length of a header", count(bytes.len() as u64)))
    })?;
    let rest = &bytes[Header::SIZE..];
    let length = header.json_length;
    if length > MAX_JSON_LENGTH || length > rest.len() as u64 {
        let message = format!(
            "a header of {}: expected {MAX_JSON_LENGTH} at most, and {} are left of the file",
            count(length),
            rest.len()
        );
        return Err(refuse(0, message));
    }
    let (json, data) = rest.split_at(length as usize);
    let at = Header::SIZE as u64;
    let text = std::str::from_utf8(json)
        .map_err(|error| refuse(at + error.valid_up_to() as u64, format!("the header is not UTF-8: {error}")))?;
    let Members(members) =
        serde_json::from_str(text).map_err(|error| refuse(at, format!("the header is malformed: {error}")))?;

    let start = at + length;
    let mut index = ParameterIndex::default();
    let mut ranges = Ranges::default();
    for (key, tensor) in members {
        let what = key.escape_debug();
        let [begin, end] = tensor.data_offsets;
        if begin > end || end > data.len() as u64 {
            let message =
                format!("`{what}` is at {begin}..{end} of the contents, which have {}", count(data.len() as u64));
            return Err(refuse(start, message));
        }
        if let Some(ty) = DATA_TYPES.iter().find(|ty| ty.name == tensor.dtype) {
            let bits = tensor.shape.iter().try_fold(ty.bits, |bits, dimension| bits.checked_mul(*dimension));
            let needed = bits.filter(|bits| bits.is_multiple_of(8)).map(|bits| bits / 8);
            if needed != Some(end - begin) {
                let message = format!(
                    "`{what}` has {} of contents, which is not what {} elements of the shape {:?} take",
                    count(end - begin),
                    tensor.dtype,
                    tensor.shape
                );
                return Err(refuse(start, message));
            }
        }
        // The sums are offsets in the file.
        ranges.parameter(index.len(), start + begin, start + end);
        let storage = ParameterStorage::Stored { contents: contents.clone(), offset: start + begin };
        let ty = TensorType { element: tensor.dtype, shape: tensor.shape };
        index.add(Parameter { key, length: end - begin, storage, metadata: Vec::new(), tensor: Some(ty) })?;
    }
    let keys: Vec<&str> = index.iter().map(|parameter| parameter.key.as_str()).collect();
    ranges.check(false, |number| keys[number])?;
    Ok(index)
}

/// The description of a tensor in the header. Other members are ignored.
#[derive(Deserialize)]
struct TensorEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The tensors by name, in the order of the text, with duplicates.
struct Members(Vec<(String, TensorEntry)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a member for each tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    if key == METADATA {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        members.push((key, map.next_value()?));
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl DataType {
    /// The data type for an element type, which may be signed, unsigned or neither.
    pub fn of_element(element: ElementType) -> Option<&'static DataType> {
        let exact = |ty: &&DataType| !ty.element.is_empty() && ElementType::parse(ty.element).ok() == Some(element);
        DATA_TYPES.iter().find(exact).or_else(|| {
            // Integers with explicit sign have names of their own, such as `si32` for `i32`.
            let name = element.to_string();
            let name = name.strip_prefix('s').filter(|rest| rest.starts_with('i'))?;
            DATA_TYPES.iter().find(|ty| ty.element == name)
        })
    }
}

/// The bytes before the contents of `tensors`, which are given as name, data type, shape and length, in the order of
/// their contents.
///
/// # Errors
/// `OUT_OF_RANGE` if the header is longer than readers accept.
pub fn header<'a>(tensors: impl IntoIterator<Item = (&'a str, &'a str, &'a [u64], u64)>) -> Result<Vec<u8>> {
    let mut members = serde_json::Map::new();
    let mut offset = 0_u64;
    for (key, data_type, shape, length) in tensors {
        let end = offset.checked_add(length).ok_or_else(|| Status::out_of_range("the contents are too long"))?;
        let member = serde_json::json!({"dtype": data_type, "shape": shape, "data_offsets": [offset, end]});
        if key == METADATA || members.insert(key.into(), member).is_some() {
            return Err(Status::invalid_argument(format!("`{key}` cannot be the name of a tensor, or is used twice")));
        }
        offset = end;
    }
    let mut json = serde_json::Value::Object(members).to_string().into_bytes();
    let padded = (Header::SIZE + json.len()).next_multiple_of(DATA_ALIGNMENT as usize) - Header::SIZE;
    json.resize(padded, b' ');
    if json.len() as u64 > MAX_JSON_LENGTH {
        return Err(Status::out_of_range(format!(
            "a header of {} bytes: expected {MAX_JSON_LENGTH} at most",
            json.len()
        )));
    }
    let mut bytes = Header { json_length: json.len() as u64 }.to_bytes().to_vec();
    bytes.append(&mut json);
    Ok(bytes)
}
