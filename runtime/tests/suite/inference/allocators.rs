//! Allocators that the host puts over those of devices.

use std::sync::{Arc, Mutex};

use vireo::hal::{AllocationLedger, AllocatorSpec, CachePool, CachingAllocator, Forward};
use vireo::{Result, Session, StatusCode, inputs};

use super::{fixture, session};

/// The result of a model for the same input.
fn call(session: &Session) -> Result<Vec<f32>> {
    session.call("mlp", inputs![([8, 64], &[0.5f32; 512])])?.get()
}

#[test]
fn calls_use_the_memory_of_earlier_calls_again() -> Result<()> {
    let expected = call(&session("vmvx_mlp"))?;
    for device in ["local-sync", "local-task"] {
        let made = Arc::<Mutex<Option<Arc<Forward<CachingAllocator>>>>>::default();
        let seen = made.clone();
        let builder = Session::builder().device(device).wrap_allocators(move |inner| {
            let pools = inner.memory_heaps().into_iter().map(CachePool::of_heap);
            let allocator = CachingAllocator::new(inner, pools);
            *seen.lock().unwrap() = Some(allocator.clone());
            Ok(allocator)
        });
        let session = builder.load(fixture("vmvx_mlp"))?;
        let allocator = made.lock().unwrap().take().expect("the device was made");
        let statistics = || allocator.0.pools().next().expect("there is a heap").1;
        assert_eq!(call(&session)?, expected);
        let first = statistics();
        for _ in 0..5 {
            assert_eq!(call(&session)?, expected);
        }
        let later = statistics();
        assert!(later.hits > first.hits, "{first:?} {later:?}");
        assert_eq!((later.misses, later.bytes), (first.misses, first.bytes), "all later buffers are earlier ones");
    }
    Ok(())
}

#[test]
fn programs_do_not_rely_on_new_memory_and_free_what_they_allocate() -> Result<()> {
    for name in ["mlp", "vmvx_mlp"] {
        let expected = call(&session(name))?;
        let ledger = Arc::<AllocationLedger>::default();
        let debug = AllocatorSpec::Debug(ledger.clone());
        let caching: AllocatorSpec = "caching".parse()?;
        let builder = Session::builder().device("local-sync").wrap_allocators(move |inner| caching.wrap(inner));
        let session = builder.wrap_allocators(move |inner| debug.wrap(inner)).load(fixture(name))?;
        assert_eq!(call(&session)?, expected, "{name}");
        let kept = ledger.live().len() as u64;
        assert!(ledger.allocated() > kept, "{name}: the call has freed something");
        drop(session);
        assert_eq!(ledger.live(), [], "{name}");
    }
    Ok(())
}

#[test]
fn an_allocator_that_cannot_be_made_is_an_error_of_the_device() {
    let spec: AllocatorSpec = "caching:host_local".parse().expect("is one");
    let builder = Session::builder().device("local-sync").wrap_allocators(move |inner| spec.wrap(inner));
    let error = builder.load(fixture("mlp")).expect_err("there is no such heap");
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    assert!(error.to_string().contains("device `local-sync`"), "{error}");
}
