"""`vireo.compat.iree`: parameters in memory, in archives and in programs."""

from __future__ import annotations

import array
import gc
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vireo
import vireo.compat.iree as rt
from conftest import REPOSITORY

PARAMETERS = REPOSITORY / "fixtures/parameters"


def test_archives_of_arrays_and_repeated_values(tmp_path: Path) -> None:
    path = tmp_path / "archive.irpa"
    host = np.asarray([[1], [2], [3]], np.int64)
    rt.save_archive_file(
        {"weight": rt.SplatValue(np.int8(2), [30, 20]), "bias": rt.SplatValue(array.array("b", [32]), 30), "array": host}, path
    )
    assert os.listdir(tmp_path) == ["archive.irpa"]
    for mmap in (True, False):
        index = rt.ParameterIndex()
        index.load(path, mmap=mmap)
        entries = dict(index.items())
        assert repr(entries["weight"]) == "<ParameterIndexEntry 'weight' splat b'\\x02':600>"
        assert repr(entries["bias"]) == "<ParameterIndexEntry 'bias' splat b' ':30>"
        assert repr(entries["array"]).startswith("<ParameterIndexEntry 'array' FileHandle<host_allocation(")
        assert "Parameter scope <global> (3 entries, 654 total bytes)" in repr(index)
        entry = entries["array"]
        view = entry.file_view
        del entries, index
        gc.collect()
        assert view.readonly and len(view) == 24 and np.asarray(view).view(np.int64).tolist() == [1, 2, 3]
        handle, offset = entry.file_storage
        assert handle.is_host_allocation and bytes(handle.host_allocation[offset : offset + 24]) == host.tobytes()
    with open(path, "rb") as file:
        handle = rt.FileHandle.wrap_fd(file.fileno())
        assert handle.is_fd and handle.fd == file.fileno() and not handle.is_host_allocation
    index = rt.ParameterIndex()
    index.load_from_file_handle(handle, "irpa")
    assert [key for key, _ in index.items()] == ["weight", "bias", "array"] and index[2].length == 24
    with pytest.raises(ValueError, match="not in memory"):
        index[2].file_view
    with pytest.raises(ValueError, match="Entry is not splat"):
        index[2].splat_pattern
    with pytest.raises(ValueError, match="Entry is not file storage based"):
        index[0].file_storage
    target = rt.ParameterIndex()
    # The archive may be written anew from itself.
    assert index.create_archive_file(path, target_index=target) is target and len(target) == 3
    assert bytes(target[2].file_view) == host.tobytes()


def test_arrays_as_parameters() -> None:
    index = rt.ParameterIndex()
    hosts = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.array(1234, np.int32), "c": np.zeros((0, 2), np.int8)}
    for key, host in hosts.items():
        rt.parameter_index_add_numpy_ndarray(index, key, host)
    for key, entry in index.items():
        found = rt.parameter_index_entry_as_numpy_ndarray(entry)
        assert found.dtype == hosts[key].dtype and np.array_equal(found, hosts[key]) and found.shape == hosts[key].shape
    assert np.shares_memory(rt.parameter_index_entry_as_numpy_ndarray(index[0]), hosts["a"])
    index.add_buffer("text", b"abc", metadata="PYTORCH:{")
    index.add_splat("plain", np.array([1, 2], np.uint8), 6)
    for entry in (index[3], index[4]):
        with pytest.raises(ValueError, match="metadata"):
            rt.parameter_index_entry_as_numpy_ndarray(entry)
    assert rt.parameter_index_entry_as_numpy_flat_ndarray(index[4]).tolist() == [1, 2, 1, 2, 1, 2]
    with pytest.raises(ValueError, match="programs have no element type"):
        rt.parameter_index_add_numpy_ndarray(index, "objects", np.array([object()]))


def test_memory_of_parameters_stays(tmp_path: Path) -> None:
    host = np.arange(100, dtype=np.int32)
    lives = weakref.ref(host)
    handle = rt.FileHandle.wrap_memory(host)
    view = handle.host_allocation
    index = rt.ParameterIndex()
    index.add_from_file_handle("part", handle, 40, offset=8, metadata=b"m")
    del host, handle
    gc.collect()
    assert lives() is not None and len(view) == 400 and index[0].metadata == b"m"
    assert np.frombuffer(index[0].file_view, np.int32).tolist() == list(range(2, 12))
    del view, index
    gc.collect()
    assert lives() is None


def test_what_is_refused(tmp_path: Path) -> None:
    index = rt.ParameterIndex()
    index.add_splat("a", np.array([1], np.float32), 40)
    memory = rt.FileHandle.wrap_memory(b"foobar")
    (tmp_path / "broken.irpa").write_bytes(b"IRPA" + bytes(100))
    (tmp_path / "model.bin").write_bytes(b"abc")
    for wrong in (
        lambda: index.add_splat("b", array.array("f", [1.0] * 5), 40),
        lambda: index.add_splat("b", b"abc", 6),
        lambda: index.add_splat("b", b"", 6),
        lambda: index.add_splat("b", b"abcd", 6),
        lambda: index.add_splat("a", b"a", 6),
        lambda: index.add_from_file_handle("b", memory, 3, offset=4),
        lambda: index.add_from_file_handle("b", memory, 2**64 - 1, offset=2),
        lambda: index.load("/nowhere.irpa"),
        lambda: index.load(tmp_path / "broken.irpa"),
        lambda: index.load(tmp_path / "model.bin"),
        lambda: index.load(tmp_path / "model.bin", format="zz"),
        lambda: index.load(tmp_path),
        lambda: index.create_archive_file("/nowhere/x.irpa"),
        lambda: rt.FileHandle.wrap_fd(-1),
        lambda: rt.FileHandle.wrap_fd(9999),
        lambda: rt.SplatValue(np.zeros(2), 3),
        lambda: index[1],
        lambda: index[-1],
        lambda: index.reserve(2**63),
    ):
        with pytest.raises((ValueError, IndexError, RuntimeError, OSError, MemoryError)):
            wrong()
    for missing in (
        lambda: rt.FileHandle.wrap_memory(bytearray(3), writable=True),
        lambda: rt.FileHandle.wrap_fd(0, readable=False),
        lambda: index.add_buffer("b", b"a", writable=True),
        lambda: index.create_archive_file(tmp_path / "x.irpa", file_offset=64),
        lambda: index.create_provider(max_concurrent_operations=3),
    ):
        with pytest.raises(NotImplementedError):
            missing()
    with pytest.raises(TypeError):
        rt.SplatValue(3, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        rt.create_io_parameters_module(rt.VmInstance(), 3)  # type: ignore[arg-type]
    assert len(index) == 1 and len(os.listdir(tmp_path)) == 2


def as_lists(values: Any) -> list[Any]:
    return [np.asarray(value).tolist() for value in (values if isinstance(values, tuple) else (values,))]


@pytest.mark.parametrize("name", ["weights.irpa", "weights.gguf", "weights.safetensors"])
def test_programs_with_parameters(name: str, device: str) -> None:
    config = rt.Config(device)
    module = rt.VmModule.mmap(config.vm_instance, PARAMETERS / "model.vmfb")
    index = rt.ParameterIndex()
    index.load(PARAMETERS / name)
    copied = rt.ParameterIndex()
    for key, entry in index.items():
        copied.add_buffer(key, rt.parameter_index_entry_as_numpy_flat_ndarray(entry))
    session = vireo.Session(PARAMETERS / "model.vmfb", device=device, parameters={"model": PARAMETERS / "weights.irpa"})
    function = next(name for name in session if all(value.shape is not None for value in session[name].signature.arguments))
    arguments = [np.ones([size or 1 for size in value.shape], value.dtype) for value in session[function].signature.arguments]
    expected = session[function](*arguments)
    for parameters in (index, copied):
        provider = rt.create_io_parameters_module(config.vm_instance, parameters.create_provider(scope="model"))
        bound = rt.load_vm_modules(provider, module, config=config)[-1]
        found = bound[function](*arguments)
        assert as_lists(found) == as_lists(expected)
    with pytest.raises((ValueError, RuntimeError)):
        rt.load_vm_modules(rt.create_io_parameters_module(config.vm_instance), module, config=config)
