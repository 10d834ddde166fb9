//! Tensors print as `iree-run-module` 3.13.0 prints them: `fixtures/hal/format.json` was recorded by
//! `fixtures/hal/record.py`.

use std::path::PathBuf;

use vireo::hal::{
    BufferParams, BufferView, ElementType, EncodingType, buffer_write, create_device, format_elements, format_view,
};

#[derive(serde::Deserialize)]
struct Record {
    #[serde(rename = "type")]
    shape_and_type: String,
    bytes: String,
    limit: usize,
    text: String,
}

fn parse(shape_and_type: &str) -> (Vec<u64>, ElementType) {
    let (shape, element_type) = shape_and_type.rsplit_once('x').unwrap_or(("", shape_and_type));
    let shape = shape.split('x').filter(|dim| !dim.is_empty()).map(|dim| dim.parse().unwrap()).collect();
    (shape, ElementType::parse(element_type).unwrap())
}

#[test]
fn tensors_print_as_the_reference_prints_them() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/hal/format.json");
    let records: Vec<Record> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(records.len() > 50);
    let device = create_device("local-sync").unwrap();
    for record in records {
        let digits = record.bytes.as_bytes().chunks_exact(2);
        let bytes: Vec<u8> =
            digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect();
        let (shape, element_type) = parse(&record.shape_and_type);
        let buffer = device.allocator().allocate_buffer(BufferParams::default(), bytes.len() as u64).unwrap();
        buffer_write(&*buffer, 0, &bytes).unwrap();
        let view = BufferView::new(buffer, &shape, element_type, EncodingType::DENSE_ROW_MAJOR).unwrap();
        let text = format_view(&view, record.limit).unwrap();
        let (ours, theirs) = (text.split(' '), record.text.split(' '));
        if let Some((index, (ours, theirs))) = ours.zip(theirs).enumerate().find(|(_, (ours, theirs))| ours != theirs) {
            panic!("{} element {index}: {ours}, the reference prints {theirs}", record.shape_and_type);
        }
        assert_eq!(text, record.text);
    }
}

#[test]
fn element_types_round_trip() {
    for text in
        ["i1", "i4", "si8", "ui16", "i64", "f16", "bf16", "f64", "cf64", "cf128", "f8E4M3FN", "f8E8M0FNU", "*24", "i5"]
    {
        assert_eq!(ElementType::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(ElementType::parse("x16").unwrap(), ElementType::OPAQUE_16);
    for text in ["", "f", "g32", "i256", "i-8", "f8E9", "32", "f+32"] {
        assert!(ElementType::parse(text).is_err(), "{text}");
    }
}

#[test]
fn hostile_shapes_are_refused() {
    let mut out = String::new();
    let mut print = |shape: &[u64], ty| format_elements(&[0; 16], shape, ty, 8, &mut out);
    assert!(print(&[5], ElementType::FLOAT_32).is_err());
    assert!(print(&[1 << 40, 0], ElementType::FLOAT_32).is_err());
    assert!(print(&[1 << 40, 0, 3], ElementType::FLOAT_32).is_err());
    assert!(print(&[1 << 40, 1 << 40], ElementType::FLOAT_32).is_err());
    assert!(print(&[0, 1 << 40], ElementType::FLOAT_32).is_ok());
}
