"""Records of `logging`: what is told, and that nothing is told that nobody asked for."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vireo

X = np.array(-2.0, np.float32)


def test_models_sessions_and_calls_are_told(models: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="vireo"):
        session = vireo.Session(models / "abs.vmfb", device="local-sync")
        assert session["abs"](X).item() == 2.0
    names = [(record.name, record.levelno, record.getMessage().split(" module=")[0].split(" function=")[0]) for record in caplog.records]
    assert names == [
        ("vireo.model", logging.DEBUG, "linked a model"),
        ("vireo.model", logging.DEBUG, "made a session"),
        ("vireo.call", logging.DEBUG, "returned"),
    ]
    linked, _, returned = caplog.records
    assert (linked.vireo_module, linked.vireo_devices) == ("module", '["local-sync"]')
    assert returned.vireo_function == "abs"
    assert returned.vireo_duration.endswith(("ns", "µs", "ms", "s"))
    assert returned.getMessage() == f"returned function=abs duration={returned.vireo_duration}"


def test_a_failure_is_told_with_its_status(models: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="vireo"):
        session = vireo.Session(models / "abs.vmfb", device="local-sync", limits=(limits := vireo.Limits()))
        limits.cancel()
        with pytest.raises(vireo.Cancelled):
            session["abs"](X)
    failed = caplog.records[-1]
    assert (failed.name, failed.getMessage().split()[0]) == ("vireo.call", "failed")
    assert "CANCELLED" in failed.vireo_status


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING, logging.CRITICAL + 1])
def test_levels_that_ask_for_less_get_nothing(models: Path, caplog: pytest.LogCaptureFixture, level: int) -> None:
    with caplog.at_level(level, logger="vireo"):
        vireo.Session(models / "abs.vmfb", device="local-sync")["abs"](X)
    assert not caplog.records


def test_a_program_without_logging_does_not_import_it(models: Path) -> None:
    program = f"""if True:
        import sys, vireo
        session = vireo.Session({str(models / "abs.vmfb")!r}, device="local-sync")
        assert session["abs"](-2.0).item() == 2.0
        assert "logging" not in sys.modules, sorted(sys.modules)
    """
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=60)


def test_an_exception_of_a_handler_does_not_reach_the_call(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("broken")

    seen: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: seen.append(str(unraisable.exc_value)))
    handler, logger = Broken(), logging.getLogger("vireo")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        assert vireo.Session(models / "abs.vmfb", device="local-sync")["abs"](X).item() == 2.0
        assert seen == ["broken"] * 3
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        # The level is read when a model is made.
        vireo.Model(models / "abs.vmfb", device="local-sync")
