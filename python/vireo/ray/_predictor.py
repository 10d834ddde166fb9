"""`vireo.ray.Predictor`: a model as a function of batches, which other processes get as a pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from .. import _vireo
from ._batches import Array, Batch, Single, batch_of
from ._program import Program, Runner, program_of
from ._source import Source

B = TypeVar("B")


class Predictor:
    """A function of a model as a function of batches, for `map_batches` of Ray, `map_partitions` of Dask, and others.

    `model` is the path or the bytes of a module file, a `vireo.Model`, or a reference to one of these in Ray's object
    store. A process loads it once, mapped; one that came as bytes is first written to a folder of the user below
    `TMPDIR`, so that processes of a machine share its pages.

    `function` is the name of a function, which may be left out if the model has one. Each argument and each result has a
    row for each row of the batch as its first dimension, and a row of a result depends on no other row. A function with a
    dynamic first dimension gets a batch as it is, one with a static one gets pieces of that size. `batch_sizes`, instead
    of `function`, has a function for each of several sizes. The last piece is padded with its last row, and results for
    the padding are dropped.

    `columns` are the columns of the arguments: a name, several in the order of the arguments, or a dictionary from
    argument to column; the names of the arguments without it. `constants` are arguments that are the same for all
    batches, by name. `output` has a name for each result, or None for one that is dropped. `keep` leaves the columns of
    arguments in the batch.

    A batch is a dictionary of arrays, a `pyarrow.Table` or `RecordBatch`, a `pandas.DataFrame`, or one array, and the
    result is one of the same kind: the other columns as they are, and the outputs. Memory that starts at a multiple of
    64 bytes, such as that of Ray's object store, is read where it is; other memory is copied once. Outputs may be
    arrays that can only be read. A program that writes to an argument must get a constant for it: memory of a batch can
    only be read.

    The other keywords are those of `vireo.Model`. Without `threads`, there are as many workers as the actor or task of
    Ray has CPUs; without `device`, it is `local-sync` if that is one.

    Raises `vireo.InvalidArgument` for a batch that the function does not take, by the name of the column;
    `vireo.Incompatible` where another version of this package unpickled it, and `vireo.FailedPrecondition` where another
    file has the path, both at the first call.
    """

    def __init__(
        self,
        model: Any,
        function: str | None = None,
        columns: str | Sequence[str] | Mapping[str, str] | None = None,
        batch_sizes: Mapping[int, str] | None = None,
        output: str | Sequence[str | None] | None = None,
        *,
        constants: Mapping[str, Any] | None = None,
        keep: bool = False,
        device: str | Sequence[str] | None = None,
        parameters: Any = None,
        limits: _vireo.Limits | None = None,
        policy: str | None = None,
        threads: int | None = None,
        preload: bool | None = None,
    ) -> None:
        options = {"device": device, "parameters": parameters, "limits": limits, "policy": policy}
        self._source = Source(model, {**options, "threads": threads, "preload": preload})
        self._choice = (function, batch_sizes, columns, dict(constants or {}), output)
        self._keep = keep
        self._program: Program | None = None
        # The columns of arguments, unless they stay in the batch.
        self._dropped: list[str] = []
        self._runners: list[Runner] = []
        self._ready()

    def _ready(self) -> tuple[_vireo.Model, Program]:
        """The model and its functions, loaded unless they are."""
        model = self._source.model()
        program = self._program
        if program is None:
            program = program_of(model.signatures, *self._choice)
            if self._keep and (twice := {one.column for one in program.inputs} & {one.name for one in program.outputs}):
                raise _vireo.InvalidArgument(f"`keep`: an output is called `{min(twice)}`, as a column of the arguments")
            self._dropped = [] if self._keep else list(dict.fromkeys(one.column for one in program.inputs))
            self._program = program
        return model, program

    @property
    def model(self) -> _vireo.Model:
        """The model, which predictors of this process with the same file and options share."""
        return self._ready()[0]

    def __call__(self, batch: B) -> B:
        """The batch with the outputs. Threads may call it at the same time, each in a session."""
        opened, arrays, rows = self._open(batch)
        outputs: list[Array] = []
        if rows:
            runner = self._runner()
            outputs = runner.run(rows, arrays)
            # After a failure the session is not used again.
            self._runners.append(runner)
        result: B = self._close(opened, outputs)
        return result

    async def start(self, batch: B, *, timeout: float | None = None) -> B:
        """The same in an event loop, which goes on while a device works. `timeout` is that of each call, in seconds."""
        opened, arrays, rows = self._open(batch)
        outputs: list[Array] = []
        if rows:
            runner = self._runner()
            outputs = await runner.start(rows, arrays, timeout)
            self._runners.append(runner)
        result: B = self._close(opened, outputs)
        return result

    def _runner(self) -> Runner:
        try:
            return self._runners.pop()
        except IndexError:
            return Runner(*self._ready())

    def _open(self, value: object) -> tuple[Batch, list[Array], int]:
        """A batch, the arrays of the arguments, and the number of rows."""
        _, program = self._ready()
        batch = batch_of(value)
        if isinstance(batch, Single) and len(program.inputs) != 1:
            columns = ", ".join(one.column for one in program.inputs)
            raise _vireo.InvalidArgument(f"an array is one column, and `{program.function}` takes {columns}: pass a dictionary")
        arrays = [batch.column(one.column, one.dtype) for one in program.inputs]
        rows = len(arrays[0])
        for one, array in zip(program.inputs, arrays):
            if len(array) != rows:
                first = program.inputs[0].column
                raise _vireo.InvalidArgument(f"column `{one.column}` has {len(array)} rows, and `{first}` has {rows}")
            # An empty column of lists or objects has no shape.
            if rows:
                one.check(array, program.function)
        names = batch.names
        for output in program.outputs:
            if output.name in names and output.name not in self._dropped:
                raise _vireo.InvalidArgument(f"the batch has a column `{output.name}`, which the output would replace")
        return batch, arrays, rows

    def _close(self, batch: Batch, outputs: Sequence[Array]) -> Any:
        """The batch with the outputs; there are none for a batch without rows."""
        _, program = self._ready()
        named = {one.name: outputs[place] if outputs else one.empty() for place, one in enumerate(program.outputs)}
        return batch.with_columns(self._dropped, named, program.inputs[0].column)

    def __getstate__(self) -> dict[str, Any]:
        return {"_source": self._source, "_choice": self._choice, "_keep": self._keep}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _program=None, _runners=[])

    def __repr__(self) -> str:
        program = self._program
        functions = "not loaded" if program is None else ", ".join(dict.fromkeys(program.functions.values()))
        return f"<vireo.ray.Predictor {self._source!r}: {functions}>"
