//! The device suite on every backend of this build.
//!
//! `coverage` checks that no method of the spec is forgotten by it, and `flags` no bit of a flag.

mod coverage;
mod flags;

use std::sync::Arc;

use vireo::hal::observe::{Observation, Recording, Trace, Validate};
use vireo::hal::plugin::loopback::through;
use vireo::hal::*;
use vireo_device_suite::{Backend, on};

use crate::forwarding::{Deep, Wrap};
use crate::models::recorded::eager_task;

fn create(uri: &str) -> Arc<dyn Device> {
    create_device(uri).unwrap_or_else(|error| panic!("{uri}: {error}"))
}

/// A device that is called through the vtables of other libraries.
fn behind_vtables(device: &Arc<dyn Device>) -> Arc<dyn Device> {
    through(device).expect("a device of this build")
}

const LOCAL_SYNC: Backend =
    Backend { name: "local-sync", create: || create("local-sync"), runs_kernels: true, is_gpu: false, queues: 1 };
const BEHIND_VTABLES: Backend = Backend { create: || behind_vtables(&create("local-sync")), ..LOCAL_SYNC };
const LOCAL_TASK: Backend = Backend { name: "local-task", create: || create("local-task"), ..LOCAL_SYNC };

/// `amdgpu` over the software agent, which interprets the kernels.
const AMDGPU: Backend = Backend { name: "amdgpu", create: || amdgpu(""), is_gpu: true, ..LOCAL_SYNC };

/// A device of the driver `amdgpu` over the software agent.
fn amdgpu(params: &str) -> Arc<dyn Device> {
    let amdgpu = AmdgpuConfig { agent: AmdgpuAgent::Software, ..AmdgpuConfig::default() };
    let registry = BuiltinOptions { amdgpu, ..BuiltinOptions::default() }.registry();
    let uri = format!("amdgpu{params}");
    registry.create_device(&uri).unwrap_or_else(|error| panic!("{uri}: {error}"))
}

/// `cuda` over the software driver, which interprets the kernels.
const CUDA: Backend = Backend { name: "cuda", create: || cuda(""), is_gpu: true, ..LOCAL_SYNC };

/// A device of the driver `cuda` over the software driver.
fn cuda(params: &str) -> Arc<dyn Device> {
    let cuda = CudaConfig { library: CudaLibrary::Software, ..CudaConfig::default() };
    let registry = BuiltinOptions { cuda, ..BuiltinOptions::default() }.registry();
    let uri = format!("cuda{params}");
    registry.create_device(&uri).unwrap_or_else(|error| panic!("{uri}: {error}"))
}

/// `local-sync` called through its vtables, which see every call, in a wrapper that overrides nothing.
const IN_A_WRAPPER: Backend = Backend {
    name: "local-sync in a wrapper",
    create: || Wrap::wrap(behind_vtables(&create("local-sync"))),
    ..LOCAL_SYNC
};

/// `local-sync` in a wrapper that wraps what the device makes, too.
fn wrapped() -> Arc<dyn Device> {
    Arc::new(Forward(Deep(create("local-sync"))))
}

/// A device that a trace observes. The lines are made and dropped.
fn traced(uri: &str) -> Arc<dyn Device> {
    Observation::new(Trace::new(|line| assert!(line.contains(" -> "), "{line}"))).device(&create(uri))
}

/// A device whose calls are validated. It does all that it does without.
fn validated(uri: &str) -> Arc<dyn Device> {
    Observation::new(Validate::new()).device(&create(uri))
}

/// A device whose calls are recorded, and forgotten.
fn recorded() -> Arc<dyn Device> {
    Observation::new(Recording::default().observer()).device(&create("local-sync"))
}

/// A device that keeps freed memory.
fn caching() -> Arc<dyn Device> {
    let device = create("local-sync");
    let spec: AllocatorSpec = "caching".parse().expect("is one");
    wrap_allocator(&*device, |inner| spec.wrap(inner)).expect("has allocated nothing");
    device
}

on!(local_sync, LOCAL_SYNC);
on!(local_sync_behind_vtables, BEHIND_VTABLES);
on!(local_task, LOCAL_TASK);
// Workers run all operations and share all workgroups, however little there is to do.
on!(local_task_eager, Backend { name: "eager local-task", create: eager_task, ..LOCAL_SYNC });
on!(local_task_behind_vtables, Backend { create: || behind_vtables(&create("local-task")), ..LOCAL_TASK });
on!(local_sync_in_a_wrapper, IN_A_WRAPPER);
on!(local_sync_in_wrappers, Backend { name: "wrapped local-sync", create: wrapped, ..LOCAL_SYNC });
on!(local_sync_traced, Backend { name: "traced local-sync", create: || traced("local-sync"), ..LOCAL_SYNC });
on!(local_task_traced, Backend { name: "traced local-task", create: || traced("local-task"), ..LOCAL_SYNC });
on!(local_sync_validated, Backend { name: "validated local-sync", create: || validated("local-sync"), ..LOCAL_SYNC });
on!(local_sync_recorded, Backend { name: "recorded local-sync", create: recorded, ..LOCAL_SYNC });
on!(local_sync_caching, Backend { name: "caching local-sync", create: caching, ..LOCAL_SYNC });
on!(local_task_validated, Backend { name: "validated local-task", create: || validated("local-task"), ..LOCAL_SYNC });
// The device that exports its vtables is the validated one, and the suite sees it as a driver of another library.
on!(
    local_sync_validated_behind_vtables,
    Backend {
        name: "validated local-sync behind vtables",
        create: || behind_vtables(&validated("local-sync")),
        ..LOCAL_SYNC
    }
);
on!(
    null_validated,
    Backend { name: "validated null", create: || validated("null"), runs_kernels: false, ..LOCAL_SYNC }
);
on!(null, Backend { name: "null", create: || create("null"), runs_kernels: false, ..LOCAL_SYNC });
on!(amdgpu, AMDGPU);
on!(
    amdgpu_validated,
    Backend { name: "validated amdgpu", create: || Observation::new(Validate::new()).device(&amdgpu("")), ..AMDGPU }
);
// Rings of the smallest size, which the operations of graphs fill again and again.
on!(
    amdgpu_with_queues,
    Backend {
        name: "amdgpu with four queues",
        create: || amdgpu("://?amdgpu_queues=4&amdgpu_queue_packets=256"),
        queues: 4,
        ..AMDGPU
    }
);
on!(cuda, CUDA);
on!(
    cuda_validated,
    Backend { name: "validated cuda", create: || Observation::new(Validate::new()).device(&cuda("")), ..CUDA }
);
on!(cuda_with_streams, Backend { name: "cuda with four streams", create: || cuda("://?streams=4"), queues: 4, ..CUDA });
on!(cuda_without_pools, Backend { name: "cuda without pools", create: || cuda("://?pools=off"), ..CUDA });
on!(cuda_with_graphs, Backend { name: "cuda with graphs", create: || cuda("://?graphs=always"), ..CUDA });
on!(
    cuda_with_graphs_of_streams,
    Backend {
        name: "cuda with graphs of four streams",
        create: || cuda("://?graphs=always&streams=4"),
        queues: 4,
        ..CUDA
    }
);
