"""`python -m vireo`, `bind`, `vireo.compile`, the examples, and the guide."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vireo
from conftest import REPOSITORY

EXAMPLES = REPOSITORY / "python/examples"
GUIDE = REPOSITORY / "docs/python.md"


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", *arguments], capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload, no-any-return]


def test_the_command(models: Path) -> None:
    ran = run("-m", "vireo", "run", str(models / "abs.vmfb"), "--function=abs", "--input=f32=-2")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "f32=2" in ran.stdout
    missing = run("-m", "vireo", "run", "missing.vmfb")
    assert missing.returncode == 3 and "missing.vmfb" in missing.stderr
    assert run("-m", "vireo", "fly").returncode == 2
    assert run("-m", "vireo", "--version").stdout.startswith("vireo ")


def test_bind_writes_a_class(models: Path, tmp_path: Path) -> None:
    bound = tmp_path / "bound.py"
    assert run("-m", "vireo", "bind", str(models / "multi.vmfb"), "-o", str(bound)).returncode == 0
    text = bound.read_text()
    compile(text, str(bound), "exec")
    assert "def collatz(self, " in text and ": int) -> tuple[int, int]:" in text
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import bound; m = bound.Module(device='local-sync'); print(m.collatz(27), m.nothing())"
    ran = run("-c", code)
    assert (ran.stdout, ran.stderr) == ("(111, 101439) None\n", "")
    wrong = run("-m", "vireo", "bind", str(tmp_path / "missing.vmfb"))
    assert wrong.returncode == 3 and "missing.vmfb" in wrong.stderr
    if shutil.which("mypy", path=str(Path(sys.executable).parent)):
        assert run("-m", "mypy", "--strict", str(bound), cwd=tmp_path).returncode == 0


def test_compile(tmp_path: Path) -> None:
    with pytest.raises(vireo.NotFound, match="there is no model"):
        vireo.compile(tmp_path / "missing.onnx")
    program = "func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = arith.addf %x, %x : tensor<4xf32>\n  return %y : tensor<4xf32>\n}\n"
    try:
        data = vireo.compile(program, cpu="host")
    except vireo.NotFound as error:
        assert "iree-base-compiler" in str(error)
        pytest.skip("skipped: iree-compile is not installed")
    session = vireo.Session(data, device="local-sync")
    assert session.twice(np.arange(4, dtype=np.float32)).tolist() == [0.0, 2.0, 4.0, 6.0]
    with pytest.raises(vireo.InvalidArgument, match="iree-compile: "):
        vireo.compile("this is no program\n")


def test_the_example_that_compiles() -> None:
    ran = run(str(EXAMPLES / "compiled.py"))
    if "iree-base-compiler" in ran.stderr:
        pytest.skip("skipped: iree-compile is not installed")
    assert (ran.stdout, ran.stderr) == ("0.0 2.0 4.0 6.0\n", "")


def test_the_example_with_threads(models: Path) -> None:
    ran = run(str(EXAMPLES / "images.py"), str(models / "mlp.vmfb"))
    assert ran.stderr == "" and len(ran.stdout.splitlines()) == 16


def test_the_example_of_a_server(models: Path) -> None:
    command = [sys.executable, "-P", str(EXAMPLES / "server.py"), str(models / "mlp.vmfb")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().split()[-1])
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(b"1 2 3\n")
                answer = client.makefile().readline()
            assert len(answer.split()) == 128
        finally:
            server.kill()


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE) if GUIDE.exists() else []


@pytest.mark.parametrize("index", range(len(blocks())))
def test_the_programs_of_the_guide_run(index: int, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(models / "mlp.vmfb", "model.vmfb")
    for name in ("state", "waits", "vmvx_mlp", "multi"):
        shutil.copy(models / f"{name}.vmfb", f"{name}.vmfb")
    # Each program is one of its own, as readers take them.
    code = "import numpy as np\nx = np.ones((8, 64), np.float32)\nx2 = -x\n" + blocks()[index]
    ran = run("-c", code, env={**os.environ})
    assert (ran.returncode, ran.stderr) == (0, ""), code
