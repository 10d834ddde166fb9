#!/usr/bin/env python3
"""Prints what captures and profiles cost, and how fast replays are, for each model of fixtures/models: `benches/compare_recordings.py TOOLS`.

TOOLS is the bin folder of an environment with the released IREE tools (3.13). Build first: `cargo xtask dist`. For each call of the manifest there is
the processor time of a call with `vireo benchmark`; what `--device_replay_output` and `--device_profiling_mode=queue-events,host-execution` add to it, and add
to one of `iree-benchmark-module`; and the time of the calls of a capture when `vireo replay benchmark` replays them, as a multiple of that of
`iree-benchmark-replay` for the same file and of that of the call, and the processor time of a replay of a whole capture of one call as
a multiple of theirs. Quantiles of all follow. Rounds run all commands in turn, and the fastest counts. Scopes have times on the wall alone, so those two
columns need a machine that is idle.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from measure import NANOSECONDS, ROOT, VIREO, Failed, program, report

MODELS = ROOT / "fixtures/models"
CALLS = 100


def cases(arguments):
    """The cases of the manifest that succeed, drawn if there is a limit."""
    manifest = json.loads((MODELS / "manifest.json").read_text())
    found = [
        (case["name"], manifest["modules"][case["module"]]["file"], case["calls"][0])
        for case in manifest["cases"]
        if not any("error" in call for call in case["calls"]) and not case["module"].startswith("aarch64")
    ]
    if arguments.only:
        found = [case for case in found if arguments.only in case[0]]
    if arguments.limit and arguments.limit < len(found):
        found = random.Random(arguments.seed).sample(found, arguments.limit)
    return found


def flags_of(file, call, device):
    inputs = [f"--input=@{MODELS / value[1:]}" if value.startswith("@") else f"--input={value}" for value in call["inputs"]]
    return [f"--module={MODELS / file}", f"--function={call['function']}", f"--device={device}", *inputs]


def measure(tool, flags, seconds, kind):
    """Nanoseconds of one iteration."""
    processors = sorted(os.sched_getaffinity(0))[-1:]
    one = report(tool, flags, seconds, processors)["benchmarks"][0]
    return one[kind] * NANOSECONDS[one["time_unit"]]


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
    return done.stdout


def scope_count(capture, vireo):
    """The number of calls in a capture, each of which is a scope `execute`."""
    rows = output_of([vireo, "replay", "dump", str(capture), "--format=jsonl"]).splitlines()
    return max(1, sum('"replay.scope_begin"' in row and '"execute"' in row for row in rows))


def figures(case, arguments, reference, folder):
    """The figures of a case by their names."""
    name, file, call = case
    flags = flags_of(file, call, arguments.device)
    vireo, theirs = [str(arguments.vireo), "benchmark"], [str(reference["iree-benchmark-module"])]
    profiled = ["--device_profiling_mode=queue-events,host-execution", f"--device_profiling_output={folder / 'out.ireeprof'}"]
    recorded = [f"--device_replay_output={folder / 'out.ireereplay'}"]
    capture, single = folder / "calls.ireereplay", folder / "call.ireereplay"
    for path, count in [(capture, CALLS), (single, 1)]:
        output_of([*vireo, *flags, f"--device_replay_output={path}", "--benchmark_min_warmup_time=0", f"--benchmark_min_time={count}x"])
    device = f"--device={arguments.device}"
    replay, their_replay = [vireo[0], "replay", "benchmark"], [str(reference["iree-benchmark-replay"])]
    calls, whole = [str(capture), "--replay_scope=execute", device], [str(single), device]
    runs = {
        "call": (vireo, flags, "cpu_time"),
        "recorded": (vireo, [*flags, *recorded], "cpu_time"),
        "profiled": (vireo, [*flags, *profiled], "cpu_time"),
        "their call": (theirs, flags, "cpu_time"),
        "their recorded": (theirs, [*flags, *recorded], "cpu_time"),
        "their profiled": (theirs, [*flags, *profiled], "cpu_time"),
        "real call": (vireo, flags, "real_time"),
        "replay": (replay, calls, "real_time"),
        "their replay": (their_replay, calls, "real_time"),
        "whole": (replay, whole, "cpu_time"),
        "their whole": (their_replay, whole, "cpu_time"),
    }
    fastest, failures = {}, {}
    for _ in range(arguments.rounds):
        for key, (tool, its_flags, kind) in runs.items():
            try:
                time = measure(tool, its_flags, arguments.seconds, kind)
            except Failed as failure:
                failures[key] = str(failure)
                continue
            fastest[key] = min(time, fastest.get(key, time))
    count = scope_count(capture, vireo[0])
    for key in ["replay", "their replay"]:
        if key in fastest:
            fastest[key] /= count
    return fastest, failures


def ratio(figures, one, other):
    return figures[one] / figures[other] if one in figures and other in figures else None


def added(figures, one, other):
    return figures[one] - figures[other] if one in figures and other in figures else None


COLUMNS = {
    "record us": lambda f: added(f, "recorded", "call") and added(f, "recorded", "call") / 1e3,
    "IREE us": lambda f: added(f, "their recorded", "their call") and added(f, "their recorded", "their call") / 1e3,
    "profile %": lambda f: ratio(f, "profiled", "call") and 100 * (ratio(f, "profiled", "call") - 1),
    "IREE %": lambda f: ratio(f, "their profiled", "their call") and 100 * (ratio(f, "their profiled", "their call") - 1),
    "replay/call": lambda f: ratio(f, "replay", "real call"),
    "replay/IREE": lambda f: ratio(f, "replay", "their replay"),
    "whole/IREE": lambda f: ratio(f, "whole", "their whole"),
}


def quantiles(values):
    ordered = sorted(values)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    return {"least": ordered[0], "median": statistics.median(ordered), "0.9": at(0.9), "worst": ordered[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="bin folder of an environment with the IREE tools")
    parser.add_argument("--vireo", type=pathlib.Path, default=VIREO, help="the command to measure")
    parser.add_argument("--device", default="local-sync")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.05, help="the time of a measurement")
    parser.add_argument("--limit", type=int, help="draw so many calls")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the draw")
    parser.add_argument("--only", help="calls whose names have this text")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything to this file")
    arguments = parser.parse_args()
    reference = {name: program(arguments.tools, name) for name in ["iree-benchmark-module", "iree-benchmark-replay"]}
    for path in [arguments.vireo, *reference.values()]:
        if not path.exists():
            sys.exit(f"skipped: there is no {path}")
    print(f"{'call':<34}{'call us':>9}" + "".join(f"{name:>13}" for name in COLUMNS))
    everything = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(arguments):
            try:
                fastest, failures = figures(case, arguments, reference, pathlib.Path(folder))
            except Failed as failure:
                print(f"{case[0]:<34}  {str(failure).splitlines()[-1]}")
                continue
            values = {name: value(fastest) for name, value in COLUMNS.items()}
            everything[case[0]] = {"fastest_ns": fastest, "failures": failures, **values}
            cells = "".join(f"{value:>13.2f}" if value is not None else f"{'-':>13}" for value in values.values())
            print(f"{case[0]:<34}{fastest.get('call', 0) / 1e3:>9.2f}{cells}", flush=True)
    for name in ["least", "median", "0.9", "worst"]:
        cells = []
        for column in COLUMNS:
            values = [one[column] for one in everything.values() if one[column] is not None]
            cells.append(f"{quantiles(values)[name]:>13.2f}" if values else f"{'-':>13}")
        print(f"{name:<43}" + "".join(cells))
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
