//! Programs on the null device: everything happens but kernels.

use vireo::hal::{BufferViewRef, create_device};

use super::calls::{arguments, download, invoke, load};
use super::fixtures::manifest;

#[test]
fn results_are_the_zeros_that_new_buffers_hold() {
    let device = create_device("null").unwrap();
    let context = load(&device, "abs.vmfb").unwrap();
    let abs = context.function("abs").unwrap();
    let results = abs.call(&arguments(&device, &abs, &["f32=-1"]).unwrap()).unwrap();
    assert_eq!(download(&results[0]), [0; 4]);
}

/// The kernels may be for another processor: they are not parsed.
#[test]
fn every_model_gets_to_its_end() {
    let device = create_device("null").unwrap();
    let manifest = manifest();
    for case in &manifest.cases {
        let name = &case.name;
        let context = load(&device, &manifest.modules[&case.module].file).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        for call in &case.calls {
            let results = context.function(&call.function).and_then(|f| invoke(&device, &f, &call.inputs));
            match (results, &call.error) {
                (Ok(values), None) => {
                    assert_eq!(values.len(), call.outputs.len(), "{name}");
                    let tensors = values.iter().filter(|value| value.object::<BufferViewRef>().is_some());
                    tensors.for_each(|tensor| drop(download(tensor)));
                }
                // A fact that the program would have found out from a result cannot be found out here.
                (Ok(_), Some(_)) => {}
                (Err(status), None) => panic!("{name}: {status:?}"),
                (Err(status), Some(expected)) => assert_eq!(status.code().name(), expected.code, "{name}: {status:?}"),
            }
        }
    }
}
