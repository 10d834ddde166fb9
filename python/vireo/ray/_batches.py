"""Batches of engines as arrays of numpy, and results as batches of the same kind.

Dictionaries of arrays, `pyarrow.Table` and `RecordBatch`, `pandas.DataFrame` and single arrays. None of these libraries
is imported here: who passes a table has `pyarrow`. Elements stay where they are if they follow each other there; a
column that is not numbers of one shape is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .. import _vireo
from ._source import described

Array = npt.NDArray[Any]


class Batch(Protocol):
    """What a batch of an engine is to a predictor."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def column(self, name: str, dtype: str) -> Array:
        """The elements of a column; `dtype` is for rows of numbers that have no type, such as lists."""

    def with_columns(self, dropped: Sequence[str], columns: Mapping[str, Array], like: str) -> Any:
        """A batch of the same kind with further columns, in the form that the column `like` has."""


def refused(name: str, why: str) -> _vireo.InvalidArgument:
    """The exception for a column."""
    return _vireo.InvalidArgument(f"column `{name}` {why}")


def missing(name: str, names: Sequence[str]) -> _vireo.InvalidArgument:
    """The exception for a column that is not there."""
    others = ", ".join(f"`{other}`" for other in names)
    return refused(name, f"is not in the batch, which has {others or 'no columns'}")


def nulls(name: str, count: int, rows: int) -> _vireo.InvalidArgument:
    """The exception for a column with nulls."""
    return refused(name, f"has {count} null{'s' if count != 1 else ''} in {rows} rows, and functions take none")


def batch_of(value: object) -> Batch:
    """The batch that an engine has passed."""
    library = type(value).__module__.partition(".")[0]
    if isinstance(value, Mapping):
        return Columns(value)
    if isinstance(value, np.ndarray):
        return Single(value)
    if library == "pyarrow" and type(value).__name__ in ("Table", "RecordBatch"):
        from ._arrow import Record, Table

        return Table(value) if type(value).__name__ == "Table" else Record(value)
    if library == "pandas" and hasattr(value, "columns"):
        return Frame(value)
    raise _vireo.InvalidArgument(
        "expected a dictionary of arrays, a pyarrow.Table or RecordBatch, a pandas.DataFrame, or an array of numpy as batch, "
        f"got {described(value)}"
    )


class Single:
    """An array, which is the one column and has any name."""

    def __init__(self, array: Array) -> None:
        self.array = array

    @property
    def names(self) -> list[str]:
        return []

    def column(self, name: str, dtype: str) -> Array:
        return numbers(name, self.array, dtype)

    def with_columns(self, dropped: Sequence[str], columns: Mapping[str, Array], like: str) -> Array:
        if len(columns) != 1:
            raise _vireo.InvalidArgument(f"an array has no place for the outputs {', '.join(columns)}: pass a dictionary")
        return next(iter(columns.values()))


class Columns:
    """A dictionary of arrays, or of lists."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = columns

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def column(self, name: str, dtype: str) -> Array:
        if name not in self.columns:
            raise missing(name, self.names)
        return numbers(name, self.columns[name], dtype)

    def with_columns(self, dropped: Sequence[str], columns: Mapping[str, Array], like: str) -> dict[str, Any]:
        return {**{name: value for name, value in self.columns.items() if name not in dropped}, **columns}


class Frame:
    """A `pandas.DataFrame`. Rows of more than one number are the elements of a column of objects."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def column(self, name: str, dtype: str) -> Array:
        if name not in self.frame.columns:
            raise missing(name, self.names)
        series = self.frame[name]
        if series.ndim != 1:
            raise refused(name, f"is in the batch {series.shape[1]} times")
        # The extension types have a bit for nulls; in a column of floats, NaN is a number.
        if not isinstance(series.dtype, np.dtype):
            count = int(series.isna().sum())
            if count:
                raise nulls(name, count, len(series))
            kind = getattr(series.dtype, "numpy_dtype", None)
            return numbers(name, series.to_numpy(dtype=kind), dtype)
        return numbers(name, series.to_numpy(), dtype)

    def with_columns(self, dropped: Sequence[str], columns: Mapping[str, Array], like: str) -> Any:
        kept = self.frame.drop(columns=list(dropped))
        return kept.assign(**{name: array if array.ndim == 1 else list(array) for name, array in columns.items()})


def numbers(name: str, value: Any, dtype: str) -> Array:
    """A column of numbers as an array, whose first dimension is the rows."""
    if isinstance(value, (list, tuple)):
        return stacked(name, value, dtype)
    array = np.asarray(value)
    if array.ndim == 0:
        raise refused(name, f"has no rows: it is {described(value)}")
    if array.dtype.kind == "O":
        return stacked(name, array, dtype)
    if isinstance(value, np.ma.MaskedArray) and (count := int(np.sum(value.mask))):
        raise nulls(name, count, len(array))
    return array


def is_null(value: object) -> bool:
    """True for None, for `pandas.NA` and `NaT`, and for a NaN among objects."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def stacked(name: str, rows: Any, dtype: str) -> Array:
    """The rows of a column of objects as one array, which needs a copy."""
    found = list(rows)
    count = sum(map(is_null, found))
    if count:
        raise nulls(name, count, len(found))
    if not found:
        return np.empty(0, dtype=object)
    arrays = [row_of(name, index, row, dtype) for index, row in enumerate(found)]
    for index, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise refused(name, f"is ragged: row 0 has the shape {arrays[0].shape}, and row {index} {array.shape}")
        if array.dtype != arrays[0].dtype:
            raise refused(name, f"has elements of {arrays[0].dtype} in row 0, and of {array.dtype} in row {index}")
    return np.stack(arrays)


def row_of(name: str, index: int, row: Any, dtype: str) -> Array:
    """One row of a column of objects."""
    if isinstance(row, np.ndarray) and row.dtype.kind == "O":
        return stacked(f"{name}[{index}]", row, dtype)
    if isinstance(row, (np.ndarray, np.generic)):
        return np.asarray(row)
    try:
        array = np.asarray(row)
    except ValueError:
        raise refused(name, f"is ragged: row {index} has lists of different lengths") from None
    if array.dtype.kind not in "biufc":
        raise refused(name, f"has {described(row)} in row {index}, where numbers are expected")
    return declared(name, index, array, dtype) if isinstance(row, (bool, int, float, list, tuple)) else array


def dtype_of(name: str) -> np.dtype[Any]:
    """The type of elements with a name of `numpy` or `ml_dtypes`."""
    library: Any = np
    if not hasattr(np, name):
        import ml_dtypes

        library = ml_dtypes
    found: np.dtype[Any] = np.dtype(getattr(library, name))
    return found


def declared(name: str, index: int, array: Array, dtype: str) -> Array:
    """Numbers of Python, which have no type, as elements of the declared one if it holds their values."""
    target, kind = dtype_of(dtype), array.dtype.kind
    integers = target.kind in "iu"
    if array.dtype == target or not (kind in "iu" and target.kind in "iufV" or kind == "f" and target.kind in "fV"):
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        converted: Array = array.astype(target)
    exact = converted.astype(array.dtype) == array if integers else np.isfinite(converted) | ~np.isfinite(array)
    if not exact.all():
        raise refused(name, f"has a number in row {index} that {dtype} does not hold")
    return converted
