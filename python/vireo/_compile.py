"""`vireo.compile`: module files from other forms of models, with the package `iree.compiler`."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import _vireo

# Seconds that a compiler may take to tell that it does not understand its input are not bounded: models are large.
_PACKAGE = "iree-base-compiler"


def _tool(name: str) -> str:
    """A program of the compiler's package, which is beside the interpreter, or on the path."""
    beside = Path(sysconfig.get_path("scripts")) / name
    if beside.exists():
        return str(beside)
    from shutil import which

    found = which(name)
    if found is None:
        raise _vireo.NotFound(f"there is no `{name}`: install the package `{_PACKAGE}`")
    return found


def _run(command: Sequence[str]) -> None:
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ran.returncode != 0:
        message = ran.stderr.strip() or f"it ended with the code {ran.returncode}"
        raise _vireo.InvalidArgument(f"{Path(command[0]).name}: {message}")


def compile(
    source: str | os.PathLike[str] | bytes,
    *,
    cpu: str = "generic",
    target: str = "llvm-cpu",
    flags: Sequence[str] = (),
    output: str | os.PathLike[str] | None = None,
) -> bytes:
    """Compiles a model to the bytes of a module file, and writes them to `output` if that is given.

    `source` is the path of a model, in MLIR or as `.onnx`, or the text of a program in MLIR. `cpu` is the processor whose
    instructions the kernels may use, `host` for this one, and `target` the backend: `llvm-cpu` for machine code,
    `vmvx` for portable bytecode. `flags` are further ones of `iree-compile`.
    """
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(source, bytes) or (isinstance(source, str) and "\n" in source):
            path = Path(folder) / "model.mlir"
            path.write_bytes(source if isinstance(source, bytes) else source.encode())
        else:
            path = Path(source)
            if not path.exists():
                raise _vireo.NotFound(f"there is no model {path}")
        if path.suffix == ".onnx":
            imported = Path(folder) / "imported.mlir"
            _run([_tool("iree-import-onnx"), str(path), "-o", str(imported)])
            path = imported
        made = Path(folder) / "model.vmfb"
        command = [
            _tool("iree-compile"),
            "--iree-hal-target-device=local",
            f"--iree-hal-local-target-device-backends={target}",
            *([f"--iree-llvmcpu-target-cpu={cpu}"] if target == "llvm-cpu" else []),
            *flags,
            str(path),
            "-o",
            str(made),
        ]
        _run(command)
        data = made.read_bytes()
    if output is not None:
        Path(output).write_bytes(data)
    return data
