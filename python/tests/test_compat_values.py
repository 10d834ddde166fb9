"""`vireo.compat.iree`: arguments and results by the reflection of a function, and arrays of devices."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any, Callable
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest

import vireo
import vireo.compat.iree as rt
from vireo.compat.iree import dtypes

Fill = Callable[[Any], None]


class Context:
    """A context that keeps the arguments as text, and gives results."""

    def __init__(self, fill: Fill) -> None:
        self.fill = fill
        self.arguments = ""

    def invoke(self, function: Any, arguments: Any, results: Any) -> None:
        self.arguments = repr(arguments)
        self.fill(results)


class Function:
    def __init__(self, arguments: Any, results: Any) -> None:
        declared = arguments is not None or results is not None
        abi = json.dumps({"a": arguments or [], "r": results or []})
        self.reflection = {"iree.abi": abi} if declared else {}


@pytest.fixture(scope="module")
def device() -> Any:
    return rt.get_device("local-sync")


def pack(device: Any, declared: Any, *args: Any, **kwargs: Any) -> str:
    context = Context(lambda results: None)
    rt.FunctionInvoker(context, device, Function(declared, None if declared is None else []))(*args, **kwargs)  # type: ignore[arg-type]
    return context.arguments


def unpack(device: Any, declared: Any, fill: Fill) -> Any:
    return rt.FunctionInvoker(Context(fill), device, Function(None, declared))()  # type: ignore[arg-type]


def lists(*items: Any) -> Fill:
    def fill(target: Any) -> None:
        for item in items:
            if isinstance(item, list):
                inner = rt.VmVariantList(0)
                lists(*item)(inner)
                target.push_list(inner)
            elif isinstance(item, int):
                target.push_int(item)
            elif isinstance(item, float):
                target.push_float(item)
            else:
                target.push_ref(item)

    return fill


ARRAY = ["ndarray", "f32", 1, 2]


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("i32", 3, "3"),
        ("i8", np.int64(-3), "-3"),
        ("i64", True, "1"),
        ("f32", 3, "3.000000"),
        ("f64", np.float32(0.5), "0.500000"),
        (["slist", "i32", ["stuple", "f32"]], [1, (2,)], "List[1, List[2.000000]]"),
        (["sdict", ["a", "i32"], ["b", "i32"]], {"b": 2, "a": 1}, "List[1, 2]"),
        (["py_homogeneous_list", "i64"], [1, 2, 3], "List[1, 2, 3]"),
        (ARRAY, [1, 2], "HalBufferView(2:0x20000021)"),
        (ARRAY, np.array([1, 2], np.int64), "HalBufferView(2:0x20000021)"),
        (ARRAY, np.zeros((4, 2), np.float32)[::2], "HalBufferView(2x2:0x20000021)"),
        (["ndarray", "i1", 0], True, "HalBufferView(:0x08000013)"),
    ],
)
def test_arguments_are_packed_as_declared(device: Any, declared: Any, value: Any, expected: str) -> None:
    assert pack(device, [declared], value) == f"<VmVariantList(1): [{expected}]>"


@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        ("i32", 3.5, "expected i32, got 3.5"),
        ("i32", "3", "expected i32, got '3'"),
        ("i64", 2**63, "expected i64"),
        ("f32", None, "expected f32, got None"),
        ("zz", 1, "unknown type 'zz'"),
        (["zz"], 1, "unknown type 'zz'"),
        ([], 1, "unknown type"),
        (["slist", "i32"], [1, 2], "expected a sequence with 1 values. got: "),
        (["slist", "i32"], 3, "could not get items"),
        (["sdict", ["a", "i32"]], {"a": 1, "b": 2}, "expected a dict with 1 values. got: "),
        (["sdict", ["a", "i32"]], {"b": 2}, "could not get item 'a' from: "),
        (["sdict", ["a", "i32"]], 3, "expected a dict"),
        (ARRAY, "a", "expected an array of float32"),
    ],
)
def test_arguments_that_do_not_fit(device: Any, declared: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        pack(device, [declared], value)


def test_keywords(device: Any) -> None:
    declared = ["i32", ["named", "a", "i32"], ["named", "b", "i32"]]
    assert pack(device, declared, -1, b=2, a=1) == "<VmVariantList(3): [-1, 1, 2]>"
    for args, kwargs, message in [
        ((), {"a": 1, "b": 1}, "mismatched call arity"),
        ((1, 2), {"a": 1, "b": 1}, "mismatched call arity"),
        ((1,), {"a": 1}, "mismatched call arity"),
        ((1,), {"a": 1, "b": 1, "c": 1}, "specified kwarg 'c' is unknown"),
    ]:
        with pytest.raises(ValueError, match=message):
            pack(device, declared, *args, **kwargs)
    with pytest.raises(ValueError, match="takes no keywords"):
        pack(device, None, a=1)
    broken = Function([], [])
    for text in ("{", "[]", '{"a": 3}', '{"a": 3, "r": []}'):
        broken.reflection["iree.abi"] = text
        with pytest.raises((ValueError, TypeError)):
            rt.FunctionInvoker(None, device, broken)  # type: ignore[arg-type]


def test_arguments_without_a_declaration(device: Any) -> None:
    view = rt.asdevicearray(device, np.zeros(2, np.int32))
    arguments = (1, 0.5, [1, (2,)], {"b": 3, "a": 2}, view, view._buffer_view, np.float32(1), rt.VmVariantList(0))
    tensor = "HalBufferView(2:0x20000011)"
    assert pack(device, None, *arguments) == (
        f"<VmVariantList(8): [1, 0.500000, List[1, List[2]], List[2, 3], {tensor}, {tensor}, HalBufferView(:0x20000021), List[]]>"
    )
    for value in ("a", None, True, 1j, object(), np.array(["a"]), 2**70):
        with pytest.raises(ValueError):
            pack(device, None, value)
    deep: list[Any] = []
    deep.append(deep)
    with pytest.raises(ValueError, match="deep"):
        pack(device, None, deep)


@pytest.mark.parametrize(
    ("declared", "items", "expected"),
    [
        ([], [], None),
        (["i32"], [3], 3),
        (["i32", "f32"], [3, 0.5], (3, 0.5)),
        ([["slist", "i32", "i32"]], [1, 2], [1, 2]),
        ([["stuple", "i32", "i32"]], [1, 2], (1, 2)),
        ([["sdict", ["a", "i32"], ["b", "i32"]]], [1, 2], {"a": 1, "b": 2}),
        (["i32", ["slist", ["sdict", ["x", "i32"]], "i64"]], [3, [[100], 6]], (3, [{"x": 100}, 6])),
        ([["py_homogeneous_list", "i64"]], [[1, 2]], [1, 2]),
        ([["py_homogeneous_list", "i64"]], [[]], []),
    ],
)
def test_results_as_declared(device: Any, declared: Any, items: Any, expected: Any) -> None:
    assert unpack(device, declared, lists(*items)) == expected


@pytest.mark.parametrize(
    ("declared", "items"),
    [
        (["i32"], []),
        (["i32"], [1, 2]),
        ([], [1]),
        (["i32"], [0.5]),
        (["f32"], [1]),
        (["zz"], [1]),
        ([["zz"]], [1]),
        ([ARRAY], [1]),
        ([["slist", "i32"]], [1, 2]),
        (["i32", ["slist", "i32"]], [1, 2]),
        ([ARRAY], [[1]]),
    ],
)
def test_results_that_are_not_as_declared(device: Any, declared: Any, items: Any) -> None:
    with pytest.raises(ValueError):
        unpack(device, declared, lists(*items))


def test_tensors_as_results(device: Any) -> None:
    view = rt.asdevicearray(device, np.array([1, 0], np.uint8))._buffer_view
    truth = unpack(device, [["ndarray", "i1", 1, 2]], lists(view))
    assert truth.dtype == np.bool_ and np.asarray(truth).tolist() == [True, False]
    assert np.asarray(unpack(device, [["ndarray", "bf16", 1, 2]], lists(view))).dtype == np.uint8
    dynamic = unpack(device, None, lists(view))
    assert isinstance(dynamic, rt.DeviceArray) and (dynamic + 1).tolist() == [2, 1]
    assert isinstance(unpack(device, None, lists([1])), rt.VmRef)
    assert unpack(device, None, lists(1, 2)) == (1, 2)


def test_arrays_of_devices(device: Any) -> None:
    host = np.arange(12, dtype=np.int32).reshape(3, 4)
    array = rt.asdevicearray(device, host)
    assert repr(array) == "<IREE DeviceArray: shape=[3, 4], dtype=int32>"
    assert (array.shape, array.dtype, array.is_host_accessible) == ([3, 4], np.int32, False)
    for use in (np.asarray, np.sum, lambda array: array + 1, np.from_dlpack, iter):
        with pytest.raises((ValueError, BufferError), match="implicitly"):
            use(array)
    assert np.array_equal(array.to_host(), host) and array.is_host_accessible
    assert rt.asdevicearray(device, array) is array
    with pytest.raises(ValueError, match="not converted"):
        rt.asdevicearray(device, array, dtype=np.float32)
    for refused in ("abc", np.array([object()]), np.zeros(3, ml_dtypes.int4)):
        with pytest.raises(ValueError, match="programs have no element type"):
            rt.asdevicearray(device, refused)


def test_arrays_that_are_fetched_when_they_are_used(device: Any) -> None:
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = rt.asdevicearray(device, host, implicit_host_transfer=True)
    assert np.array_equal(array + host, host * 2) and np.array_equal(np.from_dlpack(array), host)
    assert np.sum(array) == 66 and np.concatenate([array, array]).shape == (6, 4)
    assert np.add.reduce(array).shape == (4,) and np.asarray(array, np.int32).dtype == np.int32
    assert np.shares_memory(np.array(array, copy=False), array.to_host())
    assert not np.shares_memory(np.array(array), array.to_host())
    with pytest.raises(ValueError, match="copy"):
        np.array(array, dtype=np.int32, copy=False)
    assert array.reshape(4, 3).shape == (4, 3) and np.reshape(array, (2, 6)).shape == (2, 6)
    assert [row[0] for row in array] == [0, 4, 8] and array[1, 1] == 5
    assert array.astype(np.float32, copy=False) is array and array.astype(np.int64).dtype == np.int64
    copied = copy.deepcopy(array)
    assert copied is not array and np.array_equal(copied, array)
    assert np.array_equal(pickle.loads(pickle.dumps(array)), host)


@pytest.mark.parametrize("name", ["bool", "int8", "uint16", "float16", "complex64", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu"])
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 2)])
def test_element_types_and_shapes(device: Any, name: str, shape: tuple[int, ...]) -> None:
    host = np.ones(shape, np.dtype(name))
    array = rt.asdevicearray(device, host)
    assert array.dtype == host.dtype and array.shape == list(shape)
    assert array.to_host().tobytes() == host.tobytes() and array.to_host().shape == shape
    assert array._copy_to_host().tobytes() == host.tobytes()
    again = rt.DeviceArray(device, array._buffer_view)
    assert again.dtype == host.dtype and again.to_host().tobytes() == host.tobytes()


def test_arrays_on_the_way_of_staging(device: Any) -> None:
    host = np.arange(5, dtype=np.float64)
    array = rt.asdevicearray(device, host)
    allocator = type(device.allocator)
    with patch.object(allocator, "query_buffer_compatibility", lambda *args, **kwargs: 0):
        assert np.array_equal(array._copy_to_host(), host)


def test_another_type_for_the_elements(device: Any) -> None:
    view = rt.asdevicearray(device, np.array([1, 2], np.int32))._buffer_view
    array = rt.DeviceArray(device, view, override_dtype=np.float32)
    assert array.dtype == np.float32 and array.to_host().tolist() == [1.0, 2.0]
    same = rt.asdevicearray(device, np.array([1.5, 2], np.float32), element_type=rt.HalElementType.INT_32)
    assert same._buffer_view.element_type == int(rt.HalElementType.INT_32) and same.to_host().tolist() == [1.5, 2.0]


def test_types() -> None:
    info = dtypes.map_dtype_to_dtype_info(np.float32)
    assert info == dtypes.map_name_to_dtype_info("float32") == dtypes.map_abi_type_to_dtype_info("f32")
    assert (info.is_integer, info.is_signed, info.is_floating_point, info.is_complex) == (False, False, True, False)
    assert dtypes.map_abi_type_to_dtype_info("i16").dtype == np.int16
    for wrong in (lambda: dtypes.map_dtype_to_dtype_info(np.dtype("bfloat16")), lambda: dtypes.map_name_to_dtype_info("x")):
        with pytest.raises(KeyError):
            wrong()
    assert dtypes.map_dtype_to_hal_element_type(ml_dtypes.bfloat16) is rt.HalElementType.BFLOAT_16
    assert dtypes.map_dtype_to_hal_element_type(np.dtype("O")) is None
    assert rt.HalElementType.map_to_dtype(rt.HalElementType.SINT_16) == np.int16
    for unknown in (rt.HalElementType.INT_4, 5, -1):
        with pytest.raises(ValueError, match="numpy has no type"):
            rt.HalElementType.map_to_dtype(unknown)
    assert rt.HalElementType.dense_byte_count(rt.HalElementType.INT_4) == 1
    assert not rt.HalElementType.is_byte_aligned(rt.HalElementType.INT_4)
    assert rt.MemoryType.DEVICE_LOCAL | rt.MemoryType.HOST_VISIBLE == 50 == 48 | rt.MemoryType.HOST_VISIBLE
    with pytest.raises(TypeError):
        rt.MemoryType.DEVICE_LOCAL | "a"


def test_values() -> None:
    assert rt.normalize_value(None) is None and rt.normalize_value([1, [2]]) == [1, [2]]
    for value, dtype in ((1, np.int32), (1.5, np.float32), (True, np.bool_), (np.int64(3), np.int64)):
        assert rt.normalize_value(value).dtype == dtype
    with pytest.raises(OverflowError):
        rt.normalize_value(2**40)
    assert issubclass(vireo.InvalidArgument, ValueError)
