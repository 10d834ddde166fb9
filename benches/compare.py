#!/usr/bin/env python3
"""Prints the programs of fixtures/bench side by side with stock IREE and wasmi: `benches/compare.py TOOLS`.

TOOLS is the bin folder of an environment with the released IREE tools (3.13.0). Each round runs `vireo benchmark` and
`iree-benchmark-module` in turn on the same file, pinned to one processor; the table shows the fastest run of each and their ratio.
Build first: `cargo build --release --bin vireo`.

For orientation there is a column for wasmi, which runs the same programs written in WebAssembly (`benches/wasmi`), if it has been built:
`cargo build --release --manifest-path benches/wasmi/Cargo.toml`.
"""

import argparse
import pathlib
import sys

from measure import ROOT, VIREO, Failed, times

WASMI = ROOT / "benches/wasmi/target/release/vireo-bench-wasmi"
WASMI_BUILD = "cargo build --release --manifest-path benches/wasmi/Cargo.toml"
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
    arguments = [f"--module={ROOT}/fixtures/bench/vm.vmfb", f"--function={name}"]
    if argument is not None:
        arguments.append(f"--input={argument}")
    try:
        return min(times(tool, arguments, seconds, [processor], "cpu_time"))
    except Failed as failure:
        sys.exit(str(failure))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="bin folder of an environment with the IREE tools")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.1, help="per run (default: 0.1)")
    parser.add_argument("--processor", type=int, default=1, help="the processor to run on (default: 1)")
    parser.add_argument("--only", help="a program")
    arguments = parser.parse_args()
    stock = arguments.tools / "iree-benchmark-module"
    if not stock.exists():
        sys.exit(f"skipped: there is no {stock}")
    if not VIREO.exists():
        sys.exit("build first: cargo build --release --bin vireo")
    tools = {"vireo": [str(VIREO), "benchmark"], "IREE": [str(stock)]}
    if WASMI.exists():
        tools["wasmi"] = [str(WASMI)]
    else:
        print(f"wasmi: skipped: build it with {WASMI_BUILD}", file=sys.stderr)
    others = [name for name in tools if name != "vireo"]
    heading = "".join(f" {name:>12} {'ratio':>8}" for name in others)
    print(f"{'program':<14} {'vireo':>12}{heading}   (ns per step, fastest of {arguments.rounds})")
    for name, argument, steps in PROGRAMS:
        if arguments.only not in (None, name):
            continue
        best = dict.fromkeys(tools, float("inf"))
        for _ in range(arguments.rounds):
            for label, tool in tools.items():
                time = fastest(tool, name, argument, arguments.seconds, arguments.processor)
                best[label] = min(best[label], time / steps)
        columns = "".join(f" {best[other]:>12.2f} {best[other] / best['vireo']:>7.2f}x" for other in others)
        print(f"{name:<14} {best['vireo']:>12.2f}{columns}", flush=True)


if __name__ == "__main__":
    main()
