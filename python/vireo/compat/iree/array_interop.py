"""`DeviceArray`: a tensor of a device that acts as an array of `numpy`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from . import dtypes
from ._binding import (
    BufferCompatibility,
    BufferUsage,
    HalBufferView,
    HalDevice,
    HalElementType,
    HalFence,
    MappedMemory,
    MemoryType,
)

__all__ = ["DeviceArray", "asdevicearray"]


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A tensor of a device. Its elements are fetched when they are asked for: by `to_host`, and with
    `implicit_host_transfer` by everything that `numpy` does with arrays."""

    def __init__(
        self,
        device: HalDevice,
        buffer_view: HalBufferView,
        implicit_host_transfer: bool = False,
        override_dtype: Any = None,
    ) -> None:
        self._device = device
        self._buffer_view = buffer_view
        self._implicit_host_transfer = implicit_host_transfer
        self._override_dtype = None if override_dtype is None else np.dtype(override_dtype)
        # What the elements are read as, if that is not what programs are told.
        self._raw_dtype: np.dtype[Any] | None = None
        self._host_array: np.ndarray[Any, Any] | None = None

    @property
    def shape(self) -> list[int]:
        """The size of each dimension."""
        return self._buffer_view.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._get_raw_dtype() if self._override_dtype is None else self._override_dtype

    @property
    def is_host_accessible(self) -> bool:
        """Whether the elements have been fetched."""
        return self._host_array is not None

    def to_host(self) -> np.ndarray[Any, Any]:
        """The elements as an array of `numpy`: where they are, if the device has memory of the host."""
        return self._transfer_to_host(False)

    def _get_raw_dtype(self) -> np.dtype[Any]:
        if self._raw_dtype is not None:
            return self._raw_dtype
        return dtypes.map_hal_element_type_to_dtype(self._buffer_view.element_type)

    def _transfer_to_host(self, implicit: bool) -> np.ndarray[Any, Any]:
        if self._host_array is None:
            if implicit and not self._implicit_host_transfer:
                raise ValueError(
                    "a DeviceArray is not fetched implicitly: fetch it by .to_host()"
                )
            array = self._map_to_host()[1] if self._is_mappable() else self._copy_to_host()
            if self._override_dtype is not None and self._override_dtype != array.dtype:
                array = array.astype(self._override_dtype)
            self._host_array = array
        return self._host_array

    def _is_mappable(self) -> bool:
        buffer = self._buffer_view.get_buffer()
        visible = int(MemoryType.HOST_VISIBLE)
        scoped = int(BufferUsage.MAPPING_SCOPED)
        return buffer.memory_type() & visible == visible and buffer.allowed_usage() & scoped == scoped

    def _map_to_host(self) -> tuple[MappedMemory, np.ndarray[Any, Any]]:
        mapped = self._buffer_view.map()
        return mapped, mapped.asarray(self._buffer_view.shape, self._get_raw_dtype())

    def _copy_to_host(self) -> np.ndarray[Any, Any]:
        """The elements in memory of their own: copied there by the device if it can use such memory, else by way of
        memory that the host can map."""
        source = self._buffer_view.get_buffer()
        allocator = self._device.allocator
        array = np.empty(self._buffer_view.shape, self._get_raw_dtype())
        if source.byte_length() != array.nbytes or not array.nbytes:
            return array if not array.nbytes else self._map_to_host()[1].copy()
        memory_type = MemoryType.HOST_LOCAL | MemoryType.DEVICE_VISIBLE
        usage = int(BufferUsage.TRANSFER_TARGET)
        compatibility = allocator.query_buffer_compatibility(
            memory_type=memory_type, allowed_usage=usage, intended_usage=usage, allocation_size=array.nbytes
        )
        if compatibility & int(BufferCompatibility.IMPORTABLE):
            target = allocator.import_host_allocation(array, memory_type=memory_type, allowed_usage=usage)
            self._copy(source, target)
            return array
        target = allocator.allocate_buffer(
            memory_type=memory_type, allowed_usage=usage | BufferUsage.MAPPING, allocation_size=array.nbytes
        )
        self._copy(source, target)
        return target.map().asarray(self._buffer_view.shape, array.dtype)

    def _copy(self, source: Any, target: Any) -> None:
        semaphore = self._device.create_semaphore(0)
        done = HalFence.create_at(semaphore, 1)
        self._device.queue_copy(source, target, wait_semaphores=[], signal_semaphores=done)
        done.wait()

    # What `numpy` asks of arrays.

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self._transfer_to_host(True)
        if copy:
            return np.array(array, dtype=dtype)
        if copy is False and dtype is not None and np.dtype(dtype) != array.dtype:
            raise ValueError(f"{array.dtype} elements become {np.dtype(dtype)} by a copy, which copy=False refuses")
        return np.asarray(array, dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        inputs, kwargs = cast("tuple[Any, Any]", _to_host((inputs, kwargs)))
        return getattr(ufunc, method)(*inputs, **kwargs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = cast("tuple[Any, Any]", _to_host((args, kwargs)))
        return func(*args, **kwargs)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._transfer_to_host(True).__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def astype(self, dtype: Any, casting: Any = "unsafe", copy: bool = True) -> Any:
        """The elements as those of another type."""
        if np.dtype(dtype) == self.dtype and not copy:
            return self
        return self._transfer_to_host(True).astype(dtype, casting=casting, copy=copy)

    def reshape(self, *args: Any) -> np.ndarray[Any, Any]:
        """The elements in another shape."""
        return self._transfer_to_host(True).reshape(*args)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._transfer_to_host(True))

    def __getitem__(self, index: Any) -> Any:
        return self._transfer_to_host(True)[index]

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return asdevicearray(
            self._device,
            copy.deepcopy(self._transfer_to_host(False), memo),
            implicit_host_transfer=self._implicit_host_transfer,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process has no such device, so it gets the elements.
        return (_restored, (self._transfer_to_host(False),))

    def __repr__(self) -> str:
        return f"<IREE DeviceArray: shape={np.array(self.shape, dtype=object).tolist()}, dtype={self.dtype}>"


def _restored(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array


def _to_host(value: Any) -> Any:
    """The value with arrays of the host in place of those of devices."""
    if isinstance(value, DeviceArray):
        return value._transfer_to_host(True)
    if type(value) in (tuple, list):
        return type(value)(map(_to_host, value))
    if type(value) is dict:
        return {key: _to_host(item) for key, item in value.items()}
    return value


def asdevicearray(
    device: HalDevice,
    a: Any,
    dtype: Any = None,
    *,
    implicit_host_transfer: bool = False,
    memory_type: MemoryType | int = MemoryType.DEVICE_LOCAL,
    allowed_usage: BufferUsage | int = BufferUsage.DEFAULT,
    element_type: HalElementType | int | None = None,
) -> DeviceArray:
    """A tensor of a device with the elements of an array. One that is a tensor of a device already stays as it is."""
    if isinstance(a, DeviceArray):
        if dtype is None or np.dtype(dtype) == a.dtype:
            return a
        raise ValueError(f"a DeviceArray of {a.dtype} is not converted to {np.dtype(dtype)}: fetch it and convert it")
    # An array without dimensions would become one with a dimension by `np.ascontiguousarray`.
    array = np.asarray(a, dtype=dtype, order="C")
    if element_type is None:
        element_type = dtypes.map_dtype_to_hal_element_type(array.dtype)
        if element_type is None:
            raise ValueError(f"programs have no element type for arrays of {array.dtype}")
    view = device.allocator.allocate_buffer_copy(
        memory_type=memory_type, allowed_usage=allowed_usage, device=device, buffer=array, element_type=element_type
    )
    result = DeviceArray(device, cast(HalBufferView, view), implicit_host_transfer)
    result._raw_dtype = array.dtype
    return result
