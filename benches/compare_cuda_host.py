#!/usr/bin/env python3
"""The cost of the host with GPUs: `benches/compare_cuda_host.py TOOLS LIBRARIES` runs programs with this driver and with the reference's, over
a CUDA driver library whose functions return at once, so that all time is the host's.

TOOLS is the bin folder of an environment with the released IREE tools (3.13.0), LIBRARIES the folder that `cargo xtask null` wrote. Build
`cargo xtask dist` first, or name another command with --vireo. Programs are drawn from --seed: chains of dispatches in one command buffer and
loops with one submission for each iteration, with lengths log-uniform from 1. Each round runs all commands in turn on the same program, pinned to
--processors. A line is fitted to the fastest times of each length: its start is a call, its slope a dispatch or a submission.
"""

import argparse
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from measure import VIREO, Failed, Figure, Others, times

# The processor has two, and the drivers have a thread of their own that waits for events.
PROCESSORS = "0,1"
LONGEST = {"chain": 512, "loop": 128}
COMPILED = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
UNIT = {"chain": "dispatch", "loop": "submission"}


def chain(length, extent):
    """A function of dispatches that each need the one before."""
    type_ = f"tensor<{extent}x{extent}xf32>"
    lines = [f"func.func @main(%x0: {type_}, %w: {type_}) -> {type_} {{", "  %zero = arith.constant 0.0 : f32", f"  %empty = tensor.empty() : {type_}"]
    lines.append(f"  %init = linalg.fill ins(%zero : f32) outs(%empty : {type_}) -> {type_}")
    for index in range(length):
        operands = f"ins(%x{index}, %w : {type_}, {type_}) outs(%init : {type_})"
        lines.append(f"  %x{index + 1} = linalg.matmul {operands} -> {type_}")
    return "\n".join([*lines, f"  return %x{length} : {type_}", "}"]), [f"--input={extent}x{extent}xf32=1"] * 2


def loop(length, extent):
    """A function of iterations that the host counts, each of which submits its work."""
    type_ = f"tensor<{extent}x{extent}xf32>"
    text = f"""func.func @main(%n: index, %x: {type_}, %w: {type_}) -> {type_} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %result = scf.for %i = %c0 to %n step %c1 iter_args(%value = %x) -> {type_} {{
    %empty = tensor.empty() : {type_}
    %init = linalg.fill ins(%zero : f32) outs(%empty : {type_}) -> {type_}
    %next = linalg.matmul ins(%value, %w : {type_}, {type_}) outs(%init : {type_}) -> {type_}
    scf.yield %next : {type_}
  }}
  return %result : {type_}
}}"""
    return text, [f"--input={length}", *[f"--input={extent}x{extent}xf32=1"] * 2]


def compiled(compiler, folder, text, name, flags):
    source, module = folder / f"{name}.mlir", folder / f"{name}.vmfb"
    source.write_text(text)
    result = subprocess.run([compiler, source, "-o", module, *COMPILED, *flags], capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"{compiler} failed:\n{result.stderr[-2000:]}")
    return module


def fitted(points):
    """Start and slope of the line through points that least relative squares give: short programs count as much as long ones."""
    weights = [1 / (y * y) for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points))
    slope = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points)) / spread if spread else math.nan
    return mean_y - slope * mean_x, slope


def lengths(generator, longest, count):
    """Log-uniform from 1, with both ends."""
    drawn = {min(longest, int(math.exp(generator.random() * math.log(longest + 1)))) for _ in range(count)}
    return sorted(drawn | {1, longest})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="the bin folder with the released tools")
    parser.add_argument("libraries", type=pathlib.Path, help="what `cargo xtask null` has written")
    parser.add_argument("--vireo", type=pathlib.Path, default=VIREO, help="the command (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="what programs are drawn from (default: %(default)s)")
    parser.add_argument("--count", type=int, default=6, help="lengths of each kind (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a measurement (default: %(default)s)")
    parser.add_argument("--processors", default=PROCESSORS, help="that the commands may run on (default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="a file for all figures")
    given = parser.parse_args()
    libraries = given.libraries.resolve()
    if not list(libraries.glob("libcuda.so*")):
        sys.exit(f"{libraries}: there is no libcuda.so (cargo xtask null {given.libraries})")
    os.environ["LD_LIBRARY_PATH"] = str(libraries)
    iree, ours = str(given.tools / "iree-benchmark-module"), str(given.vireo)
    commands = {
        "vireo": ([ours, "benchmark"], []),
        "IREE": ([iree], []),
        "vireo, graphs": ([ours, "benchmark"], ["--cuda_use_graphs=always"]),
        "IREE, graphs": ([iree], ["--cuda_use_streams=false"]),
    }
    generator, others, processors = random.Random(given.seed), Others(), given.processors.split(",")
    report = {"seed": given.seed, "kinds": {}}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        # A command buffer that is recorded once takes its buffers from a table, or is recorded for each call.
        settings = {"": [], ", recorded each call": ["--iree-hal-indirect-command-buffers=false"]}
        for kind, write in (("chain", chain), ("loop", loop)):
            # One number alone would make an elementwise program of the chain, which is one dispatch.
            extent = generator.randint(2, 16)
            for setting, flags in settings.items():
                figures = {label: {} for label in commands}
                for length in lengths(generator, LONGEST[kind], given.count):
                    text, inputs = write(length, extent)
                    module = compiled(given.tools / "iree-compile", folder, text, f"{kind}{length}", flags)
                    arguments = [f"--module={module}", "--function=main", "--device=cuda", *inputs]
                    for _ in range(given.rounds):
                        for label, (tool, more) in commands.items():
                            figure = figures[label].setdefault(length, Figure())
                            try:
                                for real, cpu in times(tool, [*arguments, *more], given.seconds, processors, ("real_time", "cpu_time")):
                                    figure.times.append(real)
                                    figure.processor_times.append(cpu)
                            except Failed as failure:
                                figure.failure = str(failure)
                print(f"\n{kind}{setting}: microseconds of a call, {extent} x {extent} numbers")
                reached = sorted(next(iter(figures.values())))
                print(f"{'':<16}" + "".join(f"{length:>9}" for length in reached) + f"{'a call':>10}{'a ' + UNIT[kind]:>14}")
                for label, by_length in figures.items():
                    points = [(length, by_length[length].fastest() / 1e3) for length in reached if by_length[length].times]
                    if len(points) < 2:
                        print(f"{label:<16} {next(one.failure for one in by_length.values())}")
                        continue
                    start, slope = fitted(points)
                    cells = "".join(f"{dict(points).get(length, math.nan):>9.1f}" for length in reached)
                    print(f"{label:<16}{cells}{start + slope:>10.2f}{slope:>14.3f}")
                    report["kinds"].setdefault(kind + setting, {})[label] = {
                        "call_us": start + slope,
                        f"{UNIT[kind]}_us": slope,
                        "lengths": {length: by_length[length].report() for length in reached},
                    }
    share = others.share()
    if share is not None:
        print(f"\nOther processes used {share:.0%} of the machine.")
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
