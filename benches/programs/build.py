#!/usr/bin/env python3
"""Writes host programs and compiles them for each runtime: `benches/programs/build.py TOOLS FOLDER`.

TOOLS is the bin folder of an environment with the IREE tools (3.13.0). Each program is written once (`language.py`), and becomes the `vm` dialect
(compiled by `iree-compile`), WebAssembly text, and C (compiled by `cc` to a shared library). Without `--seed` these are the well-known ones
of `programs.py`; with it they are drawn (`drawn.py`), so that nobody chose them. `benches/compare_programs.py` measures what is in FOLDER.

iree-compile 3.13.0 makes wrong code of some (`vm.py` says of which). A program whose bytecode computes something else than its C on the reference
runtime is compiled again with block arguments in another order; if all give wrong code, it is left out, and counted.
"""

import argparse
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import c
import vm
import wat
from drawn import drawn
from language import read

# Seconds. Programs run for microseconds, and wrong code may run for ever.
LONGEST = 10
C_FLAGS = ["-O2", "-march=native", "-shared", "-fPIC", "-fwrapv", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-math-errno"]


def compiled(command):
    """What the compiler says if it fails."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return None if result.returncode == 0 else result.stderr.strip()[:500] or f"exit code {result.returncode}"


def printed(command):
    """What a run prints; nothing if it takes too long. The tool is a script that starts the program, so both are ended."""
    run = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        return run.communicate(timeout=LONGEST)[0]
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        return ""


def differing(tools, base, entries):
    """Those of these programs whose bytecode and C compute different results."""
    library = ctypes.CDLL(f"{base}.so")
    different = []
    for entry in entries:
        command = [tools / "iree-run-module", f"--module={base}.vmfb", f"--function={entry['function']}", f"--input={entry['input']}"]
        found = re.search(r"result\[0\]: i32=(-?\d+)", printed(command))
        function = getattr(library, entry["function"])
        function.restype = ctypes.c_int32
        if found is None or int(found[1]) != function(entry["input"]):
            different.append(entry["name"])
    return different


class Failed(Exception):
    """A program that does not compile."""


def build(tools, folder, name, text, entries):
    """Writes and compiles a file: the order of block arguments that it took, and the programs of which none gives right code."""
    functions = read(text)
    base = folder / name
    for suffix, written in ((".py", text), (".wat", wat.write(functions)), (".c", c.write(functions))):
        base.with_suffix(suffix).write_text(written)
    if failure := compiled(["cc", *C_FLAGS, f"{base}.c", "-o", f"{base}.so", "-lm"]):
        raise Failed(failure)
    wrong = []
    for order in vm.ORDERS:
        base.with_suffix(".mlir").write_text(vm.write(functions, order))
        if failure := compiled([tools / "iree-compile", "--compile-mode=vm", f"{base}.mlir", "-o", f"{base}.vmfb"]):
            raise Failed(failure)
        wrong = differing(tools, base, entries)
        if not wrong:
            break
    return order, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="bin folder of an environment with the IREE tools")
    parser.add_argument("folder", type=pathlib.Path, help="where everything is written")
    parser.add_argument("--seed", type=int, help="draw the programs with this seed")
    parser.add_argument("--count", type=int, default=20, help="programs to draw (default: 20)")
    arguments = parser.parse_args()
    if not (arguments.tools / "iree-compile").exists():
        sys.exit(f"skipped: there is no {arguments.tools}/iree-compile")
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.seed is None:
        text = (pathlib.Path(__file__).parent / "programs.py").read_text()
        texts = {"programs": text}
        inputs = {}
        exec(compile(text[text.index("INPUTS = "):], "programs.py", "exec"), inputs)
        entries = [{"name": name, "file": "programs", "function": name, "input": value} for name, value in inputs["INPUTS"].items()]
    else:
        texts = drawn(arguments.seed, arguments.count)
        entries = [{"name": name, "file": name, "function": "main", "input": 7} for name in texts]
    failures, orders, wrong = {}, {}, []
    for name, text in texts.items():
        try:
            orders[name], miscompiled = build(arguments.tools, folder, name, text, [entry for entry in entries if entry["file"] == name])
            wrong += miscompiled
        except Failed as failure:
            failures[name] = failure
            print(f"{name}: {failure}")
    entries = [entry for entry in entries if entry["file"] not in failures and entry["name"] not in wrong]
    (folder / "programs.json").write_text(json.dumps({"programs": entries, "miscompiled": wrong}, indent=1) + "\n")
    first = next(iter(vm.ORDERS))
    again = sum(order != first for order in orders.values()) - len(wrong)
    print(f"{len(texts)} files, {len(entries)} programs; {len(failures)} files failed, {again} have arguments in another order, {len(wrong)} are miscompiled in each order: {' '.join(wrong)}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
