"""`vireo.compat.iree`: modules, contexts, calls of programs, modules in Python, and ways to get the package."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vireo
import vireo.compat.iree as rt
from vireo.compat.iree import flags, system_setup


@pytest.fixture
def config() -> rt.Config:
    return rt.Config("local-sync")


@pytest.fixture
def multi(config: rt.Config, models: Path) -> Any:
    return rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, str(models / "multi.vmfb")), config)


def aligned(data: bytes, offset: int = 0) -> memoryview:
    memory = np.zeros(len(data) + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    memory[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return memoryview(memory)[start : start + len(data)]


def test_calls(multi: Any) -> None:
    x = np.ones(6, np.float32)
    tensor, factor, times = multi.scale(x, 2.0, 3)
    assert (tensor.to_host().tolist(), factor, times) == ([6.0] * 6, 6.0, 4)
    assert multi["collatz"](7) == (16, 287) and multi.nothing() is None
    assert multi.splat(5, 3).to_host().tolist() == [5, 5, 5]
    assert np.asarray(multi.scale(tensor, 1.0, 1)[0]).tolist() == [6.0] * 6
    assert repr(multi.scale).startswith("<VmFunction scale(0rfi_rfi), reflection = {'iree.abi.declaration': ")
    assert repr(multi).startswith("<BoundModule <VmModule module : [scale, ")
    with pytest.raises(AttributeError, match="missing"):
        multi.missing
    with pytest.raises(KeyError, match="no function 'missing'"):
        multi["missing"]


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("scale", (1,), ValueError, "expected 3 arguments but passed 1; `scale"),
        ("collatz", (7.5,), ValueError, "argument 0 of `collatz.0i_iI.`: expected i32, got 7.5"),
        ("collatz", (2**40,), ValueError, "expected i32, got 1099511627776"),
        ("collatz", (np.int32(7),), ValueError, "expected i32, got a !hal.buffer_view"),
        ("scale", (1, 2.0, 3), ValueError, "expected ref, got 1"),
        ("scale", (np.ones(6), 2.0, 3), ValueError, "f64"),
        ("scale", (np.ones(3, np.float32), 2.0, 3), ValueError, "INVALID_ARGUMENT"),
        ("scale", (rt.VmVariantList(0), 2.0, 3), ValueError, "INVALID_ARGUMENT"),
        ("require_positive", (-1,), RuntimeError, "FAILED_PRECONDITION; .*must be positive"),
        ("divide", (1, 0), Exception, "divi"),
    ],
)
def test_calls_that_fail(multi: Any, name: str, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        multi[name](*arguments)
    assert isinstance(raised.value, vireo.Error) and raised.value.code in str(raised.value)


def test_modules_of_memory(config: rt.Config, models: Path) -> None:
    data = (models / "abs.vmfb").read_bytes()
    instance = config.vm_instance
    with pytest.raises(ValueError, match="unaligned buffer"):
        rt.VmModule.wrap_buffer(instance, aligned(data, 1))
    with pytest.warns(UserWarning, match="Making copy of unaligned VmModule buffer"):
        rt.VmModule.from_buffer(instance, aligned(data, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rt.VmModule.from_flatbuffer(instance, aligned(data))
        rt.VmModule.from_buffer(instance, aligned(data, 1), warn_if_copy=False)
    assert rt.VmModule.copy_buffer(instance, (ctypes.c_char * len(data))(*data)).name == "module"
    buffer = aligned(data)
    module = rt.VmModule.copy_buffer(instance, buffer)
    assert module.stashed_flatbuffer_blob is buffer and (module.name, module.version) == ("module", 0)
    assert module.function_names == ["abs", "__init"]
    for broken in (b"", b"abc" * 100, data[:2000], "text", 3):
        with pytest.raises((ValueError, TypeError, vireo.Error)):
            rt.VmModule.copy_buffer(instance, broken)  # type: ignore[arg-type]
    for missing, error in (("/nowhere", FileNotFoundError), ("/tmp", IsADirectoryError)):
        with pytest.raises(error):
            rt.VmModule.mmap(instance, missing)


def test_functions_of_modules(config: rt.Config, models: Path) -> None:
    module = rt.VmModule.mmap(config.vm_instance, models / "multi.vmfb")
    function = module.lookup_function("collatz")
    assert function is not None
    assert (function.name, function.module_name, function.ordinal) == ("collatz", "module", 1)
    assert function.linkage == int(rt.Linkage.EXPORT) and list(function.reflection) == ["iree.abi.declaration"]
    assert module.lookup_function("missing") is None
    assert module.lookup_function("collatz", rt.Linkage.EXPORT_OPTIONAL) is not None
    with pytest.raises(NotImplementedError, match="not exported"):
        module.lookup_function("collatz", rt.Linkage.IMPORT)
    with pytest.raises(ValueError, match="required module 'zz'"):
        rt.VmModule.resolve_module_dependency(config.vm_instance, "zz", 1)


def test_what_is_called_at_the_end_of_a_module(config: rt.Config, models: Path) -> None:
    ends: list[str] = []

    class Closed(bytearray):
        def close(self) -> None:
            ends.append("closed")

    module = rt.load_vm_flatbuffer_file(str(models / "abs.vmfb"), driver="local-sync", destroy_callback=lambda: ends.append("file"))
    assert module.abs(np.float32(-2)).to_host() == 2
    del module
    gc.collect()
    assert ends == ["file"]
    buffer = aligned((models / "abs.vmfb").read_bytes())
    rt.VmModule.wrap_buffer(config.vm_instance, buffer, destroy_callback=lambda: ends.append("buffer"))
    assert ends == ["file", "buffer"]


def test_contexts(config: rt.Config, models: Path) -> None:
    context = rt.SystemContext(config=config)
    assert context.is_dynamic and context.modules.hal.name == "hal"
    state = rt.VmModule.mmap(context.instance, models / "multi.vmfb")
    context.add_vm_module(state)
    assert context.modules.module.collatz(7) == (16, 287)
    with pytest.raises(ValueError, match="a module 'module' already"):
        context.add_vm_module(state)
    with pytest.raises(AttributeError):
        context.modules.missing
    static = rt.SystemContext(vm_modules=[state], config=config)
    with pytest.raises(AssertionError, match="static"):
        static.add_vm_module(state)
    with pytest.raises(RuntimeError, match="FAILED_PRECONDITION"):
        static.vm_context.register_modules([state])
    with pytest.raises(ValueError, match="NOT_FOUND; .*hal"):
        rt.VmContext(context.instance, modules=[state])
    empty = rt.VmContext(context.instance)
    with pytest.raises(ValueError, match="NOT_FOUND"):
        empty.register_modules([state])
    with pytest.raises(TypeError):
        empty.register_modules([1])  # type: ignore[list-item]
    assert empty.context_id != static.vm_context.context_id
    assert [module.name for module in rt.load_vm_modules(state, config=config)] == ["module"]


def test_state_stays_when_modules_are_added(config: rt.Config, models: Path) -> None:
    context = rt.VmContext(config.vm_instance)
    context.register_modules(config.default_vm_modules)
    module = rt.VmModule.mmap(config.vm_instance, models / "state.vmfb")
    context.register_modules([module])
    names = [name for name in module.function_names if not name.startswith("__")]
    before = vireo.Session(models / "state.vmfb", device="local-sync")
    name = next(name for name in names if not before[name].signature.arguments)
    function = module.lookup_function(name)
    assert function is not None
    call = rt.FunctionInvoker(context, config.device, function)
    first = [np.asarray(value).tolist() if isinstance(value, rt.DeviceArray) else value for value in (call(), call())]
    context.register_modules([rt.VmModule.mmap(config.vm_instance, models / "abs.vmfb")])
    other = rt.VmContext(config.vm_instance, modules=[*config.default_vm_modules, module])
    fresh = rt.FunctionInvoker(other, config.device, function)
    third = [np.asarray(value).tolist() if isinstance(value, rt.DeviceArray) else value for value in (fresh(), fresh(), fresh(), call())]
    assert third[:2] == first and third[2] == third[3]


def test_lists_and_references() -> None:
    values = rt.VmVariantList(0)
    values.push_int(10**10)
    values.push_float(2.5)
    values.push_list(values)
    values.push_ref(rt.VmBuffer(3))
    values.push_ref(rt.HalFence(1))
    assert len(values) == values.size == 5 and "List[10000000000, 2.500000, List[" in repr(values)
    assert (values.get_variant(0), values.get_variant(1)) == (10**10, 2.5)
    assert values.get_as_list(2) == values and values.get_as_object(3, rt.HalFence) is None
    assert isinstance(values.get_as_object(3, rt.VmBuffer), rt.VmBuffer)
    reference = values.get_as_ref(2)
    assert reference == values.ref == values.__iree_vm_ref__ and hash(reference) == hash(values.ref)
    assert reference is not None and reference != False and reference.isinstance(rt.VmVariantList)  # noqa: E712
    assert reference.deref(rt.VmVariantList) == values and rt.VmVariantList.__iree_vm_cast__(reference) == values
    assert reference.deref(rt.HalBuffer, True) is None
    with pytest.raises(TypeError, match="is no"):
        reference.deref(rt.HalBuffer)
    with pytest.raises(AttributeError):
        reference.deref(int)
    for index in (5, 2**40):
        with pytest.raises(IndexError):
            values.get_variant(index)
    with pytest.raises(ValueError, match="not a reference"):
        values.get_as_ref(0)
    with pytest.raises(RuntimeError):
        values.get_as_list(0)
    for push, value, error in (
        (values.push_int, 2**63, OverflowError),
        (values.push_int, 2.5, TypeError),
        (values.push_float, "a", TypeError),
        (values.push_ref, None, TypeError),
        (values.push_ref, 3, AttributeError),
        (values.push_list, 3, TypeError),
    ):
        with pytest.raises(error):
            push(value)  # type: ignore[operator]
    with pytest.raises((OverflowError, MemoryError, vireo.Error)):
        rt.VmVariantList(2**62)
    with pytest.raises(ValueError, match="deep"):
        values.get_serialized_trace_value(2)
    with pytest.raises(NotImplementedError, match="get_serialized_trace_value of a !hal.fence"):
        values.get_serialized_trace_value(4)
    assert values.get_serialized_trace_value(0) == {"type": "value", "i64": 10**10}


def test_buffers_of_programs() -> None:
    buffer = rt.VmBuffer(10, alignment=16, mutable=True)
    memoryview(buffer)[:] = b"0123456789"  # type: ignore[arg-type]
    assert bytes(buffer) == b"0123456789"  # type: ignore[arg-type]
    constant = memoryview(rt.VmBuffer(4, mutable=False))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        constant[:] = b"0123"
    for length, alignment in ((-1, 0), (2**63, 0), (8, 3)):
        with pytest.raises((OverflowError, ValueError, MemoryError, vireo.Error)):
            rt.VmBuffer(length, alignment)


def test_modules_in_python(config: rt.Config) -> None:
    class Methods:
        def __init__(self, interface: rt.PyModuleInterface) -> None:
            self.calls = 0

        def mixed(self, a: int, b: float, c: Any, d: int) -> Any:
            self.calls += 1
            return self.calls, b * 2, c

        def fails(self) -> None:
            raise KeyError("of mine")

        def wrong(self) -> Any:
            return "text"

    interface = rt.PyModuleInterface("custom", Methods)
    interface.export("mixed", "0iFrI_ifr", Methods.mixed)
    interface.export("fails", "0v_v", Methods.fails)
    interface.export("wrong", "0v_i", Methods.wrong)
    for convention, error in (("zz", ValueError), ("0CiD_v", NotImplementedError)):
        with pytest.raises(error):
            interface.export("other", convention, print)
    assert not interface.initialized
    module = interface.create()
    assert interface.initialized and not interface.destroyed
    with pytest.raises(RuntimeError):
        interface.create()
    with pytest.raises(RuntimeError):
        interface.export("late", "0v_v", print)
    context = rt.VmContext(config.vm_instance, modules=(module,))
    arguments, results = rt.VmVariantList(4), rt.VmVariantList(0)
    arguments.push_int(1)
    arguments.push_float(1.25)
    arguments.push_list(rt.VmVariantList(0))
    arguments.push_int(2**40)
    function = module.lookup_function("mixed")
    assert function is not None
    for count in (1, 2):
        context.invoke(function, arguments, results)
        assert repr(results) == f"<VmVariantList(3): [{count}, 2.500000, List[]]>"
    empty = rt.VmVariantList(0)
    with pytest.raises(RuntimeError, match="UNKNOWN; KeyError: 'of mine'") as raised:
        context.invoke(module.lookup_function("fails"), empty, results)  # type: ignore[arg-type]
    assert isinstance(raised.value.__cause__, KeyError)
    with pytest.raises(RuntimeError, match="TypeError"):
        context.invoke(module.lookup_function("wrong"), empty, results)  # type: ignore[arg-type]
    del context, module, raised
    gc.collect()
    assert interface.destroyed

    def refuses(interface: rt.PyModuleInterface) -> None:
        raise ValueError("no state")

    with pytest.raises(RuntimeError, match="no state"):
        rt.VmContext(config.vm_instance, modules=[rt.PyModuleInterface("bad", refuses).create()])


def test_a_module_in_python_does_not_wait_for_itself(config: rt.Config) -> None:
    found: list[Any] = []

    def again(self: Any) -> None:
        try:
            context.invoke(function, rt.VmVariantList(0), rt.VmVariantList(0))
        except RuntimeError as error:
            found.append(error)

    interface = rt.PyModuleInterface("custom", lambda interface: None)
    interface.export("again", "0v_v", again)
    module = interface.create()
    context = rt.VmContext(config.vm_instance, modules=[module])
    function = module.lookup_function("again")
    assert function is not None
    context.invoke(function, rt.VmVariantList(0), rt.VmVariantList(0))
    assert len(found) == 1 and "FAILED_PRECONDITION" in str(found[0])


def test_the_interpreter_is_released_during_calls(config: rt.Config, models: Path) -> None:
    module = rt.VmModule.mmap(config.vm_instance, models / "waits.vmfb")
    context = rt.VmContext(config.vm_instance, modules=[*config.default_vm_modules, module])
    function = module.lookup_function("doubled")
    assert function is not None
    fence = rt.HalFence.create_at(config.device.create_semaphore(0), 1)
    call = rt.FunctionInvoker(context, config.device, function)
    threading.Timer(0.2, fence.signal).start()
    assert np.asarray(call(np.ones(4, np.float32), fence)).tolist() == [2.0] * 4


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"local-sync", "local-task"} <= set(rt.query_available_drivers())
    driver = rt.get_driver("local-sync")
    assert driver is rt.get_driver("local-sync")
    assert driver.query_available_devices() == [{"device_id": 0, "path": "", "name": "default"}]
    assert repr(driver.create_device({"device_id": 0})) == "local-sync"
    driver.create_device(0, allocators=["caching", "debug"])
    for wrong in (
        lambda: driver.create_device(5555),
        lambda: driver.create_device(0, allocators=["zz"]),
        lambda: driver.create_device(0, params={"zz": 1}),
        lambda: rt.get_device("nothere"),
        lambda: rt.get_device("local-sync://1"),
        lambda: rt.Config("a,b"),
        lambda: rt.Config("local-sync", device=rt.get_device("local-sync")),
        lambda: rt.create_hal_module(rt.VmInstance()),
        lambda: rt.create_hal_module(rt.VmInstance(), devices=[]),
    ):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(KeyError):
        driver.create_device({"a": 1})
    assert rt.get_device("local-sync") is rt.get_device("local-sync")
    assert rt.get_device("local-sync", cache=False) is not rt.get_device("local-sync")
    assert rt.Config("nothere1,local-sync").device is rt.get_device("local-sync")
    monkeypatch.setenv("IREE_DEFAULT_DEVICE", "nothere,local-sync")
    assert rt.Config().device is rt.get_device("local-sync")
    system_setup._DEVICES.clear()
    assert rt.get_device("local-sync") is rt.get_device("local-sync")


def test_flags(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    flags.parse_flags("--help")
    assert "--task_topology_group_count=0" in capsys.readouterr().out
    for flag in ("--barbar", "barbar", "--task_topology_group_count", "--task_topology_group_count=abc", "--barbar=1"):
        with pytest.raises(ValueError, match="INVALID_ARGUMENT; .*flag|begin with"):
            flags.parse_flags(flag)
    monkeypatch.setenv("IREE_PY_RUNTIME_FLAGS", "--barbar")
    with pytest.raises(RuntimeError, match="IREE_PY_RUNTIME_FLAGS.*flag 'barbar' not recognized"):
        flags._load_default_flags_from_env()
    code = """if True:
        import os, vireo.compat.iree as rt
        device = rt.get_device("local-task")
        names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
        print(device)
    """
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "IREE_PY_RUNTIME_FLAGS": "--task_topology_group_count=2 --task_worker_spin_us=0"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (ran.stdout, ran.stderr) == ("local-task\n", "")


PROGRAM = """
import sys
import numpy as np
import iree.runtime
from iree import runtime as rt
from iree.runtime import system_setup as setup
from iree.runtime._binding import VmVariantList

config = rt.Config("local-sync")
module = rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, sys.argv[1]), config)
print(iree.runtime.__name__, module.abs(np.float32(-2)).to_host(), setup is iree.runtime.system_setup, sys.argv[2:])
"""


@pytest.mark.parametrize("way", ["-m", "module", "path", "install"])
def test_programs_that_import_the_other_package(way: str, models: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    arguments = [str(models / "abs.vmfb"), "-x"]
    environment = {**os.environ}
    if way == "-m":
        command = ["-m", "vireo.compat.iree", str(tmp_path / "program.py")]
    elif way == "module":
        command = ["-m", "vireo.compat.iree", "-m", "program"]
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    elif way == "path":
        command = [str(tmp_path / "program.py")]
        environment["PYTHONPATH"] = os.pathsep.join([str(rt.overlay()), *sys.path])
    else:
        code = f"import vireo.compat.iree as rt; rt.install(); rt.install(); exec({PROGRAM!r})"
        command = ["-c", code]
    ran = subprocess.run(
        [sys.executable, "-P", *command, *arguments], capture_output=True, text=True, timeout=100, env=environment
    )
    assert (ran.stdout, ran.stderr) == ("vireo.compat.iree 2.0 True ['-x']\n", ""), ran.stderr


def test_what_there_is_not() -> None:
    for name in ("Tokenizer", "benchmark_module"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(rt, name)
        assert not hasattr(rt, name)
    ran = subprocess.run([sys.executable, "-P", "-m", "vireo.compat.iree"], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 1 and ran.stderr.startswith("usage: ")
    code = "import sys, vireo; print([name for name in sys.modules if 'compat' in name or name == 'numpy'])"
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=100)
    assert ran.stdout == "[]\n"
