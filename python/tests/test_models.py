"""Models and sessions: files that are broken or change, pickles, threads, forks, limits, progress."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vireo

X = np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64)


def test_what_a_model_says_of_itself(models: Path) -> None:
    session = vireo.Session(models / "multi.vmfb", device="local-sync")
    assert "scale" in session and "missing" not in session
    assert sorted(session) == sorted(session.signatures) and len(session) == len(session.signatures)
    assert "scale" in dir(session)
    signature = session["scale"].signature
    assert str(signature) == (
        "scale(x: tensor<6xf32>, factor: f32, times: i32) -> (output0: tensor<6xf32>, output1: f32, output2: i32)"
        if signature.arguments[0].name == "x"
        else "scale(input0: tensor<6xf32>, input1: f32, input2: i32) -> (output0: tensor<6xf32>, output1: f32, output2: i32)"
    )
    tensor, number = signature.arguments[:2]
    assert (tensor.type, tensor.shape, tensor.dtype) == ("tensor<6xf32>", (6,), "float32")
    assert (number.type, number.shape, number.dtype) == ("f32", None, None)
    assert signature == session["scale"].signature and hash(signature) == hash(session["scale"].signature)
    dynamic = vireo.Model(models / "dynamic_mlp.vmfb", device="local-sync").signatures["row_sums"]
    assert dynamic.arguments[0].shape == (None, None)
    assert repr(session).startswith("<vireo.Session ")
    assert "tensor&lt;6xf32&gt;" in session._repr_html_()
    assert session["scale"].__name__ == session["scale"].name == "scale"
    with pytest.raises(KeyError, match="has no function `missing`, but"):
        session["missing"]
    with pytest.raises(AttributeError, match="has no function `missing`, but"):
        session.missing
    assert not hasattr(session, "missing")


def test_models_of_bytes_and_of_several_sessions(models: Path, device: str) -> None:
    data = (models / "mlp.vmfb").read_bytes()
    expected = np.asarray(vireo.Session(models / "mlp.vmfb", device=device).mlp(X))
    for source in (data, bytearray(data), memoryview(data), str(models / "mlp.vmfb")):
        model = vireo.Model(source, device=device)
        for session in (model.session(), vireo.Session(model)):
            assert np.array_equal(session.mlp(X), expected)
            assert session.model is model
    with pytest.raises(vireo.InvalidArgument, match="takes no others"):
        vireo.Session(model, device=device)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (None, vireo.NotFound, ""),
        (b"", vireo.Error, ""),
        (b"PK\3\4", vireo.Error, ""),
        (b"\0" * 1000, vireo.Error, ""),
        ("half", vireo.Error, ""),
    ],
)
def test_broken_files(models: Path, tmp_path: Path, data: Any, error: type, message: str) -> None:
    path = tmp_path / "model.vmfb"
    if data == "half":
        whole = (models / "mlp.vmfb").read_bytes()
        data = whole[: len(whole) // 2]
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(error) as raised:
        vireo.Session(path)
    assert raised.value.code != "" and str(raised.value) != ""
    if data is None:
        assert isinstance(raised.value, LookupError) and "model.vmfb" in str(raised.value)
    else:
        with pytest.raises(error):
            vireo.Session(data)


def test_every_cut_of_a_file_is_refused_or_whole(models: Path) -> None:
    whole = (models / "abs.vmfb").read_bytes()
    signatures = vireo.Model(whole, device="local-sync").signatures
    refused = 0
    for length in range(0, len(whole), len(whole) // 40):
        try:
            # The end of the file is the directory of an archive, which nothing needs.
            assert vireo.Model(whole[:length], device="local-sync").signatures == signatures
        except vireo.Error:
            refused += 1
    assert refused > 20


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"device": "nothing"}, "nothing"),
        ({"device": 7}, "the URI of a device"),
        ({"device": ["local-sync", None]}, "the URI of a device"),
        ({"policy": "careful"}, "`trusted` or `untrusted`"),
        ({"threads": 0}, "at least 1"),
        ({"parameters": "missing.irpa"}, "missing.irpa"),
        ({"parameters": {"scope": "missing.irpa"}}, "missing.irpa"),
        ({"parameters": 7}, "the path of an archive"),
    ],
)
def test_wrong_choices(models: Path, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(vireo.Error, match=message):
        vireo.Session(models / "abs.vmfb", **keywords)


def test_sources_that_are_none() -> None:
    for source in (None, 7, [b""], object()):
        with pytest.raises(vireo.InvalidArgument, match="the path or the bytes of a module file"):
            vireo.Session(source)  # type: ignore[arg-type]


def test_failures_of_programs_have_frames(models: Path) -> None:
    multi = vireo.Session(models / "multi.vmfb", device="local-sync")
    with pytest.raises(vireo.Error) as raised:
        multi["divide"](1, 0)
    assert any("divide" in frame for frame in raised.value.frames)
    assert raised.value.__notes__ == ["\n".join(raised.value.frames)]
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again), again.frames) == (type(raised.value), str(raised.value), raised.value.frames)
    with pytest.raises(vireo.FailedPrecondition, match="must be positive"):
        multi["require_positive"](-1)


def test_state_belongs_to_a_session(models: Path) -> None:
    model = vireo.Model(models / "state.vmfb", device="local-sync")
    first, second = model.session(), model.session()
    assert [first.increment(1), first.increment(1), second.increment(5)] == [11, 12, 15]
    with pytest.raises(TypeError, match="pickle its `model`"):
        pickle.dumps(first)


def test_prepared_calls(models: Path, device: str) -> None:
    session = vireo.Session(models / "mlp.vmfb", device=device)
    call = session["mlp"].prepare(X)
    first = call.run()
    expected = np.array(first)
    call.set(0, -X)
    second = call.run()
    assert np.array_equal(second, session.mlp(-X)) and np.array_equal(first, expected)
    call.set("input0", vireo.empty((8, 64)))
    assert np.array_equal(call.run(), session.mlp(np.zeros_like(X)))
    assert second.in_place
    for place, value, message in (
        (1, X, "there is no argument 1"),
        ("other", X, "is called `other`"),
        (0, X[:4], "argument 0 `input0`"),
        (None, X, "the number or the name"),
    ):
        with pytest.raises(vireo.InvalidArgument, match=message):
            call.set(place, value)


def test_models_are_pickled_by_path_and_digest(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.vmfb"
    shutil.copy(models / "mlp.vmfb", path)
    model = vireo.Model(path, device="local-sync", limits=vireo.Limits(timeout=30.0), threads=1)
    pickled = pickle.dumps(model)
    assert len(pickled) < 1000
    again = pickle.loads(pickled)
    assert np.array_equal(again.session().mlp(X), model.session().mlp(X))
    of_bytes = vireo.Model(path.read_bytes(), device="local-sync")
    assert np.array_equal(pickle.loads(pickle.dumps(of_bytes)).session().mlp(X), model.session().mlp(X))
    # Another file in its place, and then none.
    replacement = tmp_path / "other.vmfb"
    shutil.copy(models / "abs.vmfb", replacement)
    os.replace(replacement, path)
    with pytest.raises(vireo.FailedPrecondition, match="has changed since the model was loaded"):
        pickle.dumps(model)
    with pytest.raises(vireo.FailedPrecondition, match="is not the file of the pickled model"):
        pickle.loads(pickled)
    path.unlink()
    with pytest.raises(vireo.NotFound, match="is not here"):
        pickle.loads(pickled)
    other = pickled.replace(vireo.__version__.encode(), b"9.9.9")
    with pytest.raises(vireo.Incompatible, match=r"by version 9\.9\.9"):
        pickle.loads(other)


def _call(model: vireo.Model) -> Any:
    return np.array(model.session().mlp(X))


def test_a_spawned_process_gets_the_model(models: Path, device: str) -> None:
    model = vireo.Model(models / "mlp.vmfb", device=device)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert np.array_equal(pool.apply(_call, (model,)), _call(model))


def test_a_fork_after_calls_ends(models: Path, device: str) -> None:
    model = vireo.Model(models / "mlp.vmfb", device=device)
    session = model.session()
    expected = np.array(session.mlp(X))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(30)
            # The session of the parent, and one of the child's own.
            same = np.array_equal(session.mlp(X), expected) and np.array_equal(model.session().mlp(X), expected)
            status = 0 if same else 2
        except vireo.Error:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(session.mlp(X), expected)


def test_other_threads_run_while_a_call_waits(models: Path, device: str) -> None:
    waits = vireo.Session(models / "waits.vmfb", device=device)
    fence, results = vireo.Fence(), []
    caller = threading.Thread(target=lambda: results.append(waits["doubled"](np.ones(4, np.float32), fence)), daemon=True)
    caller.start()
    time.sleep(0.05)
    # With the lock of the interpreter held by the call, this would not be reached.
    assert not fence.is_signaled
    fence.signal()
    caller.join(60)
    assert not caller.is_alive() and np.asarray(results[0]).tolist() == [2.0] * 4
    fence.wait(1.0)
    assert fence.is_signaled


def test_a_fence_that_fails_fails_the_call(models: Path, device: str) -> None:
    waits = vireo.Session(models / "waits.vmfb", device=device)
    fence = vireo.Fence()
    fence.fail("there is no data")
    with pytest.raises(vireo.Aborted, match="there is no data"):
        waits["doubled"](np.ones(4, np.float32), fence)
    with pytest.raises(vireo.DeadlineExceeded):
        vireo.Fence().wait(0.01)
    with pytest.raises(vireo.InvalidArgument, match="not negative"):
        fence.wait(-1.0)


def test_threads_share_a_model(models: Path, device: str) -> None:
    model = vireo.Model(models / "mlp.vmfb", device=device)
    expected, failures = _call(model), []

    def work() -> None:
        session = model.session()
        for _ in range(50):
            if not np.array_equal(session.mlp(X), expected):
                failures.append("another result")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("seed", range(4))
def test_threads_share_every_object(models: Path, device: str, seed: int) -> None:
    """Interpreters without a lock run all of this at the same time."""
    model = vireo.Model(models / "mlp.vmfb", device=device)
    session, limits = model.session(), vireo.Limits(fuel=2**62)
    function, prepared = session["mlp"], session["mlp"].prepare(X)
    limited = vireo.Session(models / "multi.vmfb", device=device, limits=limits)["collatz"]
    expected, tensor, fence = _call(model), vireo.borrow(X) if X.ctypes.data % 64 == 0 else session.mlp(X), vireo.Fence()
    shared, failures = session.mlp(X), []

    def prepared_call() -> bool:
        prepared.set(0, X)
        return np.array_equal(prepared.run(), expected)

    steps = [
        lambda: np.array_equal(session.mlp(X), expected),
        lambda: np.array_equal(function(X), expected),
        prepared_call,
        lambda: limited(27)[0] == 111 and (limits.fuel_used or 0) > 0,
        lambda: np.array_equal(np.from_dlpack(shared), expected) and shared.tolist() == expected.tolist(),
        lambda: bytes(memoryview(shared).cast("B")) == expected.tobytes() and tensor.nbytes > 0,
        lambda: str(function.signature) == str(model.signatures["mlp"]) and not fence.is_signaled,
        lambda: pickle.loads(pickle.dumps(model)).name == model.name,
        lambda: gc.collect() >= 0,
    ]

    def work(number: int) -> None:
        draw = random.Random(seed * 100 + number)
        for _ in range(60):
            step = draw.randrange(len(steps))
            try:
                if not steps[step]():
                    failures.append(f"step {step}: another result")
            except Exception as error:  # noqa: BLE001
                failures.append(f"step {step}: {error!r}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="an interpreter with a lock")
def test_an_interpreter_without_a_lock_stays_so() -> None:
    """A library that does not say that it needs no lock turns it on for the whole process."""
    code = "import sys, vireo, vireo.compat.iree; assert not sys._is_gil_enabled()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    subprocess.run([sys.executable, "-P", "-W", "error", "-c", code], check=True, env=environment)


def test_limits_end_calls(models: Path) -> None:
    multi = lambda limits: vireo.Session(models / "multi.vmfb", device="local-sync", limits=limits)  # noqa: E731
    limits = vireo.Limits(fuel=1000)
    session = multi(limits)
    assert session["collatz"](27)[0] == 111
    used = limits.fuel_used
    assert used is not None and 0 < used < 1000
    with pytest.raises(vireo.ResourceExhausted, match="out of fuel"):
        for _ in range(20):
            session["collatz"](27)
    limits.add_fuel(10_000)
    assert session["collatz"](27)[0] == 111
    small = multi(vireo.Limits(memory=2**20))
    with pytest.raises(MemoryError, match="ran out of memory"):
        small["splat"](1, 10**7)
    cancelled = vireo.Limits()
    session = multi(cancelled)
    cancelled.cancel()
    with pytest.raises(vireo.Cancelled):
        session["collatz"](27)
    cancelled.reset()
    session["collatz"](27)
    waits = vireo.Session(models / "waits.vmfb", device="local-task", limits=vireo.Limits(timeout=0.05))
    with pytest.raises(TimeoutError):
        waits["doubled"](np.ones(4, np.float32), vireo.Fence())
    assert repr(vireo.Limits(fuel=1, timeout=2.0, tier="interp")) == "vireo.Limits(fuel=1, timeout=2.0, tier='interp')"
    assert repr(pickle.loads(pickle.dumps(vireo.Limits(fuel=5)))) == "vireo.Limits(fuel=5)"
    for keywords in ({"timeout": -1.0}, {"timeout": float("nan")}, {"tier": "fast"}):
        with pytest.raises(vireo.InvalidArgument):
            vireo.Limits(**keywords)


def test_untrusted_programs_bring_no_machine_code(models: Path) -> None:
    with pytest.raises(vireo.Incompatible, match="embedded-elf"):
        vireo.Session(models / "abs.vmfb", device="local-sync", policy="untrusted")
    session = vireo.Session(models / "vmvx_mlp.vmfb", device="local-sync", policy="untrusted")
    assert session["mlp"](X).shape == (8, 16)


def test_progress_is_told_and_its_exceptions_are_raised(models: Path) -> None:
    told: list[tuple[int, int]] = []
    vireo.Session(models / "vmvx_mlp.vmfb", device="local-sync", progress=lambda *step: told.append(step))
    assert told and all(done <= all_ for done, all_ in told) and told[-1][0] == told[-1][1]

    def broken(done: int, total: int) -> None:
        raise RuntimeError("no terminal")

    with pytest.raises(RuntimeError, match="no terminal"):
        vireo.Session(models / "vmvx_mlp.vmfb", device="local-sync", progress=broken)

    def recursive(done: int, total: int) -> None:
        vireo.Session(models / "abs.vmfb", device="local-sync")

    vireo.Session(models / "vmvx_mlp.vmfb", device="local-sync", progress=recursive)


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
@pytest.mark.parametrize(
    ("environment", "keywords", "most"),
    [
        ({"VIREO_NUM_THREADS": "3"}, "", 3),
        ({"OMP_NUM_THREADS": "2,1"}, "", 2),
        ({"VIREO_NUM_THREADS": "1", "OMP_NUM_THREADS": "5"}, "", 1),
        ({"VIREO_NUM_THREADS": "7"}, ", threads=2", 2),
    ],
)
def test_threads_are_as_many_as_asked_for(models: Path, environment: dict[str, str], keywords: str, most: int) -> None:
    code = (
        "import os, vireo\n"
        f"s = vireo.Session({str(models / 'mlp.vmfb')!r}, device='local-task'{keywords})\n"
        "print(s.model.threads)"
    )
    ran = _python(code, **environment)
    assert (ran.stdout.strip(), ran.stderr) == (str(most), "")


def test_a_wrong_number_of_threads_is_an_error(models: Path) -> None:
    ran = _python(f"import vireo; vireo.Session({str(models / 'abs.vmfb')!r})", VIREO_NUM_THREADS="many")
    assert "VIREO_NUM_THREADS is \"many\": expected a number of threads" in ran.stderr


def test_the_interpreter_ends_with_calls_under_way(models: Path) -> None:
    code = (
        "import threading, numpy as np, vireo\n"
        f"s = vireo.Session({str(models / 'waits.vmfb')!r}, device='local-task')\n"
        "f = vireo.Fence()\n"
        "for _ in range(4):\n"
        "    threading.Thread(target=lambda: s['doubled'](np.ones(4, np.float32), f), daemon=True).start()\n"
        "import time; time.sleep(0.1); print('ends')"
    )
    ran = _python(code)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ends\n", "")


def test_importing_needs_no_numpy() -> None:
    ran = _python("import sys, vireo; print([name for name in ('numpy', 'asyncio', 'typing') if name in sys.modules])")
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
