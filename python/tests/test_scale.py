"""The programs of `docs/scale.md`, each where its engine is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from conftest import REPOSITORY

GUIDE = REPOSITORY / "docs/scale.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
# What Ray says while it starts and ends.
QUIET = {"RAY_raylet_start_wait_time_s": "120", "RAY_DEDUP_LOGS": "1"}


def test_the_guide_has_a_program_for_each_engine() -> None:
    for engine in ("ray", "ray import serve", "dask", "pyspark"):
        assert any(re.search(rf"(import|from) {engine}\b", block) for block in BLOCKS), engine


@pytest.mark.parametrize("index", range(len(BLOCKS)))
def test_the_programs_of_the_guide_run(index: int, models: Path, tmp_path: Path) -> None:
    code = BLOCKS[index]
    for engine in re.findall(r"^(?:import|from) (ray|dask|pandas|pyspark)\b", code, re.MULTILINE):
        if importlib.util.find_spec(engine) is None:
            pytest.skip(f"skipped: {engine} is not installed")
        if engine == "pyspark" and shutil.which("java") is None:
            pytest.skip("skipped: java is not installed")
    shutil.copy(models / "mlp.vmfb", tmp_path / "model.vmfb")
    code = f"import numpy as np\nx = np.random.default_rng({index}).normal(size=(1000, 64)).astype(np.float32)\n{code}"
    environment = {**os.environ, **QUIET, "TMPDIR": str(tmp_path), "RAY_TMPDIR": tempfile.gettempdir()}
    command = [sys.executable, "-P", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=150, env=environment, cwd=tmp_path)
    assert ran.returncode == 0, f"{code}\n{ran.stderr[-4000:]}"
