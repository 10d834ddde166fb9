"""`vireo.ray.deployment`: a model as a deployment of Ray Serve, whose requests are joined to batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _vireo
from ._batches import Array
from ._predictor import Predictor
from ._source import load_count, ray_module

# Batches in a row that fail for a reason that is not theirs, after which a replica says that it is not well.
FAILURES = 3


def deployment(
    model: Any,
    function: str | None = None,
    columns: str | Sequence[str] | Mapping[str, str] | None = None,
    batch_sizes: Mapping[int, str] | None = None,
    output: str | Sequence[str | None] | None = None,
    *,
    max_batch_size: int = 32,
    batch_wait_timeout: float = 0.005,
    timeout: float | None = None,
    probe: Any = None,
    **options: Any,
) -> Any:
    """A `Deployment` of Ray Serve that calls a function of a model: `serve.run(deployment("model.vmfb").bind())`.

    The arguments, and `options`, are those of `Predictor`; the device is `local-task` without `device`, so that the event
    loop of a replica goes on while kernels run. `.options` of the deployment takes what is Serve's, such as
    `num_replicas`.

    A request is one row: a dictionary from column to value, or the value of the only column. The answer is a dictionary
    from output to array, or the only output if the request was a value. Over HTTP both are JSON, and a row that the
    function does not take is answered with the status 400. Up to `max_batch_size` requests that come within
    `batch_wait_timeout` seconds become one call; rows of different shapes are called apart. A request that the function
    does not take fails alone. `timeout` is that of a call in seconds.

    A replica is unhealthy, and Serve replaces it, if three batches in a row fail for a reason that is not their rows, or if
    `probe`, a request that each check makes, fails.
    """
    try:
        serve = ray_module("ray.serve")
    except ModuleNotFoundError as error:
        raise _vireo.NotFound(f"there is no Ray Serve, since there is no `{error.name}`: install `ray[serve]`") from error
    options = {"device": "local-task", **options}
    predictor = Predictor(model, function, columns, batch_sizes, output, **options)

    class VireoReplica(Replica):
        def __init__(self) -> None:
            super().__init__(predictor, timeout, probe)

        @serve.batch(max_batch_size=max_batch_size, batch_wait_timeout_s=batch_wait_timeout)  # type: ignore[untyped-decorator]
        async def joined(self, rows: list[Row]) -> list[Answer]:
            return await self.answers(rows)

        async def join(self, row: Row) -> Answer:
            answer: Answer = await self.joined(row)
            return answer

    if probe is not None:
        Replica(predictor, timeout, probe).row(probe)
    # Serve would else pass five requests at a time to a replica, and no batch would be larger.
    return serve.deployment(VireoReplica, name=predictor._ready()[1].function, max_ongoing_requests=2 * max_batch_size)


# The arguments of one request, each an array of one row, and what is answered: the outputs, or why there are none.
Row = list[Array]
Answer = dict[str, Any] | Exception


class Replica:
    """Requests as rows, and batches of rows as calls. `deployment` adds the queue of Ray Serve."""

    def __init__(self, predictor: Predictor, timeout: float | None, probe: Any) -> None:
        self.predictor = predictor
        self.timeout = timeout
        self.probe = probe
        self.failures = 0
        self.failure: Exception | None = None
        self.requests = self.batches = 0
        predictor._ready()

    async def join(self, row: Row) -> Answer:
        """Adds a row to a batch, and waits for its answer."""
        return (await self.answers([row]))[0]

    def row(self, request: Any) -> Row:
        """The row of a request, which is refused before it is in a batch."""
        inputs = self.predictor._ready()[1].inputs
        if not isinstance(request, Mapping):
            if len(inputs) != 1:
                columns = ", ".join(f"`{one.column}`" for one in inputs)
                raise _vireo.InvalidArgument(f"expected a dictionary with {columns} as request, got a {type(request).__name__}")
            request = {inputs[0].column: request}
        return self.predictor._open({name: [value] for name, value in request.items()})[1]

    async def answers(self, rows: Sequence[Row]) -> list[Answer]:
        """The answers of a batch. Rows of the same shapes are one call."""
        program = self.predictor._ready()[1]
        groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(tuple(array.shape for array in row), []).append(place)
        found: list[Answer] = [{}] * len(rows)
        for places in groups.values():
            columns = [np.concatenate([rows[place][index] for place in places]) for index in range(len(program.inputs))]
            try:
                batch: dict[str, Any] = {one.column: column for one, column in zip(program.inputs, columns)}
                self.batches += 1
                batch = await self.predictor.start(batch, timeout=self.timeout)
            except Exception as error:
                self.failures += not isinstance(error, _vireo.InvalidArgument)
                self.failure = error
                for place in places:
                    found[place] = error
                continue
            self.failures = 0
            for index, place in enumerate(places):
                # A copy, which does not keep those of other requests.
                found[place] = {one.name: batch[one.name][index].copy() for one in program.outputs}
        return found

    async def __call__(self, request: Any) -> Any:
        """Answers a request."""
        if type(request).__module__.partition(".")[0] == "starlette":
            return await self.http(request)
        self.requests += 1
        answer = await self.join(self.row(request))
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(request, Mapping) or len(answer) != 1 else next(iter(answer.values()))

    async def http(self, request: Any) -> Any:
        """Answers a request over HTTP, whose body is JSON."""
        responses = ray_module("starlette.responses")
        try:
            answer = await self(await request.json())
        except ValueError as error:
            # JSON that is none, and `vireo.InvalidArgument`.
            return responses.JSONResponse({"error": str(error)}, status_code=400)
        if isinstance(answer, dict):
            return responses.JSONResponse({name: value.tolist() for name, value in answer.items()})
        return responses.JSONResponse(answer.tolist())

    async def statistics(self) -> dict[str, int]:
        """What this replica has done: its process, requests, calls of the function, and models that it has loaded."""
        return {"process": os.getpid(), "requests": self.requests, "calls": self.batches, "loads": load_count()}

    async def check_health(self) -> None:
        """Raises if Serve should replace the replica."""
        if self.failures >= FAILURES:
            raise _vireo.Unavailable(f"{self.failures} batches in a row have failed, the last one: {self.failure}")
        if self.probe is not None:
            answer = (await self.answers([self.row(self.probe)]))[0]
            if isinstance(answer, Exception):
                raise _vireo.Unavailable(f"the probe of the health check failed: {answer}")
