"""Processes of a machine that load one large model hold it in memory once."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vireo
from programs import compiled

SIZES = [1024, 4096, 4096, 1024]

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads memory from /proc")


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with 100 MB of weights."""
    folder = os.environ.get("VIREO_RAY_PROGRAMS")
    try:
        path = Path(folder, "vireo-programs") if folder else tmp_path_factory.mktemp("programs")
        return compiled(path / "big.vmfb", SIZES, [8])
    except vireo.NotFound:
        pytest.skip("skipped: iree-compile is not installed")


def memory() -> dict[str, int]:
    """What this process has in memory, in KiB: its share of all pages, and the pages that are its own."""
    text = Path("/proc/self/smaps_rollup").read_text()
    found = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    return {"share": found["Pss"], "own": found["Private_Clean"] + found["Private_Dirty"]}


def hold(path: Path, preload: bool, start: Any, loaded: Any, ends: Any, found: Any) -> None:
    """Loads and calls the model while all others do, and measures what that adds."""
    x = np.linspace(-1, 1, 8 * SIZES[0], dtype=np.float32).reshape(8, -1)
    start.wait(300)
    before = memory()
    session = vireo.Session(path, device="local-sync", preload=preload)
    total = float(np.asarray(session["mlp8"](x)).sum())
    loaded.wait(300)
    after = memory()
    found.put((after["share"] - before["share"], after["own"] - before["own"], total))
    ends.wait(300)


def grown(path: Path, count: int, preload: bool) -> list[tuple[int, int, float]]:
    context = multiprocessing.get_context("spawn")
    barriers = [context.Barrier(count) for _ in range(3)]
    found: Any = context.Queue()
    processes = [context.Process(target=hold, args=(path, preload, *barriers, found)) for _ in range(count)]
    for process in processes:
        process.start()
    results = [found.get(timeout=300) for _ in processes]
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    return results


def test_eight_processes_have_the_weights_once(big: Path) -> None:
    size = big.stat().st_size // 1024
    mapped = grown(big, 8, preload=False)
    total = sum(share for share, _, _ in mapped)
    print(f"a model of {size} KiB: 8 processes share {total} KiB; their own pages grow by {[own for _, own, _ in mapped]} KiB")
    assert len({result for _, _, result in mapped}) == 1
    assert 0.8 * size < total < 1.25 * size
    assert all(own < size / 10 for _, own, _ in mapped)
    # A file that is read instead is in each of them.
    read = grown(big, 2, preload=True)
    assert all(own > 0.8 * size for _, own, _ in read) and read[0][2] == mapped[0][2]
