"""A cluster of Ray on this machine, and models, for `ray_data.py` and `ray_serve.py`, which `python/check-ray` runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vireo
from programs import compiled

SEED = int(os.environ.get("VIREO_SEED", "0"))
# Programs are kept between runs.
PROGRAMS = Path(os.environ.get("VIREO_RAY_PROGRAMS", tempfile.gettempdir())) / "vireo-programs"
BIG = [1024, 4096, 4096, 1024]


@contextmanager
def cluster() -> Iterator[Any]:
    """Two CPUs, however many there are."""
    # Workers import what tests pass to them from here, and start slowly on a busy machine.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
    os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")
    ray = pytest.importorskip("ray", reason="skipped: ray is not installed")
    ray.init(num_cpus=2, object_store_memory=500 * 2**20, include_dashboard=False, logging_level="warning")
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield ray
    finally:
        ray.shutdown()


def program(name: str, sizes: list[int], batches: list[int | None]) -> Path:
    """A compiled program of layers."""
    try:
        return compiled(PROGRAMS / f"{name}.vmfb", sizes, batches)
    except vireo.NotFound:
        pytest.skip("skipped: iree-compile is not installed")


def rows(count: int, columns: int = 64, seed: int = SEED) -> Any:
    """Rows of random numbers."""
    return np.random.default_rng(seed).normal(size=(count, columns)).astype(np.float32)


def memory() -> dict[str, int]:
    """What `/proc` says of the memory of this process, in KiB."""
    text = Path("/proc/self/smaps_rollup").read_text()
    fields = (line.split(":") for line in text.splitlines()[1:])
    found = {name: int(value.split()[0]) for name, value in fields}
    return {"own": found["Private_Clean"] + found["Private_Dirty"], "share": found["Pss"]}
