#!/usr/bin/env python3
"""Prints how long one call takes from the start of the command to its end, and how much memory: `benches/compare_start.py TOOLS FOLDER`.

TOOLS is the bin folder of an environment with the released IREE tools (3.13.0), FOLDER what `benches/models/build.py` has written. Build
first: `cargo xtask dist`. Each round runs `vireo run` and `iree-run-module` in turn, on one processor if the device is `local-sync`; files are in the page cache after the
first round, which is not counted. Memory is the peak of the resident set, in which the touched pages of mapped files count.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import sys

from measure import VIREO, Failed, check_names, go_on_nice, once, peak_memory, program

# How many runs are made for the peak of memory, the least of which counts.
MEMORY_RUNS = 3


def networks(arguments):
    """The flags of a call of each network, by its name."""
    manifest = arguments.folder / "models.json"
    if not manifest.exists():
        sys.exit(f"build the networks first: benches/models/build.py {arguments.tools} {arguments.folder}")
    entries = [entry for entry in json.loads(manifest.read_text()) if entry["processor"] == arguments.compiled_for]
    check_names(arguments.only, [entry["name"] for entry in entries])
    return {
        entry["name"]: [f"--module={entry['module']}", "--function=main", *entry["inputs"], "--output_max_element_count=8"]
        for entry in entries
        if not arguments.only or entry["name"] in arguments.only
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="bin folder of an environment with the IREE tools")
    parser.add_argument("folder", type=pathlib.Path, help="what benches/models/build.py has written")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--device", default="local-sync")
    parser.add_argument("--compiled-for", default="host", help="which modules: host or generic (default: host)")
    parser.add_argument("--only", action="append", help="a network; may be repeated")
    parser.add_argument("--start", metavar="FLAGS", help="measure the start with these flags, as one word, instead of the networks")
    parser.add_argument("--nice", type=int, default=0, help="run at this niceness; below 0 needs the right to")
    parser.add_argument("--vireo", type=pathlib.Path, default=VIREO, help="the command to measure")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything to this file")
    arguments = parser.parse_args()
    reference = program(arguments.tools, "iree-run-module")
    if not reference.exists():
        sys.exit(f"skipped: there is no {reference}")
    if not arguments.vireo.exists():
        sys.exit("build first: cargo xtask dist")
    starts = {"start": shlex.split(arguments.start)} if arguments.start else networks(arguments)
    if arguments.nice:
        go_on_nice(arguments.nice)
    if arguments.device == "local-sync":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    tools = {"vireo": [str(arguments.vireo), "run"], "IREE": [str(reference)]}
    report = {}
    columns = "".join(f"  {name:>9} {'median':>9} {'memory':>10}" for name in tools)
    print(f"{'network':<14}{columns}  {'time':>6} {'memory':>7}   (vireo/IREE)")
    for name, flags in starts.items():
        call = [f"--device={arguments.device}", *flags]
        runs = {tool: [] for tool in tools}
        try:
            for number in range(arguments.rounds + 1):
                for tool, command in tools.items():
                    seconds = once([*command, *call])
                    if number > 0:
                        runs[tool].append(seconds)
            peaks = {tool: min(peak_memory([*command, *call]) for _ in range(MEMORY_RUNS)) for tool, command in tools.items()}
        except Failed as failure:
            print(f"{name:<14}  {failure}")
            continue
        report[name] = {}
        cells = ""
        for tool, wall in runs.items():
            figure = {"fastest_s": min(wall), "median_s": statistics.median(wall), "peak_bytes": peaks[tool]}
            report[name][tool] = figure
            cells += f"  {figure['fastest_s'] * 1e3:>6.2f} ms {figure['median_s'] * 1e3:>6.2f} ms {figure['peak_bytes'] / 1e6:>7.1f} MB"
        ours, theirs = report[name]["vireo"], report[name]["IREE"]
        print(f"{name:<14}{cells}  {ours['fastest_s'] / theirs['fastest_s']:>5.2f}x {ours['peak_bytes'] / theirs['peak_bytes']:>6.2f}x", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
