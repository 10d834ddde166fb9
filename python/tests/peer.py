#!/usr/bin/env python3
"""Runs the tests of the package `iree.runtime` over `vireo.compat.iree`: `peer.py CHECKOUT [--accept] [NAME...]`.

CHECKOUT is a checkout of IREE, of which nothing is in this repository. The interpreter needs `vireo`, `pytest`, `numpy`,
`ml_dtypes` and `iree.compiler`; where one is missing, or the checkout, it says so and tests nothing. `peer_tests.txt` has
the names of the tests that pass. The run fails if one of them fails, or if a test passes that the list does not have.
`--accept` writes the list anew. With names of files, such as `hal_test`, the tests of those alone are run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

LIST = Path(__file__).resolve().with_name("peer_tests.txt")

# The files by use: what programs use, then the rest.
FILES = (
    "function_test",
    "vm_test",
    "system_api_test",
    "array_interop_test",
    "vm_types_test",
    "dtypes_test",
    "system_setup_test",
    "hal_test",
    "io_test",
    "io_runtime_test",
    "py_module_test",
    "hal_device_loop_test",
    "flags_test",
)

# A file that takes longer hangs.
TIMEOUT_SECONDS = 600


def run(tests: Path, name: str, folder: Path) -> tuple[set[str], set[str], str]:
    """The names of the tests of a file that pass and of those that fail, and what went wrong with all of it."""
    from vireo.compat.iree import overlay

    report = folder / f"{name}.xml"
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    # Without the folder of this script, whose modules are no part of those tests.
    path = [folder for folder in sys.path if folder and Path(folder).resolve() != LIST.parent]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(overlay()), *path])}
    try:
        done = subprocess.run(
            [*command, str(tests / f"{name}.py")],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return set(), set(), f"no end after {TIMEOUT_SECONDS} s"
    if not report.exists():
        return set(), set(), f"exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    passed, failed = set(), set()
    for case in ElementTree.parse(report).iter("testcase"):
        full = f"{name}.{case.get('classname', '').split('.')[-1]}.{case.get('name')}"
        if case.find("skipped") is not None:
            continue
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        if problem is None:
            passed.add(full)
        else:
            failed.add(full)
            print(f"  {full}: {(problem.get('message') or '').splitlines()[0] if problem.get('message') else ''}")
    return passed, failed, ""


def main() -> int:
    """Runs the tests and compares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--accept", action="store_true")
    arguments = parser.parse_args()
    tests = arguments.checkout / "runtime/bindings/python/tests"
    if not tests.is_dir():
        print(f"skipped: the tests of iree.runtime: there is no {tests}")
        return 0
    for package in ("vireo.compat.iree", "pytest", "numpy", "ml_dtypes", "iree.compiler"):
        try:
            found = importlib.util.find_spec(package)
        except ImportError:
            found = None
        if found is None:
            print(f"skipped: the tests of iree.runtime: there is no package {package}")
            return 0
    names = arguments.names or FILES
    unknown = set(names) - set(FILES)
    if unknown or (arguments.accept and arguments.names):
        parser.error(f"no such file: {', '.join(unknown)}" if unknown else "--accept is for all files")
    passed: set[str] = set()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            of_file, failed, problem = run(tests, name, Path(folder))
            passed |= of_file
            print(f"{name}: {len(of_file)} passed, {len(failed)} failed {problem}".rstrip(), flush=True)
            if problem:
                problems.append(name)
    if arguments.accept:
        LIST.write_text("".join(f"{name}\n" for name in sorted(passed)))
        print(f"{len(passed)} tests pass")
        return 0
    listed = {name for name in LIST.read_text().split() if name.split(".")[0] in names}
    for name in sorted(listed - passed):
        print(f"fails, and is in {LIST.name}: {name}")
    for name in sorted(passed - listed):
        print(f"passes, and is not in {LIST.name}: {name} (--accept adds it)")
    print(f"{len(passed)} tests pass")
    return 1 if problems or passed != listed else 0


if __name__ == "__main__":
    sys.exit(main())
