#!/usr/bin/env python3
"""Measures everything and writes one page with charts: `benches/report.py TOOLS --out report.html [--networks FOLDER] [--sweep FOLDER]`.

TOOLS is the bin folder of an environment with the released IREE tools (3.13.0); the FOLDERs are what `benches/models/build.py` (for vmvx and
for the host) and `benches/sweep/build.py` have written. The page shows the programs of fixtures/bench on the interpreter and on the machine
code of Vireo, on the reference runtime (IREE's own), Wasmtime (Cranelift) and wasmi and as native Rust, as far as they are there; calls
from Rust; networks whose kernels are portable bytecode, and the same as machine code on one and two processors; how long a start takes; and
the distribution of the sweep. It needs no network and no other file. The measurements are beside it as JSON; `--from report.json` draws the
page again without measuring.

The ratios of all that are compared with benches/figures.json, the figures that are quoted: what became slower by more than 5 % is
printed, worst first, and the exit code is 1. `--keep` replaces the figures; then run `cargo xtask figures`, which quotes them in README.md.
A run of everything takes 10 to 20 minutes on two processors.

Build first:
  cargo xtask dist
  cargo build --release --manifest-path benches/others/Cargo.toml
  RUSTFLAGS=-Ctarget-cpu=native cargo build --release --manifest-path benches/others/Cargo.toml -p vireo-bench-native
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import compare
import compare_models
import figures
from measure import ROOT, Failed, Others, check_names
from report_page import page

# What is shown of the networks: the column, the command that runs it, and for which processor the module is compiled.
NETWORK_COLUMNS = {
    "jit": ("jit", "vmvx"),
    "interp": ("interp", "vmvx"),
    "IREE": ("IREE", "vmvx"),
    "IREE native": ("IREE", "host"),
    "Vireo native": ("jit", "host"),
}
CALLS = ROOT / "benches/others/target/release/vireo-bench-calls"
CALL_COLUMNS = ["nanoseconds", "jit", "interp", "call_into", "Wasmtime", "ratio", "wasmi", "ratio"]
NETWORK_ROUNDS = 5
# Two processors are compared with one.
BOTH = ["--setting=local-sync", "--setting=local-task, two", "--no-spin"]


def first_line(command):
    try:
        result = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    lines = [line for line in (result.stdout or result.stderr).splitlines() if line.strip()]
    return lines[0].strip() if lines else None


def machine():
    """What the figures depend on."""
    description = {"system": f"{platform.system()} {platform.release()}", "architecture": platform.machine(), "processors": os.cpu_count()}
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return description
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = fields.get("flags", "").split()
    description["processor"] = fields.get("model name")
    description["vectors"] = next((name for flag, name in [("avx512f", "AVX-512"), ("avx2", "AVX2")] if flag in flags), None)
    return description


def versions(commands, contexts, tools, vireo):
    """What each column is, for the legend."""
    text = {"jit": (first_line([str(vireo), "--version"]) or "").removeprefix("vireo ")}
    if "IREE" in commands:
        text["IREE"] = iree_version(tools)
    for label, context in contexts.items():
        if "engine" in context:
            text[label] = context["engine"]
    return text


def iree_version(tools):
    """The benchmark command does not say."""
    result = subprocess.run([tools / "iree-compile", "--version"], capture_output=True, text=True)
    lines = [line.strip() for line in result.stdout.splitlines() if "IREE compiler version" in line]
    return f"{lines[0].replace(' compiler version', '').split(' @')[0]}" if lines else None


def programs(commands, options):
    rows = []
    for program in compare.PROGRAMS:
        name, argument, steps, step = program
        if options.only and name not in options.only:
            continue
        print(f"{name} ...", file=sys.stderr, flush=True)
        figures = compare.measure(commands, program, options)
        row = {"name": name, "argument": argument, "step": step, "steps": steps}
        rows.append({**row, "columns": {label: figure.report() for label, figure in figures.items()}})
    return rows


def networks(folder, commands, options):
    """Calls of networks on one thread; the device is `local-sync`."""
    manifest = folder / "models.json"
    if not manifest.exists():
        raise Failed(f"there is no {manifest}: build the networks first with benches/models/build.py")
    entries = {}
    for entry in json.loads(manifest.read_text()):
        entries.setdefault(entry["name"], {})[entry["processor"]] = entry
    rows = []
    for name, compiled in entries.items():
        if "vmvx" not in compiled or options.only and name not in options.only:
            continue
        print(f"{name} ...", file=sys.stderr, flush=True)
        tools = [(label, commands[tool], compiled[processor]) for label, (tool, processor) in NETWORK_COLUMNS.items() if tool in commands and processor in compiled]
        row = ("local-sync", "local-sync", [options.processor], [], [label for label, *_ in tools])
        found = compare_models.alternate(tools, row, options)
        rows.append({"name": name, "columns": {label: figure.report() for label, figure in found.items()}})
    return rows


def script(name, arguments, options):
    """What another script of this folder measures, as it writes it to JSON."""
    print(f"{name} {' '.join(map(str, arguments))} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "measured.json"
        command = [sys.executable, ROOT / "benches" / name, *arguments, f"--vireo={options.vireo}", f"--nice={options.nice}", f"--json={out}"]
        result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not out.exists():
            raise Failed(f"{name} failed:\n{result.stderr.strip()}")
        return json.loads(out.read_text())


def on_two(options):
    """Networks on one and on two processors, with kernels of either kind: times beside the reference runtime's, and the gain of the second."""
    native = script("compare_models.py", [options.tools, options.networks, *BOTH, "--rounds=5", "--repetitions=2"], options)
    bytecode = script("compare_models.py", [options.tools, options.networks, *BOTH, "--compiled-for=vmvx", "--ours", "--rounds=3"], options)
    scaling = {kind: {name: times["vireo"] for name, times in one["scaling"].items() if times.get("vireo")} for kind, one in [("native", native), ("bytecode", bytecode)]}
    return native["results"], scaling


def calls(options):
    """Calls from Rust and into Rust, of Vireo, Wasmtime and wasmi, as the program's table has them."""
    if not CALLS.exists():
        raise Failed(f"there is no {CALLS}: {compare.OTHERS_BUILD}")
    print(f"{CALLS.name} ...", file=sys.stderr, flush=True)
    command = ["taskset", "-c", str(options.processor), "nice", "-n", str(options.nice), CALLS]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"{CALLS.name} failed:\n{result.stderr.strip()}")
    heading, *rows = [line.split() for line in result.stdout.splitlines()]
    if heading != CALL_COLUMNS:
        raise Failed(f"{CALLS.name} prints other columns than {CALL_COLUMNS}: {heading}")
    # The first cell is the name; ratios are computed again.
    return {name: dict(zip(["jit_ns", "interp_ns", "call_into_ns", "wasmtime_ns", "ratio", "wasmi_ns"], map(float, times))) for name, *times in rows}


def parts(measured, skipped, options):
    """What other scripts measure: each part that can be had."""

    def part(name, missing, measure):
        if missing:
            skipped[name] = missing
            return
        try:
            measured[name] = measure()
        except Failed as failure:
            skipped[name] = str(failure)

    no_networks = None if options.networks else "no --networks=FOLDER was given"
    part("calls", None, lambda: calls(options))
    part("networks", no_networks, lambda: networks(options.networks, options.commands, options))
    part("start", no_networks, lambda: script("compare_start.py", [options.tools, options.networks, "--rounds=40"], options))
    part("native", no_networks, lambda: on_two(options))
    if isinstance(measured["native"], tuple):
        measured["native"], measured["scaling"] = measured["native"]
    no_sweep = None if options.sweep else "no --sweep=FOLDER was given"
    part("sweep", no_sweep, lambda: script("compare_sweep.py", [options.sweep, f"--processor={options.processor}"], options)["distribution"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, nargs="?", help="bin folder of an environment with the IREE tools")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("report.html"), help="the page (default: report.html)")
    parser.add_argument("--networks", type=pathlib.Path, metavar="FOLDER", help="what benches/models/build.py has written")
    parser.add_argument("--sweep", type=pathlib.Path, metavar="FOLDER", help="what benches/sweep/build.py has written")
    parser.add_argument("--keep", action="store_true", help="replace the figures that are quoted by those of this run")
    parser.add_argument("--from", type=pathlib.Path, dest="source", metavar="JSON", help="draw what was measured before")
    parser.add_argument("--only", action="append", help="a program or network; may be repeated")
    compare.add_options(parser)
    options = parser.parse_args()
    if options.source:
        measured = json.loads(options.source.read_text())
        options.out.write_text(page(measured))
        sys.exit(judge(measured, options))
    if not options.tools:
        parser.error("TOOLS is missing")
    manifest = options.networks and options.networks / "models.json"
    built = json.loads(manifest.read_text()) if manifest and manifest.exists() else []
    check_names(options.only, [name for name, *_ in compare.PROGRAMS] + list(dict.fromkeys(entry["name"] for entry in built)))
    commands, contexts, skipped = compare.columns(options.tools, options.vireo, options.processor)
    if not commands:
        sys.exit("nothing to measure:\n" + "\n".join(f"{label}: {why}" for label, why in skipped.items()))
    others, options.commands = Others(), commands
    measured = {
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "commit": figures.commit(),
        "machine": machine(),
        "versions": versions(commands, contexts, options.tools, options.vireo),
        "settings": {key: getattr(options, key) for key in ("rounds", "repetitions", "seconds", "processor", "nice")},
        "programs": programs(commands, options),
        "networks": [],
        "calls": {},
        "start": {},
        "native": {},
        "scaling": {},
        "sweep": {},
        "skipped": skipped,
    }
    # Calls of networks on the reference interpreter take seconds.
    options.rounds = min(options.rounds, NETWORK_ROUNDS)
    parts(measured, skipped, options)
    measured["others"] = others.share()
    for label, why in skipped.items():
        print(f"{label}: skipped: {why}", file=sys.stderr)
    beside = options.out.with_suffix(".json")
    beside.write_text(json.dumps(measured, indent=1) + "\n")
    options.out.write_text(page(measured))
    print(f"wrote {options.out} and {beside}")
    sys.exit(judge(measured, options))


def judge(measured, options):
    """Prints what became slower than the kept figures, or keeps the new ones: the exit code."""
    slower, lines = figures.compare(measured, figures.kept(measured))
    print("\n".join(lines))
    if options.keep:
        figures.keep(measured)
        print(f"wrote {figures.KEPT}; `cargo xtask figures` quotes it")
        return 0
    return 1 if slower else 0


if __name__ == "__main__":
    main()
