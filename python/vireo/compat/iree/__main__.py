"""`python -m vireo.compat.iree program.py`: runs a program for `iree.runtime` on this runtime."""

from __future__ import annotations

import os
import runpy
import sys

from . import install, overlay

USAGE = "usage: python -m vireo.compat.iree (program.py | -m module) [arguments]"


def main() -> None:
    """Runs the program that the arguments name."""
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    if is_module:
        arguments = arguments[1:]
    if not arguments or (arguments[0].startswith("-") and not is_module):
        sys.exit(USAGE)
    install()
    # Processes that the program starts get the package, too.
    folder = str(overlay())
    sys.path.insert(1, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    sys.argv = arguments
    if is_module:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
