"""Tables of Arrow as arrays of numpy, and results as columns of tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._batches import Array, missing, nulls, numbers, refused
from ._source import ray_module as module


class Table:
    """A `pyarrow.Table`. Rows of more than one number are lists, or the tensors of Arrow or of Ray."""

    def __init__(self, table: Any) -> None:
        self.table = table

    @property
    def names(self) -> list[str]:
        return list(self.table.column_names)

    def column(self, name: str, dtype: str) -> Array:
        count = self.names.count(name)
        if count == 0:
            raise missing(name, self.names)
        if count > 1:
            raise refused(name, f"is in the batch {count} times")
        column = self.table.column(name)
        if column.null_count:
            raise nulls(name, column.null_count, len(column))
        if column.num_chunks == 1:
            return elements(name, column.chunk(0), dtype)
        if column.num_chunks == 0:
            return np.empty(0, dtype=object)
        return np.concatenate([elements(name, chunk, dtype) for chunk in column.chunks if len(chunk)] or [np.empty(0, object)])

    def with_columns(self, dropped: Sequence[str], columns: Mapping[str, Array], like: str) -> Any:
        form = self.table.column(like).type
        table = self.table.drop_columns(list(dropped))
        for name, array in columns.items():
            table = table.append_column(name, column_of(array, form))
        return table


class Record(Table):
    """A `pyarrow.RecordBatch`, whose columns are one array each."""

    def __init__(self, batch: Any) -> None:
        super().__init__(module("pyarrow").Table.from_batches([batch]))

    def with_columns(self, dropped: Sequence[str], columns: Mapping[str, Array], like: str) -> Any:
        table = super().with_columns(dropped, columns, like)
        arrays = [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in table.columns]
        return module("pyarrow").RecordBatch.from_arrays(arrays, schema=table.schema)


def elements(name: str, array: Any, dtype: str) -> Array:
    """The elements of an array of Arrow, in place where numpy has the type and a row is one range."""
    arrow = module("pyarrow")
    types, kind = arrow.types, array.type
    if isinstance(array, arrow.ExtensionArray):
        return tensors(name, array, dtype)
    if types.is_fixed_size_list(kind):
        sizes, values = [len(array), kind.list_size], array.flatten()
    elif types.is_list(kind) or types.is_large_list(kind):
        offsets = array.offsets.to_numpy()
        lengths = np.diff(offsets)
        if len(lengths) and (lengths != lengths[0]).any():
            row = int((lengths != lengths[0]).argmax())
            raise refused(name, f"is ragged: row 0 has {lengths[0]} elements, and row {row} {lengths[row]}")
        if not len(lengths):
            return np.empty(0, dtype=object)
        sizes, values = [len(array), int(lengths[0])], array.flatten()
    else:
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise refused(name, f"has elements of the type {kind}, where numbers are expected")
        # Truth values are bits in Arrow.
        plain: Array = array.to_numpy(zero_copy_only=not types.is_boolean(kind))
        return plain
    if values.null_count:
        raise nulls(name, values.null_count, len(array))
    inner = elements(name, values, dtype)
    if math.prod(sizes) == 0:
        return np.empty(sizes, inner.dtype)
    return inner.reshape(*sizes, *inner.shape[1:])


def tensors(name: str, array: Any, dtype: str) -> Array:
    """The elements of a column of tensors: the type `arrow.fixed_shape_tensor`, or those that Ray has."""
    if isinstance(array, module("pyarrow").FixedShapeTensorArray):
        if array.storage.flatten().null_count:
            raise nulls(name, array.storage.flatten().null_count, len(array))
        tensor: Array = array.to_numpy_ndarray()
        return tensor
    if type(array).__module__.partition(".")[0] == "ray" and hasattr(array, "to_numpy"):
        # Tensors of different shapes are an array of objects.
        return numbers(name, array.to_numpy(zero_copy_only=False), dtype)
    raise refused(name, f"has the type {array.type}, which is no tensor of Arrow or of Ray")


def column_of(array: Array, form: Any) -> Any:
    """A result as a column, whose rows are tensors or lists of any length if those of the type `form` are, else lists of one."""
    arrow = module("pyarrow")
    array = np.ascontiguousarray(array)
    if array.ndim == 1:
        return arrow.array(array)
    if isinstance(form, arrow.BaseExtensionType) and len(array):
        if type(form).__module__.partition(".")[0] == "ray":
            return module("ray.data.extensions").ArrowTensorArray.from_numpy(array)
        return arrow.FixedShapeTensorArray.from_numpy_ndarray(array)
    column = arrow.array(array.reshape(-1))
    for size in reversed(array.shape[1:]):
        # Spark, for one, has no lists of one length.
        if arrow.types.is_large_list(form) or arrow.types.is_list(form):
            kind = arrow.ListArray if arrow.types.is_list(form) else arrow.LargeListArray
            offsets = np.arange(0, len(column) + 1, size) if size else np.zeros(len(array) + 1)
            column = kind.from_arrays(arrow.array(offsets.astype(np.int32 if kind is arrow.ListArray else np.int64)), column)
        else:
            column = arrow.FixedSizeListArray.from_arrays(column, size)
    return column
