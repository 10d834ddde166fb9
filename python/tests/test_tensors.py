"""Results where the program wrote them, arguments that are not copied, and tensors in other processes."""

from __future__ import annotations

import pickle
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import vireo

X = np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64)


def address(array: Any) -> int:
    return np.asarray(array).__array_interface__["data"][0]


def test_no_view_of_a_result_is_a_copy(mlp: vireo.Function) -> None:
    y = mlp(X)
    assert y.in_place
    assert (y.shape, y.dtype, y.element_type, y.ndim, y.size, y.nbytes) == ((8, 16), "float32", "f32", 2, 128, 512)
    where = address(y)
    views = [np.asarray(y), np.array(y, copy=False), np.asarray(memoryview(y)), np.from_dlpack(y), y.numpy()]
    assert {address(view) for view in views} == {where}
    assert not any(view.flags.writeable for view in views)
    assert np.from_dlpack(y, copy=True).flags.writeable
    view = memoryview(y)
    assert (view.readonly, view.format, view.shape, view.strides, view.c_contiguous) == (True, "f", (8, 16), (64, 4), True)


def test_views_keep_the_elements(mlp: vireo.Function) -> None:
    expected = np.array(mlp(X))
    views = []
    for make in (np.asarray, np.from_dlpack, memoryview):
        y = mlp(X)
        gone = weakref.ref(y)
        views.append(make(y))
        del y
        # DLPack keeps the memory without the object.
        assert (gone() is None) == (make is np.from_dlpack)
    for _ in range(100):
        mlp(-X)
    assert all(np.array_equal(view, expected) for view in views)


def test_a_copy_that_is_refused_is_not_made(models: Path, abs_: vireo.Function) -> None:
    multi = vireo.Session(models / "multi.vmfb", device="local-sync")
    x = vireo.empty(())
    np.asarray(x)[...] = 5
    # Nothing has to be halved, so the program returns its argument, which this has, too, and may write to.
    table, count = multi["halve_until"](x, 8.0)
    assert (count, table.in_place, table.item()) == (0, False, 5.0)
    np.asarray(x)[...] = 6
    assert table.item() == 5.0
    with pytest.raises(ValueError, match="refuses a copy"):
        table.__array__(copy=False)
    with pytest.raises(BufferError, match="refuses a copy"):
        table.__dlpack__(copy=False)
    with pytest.raises(ValueError, match="refuses to convert"):
        abs_(1.0).__array__(np.float64, copy=False)
    assert abs_(1.0).__array__(np.float64).dtype == np.float64


def test_results_are_not_put_in_memory_that_may_only_be_read(models: Path) -> None:
    multi = vireo.Session(models / "multi.vmfb", device="local-sync")
    x, storage = vireo.empty(4), vireo.empty(4)
    np.asarray(x)[:] = 3
    result = multi["into"](vireo.borrow(np.asarray(x)), storage)
    assert np.array_equal(np.asarray(result), np.asarray(storage))
    borrowed = vireo.borrow(np.asarray(x))
    for call in (lambda: multi["into"](x, borrowed), lambda: multi["into"].prepare(x, storage).set(1, borrowed)):
        with pytest.raises(vireo.PermissionDenied, match="argument 1 `.*` of `into.*may only be read"):
            call()
    assert np.array_equal(np.asarray(x), np.full(4, 3, np.float32))


def test_dlpack_with_and_without_a_version(mlp: vireo.Function) -> None:
    y = mlp(X)
    assert '"dltensor"' in repr(y.__dlpack__())
    assert '"dltensor"' in repr(y.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(y.__dlpack__(max_version=(1, 0)))
    assert y.__dlpack_device__() == (1, 0)
    for options, message in (({"stream": 1}, "streams"), ({"dl_device": (2, 0)}, r"device \(2, 0\)")):
        with pytest.raises(BufferError, match=message):
            y.__dlpack__(**options)
    capsule = y.__dlpack__()
    assert np.array_equal(mlp(np.concatenate([np.asarray(y)] * 4, axis=1)), mlp(np.tile(np.asarray(y), 4)))
    del y, capsule


def test_tensors_are_arguments_without_a_copy(models: Path) -> None:
    multi = vireo.Session(models / "multi.vmfb", device="local-sync")
    storage = vireo.empty(4)
    where = address(storage)
    result = multi["into"](np.arange(4, dtype=np.float32), storage)
    # The program writes its result into the memory that it is given.
    assert np.asarray(storage).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert np.asarray(result).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert address(storage) == where


def test_empty_is_filled_in_place(mlp: vireo.Function) -> None:
    x = vireo.empty((8, 64), "float32")
    view = np.asarray(x)
    assert view.flags.writeable and address(x) % 64 == 0 and not view.any()
    view[:] = X
    assert np.array_equal(mlp(x), mlp(X))
    view[:] = -X
    assert np.array_equal(mlp(x), mlp(-X))
    assert np.from_dlpack(x).flags.writeable
    assert vireo.empty((), np.int8).shape == ()
    assert vireo.empty((2, 0, 3), np.dtype("int64")).nbytes == 0
    assert np.asarray(vireo.empty(3, ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16
    assert vireo.empty(3, "i4").nbytes == 2
    for shape, dtype in (((2**62, 4), "float32"), ((-1,), "float32"), ((2,), "float31"), ("2", "float32")):
        with pytest.raises((vireo.Error, TypeError, OverflowError)):
            vireo.empty(shape, dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["bool", "int8", "uint16", "int64", "float16", "complex64", "complex128", "bfloat16"]
    + ["float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu"],
)
def test_elements_of_every_type_are_views(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    tensor = vireo.empty((2, 3), dtype)
    array = np.asarray(tensor)
    assert (array.dtype, array.shape, tensor.dtype, tensor.nbytes) == (dtype, (2, 3), name, 6 * dtype.itemsize)
    # Elements that the buffer protocol has are written through the view.
    if hasattr(np, name):
        array[1, 2] = 1
        assert tensor.tolist()[1] == [0, 0, 1]
    again = pickle.loads(pickle.dumps(tensor))
    assert np.asarray(again).dtype == dtype and again.tobytes() == tensor.tobytes()
    assert np.array_equal(np.asarray(vireo.borrow(aligned(array))).view(np.uint8), array.view(np.uint8))


def aligned(array: np.ndarray[Any, Any], offset: int = 0) -> np.ndarray[Any, Any]:
    memory = np.zeros(array.nbytes + 128, np.uint8)
    start = -memory.__array_interface__["data"][0] % 64 + offset
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[:] = array
    return copy


def test_aligned_memory_is_borrowed(mlp: vireo.Function) -> None:
    x = aligned(X)
    tensor = vireo.borrow(x)
    assert address(tensor) == address(x) and tensor.in_place
    assert np.array_equal(mlp(tensor), mlp(X))
    x[:] = -X
    assert np.array_equal(mlp(tensor), mlp(-X))
    gone = weakref.ref(x)
    del x
    # The tensor keeps the array.
    assert np.array_equal(mlp(tensor), mlp(-X)) and gone() is not None
    del tensor
    assert gone() is None
    read_only = aligned(X)
    read_only.flags.writeable = False
    assert np.array_equal(mlp(vireo.borrow(read_only)), mlp(X))


def test_other_memory_is_not_borrowed() -> None:
    with pytest.raises(vireo.Unavailable, match="not aligned to 64 bytes"):
        vireo.borrow(aligned(X, 4))
    with pytest.raises(vireo.InvalidArgument, match="row by row"):
        vireo.borrow(aligned(X)[:, ::2])
    for value in (1.0, None, "x", [1.0]):
        with pytest.raises(vireo.InvalidArgument):
            vireo.borrow(value)  # type: ignore[arg-type]


def test_tensors_of_one_element_are_numbers(abs_: vireo.Function, mlp: vireo.Function) -> None:
    y = abs_(-2.5)
    assert (float(y), int(y), bool(y), y.item(), y.tolist()) == (2.5, 2, True, 2.5, 2.5)
    assert not abs_(0.0)
    with pytest.raises(TypeError, match="no length"):
        len(y)
    many = mlp(X)
    for convert in (float, int, bool, lambda tensor: tensor.item()):
        with pytest.raises(TypeError, match="needs one element"):
            convert(many)
    assert len(many) == 8
    assert np.array_equal(many[2:4], np.asarray(many)[2:4])
    assert [row.shape for row in many] == [(16,)] * 8
    assert repr(many) == "<vireo.Tensor 8x16xf32>"


def test_tensors_are_pickled(mlp: vireo.Function, models: Path) -> None:
    y = mlp(X)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(y, protocol))
        assert np.array_equal(again, y) and again.in_place
    bf16 = vireo.Session(models / "half.vmfb", device="local-sync")["bf16"](X[0, :8])
    assert np.array_equal(pickle.loads(pickle.dumps(bf16)), bf16)


def test_buffers_that_tensors_do_not_give(mlp: vireo.Function) -> None:
    y = mlp(X)
    with pytest.raises(BufferError, match="no elements of i4"):
        memoryview(vireo.empty(3, "i4"))
    assert bytes(y) == y.tobytes() == np.asarray(y).tobytes()
    with pytest.raises((BufferError, TypeError)):
        memoryview(y)[0, 0] = 1.0
