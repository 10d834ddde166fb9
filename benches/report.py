#!/usr/bin/env python3
"""Measures and writes one page with charts: `benches/report.py TOOLS --out report.html [--networks FOLDER]`.

TOOLS is the bin folder of an environment with the released IREE tools (3.13.0), FOLDER what `benches/models/build.py --processor=vmvx` has
written. The page shows the programs of fixtures/bench on the interpreter and on the machine code of Vireo, on the reference runtime (IREE's own), Wasmtime (Cranelift)
and wasmi and as native Rust, as far as they are there, and the networks whose kernels are portable bytecode. It needs no network and no
other file. The measurements are beside it as JSON; `--from report.json` draws the page again without measuring.

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

import compare
import compare_models
from measure import Failed, Others, check_names
from report_page import page

# What is shown of the networks: the column, and for which processor the module is compiled.
NETWORK_COLUMNS = {"jit": "vmvx", "interp": "vmvx", "IREE": "vmvx", "IREE native": "host"}


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
        tools = {label: commands.get(label.split()[0]) for label, processor in NETWORK_COLUMNS.items() if processor in compiled}
        tools = {label: command for label, command in tools.items() if command}
        figures = compare_models.alternate(
            [(label, command, compiled[NETWORK_COLUMNS[label]]) for label, command in tools.items()],
            ("local-sync", "local-sync", [options.processor], [], list(tools)),
            options,
        )
        rows.append({"name": name, "columns": {label: figure.report() for label, figure in figures.items()}})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path, nargs="?", help="bin folder of an environment with the IREE tools")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("report.html"), help="the page (default: report.html)")
    parser.add_argument("--networks", type=pathlib.Path, metavar="FOLDER", help="what benches/models/build.py has written")
    parser.add_argument("--from", type=pathlib.Path, dest="source", metavar="JSON", help="draw what was measured before")
    parser.add_argument("--only", action="append", help="a program or network; may be repeated")
    compare.add_options(parser)
    options = parser.parse_args()
    if options.source:
        options.out.write_text(page(json.loads(options.source.read_text())))
        return
    if not options.tools:
        parser.error("TOOLS is missing")
    manifest = options.networks and options.networks / "models.json"
    built = json.loads(manifest.read_text()) if manifest and manifest.exists() else []
    check_names(options.only, [name for name, *_ in compare.PROGRAMS] + list(dict.fromkeys(entry["name"] for entry in built)))
    commands, contexts, skipped = compare.columns(options.tools, options.vireo, options.processor)
    if not commands:
        sys.exit("nothing to measure:\n" + "\n".join(f"{label}: {why}" for label, why in skipped.items()))
    others = Others()
    measured = {
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "machine": machine(),
        "versions": versions(commands, contexts, options.tools, options.vireo),
        "settings": {key: getattr(options, key) for key in ("rounds", "repetitions", "seconds", "processor", "nice")},
        "programs": programs(commands, options),
        "networks": [],
        "skipped": skipped,
    }
    if options.networks:
        try:
            measured["networks"] = networks(options.networks, commands, options)
        except Failed as failure:
            skipped["networks"] = str(failure)
    else:
        skipped["networks"] = "no --networks=FOLDER was given"
    measured["others"] = others.share()
    for label, why in skipped.items():
        print(f"{label}: skipped: {why}", file=sys.stderr)
    beside = options.out.with_suffix(".json")
    beside.write_text(json.dumps(measured, indent=1) + "\n")
    options.out.write_text(page(measured))
    print(f"wrote {options.out} and {beside}")


if __name__ == "__main__":
    main()
