//! Statistics of devices: counts of operations and dispatches.

use std::sync::Arc;

use vireo::hal::{Device, DispatchStatistics, ExecutionStatistics, create_device};
use vireo::{Result, Session, inputs};

use crate::models::recorded::eager_task;

fn session(statistics: &Arc<ExecutionStatistics>, device: &Arc<dyn Device>, model: &str) -> Result<Session> {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models");
    Session::builder().with_device(statistics.device(device)).load(format!("{models}/{model}.vmfb"))
}

fn call(session: &Session) -> Result<Vec<f32>> {
    session.call("mlp", inputs![([8, 64], &[0.5f32; 512])])?.get()
}

/// The kernels by name, with their dispatches and workgroups.
fn counts(dispatches: &[DispatchStatistics]) -> Vec<(&str, u64, u64)> {
    dispatches.iter().map(|dispatch| (dispatch.name.as_str(), dispatch.count, dispatch.workgroups)).collect()
}

#[test]
fn dispatches_are_counted_on_every_device_and_by_every_loader() -> Result<()> {
    for model in ["mlp", "vmvx_mlp", "vmvx_mlp_tiles"] {
        if model == "mlp" && !cfg!(all(target_arch = "x86_64", unix)) {
            continue;
        }
        let mut all = Vec::new();
        for device in [create_device("local-sync")?, create_device("local-task")?, eager_task()] {
            let plain = Session::builder().with_device(device.clone());
            let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models");
            let expected = call(&plain.load(format!("{models}/{model}.vmfb"))?)?;
            let statistics = ExecutionStatistics::new();
            let session = session(&statistics, &device, model)?;
            statistics.reset();
            assert_eq!((call(&session)?, call(&session)?), (expected.clone(), expected));
            statistics.set_paused(true);
            call(&session)?;
            let dispatches = statistics.dispatches();
            assert!(
                dispatches.iter().all(|dispatch| dispatch.count == 2 && !dispatch.time.is_zero()),
                "{dispatches:?}"
            );
            let execute = statistics.operations().into_iter().find(|operation| operation.name == "queue_execute");
            assert_eq!(execute.map(|operation| operation.count), Some(2), "{model}");
            all.push(dispatches);
            statistics.reset();
            assert_eq!((statistics.dispatches(), statistics.operations()), (vec![], vec![]));
            statistics.set_paused(false);
            call(&session)?;
            assert!(statistics.dispatches().iter().all(|dispatch| dispatch.count == 1));
        }
        assert!(counts(&all[0]).iter().any(|(name, ..)| name.contains("matmul")), "{all:?}");
        assert!(all.iter().all(|dispatches| counts(dispatches) == counts(&all[0])), "{all:?}");
    }
    Ok(())
}

#[test]
fn devices_without_kernels_have_counts_of_operations() -> Result<()> {
    let statistics = ExecutionStatistics::new();
    let session = session(&statistics, &create_device("null")?, "vmvx_mlp")?;
    call(&session)?;
    assert!(statistics.operations().iter().any(|operation| operation.name == "queue_alloca"));
    assert_eq!(statistics.dispatches(), []);
    Ok(())
}
