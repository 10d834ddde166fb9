//! The descriptions of devices, and how hosts set devices up.

use std::sync::Arc;

use vireo::StatusCode;
use vireo::hal::*;

use super::*;

pub fn devices_describe_themselves(backend: &Backend) {
    let device = backend.device();
    assert!(!device.id().is_empty());
    assert_eq!(device.query_i64("hal.device.id", device.id()).unwrap(), 1);
    assert_eq!(device.query_i64("hal.device.id", "*").unwrap(), 1);
    if backend.runs_kernels {
        assert_eq!(device.query_i64("hal.device.id", "no such device").unwrap(), 0);
        assert_eq!(device.query_i64("hal.executable.format", "no such format").unwrap(), 0);
    }
    assert!(!device.supports("device.no_such_method"));
    assert!(device.query_i64("hal.device", "concurrency").unwrap() >= 1);
    assert!(device.query_i64("hal.dispatch", "concurrency").unwrap() >= 1);
    for (category, key) in [("hal.device", "colour"), ("", ""), ("hal.cpu", "no such feature")] {
        assert_eq!(code(device.query_i64(category, key)), StatusCode::NotFound, "{category} :: {key}");
    }
    let capabilities = device.capabilities();
    assert!(capabilities.flags.contains(DeviceCapabilityBits::CONCURRENT_SAFE), "{capabilities:?}");
    device.trim().unwrap();
    device.queue_flush(ANY).unwrap();
}

pub fn allocators_are_replaced(backend: &Backend) {
    let device = backend.device();
    let limited: Arc<dyn Allocator> = Arc::new(HeapAllocator::with_limit(1000));
    device.replace_allocator(&limited).unwrap();
    assert_eq!(code(device.allocator().allocate_buffer(params(), 1001)), StatusCode::ResourceExhausted);
    let line = timeline(&*device);
    let transient =
        device.queue_alloca(ANY, &[], &[point(&line, 1)], None, params(), 600, AllocaFlags::empty()).unwrap();
    line.wait(1, in_time()).unwrap();
    assert_eq!(limited.statistics().device_bytes_allocated, 600);
    assert_eq!(code(device.allocator().allocate_buffer(params(), 600)), StatusCode::ResourceExhausted);
    assert_eq!(code(device.replace_allocator(&limited)), StatusCode::FailedPrecondition);
    drop(transient);
}

pub fn topologies_are_assigned_once(backend: &Backend) {
    let device = backend.device();
    assert_eq!(device.topology_info(), DeviceTopologyInfo::default());
    let edge = TopologyEdge { scheduling_word: 5, interop_word: 1 << 63 };
    device.refine_topology_edge(&device, edge).unwrap();
    let info = DeviceTopologyInfo { topology_index: 3, can_wait_from: 0xff, ..DeviceTopologyInfo::default() };
    device.assign_topology_info(info).unwrap();
    assert_eq!(device.topology_info(), info);
    assert_eq!(code(device.assign_topology_info(info)), StatusCode::FailedPrecondition);
}
