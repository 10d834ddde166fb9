//! Elements of tensors as Rust has them, there and back.

use vireo::hal::{BufferView, HostElement, create_device};

fn round_trip<T: HostElement + PartialEq + std::fmt::Debug>(elements: &[T], name: &str) {
    let device = create_device("local-sync").unwrap();
    let view = BufferView::from_slice(&*device, &[elements.len() as u64], elements).unwrap();
    assert_eq!(view.element_type().to_string(), name);
    assert_eq!(view.to_elements::<T>().unwrap(), elements);
}

#[test]
fn slices_of_every_type() {
    round_trip(&[i8::MIN, 1], "i8");
    round_trip(&[i16::MIN, 1], "i16");
    round_trip(&[i32::MIN, 1], "i32");
    round_trip(&[i64::MIN, 1], "i64");
    round_trip(&[u8::MAX, 1], "ui8");
    round_trip(&[u16::MAX, 1], "ui16");
    round_trip(&[u32::MAX, 1], "ui32");
    round_trip(&[u64::MAX, 1], "ui64");
    round_trip(&[-1.5f32], "f32");
    round_trip(&[-1.5f64], "f64");
    round_trip(&[true, false], "i1");
    round_trip::<f32>(&[], "f32");
    #[cfg(feature = "half")]
    {
        round_trip(&[half::f16::from_f32(1.5)], "f16");
        round_trip(&[half::bf16::from_f32(1.5)], "bf16");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = create_device("local-sync").unwrap();
    assert!(BufferView::from_slice(&*device, &[2, 2], &[1.0f32, 2.0]).is_err());
    assert!(BufferView::from_slice(&*device, &[u64::MAX, 2], &[1.0f32, 2.0]).is_err());
    let view = BufferView::from_slice(&*device, &[2], &[1i32, -1]).unwrap();
    assert_eq!(view.to_elements::<u32>().unwrap(), [1, u32::MAX]);
    let error = view.to_elements::<f32>().unwrap_err().to_string();
    assert!(error.contains("elements of 2xi32 cannot be read as f32: expected f32"), "{error}");
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_of_any_layout() {
    let device = create_device("local-sync").unwrap();
    let array = ndarray::arr2(&[[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let view = BufferView::from_array(&*device, &array).unwrap();
    assert_eq!(view.to_array::<f32>().unwrap(), array.clone().into_dyn());
    let view = BufferView::from_array(&*device, &array.t()).unwrap();
    assert_eq!(view.shape(), [3, 2]);
    assert_eq!(view.to_elements::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let view = BufferView::from_array(&*device, &ndarray::arr0(7i64)).unwrap();
    assert_eq!(view.to_array::<i64>().unwrap().first(), Some(&7));
}
