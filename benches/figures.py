"""The figures that are quoted: ratios of what benches/report.py has measured, kept in benches/figures.json, and what became slower since.

Each figure is the time (or memory) of Vireo as a multiple of that of another on the same work in the same run, so less is better, and
what kind of day the machine has matters little. What kind of machine it is matters: figures are kept for each, with date and commit, and
compared with those of the same one. Those of the machine that was measured last are quoted.
"""

import datetime
import json
import pathlib
import subprocess

from measure import ROOT

KEPT = ROOT / "benches/figures.json"
# A figure that is larger than the kept one by more than this became slower.
SLOWER = 1.05
# Whom the programs of the VM are compared with: the tier of Vireo, and the other.
PROGRAMS_AGAINST = [("jit", "IREE"), ("jit", "wasmtime"), ("jit", "native"), ("interp", "wasmi")]
# The same for whole networks whose kernels are bytecode.
NETWORKS_AGAINST = [("jit", "IREE"), ("jit", "Vireo native")]


def commit():
    """The commit that is measured, marked if files differ from it."""
    described = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--abbrev=10", "--dirty=+"], capture_output=True, text=True)
    return described.stdout.strip() or None


def today():
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()


def time_of(columns, label):
    """Of the processor where it is known, which others hardly add to."""
    figure = columns.get(label) or {}
    return figure.get("fastest_processor_ns") or figure.get("fastest_ns")


def ratios(measured):
    """All figures of a report, by name."""
    found = {}

    def add(name, ours, theirs):
        if ours and theirs:
            found[name] = ours / theirs

    for kind, rows, against in [("program", measured["programs"], PROGRAMS_AGAINST), ("bytecode", measured["networks"], NETWORKS_AGAINST)]:
        for row in rows:
            for ours, theirs in against:
                add(f"{kind}.{row['name']}.{theirs}", time_of(row["columns"], ours), time_of(row["columns"], theirs))
    for name, settings in measured.get("native", {}).items():
        for setting, columns in settings.items():
            ours, theirs = columns.get("vireo"), columns.get("IREE")
            if ours and theirs:
                # Threads wait for each other: the time on the wall counts with more than one.
                kind = "fastest_processor_ns" if setting == "local-sync" else "fastest_ns"
                add(f"native.{name}.{setting}", ours[kind], theirs[kind])
    for kind, scaling in measured.get("scaling", {}).items():
        for name, times in scaling.items():
            # What two processors need of the time of one.
            found[f"scaling.{kind}.{name}"] = 1 / times
    for name, one in measured.get("start", {}).items():
        add(f"start.{name}.time", one["vireo"]["fastest_s"], one["IREE"]["fastest_s"])
        add(f"start.{name}.memory", one["vireo"]["peak_bytes"], one["IREE"]["peak_bytes"])
    for name, one in measured.get("calls", {}).items():
        add(f"call.{name}.Wasmtime", one["jit_ns"], one["wasmtime_ns"])
        add(f"call.{name}.wasmi", one["interp_ns"], one["wasmi_ns"])
    for family, one in measured.get("sweep", {}).items():
        for key in ("median", "worst") if family != "all" else ("median", "mean", "p90", "worst"):
            found[f"sweep.{family}.{key}"] = one[key]
    if "all" in measured.get("sweep", {}):
        found["sweep.above"] = 1 - measured["sweep"]["all"]["bearable"]
    return found


def machine_of(measured):
    """The machine as the figures name it."""
    machine = measured["machine"]
    return f"{machine.get('processor')} ({machine.get('vectors')}), {machine['processors']} processors"


def machines(file=KEPT):
    """All that is kept: figures by name, for each machine."""
    return json.loads(file.read_text())["machines"] if file.exists() else {}


def kept(measured, file=KEPT):
    """The figures of the same machine."""
    return machines(file).get(machine_of(measured), {})


def compare(measured, before):
    """Lines about what became slower than the kept figures, as ratios of ratios, worst first; and about what is gone."""
    moved = [(ratio / before[name]["ratio"], name, ratio) for name, ratio in ratios(measured).items() if before.get(name, {}).get("ratio")]
    slower = sorted((one for one in moved if one[0] > SLOWER), reverse=True)
    lines = [f"{change:>6.2f}x  {name}: {before[name]['ratio']:.3f} -> {ratio:.3f}" for change, name, ratio in slower]
    faster = sum(change < 1 / SLOWER for change, _, _ in moved)
    if not before:
        lines.append(f"No figures are kept for this machine, {machine_of(measured)}.")
    lines.append(f"Of {len(moved)} kept figures that were measured, {len(slower)} became worse by more than {SLOWER - 1:.0%}, {faster} better by as much.")
    return slower, lines


def keep(measured, file=KEPT):
    """Replaces the kept figures of this machine by those that were measured; the rest stays as it is, with its own date."""
    machine, all_kept = machine_of(measured), machines(file)
    with_it = {"when": measured["when"][:10], "commit": measured["commit"]}
    all_kept.setdefault(machine, {}).update({name: {"ratio": float(f"{ratio:.4g}"), **with_it} for name, ratio in ratios(measured).items()})
    write(machine, all_kept, file)


def write(quoted, all_kept, file=KEPT):
    about = "Time or memory of Vireo as a multiple of that of others; written by benches/report.py --keep, quoted by README.md (cargo xtask figures)."
    row = lambda figures, name: f"   {json.dumps(name)}: {json.dumps(figures[name])}"
    block = lambda machine, figures: f"  {json.dumps(machine)}: {{\n" + ",\n".join(row(figures, name) for name in sorted(figures)) + "\n  }"
    blocks = ",\n".join(block(machine, all_kept[machine]) for machine in sorted(all_kept))
    pathlib.Path(file).write_text(f'{{"about": {json.dumps(about)},\n "quoted": {json.dumps(quoted)},\n "machines": {{\n{blocks}\n }}}}\n')
