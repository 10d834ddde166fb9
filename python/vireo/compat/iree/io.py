"""Parameters as arrays of `numpy`, and archives of them."""

from __future__ import annotations

import array
import json
import os
from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from ._binding import ParameterIndex, ParameterIndexEntry
from .dtypes import map_dtype_to_hal_element_type

__all__ = [
    "SplatValue",
    "parameter_index_add_numpy_ndarray",
    "parameter_index_entry_as_numpy_flat_ndarray",
    "parameter_index_entry_as_numpy_ndarray",
    "save_archive_file",
]

# Metadata of tensors is this, then JSON.
_PREFIX = b"TENSORv0:"
# That of archives that `iree.turbine` writes.
_OTHER_PREFIX = b"PYTORCH:"


class SplatValue:
    """A value that is repeated."""

    def __init__(self, pattern: array.array[Any] | np.ndarray[Any, Any] | np.generic, count: Sequence[int] | int) -> None:
        if isinstance(pattern, array.array):
            item_size, items = pattern.itemsize, len(pattern)
        elif isinstance(pattern, (np.ndarray, np.generic)):
            item_size, items = pattern.dtype.itemsize, pattern.size
        else:
            raise TypeError(f"expected an array or a number of numpy, got {type(pattern).__name__}")
        if items != 1:
            raise ValueError(f"expected one element to repeat, got {items}")
        self.pattern = pattern
        self.total_length = item_size * (count if isinstance(count, int) else reduce(mul, count, 1))

    def __repr__(self) -> str:
        return f"SplatValue({self.pattern} of {self.total_length})"


def save_archive_file(entries: dict[str, Any], file_path: str | os.PathLike[str]) -> None:
    """Writes an archive of arrays, and of values that are repeated."""
    index = ParameterIndex()
    for key, value in entries.items():
        if isinstance(value, SplatValue):
            index.add_splat(key, value.pattern, value.total_length)
        else:
            index.add_buffer(key, value)
    index.create_archive_file(os.fspath(file_path))


def parameter_index_add_numpy_ndarray(index: ParameterIndex, name: str, array: np.ndarray[Any, Any]) -> None:
    """Adds an array, with its shape and type."""
    index.add_buffer(name, np.asarray(array, order="C"), metadata=_metadata_of(array))


def parameter_index_entry_as_numpy_flat_ndarray(index_entry: ParameterIndexEntry) -> np.ndarray[Any, Any]:
    """The bytes of a parameter."""
    if index_entry.is_file:
        return np.asarray(index_entry.file_view)
    pattern = np.frombuffer(index_entry.splat_pattern, dtype=np.uint8)
    return np.tile(pattern, index_entry.length // len(pattern))


def parameter_index_entry_as_numpy_ndarray(index_entry: ParameterIndexEntry) -> np.ndarray[Any, Any]:
    """A parameter that was added as an array."""
    dtype, shape = _type_of(index_entry)
    flat = parameter_index_entry_as_numpy_flat_ndarray(index_entry)
    return flat.view(dtype).reshape(shape)


def _metadata_of(array: np.ndarray[Any, Any]) -> bytes:
    if map_dtype_to_hal_element_type(array.dtype) is None:
        raise ValueError(f"programs have no element type for arrays of {array.dtype}")
    dtype = array.dtype
    return _PREFIX + json.dumps(
        {
            "type": "Tensor",
            "dtype": dtype.name,
            "shape": list(array.shape),
            "dtype_desc": {
                "class_name": type(dtype).__name__,
                "is_complex": dtype.kind == "c",
                "is_floating_point": dtype.kind == "f",
                "is_signed": dtype.kind == "i",
                "itemsize": dtype.itemsize,
            },
        }
    ).encode()


def _type_of(index_entry: ParameterIndexEntry) -> tuple[np.dtype[Any], list[int]]:
    metadata = index_entry.metadata
    prefix = next((prefix for prefix in (_PREFIX, _OTHER_PREFIX) if metadata.startswith(prefix)), None)
    if prefix is None:
        raise ValueError(f"parameter '{index_entry.key}' has no metadata of a tensor")
    try:
        fields = json.loads(metadata[len(prefix) :])
        if fields["type"] != "Tensor":
            raise ValueError(f"it is a {fields['type']}")
        shape = [int(size) for size in fields["shape"]]
        return np.dtype(fields["dtype"]), shape
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"the metadata of parameter '{index_entry.key}' is malformed: {error!r}") from error
