#!/usr/bin/env python3
"""Writes the kernels of the sweep and compiles each twice, to portable bytecode and for this processor: `benches/sweep/build.py TOOLS FOLDER`.

TOOLS is the bin folder of an environment with the IREE tools (3.13.0); FOLDER gets the sources, the modules and the inputs. What is up to date
is not compiled again. `benches/compare_sweep.py` measures what is in FOLDER. With `--seed`, the kernels are drawn (`drawn.py`) instead of those
of the table, so that a figure is not one of kernels that were in sight while the compiler was worked on. With `--networks`, they are those of
well-known networks (`network_shapes.py`), whole.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

from drawn import drawn
from network_shapes import NETWORKS, networks
from table import table

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
from compiler import target, write_npy  # noqa: E402

# Portable bytecode, and machine code for this processor.
PROCESSORS = ["vmvx", "host"]
# By default the compiler computes in f32 where a program says f64.
KEEP_F64 = ["--iree-input-demote-f64-to-f32=false"]
# Seconds; no kernel of the sweep takes nearly as long to compile.
PATIENCE = 120


def write_input(folder, one):
    """The file of an input; kernels with equal ones share it."""
    label = "x".join(map(str, one.shape)) + one.element + (f"below{one.below}" if one.below else "")
    path = folder / f"{label}.npy"
    if not path.exists():
        unfinished = path.with_suffix(".new")
        write_npy(unfinished, one.shape, one.element, one.below)
        unfinished.rename(path)
    return f"--input=@{path}"


def compile_kernel(tools, version, folder, kernel, processor):
    """The path of the module, whether it was compiled now, and what the compiler said if it failed."""
    flags = [*target(processor), *(KEEP_F64 if any(one.element == "f64" for one in kernel.inputs) else [])]
    source, module = folder / f"{kernel.name}.mlir", folder / f"{kernel.name}_{processor}.vmfb"
    stamp, digest = module.with_suffix(".stamp"), hashlib.sha256("\n".join([version, *flags, kernel.text]).encode()).hexdigest()
    if module.exists() and stamp.exists() and stamp.read_text() == digest:
        return module, False, None
    stamp.unlink(missing_ok=True)
    command = [tools / "iree-compile", *flags, source, "-o", module]
    try:
        result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return None, True, f"not done after {PATIENCE} s"
    if result.returncode != 0:
        errors = [line for line in result.stderr.splitlines() if "error:" in line]
        return None, True, errors[0] if errors else result.stderr[-500:]
    stamp.write_text(digest)
    return module, True, None


def machine():
    """What machine code was compiled for."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="bin folder of an environment with the IREE tools")
    parser.add_argument("folder", type=pathlib.Path, help="where everything is written")
    parser.add_argument("--family", action="append", help="kernels whose family begins so; may be repeated")
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, help="the kernels of these networks (default: of all), instead of the table")
    parser.add_argument("--seed", type=int, help="draw the kernels with this seed, instead of the table")
    parser.add_argument("--count", type=int, default=200, help="kernels to draw (default: 200)")
    parser.add_argument("--work", type=int, default=2_000_000, help="operations of a drawn kernel at most, about (default: 2000000)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at a time (default: one for each processor)")
    arguments = parser.parse_args()
    if not (arguments.tools / "iree-compile").exists():
        sys.exit(f"skipped: there is no {arguments.tools}/iree-compile")
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([str(arguments.tools / "iree-compile"), "--version"], capture_output=True, text=True).stdout + machine()
    runs = {}
    if arguments.networks is not None:
        kernels, runs = networks(arguments.networks or list(NETWORKS))
    else:
        kernels = table() if arguments.seed is None else drawn(arguments.seed, arguments.count, arguments.work)
    listed = [kernel for kernel in kernels if not arguments.family or kernel.family.startswith(tuple(arguments.family))]
    start, entries, failures, compiled = time.monotonic(), [], [], 0
    for kernel in listed:
        source = folder / f"{kernel.name}.mlir"
        if not source.exists() or source.read_text() != kernel.text:
            source.write_text(kernel.text)
        inputs = [write_input(folder, one) for one in kernel.inputs]
        entries.append({"name": kernel.name, "family": kernel.family, "element": kernel.element, "inputs": inputs, "modules": {}})
        counts = {network: counts[kernel.name] for network, counts in runs.items() if kernel.name in counts}
        if counts:
            entries[-1]["runs"] = counts
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        work = [(entry, processor, pool.submit(compile_kernel, arguments.tools, version, folder, kernel, processor)) for entry, kernel in zip(entries, listed) for processor in PROCESSORS]
        for count, (entry, processor, future) in enumerate(work, start=1):
            module, new, failure = future.result()
            compiled += new
            if failure is not None:
                failures.append(f"{entry['name']} for {processor}: {failure}")
                print(failures[-1], flush=True)
            else:
                entry["modules"][processor] = str(module)
            if new and count % 50 == 0:
                print(f"{count} of {len(work)} after {time.monotonic() - start:.0f} s", flush=True)
    manifest = folder / "sweep.json"
    # Kernels of other families stay as they are.
    old = json.loads(manifest.read_text()) if manifest.exists() and arguments.family else []
    mine = {entry["name"] for entry in entries}
    manifest.write_text(json.dumps([one for one in old if one["name"] not in mine] + entries, indent=1) + "\n")
    seconds = time.monotonic() - start
    print(f"{len(listed)} kernels: {compiled} modules compiled, {len(work) - compiled} were up to date, {len(failures)} failed, {seconds:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
