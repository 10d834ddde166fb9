//! Arguments and results of calls: conversions, checks and messages.

use std::ptr::NonNull;
use std::sync::Arc;

use vireo::hal::{BufferView, ElementType};
use vireo::inference::{Elements, HostTensor, Output, Tensor};
use vireo::vm::Obj;
use vireo::{Input, Result, Session, StatusCode, inputs};

use super::session;

#[test]
fn tensors_are_slices_pairs_and_numbers() -> Result<()> {
    let abs: f32 = session("abs").call("abs", inputs![-2.0f32])?.get()?;
    assert_eq!(abs, 2.0);
    let integer = session("integer");
    let mlp = session("mlp");
    let rows: Vec<f32> = mlp.call("mlp", inputs![([8, 64], &[1.0f32; 512])])?.get()?;
    assert_eq!(rows.len(), 8 * 16);
    let shape: &[u64] = &[8, 64];
    let tensor = HostTensor::new(shape, &[1.0f32; 512])?;
    assert_eq!(mlp.call("mlp", [tensor.into()])?.get::<Vec<f32>>()?, rows);
    // Signless integers take those of any sign.
    let left = [-1i8; 128];
    let right = [1u8; 256];
    let product: Vec<i32> = integer.call("dot_i8", inputs![([4, 32], &left), ([32, 8], &right)])?.get()?;
    assert_eq!(product, [-32; 32]);
    Ok(())
}

#[test]
fn integers_widen_and_nothing_narrows() -> Result<()> {
    let fills = session("vmvx_fills");
    // `i64, index`
    let splat: Vec<i64> = fills.call("splat_i64", inputs![-1, 3])?.get()?;
    assert_eq!(splat, [-1; 3]);
    let error = fills.call("splat_i32", inputs![1i64 << 40, 3]).expect_err("does not fit").to_string();
    assert!(error.contains("expected i32, got the i64 1099511627776"), "{error}");
    Ok(())
}

/// The memory of arguments that native kernels write to has to be there for that: those are not told what is read-only.
#[test]
fn results_are_put_in_memory_that_may_be_written() -> Result<()> {
    #[repr(align(64))]
    struct Aligned([f32; 4]);
    static ONES: Aligned = Aligned([1.0; 4]);
    let multi = session("multi");
    let into = multi.function("into")?;
    let storages: Vec<_> = into.signature().arguments.iter().map(|info| info.storage_of).collect();
    assert_eq!(storages, [None, Some(0)]);
    let device = into.device();
    let data = NonNull::from(&ONES.0).cast();
    // SAFETY: constants stay valid for reads, and nothing writes to them.
    let import = || unsafe { Tensor::import(&**device, &[4], ElementType::FLOAT_32, data, Arc::new(())) };
    let ones = import()?.tensor().clone();
    let storage = Tensor::zeroed(&**device, &[4], ElementType::FLOAT_32)?.tensor().clone();
    // The tensor may be read.
    let result: Vec<f32> = into.call(inputs![ones.clone(), storage.clone()])?.get()?;
    assert_eq!(result, storage.to_vec::<f32>()?);
    for input in [Input::from(ones.clone()), Input::Reference(Some(Obj::<BufferView>::from(ones).into_ref()))] {
        let mut prepared = into.prepare(inputs![storage.clone(), storage.clone()])?;
        for error in [into.call([storage.clone().into(), input.clone()]).err(), prepared.set(1, input.clone()).err()] {
            let error = error.expect("the constants are kept");
            assert_eq!(error.code(), StatusCode::PermissionDenied);
            let text = error.to_string();
            assert!(text.contains("argument 1 `input1` of `into(") && text.contains("may only be read"), "{text}");
        }
    }
    assert_eq!(ONES.0, [1.0; 4]);
    Ok(())
}

#[test]
fn wrong_arguments_are_named_before_anything_runs() {
    let session = session("mlp");
    let message = |inputs: &[Input<'_>]| session.call("mlp", inputs).expect_err("is refused").to_string();
    let signature = "mlp(input0: tensor<8x64xf32>) -> (output0: tensor<8x16xf32>)";
    let zeros = [0.0f32; 512];
    let cases = [
        (message(&[]), "0 arguments are given, and `{}` takes 1 argument"),
        (message(&inputs![1, 2]), "2 arguments are given, and `{}` takes 1 argument"),
        (message(&inputs![7]), "argument 0 `input0` of `{}`: expected tensor<8x64xf32>, got the i32 7"),
        (message(&inputs![&zeros]), "argument 0 `input0` of `{}`: expected tensor<8x64xf32>, got tensor<512xf32>"),
        (message(&inputs![([64, 8], &zeros)]), "expected tensor<8x64xf32>, got tensor<64x8xf32>"),
        (message(&inputs![([8, 64], &[0.0f64; 512])]), "expected tensor<8x64xf32>, got tensor<8x64xf64>"),
    ];
    for (found, expected) in cases {
        let expected = expected.replace("{}", signature);
        assert!(found.contains(&expected), "{found}\nshould contain\n{expected}");
    }
    let error = session.call("nope", []).expect_err("is not there").to_string();
    assert!(error.contains("no function `nope`; there are:") && error.contains("mlp"), "{error}");
}

#[test]
fn a_shape_has_to_fit_its_elements() {
    let error = HostTensor::new(&[2, 2], &[1.0f32; 3]).expect_err("is one short").to_string();
    assert!(error.contains("12 bytes for a tensor of shape [2, 2] and element type f32: expected 16"), "{error}");
    let error = HostTensor::from_bytes(&[2], ElementType::FLOAT_32, vec![0; 7]).expect_err("one byte short");
    assert!(
        error.to_string().contains("7 bytes for a tensor of shape [2] and element type f32: expected 8"),
        "{error}"
    );
    let huge = HostTensor::from_bytes(&[u64::MAX, 2], ElementType::FLOAT_32, vec![0; 7]);
    assert!(huge.is_err());
}

#[test]
fn results_are_what_the_caller_asks_for() -> Result<()> {
    let session = session("fences");
    let call = || session.call("doubled_and_total", inputs![&[1, 2, 3]]);
    let (doubled, total): (Vec<i32>, i32) = call()?.get()?;
    assert_eq!((doubled, total), (vec![2, 4, 6], 12));
    let (doubled, total): (Elements<i32>, Tensor) = call()?.get()?;
    assert_eq!((&doubled[..], doubled.shape()), (&[2, 4, 6][..], &[3][..]));
    assert_eq!(total.to_scalar::<i32>()?, 12);
    let error = call()?.get::<Vec<i32>>().expect_err("there are two").to_string();
    assert!(error.contains("returns 2 results, expected 1"), "{error}");
    let error = call()?.get::<(Vec<f32>, i32)>().expect_err("they are integers").to_string();
    assert!(
        error.contains("result 0 `output0` of `doubled_and_total(") && error.contains("3xi32 cannot be read as f32"),
        "{error}"
    );
    let error = call()?.get::<(i32, i32)>().expect_err("it is a list").to_string();
    assert!(error.contains(": the result is a tensor (3xi32), expected i32"), "{error}");
    assert!(matches!(call()?[0], Output::Tensor(_)));
    Ok(())
}

#[test]
fn the_elements_of_a_result_are_not_copied_where_nothing_else_refers_to_them() -> Result<()> {
    let mlp = session("mlp");
    let rows: Elements<f32> = mlp.call("mlp", inputs![([8, 64], &[1.0f32; 512])])?.get()?;
    assert!(rows.is_in_place());
    // A table that the program keeps.
    let state = session("state");
    let call = || state.call("lookup", []);
    let table: Elements<i32> = call()?.get()?;
    let again: Elements<i32> = call()?.get()?;
    assert_eq!(table[..], again[..]);
    assert_ne!(table.as_ptr(), again.as_ptr());
    // The host keeps a reference.
    let outputs = mlp.call("mlp", inputs![([8, 64], &[1.0f32; 512])])?;
    let tensor = outputs[0].tensor()?.clone();
    assert!(!outputs.get::<Elements<f32>>()?.is_in_place());
    assert!(tensor.into_elements::<f32>()?.is_in_place());
    Ok(())
}

#[test]
fn tensors_stay_on_the_device_between_calls() -> Result<()> {
    let session = session("fences");
    let ones = session.tensor(&HostTensor::from_slice(&[1.0f32; 16]))?;
    let axpy = session.function("axpy")?;
    let mut sum = axpy.call(inputs![&ones, &ones, &ones])?.get::<Tensor>()?;
    for _ in 0..3 {
        sum = axpy.call(inputs![&ones, sum, &ones])?.get()?;
    }
    assert_eq!(sum.to_vec::<f32>()?, [5.0; 16]);
    Ok(())
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_go_in_and_come_out() -> Result<()> {
    use vireo::ndarray::{Array0, Array2, ArrayD, arr1};

    let session = session("mlp");
    let x = Array2::from_shape_fn((8, 64), |(row, column)| (row * 64 + column) as f32 / 512.0);
    let y: Array2<f32> = session.call("mlp", inputs![&x])?.get()?;
    assert_eq!(y.shape(), [8, 16]);
    // A view in another order than row by row.
    let turned = x.t().as_standard_layout().into_owned();
    let again: ArrayD<f32> = session.call("mlp", inputs![&turned.t()])?.get()?;
    assert_eq!(again, y.clone().into_dyn());
    let elements: Elements<f32> = session.call("mlp", inputs![&x])?.get()?;
    assert_eq!(elements.as_array()?, y.view().into_dyn());
    let error = session.call("mlp", inputs![&x])?.get::<Array0<f32>>().expect_err("has another rank").to_string();
    assert!(error.contains("8x16xf32") && error.contains("expected 0 dimensions"), "{error}");
    let error = session.call("mlp", inputs![&arr1(&[1.0f32])]).expect_err("has another shape").to_string();
    assert!(error.contains("expected tensor<8x64xf32>, got tensor<1xf32>"), "{error}");
    Ok(())
}

#[cfg(feature = "half")]
#[test]
fn half_floats_go_in_and_come_out() -> Result<()> {
    use half::{bf16, f16};

    let session = session("half");
    let x = [1.0f32; 8];
    let y: Vec<bf16> = session.call("bf16", inputs![&x])?.get()?;
    assert_eq!(y.len(), 8);
    let halves = [f16::from_f32(1.5); 8];
    let (sums, _): (Vec<f16>, Vec<f32>) = session.call("f16", inputs![&halves, &halves])?.get()?;
    assert_eq!(sums.len(), 8);
    Ok(())
}

#[test]
fn one_result_is_no_results() -> Result<()> {
    let error =
        session("abs").call("abs", inputs![-2.0f32])?.get::<(f32, f32)>().expect_err("there is one").to_string();
    let expected = "`abs(input0: tensor<f32>) -> (output0: tensor<f32>)` returns 1 result, expected 2";
    assert!(error.contains(expected), "{error}");
    Ok(())
}

#[test]
fn arguments_and_results_have_names() -> Result<()> {
    let axpy = session("fences").function("axpy")?;
    let numbers = [1.0f32, 2.0, 3.0].map(|value| [value; 16]);
    let tensor = |index: usize| HostTensor::new(&[16], &numbers[index]).map(Input::from);
    let names = ["input2", "input0", "input1"];
    let values = [tensor(0)?, tensor(1)?, tensor(2)?];
    let outputs = axpy.call_named(names.into_iter().zip(values))?;
    assert!(outputs.by_name("output0").is_some() && outputs.by_name("input0").is_none());
    assert_eq!(outputs.get::<Vec<f32>>()?, [7.0; 16]);
    let wrong = [
        (&["input0", "x", "input1"][..], "no argument is called `x`"),
        (&["input0", "input1"], "the argument `input2` is missing"),
        (&["input0", "input0"], "the argument `input0` is given twice"),
        (&[""], "no argument is called ``"),
    ];
    for (names, message) in wrong {
        let inputs = names.iter().map(|name| Ok((*name, tensor(0)?))).collect::<Result<Vec<_>>>()?;
        let error = axpy.call_named(inputs).expect_err(message).to_string();
        assert!(error.contains(message) && error.contains("the function is `axpy(input0: tensor<16xf32>"), "{error}");
    }
    Ok(())
}

#[test]
fn a_model_is_loaded_from_bytes() -> Result<()> {
    let bytes = std::fs::read("../fixtures/variants/onnx.vmfb").expect("the fixture exists");
    let session = Session::builder().device("local-sync").load_bytes(&bytes)?;
    // Its types are those that its code asserts, for lack of a declaration.
    let (scaled, sum): (Vec<f32>, i64) =
        session.call("scale", inputs![([1, 4], &[1.0f32, 2.0, 3.0, 4.0]), &[2.0f32; 4], 3_i64])?.get()?;
    assert_eq!((scaled, sum), (vec![2.0, 4.0, 6.0, 8.0], 6));
    let error = session
        .call("scale", inputs![([1, 4], &[1.0f32; 4]), &[2.0f32; 3], 3_i64])
        .expect_err("it has three")
        .to_string();
    let expected = "argument 1 `input1` of `scale(input0: tensor<?x4xf32>, ";
    assert!(error.contains(expected) && error.contains("expected tensor<4xf32>, got tensor<3xf32>"), "{error}");
    let error = Session::builder().device("local-sync").load_bytes(b"no module").expect_err("it is a text").to_string();
    assert!(error.contains("INVALID_ARGUMENT"), "{error}");
    Ok(())
}
