#!/usr/bin/env python3
"""Compares host programs on Vireo with those on other runtimes: `benches/compare_programs.py TOOLS FOLDER...`.

TOOLS is the bin folder of an environment with the IREE tools (3.13.0), each FOLDER what `benches/programs/build.py` has written. Build first:
`cargo xtask dist` and `cargo build --release --manifest-path benches/others/Cargo.toml`. Each round runs a program on all runtimes in turn, pinned
to one processor; the time is that of the processor, and the fastest of all rounds counts. Below the table are three ratios: `jit/wasmtime`
(machine code; less is better), `wasmi/interp` and `IREE/list` (interpreters; more is better). The command fails if results differ.

The columns `jit` and `interp` are typed calls from Rust, as those of Wasmtime and wasmi are. `list` is `vireo benchmark` on the interpreter, which
passes lists of values, as `iree-benchmark-module` does.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

from compare import OTHERS
from compare_models import duration
from compare_sweep import quantile
from measure import VIREO, Failed, Others, check_names, program, times

# Numerator, denominator, and whether a large ratio is bad.
RATIOS = [("jit", "wasmtime", True), ("wasmi", "interp", False), ("IREE", "list", False)]
RESULT = re.compile(r"i32=(-?\d+)|I32\((-?\d+)\)")


def runners(tools, vireo, others):
    """By column: the command that measures, that which prints a result, and the suffix of its modules."""
    other = {name: [str(others / f"vireo-bench-{name}")] for name in ("jit", "interp", "wasmtime", "wasmi", "native")}
    return {
        "jit": (other["jit"], other["jit"], ".vmfb"),
        "interp": (other["interp"], other["interp"], ".vmfb"),
        "list": ([str(vireo), "benchmark", "--tier=interp"], [str(vireo), "run", "--tier=interp"], ".vmfb"),
        "IREE": ([str(program(tools, "iree-benchmark-module"))], [str(program(tools, "iree-run-module"))], ".vmfb"),
        "wasmtime": (other["wasmtime"], other["wasmtime"], ".wat"),
        "wasmi": (other["wasmi"], other["wasmi"], ".wat"),
        "native": (other["native"], other["native"], ".so"),
    }


def flags(folder, entry, suffix):
    return [f"--module={folder}/{entry['file']}{suffix}", f"--function={entry['function']}", f"--input={entry['input']}"]


def result_of(command):
    """The integer that a run prints, or why there is none."""
    ran = subprocess.run(command, capture_output=True, text=True)
    found = RESULT.search(ran.stdout)
    return int(found[1] or found[2]) if ran.returncode == 0 and found else ran.stderr.strip()[:200]


def measure(folder, entry, columns, options):
    """The fastest time of a call in nanoseconds, by column."""
    fastest = {label: float("inf") for label in columns}
    for _ in range(options.rounds):
        for label, (command, _, suffix) in columns.items():
            measured = times(command, flags(folder, entry, suffix), options.seconds, [options.processor], "cpu_time", options.repetitions, options.nice)
            fastest[label] = min(fastest[label], *measured)
    return fastest


def summary(results, numerator, denominator, large_is_bad):
    """The distribution of a ratio, and the programs from the worst on."""
    ratios = {name: one[numerator] / one[denominator] for name, one in results.items() if numerator in one and denominator in one}
    if not ratios:
        return None
    ordered = sorted(ratios.values())
    shares = {"least": 0, "p10": 0.1, "median": 0.5, "p90": 0.9, "most": 1}
    quantiles = {label: quantile(ordered, share) for label, share in shares.items()}
    worst = sorted(ratios, key=ratios.get, reverse=large_is_bad)
    return {"mean": statistics.geometric_mean(ordered), **quantiles, "worst": {name: ratios[name] for name in worst[:10]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="bin folder of an environment with the IREE tools")
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="folder", help="what benches/programs/build.py has written")
    parser.add_argument("--only", action="append", help="a program; may be repeated")
    parser.add_argument("--column", action="append", help="a runtime (default: all); may be repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=2, help="in each run (default: 2)")
    parser.add_argument("--seconds", type=float, default=0.01, help="per repetition (default: 0.01)")
    parser.add_argument("--processor", type=int, default=1, help="to run on (default: 1)")
    parser.add_argument("--nice", type=int, default=0, help="run at this niceness; below 0 needs the right to")
    parser.add_argument("--vireo", type=pathlib.Path, default=VIREO, help="the command to measure")
    parser.add_argument("--others", type=pathlib.Path, default=OTHERS, help="the folder of the commands of benches/others")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything to this file")
    arguments = parser.parse_args()
    columns = runners(arguments.tools, arguments.vireo, arguments.others)
    check_names(arguments.column, list(columns))
    columns = {label: one for label, one in columns.items() if not arguments.column or label in arguments.column}
    for _, (command, *_) in columns.items():
        if not pathlib.Path(command[0]).exists():
            sys.exit(f"build first: there is no {command[0]}")
    programs, left_out = [], []
    for folder in arguments.folders:
        manifest = json.loads((folder / "programs.json").read_text())
        programs += [(folder.resolve(), entry) for entry in manifest["programs"]]
        left_out += manifest["miscompiled"]
    check_names(arguments.only, [entry["name"] for _, entry in programs])

    print(f"{'program':<16}" + "".join(f"{label:>11}" for label in columns) + "".join(f"{f'{a}/{b}':>14}" for a, b, _ in RATIOS))
    others, results, failures = Others(), {}, {}
    for folder, entry in programs:
        name = entry["name"]
        if arguments.only and name not in arguments.only:
            continue
        found = {label: result_of([*command, *flags(folder, entry, suffix)]) for label, (_, command, suffix) in columns.items()}
        if len(set(found.values())) != 1 or not isinstance(next(iter(found.values())), int):
            failures[name] = "results differ: " + ", ".join(f"{label} {value}" for label, value in found.items())
            print(f"{name:<16} {failures[name]}", flush=True)
            continue
        try:
            one = results[name] = measure(folder, entry, columns, arguments)
        except Failed as failure:
            failures[name] = str(failure)
            print(f"{name:<16} {failure}", flush=True)
            continue
        ratios = [f"{one[a] / one[b]:>13.2f}x" if a in one and b in one else f"{'-':>14}" for a, b, _ in RATIOS]
        print(f"{name:<16}" + "".join(f"{duration(value):>11}" for value in one.values()) + "".join(ratios), flush=True)

    summaries = {}
    for numerator, denominator, large_is_bad in RATIOS:
        label = f"{numerator}/{denominator}"
        summaries[label] = one = summary(results, numerator, denominator, large_is_bad)
        if one is None:
            continue
        print(f"\n{label}: " + ", ".join(f"{key} {one[key]:.2f}" for key in ("mean", "least", "p10", "median", "p90", "most")))
        print("  worst: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in one["worst"].items()))
    share = others.share()
    load = f"; other processes used {share:.0%} of the machine" if share is not None else ""
    print(f"\n{len(results)} programs, {len(failures)} failed, {len(left_out)} were left out because iree-compile gives wrong code{load}.")
    if arguments.json:
        written = {"results": results, "summaries": summaries, "failures": failures, "left_out": left_out, "others": share}
        arguments.json.write_text(json.dumps(written, indent=1) + "\n")
    sys.exit(1 if failures or not results else 0)


if __name__ == "__main__":
    main()
