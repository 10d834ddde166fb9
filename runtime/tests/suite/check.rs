//! The `check` module: what it accepts, and what it says about the rest.

use vireo::hal::{BufferView, ElementType, create_device};
use vireo::modules::check::Collector;
use vireo::vm::{Context, Module, Value};

/// Calls `check.export` and returns what it reported.
fn check(export: &str, operands: &[(&str, &[u8])], more: &[f32]) -> vireo::Result<Option<String>> {
    let collector = Collector::default();
    let context = Context::new([Module::native(collector.module())?])?;
    let device = create_device("local-sync")?;
    let mut arguments = vec![Value::NULL];
    for (shape_and_type, bytes) in operands {
        let (shape, element_type) = shape_and_type.rsplit_once('x').unwrap_or(("", shape_and_type));
        let shape: Vec<u64> = shape.split('x').filter(|dim| !dim.is_empty()).map(|dim| dim.parse().unwrap()).collect();
        let view = BufferView::from_bytes(&*device, &shape, ElementType::parse(element_type)?, bytes)?;
        arguments.push(view.into_ref().into());
    }
    arguments.extend(more.iter().map(|value| Value::F32(*value)));
    context.function(&format!("check.{export}"))?.call(&arguments)?;
    let collected = collector.take();
    assert!(collected.unmet.len() <= 1);
    Ok(collected.unmet.into_iter().next().map(|unmet| {
        assert_eq!(unmet.export, export);
        unmet.message
    }))
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn f64s(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn integers_are_true_or_false() {
    let collector = Collector::default();
    let context = Context::new([Module::native(collector.module()).unwrap()]).unwrap();
    let call = |name: &str, value| context.function(name).unwrap().call(&[Value::I32(value)]).unwrap();
    for value in [1, -1, i32::MIN] {
        call("check.expect_true", value);
    }
    call("check.expect_false", 0);
    assert!(collector.take().is_empty());
    call("check.expect_true", 0);
    call("check.expect_false", -7);
    let texts: Vec<_> = collector.take().unmet.iter().map(ToString::to_string).collect();
    let expected =
        ["expect_true: the operand is 0; expected any other number", "expect_false: the operand is -7; expected 0"];
    assert_eq!(texts, expected);
    for _ in 0..150 {
        call("check.expect_true", 0);
    }
    let collected = collector.take();
    assert_eq!((collected.unmet.len(), collected.more), (100, 50));
}

#[test]
fn all_true_of_every_type() {
    let all_true =
        |shape_and_type: &str, bytes: &[u8]| check("expect_all_true", &[(shape_and_type, bytes)], &[]).unwrap();
    for (shape_and_type, bytes) in [
        ("2xi1", &[1, 2][..]),
        ("2xi8", &[1, 255]),
        ("0xi8", &[]),
        ("ui16", &[0, 1]),
        ("2xi4", &[0x21]),
        ("f16", &[1, 0]),
        ("bf16", &[0xC0, 0x7F]),
        ("f8E4M3FNUZ", &[0x80]),
        ("f8E8M0FNU", &[0]),
        ("cf64", &[0, 0, 0, 0, 0, 0, 0, 1]),
        ("i64", &[0, 0, 0, 0, 0, 0, 0, 1]),
        ("f64", &f64s(&[f64::NAN])),
        ("cf128", &f64s(&[1.0, 0.0])),
    ] {
        assert_eq!(all_true(shape_and_type, bytes), None, "{shape_and_type}");
    }
    let text = all_true("2x3xi8", &[1, 0, 1, 1, 1, 0]).unwrap();
    assert_eq!(text, "2 of 6 elements are zero\n  [0, 1]\n  [1, 2]\n  operand: 2x3xi8=[1 0 1][1 1 0]");
    let text = all_true("f32", &f32s(&[-0.0])).unwrap();
    assert_eq!(text, "1 of 1 element is zero\n  []\n  operand: f32=-0");
    assert_eq!(all_true("2xi4", &[0x01]).unwrap(), "1 of 2 elements is zero\n  [1]\n  operand: 2xi4=1 0");
    assert!(all_true("f8E4M3FN", &[0x80]).is_some());
    let status = check("expect_all_true", &[("*16", &[1, 1])], &[]).unwrap_err();
    assert!(status.to_string().contains("elements of type *16 are not numbers"), "{status}");
}

#[test]
fn equality_is_of_type_shape_and_bytes() {
    let equal = |lhs: (&str, &[u8]), rhs: (&str, &[u8])| check("expect_eq", &[lhs, rhs], &[]).unwrap();
    let nan = f32s(&[f32::NAN]);
    assert_eq!(equal(("f32", &nan), ("f32", &nan)), None);
    assert_eq!(equal(("0x3xi8", &[]), ("0x3xi8", &[])), None);
    assert_eq!(equal(("2x*16", &[1, 2, 3, 4]), ("2x*16", &[1, 2, 3, 4])), None);
    let (lhs, rhs) = (f32s(&[1.0, 2.0, 3.0, 4.0]), f32s(&[1.0, 2.5, 3.0, 4.000_000_5]));
    assert_eq!(
        equal(("2x2xf32", &lhs), ("2x2xf32", &rhs)).unwrap(),
        "2 of 4 elements differ\n  [0, 1]: lhs 2, rhs 2.5\n  [1, 1]: lhs 4, rhs 4.0000005\n  lhs: 2x2xf32=[1 2][3 4]\n  rhs: 2x2xf32=[1 2.5][3 4]"
    );
    assert_eq!(
        equal(("2xi8", &[1, 2]), ("1x2xui8", &[1, 2])).unwrap(),
        "the element types and the shapes differ\n  lhs: 2xi8=1 2\n  rhs: 1x2xui8=[1 2]"
    );
    assert!(equal(("f32", &f32s(&[0.0])), ("f32", &f32s(&[-0.0]))).unwrap().contains("[]: lhs 0, rhs -0"));
    assert!(equal(("4xi4", &[0x21, 0x43]), ("4xi4", &[0x21, 0xF3])).unwrap().contains("[3]: lhs 4, rhs -1"));
    assert!(equal(("*16", &[1, 2]), ("*16", &[1, 3])).unwrap().contains("[]: lhs 0102, rhs 0103"));
    assert!(equal(("3xi4", &[0x21, 0x03]), ("3xi4", &[0x21, 0xF3])).unwrap().contains("bytes after"));
    let text = equal(("300xi8", &[0; 300]), ("300xi8", &[1; 300])).unwrap();
    assert!(text.starts_with("300 of 300 elements differ\n  [0]: lhs 0, rhs 1\n"), "{text}");
    assert_eq!(text.matches(": lhs 0").count(), 8);
    assert!(text.contains("\n  ...\n  lhs: 300xi8=0 0 "), "{text}");
}

#[test]
fn near_equality_is_that_of_numpy() {
    let near = |lhs: (&str, &[u8]), rhs: (&str, &[u8]), atol: f32, rtol: f32| {
        check("expect_almost_eq", &[lhs, rhs], &[atol, rtol]).unwrap()
    };
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let (lhs, rhs) = (f32s(&[1.0, inf, -inf, nan, 1e30]), f32s(&[1.000_05, inf, -inf, -nan, 1.000_01e30]));
    assert_eq!(near(("5xf32", &lhs), ("5xf32", &rhs), 1e-4, 1e-4), None);
    let (lhs, rhs) = (f32s(&[1.0, 1e30, inf, nan, 2.0]), f32s(&[1.1, inf, 1e30, 1.0, 2.0]));
    assert_eq!(
        near(("5xf32", &lhs), ("5xf32", &rhs), 0.01, 0.0).unwrap(),
        "4 of 5 elements are farther apart than atol=0.01 and rtol=0 allow\n  [0]: lhs 1, rhs 1.1, 0.1 apart\n  \
            [1]: lhs 1e30, rhs inf, inf apart\n  [2]: lhs inf, rhs 1e30, inf apart\n  [3]: lhs NaN, rhs 1\n  \
            lhs: 5xf32=1 1E+30 INF NAN 2\n  rhs: 5xf32=1.1 INF 1E+30 1 2"
    );
    // The relative tolerance is of the right side.
    let (one, two) = (f32s(&[1.0]), f32s(&[2.0]));
    assert_eq!(near(("f32", &one), ("f32", &two), 0.0, 0.5), None);
    assert!(near(("f32", &two), ("f32", &one), 0.0, 0.5).is_some());
    for (shape_and_type, lhs, rhs) in [
        ("f16", &[0x00, 0x3C][..], &[0x01, 0x3C][..]),
        ("bf16", &[0x80, 0x3F], &[0x81, 0x3F]),
        ("f8E5M2", &[0x3C], &[0x3D]),
        ("f8E4M3FN", &[0x38], &[0x39]),
        ("f8E5M2FNUZ", &[0x40], &[0x41]),
        ("f8E4M3FNUZ", &[0x40], &[0x41]),
        ("f8E8M0FNU", &[0x7F], &[0x80]),
        ("i8", &[3], &[4]),
        ("i4", &[3], &[4]),
        ("cf64", &f32s(&[1.0, 2.0]), &f32s(&[1.5, 2.5])),
        ("cf128", &f64s(&[1.0, 2.0]), &f64s(&[1.5, 2.5])),
        ("f64", &f64s(&[1.0]), &f64s(&[1.5])),
    ] {
        assert_eq!(near((shape_and_type, lhs), (shape_and_type, rhs), 1.0, 0.0), None, "{shape_and_type}");
        assert!(near((shape_and_type, lhs), (shape_and_type, rhs), 1e-6, 0.0).is_some(), "{shape_and_type}");
    }
    assert!(near(("f32", &one), ("1xf32", &one), 1.0, 0.0).unwrap().starts_with("the shapes differ"));
    assert!(check("expect_almost_eq", &[("*8", &[1]), ("*8", &[2])], &[1.0, 0.0]).is_err());
}
