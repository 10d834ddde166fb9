"""Many calls and many sessions, after which no more memory is in use. `VIREO_SOAK_CALLS` is how many calls."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import vireo

CALLS = int(os.environ.get("VIREO_SOAK_CALLS", "5000"))
# Growth that is allowed, in KiB: what allocators keep for later.
SLACK = 1024

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads memory from /proc")


def anonymous() -> int:
    """Anonymous memory in KiB."""
    gc.collect()
    text = Path("/proc/self/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Anonymous:"))


def growth(step: object, count: int) -> int:
    """Growth from one run of many steps to another one."""
    for _ in range(count):
        step()  # type: ignore[operator]
    before = anonymous()
    for _ in range(count):
        step()  # type: ignore[operator]
    return anonymous() - before


def test_calls(models: Path, device: str) -> None:
    session = vireo.Session(models / "mlp.vmfb", device=device)
    function, x = session["mlp"], np.ones((8, 64), np.float32)
    strided, prepared = np.asfortranarray(x), session["mlp"].prepare(x)
    references = sys.getrefcount(x)

    def step() -> None:
        y = np.asarray(function(x))
        np.from_dlpack(function(input0=strided)).sum()
        prepared.set(0, y.repeat(4, axis=1))
        memoryview(prepared.run()).release()
        try:
            function(y)
        except vireo.InvalidArgument:
            pass

    assert growth(step, CALLS // 5) < SLACK
    assert sys.getrefcount(x) == references


def test_sessions(models: Path, device: str) -> None:
    model = vireo.Model(models / "mlp.vmfb", device=device)
    x = np.ones((8, 64), np.float32)
    assert growth(lambda: model.session().mlp(x), CALLS // 20) < SLACK
    assert growth(lambda: vireo.Session(models / "abs.vmfb", device=device).abs(1.0), CALLS // 50) < SLACK
