"""`FunctionInvoker`: calls of functions with values of Python, packed by the reflection of the function.

A function's attribute `iree.abi` is a JSON text with the types of its arguments, `a`, and of its results, `r`: names of
numbers such as `i32`, and lists that begin with `ndarray`, `slist`, `stuple`, `sdict`, `py_homogeneous_list`, or `named`.
Functions without the attribute take their arguments as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import dtypes
from ._binding import BufferUsage, HalBufferView, HalDevice, MemoryType, VmContext, VmFunction, VmRef, VmVariantList
from .array_interop import DeviceArray

__all__ = ["FunctionInvoker"]

IMPLICIT_BUFFER_ARG_MEMORY_TYPE = MemoryType.DEVICE_LOCAL
"""The memory of arguments that are copied to the device."""
IMPLICIT_BUFFER_ARG_USAGE = BufferUsage.DEFAULT
"""What arguments that are copied to the device are used for."""

_INTEGERS = ("i8", "i16", "i32", "i64")
_FLOATS = ("f32", "f64")
_MAX_DEPTH = 64


class ArgumentError(ValueError):
    """An argument that a function does not take."""


class ReturnError(ValueError):
    """A result that is not what the function declares."""


class FunctionInvoker:
    """A function of a context, which is called as one of Python."""

    def __init__(self, vm_context: VmContext, device: HalDevice, vm_function: VmFunction) -> None:
        self._vm_context = vm_context
        self._device = device
        self._vm_function = vm_function
        self._arguments: list[Any] | None = None
        self._results: list[Any] | None = None
        self._names: list[str | None] = []
        text = vm_function.reflection.get("iree.abi")
        if text is not None:
            self._parse(text)

    def _parse(self, text: str) -> None:
        try:
            declared = json.loads(text)
            arguments, self._results = declared["a"], declared["r"]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"the attribute iree.abi of the function is malformed: {error!r}") from error
        self._arguments = []
        for description in arguments:
            name = None
            if isinstance(description, list) and description[:1] == ["named"] and len(description) == 3:
                _, name, description = description
            self._names.append(name)
            self._arguments.append(description)

    @property
    def vm_function(self) -> VmFunction:
        """The function."""
        return self._vm_function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._arguments_of(args, kwargs)
        arguments = VmVariantList(len(given))
        for index, value in enumerate(given):
            if self._arguments is None:
                self._push_dynamic(arguments, value, 0)
            else:
                self._push(arguments, value, self._arguments[index], 0)
        results = VmVariantList(len(self._results) if self._results is not None else 1)
        self._invoke(arguments, results)
        return self._results_of(results)

    def _invoke(self, arguments: VmVariantList, results: VmVariantList) -> None:
        self._vm_context.invoke(self._vm_function, arguments, results)

    def _arguments_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        if self._arguments is None:
            if kwargs:
                raise ArgumentError("the function declares no names, so it takes no keywords")
            return args
        for name in kwargs:
            if name not in self._names:
                raise ArgumentError(f"specified kwarg '{name}' is unknown")
        positional = self._names.count(None)
        if len(args) != positional:
            raise ArgumentError(f"mismatched call arity: expected {positional} got {len(args)}")
        missing = [name for name in self._names if name is not None and name not in kwargs]
        if missing:
            raise ArgumentError(f"mismatched call arity: expected the keywords {missing}")
        values = iter(args)
        return [next(values) if name is None else kwargs[name] for name in self._names]

    # Arguments.

    def _push(self, target: VmVariantList, value: Any, description: Any, depth: int) -> None:
        _check_depth(depth)
        if isinstance(description, str):
            if description in _INTEGERS:
                target.push_int(_integer(value, description))
            elif description in _FLOATS:
                target.push_float(_float(value, description))
            else:
                raise ArgumentError(f"the function declares an unknown type {description!r}")
            return
        if not isinstance(description, list) or not description:
            raise ArgumentError(f"the function declares an unknown type {description!r}")
        kind = description[0]
        if kind == "ndarray":
            self._push_array(target, value, description)
        elif kind in ("slist", "stuple"):
            items = _sequence(value, len(description) - 1)
            self._push_all(target, zip(items, description[1:]), depth)
        elif kind == "sdict":
            items = _values(value, [field[0] for field in description[1:]])
            self._push_all(target, zip(items, (field[1] for field in description[1:])), depth)
        elif kind == "py_homogeneous_list" and len(description) == 2:
            items = _sequence(value, None)
            self._push_all(target, ((item, description[1]) for item in items), depth)
        else:
            raise ArgumentError(f"the function declares an unknown type {kind!r}")

    def _push_all(self, target: VmVariantList, items: Iterable[tuple[Any, Any]], depth: int) -> None:
        packed = VmVariantList(0)
        for item, description in items:
            self._push(packed, item, description, depth + 1)
        target.push_list(packed)

    def _push_array(self, target: VmVariantList, value: Any, description: Sequence[Any]) -> None:
        view = _view_of(value)
        if view is None:
            dtype = _dtype_of(description)
            try:
                array = np.asarray(value) if dtype is None else np.asarray(value, dtype=dtype)
            except (TypeError, ValueError) as error:
                message = f"expected an array of {dtype}, got {value!r}: {error}"
                raise ArgumentError(message) from error
            view = self._copied(array)
        target.push_ref(view)

    def _push_dynamic(self, target: VmVariantList, value: Any, depth: int) -> None:
        _check_depth(depth)
        view = _view_of(value)
        if view is not None:
            target.push_ref(view)
        elif type(value) is int:
            target.push_int(_integer(value, "i64"))
        elif type(value) is float:
            target.push_float(value)
        elif isinstance(value, (list, tuple)):
            self._push_dynamics(target, value, depth)
        elif isinstance(value, dict):
            # Programs know no keys: the values come in the order of those.
            self._push_dynamics(target, [value[key] for key in sorted(value)], depth)
        elif isinstance(value, (np.ndarray, np.generic)):
            target.push_ref(self._copied(np.asarray(value)))
        elif isinstance(value, VmRef) or hasattr(type(value), "__iree_vm_ref__"):
            target.push_ref(value)
        else:
            raise ArgumentError(f"programs take no {type(value).__name__}: {value!r}")

    def _push_dynamics(self, target: VmVariantList, values: Iterable[Any], depth: int) -> None:
        packed = VmVariantList(0)
        for value in values:
            self._push_dynamic(packed, value, depth + 1)
        target.push_list(packed)

    def _copied(self, array: np.ndarray[Any, Any]) -> Any:
        element_type = dtypes.map_dtype_to_hal_element_type(array.dtype)
        if element_type is None:
            raise ArgumentError(f"programs have no element type for arrays of {array.dtype}")
        return self._device.allocator.allocate_buffer_copy(
            memory_type=IMPLICIT_BUFFER_ARG_MEMORY_TYPE,
            allowed_usage=IMPLICIT_BUFFER_ARG_USAGE,
            device=self._device,
            buffer=np.asarray(array, order="C"),
            element_type=element_type,
        )

    # Results.

    def _results_of(self, results: VmVariantList) -> Any:
        count = len(results)
        if self._results is None:
            values = [self._dynamic_result(results, index) for index in range(count)]
            return values[0] if count == 1 else tuple(values) if values else None
        declared = self._results
        # The values of one list, tuple or dictionary are the results themselves.
        if len(declared) == 1 and isinstance(declared[0], list) and declared[0][:1] in (["slist"], ["stuple"], ["sdict"]):
            return self._unpacked(results, declared[0], 0)
        if count != len(declared):
            raise ReturnError(f"expected {len(declared)} results, got {count}")
        values = [self._result(results, index, declared[index], 0) for index in range(count)]
        return values[0] if count == 1 else tuple(values) if values else None

    def _result(self, source: VmVariantList, index: int, description: Any, depth: int) -> Any:
        _check_depth(depth)
        if isinstance(description, str):
            expected = int if description in _INTEGERS else float if description in _FLOATS else None
            if expected is None:
                raise ReturnError(f"the function declares an unknown type {description!r}")
            value = source.get_variant(index)
            if type(value) is not expected:
                raise ReturnError(f"expected {description}, got {value!r}")
            return value
        if isinstance(description, list) and description:
            if description[0] == "named" and len(description) == 3:
                return self._result(source, index, description[2], depth + 1)
            if description[0] == "ndarray":
                view = self._object(source, index, HalBufferView, description)
                return DeviceArray(self._device, view, implicit_host_transfer=True, override_dtype=_dtype_of(description))
            if description[0] in ("slist", "stuple", "sdict", "py_homogeneous_list"):
                try:
                    values = source.get_as_list(index)
                except RuntimeError as error:
                    raise ReturnError(f"result {index} is no list, and is declared as {description}") from error
                return self._unpacked(values, description, depth + 1)
        raise ReturnError(f"the function declares an unknown type {description!r}")

    def _unpacked(self, source: VmVariantList, description: Sequence[Any], depth: int) -> Any:
        _check_depth(depth)
        kind, fields = description[0], list(description[1:])
        if kind == "py_homogeneous_list":
            fields = fields * len(source)
        names = [field[0] for field in fields] if kind == "sdict" else []
        fields = [field[1] for field in fields] if kind == "sdict" else fields
        if len(source) != len(fields):
            message = f"expected {len(fields)} values, got {len(source)}: {description}"
            raise ReturnError(message)
        values = [self._result(source, index, field, depth) for index, field in enumerate(fields)]
        return dict(zip(names, values)) if kind == "sdict" else tuple(values) if kind == "stuple" else values

    def _object(self, source: VmVariantList, index: int, of: type[Any], description: Any) -> Any:
        try:
            found = source.get_as_object(index, of)
        except ValueError:
            found = None
        if found is None:
            raise ReturnError(f"result {index} is no {of.__name__}, and is declared as {description}")
        return found

    def _dynamic_result(self, source: VmVariantList, index: int) -> Any:
        value = source.get_variant(index)
        if isinstance(value, VmRef) and value.isinstance(HalBufferView):
            return DeviceArray(self._device, value.deref(HalBufferView), implicit_host_transfer=True)
        return value

    def __repr__(self) -> str:
        return repr(self._vm_function)


def _view_of(value: Any) -> HalBufferView | None:
    if isinstance(value, HalBufferView):
        return value
    return value._buffer_view if isinstance(value, DeviceArray) else None


def _dtype_of(description: Sequence[Any]) -> np.dtype[Any] | None:
    """The type of the elements of an array, if `numpy` has it: others are those of the tensor."""
    try:
        return dtypes.map_abi_type_to_dtype_info(description[1]).dtype
    except (KeyError, IndexError, TypeError):
        return None


def _sequence(value: Any, count: int | None) -> Sequence[Any]:
    try:
        found = len(value)
        values = [value[index] for index in range(found)]
    except (TypeError, KeyError, IndexError) as error:
        raise ArgumentError(f"could not get items from: {value!r}: {error}") from error
    if count is not None and found != count:
        raise ArgumentError(f"expected a sequence with {count} values. got: {value!r}")
    return values


def _values(value: Any, keys: Sequence[str]) -> Sequence[Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(f"expected a dict with {len(keys)} values. got: {value!r}")
    if len(value) != len(keys):
        raise ArgumentError(f"expected a dict with {len(keys)} values. got: {value!r}")
    for key in keys:
        if key not in value:
            raise ArgumentError(f"could not get item '{key}' from: {value!r}")
    return [value[key] for key in keys]


def _integer(value: Any, of: str) -> int:
    number = _number(value, int, of)
    if number != value or not -(2**63) <= number < 2**63:
        raise ArgumentError(f"expected {of}, got {value!r}")
    return int(number)


def _float(value: Any, of: str) -> float:
    return float(_number(value, float, of))


def _number(value: Any, convert: Callable[[Any], Any], of: str) -> Any:
    is_number = isinstance(value, (bool, int, float, np.generic)) or (isinstance(value, np.ndarray) and value.ndim == 0)
    if not is_number:
        raise ArgumentError(f"expected {of}, got {value!r}")
    try:
        return convert(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"expected {of}, got {value!r}") from error


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ArgumentError(f"lists are in lists more than {_MAX_DEPTH} deep")
