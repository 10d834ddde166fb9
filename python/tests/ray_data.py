"""`vireo.ray.Predictor` in actors of Ray: results, loads, memory, actors that are killed, and what is refused."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vireo
import vireo.ray
from ray_cluster import BIG, SEED, cluster, memory, program, rows
from vireo.ray import Predictor, load_count


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with cluster() as ray:
        yield ray


class Counting(Predictor):
    """Adds to each row which process made it, and how many models that has loaded."""

    def __call__(self, batch: Any) -> Any:
        result = super().__call__(batch)
        numbers = {"process": os.getpid(), "loads": load_count()}
        count = len(batch["id"])
        if isinstance(result, dict):
            return {**result, **{name: np.full(count, number) for name, number in numbers.items()}}
        if hasattr(result, "append_column"):
            for name, number in numbers.items():
                result = result.append_column(name, [np.full(count, number)])
            return result
        return result.assign(**numbers)


class Dying(Counting):
    """Kills the first process that gets a certain row."""

    def __init__(self, *arguments: Any, row: int, marker: str, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.row, self.marker = row, Path(marker)

    def __call__(self, batch: Any) -> Any:
        if (batch["id"] == self.row).any() and not self.marker.exists():
            self.marker.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


def dataset(ray: Any, x: Any, blocks: int) -> Any:
    parts = [{"id": np.arange(len(x))[part], "x": x[part]} for part in np.array_split(np.arange(len(x)), blocks)]
    return ray.data.from_blocks([ray.data.block.BlockAccessor.batch_to_block(part) for part in parts])


def gathered(result: Any) -> dict[str, Any]:
    """All rows of a dataset, in the order of their numbers."""
    batches = list(result.iter_batches(batch_size=8192, batch_format="numpy"))
    columns = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    order = np.argsort(columns["id"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


@pytest.mark.parametrize(("kind", "count"), [("numpy", 100_000), ("pyarrow", 20_000), ("pandas", 10_000)])
def test_rows_are_those_of_one_process(ray: Any, models: Path, kind: str, count: int) -> None:
    generator = np.random.default_rng(SEED)
    x = rows(count)
    wanted = Predictor(models / "mlp.vmfb", "mlp", "x", output="y", device="local-sync")({"x": x})["y"]
    result = gathered(
        dataset(ray, x, int(generator.integers(8, 24))).map_batches(
            Counting,
            fn_constructor_kwargs={"model": str(models / "mlp.vmfb"), "columns": "x", "output": "y"},
            batch_size=int(generator.integers(100, 5000)),
            batch_format=kind,
            compute=ray.data.ActorPoolStrategy(size=2),
        )
    )
    assert np.array_equal(result["id"], np.arange(count)) and "x" not in result
    assert np.array_equal(result["y"], wanted)
    assert len(set(result["process"])) == 2 and set(result["loads"]) == {1}


def test_an_actor_that_is_killed_is_replaced(ray: Any, models: Path, tmp_path: Path) -> None:
    count, marker = 20_000, tmp_path / "killed"
    x = rows(count, seed=SEED + 1)
    predictor = Predictor(models / "mlp.vmfb", "mlp", "x", output="y")
    result = gathered(
        dataset(ray, x, 16).map_batches(
            Dying,
            fn_constructor_kwargs={
                "model": str(models / "mlp.vmfb"),
                "columns": "x",
                "output": "y",
                "row": int(np.random.default_rng(SEED).integers(count // 3, count)),
                "marker": str(marker),
            },
            batch_size=500,
            compute=ray.data.ActorPoolStrategy(size=2),
        )
    )
    killed = int(marker.read_text())
    assert np.array_equal(result["id"], np.arange(count))
    assert np.array_equal(result["y"], predictor({"x": x})["y"])
    assert set(result["loads"]) == {1} and len(set(result["process"]) - {killed}) == 2


class Holder:
    """An actor that loads a model, and measures what it takes."""

    def __init__(self, warm: str) -> None:
        # Libraries and the runtime are there before anything is measured.
        Predictor(warm, columns="x")(rows(8))

    def load(self, model: Any) -> dict[str, Any]:
        x = rows(64, BIG[0])
        before = memory()
        self.predictor = Predictor(model, "mlp8", "x", output="y")
        total = sum(float(self.predictor({"x": x})["y"].sum()) for _ in range(4))
        after = memory()
        return {"own": after["own"] - before["own"], "share": after["share"] - before["share"], "total": total}


@pytest.mark.parametrize("source", ["path", "reference"])
def test_actors_share_the_memory_of_a_model(ray: Any, models: Path, source: str) -> None:
    path = program("big", BIG, [8])
    size = path.stat().st_size // 1024
    assert size > 90_000
    model = str(path) if source == "path" else [ray.put(np.fromfile(path, np.uint8))]
    actors = [ray.remote(Holder).remote(str(models / "mlp.vmfb")) for _ in range(2)]
    load = lambda actor: ray.get(actor.load.remote(model if source == "path" else model[0]))  # noqa: E731
    first, second = load(actors[0]), load(actors[1])
    print(f"{source}: a model of {size} KiB; the first actor grows by {first}, the second by {second}")
    assert first["total"] == second["total"]
    # The first one has the pages to itself, the second one shares them.
    assert second["own"] < size / 10
    # Pages of the object store are shared, too, and in both if the model came from there.
    assert second["share"] < size * (0.6 if source == "path" else 1.1)
    for actor in actors:
        ray.kill(actor)


class Borrower:
    """An actor that counts what of the object store is borrowed, and where it is."""

    def call(self, predictor: Predictor, x: Any) -> dict[str, Any]:
        import vireo.ray._program as program

        places: list[int] = []
        real = program._vireo

        class Counted:
            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            def borrow(self, array: Any) -> Any:
                places.append(array.__array_interface__["data"][0])
                return real.borrow(array)

        program._vireo = Counted()  # type: ignore[assignment]
        y = predictor({"x": x})["y"]
        return {"places": places, "at": x.__array_interface__["data"][0], "writable": x.flags.writeable, "y": y}


def test_memory_of_the_object_store_is_borrowed(ray: Any, models: Path) -> None:
    weights = {"input1": rows(32, 24), "input2": rows(24, 8)}
    predictor = Predictor(models / "dynamic_mlp.vmfb", "dynamic_mlp", "x", output="y", constants=weights)
    x = rows(5000, 32)
    found = ray.get(ray.remote(Borrower).remote().call.remote(predictor, ray.put(x)))
    assert found["places"] == [found["at"]] and not found["writable"]
    assert np.array_equal(found["y"], predictor({"x": x})["y"])


def test_models_by_reference_and_as_bytes(ray: Any, models: Path) -> None:
    data, x = (models / "mlp.vmfb").read_bytes(), rows(100)
    wanted = Predictor(data, columns="x", output="y")({"x": x})["y"]
    model = vireo.Model(models / "mlp.vmfb", device="local-sync")
    for source in (ray.put(data), ray.put(np.frombuffer(data, np.uint8)), ray.put(model), data, model):
        predictor = Predictor(source, columns="x", output="y")
        assert np.array_equal(predictor({"x": x})["y"], wanted)
        assert np.array_equal(ray.get(ray.remote(lambda p: p({"x": x})["y"]).remote(predictor)), wanted)
        result = dataset(ray, x, 2).map_batches(predictor, batch_size=32)
        assert np.array_equal(gathered(result)["y"], wanted)


def test_workers_are_as_many_as_cpus(ray: Any, models: Path) -> None:
    def look(path: str) -> tuple[int | None, list[str]]:
        model = Predictor(path, columns="x").model
        return model.threads, model.devices

    path = str(models / "mlp.vmfb")
    for cpus, threads, device in ((2, 2, "local-task"), (1, 1, "local-sync"), (0.5, 1, "local-sync"), (0, 1, "local-sync")):
        found = ray.get(ray.remote(look).options(num_cpus=cpus).remote(path))
        assert found[0] == threads and device in found[1][0], found


BAD = {
    "missing": (lambda x: {"z": x}, "column `x` is not in the batch, which has `z`"),
    "ragged": (lambda x: {"x": np.array([*x, x[0, :3]], dtype=object)}, "column `x` is ragged|column `x` has the shape"),
    "nulls": (lambda x: {"x": [*x.tolist(), None]}, "column `x` has .*null"),
    "types": (lambda x: {"x": x.astype(np.float64)}, "column `x` has elements of float64"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("kind", ["numpy", "pyarrow", "pandas"])
def test_bad_batches_are_refused_by_name(ray: Any, models: Path, case: str, kind: str) -> None:
    make, message = BAD[case]
    columns = make(rows(10))
    name = next(iter(columns))
    data = ray.data.from_items([{name: row} for row in columns[name]], override_num_blocks=1)
    predictor = Predictor(models / "mlp.vmfb", columns="x", output="y")
    with pytest.raises(Exception, match=message):
        data.map_batches(predictor, batch_format=kind).materialize()


def test_batches_without_rows(ray: Any, models: Path) -> None:
    predictor = Predictor(models / "mlp.vmfb", columns="x", output="y")
    for kind in ("numpy", "pyarrow", "pandas"):
        data = dataset(ray, rows(100), 4).filter(lambda row: row["id"] < 0)
        assert data.map_batches(predictor, batch_format=kind).count() == 0
        some = dataset(ray, rows(100), 4).filter(lambda row: row["id"] < 30)
        assert some.map_batches(predictor, batch_format=kind).count() == 30


def test_workers_of_another_version_or_with_another_file(ray: Any, models: Path, tmp_path: Path) -> None:
    def call(pickled: bytes) -> Any:
        return pickle.loads(pickled)({"x": rows(8)})

    path = tmp_path / "model.vmfb"
    path.write_bytes((models / "mlp.vmfb").read_bytes())
    pickled = pickle.dumps(Predictor(path, columns="x"))
    remote = ray.remote(call)
    assert ray.get(remote.remote(pickled))["output0"].shape == (8, 16)
    with pytest.raises(vireo.Incompatible, match=rf"by version 9\.9\.9 of this package, and this is {vireo.__version__}"):
        ray.get(remote.remote(pickled.replace(vireo.__version__.encode(), b"9.9.9")))
    path.write_bytes((models / "abs.vmfb").read_bytes())
    with pytest.raises(vireo.FailedPrecondition, match="is not the file of the pickled model: its digest is .*, not "):
        ray.get(remote.remote(pickled))
    path.unlink()
    with pytest.raises(vireo.NotFound, match=f"is not here: {path}"):
        ray.get(remote.remote(pickled))
