//! Types that `bind!` makes of model files.

use vireo::ndarray::{Array2, array};
use vireo::{Result, Session};

/// A model from ONNX: nothing declares its function, so its types are what its code asserts.
mod onnx {
    vireo::bind!("../fixtures/variants/onnx.vmfb");
}

/// Fences of the calling model are no arguments, with a declaration and without.
mod fences {
    vireo::bind!("../fixtures/models/fences.vmfb");
}

#[test]
fn a_model_without_declarations_has_the_types_that_its_code_asserts() -> Result<()> {
    let model = onnx::Bound::load(Session::builder().device("local-sync"))?;
    let rows: Array2<f32> = array![[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]];
    let (scaled, sum) = model.scale(&rows, &[2.0; 4], 3)?;
    assert_eq!(scaled.shape(), [2, 4]);
    assert_eq!(scaled[..], [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]);
    assert_eq!(sum, 6);
    Ok(())
}

#[test]
fn fences_of_the_calling_model_are_no_arguments() -> Result<()> {
    let model = fences::Bound::load(Session::builder().device("local-sync"))?;
    let (doubled, total) = model.doubled_and_total(&[1, 2, 3][..])?;
    assert_eq!((doubled[..].to_vec(), total), (vec![2, 4, 6], 12));
    Ok(())
}
