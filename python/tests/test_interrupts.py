"""Signals while the main thread calls a program: handlers run, and an interrupt ends the call."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import vireo
import vireo.compat.iree as rt

ONES = np.ones(4, np.float32)
# A call that goes on for so long was not interrupted.
LONG = 60.0


class Ended(Exception):
    """Raised by a handler."""


@contextmanager
def signal_after(seconds: float, handler: Callable[[int, FrameType | None], object] | None = None) -> Iterator[None]:
    """Sends the process an interrupt, which `handler` handles, or Python's own handler."""
    before = signal.signal(signal.SIGINT, handler or signal.default_int_handler)
    # The start of a thread takes long where processors are busy, and is not to be interrupted.
    begins = threading.Event()

    def interrupt() -> None:
        begins.wait()
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Thread(target=interrupt)
    timer.start()
    try:
        begins.set()
        yield
    finally:
        # One that comes too late tells of a call that ended by itself.
        signal.signal(signal.SIGINT, lambda *_: None)
        timer.join()
        signal.signal(signal.SIGINT, before)


def end(*_: object) -> None:
    raise Ended


def calls(models: Path, device: str, limits: vireo.Limits | None) -> dict[str, Callable[[], object]]:
    """Calls that do not end: one that computes, one that waits for the host, and a wait."""
    multi = vireo.Session(models / "multi.vmfb", device=device, limits=limits)
    waits = vireo.Session(models / "waits.vmfb", device=device, limits=limits)
    prepared = multi["halve_until"].prepare(math.inf, 8.0)
    return {
        "call": lambda: multi["halve_until"](math.inf, 8.0),
        "prepared": prepared.run,
        "waits": lambda: waits["doubled"](ONES, vireo.Fence()),
        "fence": vireo.Fence().wait,
    }


@pytest.mark.parametrize("kind", ["call", "prepared", "waits", "fence"])
@pytest.mark.parametrize("with_limits", [False, True])
def test_an_interrupt_ends_a_call(models: Path, device: str, kind: str, with_limits: bool) -> None:
    limits = vireo.Limits(fuel=2**62) if with_limits else None
    call = calls(models, device, limits)[kind]
    for handler, exception in ((None, KeyboardInterrupt), (end, Ended)):
        begin = time.monotonic()
        with signal_after(0.05, handler), pytest.raises(exception):
            call()
        assert time.monotonic() - begin < LONG
    # What was interrupted can be called again.
    multi = vireo.Session(models / "multi.vmfb", device=device, limits=limits)
    with signal_after(0.05), pytest.raises(KeyboardInterrupt):
        multi["halve_until"](math.inf, 8.0)
    assert multi["collatz"](27)[0] == 111


def test_a_handler_that_does_not_raise_lets_the_call_go_on(models: Path, device: str) -> None:
    waits = vireo.Session(models / "waits.vmfb", device=device)
    other = vireo.Session(models / "multi.vmfb", device=device)
    fence, handled = vireo.Fence(), []

    def handle(*_: object) -> None:
        # A handler may call programs itself, and signal what the call waits for.
        handled.append(other["collatz"](27)[0])
        if len(handled) == 2:
            fence.signal()

    second = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    second.start()
    with signal_after(0.05, handle):
        y = waits["doubled"](ONES, fence)
    second.join()
    assert handled == [111, 111] and np.array_equal(y, 2 * ONES)


def test_a_handler_that_is_interrupted(models: Path, device: str) -> None:
    multi = vireo.Session(models / "multi.vmfb", device=device)
    other = vireo.Session(models / "multi.vmfb", device=device)

    def call(*_: object) -> None:
        with signal_after(0.05), pytest.raises(KeyboardInterrupt):
            other["halve_until"](math.inf, 8.0)
        raise Ended

    with signal_after(0.05, call), pytest.raises(Ended):
        multi["halve_until"](math.inf, 8.0)


def test_calls_of_other_threads_are_not_interrupted(models: Path, device: str) -> None:
    waits = vireo.Session(models / "waits.vmfb", device=device)
    fence, results = vireo.Fence(), []
    thread = threading.Thread(target=lambda: results.append(waits["doubled"](ONES, fence)))
    thread.start()
    multi = vireo.Session(models / "multi.vmfb", device=device)
    with signal_after(0.05), pytest.raises(KeyboardInterrupt):
        multi["halve_until"](math.inf, 8.0)
    fence.signal()
    thread.join()
    assert np.array_equal(results[0], 2 * ONES)


def test_programs_for_the_other_interface_are_interrupted(models: Path) -> None:
    config = rt.Config("local-sync")
    multi = rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, str(models / "multi.vmfb")), config)
    with signal_after(0.05), pytest.raises(KeyboardInterrupt):
        multi["halve_until"](np.asarray(math.inf, np.float32), 8.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: the system cannot fork")
def test_calls_after_a_fork_are_interrupted(models: Path) -> None:
    multi = vireo.Session(models / "multi.vmfb", device="local-sync")
    multi["collatz"](27)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with signal_after(0.05), pytest.raises(KeyboardInterrupt):
                multi["halve_until"](math.inf, 8.0)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
