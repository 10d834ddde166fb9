#!/usr/bin/env python3
"""Compares the networks of benches/models with the reference runtime, IREE's own: `benches/compare_models.py TOOLS FOLDER`.

TOOLS is the bin folder of an environment with the released IREE tools (3.13.0), FOLDER what `benches/models/build.py` has written. Build
first: `cargo build --release --bin vireo`. Each round runs `vireo benchmark` and `iree-benchmark-module` in turn on the same file; the
time is that on the wall, the fastest and the median of all repetitions. Both run on the same processors: one, and two for `local-task`.
IREE's `local-task` is measured as it comes, and with workers that look for work for 50 us before they sleep.

`vireo/IREE` below 1 is a figure in our favour. `~` marks figures whose median is more than a fifth above the fastest: something else ran
on the machine, so take more rounds. For one thread (`local-sync`) there is the ratio of processor time as well, which others hardly change.
The second table is how much faster `local-task` on two processors is than `local-sync`.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

from measure import VIREO, Failed, Figure, Others, check_names, read_anew, times

SPIN = "--task_worker_spin_us=50"
# A tool that makes so many calls in the time of a repetition runs as many times as long in shorter turns, so that what slows the machine for a second
# meets all tools alike.
MANY_CALLS = 100
TURNS = 4


def settings(processors, spin, ours):
    """(name, device, processors, flags for both tools, tools): the columns of each row. Workers choose their processors themselves, so
    the topology is given for one processor as well."""
    one = processors[:1]
    reference = [] if ours else ["IREE"]
    task = ["vireo", *reference, *(["IREE spinning"] if spin and not ours else [])]
    rows = [("local-sync", "local-sync", one, [], ["vireo", *reference])]
    rows.append(("local-task, one", "local-task", one, [f"--task_topology_cpu_ids={one[0]}"], task))
    if len(processors) > 1:
        listed = ",".join(map(str, processors))
        rows.append(("local-task, two", "local-task", processors, [f"--task_topology_cpu_ids={listed}"], task))
    return rows


def duration(nanoseconds):
    if nanoseconds is None:
        return "-"
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.2f} {unit}"
    return f"{nanoseconds:.0f} ns"


def alternate(tools, row, options):
    """The figures of a row, by label: rounds in which each tool, given as (label, command, entry), runs once or in turns."""
    _, device, processors, flags, _ = row
    figures = {label: Figure() for label, _, _ in tools}
    for _, _, entry in tools:
        read_anew([entry["module"], *entry["inputs"]])
    for turn in range(options.rounds * TURNS):
        for label, command, entry in tools:
            figure = figures[label]
            # The first time tells which these are.
            many = bool(figure.times) and figure.fastest() * MANY_CALLS < options.seconds * 1e9
            if figure.failure is not None or not many and turn % TURNS != 0:
                continue
            arguments = [f"--module={entry['module']}", f"--device={device}", "--function=main", *entry["inputs"], *flags]
            seconds = options.seconds / TURNS if many else options.seconds
            try:
                measured = times(command, arguments, seconds, processors, ("real_time", "cpu_time"), options.repetitions, options.nice)
                figure.times += [real for real, _ in measured]
                figure.processor_times += [processor for _, processor in measured]
            except Failed as failure:
                figure.failure = str(failure)
                print(failure, file=sys.stderr)
    return figures


def measure(commands, entry, row, options):
    """Alternates between the tools of a row."""
    return alternate([(tool, commands[tool], entry) for tool in row[4]], row, options)


def ratio(above, below):
    return above / below if above and below else None


def show_ratio(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}x"


def print_row(name, setting, figures):
    ours = figures["vireo"]
    cells = [f"{duration(ours.fastest()):>10} {duration(ours.median()):>10}"]
    for tool, figure in figures.items():
        if tool != "vireo":
            mark = "~" if ours.noisy() or figure.noisy() else " "
            cells.append(f"{duration(figure.fastest()):>10} {duration(figure.median()):>10} {show_ratio(ratio(ours.fastest(), figure.fastest())):>7}{mark}")
    if setting == "local-sync":
        # The median of what each needed, which no other process adds to, except by what it leaves in the caches.
        needed = [statistics.median(figure.processor_times) if figure.processor_times else None for figure in figures.values()]
        if len(needed) > 1:
            cells.append(f"processor time {show_ratio(ratio(*needed))}")
    print(f"{name:<14} {setting:<16} {'  '.join(cells)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, help="bin folder of an environment with the IREE tools")
    parser.add_argument("folder", type=pathlib.Path, help="what benches/models/build.py has written")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repetitions", type=int, default=3, help="in each run (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.05, help="per repetition (default: 0.05)")
    parser.add_argument("--processors", default="1,0", help="two to run on; what needs one takes the first (default: 1,0)")
    parser.add_argument("--compiled-for", default="host", help="which modules: host or generic (default: host)")
    parser.add_argument("--only", action="append", help="a network; may be repeated")
    parser.add_argument("--setting", action="append", help="a row: local-sync, or `local-task, one`, or `local-task, two`; may be repeated")
    parser.add_argument("--no-spin", action="store_true", help="leave out IREE with workers that spin")
    parser.add_argument("--ours", action="store_true", help="leave out IREE, for how much faster two processors are alone")
    parser.add_argument("--nice", type=int, default=0, help="run at this niceness; below 0 needs the right to")
    parser.add_argument("--vireo", type=pathlib.Path, default=VIREO, help="the command to measure")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything to this file")
    arguments = parser.parse_args()
    reference, vireo = arguments.tools / "iree-benchmark-module", arguments.vireo
    if not reference.exists():
        sys.exit(f"skipped: there is no {reference}")
    if not vireo.exists():
        sys.exit("build first: cargo build --release --bin vireo")
    manifest = arguments.folder / "models.json"
    if not manifest.exists():
        sys.exit(f"build the networks first: benches/models/build.py {arguments.tools} {arguments.folder}")
    commands = {"vireo": [str(vireo), "benchmark"], "IREE": [str(reference)], "IREE spinning": [str(reference), SPIN]}
    processors = [int(processor) for processor in arguments.processors.split(",")][: os.cpu_count()]
    entries = [entry for entry in json.loads(manifest.read_text()) if entry["processor"] == arguments.compiled_for]
    check_names(arguments.only, [entry["name"] for entry in entries])
    entries = [entry for entry in entries if not arguments.only or entry["name"] in arguments.only]
    rows = [row for row in settings(processors, not arguments.no_spin, arguments.ours) if not arguments.setting or row[0] in arguments.setting]

    others, results = Others(), {}
    heading = f"{'vireo':>10} {'median':>10}  {'IREE':>10} {'median':>10} {'vireo/IREE':>11}"
    spinning = "" if arguments.no_spin else f"  {'spinning':>7} {'median':>10} {'ratio':>7}"
    print(f"{'network':<14} {'device, cores':<16} {heading}{spinning}")
    for entry in entries:
        results[entry["name"]] = {}
        for row in rows:
            figures = measure(commands, entry, row, arguments)
            results[entry["name"]][row[0]] = figures
            print_row(entry["name"], row[0], figures)

    print(f"\n{'local-sync / local-task, two':<31} {'vireo':>8} {'IREE':>8} {'spinning':>10}")
    scaling = {}
    for name, measured in results.items():
        if "local-sync" not in measured or "local-task, two" not in measured:
            continue
        one, two = measured["local-sync"], measured["local-task, two"]
        base = {tool: one["IREE" if tool.startswith("IREE") else tool].fastest() for tool in two}
        scaling[name] = {tool: ratio(base[tool], figure.fastest()) for tool, figure in two.items()}
        cells = [f"{show_ratio(scaling[name].get(tool)):>{width}}" for tool, width in [("vireo", 8), ("IREE", 8), ("IREE spinning", 10)]]
        print(f"{name:<31} {' '.join(cells)}")
    share = others.share()
    if share is not None:
        print(f"\nOther processes used {share:.0%} of the machine meanwhile.")
    if arguments.json:
        report = {name: {setting: {tool: figure.report() for tool, figure in figures.items()} for setting, figures in measured.items()} for name, measured in results.items()}
        arguments.json.write_text(json.dumps({"results": report, "scaling": scaling, "others": share}, indent=1) + "\n")


if __name__ == "__main__":
    main()
