//! Results of a call as JSON, for `run --format=json`.

use serde_json::{Map, Value, json};
use vireo::hal::ElementValue;
use vireo::inference::HostTensor;

use super::Datum;

/// A value: its `type`, and what there is of it. Keys are added over time, never renamed. At most `max_elements`
/// elements of a tensor and bytes of a buffer are there; `count` says how many there are in all.
pub fn to_json(value: &Datum, max_elements: usize) -> Map<String, Value> {
    let object = match value {
        Datum::Null | Datum::Ignored => json!({"type": "null"}),
        Datum::I8(value) => json!({"type": "i8", "value": value}),
        Datum::I16(value) => json!({"type": "i16", "value": value}),
        Datum::I32(value) => json!({"type": "i32", "value": value}),
        Datum::I64(value) => json!({"type": "i64", "value": value}),
        Datum::F32(value) => json!({"type": "f32", "value": single(*value)}),
        Datum::F64(value) => json!({"type": "f64", "value": double(*value)}),
        Datum::View(tensor) => json!({
            "type": "tensor",
            "element_type": tensor.element_type().to_string(),
            "shape": tensor.shape(),
            "count": tensor.element_count(),
            "values": (0..tensor.element_count().min(max_elements)).map(|index| element(tensor, index)).collect::<Vec<_>>(),
        }),
        Datum::Buffer { type_name, bytes } => {
            json!({"type": type_name, "count": bytes.len(), "values": bytes.iter().take(max_elements).collect::<Vec<_>>()})
        }
        Datum::List(items) => {
            let items = items.iter().map(|item| Value::Object(to_json(item, max_elements)));
            json!({"type": value.type_name(), "items": items.collect::<Vec<_>>()})
        }
        Datum::Object(type_name) => json!({"type": type_name}),
    };
    match object {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn element(tensor: &HostTensor<'_>, index: usize) -> Value {
    match tensor.element(index) {
        Some(ElementValue::Integer(value)) => {
            let number = i64::try_from(value).map(Value::from).or_else(|_| u64::try_from(value).map(Value::from));
            number.unwrap_or_else(|_| value.to_string().into())
        }
        Some(ElementValue::F32(value)) => single(value),
        Some(ElementValue::F64(value)) => double(value),
        Some(ElementValue::Complex32(real, imaginary)) => json!([single(real), single(imaginary)]),
        Some(ElementValue::Complex64(real, imaginary)) => json!([double(real), double(imaginary)]),
        // Bytes that stand for no number.
        None => tensor.element_text(index).into(),
    }
}

/// The shortest number that is read as the same value; JSON has no words for infinity and NaN, which are texts.
fn single(value: f32) -> Value {
    match value.to_string().parse::<f64>() {
        Ok(number) if number.is_finite() => number.into(),
        _ => double(value.into()),
    }
}

fn double(value: f64) -> Value {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() { if value > 0.0 { "inf".into() } else { "-inf".into() } } else { value.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &Datum) -> String {
        Value::Object(to_json(value, 3)).to_string()
    }

    #[test]
    fn values_are_numbers_where_json_has_them() {
        assert_eq!(text(&Datum::F32(0.1)), r#"{"type":"f32","value":0.1}"#);
        assert_eq!(text(&Datum::F64(f64::NAN)), r#"{"type":"f64","value":"nan"}"#);
        assert_eq!(text(&Datum::I64(i64::MIN)), r#"{"type":"i64","value":-9223372036854775808}"#);
        let tensor = HostTensor::new(&[2, 2], &[1.5f32, f32::NEG_INFINITY, -0.0, 1e10]).unwrap();
        let expected = r#"{"count":4,"element_type":"f32","shape":[2,2],"type":"tensor","values":[1.5,"-inf",-0.0]}"#;
        assert_eq!(text(&Datum::View(tensor)), expected);
        let list = Datum::List(vec![Datum::Null, Datum::Buffer { type_name: "vm.buffer", bytes: vec![1, 2, 3, 4] }]);
        let expected =
            r#"{"items":[{"type":"null"},{"count":4,"type":"vm.buffer","values":[1,2,3]}],"type":"vm.list"}"#;
        assert_eq!(text(&list), expected);
    }
}
