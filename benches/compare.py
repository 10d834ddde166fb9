#!/usr/bin/env python3
"""Compares the programs of fixtures/bench with the reference runtime (IREE's own) and others: `benches/compare.py TOOLS`.

TOOLS is the bin folder of an environment with the released IREE tools (3.13.0). Each round runs all commands in turn on the same
program, pinned to one processor; the table shows the fastest run of each, and how many times as long it takes as machine code of Vireo.
Build first: `cargo xtask dist`.

Columns: `jit` and `interp`, the tiers of Vireo; `IREE`; and for orientation the same programs in WebAssembly on Wasmtime (Cranelift) and on
wasmi, and in Rust (`native`), if they have been built: `cargo build --release --manifest-path benches/others/Cargo.toml`. What is missing is
left out, and named.
"""

import argparse
import pathlib
import sys

from measure import ROOT, VIREO, Failed, Figure, check_names, report, times

OTHERS = ROOT / "benches/others/target/release"
OTHERS_BUILD = "cargo build --release --manifest-path benches/others/Cargo.toml"
# Program, argument, how many steps a call makes, and what a step is: times are shown for one step.
PROGRAMS = [
    ("empty", None, 1, "call"),
    ("loop", 1_000_000, 1_000_000, "iteration"),
    ("fib", 25, 242_785, "call"),
    ("internal_call", 100_000, 100_000, "call"),
    ("buffer_reduce", 100_000, 100_000, "element"),
    ("matmul", 64, 64 * 64 * 64, "product"),
    ("sieve", 100_000, 100_000, "number"),
]
# What the times of a row are divided by.
BASE = "jit"


def flags(name, argument):
    given = [f"--module={ROOT}/fixtures/bench/vm.vmfb", f"--function={name}"]
    return given if argument is None else [*given, f"--input={argument}"]


def columns(tools, vireo, processor):
    """The commands by column, what each says of itself, and why those that are left out are."""
    candidates = {
        "jit": ([str(vireo), "benchmark", "--tier=jit"], "cargo xtask dist"),
        "interp": ([str(vireo), "benchmark", "--tier=interp"], "cargo xtask dist"),
        "IREE": ([str(tools / "iree-benchmark-module")], "install the IREE tools"),
        "wasmtime": ([str(OTHERS / "vireo-bench-wasmtime")], OTHERS_BUILD),
        "wasmi": ([str(OTHERS / "vireo-bench-wasmi")], OTHERS_BUILD),
        "native": ([str(OTHERS / "vireo-bench-native")], OTHERS_BUILD),
    }
    commands, contexts, skipped = {}, {}, {}
    for label, (command, remedy) in candidates.items():
        if not pathlib.Path(command[0]).exists():
            skipped[label] = f"there is no {command[0]} ({remedy})"
            continue
        try:
            contexts[label] = report(command, flags("empty", None), 0.001, [processor]).get("context", {})
            commands[label] = command
        except Failed as failure:
            skipped[label] = str(failure)
    return commands, contexts, skipped


def measure(commands, program, options):
    """Alternates between the commands: the times of a step, by column."""
    name, argument, steps, _ = program
    figures = {label: Figure() for label in commands}
    for _ in range(options.rounds):
        for label, command in commands.items():
            figure = figures[label]
            if figure.failure is not None:
                continue
            try:
                measured = times(command, flags(name, argument), options.seconds, [options.processor], ("real_time", "cpu_time"), options.repetitions, options.nice)
                # The time of the processor, which others do not add to.
                figure.times += [cpu / steps for _, cpu in measured]
                figure.processor_times = figure.times
            except Failed as failure:
                figure.failure = str(failure)
                print(failure, file=sys.stderr)
    return figures


def add_options(parser):
    """What `measure` looks at."""
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--repetitions", type=int, default=1, help="in each run (default: 1)")
    parser.add_argument("--seconds", type=float, default=0.1, help="per repetition (default: 0.1)")
    parser.add_argument("--processor", type=int, default=1, help="the processor to run on (default: 1)")
    parser.add_argument("--nice", type=int, default=0, help="run at this niceness; below 0 needs the right to")
    parser.add_argument("--vireo", type=pathlib.Path, default=VIREO, help="the command to measure")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="bin folder of an environment with the IREE tools")
    add_options(parser)
    parser.add_argument("--only", action="append", help="a program; may be repeated")
    arguments = parser.parse_args()
    check_names(arguments.only, [name for name, *_ in PROGRAMS])
    commands, _, skipped = columns(arguments.tools, arguments.vireo, arguments.processor)
    for label, why in skipped.items():
        print(f"{label}: skipped: {why}", file=sys.stderr)
    if not commands:
        sys.exit(1)
    base = BASE if BASE in commands else next(iter(commands))
    heading = "".join(f" {label:>10}" + ("" if label == base else f" {'ratio':>7}") for label in commands)
    print(f"{'program':<14}{heading}   (ns per step, fastest of {arguments.rounds * arguments.repetitions}; ratio: to {base})")
    for program in PROGRAMS:
        if arguments.only and program[0] not in arguments.only:
            continue
        figures = {label: figure.fastest() for label, figure in measure(commands, program, arguments).items()}
        cells = ""
        for label, time in figures.items():
            cells += f" {time:>10.3f}" if time else f" {'-':>10}"
            if label != base:
                cells += f" {time / figures[base]:>6.2f}x" if time and figures[base] else f" {'-':>7}"
        print(f"{program[0]:<14}{cells}", flush=True)


if __name__ == "__main__":
    main()
