"""The functions of a program that a predictor calls: which columns and constants they take, and how a batch is cut.

A function whose first dimension is dynamic gets a batch as it is. Others get pieces of the sizes that they have. A
piece that is too short is filled up with copies of its last row, whose results are dropped.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from .. import _vireo
from ._batches import Array, dtype_of, refused

# Rows that a call costs as much as, beyond those that it computes: fewer calls are made for a little padding.
ROWS_OF_A_CALL = 8
# Bytes from which an argument is borrowed instead of copied to memory that the calls of a size share.
BORROWED = 4096
# What a prepared call or a started one returns.
Results: TypeAlias = Any


@dataclass(frozen=True)
class Input:
    """An argument that has a row for each row of the batch."""

    place: int
    name: str
    column: str
    dtype: str
    elements: np.dtype[Any]
    row: tuple[int | None, ...]

    def check(self, array: Array, function: str) -> None:
        """Refuses an array that the function does not take, by the name of its column."""
        sizes = array.shape[1:]
        fits = sizes == self.row or (
            len(sizes) == len(self.row) and all(want is None or want == size for want, size in zip(self.row, sizes))
        )
        if fits and array.dtype == self.elements:
            return
        shape = "x".join(["?", *("?" if size is None else str(size) for size in self.row)])
        expected = f"expected {shape} elements of {self.dtype} for the argument `{self.name}` of `{function}`"
        # The types of a program have no sign.
        if array.dtype.name.removeprefix("u") != self.dtype.removeprefix("u") or not array.dtype.isnative:
            raise refused(self.column, f"has elements of {array.dtype}: {expected}")
        if not fits:
            raise refused(self.column, f"has the shape {'x'.join(map(str, array.shape))}: {expected}")


@dataclass(frozen=True)
class Output:
    """A result that has a row for each row of the batch."""

    place: int
    name: str
    dtype: str
    row: tuple[int | None, ...]

    def empty(self) -> Array:
        """The output of a batch without rows."""
        if None in self.row:
            raise _vireo.InvalidArgument(
                f"the batch has no rows, and the shape of a row of the output `{self.name}` depends on them"
            )
        return np.empty((0, *(size or 0 for size in self.row)), dtype_of(self.dtype))


@dataclass(frozen=True)
class Program:
    """What a predictor calls. `functions` has the name of a function for each size, and for None a dynamic one."""

    functions: Mapping[int | None, str]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    constants: tuple[tuple[int, Any], ...]
    # The place of the only output if the functions have one result, which no tuple is around.
    is_single: bool

    @property
    def function(self) -> str:
        """The function that messages name."""
        return next(iter(self.functions.values()))


def first_size(signature: _vireo.Signature, places: Sequence[int]) -> int | None:
    """The number of rows that a function takes, None if it takes any."""
    sizes = set()
    for place in places:
        value = signature.arguments[place]
        if value.shape is None or not value.shape or value.dtype is None:
            raise _vireo.InvalidArgument(
                f"the argument `{value.name}` of `{signature}` has no rows: pass it in `constants`, not as a column"
            )
        sizes.add(value.shape[0])
    sizes.discard(None)
    if len(sizes) > 1:
        raise _vireo.InvalidArgument(f"the arguments of `{signature}` have different numbers of rows")
    return sizes.pop() if sizes else None


def comparable(signature: _vireo.Signature, places: Sequence[int]) -> tuple[object, ...]:
    """The types of a signature without the number of rows."""
    arguments = [
        (value.dtype, value.shape and value.shape[1:]) if place in places else (value.type, value.shape)
        for place, value in enumerate(signature.arguments)
    ]
    return (*arguments, *((value.dtype, value.shape and value.shape[1:]) for value in signature.results))


def named(signature: _vireo.Signature, name: str, keyword: str) -> int:
    """The place of an argument."""
    names = [value.name for value in signature.arguments]
    if name not in names:
        raise _vireo.InvalidArgument(f"`{keyword}`: `{signature}` has no argument `{name}`")
    return names.index(name)


def columns_of(
    signature: _vireo.Signature, columns: str | Sequence[str] | Mapping[str, str] | None, constants: Mapping[str, Any]
) -> dict[int, str]:
    """The column of each argument that has one."""
    fixed = {named(signature, name, "constants") for name in constants}
    free = [place for place in range(len(signature.arguments)) if place not in fixed]
    if isinstance(columns, Mapping):
        chosen = {named(signature, name, "columns"): column for name, column in columns.items()}
    else:
        names = [signature.arguments[place].name for place in free] if columns is None else columns
        names = [names] if isinstance(names, str) else list(names)
        if len(names) != len(free):
            raise _vireo.InvalidArgument(
                f"`columns` has {len(names)} names, and `{signature}` takes {len(free)} arguments that are no constants"
            )
        chosen = dict(zip(free, names))
    for place in chosen.keys() & fixed:
        raise _vireo.InvalidArgument(f"the argument `{signature.arguments[place].name}` is a column and a constant")
    for place in free:
        if place not in chosen:
            raise _vireo.InvalidArgument(f"the argument `{signature.arguments[place].name}` of `{signature}` has no column")
    if not chosen:
        raise _vireo.InvalidArgument(f"`{signature}` takes no column")
    return {place: chosen[place] for place in sorted(chosen)}


def program_of(
    signatures: Mapping[str, _vireo.Signature],
    function: str | None,
    batch_sizes: Mapping[int, str] | None,
    columns: str | Sequence[str] | Mapping[str, str] | None,
    constants: Mapping[str, Any],
    output: str | Sequence[str | None] | None,
) -> Program:
    """The program that a predictor was asked for, if the model has it."""
    if function is not None and batch_sizes:
        raise _vireo.InvalidArgument("expected `function` or `batch_sizes`, got both")
    if function is None and not batch_sizes:
        if len(signatures) != 1:
            raise _vireo.InvalidArgument(f"expected the name of a function, one of {', '.join(signatures) or 'none'}")
        function = next(iter(signatures))
    wanted: dict[int | None, str] = {} if batch_sizes else {None: str(function)}
    for rows, name in (batch_sizes or {}).items():
        wanted[rows] = name
    for name in wanted.values():
        if name not in signatures:
            raise _vireo.NotFound(f"the model has no function `{name}`, but {', '.join(signatures) or 'none'}")
    first = signatures[next(iter(wanted.values()))]
    places = columns_of(first, columns, constants)
    functions: dict[int | None, str] = {}
    for size, name in wanted.items():
        signature = signatures[name]
        if comparable(signature, list(places)) != comparable(first, list(places)):
            raise _vireo.InvalidArgument(f"functions of different sizes take and return the same rows: `{first}`, `{signature}`")
        taken = first_size(signature, list(places))
        if size is not None and (not isinstance(size, int) or size < 1 or taken not in (None, size)):
            raise _vireo.InvalidArgument(f"`batch_sizes` has {size!r} for `{signature}`, which takes {taken or 'any'} rows")
        functions[taken if size is None else size] = name
    inputs = [
        Input(place, value.name, column, str(value.dtype), dtype_of(str(value.dtype)), (value.shape or ())[1:])
        for (place, column), value in ((item, first.arguments[item[0]]) for item in places.items())
    ]
    fixed = tuple((named(first, name, "constants"), value) for name, value in constants.items())
    return Program(functions, tuple(inputs), outputs_of(first, output), fixed, len(first.results) == 1)


def outputs_of(signature: _vireo.Signature, output: str | Sequence[str | None] | None) -> tuple[Output, ...]:
    """The columns of the results."""
    if output is None:
        names: list[str | None] = [value.name or f"output{place}" for place, value in enumerate(signature.results)]
    else:
        names = [output] if isinstance(output, str) else list(output)
    if len(names) != len(signature.results):
        raise _vireo.InvalidArgument(f"`output` has {len(names)} names, and `{signature}` has {len(signature.results)} results")
    outputs = []
    for place, (name, value) in enumerate(zip(names, signature.results)):
        if name is None:
            continue
        if not value.shape or value.dtype is None:
            raise _vireo.InvalidArgument(f"result {place} of `{signature}` has no rows: its place in `output` has to be None")
        outputs.append(Output(place, name, value.dtype, value.shape[1:]))
    if not outputs or len({one.name for one in outputs}) != len(outputs):
        raise _vireo.InvalidArgument(f"expected different names in `output`, got {', '.join(map(repr, names)) or 'none'}")
    return tuple(outputs)


@lru_cache(maxsize=64)
def first_pieces(sizes: tuple[int, ...]) -> tuple[int, list[int]]:
    """The size that is cheapest for a row, and the first call of the cheapest choice for each small number of rows."""
    best = min(sizes, key=lambda size: (size + ROWS_OF_A_CALL) / size)
    # Of more other calls than `best` has rows, some together compute a multiple of that.
    limit = min(best * max(sizes), 1 << 14)
    cost, first = [0], [0]
    for row in range(1, limit + 1):
        total, size = min((cost[max(0, row - size)] + size + ROWS_OF_A_CALL, size) for size in sizes)
        cost.append(total)
        first.append(size)
    return best, first


@lru_cache(maxsize=1024)
def cut(rows: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of the calls for a number of rows, the largest first. Only the last one may be too long.

    They are the cheapest choice, if a call costs as much as `ROWS_OF_A_CALL` rows.
    """
    best, first = first_pieces(sizes)
    whole = max(0, -(-(rows - len(first) + 1) // best))
    rest, pieces = rows - whole * best, [best] * whole
    while rest > 0:
        pieces.append(first[rest])
        rest -= first[rest]
    return tuple(sorted(pieces, reverse=True))


class Column:
    """A column of a batch, whose memory programs use where it is if that is possible."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.row = array.shape[1:]
        self.row_bytes = array.nbytes // max(1, len(array))
        self.is_aligned = array.flags.c_contiguous

    def piece(self, start: int, count: int) -> Any:
        """Some rows as an argument: over the memory of the batch, or as an array that the call copies."""
        piece = self.array[start : start + count]
        if self.is_aligned:
            try:
                return _vireo.borrow(piece)
            except _vireo.Unavailable:
                # The next one may be, but to find out takes longer than most copies.
                self.is_aligned = False
        return piece


class Memory:
    """The arguments of the calls of one size, of which those with columns are filled for each call."""

    def __init__(self, program: Program, size: int, function: _vireo.Function, columns: Sequence[Column]) -> None:
        self.rows = [column.row for column in columns]
        tensors = [_vireo.empty((size, *row), one.dtype) for one, row in zip(program.inputs, self.rows)]
        self.arguments = arguments(program, tensors)
        self.call = function.prepare(*self.arguments)
        self.arrays = [np.asarray(tensor) for tensor in tensors]
        # Large columns are borrowed, and the memory of some element types can only be read.
        self.is_filled = all(array.nbytes < BORROWED for array in self.arrays)
        self.is_writable = all(array.flags.writeable for array in self.arrays)


def arguments(program: Program, columns: Sequence[Any]) -> list[Any]:
    """The arguments of a call in the order of the signature."""
    found: list[Any] = [None] * (len(program.inputs) + len(program.constants))
    for place, value in program.constants:
        found[place] = value
    for one, column in zip(program.inputs, columns):
        found[one.place] = column
    return found


# A call of the function of a size: with arguments, or the prepared one, whose memory has been filled.
Step: TypeAlias = tuple[int | None, list[Any] | None]


class Runner:
    """A session with the calls of a program. One batch uses it at a time."""

    def __init__(self, model: _vireo.Model, program: Program) -> None:
        self.program = program
        session = model.session()
        self.functions = {size: session[name] for size, name in program.functions.items()}
        self.sizes = tuple(size for size in self.functions if size is not None)
        self.memory: dict[int, Memory] = {}

    def run(self, rows: int, columns: Sequence[Array]) -> list[Array]:
        """The outputs for a batch with at least one row."""
        steps = self.steps(rows, columns)
        results: Results = None
        while True:
            try:
                size, passed = steps.send(results)
            except StopIteration as end:
                return list(end.value)
            if passed is not None:
                results = self.functions[size](*passed)
            elif size is not None:
                results = self.memory[size].call.run()

    async def start(self, rows: int, columns: Sequence[Array], timeout: float | None) -> list[Array]:
        """The same in an event loop. `timeout` is that of each call, in seconds."""
        steps = self.steps(rows, columns)
        results: Results = None
        while True:
            try:
                size, passed = steps.send(results)
            except StopIteration as end:
                return list(end.value)
            if passed is None and size is not None:
                passed = self.memory[size].arguments
            results = await self.functions[size].start(*(passed or []), timeout=timeout)

    def steps(self, rows: int, arrays: Sequence[Array]) -> Generator[Step, Results, list[Array]]:
        """The calls of a batch. It is sent the results of each, and returns the outputs."""
        program = self.program
        columns = [Column(array) for array in arrays]
        if None in self.functions:
            results = yield None, arguments(program, [column.piece(0, rows) for column in columns])
            return self.whole(None, rows, results)
        pieces = cut(rows, self.sizes)
        if len(pieces) == 1:
            size = pieces[0]
            results = yield size, self.fill(self.memory_of(size, columns), size, columns, 0, rows)
            return [array[:rows] for array in self.whole(size, size, results)]
        outputs: list[Array] = []
        # The memory of a size, and the shapes of its outputs.
        size, start, shapes = 0, 0, [(0,)]
        for next_size in pieces:
            if next_size != size:
                size, memory = next_size, self.memory_of(next_size, columns)
                shapes = [(size, *array.shape[1:]) for array in outputs]
            count = min(size, rows - start)
            results = yield size, self.fill(memory, size, columns, start, count)
            if not outputs:
                found = self.whole(size, size, results)
                outputs = [np.empty((rows, *array.shape[1:]), array.dtype) for array in found]
                shapes = [array.shape for array in found]
            if program.is_single:
                results = (results,)
            for one, output, shape in zip(program.outputs, outputs, shapes):
                array = np.asarray(results[one.place])
                if array.shape != shape:
                    raise wrong_shape(self.functions[size], one, size, array.shape)
                output[start : start + count] = array if count == size else array[:count]
            start += count
        return outputs

    def whole(self, size: int | None, rows: int, results: Results) -> list[Array]:
        """The outputs of a call, which have to have a row for each of its rows."""
        results = (results,) if self.program.is_single else results
        arrays = [np.asarray(results[one.place]) for one in self.program.outputs]
        for one, array in zip(self.program.outputs, arrays):
            if array.ndim == 0 or len(array) != rows:
                raise wrong_shape(self.functions[size], one, rows, array.shape)
        return arrays

    def memory_of(self, size: int, columns: Sequence[Column]) -> Memory:
        """The memory for calls of a size. Rows whose shape is dynamic may need another one."""
        memory = self.memory.get(size)
        if memory is None or memory.rows != [column.row for column in columns]:
            memory = self.memory[size] = Memory(self.program, size, self.functions[size], columns)
        return memory

    def fill(self, memory: Memory, size: int, columns: Sequence[Column], start: int, count: int) -> list[Any] | None:
        """The arguments of a call with some rows; None if they have been written to the memory of the prepared call."""
        if count == size and not memory.is_filled:
            return arguments(self.program, [column.piece(start, size) for column in columns])
        if not memory.is_writable:
            rows = range(start, start + size)
            return arguments(self.program, [column.array.take(rows, axis=0, mode="clip") for column in columns])
        for array, column in zip(memory.arrays, columns):
            if count == size:
                array[:] = column.array[start : start + size]
            else:
                array[:count] = column.array[start : start + count]
                array[count:] = array[count - 1]
        return None


def wrong_shape(function: _vireo.Function, output: Output, rows: int, shape: tuple[int, ...]) -> _vireo.FailedPrecondition:
    """The exception for a result whose rows are not those of the call, or have another shape than those before."""
    return _vireo.FailedPrecondition(
        f"`{function.name}` returned the shape {shape} for {rows} rows, so that the output `{output.name}` has not one of "
        "the same shape for each of them"
    )
