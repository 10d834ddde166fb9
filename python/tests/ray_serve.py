"""`vireo.ray.deployment` in Ray Serve: requests that are joined, refused alone, answered over HTTP, and health checks."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vireo
import vireo.ray
from ray_cluster import SEED, cluster, rows
from vireo.ray import Predictor


@pytest.fixture(scope="module")
def serve() -> Iterator[Any]:
    with cluster():
        serve = pytest.importorskip("ray.serve", reason="skipped: ray[serve] is not installed")
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": 18741})
        yield serve
        serve.shutdown()


def answers(handle: Any, requests: list[Any]) -> list[Any]:
    """The answers of requests that are made at the same time, or their exceptions."""
    found: list[Any] = []
    for response in [handle.remote(request) for request in requests]:
        try:
            found.append(response.result(timeout_s=120))
        except vireo.Error as error:
            found.append(error)
    return found


def test_requests_are_joined(serve: Any, models: Path) -> None:
    deployment = vireo.ray.deployment(
        models / "mlp.vmfb", "mlp", "x", output="y", max_batch_size=32, batch_wait_timeout=0.1, probe={"x": rows(1)[0]}
    )
    handle = serve.run(deployment.bind(), name="joined", route_prefix=None)
    x = rows(300)
    wanted = Predictor(models / "mlp.vmfb", columns="x")(x)
    found = answers(handle, [{"x": row} for row in x])
    assert all(list(answer) == ["y"] and np.array_equal(answer["y"], row) for answer, row in zip(found, wanted))
    # The value of the only column, and lists, are requests, too.
    assert np.array_equal(answers(handle, list(x[:3])), wanted[:3])
    assert np.array_equal(answers(handle, [row.tolist() for row in x[:3]]), wanted[:3])
    statistics = handle.statistics.remote().result(timeout_s=60)
    print(statistics)
    assert statistics["requests"] == 306 and statistics["loads"] == 1
    assert statistics["calls"] <= 306 / 3
    serve.delete("joined")


def test_a_bad_request_fails_alone(serve: Any, models: Path) -> None:
    handle = serve.run(vireo.ray.deployment(models / "mlp.vmfb", columns="x", output="y").bind(), name="bad", route_prefix=None)
    x = rows(24)
    wanted = Predictor(models / "mlp.vmfb", columns="x")(x)
    bad: list[tuple[Any, str]] = [
        ({"z": x[0]}, "column `x` is not in the batch, which has `z`"),
        ({"x": x[0, :5]}, "column `x` has the shape 1x5"),
        ({"x": x[0].astype(np.float64)}, "column `x` has elements of float64"),
        ({"x": None}, "column `x` has 1 null"),
        ({"x": [[1.0], [1.0, 2.0]]}, "column `x` is ragged"),
        ("text", "column `x` has a str|column `x` has elements of"),
        ({}, "column `x` is not in the batch, which has no columns"),
    ]
    places = np.random.default_rng(SEED).permutation(24)[: len(bad)]
    requests: list[Any] = [{"x": row} for row in x]
    for place, (request, _) in zip(places, bad):
        requests[place] = request
    found = answers(handle, requests)
    for place, (_, message) in zip(places, bad):
        assert isinstance(found[place], vireo.InvalidArgument)
        with pytest.raises(vireo.InvalidArgument, match=message):
            raise found[place]
    good = [place for place in range(24) if place not in places]
    assert all(np.array_equal(found[place]["y"], wanted[place]) for place in good)
    serve.delete("bad")


def test_rows_of_different_shapes_are_called_apart(serve: Any, models: Path) -> None:
    deployment = vireo.ray.deployment(models / "dynamic_mlp.vmfb", "row_sums", "x", output="sum", batch_wait_timeout=0.1)
    handle = serve.run(deployment.bind(), name="shapes", route_prefix=None)
    generator = np.random.default_rng(SEED)
    requests = [generator.integers(-9, 9, int(generator.integers(1, 6))).astype(np.float32) for _ in range(40)]
    assert [float(answer) for answer in answers(handle, requests)] == [float(row.sum()) for row in requests]
    assert handle.statistics.remote().result(timeout_s=60)["calls"] < 40
    serve.delete("shapes")


@pytest.mark.parametrize("probed", [False, True])
def test_a_replica_that_fails_is_replaced(serve: Any, models: Path, probed: bool) -> None:
    # The fuel of a replica is used up after some calls; all later ones fail, and it gets no more.
    limits, probe = vireo.Limits(fuel=200 if probed else 2_000), rows(1)[0] if probed else None
    deployment = vireo.ray.deployment(
        models / "mlp.vmfb", columns="x", output="y", limits=limits, device="local-task", probe=probe
    ).options(health_check_period_s=1, health_check_timeout_s=10)
    handle = serve.run(deployment.bind(), name="failing", route_prefix=None)
    x = rows(1)[0]
    first = handle.statistics.remote().result(timeout_s=60)["process"]
    failures, other, until = 0, first, time.monotonic() + 180
    while time.monotonic() < until and other == first:
        try:
            # The checks of a replica with a probe are its only calls.
            if not probed:
                handle.remote(x).result(timeout_s=60)
        except vireo.ResourceExhausted:
            failures += 1
        if probed or failures > 3:
            time.sleep(0.5)
        other = handle.statistics.remote().result(timeout_s=60)["process"]
    assert (failures >= 3 or probed) and other != first
    assert handle.remote(x).result(timeout_s=60).shape == (16,)
    serve.delete("failing")


def test_a_probe_that_fails_is_told_before_anything_runs(serve: Any, models: Path) -> None:
    with pytest.raises(vireo.InvalidArgument, match="column `x` has the shape 1x3"):
        vireo.ray.deployment(models / "mlp.vmfb", columns="x", probe=np.ones(3, np.float32))
    with pytest.raises(vireo.NotFound, match="missing.vmfb"):
        vireo.ray.deployment("missing.vmfb")


def test_requests_over_http(serve: Any, models: Path) -> None:
    deployment = vireo.ray.deployment(models / "mlp.vmfb", columns="x", output="y")
    serve.run(deployment.bind(), name="http", route_prefix="/mlp")
    x = rows(1)[0]

    def post(body: bytes) -> tuple[int, Any]:
        request = urllib.request.Request("http://127.0.0.1:18741/mlp", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    status, answer = post(json.dumps({"x": x.tolist()}).encode())
    assert status == 200
    assert np.array_equal(np.array(answer["y"], np.float32), Predictor(models / "mlp.vmfb", columns="x")(x[None])[0])
    for body, message in ((b"{", ""), (b'{"z": [1]}', "column `x` is not in the batch"), (b'{"x": [1, 2]}', "has the shape 1x2")):
        status, answer = post(body)
        assert status == 400 and message in answer["error"]
    serve.delete("http")
