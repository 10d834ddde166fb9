"""Calls in event loops: awaited, cancelled, out of time, in loops that are closed."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import vireo

X = np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64)
ONES = np.ones(4, np.float32)


def test_awaited_calls_give_the_same(mlp: vireo.Function) -> None:
    async def main() -> None:
        expected = np.asarray(mlp(X))
        assert np.array_equal(await mlp.start(X), expected)
        assert np.array_equal(await mlp.start(input0=X, timeout=60.0), expected)
        for y in await asyncio.gather(*(mlp.start(X) for _ in range(20))):
            assert np.array_equal(y, expected) and y.in_place

    asyncio.run(main())


def test_errors_of_calls(mlp: vireo.Function, models: Path) -> None:
    multi = vireo.Session(models / "multi.vmfb", device="local-sync")

    async def main() -> None:
        with pytest.raises(vireo.InvalidArgument, match="argument 0"):
            mlp.start(X[:4])
        with pytest.raises(vireo.FailedPrecondition, match="must be positive"):
            await multi["require_positive"].start(-1)
        with pytest.raises(vireo.InvalidArgument, match="not negative"):
            mlp.start(X, timeout=-1.0)

    asyncio.run(main())
    with pytest.raises(RuntimeError, match="no running event loop"):
        mlp.start(X)


def test_a_call_waits_without_a_thread_and_without_the_loop(models: Path, device: str) -> None:
    waits = vireo.Session(models / "waits.vmfb", device=device)

    async def main() -> None:
        fence = vireo.Fence()
        threads = threading.active_count()
        call = waits["doubled"].start(ONES, fence)
        # The loop runs other tasks meanwhile.
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert not call.done() and threading.active_count() == threads
        threading.Thread(target=fence.signal).start()
        assert np.asarray(await asyncio.wait_for(call, 60)).tolist() == [2.0] * 4

    asyncio.run(main())


def test_a_thousand_calls_of_which_half_are_cancelled(models: Path, device: str) -> None:
    model = vireo.Model(models / "waits.vmfb", device=device)
    sessions = [model.session() for _ in range(8)]

    async def main() -> None:
        fence = vireo.Fence()
        tasks = [sessions[i % 8]["doubled"].start(ONES * i, fence) for i in range(1000)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            assert task.cancel()
        await asyncio.sleep(0)
        fence.signal()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
        for i in range(1, 1000, 2):
            assert np.asarray(results[i]).tolist() == [2.0 * i] * 4
        # The sessions go on.
        assert np.asarray(await sessions[0]["doubled"].start(ONES, fence)).tolist() == [2.0] * 4

    asyncio.run(main())


def test_cancelling_the_task_cancels_the_call(models: Path) -> None:
    waits = vireo.Session(models / "waits.vmfb", device="local-task")

    async def main() -> None:
        fence = vireo.Fence()

        async def wait_for_ever() -> None:
            await waits["doubled"].start(ONES, fence)

        task = asyncio.create_task(wait_for_ever())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The session is free again.
        assert await waits["answer"].start() == 42

    asyncio.run(main())


def test_the_time_of_a_call(models: Path, device: str) -> None:
    waits = vireo.Session(models / "waits.vmfb", device=device)

    async def main() -> None:
        began, fence = time.monotonic(), vireo.Fence()
        with pytest.raises(vireo.DeadlineExceeded):
            await waits["doubled"].start(ONES, fence, timeout=0.05)
        assert time.monotonic() - began < 30

    asyncio.run(main())


def test_a_loop_that_is_closed_ends_its_calls(models: Path, device: str) -> None:
    waits = vireo.Session(models / "waits.vmfb", device=device)
    fence, other = vireo.Fence(), vireo.Fence()

    async def main() -> asyncio.Future[object]:
        return waits["doubled"].start(ONES, fence)

    loop = asyncio.new_event_loop()
    future = loop.run_until_complete(main())
    loop.close()
    fence.signal()
    assert not future.done()
    del future
    gc.collect()
    other.signal()
    assert np.asarray(waits["doubled"](ONES, other)).tolist() == [2.0] * 4


def test_a_fence_that_nobody_can_signal_fails(models: Path) -> None:
    waits = vireo.Session(models / "waits.vmfb", device="local-task")

    async def main() -> None:
        with pytest.raises(vireo.Aborted, match="went away"):
            await waits["doubled"].start(ONES, vireo.Fence())

    asyncio.run(main())


def test_a_child_of_a_fork_has_event_loops_of_its_own(models: Path, device: str) -> None:
    waits = vireo.Session(models / "waits.vmfb", device=device)

    async def main() -> list[float]:
        fence = vireo.Fence()
        call = waits["doubled"].start(ONES, fence)
        await asyncio.sleep(0.001)
        fence.signal()
        return list(np.asarray(await asyncio.wait_for(call, 60)).tolist())

    # The thread that wakes loops is there, and has none in the child.
    assert asyncio.run(main()) == [2.0] * 4
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            status = 0 if asyncio.run(main()) == [2.0] * 4 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asyncio.run(main()) == [2.0] * 4


def test_loops_of_several_threads(models: Path, device: str) -> None:
    model = vireo.Model(models / "mlp.vmfb", device=device)
    expected, wrong = np.array(model.session().mlp(X)), []

    def work() -> None:
        session = model.session()

        async def main() -> None:
            for _ in range(20):
                if not np.array_equal(await session["mlp"].start(X), expected):
                    wrong.append(1)

        asyncio.run(main())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_interpreters_that_end_after_calls_end_well(models: Path) -> None:
    # The thread that wakes loops wanted the interpreter while that ended, and one in four such programs was aborted.
    code = (
        "import asyncio, numpy as np, vireo\n"
        f"f = vireo.Session({str(models / 'mlp.vmfb')!r}, device='local-task', threads=2)['mlp']\n"
        "async def main():\n"
        "    for _ in range(20): await f.start(np.ones((8, 64), np.float32))\n"
        "asyncio.run(main())\n"
    )
    for _ in range(20):
        ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
