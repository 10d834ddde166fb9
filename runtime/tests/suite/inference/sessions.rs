//! Sessions and models: functions by name, state, prepared calls, several sessions of one model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use vireo::hal::create_device;
use vireo::hal::observe::{Observation, Trace};
use vireo::inference::{Model, TensorType, ValueType};
use vireo::interp::Limits;
use vireo::vm::Module;
use vireo::{Fuel, Result, Session, StatusCode, inputs, vm_module};

use super::{fixture, session};

#[test]
fn sessions_of_one_model_have_state_of_their_own() -> Result<()> {
    let model = Session::builder().device("local-sync").build(Module::from_file(fixture("state"))?)?;
    let (first, second) = (model.session()?, model.session()?);
    assert_eq!(first.call("increment", inputs![5])?.get::<i32>()?, 15);
    assert_eq!(first.call("increment", inputs![1])?.get::<i32>()?, 16);
    assert_eq!(second.call("increment", inputs![1])?.get::<i32>()?, 11);
    assert_eq!(second.call("lookup", [])?.get::<Vec<i32>>()?, [0, 3, 6, 9, 12, 15, 18, 21]);
    Ok(())
}

#[test]
fn kernels_are_loaded_once_for_all_sessions_of_a_model() -> Result<()> {
    for name in ["mlp", "vmvx_mlp"] {
        let prepared = Arc::new(AtomicUsize::new(0));
        let count = prepared.clone();
        let trace = Trace::new(move |line| {
            count.fetch_add(usize::from(line.contains("prepare_executable")), Ordering::SeqCst);
        });
        let device = Observation::new(trace).device(&create_device("local-sync")?);
        let model = Session::builder().with_device(device).build(Module::from_file(fixture(name))?)?;
        let (first, second) = (model.session()?, model.session()?);
        let count = prepared.load(Ordering::SeqCst);
        assert!(count > 0);
        let x = [0.5f32; 512];
        let call = |session: &Session| session.call("mlp", inputs![([8, 64], &x)])?.get::<Vec<f32>>();
        assert_eq!(call(&first)?, call(&second)?);
        // Those of the first session live as long as one session has them.
        drop(first);
        let third = model.session()?;
        assert_eq!(call(&second)?, call(&third)?);
        assert_eq!(prepared.load(Ordering::SeqCst), count);
        drop((second, third));
        model.session()?;
        assert_eq!(prepared.load(Ordering::SeqCst), 2 * count);
    }
    Ok(())
}

#[test]
fn threads_call_one_session_and_sessions_of_one_model() -> Result<()> {
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    let model = Session::builder().build(Module::from_file(fixture("state"))?)?;
    let shared = model.session()?;
    is_shared(&shared);
    is_shared(&model);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = model.session().expect("is made");
                for call in 1..=50 {
                    shared.call("increment", inputs![1]).expect("is called");
                    let counter = own.call("increment", inputs![1]).and_then(|outputs| outputs.get::<i32>());
                    assert_eq!(counter.expect("is called"), 10 + call);
                }
            });
        }
    });
    assert_eq!(shared.call("increment", inputs![0])?.get::<i32>()?, 210);
    Ok(())
}

#[test]
fn prepared_calls_keep_their_arguments() -> Result<()> {
    let session = session("fences");
    let mut call = session.function("axpy")?.prepare(inputs![&[2.0f32; 16], &[3.0f32; 16], &[1.0f32; 16]])?;
    for step in 0..3 {
        call.set(2, &[step as f32; 16])?;
        call.run()?;
        assert_eq!(call.result(0)?.get::<Vec<f32>>()?, [6.0 + step as f32; 16]);
    }
    assert_eq!(call.results().len(), 1);
    let error = call.set(1, &[1i32; 16]).expect_err("has another type").to_string();
    assert!(
        error.contains("argument 1 `input1`") && error.contains("expected tensor<16xf32>, got tensor<16xi32>"),
        "{error}"
    );
    assert!(call.set(3, 1).expect_err("is not there").to_string().contains("there is no argument 3"));
    assert_eq!(call.result(1).expect_err("is not there").code(), StatusCode::NotFound);
    Ok(())
}

#[test]
fn results_are_not_overwritten_by_later_calls() -> Result<()> {
    let state = session("state");
    let mut call = state.function("accumulate")?.prepare(inputs![&[0.0f32; 4]])?;
    call.run()?;
    let first = call.result(0)?;
    call.set(0, &[1.0f32; 4])?;
    call.run()?;
    assert_eq!(first.get::<Vec<f32>>()?, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(call.result(0)?.get::<Vec<f32>>()?, [2.0, 3.0, 4.0, 5.0]);
    Ok(())
}

#[test]
fn signatures_have_the_names_and_types_of_the_source() -> Result<()> {
    let session = session("dynamic_mlp");
    let signature = session.signature("dynamic_mlp")?;
    assert_eq!(
        signature.to_string(),
        "dynamic_mlp(input0: tensor<?x32xf32>, input1: tensor<32x24xf32>, input2: tensor<24x8xf32>) -> (output0: tensor<?x8xf32>)"
    );
    let ValueType::Tensor(TensorType { shape, element_type }) = &signature.arguments[0].r#type else {
        panic!("a tensor: {signature}")
    };
    assert_eq!((&shape[..], element_type.to_string().as_str()), (&[None, Some(32)][..], "f32"));
    assert!(!signature.is_async);
    let fences = super::session("fences");
    let signature = fences.signature("doubled_and_total")?;
    assert!(signature.is_async);
    assert_eq!(
        signature.to_string(),
        "doubled_and_total(input0: tensor<?xi32>) -> (output0: tensor<?xi32>, output1: tensor<i32>)"
    );
    // Without a declaration there are the kinds of the calling convention.
    let stripped = super::session("abs_stripped");
    assert_eq!(stripped.model().signatures().len(), 1);
    Ok(())
}

#[test]
fn several_modules_are_linked() -> Result<()> {
    struct Numbers;

    #[vm_module(name = "numbers", version = 1)]
    impl Numbers {
        #[vm_export("seven")]
        fn seven(&self) -> Result<i32> {
            Ok(7)
        }
    }

    let session = Session::builder()
        .device("local-sync")
        .with_module(Module::native(Numbers)?)
        .with_module(Module::from_file(fixture("state"))?)
        .load(fixture("abs"))?;
    assert_eq!(session.call("numbers.seven", [])?.get::<i32>()?, 7);
    // Functions of modules other than the main one are found by name too.
    assert_eq!(session.call("increment", inputs![1])?.get::<i32>()?, 11);
    assert_eq!(session.call("abs", inputs![-1.0f32])?.get::<f32>()?, 1.0);
    Ok(())
}

#[test]
fn what_is_missing_is_named() {
    let failure = |result: Result<Session>| result.map(drop).expect_err("something is missing").to_string();
    let builder = || Session::builder().device("local-sync");
    let error = failure(builder().load("nowhere.vmfb"));
    assert!(error.contains("nowhere.vmfb"), "{error}");
    let error = failure(Session::builder().device("nothing").load(fixture("abs")));
    assert!(error.contains("device `nothing`"), "{error}");
    let model = |main: &str| Module::from_file(fixture(main)).and_then(|main| builder().build(main));
    assert_eq!(
        model("abs").and_then(|model: Model| model.signature("nope")).map(drop).map_err(|s| s.code()),
        Err(StatusCode::NotFound)
    );
}

#[test]
fn limits_hold_for_calls_of_a_session() -> Result<()> {
    let limits = Limits { fuel: Some(Fuel::new(0)), ..Limits::default() };
    let bench = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/bench/vm.vmfb");
    let session = Session::builder().device("local-sync").limits(limits).load(bench)?;
    let error = session.call("fib", inputs![25]).expect_err("there is no fuel");
    assert_eq!(error.code(), StatusCode::ResourceExhausted, "{error}");
    Ok(())
}

#[test]
fn batches_make_calls_that_wait_for_each_other_on_the_device() -> Result<()> {
    for device in ["local-sync", "local-task"] {
        let session = Session::builder().device(device).load(fixture("fences"))?;
        let call = session.function("axpy")?.prepare(inputs![&[2.0f32; 16], &[3.0f32; 16], &[1.0f32; 16]])?;
        for (size, concurrency) in [(5, 2), (1, 4), (0, 1)] {
            let mut batch = call.batch(size, concurrency)?;
            batch.run()?;
            assert_eq!(batch.results().len(), size);
            for outputs in batch.results() {
                assert_eq!(outputs.get::<Vec<f32>>()?, [7.0; 16]);
            }
        }
        let mut batch = call.batch(1, 1)?;
        batch.run()?;
        assert_eq!(batch.run().expect_err("was run").code(), StatusCode::FailedPrecondition);
        assert_eq!(call.batch(1, 0).expect_err("none may run").code(), StatusCode::InvalidArgument);
    }
    let call = session("abs").function("abs")?.prepare(inputs![1.0f32])?;
    let error = call.batch(2, 2).expect_err("takes no fences").to_string();
    assert!(error.contains("takes no fences"), "{error}");
    Ok(())
}

#[test]
fn devices_come_from_drivers_that_the_host_has_made() -> Result<()> {
    use std::sync::Arc;

    use vireo::SecurityPolicy;
    use vireo::hal::BuiltinOptions;

    let drivers = Arc::new(BuiltinOptions::default().registry());
    let session = Session::builder().drivers(drivers.clone()).device("local-sync").load(fixture("abs"))?;
    assert_eq!(session.call("abs", inputs![-1.0f32])?.get::<f32>()?, 1.0);
    // They would let the program run what its policy forbids.
    let builder = Session::builder().drivers(drivers).policy(SecurityPolicy::untrusted());
    let error = builder.device("local-sync").load(fixture("abs")).map(drop).expect_err("is refused");
    assert_eq!(error.code(), StatusCode::FailedPrecondition, "{error}");
    Ok(())
}

#[test]
fn files_are_read_as_the_builder_says() -> Result<()> {
    use vireo::io::ContentsMode;

    for mode in [ContentsMode::Mmap, ContentsMode::File, ContentsMode::Preload] {
        let builder = Session::builder().device("local-sync").preload().parameter_mode(mode);
        let session = builder.parameters("../fixtures/parameters/weights.irpa").load(fixture("abs"))?;
        assert_eq!(session.call("abs", inputs![-1.0f32])?.get::<f32>()?, 1.0);
    }
    // Also where the program has no parameters.
    let missing = Session::builder().device("local-sync").parameters("nowhere.irpa").load(fixture("abs"));
    let error = missing.map(drop).expect_err("is not there").to_string();
    assert!(error.contains("nowhere.irpa"), "{error}");
    Ok(())
}

#[test]
fn results_are_copied_whatever_their_type_is() -> Result<()> {
    use vireo::inference::HostTensor;

    let doubled: HostTensor<'static> = session("abs").call("abs", inputs![-2.0f32])?.get()?;
    assert_eq!((doubled.shape(), doubled.bytes()), (&[][..], &2.0f32.to_le_bytes()[..]));
    Ok(())
}
