"""`vireo.compat.iree`: memory of devices, queues, semaphores, fences, command buffers, DLPack, event loops, traces."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vireo
import vireo.compat.iree as rt

LOCAL = rt.MemoryType.DEVICE_LOCAL
DEFAULT = rt.BufferUsage.DEFAULT


@pytest.fixture
def hal(device: str) -> rt.HalDevice:
    return rt.get_device(device)


def allocate(hal: rt.HalDevice, size: int) -> rt.HalBuffer:
    return hal.allocator.allocate_buffer(memory_type=LOCAL, allowed_usage=DEFAULT, allocation_size=size)


def content(buffer: rt.HalBuffer) -> bytes:
    return bytes(memoryview(buffer.map()))  # type: ignore[arg-type]


def test_buffers(hal: rt.HalDevice) -> None:
    allocator = hal.allocator
    allocator.trim()
    buffer = allocate(hal, 13)
    kind = "memory_type=DEVICE_LOCAL|HOST_VISIBLE, allowed_access=ALL"
    usage = "allowed_usage=TRANSFER|DISPATCH_STORAGE|MAPPING|MAPPING_PERSISTENT"
    assert repr(buffer) == f"<HalBuffer 13 bytes (at offset 0 into 13), {kind}, {usage}>"
    assert (buffer.byte_length(), buffer.memory_type()) == (13, 50)
    view = rt.HalBufferView(buffer, (1, 2), rt.HalElementType.INT_16)
    assert repr(view) == f"<HalBufferView (1, 2), element_type=0x10000010, 13 bytes (at offset 0 into 13), {kind}, {usage}>"
    assert (view.shape, view.byte_length, view.element_type) == ([1, 2], 4, int(rt.HalElementType.INT_16))
    assert view.get_buffer() == buffer and view == view and view != buffer
    assert buffer.create_view(rt.Shape([3]), 4).byte_length == 12
    for wrong in (
        lambda: rt.HalBufferView(buffer, (100,), rt.HalElementType.INT_16),
        lambda: rt.HalBufferView(buffer, (2**63, 2**63), rt.HalElementType.INT_16),
        lambda: buffer.create_view(rt.Shape([4]), 4),
        lambda: buffer.create_view(rt.Shape([1]), 2**31),
        lambda: buffer.fill_zero(8, 13),
        lambda: buffer.fill_zero(2**64 - 1, 2),
        lambda: rt.HalBufferView(buffer, (-1,), rt.HalElementType.INT_16),
        lambda: rt.HalBufferView(buffer, (1,), -1),
        lambda: allocate(hal, -1),
        lambda: allocate(hal, 2**62),
        lambda: allocator.allocate_buffer(1 << 20, DEFAULT, 1),
    ):
        with pytest.raises((IndexError, ValueError, OverflowError, RuntimeError, MemoryError)):
            wrong()
    memoryview(buffer.map())[:] = bytes(range(13))  # type: ignore[arg-type]
    buffer.fill_zero(1, 11)
    assert content(buffer) == bytes([0] * 12 + [12])


def test_mapped_memory(hal: rt.HalDevice) -> None:
    mapped = allocate(hal, 16).map()
    before = sys.getrefcount(mapped)
    array = mapped.asarray([2, 2], np.dtype("int32"))
    array[:] = 7
    del array
    assert sys.getrefcount(mapped) == before
    array = mapped.asarray([4], np.int32)
    del mapped
    gc.collect()
    assert array.tolist() == [7] * 4
    for shape, dtype in (([5], np.int32), ([2**40], np.int8), ([-1], np.int8), ([1], object)):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            allocate(hal, 16).map().asarray(shape, dtype)


def test_copies_of_arrays(hal: rt.HalDevice) -> None:
    allocator = hal.allocator
    copy = lambda data, **keywords: allocator.allocate_buffer_copy(LOCAL, DEFAULT, hal, data, **keywords)  # noqa: E731
    assert content(copy(b"abc")) == b"abc" and content(copy(np.int16(3))) == b"\x03\x00"
    view = copy(np.arange(6, dtype=np.int8).reshape(2, 3), element_type=rt.HalElementType.SINT_8)
    assert view.shape == [2, 3]
    for wrong, error in ((3, TypeError), (np.arange(6).reshape(2, 3).T, ValueError), ("a", TypeError)):
        with pytest.raises(error):
            copy(wrong)
    with pytest.raises(IndexError):
        copy(b"abcd", element_type=rt.HalElementType.INT_32)
    staging = allocator.allocate_host_staging_buffer_copy(hal, np.int32(0))
    assert "allowed_usage=TRANSFER|MAPPING|MAPPING_PERSISTENT" in repr(staging)
    kinds = dict(memory_type=LOCAL, allowed_usage=DEFAULT, intended_usage=DEFAULT, allocation_size=1024)
    assert allocator.query_buffer_compatibility(**kinds) & int(rt.BufferCompatibility.IMPORTABLE)  # type: ignore[arg-type]
    if allocator.has_statistics:
        assert allocator.statistics["device_bytes_allocated"] > 0 and "HOST_LOCAL" in allocator.formatted_statistics


@pytest.mark.parametrize("offset", [0, 1])
def test_memory_of_the_host(hal: rt.HalDevice, offset: int) -> None:
    kind = rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE
    memory = np.zeros(200, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    target = memory[start : start + 64]
    imported = hal.allocator.import_host_allocation(target, kind, rt.BufferUsage.TRANSFER_TARGET)
    source = hal.allocator.allocate_buffer_copy(LOCAL, DEFAULT, hal, np.arange(64, dtype=np.uint8))
    semaphore = hal.create_semaphore(0)
    hal.queue_copy(source, imported, [(semaphore, 0)], rt.HalFence.create_at(semaphore, 1))  # type: ignore[arg-type]
    assert semaphore.wait(1) and target.tolist() == list(range(64))
    with pytest.raises(BufferError):
        hal.allocator.import_host_allocation(b"abc", kind, rt.BufferUsage.TRANSFER_TARGET)
    if offset:
        with pytest.raises(RuntimeError, match="not aligned"):
            hal.allocator.import_host_allocation(target, kind, DEFAULT)
    lives = weakref.ref(target)
    del target, memory
    assert lives() is not None
    del imported, source
    gc.collect()


def test_semaphores(hal: rt.HalDevice) -> None:
    semaphore = hal.create_semaphore(1)
    assert semaphore.query() == 1 and semaphore.wait(1, deadline=0)
    assert not semaphore.wait(2, deadline=0) and not semaphore.wait(2, timeout=1000)
    with pytest.raises(ValueError, match="not both"):
        semaphore.wait(1, timeout=0, deadline=0)
    threading.Timer(0.15, semaphore.signal, [2]).start()
    assert semaphore.wait(2, timeout=10 * 10**9)
    with pytest.raises((ValueError, RuntimeError)):
        semaphore.signal(1)
    for value in (-1, 2**64):
        with pytest.raises(OverflowError):
            semaphore.signal(value)
    threading.Timer(0.15, semaphore.fail, ["a reason"]).start()
    with pytest.raises(RuntimeError, match="^asynchronous semaphore failure: UNKNOWN; a reason"):
        semaphore.wait(3)
    with pytest.raises(RuntimeError, match="^synchronous semaphore failure: UNKNOWN; a reason"):
        semaphore.wait(3, deadline=0)
    with pytest.raises(RuntimeError, match="a reason"):
        semaphore.query()


def test_an_interrupt_ends_a_wait(hal: rt.HalDevice) -> None:
    import signal

    # A job in the background ignores interrupts, and so does Python then.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            hal.create_semaphore(0).wait(1)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_fences(hal: rt.HalDevice) -> None:
    first, second = hal.create_semaphore(0), hal.create_semaphore(0)
    fence = rt.HalFence(2)
    assert fence.wait() and fence.timepoint_count == 0
    fence.insert(first, 1)
    fence.insert(first, 2)
    assert fence.timepoint_count == 1
    before = fence.ref
    fence.extend(rt.HalFence.create_at(second, 2))
    assert fence.timepoint_count == 2 and fence.ref != before and fence.ref == fence.ref
    assert rt.HalFence.join([fence, rt.HalFence.create_at(second, 3)]).timepoint_count == 2
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        fence.insert(hal.create_semaphore(0), 1)
    assert not fence.wait(deadline=0)
    fence.signal()
    assert fence.wait(timeout=0) and (first.query(), second.query()) == (2, 2)
    broken = rt.HalFence.create_at(first, 3)
    broken.fail("a reason")
    with pytest.raises(RuntimeError, match="^synchronous fence failure: UNKNOWN; a reason"):
        broken.wait(deadline=0)


def test_queues(hal: rt.HalDevice) -> None:
    semaphore = hal.create_semaphore(0)
    buffer = hal.queue_alloca(1024, wait_semaphores=[(semaphore, 0)], signal_semaphores=[(semaphore, 1)])
    hal.queue_dealloca(buffer, wait_semaphores=rt.HalFence.create_at(semaphore, 1), signal_semaphores=[(semaphore, 2)])
    assert semaphore.wait(2)
    small, large = allocate(hal, 12), allocate(hal, 13)
    with pytest.raises(ValueError, match="length must be less than or equal"):
        hal.queue_copy(large, small, [], [])
    for wrong in ([1], 3, [(semaphore,)], [(1, semaphore)], [[semaphore, 1]], None):
        with pytest.raises(TypeError, match="expected a HalFence"):
            hal.queue_alloca(16, wrong, [])  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        hal.queue_alloca(-1, [], [])
    assert content(allocate(hal, 0)) == b""


def test_command_buffers(hal: rt.HalDevice) -> None:
    commands = rt.HalCommandBuffer(hal)
    with pytest.raises(RuntimeError, match="FAILED_PRECONDITION"):
        commands.begin()
    source, target = allocate(hal, 16), allocate(hal, 16)
    commands.fill(source, np.int32(5), 0, 12)
    commands.fill(source, b"\xff\xff", 12)
    for wrong in (
        lambda: commands.fill(source, b"abc"),
        lambda: commands.fill(source, b"abcd", 0, 20),
        lambda: commands.fill(source, b"abcd", 32),
        lambda: commands.copy(source, target, 20),
        lambda: commands.copy(source, target, 0, 8),
        lambda: commands.copy(source, target, length=2**64 - 1, source_offset=8),
        lambda: commands.copy(source, target, -1),
    ):
        with pytest.raises((ValueError, IndexError, OverflowError)):
            wrong()
    commands.copy(source, target, 8, 0, 8, end=True)
    with pytest.raises(RuntimeError, match="FAILED_PRECONDITION"):
        commands.end()
    semaphore = hal.create_semaphore(0)
    for value in (1, 2):
        hal.queue_execute(commands, [(semaphore, value - 1)], [(semaphore, value)])
    assert semaphore.wait(2) and content(target) == b"\x05\0\0\0\xff\xff\xff\xff" + bytes(8)
    assert commands.ref.isinstance(rt.HalCommandBuffer) and commands.ref.deref(rt.HalCommandBuffer) == commands
    unbegun = rt.HalCommandBuffer(hal, begin=False)
    unbegun.begin()
    with pytest.raises((ValueError, RuntimeError)):
        hal.queue_execute(unbegun, [], [])


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint64", "bool", "complex64"])
def test_dlpack(hal: rt.HalDevice, dtype: str) -> None:
    host = (np.arange(12) % 2).astype(dtype).reshape(3, 4)
    view = rt.asdevicearray(hal, host)._buffer_view
    aligned = view.map().asarray(host.shape, host.dtype)
    imported = hal.from_dlpack_capsule(aligned.__dlpack__())
    assert imported.shape == [3, 4] and np.array_equal(rt.DeviceArray(hal, imported).to_host(), host)

    class Producer:
        def __dlpack__(self, stream: Any = None) -> Any:
            return hal.create_dlpack_capsule(imported, 1, 0)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    again = np.from_dlpack(Producer())
    assert np.shares_memory(again, aligned) and np.array_equal(again, host)
    capsule = hal.create_dlpack_capsule(view, 1, 0)
    hal.from_dlpack_capsule(capsule)
    with pytest.raises(ValueError, match="been used"):
        hal.from_dlpack_capsule(capsule)
    with pytest.raises(NotImplementedError, match="device"):
        hal.create_dlpack_capsule(view, 2, 0)
    with pytest.raises(ValueError):
        hal.from_dlpack_capsule(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="row by row"):
        hal.from_dlpack_capsule(aligned.T.__dlpack__())


def test_tools_of_devices(hal: rt.HalDevice) -> None:
    hal.begin_profiling()
    hal.flush_profiling()
    hal.end_profiling()
    with pytest.raises(ValueError, match="profile sink"):
        hal.begin_profiling(mode="queue-events")
    with pytest.raises(NotImplementedError, match="UNIMPLEMENTED"):
        hal.begin_external_capture("renderdoc")
    timepoint = rt.HalExternalTimepoint()
    assert (timepoint.type, timepoint.flags, timepoint.compatibility) == (0, 0, 0)
    with pytest.raises(ValueError, match="the timepoint is"):
        timepoint.cuda_event
    for call in (
        lambda: hal.create_semaphore(0).import_timepoint(1, timepoint),
        lambda: hal.create_semaphore(0).export_timepoint(1, rt.ExternalTimepointType.CUDA_EVENT, 0, timepoint),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_event_loops(hal: rt.HalDevice) -> None:
    async def main() -> None:
        bridge = rt.HalDeviceLoopBridge(hal, asyncio.get_running_loop())
        first, second = hal.create_semaphore(0), hal.create_semaphore(0)
        futures = [bridge.on_semaphore(first, 1, "a"), bridge.on_semaphore(second, 1, "b"), bridge.on_semaphore(second, 2, "c")]
        futures[0].add_done_callback(lambda future: second.signal(1))
        futures[1].add_done_callback(lambda future: second.signal(2))
        threading.Timer(0.05, first.signal, [1]).start()
        assert await asyncio.gather(*futures) == ["a", "b", "c"]
        assert await bridge.on_semaphore(first, 1, None) is None
        cancelled = bridge.on_semaphore(first, 5, None)
        cancelled.cancel()
        failing = bridge.on_semaphore(second, 5, None)
        second.fail("a reason")
        with pytest.raises(RuntimeError, match="UNKNOWN; a reason"):
            await failing
        bridge.stop()
        with pytest.raises((RuntimeError, vireo.Error)):
            bridge.on_semaphore(first, 1, None)

    asyncio.run(main())


def test_futures_of_a_loop_that_is_closed(hal: rt.HalDevice) -> None:
    loop = asyncio.new_event_loop()
    semaphore = hal.create_semaphore(0)
    bridge = rt.HalDeviceLoopBridge(hal, loop)
    future = bridge.on_semaphore(semaphore, 1, None)
    loop.close()
    semaphore.signal(1)
    time.sleep(0.05)
    assert not future.done()


def test_traces(models: Path) -> None:
    traced: list[tuple[str, list[Any]]] = []
    config = rt.Config("local-sync")

    def run(callback: Any) -> None:
        sink = rt.HalModuleDebugSink(callback)
        assert sink.buffer_view_trace_callback is callback
        module = rt.VmModule.mmap(config.vm_instance, models / "abs_traced.vmfb")
        hal = rt.create_hal_module(config.vm_instance, config.device, debug_sink=sink)
        context = rt.VmContext(config.vm_instance, modules=[hal, module])
        function = module.lookup_function("abs")
        assert function is not None
        rt.FunctionInvoker(context, config.device, function)(np.float32(-2))

    def collect(key: str, views: Any) -> None:
        traced.append((key, [rt.DeviceArray(config.device, view).to_host().tolist() for view in views]))

    run(collect)
    assert len(traced) >= 1 and all(isinstance(key, str) for key, _ in traced)
    assert -2.0 in [value for _, values in traced for value in values]

    def refuse(key: str, views: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(RuntimeError, match="UNKNOWN; KeyError: 'mine'") as raised:
        run(refuse)
    assert isinstance(raised.value.__cause__, KeyError)
    run(None)
    with pytest.raises(TypeError, match="expected a function"):
        rt.HalModuleDebugSink(3)  # type: ignore[arg-type]


def test_a_sink_that_its_function_refers_to_is_collected() -> None:
    class Callback:
        def __call__(self, key: str, views: Any) -> None: ...

    callback = Callback()
    callback.sink = rt.HalModuleDebugSink(callback)  # type: ignore[attr-defined]
    module = rt.create_hal_module(rt.VmInstance(), rt.get_device("local-sync"), debug_sink=callback.sink)  # type: ignore[attr-defined]
    lives = weakref.ref(callback)
    del callback
    gc.collect()
    assert lives() is not None
    del module
    gc.collect()
    assert lives() is None
