"""Tensors as arrays of numpy, which is imported when the first one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _vireo

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from ._vireo import Tensor


def _bytes_of(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The elements of a type that the buffer protocol does not have, as bytes, without a copy."""
    return np.asarray(np.from_dlpack(_Bytes(tensor)), np.uint8)


class _Bytes:
    """A tensor whose elements numpy takes for bytes."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, *, stream: None = None, **_: Any) -> CapsuleType:
        return self._tensor._dlpack_bytes()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()


def to_array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """An array over the elements."""
    name = tensor.dtype
    try:
        view = memoryview(tensor)
    except BufferError:
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, name))
        array: np.ndarray[Any, Any] = _bytes_of(tensor).view(dtype).reshape(tensor.shape)
        return array
    return np.asarray(view)


def convert(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """What `numpy.asarray` asks for."""
    if copy is False and not tensor.in_place:
        raise ValueError("something else refers to the tensor, and `copy=False` refuses a copy of its elements")
    array: np.ndarray[Any, Any] = to_array(tensor)
    if dtype is not None and np.dtype(dtype) != array.dtype:
        if copy is False:
            raise ValueError(f"the elements are {array.dtype}, and `copy=False` refuses to convert them")
        converted: np.ndarray[Any, Any] = array.astype(dtype)
        return converted
    copied: np.ndarray[Any, Any] = array.copy() if copy else array
    return copied


def to_list(tensor: Tensor) -> Any:
    """The elements as lists of lists of numbers."""
    try:
        return memoryview(tensor).tolist()
    except (BufferError, NotImplementedError, ValueError):
        # Complex numbers and narrow floats are none of the formats that `memoryview` reads.
        return to_array(tensor).tolist()


def from_bytes(shape: tuple[int, ...], element_type: str, data: bytes) -> Tensor:
    """A tensor that was pickled."""
    return _vireo._tensor_of_bytes(shape, element_type, data)
