#!/usr/bin/env python3
"""Writes the networks of the figures, compiles them and checks that both runtimes agree: `benches/models/build.py TOOLS FOLDER`.

TOOLS is the bin folder of an environment with the IREE tools (3.13.0); FOLDER gets the sources, the modules and an input for each. They
are not kept in the repository: the sentence encoder alone is 45 MB. `benches/compare_models.py` measures what is in FOLDER.
"""

import argparse
import array
import json
import math
import pathlib
import random
import struct
import subprocess
import sys

from compiler import BYTECODE, PROCESSORS, target, write_npy
from mlir import Module
from networks import NETWORKS

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Parameters are used where they are in their file, not packed when the program is loaded.
IN_PLACE = ["--iree-opt-data-tiling=false"]
# How results may differ from those of the other runtime: the kernels are the same code.
EXACT = ["--expected_f32_threshold=0"]
# Library functions of kernels in bytecode are those of each runtime.
CLOSE = ["--expected_f32_threshold=0.0001"]


def run(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{result.stdout[-2000:]}{result.stderr[-4000:]}")
    return result


def write_parameters(path, module):
    """The file of a module's parameters, in the safetensors format. Returns the flags of a call."""
    header, end = {}, 0
    for one in module.parameters:
        size = 4 * math.prod(one.shape)
        header[one.name[1:]] = {"dtype": "F32", "shape": list(one.shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header)
    # The format allows spaces at the end; with them the data is as aligned as kernels want it.
    text += " " * (-(8 + len(text)) % 64)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text.encode())
        for index, one in enumerate(module.parameters):
            # A row of numbers keeps its size on its way through the matrix. The period is a prime, so rows and columns differ.
            scale, draw = math.sqrt(3 / one.shape[0]), random.Random(index)
            period = array.array("f", [(2 * draw.random() - 1) * scale for _ in range(65521)])
            values, count = period.tobytes(), 4 * math.prod(one.shape)
            file.write((values * (count // len(values) + 1))[:count])
    return [f"--parameters=model={path}"]


def build(tools, folder, name, processor):
    """Writes and compiles a network. Returns what `compare_models.py` has to know."""
    module = Module()
    inputs = NETWORKS[name](module)
    source, compiled = folder / f"{name}.mlir", folder / f"{name}_{processor}.vmfb"
    source.write_text(module.text())
    arguments = []
    for index, (shape, element) in enumerate(inputs):
        write_npy(folder / f"{name}.{index}.npy", shape, element)
        arguments.append(f"--input=@{folder}/{name}.{index}.npy")
    statistics = folder / f"{name}_{processor}.json"
    further = write_parameters(folder / f"{name}.safetensors", module) if module.parameters else []
    arguments += further
    schedule = ["--iree-scheduling-dump-statistics-format=json", f"--iree-scheduling-dump-statistics-file={statistics}"]
    run([tools / "iree-compile", *target(processor), *(IN_PLACE if further else []), *schedule, source, "-o", compiled])
    return {"name": name, "processor": processor, "module": str(compiled), "inputs": arguments, "weights": module.bytes}


def check(tools, vireo, entry, device):
    """Compares the results of the two runtimes."""
    module, inputs = f"--module={entry['module']}", entry["inputs"]
    reference = run([tools / "iree-run-module", module, "--device=local-sync", "--function=main", *inputs])
    count = reference.stdout.count("result[")
    folder = pathlib.Path(entry["module"]).parent
    expected = [folder / f"{entry['name']}.expected{index}.npy" for index in range(count)]
    outputs = [f"--output=@{path}" for path in expected]
    run([tools / "iree-run-module", module, "--device=local-sync", "--function=main", *inputs, *outputs])
    if "nan" in reference.stdout.lower():
        sys.exit(f"{entry['name']}: the results hold NaN, so they tell nothing")
    wanted = [f"--expected_output=@{path}" for path in expected]
    run([vireo, "run", module, f"--device={device}", "--function=main", *inputs, *wanted, *(CLOSE if entry["processor"] in BYTECODE else EXACT)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="bin folder of an environment with the IREE tools")
    parser.add_argument("folder", type=pathlib.Path, help="where everything is written")
    parser.add_argument("--only", action="append", choices=NETWORKS, help="a network; may be repeated")
    parser.add_argument("--processor", action="append", choices=PROCESSORS, help="what to compile for (default: host)")
    parser.add_argument("--device", action="append", help="a device of ours to check on; may be repeated (default: local-sync)")
    parser.add_argument("--check-only", action="store_true", help="compile nothing, check what is in the folder")
    parser.add_argument("--vireo", type=pathlib.Path, default=ROOT / "target/dist/vireo", help="the command to check with")
    arguments = parser.parse_args()
    if not (arguments.tools / "iree-compile").exists():
        sys.exit(f"skipped: there is no {arguments.tools}/iree-compile")
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / "models.json"
    entries = json.loads(manifest.read_text()) if manifest.exists() else []
    for name in arguments.only or NETWORKS:
        for processor in arguments.processor or PROCESSORS[:1]:
            known = [entry for entry in entries if (entry["name"], entry["processor"]) == (name, processor)]
            entry = known[0] if arguments.check_only and known else build(arguments.tools, folder, name, processor)
            entries = [old for old in entries if (old["name"], old["processor"]) != (name, processor)] + [entry]
            manifest.write_text(json.dumps(entries, indent=1) + "\n")
            size = pathlib.Path(entry["module"]).stat().st_size
            print(f"{name:<14} {processor:<8} {size / 1e6:>8.2f} MB", end="", flush=True)
            if not arguments.vireo.exists():
                print("   not checked: build with cargo build --release --bin vireo")
                continue
            for device in arguments.device or ["local-sync"]:
                check(arguments.tools, arguments.vireo, entry, device)
                print(f"   equal on {device}", end="")
            print()


if __name__ == "__main__":
    main()
