//! Providers hand parameters to programs, and nothing of it blocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use vireo::hal::{
    Buffer, BufferParams, BufferUsage, BufferView, BufferViewRef, Device, ElementType, Fence, MemoryAccess, MemoryType,
    ParameterProvider, ParameterProviderSignal, ParameterSpan, QueueAffinity, Timepoint, buffer_from_bytes,
    buffer_to_vec,
};
use vireo::io::{
    ArchiveFormat, Contents, ContentsMode, IndexProvider, Parameter, ParameterIndex, ParameterSource, ParameterStorage,
    Progress, SourceProvider, Splat,
};
use vireo::modules::hal::HalModule;
use vireo::modules::io_parameters::IoParameters;
use vireo::vm::{Context, Module, Value};
use vireo::{Result, Status, StatusCode};

use super::{fixture, floats};
use crate::device;

const ARCHIVES: [&str; 3] = ["weights.irpa", "weights.gguf", "weights.safetensors"];

fn span(key: &str, parameter_offset: u64, buffer_offset: u64, length: u64) -> ParameterSpan {
    ParameterSpan { key: key.into(), parameter_offset, buffer_offset, length }
}

/// The usage of constants of programs; without `SHARING_IMMUTABLE` they may be written.
fn params(usage: BufferUsage) -> BufferParams {
    let memory_type = MemoryType::DEVICE_LOCAL;
    BufferParams {
        usage: BufferUsage::TRANSFER | BufferUsage::DISPATCH | usage,
        memory_type,
        ..BufferParams::default()
    }
}

fn provider(name: &str, mode: ContentsMode) -> IndexProvider {
    IndexProvider::new("model", ParameterIndex::open(fixture(name), mode).expect("reads"))
}

/// Loads spans and waits for them.
fn load(
    provider: &dyn ParameterProvider,
    device: &Arc<dyn Device>,
    usage: BufferUsage,
    spans: &[ParameterSpan],
) -> Result<Vec<Arc<dyn Buffer>>> {
    let done = Fence::create();
    let loaded = provider.load(device, QueueAffinity::ANY, &[], done.timepoints(), "model", params(usage), spans)?;
    done.wait(None)?;
    Ok(loaded)
}

fn contents(buffer: &Arc<dyn Buffer>) -> Vec<u8> {
    buffer_to_vec(&**buffer, buffer.byte_length()).expect("can be read")
}

#[test]
fn programs_compute_with_parameters() -> Result<()> {
    let device = device();
    for name in ARCHIVES {
        for mode in [ContentsMode::Mmap, ContentsMode::File, ContentsMode::Preload] {
            let modules = [
                Module::native(HalModule::new(vec![device.clone()]))?,
                Module::native(IoParameters::new([Arc::new(provider(name, mode)) as Arc<dyn ParameterProvider>]))?,
                Module::from_file(fixture("model.vmfb"))?,
            ];
            let context = Context::new(modules)?;
            let call = |function: &str, shape: &[u64], values: &[f32]| -> Result<Vec<u8>> {
                let input = BufferView::from_bytes(&*device, shape, ElementType::FLOAT_32, &floats(values))?;
                let inputs = if values.is_empty() { vec![] } else { vec![Value::from(input.into_ref())] };
                let results = context.function(function)?.call(&inputs)?;
                results[0].object::<BufferViewRef>().expect("is a tensor").to_vec()
            };
            assert_eq!(call("forward", &[1, 4], &[1.0, 2.0, 3.0, 4.0])?, floats(&[10.5, 12.0, 17.0, 25.5]), "{name}");
            // A variable begins as its parameter, which stays as it is.
            assert_eq!(call("bump", &[4], &[1.0; 4])?, floats(&[2.5; 4]), "{name}");
            assert_eq!(call("bump", &[4], &[1.0; 4])?, floats(&[3.5; 4]), "{name}");
            assert_eq!(call("gather", &[0], &[])?, floats(&[-0.5, -0.25, -0.5, 2.0, 8.0, 1.5]), "{name}");
            let refused = call("scatter", &[3], &[1.0; 3]).expect_err("the archive is read only");
            assert_eq!(refused.code(), StatusCode::PermissionDenied, "{refused}");
        }
    }
    Ok(())
}

#[test]
fn programs_without_a_provider_say_so() -> Result<()> {
    let modules = [
        Module::native(HalModule::new(vec![device()]))?,
        Module::native(IoParameters::new([]))?,
        Module::from_file(fixture("model.vmfb"))?,
    ];
    let status = Context::new(modules).expect_err("there are no parameters");
    assert_eq!(status.code(), StatusCode::NotFound);
    assert!(status.message().contains("the scope `model`"), "{status}");
    Ok(())
}

#[test]
fn constants_are_used_in_place_where_they_are_aligned() -> Result<()> {
    let immutable = BufferUsage::SHARING_IMMUTABLE;
    let spans = [span("w", 0, 0, 64), span("b", 0, 0, 16), span("w", 32, 0, 8)];
    let allocated = |mode, usage| -> Result<u64> {
        let device = device();
        let loaded = load(&provider("weights.gguf", mode), &device, usage, &spans)?;
        assert_eq!(contents(&loaded[1]), floats(&[0.5, -0.5, 2.0, 8.0]));
        assert_eq!(contents(&loaded[2]), floats(&[1.0, 1.25]));
        if usage == immutable && mode != ContentsMode::File {
            assert_eq!(loaded[0].allowed_access(), MemoryAccess::READ);
        }
        let statistics = device.allocator().statistics();
        Ok(statistics.device_bytes_allocated + statistics.host_bytes_allocated)
    };
    // The last one is not aligned to what kernels want.
    assert_eq!(allocated(ContentsMode::Mmap, immutable)?, 8);
    assert_eq!(allocated(ContentsMode::Preload, immutable)?, 8);
    assert_eq!(allocated(ContentsMode::File, immutable)?, 88);
    assert_eq!(allocated(ContentsMode::Mmap, BufferUsage::default())?, 88);
    Ok(())
}

#[test]
fn loads_wait_for_their_fence_without_blocking() -> Result<()> {
    let device = device();
    let provider = provider("weights.irpa", ContentsMode::File);
    let (start, done) = (Fence::create(), Fence::create());
    let spans = [span("w", 0, 0, 64), span("state", 0, 0, 16)];
    let (wait, signal) = (start.timepoints(), done.timepoints());
    let loaded =
        provider.load(&device, QueueAffinity::ANY, wait, signal, "model", params(BufferUsage::default()), &spans)?;
    let target = buffer_from_bytes(&*device, &[0xAA; 24])?;
    let gathered = Fence::create();
    let spans = [span("b", 4, 0, 8), span("state", 0, 16, 8)];
    provider.gather(&device, QueueAffinity::ANY, wait, gathered.timepoints(), "model", &target, &spans)?;
    assert!(!done.query()? && !gathered.query()?);
    assert_eq!(contents(&target), [0xAA; 24]);
    start.signal()?;
    done.wait(None)?;
    gathered.wait(None)?;
    assert_eq!(contents(&loaded[1]), floats(&[1.5; 4]));
    assert_eq!(contents(&target), [floats(&[-0.5, 2.0]), vec![0xAA; 8], floats(&[1.5, 1.5])].concat());
    Ok(())
}

#[test]
fn failures_reach_those_who_wait() -> Result<()> {
    let device = device();
    let provider = provider("weights.irpa", ContentsMode::Mmap);
    let failing = |spans: &[ParameterSpan], code: StatusCode, part: &str| {
        let done = Fence::create();
        let (affinity, params) = (QueueAffinity::ANY, params(BufferUsage::default()));
        let failed = provider.load(&device, affinity, &[], done.timepoints(), "model", params, spans);
        let failed = failed.expect_err(part);
        assert_eq!(failed.code(), code, "{failed}");
        assert!(failed.message().contains(part), "{failed}");
        assert_eq!(done.wait(None).expect_err(part).message(), failed.message());
    };
    failing(&[span("w", 0, 0, 64), span("v", 0, 0, 1)], StatusCode::NotFound, "no parameter `v`");
    failing(&[span("w", 60, 0, 8)], StatusCode::OutOfRange, "8 bytes at 60 of parameter `w`, which has 64");
    failing(&[span("w", u64::MAX, 0, 8)], StatusCode::OutOfRange, "of parameter `w`");
    failing(&[span("w", 8, 0, u64::MAX)], StatusCode::OutOfRange, "of parameter `w`");
    // A failed wait is the cause of what comes after it.
    let (start, done) = (Fence::create(), Fence::create());
    let target = buffer_from_bytes(&*device, &[0; 8])?;
    let (wait, signal) = (start.timepoints(), done.timepoints());
    provider.gather(&device, QueueAffinity::ANY, wait, signal, "model", &target, &[span("b", 0, 0, 8)])?;
    start.fail(&Status::data_loss("the cause"));
    assert_eq!(done.wait(None).expect_err("failed").message(), "the cause");
    Ok(())
}

#[test]
fn ranges_are_written_to_files_that_allow_it() -> Result<()> {
    let device = device();
    let folder = tempfile::tempdir().expect("can be made");
    let path = folder.path().join("weights.irpa");
    std::fs::copy(fixture("weights.irpa"), &path).expect("can be copied");
    let index = ParameterIndex::read(ArchiveFormat::Irpa, &Contents::open_writable(&path)?)?;
    let provider = IndexProvider::new("model", index);
    let source = buffer_from_bytes(&*device, &floats(&[10.0, 20.0, 30.0]))?;
    let done = Fence::create();
    let spans = [span("w", 8, 0, 8), span("b", 12, 8, 4)];
    provider.scatter(&device, QueueAffinity::ANY, &[], done.timepoints(), &source, "model", &spans)?;
    done.wait(None)?;
    let loaded = load(&provider, &device, BufferUsage::default(), &[span("w", 0, 0, 20), span("b", 8, 0, 8)])?;
    assert_eq!(contents(&loaded[0]), floats(&[-1.0, -0.75, 10.0, 20.0, 0.0]));
    assert_eq!(contents(&loaded[1]), floats(&[2.0, 30.0]));
    let done = Fence::create();
    let splat = [span("state", 0, 0, 4)];
    let refused = provider.scatter(&device, QueueAffinity::ANY, &[], done.timepoints(), &source, "model", &splat);
    assert_eq!(refused.expect_err("is a pattern").code(), StatusCode::PermissionDenied);
    Ok(())
}

#[test]
fn patterns_are_repeated_from_any_offset() -> Result<()> {
    let device = device();
    let mut index = ParameterIndex::default();
    for length in [1, 2, 4, 8, 16_u8] {
        let pattern: Vec<u8> = (1..=length).collect();
        let storage = ParameterStorage::Splat(Splat::new(&pattern)?);
        index.add(Parameter { key: length.to_string(), length: 40_000, storage, metadata: vec![], tensor: None })?;
    }
    let provider = IndexProvider::new("", index);
    for length in [1, 2, 4, 8, 16_u64] {
        for (offset, target, size) in [(0, 0, 32), (3, 8, 32), (5, 3, 17), (16, 1, 20_001), (1, 0, 0), (39_999, 7, 1)] {
            let buffer = buffer_from_bytes(&*device, &[0xEE; 20_010])?;
            let done = Fence::create();
            let spans = [span(&length.to_string(), offset, target, size)];
            provider.gather(&device, QueueAffinity::ANY, &[], done.timepoints(), "", &buffer, &spans)?;
            done.wait(None)?;
            let mut expected = vec![0xEE; 20_010];
            for at in 0..size {
                expected[(target + at) as usize] = ((offset + at) % length) as u8 + 1;
            }
            assert!(contents(&buffer) == expected, "pattern of {length} bytes at {offset} to {target}, {size} bytes");
        }
    }
    Ok(())
}

#[test]
fn many_parameters_share_a_few_timelines() -> Result<()> {
    let device = device();
    let provider = provider("weights.safetensors", ContentsMode::File);
    let spans: Vec<_> = (0..100).map(|number| span("w", number % 16 * 4, 0, 4)).collect();
    let loaded = load(&provider, &device, BufferUsage::default(), &spans)?;
    for (number, buffer) in loaded.iter().enumerate() {
        assert_eq!(contents(buffer), floats(&[(number % 16) as f32 * 0.25 - 1.0]));
    }
    assert!(load(&provider, &device, BufferUsage::default(), &[])?.is_empty());
    provider.notify(ParameterProviderSignal::LowMemory)?;
    assert_eq!(load(&provider, &device, BufferUsage::default(), &spans[..1])?.len(), 1);
    Ok(())
}

/// Parameters in memory whose names are their lengths.
#[derive(Debug, Default)]
struct Own(Mutex<Vec<(String, u64, Vec<u8>)>>);

impl ParameterSource for Own {
    fn length(&self, key: &str) -> Option<u64> {
        key.parse().ok()
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        if key == "13" {
            return Err(Status::data_loss("not this one"));
        }
        (offset..).zip(out).for_each(|(at, byte)| *byte = at as u8);
        Ok(())
    }

    fn write(&self, key: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.lock().expect("nobody panicked").push((key.into(), offset, bytes.to_vec()));
        Ok(())
    }
}

#[test]
fn sources_of_the_host_are_asked_on_the_queue() -> Result<()> {
    let device = device();
    let provider = SourceProvider::new("own", Own::default());
    assert!(provider.query_support("own") && !provider.query_support(""));
    let long = 3 << 20;
    let spans = [span("8", 2, 0, 4), span(&long.to_string(), 0, 0, long)];
    let loaded = load(&provider, &device, BufferUsage::SHARING_IMMUTABLE, &spans)?;
    assert_eq!(contents(&loaded[0]), [2, 3, 4, 5]);
    assert!(contents(&loaded[1]).iter().enumerate().all(|(at, byte)| *byte == at as u8));
    let failed = load(&provider, &device, BufferUsage::default(), &[span("13", 0, 0, 1)]);
    assert_eq!(failed.expect_err("fails on the queue").message(), "not this one");
    assert!(load(&provider, &device, BufferUsage::default(), &[span("8", 4, 0, 5)]).is_err());
    assert!(load(&provider, &device, BufferUsage::default(), &[span("none", 0, 0, 0)]).is_err());
    Ok(())
}

#[test]
fn sources_of_the_host_are_written() -> Result<()> {
    let device = device();
    let provider = SourceProvider::new("", Own::default());
    let buffer = buffer_from_bytes(&*device, &[1, 2, 3, 4])?;
    let done = Fence::create();
    let spans = [span("8", 5, 1, 3)];
    let points: &[Timepoint] = done.timepoints();
    provider.scatter(&device, QueueAffinity::ANY, &[], points, &buffer, "", &spans)?;
    done.wait(None)
}

/// Counts what it is told.
#[derive(Debug, Default)]
struct Counts(AtomicU64, AtomicU64);

impl Progress for Counts {
    fn scheduled(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn done(&self, bytes: u64) {
        self.1.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[test]
fn progress_of_reads_is_told() -> Result<()> {
    let counts = Arc::new(Counts::default());
    let provider = provider("weights.irpa", ContentsMode::File).with_progress(counts.clone());
    load(&provider, &device(), BufferUsage::default(), &[span("w", 0, 0, 64), span("b", 0, 0, 8)])?;
    assert_eq!((counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed)), (72, 72));
    Ok(())
}
