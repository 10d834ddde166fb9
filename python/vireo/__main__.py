"""`python -m vireo`: the command, and `bind`, which writes a Python module for a model."""

from __future__ import annotations

import signal
import sys

from . import _vireo


def main() -> int:
    """Does what the arguments say."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["bind"]:
        from ._bind import main as bind

        return bind(arguments[1:])
    # The command runs outside of the interpreter, which therefore could not act on an interrupt.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    return _vireo._command(["vireo", *arguments])


if __name__ == "__main__":
    sys.exit(main())
