#!/usr/bin/env python3
"""Prints the linker script that puts together what a start of the command runs: `benches/start_order.py COMMAND STARTS...`.

COMMAND is the shipped command with its names, `cargo xtask dist --names`, and each of STARTS the flags of a `COMMAND run`, as one word; the most frequent
start is the first, and what the others run besides comes after it. It needs valgrind. Functions that a start runs are spread over the whole
program otherwise, and each page of them is a fault of its own. `cargo xtask dist` takes the output as `target/dist/start_order.ld`, so a release is
built with and without names; a name that is gone does no harm, and one that is missing costs its part of the gain.
"""

import argparse
import collections
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

# More functions than this with the same machine code are not worth their names: one of them is found by its own.
MOST_ALIASES = 8


def run(command):
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def pattern(name):
    """A name without what changes with each build: the hash of a function, and those of crates."""
    name, suffix, _ = name.partition(".llvm.")
    return re.sub(r"Cs[0-9A-Za-z]{8,13}_", "Cs*_", name) + ("*" if suffix else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", type=pathlib.Path, help="the command, with names")
    parser.add_argument("starts", nargs="+", help="the flags of a run, as one word")
    arguments = parser.parse_args()
    address_of, names_at = {}, collections.defaultdict(list)
    for line in run(["nm", str(arguments.command)]).splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "tTwW":
            address_of[fields[2]] = fields[0]
            names_at[fields[0]].append(fields[2])
    if not address_of:
        sys.exit(f"{arguments.command} has no names: cargo xtask dist --names")
    functions = collections.defaultdict(set)
    for name, address in address_of.items():
        functions[pattern(name)].add(address)
    ran = []
    with tempfile.TemporaryDirectory() as folder:
        for flags in arguments.starts:
            profile = pathlib.Path(folder) / "profile"
            start = [str(arguments.command.resolve()), "run", *shlex.split(flags)]
            run(["valgrind", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={profile}", *start])
            lines = profile.read_text(errors="replace").splitlines()
            ran += [found[1] for line in lines if (found := re.match(r"c?fn=\(\d+\) ([^'\s]+)", line))]
    # The functions of the program by the names that they are linked by. A name of many functions, most of which do not run, would bring these along.
    order, started = {}, {address_of[name] for name in ran if name in address_of}
    for name in ran:
        if name not in address_of:
            continue
        aliases = names_at[address_of[name]]
        for alias in [name, *(aliases if len(aliases) < MOST_ALIASES else [])]:
            found = pattern(alias)
            if 2 * len(functions[found] & started) >= len(functions[found]):
                order[found] = None
    print("/* Written by benches/start_order.py: what a start runs. */\nSECTIONS {\n  .text_start : {")
    for name in order:
        print(f"    *(.text*.{name})")
    print("  }\n} INSERT BEFORE .text;")


if __name__ == "__main__":
    main()
