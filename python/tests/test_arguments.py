"""Arguments: what is taken, what is refused, and that a refusal says what was expected and what came."""

from __future__ import annotations

import array
import gc
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import vireo

X = np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64)


class OnlyDlpack:
    """An array that has nothing but DLPack, as those of other libraries."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __dlpack__(self, **options: Any) -> object:
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.inner.__dlpack_device__()


class OldDlpack(OnlyDlpack):
    """The same, from before DLPack 1.0."""

    def __dlpack__(self) -> object:  # type: ignore[override]
        return self.inner.__dlpack__()


def test_arrays_of_any_layout_are_the_same_argument(mlp: vireo.Function) -> None:
    expected = np.asarray(mlp(X))
    wide = np.zeros((8, 128), np.float32)
    wide[:, ::2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"_" + X.tobytes(), np.float32, offset=1).reshape(8, 64)
    layouts = [
        np.asfortranarray(X),
        wide[:, ::2],
        X[::-1].copy()[::-1],
        X[:, ::-1].copy()[:, ::-1],
        read_only,
        unaligned,
        memoryview(X),
        OnlyDlpack(X),
        OldDlpack(X),
        OnlyDlpack(np.asfortranarray(X)),
        X.tolist(),
        tuple(tuple(row) for row in X.tolist()),
        X.__dlpack__(),
    ]
    for layout in layouts:
        assert np.array_equal(np.asarray(mlp(layout)), expected), type(layout)
    assert np.array_equal(np.asarray(mlp(input0=X)), expected)


def test_numbers_are_tensors_without_dimensions(abs_: vireo.Function) -> None:
    for value in (-2.5, np.float32(-2.5), np.array(-2.5, np.float32), array.array("f", [-2.5]) and np.float32(-2.5)):
        assert abs_(value).item() == 2.5
    assert abs_(-2).item() == 2.0
    assert abs_(float("-inf")).item() == float("inf")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (X.astype(np.float64), "tensor<8x64xf64>"),
        (X.astype(np.float16), "tensor<8x64xf16>"),
        (X.astype(np.int32), "tensor<8x64xi32>"),
        (X.astype(ml_dtypes.bfloat16), "tensor<8x64xbf16>"),
        (X.astype(np.complex64), "tensor<8x64xcf64>"),
        (X[:4], "tensor<4x64xf32>"),
        (X.reshape(512), "tensor<512xf32>"),
        (X[..., None], "tensor<8x64x1xf32>"),
        (X.astype(">f4"), "big-endian"),
        (X.astype(object), "an array of objects"),
        (np.zeros((8, 64), [("a", "f4"), ("b", "i4")]), "a structured array"),
        (np.zeros((8, 64), "U3"), "format `3w`"),
        (np.zeros((8, 64), "datetime64[s]"), "datetime64"),
        (np.zeros((8, 64), np.longdouble), "format `g`"),
        (np.zeros((8, 64), ml_dtypes.int4), "int4"),
        (1.0, "the float 1.0"),
        (10**40, "an int of more than 64 bits"),
        (None, "a NoneType"),
        ("text", "a str"),
        (b"bytes", "tensor<5xui8>"),
        ({}, "a dict"),
        (object(), "a object"),
        (np.float32, "a type"),
        ([1.0, 2.0], "tensor<2xf32>"),
        ([[1.0], [1.0, 2.0]], "different lengths"),
        ([[1.0], 2.0], "different lengths"),
        ([1.0, [2.0]], "a list of numbers and lists"),
        ([["1"] * 64] * 8, "a list with a str"),
        ([[1e300] * 64] * 8, "a list with the float 1e300"),
        ([[2**24 + 1] * 64] * 8, None),
        ([[10**30] * 64] * 8, "more than 64 bits"),
        ([[True] * 64] * 8, "the bool true"),
        ([], "tensor<0xf32>"),
    ],
)
def test_other_arguments_are_refused_by_name(mlp: vireo.Function, value: Any, found: str | None) -> None:
    if found is None:
        # The nearest element of the type, as for `numpy.float32(2**24 + 1)`, is taken.
        mlp(value)
        return
    with pytest.raises(vireo.InvalidArgument) as raised:
        mlp(value)
    message = str(raised.value)
    assert message.startswith("argument 0 `input0` of `mlp(input0: tensor<8x64xf32>) -> (output0: tensor<8x16xf32>)`: ")
    assert found in message
    assert isinstance(raised.value, ValueError)
    assert raised.value.code == "INVALID_ARGUMENT"
    assert raised.value.frames == ()


def test_the_number_and_the_names_of_arguments_are_checked(models: Path) -> None:
    session = vireo.Session(models / "dynamic_mlp.vmfb", device="local-sync")
    function = session["dynamic_mlp"]
    x, w0, w1 = (np.ones(shape, np.float32) for shape in ((2, 32), (32, 24), (24, 8)))
    names = [argument.name for argument in function.signature.arguments]
    expected = np.asarray(function(x, w0, w1))
    assert np.array_equal(np.asarray(function(**dict(zip(reversed(names), (w1, w0, x))))), expected)
    assert np.array_equal(np.asarray(function(x, **dict(zip(names[1:], (w0, w1))))), expected)
    for arguments, keywords, message in (
        ((), {}, "0 given, and "),
        ((x, w0), {}, "2 given, and "),
        ((x, w0, w1, x), {}, "4 given, and "),
        ((x, w0), {names[0]: x}, f"the argument `{names[0]}` is given twice"),
        ((x, w0), {"other": x}, "no argument is called `other`"),
        ((x,), {names[1]: w0}, f"the argument `{names[2]}` is missing"),
        ((), {"": x}, "no argument is called ``"),
    ):
        with pytest.raises(vireo.InvalidArgument, match=message):
            function(*arguments, **keywords)


def test_scalars_widen_and_never_narrow(models: Path) -> None:
    multi = vireo.Session(models / "multi.vmfb", device="local-sync")
    x = np.arange(6, dtype=np.float32)
    y, factor, times = multi["scale"](x, 1.5, 2)
    assert (np.asarray(y).tolist(), factor, times) == ((x * 3).tolist(), 3.0, 3)
    assert multi["scale"](x, np.float32(1.5), np.int8(2))[1:] == (3.0, 3)
    assert multi["collatz"](np.int32(27)) == multi["collatz"](27)
    assert multi["nothing"]() is None
    for arguments in (
        (x, np.float64(1.5), 2),
        (x, 1.5, np.int64(2)),
        (x, 1.5, 2.0),
        (x, 1.5, 2**31),
        (x, 1.5, -(2**31) - 1),
        (x, 1e300, 2),
        (x, "1.5", 2),
        (x, 1.5j, 2),
        (x, [1.5], 2),
        (x, None, 2),
    ):
        with pytest.raises(vireo.InvalidArgument, match="argument [12] "):
            multi["scale"](*arguments)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_narrow_floats(models: Path, name: str) -> None:
    half = vireo.Session(models / "half.vmfb", device="local-sync")
    a = np.linspace(-2, 2, 8, dtype=np.float32)
    if name == "bfloat16":
        result = half["bf16"](a)
        assert np.asarray(result).dtype == ml_dtypes.bfloat16
        assert np.array_equal(np.asarray(result), a.astype(ml_dtypes.bfloat16))
        assert np.array_equal(result.tolist(), a.astype(ml_dtypes.bfloat16).astype(np.float32).tolist())
        with pytest.raises(BufferError, match="bfloat16"):
            memoryview(result)
        return
    product, _ = half["f16"](a.astype(np.float16), a.astype(np.float16))
    assert np.asarray(product).dtype == np.float16
    # A list has no type, and becomes the nearest elements.
    assert np.array_equal(half["f16"](a.tolist(), a.tolist())[0], product)
    with pytest.raises(vireo.InvalidArgument, match="the float 70000.0"):
        half["f16"]([70000.0] * 8, a.tolist())


def test_integers_of_all_widths(models: Path) -> None:
    integer = vireo.Session(models / "integer.vmfb", device="local-sync")
    a = np.arange(-5, 0, dtype=np.int64), np.arange(5, dtype=np.int16)
    wide, narrow = integer["widths"](*a)
    assert (np.asarray(wide).dtype, np.asarray(narrow).dtype) == (np.int64, np.int16)
    # The type of the program has no sign, so unsigned elements are taken, too.
    assert np.array_equal(integer["widths"](a[0].view(np.uint64), a[1].view(np.uint16))[0], wide)
    flags = np.asarray(integer["mix_i32"](np.arange(9, dtype=np.int32), np.arange(9, dtype=np.int32))[1])
    assert flags.dtype == np.bool_
    for bad in (a[0].astype(np.int32), a[0].astype(np.float64), a[0].astype(np.bool_)):
        with pytest.raises(vireo.InvalidArgument, match="argument 0"):
            integer["widths"](bad, a[1])
    with pytest.raises(vireo.InvalidArgument, match="the int 40000|the int 70000"):
        integer["widths"](a[0], [70000, 0, 0, 0, 0])


def test_exporters_that_raise_are_not_hidden(abs_: vireo.Function) -> None:
    class Broken:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **options: Any) -> object:
            raise RuntimeError("the exporter failed")

    class OnGpu(Broken):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    class NoCapsule(Broken):
        def __dlpack__(self, **options: Any) -> object:
            return 7

    class BrokenArray:
        def __array__(self) -> object:
            raise KeyError("no array")

    with pytest.raises(RuntimeError, match="the exporter failed"):
        abs_(Broken())
    with pytest.raises(vireo.InvalidArgument, match="on a device of type 2"):
        abs_(OnGpu())
    with pytest.raises(vireo.InvalidArgument, match="is no capsule of DLPack"):
        abs_(NoCapsule())
    with pytest.raises(KeyError, match="no array"):
        abs_(BrokenArray())


def test_capsules_are_used_once(abs_: vireo.Function) -> None:
    capsule = np.array(-3.0, np.float32).__dlpack__(max_version=(1, 0))
    assert abs_(capsule).item() == 3.0
    with pytest.raises(vireo.InvalidArgument, match="one that has been used"):
        abs_(capsule)


def test_lists_that_contain_themselves_end(mlp: vireo.Function) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(vireo.InvalidArgument, match="nested more than 64 times"):
        mlp(loop)


def test_references_to_arguments_are_given_back(mlp: vireo.Function) -> None:
    x = X.copy()
    before = sys.getrefcount(x)
    for _ in range(10):
        mlp(x)
    gc.collect()
    assert sys.getrefcount(x) == before
    released = memoryview(bytearray(X.tobytes())).cast("f", (8, 64))
    mlp(released)
    released.release()


def test_references_of_programs(models: Path) -> None:
    waits = vireo.Session(models / "waits.vmfb", device="local-sync")
    with pytest.raises(vireo.InvalidArgument, match="whose element type is not known"):
        waits["doubled"](1.0, None)
    with pytest.raises(vireo.InvalidArgument, match="argument 1"):
        waits["doubled"](np.ones(4, np.float32), [1])
