"""Models of the repository, for all tests."""

from __future__ import annotations

import faulthandler
import os
from pathlib import Path

import pytest

import vireo

# A test that hangs ends the run with the stacks of all threads.
faulthandler.dump_traceback_later(int(os.environ.get("VIREO_TEST_SECONDS", "600")), exit=True)

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = Path(os.environ.get("VIREO_MODELS", REPOSITORY / "fixtures/models"))


@pytest.fixture(scope="session")
def models() -> Path:
    return MODELS


@pytest.fixture(params=["local-sync", "local-task"])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mlp(models: Path, device: str) -> vireo.Function:
    return vireo.Session(models / "mlp.vmfb", device=device)["mlp"]


@pytest.fixture
def abs_(models: Path) -> vireo.Function:
    return vireo.Session(models / "abs.vmfb", device="local-sync")["abs"]
