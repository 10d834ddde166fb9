//! Many threads use programs at once, with no lock around them: programs of their own on a shared device, programs that
//! they share, and devices of their own. Whatever they do, they get the bytes that one thread alone gets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use vireo::hal::{Device, create_device};
use vireo::vm::{Context, Value};
use vireo::{Result, Status};

use super::calls::{download, invoke, load};
use super::fixtures::{Call, Case, Manifest, manifest};
use super::recorded::missing_processor_feature;

const THREADS: usize = 6;
/// Times that each thread goes through all cases. Builds without optimisation take ten times as long for each;
/// `.ci/run` runs the tests in both.
const ROUNDS: usize = if cfg!(debug_assertions) { 1 } else { 3 };

/// The results of one call, as bytes and text.
fn outcome(device: &Arc<dyn Device>, context: &Context, call: &Call) -> Vec<String> {
    let results: Result<Vec<Value>> =
        context.function(&call.function).and_then(|function| invoke(device, &function, &call.inputs));
    let text = |value: &Value| match value {
        Value::Ref(Some(_)) => format!("{:?}", download(value)),
        other => format!("{other:?}"),
    };
    match results {
        Ok(results) => results.iter().map(text).collect(),
        // Which frame it was in does not matter here.
        Err(failure) => vec![Status::new(failure.code(), failure.message()).to_string()],
    }
}

/// The cases that this machine runs, and that do the same however often they are called.
fn cases(manifest: &Manifest) -> Vec<&Case> {
    let is_pure = |case: &&Case| {
        case.calls.len() == 1
            && !["state", "aarch64_state"].contains(&case.module.as_str())
            && missing_processor_feature(&manifest.modules[&case.module].cpu).is_none()
    };
    manifest.cases.iter().filter(is_pure).collect()
}

fn stress(driver: &str) {
    let manifest = manifest();
    let cases = cases(&manifest);
    let alone = create_device("local-sync").expect("the device exists everywhere");
    let file = |case: &Case| &manifest.modules[&case.module].file;
    let expected: Vec<Vec<String>> =
        cases.iter().map(|case| outcome(&alone, &load(&alone, file(case)).expect("loads"), &case.calls[0])).collect();
    let shared_device = create_device(driver).expect("a device");
    let shared: BTreeMap<&String, Context> =
        cases.iter().map(|case| (&case.module, load(&shared_device, file(case)).expect("loads"))).collect();
    let compared = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cases, expected, shared_device, shared, compared) =
                (&cases, &expected, &shared_device, &shared, &compared);
            scope.spawn(move || {
                let own_device = create_device(driver).expect("a device");
                for round in 0..ROUNDS {
                    for step in 0..cases.len() {
                        // Threads begin at different places, so that all of them do different things.
                        let index = (step + thread * cases.len() / THREADS) % cases.len();
                        let (case, expected) = (cases[index], &expected[index]);
                        let call = &case.calls[0];
                        let seen = match (thread + round + step) % 3 {
                            0 => outcome(shared_device, &shared[&case.module], call),
                            1 => outcome(shared_device, &load(shared_device, file(case)).expect("loads"), call),
                            _ => outcome(&own_device, &load(&own_device, file(case)).expect("loads"), call),
                        };
                        assert_eq!(seen, *expected, "{}", case.name);
                        compared.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(compared.into_inner(), THREADS * ROUNDS * cases.len());
}

#[test]
fn programs_on_many_threads_do_not_disturb_each_other() {
    stress("local-sync");
}

#[test]
fn programs_on_many_threads_share_workers() {
    stress("local-task");
}
