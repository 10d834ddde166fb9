"""`vireo.ray.Predictor` without Ray: batches of every kind, columns that are refused, pickles, threads, event loops."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import vireo
import vireo.ray
from vireo.ray import Predictor, load_count
from vireo.ray._program import ROWS_OF_A_CALL, cut

SEEDS = range(int(os.environ.get("VIREO_SEED", "0")), int(os.environ.get("VIREO_SEED", "0")) + 12)


def library(name: str) -> Any:
    """A library, without which the test is skipped."""
    return pytest.importorskip(name, reason=f"skipped: {name} is not installed")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that come as bytes get their files here."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def weights() -> dict[str, Any]:
    generator = np.random.default_rng(5)
    return {f"input{i}": generator.normal(size=size).astype(np.float32) for i, size in ((1, (32, 24)), (2, (24, 8)))}


def padded(array: Any, size: int) -> Any:
    """Rows up to a multiple of `size`, as the last one."""
    return np.concatenate([array, np.repeat(array[-1:], -len(array) % size, axis=0)])


def expected(function: vireo.Function, *columns: Any) -> list[Any]:
    """What calls of the static size of a function return for the rows, put together."""
    shape = function.signature.arguments[0].shape
    assert shape is not None and shape[0] is not None
    rows, size = len(columns[0]), shape[0]
    filled = [padded(column, size) for column in columns]
    calls = [function(*(column[start : start + size] for column in filled)) for start in range(0, len(filled[0]), size)]
    results = [call if isinstance(call, tuple) else (call,) for call in calls]
    return [np.concatenate([np.asarray(result[i]) for result in results])[:rows] for i in range(len(results[0]))]


def as_arrow(array: Any) -> Any:
    arrow = library("pyarrow")
    column = arrow.array(array.reshape(-1))
    for size in reversed(array.shape[1:]):
        column = arrow.FixedSizeListArray.from_arrays(column, size)
    return column


def as_lists(array: Any, large: bool = False) -> Any:
    """Lists of any length, which are of one length here."""
    arrow = library("pyarrow")
    kind = arrow.large_list if large else arrow.list_
    return arrow.array(array.tolist(), type=kind(arrow.from_numpy_dtype(array.dtype)))


def as_tensors(array: Any) -> Any:
    return library("pyarrow").FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(array))


def table(make: Callable[[Any], Any], chunks: int) -> Callable[[dict[str, Any]], Any]:
    def build(columns: dict[str, Any]) -> Any:
        arrow = library("pyarrow")
        cuts = np.array_split(np.arange(len(columns["id"])), chunks)
        forms = {name: make if array.ndim > 1 else arrow.array for name, array in columns.items()}
        return arrow.table(
            {name: arrow.chunked_array([forms[name](array[part]) for part in cuts if len(part)]) for name, array in columns.items()}
        )

    return build


def frame(columns: dict[str, Any]) -> Any:
    made = {name: array if array.ndim == 1 else list(array) for name, array in columns.items()}
    return library("pandas").DataFrame(made, index=range(7, 7 + len(columns["id"])))


def array_of(batch: Any, name: str) -> Any:
    """A column of a batch of any kind as an array."""
    if type(batch).__module__.startswith("pyarrow"):
        return np.array(batch.column(name).to_pylist())
    return np.stack(list(batch[name])) if type(batch).__module__.startswith("pandas") else batch[name]


KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "arrays": dict,
    "objects": lambda columns: {name: frame_column(array) for name, array in columns.items()},
    "lists": lambda columns: {name: array.tolist() for name, array in columns.items()},
    "fixed-size lists": table(as_arrow, 1),
    "chunks": table(as_arrow, 3),
    "lists of Arrow": table(as_lists, 2),
    "large lists": table(lambda array: as_lists(array, large=True), 1),
    "tensors of Arrow": table(as_tensors, 1),
    "record batch": lambda columns: table(as_arrow, 1)(columns).to_batches()[0],
    "frame": frame,
}


def frame_column(array: Any) -> Any:
    column = np.empty(len(array), dtype=object)
    column[:] = list(array)
    return column


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_every_kind(models: Path, device: str, kind: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = int(generator.integers(1, 70))
    x = generator.normal(size=(rows, 64)).astype(np.float32)
    function = vireo.Session(models / "mlp.vmfb", device=device)["mlp"]
    predictor = Predictor(models / "mlp.vmfb", "mlp", columns="x", output="y", device=device)
    batch = KINDS[kind]({"id": np.arange(rows), "x": x, "note": np.arange(rows) * 0.5})
    result = predictor(batch)
    assert type(result) is type(batch)
    assert np.array_equal(array_of(result, "y"), expected(function, x)[0])
    assert np.array_equal(np.asarray(array_of(result, "id")), np.arange(rows))
    names = list(result.column_names if hasattr(result, "column_names") else result)
    assert names == ["id", "note", "y"]
    if kind == "frame":
        assert list(result.index) == list(batch.index) and list(batch) == ["id", "x", "note"]


def test_one_array(models: Path, device: str) -> None:
    predictor = Predictor(models / "softmax.vmfb", device=device)
    function = vireo.Session(models / "softmax.vmfb", device=device)["softmax"]
    x = np.random.default_rng(1).normal(size=(11, 37)).astype(np.float32)
    assert np.array_equal(predictor(x), expected(function, x)[0])
    assert predictor(x[:0]).shape == (0, 37)
    assert list(predictor.model.signatures) == ["softmax"]


@pytest.mark.parametrize("seed", SEEDS)
def test_several_columns_and_results(models: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = int(generator.integers(1, 50))
    a, b = generator.normal(size=(2, rows)).astype(np.float16)
    function = vireo.Session(models / "half.vmfb", device="local-sync")["f16"]
    wanted = expected(function, a, b)
    for columns in (["a", "b"], {"input1": "b", "input0": "a"}):
        predictor = Predictor(models / "half.vmfb", "f16", columns, None, ["product", "wide"], keep=True)
        result = predictor({"a": a, "b": b})
        assert list(result) == ["a", "b", "product", "wide"]
        for name, array in zip(("product", "wide"), wanted):
            assert result[name].dtype == array.dtype and np.array_equal(result[name], array)
    assert list(Predictor(models / "half.vmfb", "f16", ["a", "b"], output=[None, "wide"])({"a": a, "b": b})) == ["wide"]
    widths = Predictor(models / "integer.vmfb", "widths")
    wide, narrow = generator.integers(-(2**60), 2**60, rows), generator.integers(-(2**15), 2**15, rows).astype(np.int16)
    wanted = expected(vireo.Session(models / "integer.vmfb")["widths"], wide, narrow)
    found = widths({"input0": wide.view(np.uint64), "input1": narrow})
    assert all(np.array_equal(array, one) for array, one in zip(found.values(), wanted))


def test_elements_that_only_ml_dtypes_has(models: Path) -> None:
    function = vireo.Session(models / "half.vmfb", device="local-sync")["bf16"]
    x = np.random.default_rng(2).normal(size=19).astype(np.float32)
    found = Predictor(models / "half.vmfb", "bf16", "x", output="y")({"x": x})["y"]
    assert found.dtype == ml_dtypes.bfloat16 and np.array_equal(found, expected(function, x)[0])
    empty = Predictor(models / "half.vmfb", "bf16", "x", output="y")({"x": x[:0]})["y"]
    assert empty.dtype == ml_dtypes.bfloat16 and empty.shape == (0,)


@pytest.mark.parametrize("seed", SEEDS)
def test_dynamic_functions_get_a_batch_as_it_is_or_pieces(models: Path, weights: dict[str, Any], seed: int) -> None:
    generator = np.random.default_rng(seed)
    path, rows = models / "dynamic_mlp.vmfb", int(generator.integers(1, 200))
    x = generator.normal(size=(rows, 32)).astype(np.float32)
    function = vireo.Session(path, device="local-sync")["dynamic_mlp"]
    wanted = np.asarray(function(x, *weights.values()))
    whole = Predictor(path, "dynamic_mlp", "x", output="y", constants=weights)
    assert np.array_equal(whole({"x": x})["y"], wanted)
    sizes = {int(size): "dynamic_mlp" for size in generator.choice(np.arange(1, 40), 3, replace=False)}
    pieces = Predictor(path, None, "x", sizes, "y", constants=weights)
    assert np.allclose(pieces({"x": x})["y"], wanted, rtol=1e-5, atol=1e-6)
    # The rows do not depend on those that are around them.
    assert np.array_equal(pieces({"x": x})["y"], pieces({"x": x.copy(order="F")})["y"])
    sums = Predictor(path, "row_sums", "x", output="sum")
    for columns in (32, 5, 1):
        assert np.array_equal(sums({"x": x[:, :columns]})["sum"], vireo.Session(path)["row_sums"](x[:, :columns]))


def test_large_rows_are_borrowed_in_pieces(models: Path, weights: dict[str, Any]) -> None:
    memory = np.zeros(1000 * 32 * 4 + 64, np.uint8)
    start = -memory.__array_interface__["data"][0] % 64
    for offset in (0, 4):
        x = memory[start + offset :][: 999 * 32 * 4].view(np.float32).reshape(999, 32)
        x[:] = np.random.default_rng(3).normal(size=x.shape)
        x.flags.writeable = False
        options = {"columns": "x", "constants": weights, "output": "y"}
        path = models / "dynamic_mlp.vmfb"
        wanted = Predictor(path, "dynamic_mlp", **options)({"x": x})["y"]
        found = Predictor(path, batch_sizes={64: "dynamic_mlp", 37: "dynamic_mlp"}, **options)({"x": x})["y"]
        assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6)
        x.flags.writeable = True


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cut_of_a_batch_is_the_cheapest(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = tuple(sorted({int(size) for size in generator.integers(1, 70, generator.integers(1, 4))}))
    best = [0.0]
    for rows in range(1, 400):
        best.append(min(best[max(0, rows - size)] + size + ROWS_OF_A_CALL for size in sizes))
        pieces = cut(rows, sizes)
        assert set(pieces) <= set(sizes)
        # The last piece has at least one row of the batch.
        assert sum(pieces) - pieces[-1] < rows <= sum(pieces)
        assert sum(pieces) + ROWS_OF_A_CALL * len(pieces) == best[rows]


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no columns": (lambda x: {}, "column `x` is not in the batch, which has no columns"),
    "another column": (lambda x: {"z": x, "w": x}, "column `x` is not in the batch, which has `z`, `w`"),
    "short rows": (lambda x: {"x": x[:, :5]}, "column `x` has the shape 9x5: expected .x64 elements of float32"),
    "no rows in the shape": (lambda x: {"x": np.float32(1)}, "column `x` has no rows"),
    "one dimension": (lambda x: {"x": x[0]}, "column `x` has the shape 64: expected .x64"),
    "more dimensions": (lambda x: {"x": x[..., None]}, "column `x` has the shape 9x64x1"),
    "wide elements": (lambda x: {"x": x.astype(np.float64)}, "column `x` has elements of float64: expected .*float32"),
    "integers": (lambda x: {"x": x.astype(np.int32)}, "column `x` has elements of int32"),
    "big-endian": (lambda x: {"x": x.astype(">f4")}, "column `x` has elements of >f4"),
    "texts": (lambda x: {"x": ["text"] * 9}, "column `x` has a str in row 0, where numbers are expected"),
    "dictionaries": (lambda x: {"x": [{}] * 9}, "column `x` has a dict in row 0"),
    "ragged": (lambda x: {"x": [*x[:4], x[4, :7]]}, r"column `x` is ragged: row 0 has the shape \(64,\), and row 4 \(7,\)"),
    "ragged lists": (lambda x: {"x": [[[1.0], [2.0, 3.0]]]}, "column `x` is ragged: row 0"),
    "nulls": (lambda x: {"x": [None, x[0], None]}, "column `x` has 2 nulls in 3 rows"),
    "one null": (lambda x: {"x": frame_column([*x, float("nan")])}, "column `x` has 1 null in 10 rows"),
    "masked": (lambda x: {"x": np.ma.masked_less_equal(x, x.min())}, "column `x` has 1 null"),
    "a large number": (lambda x: {"x": [[1e300] * 64]}, "column `x` has a number in row 0 that float32 does not hold"),
    "other rows": (lambda x: {"x": x, "y": x}, "has a column `y`, which the output would replace"),
    "no batch": (lambda x: 7, "expected a dictionary of arrays, a pyarrow.Table.* got a int"),
    "none": (lambda x: None, "got a NoneType"),
    "a list": (lambda x: [x], "got a list"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_batches_are_refused_by_name(models: Path, case: str) -> None:
    predictor = Predictor(models / "mlp.vmfb", columns="x", output="y", device="local-sync")
    x = np.random.default_rng(4).normal(size=(9, 64)).astype(np.float32)
    before = predictor({"x": x})["y"]
    make, message = REFUSED[case]
    with pytest.raises(vireo.InvalidArgument, match=message):
        predictor(make(x))
    # And the predictor goes on.
    assert np.array_equal(predictor({"x": x})["y"], before)


def test_tables_are_refused_by_name(models: Path) -> None:
    arrow = library("pyarrow")
    predictor = Predictor(models / "mlp.vmfb", columns="x", output="y", device="local-sync")
    rows = np.ones((4, 64), np.float32).tolist()
    vector, lists = arrow.list_(arrow.float32(), 64), arrow.list_(arrow.float32())
    for column, message in (
        (arrow.array([*rows, None], vector), "column `x` has 1 null in 5 rows"),
        (arrow.array([*rows, None], lists), "column `x` has 1 null in 5 rows"),
        (arrow.array([*rows, [None, *rows[0][1:]]], vector), "column `x` has 1 null in 5 rows"),
        (arrow.array([*rows, [1.0]], lists), "column `x` is ragged: row 0 has 64 elements, and row 4 1"),
        (arrow.array(["a", "b"]), "column `x` has elements of the type string"),
        (arrow.array([1.0, 2.0], arrow.float32()), "column `x` has the shape 2: expected"),
        (arrow.array(rows, arrow.list_(arrow.float64(), 64)), "column `x` has elements of float64"),
        (arrow.array([True, False]), "column `x` has elements of bool"),
        (arrow.array([{"a": 1}]), "column `x` has elements of the type struct"),
    ):
        with pytest.raises(vireo.InvalidArgument, match=message):
            predictor(arrow.table({"x": column}))
    with pytest.raises(vireo.InvalidArgument, match="column `x` is not in the batch, which has `z`"):
        predictor(arrow.table({"z": [1]}))
    with pytest.raises(vireo.InvalidArgument, match="column `x` is in the batch 2 times"):
        predictor(arrow.Table.from_arrays([arrow.array(rows, vector)] * 2, names=["x", "x"]))
    empty = predictor(arrow.table({"x": arrow.array([], vector), "id": arrow.array([], arrow.int64())}))
    assert (empty.num_rows, empty.column_names) == (0, ["id", "y"])
    empty = predictor(arrow.RecordBatch.from_arrays([arrow.array([], vector)], names=["x"]))
    assert (type(empty), empty.num_rows) == (arrow.RecordBatch, 0)
    assert predictor(arrow.schema([("x", vector)]).empty_table()).num_rows == 0


def test_frames_are_refused_by_name(models: Path) -> None:
    pandas = library("pandas")
    predictor = Predictor(models / "half.vmfb", "library", ["a", "b"], output=["c", "d"], device="local-sync")
    a = np.arange(9, dtype=np.float32)
    # In a column of floats NaN is a number.
    assert np.isnan(predictor(pandas.DataFrame({"a": a, "b": a * np.nan}))["c"]).any()
    for frame_, message in (
        (pandas.DataFrame({"a": a}), "column `b` is not in the batch, which has `a`"),
        (pandas.DataFrame({"a": pandas.array([1.0] * 8 + [None], dtype="Float32"), "b": a}), "column `a` has 1 null in 9 rows"),
        (pandas.DataFrame({"a": [None, *a[1:]], "b": a}, dtype=object), "column `a` has 1 null in 9 rows"),
        (pandas.DataFrame({"a": ["t"] * 9, "b": a}), "column `a` has "),
        (pandas.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]), "column `a` is in the batch 2 times"),
    ):
        with pytest.raises(vireo.InvalidArgument, match=message):
            predictor(frame_)
    full = predictor(pandas.DataFrame({"a": pandas.array(a, dtype="Float32"), "b": a}))
    assert np.array_equal(full["c"], predictor({"a": a, "b": a})["c"])
    assert list(predictor(pandas.DataFrame({"a": [], "b": []}))) == ["c", "d"]


def test_batches_without_rows(models: Path) -> None:
    predictor = Predictor(models / "mlp.vmfb", columns="x", output="y", device="local-sync")
    for column in (np.zeros((0, 64), np.float32), np.zeros(0), [], np.zeros((0, 3))):
        result = predictor({"x": column, "id": []})["y"]
        assert (result.shape, result.dtype) == ((0, 16), np.float32)
    with pytest.raises(vireo.InvalidArgument, match="column `x` is not in the batch"):
        predictor({"z": []})


def test_arrays_of_a_column_have_as_many_rows(models: Path) -> None:
    predictor = Predictor(models / "half.vmfb", "f16", ["a", "b"])
    one = np.ones(8, np.float16)
    with pytest.raises(vireo.InvalidArgument, match="column `b` has 7 rows, and `a` has 8"):
        predictor({"a": one, "b": one[:7]})
    with pytest.raises(vireo.InvalidArgument, match="an array is one column, and `f16` takes a, b"):
        predictor(one)


CHOICES: list[tuple[str, dict[str, Any], type[vireo.Error], str]] = [
    ("multi", {}, vireo.InvalidArgument, "expected the name of a function, one of collatz, divide"),
    ("mlp", {"function": "missing"}, vireo.NotFound, "has no function `missing`, but mlp"),
    ("mlp", {"function": "mlp", "batch_sizes": {8: "mlp"}}, vireo.InvalidArgument, "`function` or `batch_sizes`, got both"),
    ("mlp", {"batch_sizes": {16: "mlp"}}, vireo.InvalidArgument, "`batch_sizes` has 16 for .* which takes 8 rows"),
    ("mlp", {"batch_sizes": {0: "mlp"}}, vireo.InvalidArgument, "`batch_sizes` has 0 for"),
    ("mlp", {"columns": ["a", "b"]}, vireo.InvalidArgument, "`columns` has 2 names, and .* takes 1 arguments"),
    ("mlp", {"columns": {"input1": "a"}}, vireo.InvalidArgument, "`columns`: .* has no argument `input1`"),
    ("mlp", {"columns": {}}, vireo.InvalidArgument, "the argument `input0` of .* has no column"),
    ("mlp", {"constants": {"other": 1}}, vireo.InvalidArgument, "`constants`: .* has no argument `other`"),
    ("mlp", {"constants": {"input0": 1}}, vireo.InvalidArgument, "takes no column"),
    ("mlp", {"output": ["a", "b"]}, vireo.InvalidArgument, "`output` has 2 names, and .* has 1 results"),
    ("mlp", {"output": [None]}, vireo.InvalidArgument, "expected different names in `output`"),
    ("mlp", {"output": "x", "columns": "x", "keep": True}, vireo.InvalidArgument, "an output is called `x`"),
    ("half", {"function": "f16", "output": ["a", "a"]}, vireo.InvalidArgument, "different names in `output`, got 'a', 'a'"),
    ("half", {"batch_sizes": {8: "f16", 9: "library"}}, vireo.InvalidArgument, "take and return the same rows"),
    ("abs", {}, vireo.InvalidArgument, "the argument `input0` of .* has no rows"),
    ("state", {"function": "lookup"}, vireo.InvalidArgument, "takes no column"),
    ("waits", {"function": "doubled"}, vireo.Error, "doubled"),
    ("fences", {"function": "doubled_and_total"}, vireo.InvalidArgument, "result 1 of .* has no rows"),
    ("missing", {}, vireo.NotFound, "missing.vmfb"),
]


@pytest.mark.parametrize("index", range(len(CHOICES)))
def test_choices_that_a_program_does_not_have(models: Path, index: int) -> None:
    name, keywords, error, message = CHOICES[index]
    with pytest.raises(error, match=message):
        Predictor(models / f"{name}.vmfb", **keywords)


def test_results_that_have_no_row_for_each(models: Path) -> None:
    # The program adds the rows up, which the signature does not say: 96 results for 3 rows.
    predictor = Predictor(models / "constants.vmfb", "add_rows", "x", output="y")
    with pytest.raises(vireo.FailedPrecondition, match=r"`add_rows` returned the shape \(96,\) for 3 rows"):
        predictor({"x": np.ones((3, 96), np.float32)})


def test_sources_that_are_no_models(tmp_path: Path) -> None:
    for source in (None, 7, [b""], object()):
        with pytest.raises(vireo.InvalidArgument, match="`model`: expected the path or the bytes of a module file"):
            Predictor(source)
    for data in (b"", b"\0" * 100):
        with pytest.raises(vireo.Error):
            Predictor(data)
    model = tmp_path / "broken.vmfb"
    model.write_bytes(b"broken")
    with pytest.raises(vireo.Error):
        Predictor(model)


def test_a_process_loads_a_model_once(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.vmfb"
    shutil.copy(models / "mlp.vmfb", path)
    x = np.random.default_rng(6).normal(size=(20, 64)).astype(np.float32)
    before = load_count()
    predictor = Predictor(path, columns="x", output="y", device="local-sync")
    threads = [threading.Thread(target=lambda: Predictor(str(path), columns="x", device="local-sync")(x)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(predictor, protocol))
        assert np.array_equal(again({"x": x})["y"], predictor({"x": x})["y"])
        assert again.model is predictor.model
    assert load_count() == before + 1
    # Other options are another model.
    Predictor(path, columns="x", device="local-task", threads=1)
    assert load_count() == before + 2


def test_models_of_bytes_share_a_file(models: Path, tmp_path: Path) -> None:
    data = (models / "mlp.vmfb").read_bytes()
    x = np.random.default_rng(7).normal(size=(3, 64)).astype(np.float32)
    wanted = Predictor(models / "mlp.vmfb", columns="x")(x)
    for source in (data, bytearray(data), np.frombuffer(data, np.uint8), vireo.Model(data), vireo.Model(models / "mlp.vmfb")):
        predictor = Predictor(source, columns="x")
        assert np.array_equal(predictor(x), wanted)
        assert np.array_equal(pickle.loads(pickle.dumps(predictor))(x), wanted)
    (file,) = (tmp_path / f"vireo-{os.getuid()}").iterdir()
    assert file.read_bytes() == data and file.stat().st_mode & 0o077 == 0
    with pytest.raises(vireo.InvalidArgument, match="a `vireo.Model` has its options, and takes no device"):
        Predictor(vireo.Model(data), device="local-sync")


def test_the_folder_of_models_is_one_of_this_user(models: Path, tmp_path: Path) -> None:
    folder = tmp_path / f"vireo-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    data = (models / "softmax.vmfb").read_bytes()
    with pytest.raises(vireo.PermissionDenied, match="others may write to it"):
        Predictor(data, device="local-sync", threads=3)
    folder.chmod(0o700)
    # A file that was cut off is replaced.
    Predictor(data, device="local-sync", threads=3)
    (file,) = folder.iterdir()
    file.write_bytes(data[:100])
    x = np.ones((2, 37), np.float32)
    assert Predictor(data, device="local-sync", threads=4)(x).shape == (2, 37)
    assert file.read_bytes() == data


def test_other_versions_and_files_are_refused(models: Path, tmp_path: Path) -> None:
    path, x = tmp_path / "model.vmfb", np.ones((2, 64), np.float32)
    shutil.copy(models / "mlp.vmfb", path)
    predictor = Predictor(path, columns="x")
    pickled = pickle.dumps(predictor)
    assert len(pickled) < 1500
    other = pickle.loads(pickled.replace(vireo.__version__.encode(), b"9.9.9"))
    with pytest.raises(vireo.Incompatible, match=rf"by version 9\.9\.9 of this package, and this is {vireo.__version__}"):
        other(x)
    replacement = tmp_path / "other.vmfb"
    shutil.copy(models / "abs.vmfb", replacement)
    os.replace(replacement, path)
    for _ in range(2):
        with pytest.raises(vireo.FailedPrecondition, match=f"{path} is not the file of the pickled model: its digest is "):
            pickle.loads(pickled)(x)
    fresh = Predictor(models / "mlp.vmfb", columns="x")
    path.unlink()
    with pytest.raises(vireo.NotFound, match="the file of the pickled model is not here"):
        pickle.loads(pickled)(x)
    assert predictor(x).shape == fresh(x).shape


def _call(predictor: Predictor, x: Any) -> tuple[Any, int]:
    return predictor(x), load_count()


def test_spawned_and_forked_processes(models: Path, device: str) -> None:
    x = np.random.default_rng(8).normal(size=(30, 64)).astype(np.float32)
    predictor = Predictor(models / "mlp.vmfb", columns="x", device=device)
    wanted = predictor(x)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for _ in range(2):
            assert np.array_equal(pool.apply(_call, (predictor, x))[0], wanted)
        assert pool.apply(_call, (predictor, x))[1] == 1
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert np.array_equal(pool.apply(_call, (predictor, x))[0], wanted)


def test_threads_call_one_predictor(models: Path, device: str) -> None:
    predictor = Predictor(models / "mlp.vmfb", columns="x", output="y", device=device)
    failures: list[int] = []

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(30):
            x = generator.normal(size=(int(generator.integers(1, 40)), 64)).astype(np.float32)
            if not np.array_equal(predictor({"x": x})["y"], Predictor(models / "mlp.vmfb", columns="x", device=device)(x)):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_outputs_are_not_written_again(models: Path) -> None:
    predictor = Predictor(models / "mlp.vmfb", columns="x")
    generator = np.random.default_rng(9)
    inputs = [generator.normal(size=(rows, 64)).astype(np.float32) for rows in (1, 8, 3, 8, 16, 8)]
    outputs = [predictor(x) for x in inputs]
    for x, y in zip(inputs, outputs):
        assert np.array_equal(predictor(x), y)


def test_event_loops(models: Path, device: str, weights: dict[str, Any]) -> None:
    generator = np.random.default_rng(10)
    static = Predictor(models / "mlp.vmfb", columns="x", output="y", device=device)
    dynamic = Predictor(models / "dynamic_mlp.vmfb", "dynamic_mlp", "x", output="y", constants=weights, device=device)
    batches = [generator.normal(size=(int(generator.integers(0, 40)), 64)).astype(np.float32) for _ in range(20)]

    async def main() -> None:
        for predictor, size in ((static, 64), (dynamic, 32)):
            results = await asyncio.gather(*(predictor.start({"x": x[:, :size]}, timeout=60.0) for x in batches))
            for x, result in zip(batches, results):
                assert np.array_equal(result["y"], predictor({"x": x[:, :size]})["y"])
        with pytest.raises(vireo.InvalidArgument, match="column `x` is not in the batch"):
            await static.start({"z": batches[0]})

    asyncio.run(main())


def test_importing_needs_no_ray() -> None:
    code = (
        "import sys, vireo; assert 'vireo.ray' not in sys.modules\n"
        "import vireo.ray; print([name for name in ('ray', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_a_deployment_needs_ray_serve(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.serve", None)
    with pytest.raises(vireo.NotFound, match="there is no Ray Serve.*install `ray.serve.`"):
        vireo.ray.deployment(models / "mlp.vmfb")


def test_outputs_have_the_form_of_the_column(models: Path) -> None:
    arrow = library("pyarrow")
    predictor = Predictor(models / "mlp.vmfb", columns="x", output="y", device="local-sync")
    x = np.ones((9, 64), np.float32)
    element = arrow.float32()
    for make, kind in (
        (as_lists, arrow.list_(element)),
        (lambda array: as_lists(array, large=True), arrow.large_list(element)),
        (as_arrow, arrow.list_(element, 16)),
        (as_tensors, arrow.fixed_shape_tensor(element, (16,))),
    ):
        column = predictor(arrow.table({"x": make(x)})).column("y")
        assert column.type == kind
        column.validate(full=True)
