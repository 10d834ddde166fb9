#!/usr/bin/env python3
"""Compares kernels in portable bytecode with machine code of LLVM, both on Vireo: `benches/compare_sweep.py FOLDER`.

FOLDER is what `benches/sweep/build.py` has written. Build first: `cargo xtask dist`. Each round runs `vireo benchmark` on the two modules of a
kernel in turn, with the same inputs, on `local-sync` and one processor. The time of a call is the fastest of all repetitions: processor
time, to which other processes add little, or with `--clock=wall` the time on the wall. A ratio is bytecode over machine code. Results of the
two are compared once.

`--baseline` takes what `--json` has written before, and lists the kernels whose ratio has become worse by more than 5 %.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare_models import duration
from measure import VIREO, Failed, Others, check_names, times

# The order of additions differs, and so do library functions.
TOLERANCES = ["--expected_f32_threshold=0.001", "--expected_f64_threshold=0.000001", "--expected_rtol=0.0001"]
GOOD, BAD = 1.2, 4.0
# What counts as slower than the baseline.
SLOWER = 1.05
DEVICE = ["--device=local-sync", "--function=main"]
CLOCKS = {"processor": "cpu_time", "wall": "real_time"}


def difference(vireo, entry):
    """What differs between the results of the two modules, or none."""
    def run(processor, *flags):
        command = [str(vireo), "run", f"--module={entry['modules'][processor]}", *DEVICE, *entry["inputs"], *flags]
        return subprocess.run(command, capture_output=True, text=True)

    with tempfile.TemporaryDirectory() as folder:
        expected = f"@{folder}/expected.npy"
        native = run("host", f"--output={expected}")
        if native.returncode != 0:
            return f"machine code fails: {native.stderr.strip()}"
        bytecode = run("vmvx", f"--expected_output={expected}", *TOLERANCES)
        return None if bytecode.returncode == 0 else (bytecode.stdout + bytecode.stderr).strip()


def measure(vireo, entry, options):
    """The fastest call of each module in nanoseconds, and all of them."""
    samples = {"vmvx": [], "host": []}
    for _ in range(options.rounds):
        for processor, measured in samples.items():
            arguments = [f"--module={entry['modules'][processor]}", *DEVICE, *entry["inputs"]]
            command = [str(vireo), "benchmark"]
            measured += times(command, arguments, options.seconds, [options.processor], CLOCKS[options.clock], options.repetitions, options.nice)
    return samples


def quantile(ordered, share):
    """The value below which this share of a sorted list is, between neighbours in proportion."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def distribution(ratios):
    ordered = sorted(ratios)
    return {
        "kernels": len(ordered),
        "least": ordered[0],
        "p10": quantile(ordered, 0.1),
        "median": quantile(ordered, 0.5),
        "p90": quantile(ordered, 0.9),
        "worst": ordered[-1],
        "mean": statistics.geometric_mean(ordered),
        "good": sum(ratio <= GOOD for ratio in ordered) / len(ordered),
        "bearable": sum(ratio <= BAD for ratio in ordered) / len(ordered),
    }


def print_kernels(results):
    print(f"{'ratio':>8} {'bytecode':>11} {'native':>11}  {'family':<12} kernel")
    for name, result in sorted(results.items(), key=lambda item: -item[1]["ratio"]):
        shape = name.removeprefix(result["family"] + "_")
        mark = "  RESULTS DIFFER" if result["difference"] else ""
        print(f"{result['ratio']:>7.2f}x {duration(result['bytecode_ns']):>11} {duration(result['native_ns']):>11}  {result['family']:<12} {shape}{mark}")


def print_distributions(distributions):
    head = "".join(f"{label:>9}" for label in ("least", "p10", "median", "p90", "worst", "mean"))
    print(f"\n{'family':<12} {'kernels':>7}{head}  {f'<= {GOOD}x':>8} {f'<= {BAD:.0f}x':>8}")
    for family, one in distributions.items():
        cells = "".join(f"{one[key]:>8.2f}x" for key in ("least", "p10", "median", "p90", "worst", "mean"))
        print(f"{family:<12} {one['kernels']:>7}{cells}  {one['good']:>8.0%} {one['bearable']:>8.0%}")


def print_worst(results, count=10):
    print(f"\nThe worst {min(count, len(results))}:")
    for name, result in sorted(results.items(), key=lambda item: -item[1]["ratio"])[:count]:
        print(f"{result['ratio']:>7.2f}x {duration(result['bytecode_ns']):>11} {duration(result['native_ns']):>11}  {name}")


def sums_of(entries, results):
    """For each network the sum of its kernels, as often as it runs each; none where some were not measured."""
    sums, incomplete = {}, set()
    for entry in entries:
        for network, count in entry.get("runs", {}).items():
            result = results.get(entry["name"])
            if result is None:
                incomplete.add(network)
                continue
            one = sums.setdefault(network, {"kernels": 0, "bytecode_ns": 0.0, "native_ns": 0.0})
            one["kernels"] += count
            one["bytecode_ns"] += count * result["bytecode_ns"]
            one["native_ns"] += count * result["native_ns"]
    for one in sums.values():
        one["ratio"] = one["bytecode_ns"] / one["native_ns"]
    return {network: one for network, one in sums.items() if network not in incomplete}


def print_sums(sums):
    print(f"\n{'network':<14} {'kernels':>7} {'ratio':>8} {'bytecode':>11} {'native':>11}")
    for network, one in sums.items():
        print(f"{network:<14} {one['kernels']:>7} {one['ratio']:>7.2f}x {duration(one['bytecode_ns']):>11} {duration(one['native_ns']):>11}")


def print_slower(results, baseline):
    """What became slower than the baseline, and how all of it moved."""
    shared = {name: (baseline[name], result) for name, result in results.items() if name in baseline}
    if not shared:
        print("\nThe baseline has none of these kernels.")
        return
    moved = {name: new["ratio"] / old["ratio"] for name, (old, new) in shared.items()}
    slower = sorted((name for name in moved if moved[name] > SLOWER), key=lambda name: -moved[name])
    print(f"\nOf {len(shared)} kernels of the baseline, {len(slower)} have a ratio that is worse by more than {SLOWER - 1:.0%}:")
    for name in slower:
        old, new = shared[name]
        times = f"bytecode {duration(old['bytecode_ns'])} -> {duration(new['bytecode_ns'])}, native {duration(old['native_ns'])} -> {duration(new['native_ns'])}"
        print(f"{moved[name]:>7.2f}x  {name}: {old['ratio']:.2f}x -> {new['ratio']:.2f}x; {times}")
    better = sum(value < 1 / SLOWER for value in moved.values())
    print(f"{better} are better by as much; the geometric mean of all moved by {statistics.geometric_mean(moved.values()):.3f}x.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="what benches/sweep/build.py has written")
    parser.add_argument("--family", action="append", help="kernels whose family begins so; may be repeated")
    parser.add_argument("--only", action="append", help="a kernel; may be repeated")
    parser.add_argument("--limit", type=int, help="measure that many, evenly spread over the table")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=4, help="in each run (default: 4)")
    parser.add_argument("--seconds", type=float, default=0.01, help="per repetition (default: 0.01)")
    parser.add_argument("--processor", type=int, default=1, help="to run on (default: 1)")
    parser.add_argument("--clock", choices=CLOCKS, default="processor", help="which time (default: processor)")
    parser.add_argument("--nice", type=int, default=0, help="run at this niceness; below 0 needs the right to")
    parser.add_argument("--no-check", action="store_true", help="do not compare results")
    parser.add_argument("--baseline", type=pathlib.Path, help="a file that --json has written")
    parser.add_argument("--vireo", type=pathlib.Path, default=VIREO, help="the command to measure")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything to this file")
    arguments = parser.parse_args()
    if not arguments.vireo.exists():
        sys.exit("build first: cargo xtask dist")
    manifest = arguments.folder / "sweep.json"
    if not manifest.exists():
        sys.exit(f"build the kernels first: benches/sweep/build.py TOOLS {arguments.folder}")
    baseline = json.loads(arguments.baseline.read_text())["results"] if arguments.baseline else None
    entries = json.loads(manifest.read_text())
    check_names(arguments.only, [entry["name"] for entry in entries])
    entries = [entry for entry in entries if not arguments.only or entry["name"] in arguments.only]
    entries = [entry for entry in entries if not arguments.family or entry["family"].startswith(tuple(arguments.family))]
    if arguments.limit and arguments.limit < len(entries):
        entries = [entries[index * len(entries) // arguments.limit] for index in range(arguments.limit)]

    others, results, failures, sums = Others(), {}, {}, {}
    for count, entry in enumerate(entries, start=1):
        name = entry["name"]
        if sys.stderr.isatty():
            print(f"\r{count:>4} of {len(entries)}: {name:<70}", end="", file=sys.stderr, flush=True)
        missing = {"vmvx", "host"} - entry["modules"].keys()
        if missing:
            failures[name] = f"not compiled for {', '.join(sorted(missing))}"
            continue
        try:
            samples = measure(arguments.vireo, entry, arguments)
        except Failed as failure:
            failures[name] = str(failure)
            continue
        fastest = {processor: min(measured) for processor, measured in samples.items()}
        results[name] = {
            "family": entry["family"],
            "ratio": fastest["vmvx"] / fastest["host"],
            "bytecode_ns": fastest["vmvx"],
            "native_ns": fastest["host"],
            "bytecode_median_ns": statistics.median(samples["vmvx"]),
            "native_median_ns": statistics.median(samples["host"]),
            "difference": None if arguments.no_check else difference(arguments.vireo, entry),
        }
    if sys.stderr.isatty():
        print(f"\r{'':<84}\r", end="", file=sys.stderr)

    distributions = {}
    if results:
        families = sorted({result["family"] for result in results.values()})
        for family in families:
            distributions[family] = distribution([result["ratio"] for result in results.values() if result["family"] == family])
        distributions["all"] = distribution([result["ratio"] for result in results.values()])
        print_kernels(results)
        print_distributions(distributions)
        print_worst(results)
        sums = sums_of(entries, results)
        if sums:
            print_sums(sums)
    for name, failure in failures.items():
        print(f"\nnot measured: {name}: {failure}")
    differing = {name: result["difference"] for name, result in results.items() if result["difference"]}
    for name, text in differing.items():
        print(f"\nresults differ: {name}:\n{text}")
    if baseline is not None:
        print_slower(results, baseline)
    share = others.share()
    if share is not None:
        print(f"\nOther processes used {share:.0%} of the machine meanwhile.")
    if arguments.json:
        report = {"clock": arguments.clock, "distribution": distributions, "networks": sums, "results": results, "failures": failures, "others": share}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if failures or differing else 0)


if __name__ == "__main__":
    main()
