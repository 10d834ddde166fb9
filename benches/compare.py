#!/usr/bin/env python3
"""Prints the programs of fixtures/bench side by side with stock IREE: `benches/compare.py TOOLS`.

TOOLS is the bin folder of an environment with the released IREE tools (3.13.0). Each round runs `vireo benchmark` and
`iree-benchmark-module` in turn on the same file, pinned to one processor; the table shows the fastest run of each and their ratio.
Build first: `cargo build --release --bin vireo`.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Program, argument, and how many steps a call makes: times are shown for one step.
PROGRAMS = [
    ("empty", None, 1),
    ("loop", 1_000_000, 1_000_000),
    ("fib", 25, 1),
    ("internal_call", 100_000, 100_000),
    ("buffer_reduce", 100_000, 100_000),
    ("matmul", 64, 1),
    ("sieve", 100_000, 1),
]


def fastest(tool, name, argument, seconds, processor):
    command = ["taskset", "-c", str(processor), *tool, f"--module={ROOT}/fixtures/bench/vm.vmfb", f"--function={name}"]
    command += [f"--benchmark_min_time={seconds}s", "--benchmark_format=json"]
    if argument is not None:
        command.append(f"--input={argument}")
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    # Stock prints a line or two in front of the JSON.
    report = json.loads(result.stdout[result.stdout.index("{"):])
    nanoseconds = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
    return min(one["cpu_time"] * nanoseconds[one["time_unit"]] for one in report["benchmarks"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="bin folder of an environment with the IREE tools")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.1, help="per run (default: 0.1)")
    parser.add_argument("--processor", type=int, default=1, help="the processor to run on (default: 1)")
    parser.add_argument("--only", help="a program")
    arguments = parser.parse_args()
    stock = arguments.tools / "iree-benchmark-module"
    vireo = ROOT / "target/release/vireo"
    if not stock.exists():
        sys.exit(f"skipped: there is no {stock}")
    if not vireo.exists():
        sys.exit("build first: cargo build --release --bin vireo")
    print(f"{'program':<14} {'vireo':>12} {'IREE':>12} {'ratio':>8}   (ns per step, fastest of {arguments.rounds})")
    for name, argument, steps in PROGRAMS:
        if arguments.only not in (None, name):
            continue
        best = [float("inf"), float("inf")]
        for _ in range(arguments.rounds):
            for index, tool in enumerate(([str(vireo), "benchmark"], [str(stock)])):
                time = fastest(tool, name, argument, arguments.seconds, arguments.processor)
                best[index] = min(best[index], time)
        ours, theirs = (time / steps for time in best)
        print(f"{name:<14} {ours:>12.2f} {theirs:>12.2f} {theirs / ours:>7.2f}x", flush=True)


if __name__ == "__main__":
    main()
